"""The mathematical model of a problem in words and LaTeX, and its solution in words, written from the contract."""

import re
from collections.abc import Mapping

from trex.data.contract import BINARY, CONTINUOUS, DOMAINS, FREE, INTEGER, Variables
from trex.data.family import Family
from trex.data.problem import Problem, nice, sentence
from trex.data.wording import filled

LONGEST_ANSWER = 60  # variables that are told one by one
KINDS = {CONTINUOUS: "continuous", INTEGER: "whole numbers", BINARY: "yes or no", FREE: "continuous, of either sign"}


def formulation(family: Family, words: Mapping[str, str]) -> str:
    """Sets, parameters, variables, objective and constraints."""
    contract = family.contract
    sets = [f"- ${s.symbol}$: the {filled(s.plural, words)} (${s.letter}$)" for s in family.sets]
    parameters = []
    for field in family.fields:
        unit = filled(field.unit, words)
        parameters.append(f"- ${field.symbol}$: {filled(field.title, words)}" + (f" ({unit})" if unit else ""))
    variables = [
        f"- ${v.symbol} {DOMAINS[v.domain]}$, {KINDS[v.domain]}: {filled(v.meaning, words)}" for v in contract.variables
    ]
    goal = " + ".join(term.formula for term in contract.objective).replace("+ -", "- ")
    lines = [rf"\{contract.sense[:3]}\ & {goal} \\"]
    for number, clause in enumerate(contract.constraints):
        start = r"\text{s.t.}\ & " if number == 0 else "& "
        over = f" && {clause.over}" if clause.over else " &&"
        lines.append(rf"{start}{clause.formula}{over} && \text{{({clause.name.replace('_', ' ')})}} \\")
    lines[-1] = lines[-1].removesuffix(r" \\")
    body = "\n".join(lines)
    parts = [
        "Sets:\n" + "\n".join(sets),
        "Parameters:\n" + "\n".join(parameters),
        "Variables:\n" + "\n".join(variables),
        f"$$\n\\begin{{aligned}}\n{body}\n\\end{{aligned}}\n$$",
    ]
    return "\n\n".join(parts)


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
