"""The mathematical model of a problem in words and LaTeX, and its solution in words, written from the contract."""

import re
from collections.abc import Mapping, Sequence

from trex.data.contract import BINARY, CONTINUOUS, DOMAINS, FREE, INTEGER, Variables
from trex.data.family import Family
from trex.data.problem import Problem, nice, sentence
from trex.data.wording import filled

Line = tuple[str, str, str]
LONGEST_ANSWER = 60  # variables that are told one by one
KINDS = {CONTINUOUS: "continuous", INTEGER: "whole numbers", BINARY: "yes or no", FREE: "continuous, of either sign"}


def formulation(family: Family, words: Mapping[str, str]) -> str:
    """Sets, parameters, variables, objective and constraints of a family, in the scenario's words."""
    contract = family.contract
    return model_text(
        [(s.symbol, filled(s.plural, words), s.letter) for s in family.sets],
        [(f.symbol, filled(f.title, words), filled(f.unit, words)) for f in family.fields],
        [(v.symbol, v.domain, filled(v.meaning, words)) for v in contract.variables],
        contract.sense,
        [term.formula for term in contract.objective],
        [(clause.name, clause.formula, clause.over) for clause in contract.constraints],
    )


def model_text(
    sets: Sequence[Line], parameters: Sequence[Line], variables: Sequence[Line], sense: str, terms: Sequence[str],
    constraints: Sequence[Line],
) -> str:  # fmt: skip
    """A model in words and LaTeX.

    sets: symbol, meaning, letter. parameters: symbol, meaning, unit. variables: symbol, domain, meaning. constraints:
    name, formula, what it holds for. sense: minimize or maximize.
    """
    parts = {
        "Sets": [f"- ${symbol}$: the {meaning} (${letter}$)" for symbol, meaning, letter in sets],
        "Parameters": [
            f"- ${symbol}$: {meaning}" + (f" ({unit})" if unit else "") for symbol, meaning, unit in parameters
        ],
        "Variables": [
            f"- ${symbol} {DOMAINS[domain]}$, {KINDS[domain]}: {meaning}" for symbol, domain, meaning in variables
        ],
    }
    goal = " + ".join(terms).replace("+ -", "- ")
    lines = [rf"\{sense[:3]}\ & {goal} \\"]
    for number, (name, formula, over) in enumerate(constraints):
        start = r"\text{s.t.}\ & " if number == 0 else "& "
        where = f" && {over}" if over else " &&"
        lines.append(rf"{start}{formula}{where} && \text{{({name.replace('_', ' ')})}} \\")
    lines[-1] = lines[-1].removesuffix(r" \\")
    body = "\n".join(lines)
    told = [f"{name}:\n" + "\n".join(items) for name, items in parts.items() if items]
    return "\n\n".join([*told, f"$$\n\\begin{{aligned}}\n{body}\n\\end{{aligned}}\n$$"])


def answer(family: Family, problem: Problem, objective: float, values: Mapping[str, float], unique: str) -> str:
    """Objective and decisions in words. unique: "unique", "multiple" or "unknown" optima."""
    goal, unit = (filled(part, problem.words) for part in family.contract.goal)
    best = "least" if family.contract.sense == "minimize" else "largest"
    lines = [f"The {best} {goal} is {nice(objective)}{' ' + unit if unit else ''}."]
    told = [line for v in family.contract.variables if v.says for line in _decisions(v, problem, values)]
    shown = told[:LONGEST_ANSWER]
    if shown:
        lines += ["", *(f"- {line}" for line in shown)]
    if len(told) > len(shown):
        lines.append(f"- and {len(told) - len(shown)} more, which the program prints")
    if told:
        lines += ["", _rest(family, problem, values)]
    if unique == "multiple":
        lines.append(f"Other plans have the same {goal}.")
    elif unique == "unique":
        lines.append("No other plan is as good.")
    return "\n".join(lines)


def _rest(family: Family, problem: Problem, values: Mapping[str, float]) -> str:
    """What is to be known of the variables that are not told."""
    used = {name.split("[")[0] for name, value in values.items() if value}
    untold = [v for v in family.contract.variables if v.name in used and not v.says]
    if not untold:
        return "All other decisions are zero."
    names = "; ".join(f"${v.symbol}$, {filled(v.meaning, problem.words)}" for v in untold)
    return f"All other decisions of these kinds are zero. The program also prints what goes with them: {names}."


def indices(name: str) -> tuple[str, ...]:
    """The members in a component's name: `ship[Lyon,Graz]` has Lyon and Graz."""
    found = re.fullmatch(r"[^\[]+\[(.*)\]", name)
    return tuple(found[1].split(",")) if found else ()


def _decisions(variables: Variables, problem: Problem, values: Mapping[str, float]) -> list[str]:
    return [
        sentence(filled(variables.says, problem.words, *indices(name), value=str(nice(value))))
        for name, value in values.items()
        if name.split("[")[0] == variables.name and value
    ]
