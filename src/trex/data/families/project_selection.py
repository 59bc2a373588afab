"""Project selection: yearly budgets with limited carry-over, projects that need others, and exclusive pairs.

Weingartner's capital budgeting with whole projects. Money not spent may wait for the next year, up to a limit.
"""

import itertools
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABEL, LABELS, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import Names, Scenario, code

SIZES = {
    1: {"projects": (6, 8), "years": (2, 3), "conflicts": (1, 2)},
    2: {"projects": (17, 24), "years": (3, 4), "conflicts": (3, 4)},
    3: {"projects": (100, 110), "years": (3, 3), "conflicts": (12, 15)},
    4: {"projects": (205, 225), "years": (3, 3), "conflicts": (25, 30)},
}
SMALL = 8  # projects up to which all choices are tried


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: nothing has to be chosen. Every project costs money in one year, some in two.

    Yearly budgets are 25 to 60 % of what all projects together need. A project needs only projects before it,
    and at least one needs another.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    projects, years, conflicts = sets["projects"], sets["years"], sets["conflicts"]
    cost: dict[str, dict[str, int]] = {}
    for p in projects:
        first = rng.randrange(len(years))
        busy = years[first : first + rng.choice((1, 1, 1, 2))]
        cost[p] = {t: rng.randint(5, 60) for t in busy}
    value = {p: max(3, round(sum(cost[p].values()) * rng.uniform(0.2, 2))) for p in projects}
    needs: dict[str, list[str]] = {p: [] for p in projects}
    for k, p in enumerate(projects):
        if k and (rng.random() < 0.3 or (p == projects[-1] and not any(needs.values()))):
            needs[p] = [projects[j] for j in sorted(rng.sample(range(k), min(k, rng.choice((1, 1, 2)))))]
            value[p] = round(value[p] * 1.3)
    free = [pair for pair in itertools.combinations(projects, 2) if pair[0] not in needs[pair[1]]]
    pairs = rng.sample(free, len(conflicts))
    totals = {t: sum(cost[p].get(t, 0) for p in projects) for t in years}
    budget = {t: max(20, round(totals[t] * rng.uniform(0.25, 0.6))) for t in years}
    return {
        **sets, "value": value, "cost": cost, "needs": needs,
        "first": {c: pair[0] for c, pair in zip(conflicts, pairs, strict=True)},
        "second": {c: pair[1] for c, pair in zip(conflicts, pairs, strict=True)},
        "budget": budget, "carry_limit": max(1, round(min(budget.values()) * rng.uniform(0.1, 0.3))),
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Choice of projects and money carried over as a mixed-integer linear program."""
    projects, years, cost = data["projects"], data["years"], data["cost"]
    needed = [(p, q) for p in projects for q in data["needs"][p]]
    m = pyo.ConcreteModel()
    m.choose = pyo.Var(projects, domain=pyo.Binary)
    m.carry = pyo.Var(years, domain=pyo.NonNegativeReals)
    m.gain = pyo.Expression(expr=sum(data["value"][p] * m.choose[p] for p in projects))
    m.objective = pyo.Objective(expr=m.gain, sense=pyo.maximize)
    before = {t: m.carry[years[k - 1]] if k else 0 for k, t in enumerate(years)}
    m.budget = pyo.Constraint(
        years,
        rule=lambda m, t: (
            sum(cost[p][t] * m.choose[p] for p in projects if t in cost[p]) + m.carry[t]
            <= data["budget"][t] + before[t]
        ),
    )
    m.carry_limit = pyo.Constraint(years, rule=lambda m, t: m.carry[t] <= data["carry_limit"])
    m.precedence = pyo.Constraint(needed, rule=lambda m, p, q: m.choose[p] <= m.choose[q])
    m.exclusion = pyo.Constraint(
        data["conflicts"], rule=lambda m, c: m.choose[data["first"][c]] + m.choose[data["second"][c]] <= 1
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """No money carried: what each span of years costs is covered by its budgets and the most it can inherit."""
    years = data["years"]
    m = gp.Model("spans")
    drop = m.addVars(data["projects"], vtype=gp.GRB.BINARY, name="drop")
    for first, last in itertools.combinations_with_replacement(range(len(years)), 2):
        span = years[first : last + 1]
        need = {p: sum(data["cost"][p].get(t, 0) for t in span) for p in data["projects"]}
        means = sum(data["budget"][t] for t in span) + (data["carry_limit"] if first else 0)
        m.addConstr(drop.prod(need) >= sum(need.values()) - means, name=f"span[{span[0]},{span[-1]}]")
    for p in data["projects"]:
        for q in data["needs"][p]:
            m.addConstr(drop[p] >= drop[q], name=f"needs[{p},{q}]")
    for c in data["conflicts"]:
        m.addConstr(drop[data["first"][c]] + drop[data["second"][c]] >= 1, name=f"not_both[{c}]")
    m.setObjective(sum(data["value"].values()) - drop.prod(data["value"]), gp.GRB.MAXIMIZE)
    return m


def optimum(data: dict) -> float | None:
    """By trying every choice; None above eight projects. All numbers are whole."""
    projects = data["projects"]
    if len(projects) > SMALL:
        return None
    pairs = [(data["first"][c], data["second"][c]) for c in data["conflicts"]]
    best = 0
    for size in range(len(projects) + 1):
        for chosen in map(set, itertools.combinations(projects, size)):
            if any(not set(data["needs"][p]) <= chosen for p in chosen) or any(set(pair) <= chosen for pair in pairs):
                continue
            carried = 0
            for t in data["years"]:
                left = carried + data["budget"][t] - sum(data["cost"][p].get(t, 0) for p in chosen)
                carried = min(left, data["carry_limit"])
                if left < 0:
                    break
            else:
                best = max(best, sum(data["value"][p] for p in chosen))
    return float(best)


def _scenario(domain: str, business: str, project: str, projects: str, board: str, gain: str, unit: str, money: str,
              projects_named: Names) -> Scenario:  # fmt: skip
    told = {
        "business": business, "project": project, "projects": projects, "board": board, "gain": gain, "unit": unit,
        "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {
        "projects": projects_named, "years": Names(code="Y", order="first"), "conflicts": code("Q"),
    })  # fmt: skip


SCENARIOS = (
    _scenario("industry", "chemicals group", "investment", "investments", "board", "net present value",
              "million euros", "million euros", code("I")),
    _scenario("research", "research council", "proposal", "proposals", "panel", "merit", "points", "thousand francs",
              code("R")),
    _scenario("public works", "port city", "building project", "building projects", "council", "public benefit",
              "points", "hundred thousand dollars", code("B")),
    _scenario("software", "software house", "feature", "features", "product board", "expected revenue",
              "thousand dollars", "developer weeks", code("F")),
    _scenario("railways", "railway company", "upgrade", "upgrades", "management", "time saved",
              "thousand passenger hours", "million crowns", code("U")),
    _scenario("health", "hospital trust", "programme", "programmes", "trustees", "health gain", "life-years",
              "thousand pounds", code("P")),
    _scenario("conservation", "nature foundation", "scheme", "schemes", "trustees", "ecological value", "points",
              "thousand euros", code("S")),
)  # fmt: skip

FAMILY = Family(
    title="Selection of projects under yearly budgets",
    area="finance",
    source="H. M. Weingartner, Mathematical Programming and the Analysis of Capital Budgeting Problems, 1963",
    sizes=SIZES,
    sets=(
        IndexSet("projects", "{project}", "{projects}", "p", "P"),
        IndexSet("years", "year", "years in their order", "t", "T"),
        IndexSet("conflicts", "conflict", "conflicts, each of two {projects}", "c", "C"),
    ),
    fields=(
        Field("value", ("projects",), "{gain}", "{unit}", "v_p", (
            "{project} {0} has a {gain} of {value} {unit}", "{0} adds {value} {unit} of {gain}",
        )),
        Field("cost", ("projects", "years"), "spending", "{money}", "a_{pt}", (
            ("if chosen, {0} takes", "{value} {money} in {1}"),
            ("the spending on {0}, should it be chosen, is", "{value} {money} in {1}"),
        )),
        Field("needs", ("projects",), "required {projects}", "", "N_p", (
            "{projects} without which {0} cannot be chosen: {value}", "required for {0}: {value}",
        ), kind=LABELS),
        Field("first", ("conflicts",), "one {project}", "", "i_c", (
            "one side of conflict {0} is {value}", "in conflict {0}, one {project} is {value}",
        ), kind=LABEL),
        Field("second", ("conflicts",), "other {project}", "", "j_c", (
            "the other side of conflict {0} is {value}", "in conflict {0}, the other {project} is {value}",
        ), kind=LABEL),
        Field("budget", ("years",), "budget", "{money}", "b_t", (
            "the budget of {0} is {value} {money}", "{value} {money} are granted for {0}",
            "in {0} the {board} provides {value} {money}",
        )),
        Field("carry_limit", (), "largest amount carried over", "{money}", "k", (
            "from one year to the next, at most {value} {money} can be carried over",
            "no more than {value} {money} may be kept at the end of a year for the next",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("choose", BINARY, "x_p", "1 if {project} $p$ is chosen", "{project} {0} is chosen"),
            Variables("carry", CONTINUOUS, "r_t", "{money} carried over from year $t$ to the next"),
        ),
        sense="maximize",
        goal=("total {gain}", "{unit}"),
        objective=(Term("gain", r"\sum_{p \in P} v_p x_p", (
            "What the chosen {projects} contribute adds up, and each {project} can be chosen only once.",
            "Each {project} exists once; it counts in full if it is chosen and not at all otherwise.",
        )),),
        constraints=(
            Clause("budget", r"\sum_{p \in P} a_{pt} x_p + r_t \le b_t + r_{t-1}", r"t \in T", (
                "The spending of a year has to come from its budget and from what was carried over from the year "
                "before; nothing comes into the first year, and nothing can be borrowed.",
                "In each year the chosen {projects} can spend the budget of that year and what the year before left "
                "over for it; before the first year there is nothing left over, and there is no credit.",
            )),
            Clause("carry_limit", r"r_t \le k", r"t \in T", (
                "What is not spent can be carried over to the next year up to a limit, without interest; the rest "
                "lapses. Money carried over and not needed then counts as unspent again.",
                "Unspent money, that which was carried over before included, may be carried over, within the limit; "
                "what exceeds it is lost. No interest is earned.",
            )),
            Clause("precedence", r"x_p \le x_q", r"p \in P,\ q \in N_p", (
                "A {project} can be chosen only if every one that is required for it is chosen too.",
                "Whoever chooses a {project} has to choose all those that it requires.",
            )),
            Clause("exclusion", r"x_{i_c} + x_{j_c} \le 1", r"c \in C", (
                "Of the two {projects} of a conflict, one at most can be chosen.",
                "The two sides of a conflict exclude each other: they cannot both be chosen.",
            )),
        ),
        integrality=(
            "A {project} is chosen whole or not at all; amounts carried over may be fractional.",
            "There is one yes-or-no decision for each {project}; money carried over need not come in whole amounts.",
        ),
        fixed=("that {projects} are indivisible", "which {projects} require which", "that unspent money beyond the "
               "limit lapses"),
        mistakes=(
            Mistake("precedence the wrong way round", "m.choose[p] <= m.choose[q]", "m.choose[q] <= m.choose[p]"),
            Mistake("nothing is carried over", "m.carry[years[k - 1]] if k else 0", "0"),
            Mistake("exactly one of two that exclude each other", '[data["second"][c]] <= 1',
                    '[data["second"][c]] == 1'),
            Mistake("projects in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "The {board} of a {business} has more {projects} before it than the coming budgets allow.",
        "A {business} draws up its programme of {projects} for several years.",
        "Which {projects} a {business} takes on has to be settled for the next years at once.",
    ),
    questions=(
        "Which {projects} should be chosen so that the total {gain} is as large as possible?",
        "Select the {projects} with the largest total {gain}, and state it in {unit}.",
        "Maximise the total {gain} of the chosen {projects}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="budgets of all spans of years instead of money carried over, and the projects dropped",
    optimum=optimum,
)  # fmt: skip
