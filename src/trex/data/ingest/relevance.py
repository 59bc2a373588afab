"""How much a text speaks of operations research: hits of a lexicon of its terms, by weight, per 1,000 words."""

import re
from collections import Counter

# weight: 3 says the field, 2 a method or a problem of it, 1 a word that other fields use too
TERMS = {
    3: (
        "operations research", "operational research", "management science", "linear program(?:s|ming)?",
        "(?:mixed[- ])?integer (?:linear )?program(?:s|ming)?", "milps?", "mathematical program(?:s|ming)?",
        "combinatorial optimi[sz]ation", "stochastic program(?:s|ming)?", "dynamic programming",
        "quadratic program(?:s|ming)?", "constraint programming", "convex optimi[sz]ation", "robust optimi[sz]ation",
        "decision variables?", "objective functions?",
        "运筹学", "线性规划", "整数规划", "混合整数", "动态规划", "决策变量", "目标函数",
        "数学规划", "组合优化",
    ),
    2: (
        "simplex (?:method|algorithm|tableau)", "branch[- ]and[- ](?:bound|cut|price)", "cutting planes?",
        "column generation", "benders(?:'s?)? decomposition", "lagrang(?:ian|ean) relaxations?", "shadow prices?",
        "reduced costs?", "complementary slackness", "dual(?:ity)? (?:theorem|problem|theory|variables?)",
        "interior[- ]point", "knapsack", "bin packing", "cutting stock", "travell?ing sales(?:man|person)", "tsp",
        "vehicle routing", "cvrp", "facility location", "p-median", "assignment problems?", "transportation problems?",
        "job[- ]?shop", "flow[- ]?shop", "min(?:imum)?[- ]cost flow", "max(?:imum)?[- ]flow", "network design",
        "shortest paths?", "set (?:covering|partitioning|packing)", "lot[- ]?sizing", "unit commitment",
        "economic order quantity", "newsvendor", "revenue management", "markov decision process(?:es)?",
        "queue?ing theory", "metaheuristics?", "tabu search", "simulated annealing", "genetic algorithms?",
        "local search", "big[- ]m", "lp relaxation", "gurobi", "cplex", "pyomo", "ampl",
        "单纯形", "分支定界", "对偶", "背包问题",
        "车辆路径", "旅行商", "指派问题", "运输问题", "最短路", "最大流", "割平面", "列生成",
    ),
    1: (
        "constraints?", "feasib(?:le|ility)", "infeasible", "optimal(?:ity)?", "optim(?:um|a)",
        "optimi[sz](?:e[sd]?|ing|ation)",
        "minimi[sz](?:e[sd]?|ing|ation)", "maximi[sz](?:e[sd]?|ing|ation)", "schedul(?:e[sd]?|ing)",
        "inventor(?:y|ies)",
        "supply chains?", "capacit(?:y|ies)", "demands?", "solvers?", "heuristics?", "allocation",
        "routing", "binary variables?",
        "约束", "最优", "可行解", "最小化", "最大化", "库存", "调度", "启发式",
    ),
}  # fmt: skip
MOST = 5  # hits of one word that count per 1,000 words: a text is not made relevant by saying one of them often


def _pattern(terms: tuple[str, ...]) -> re.Pattern[str]:
    spaced = (term.replace(" ", r"\s+") for term in sorted(terms, key=len, reverse=True))
    return re.compile("|".join(t if ord(t[0]) > 0x2E80 else rf"(?<!\w){t}(?!\w)" for t in spaced))


PATTERNS = {weight: _pattern(terms) for weight, terms in TERMS.items()}


def relevance(text: str, words: int) -> tuple[float, int]:
    """Weighted hits per 1,000 words, rounded, and how many different ones there are. `words`: of the text."""
    thousands = max(words, 1) / 1000
    total, different, low = 0.0, 0, text.lower()
    for weight, pattern in PATTERNS.items():
        hits = Counter(" ".join(hit.split()) for hit in pattern.findall(low))
        different += len(hits)
        total += weight * sum(min(count, max(1.0, MOST * thousands)) for count in hits.values())
    return round(total / thousands, 2), different
