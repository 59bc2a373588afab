"""How dialogues read: what each task asks, how each style answers, and the modelling checklist of Clean-CoT.

A checklist names what the program builds, in one line each: sets, decisions with their domains, the objective with its
direction, every constraint, where the data are, and the result.
"""

from collections.abc import Sequence

from trex.data import formulation
from trex.data.flywheel.bucket import BOTH, CODE, EXPLAINED, FORMULATE, IMPLEMENT, REPAIR
from trex.data.flywheel.representation import Representation
from trex.data.problem import nice
from trex.data.rendering import DATA_FILE
from trex.data.wording import singular

SYSTEM = (
    "You are an operations-research engineer. You turn decision problems, told in words, into optimisation models and "
    "into Python programs that solve them."
)
LANGUAGE = "Pyomo and HiGHS"
ASKED: dict[str, tuple[str, ...]] = {  # what every style answers: none asks for words that code-only leaves out
    FORMULATE: (
        "Write the mathematical model: sets, parameters, variables, objective and constraints.",
        "State this as a mathematical program, with sets, parameters, variables, objective and constraints.",
        "Formulate the optimisation model. No program is needed.",
    ),
    IMPLEMENT: (
        f"Write a Python program with {LANGUAGE} that builds this model, solves it and prints the optimum.",
        f"Implement this model in Python with {LANGUAGE}, and print the optimum.",
    ),
    BOTH: (
        f"Write a Python program with {LANGUAGE} that models this, solves it and prints the optimum.",
        f"Model this and solve it with a Python program that uses {LANGUAGE} and prints the optimum.",
        f"Build the model in Python with {LANGUAGE}, solve it and print the optimum.",
    ),
    REPAIR: (
        "Repair the program.",
        "Give the program as it should be.",
        "Correct the program.",
    ),
}
MODEL, PROGRAM, ANSWER = "## Model", "## Program", "## Answer"
CHECKLIST, FAULT = "**Modelling checklist**", "**Fault**:"
MEANT = "This program is meant to solve it but is wrong:"
KINDS = {
    "continuous": "continuous, not negative",
    "integer": "whole numbers, not negative",
    "binary": "yes or no",
    "free": "continuous, of either sign",
}
SHOWN = 160  # characters of a constraint's meaning in a checklist


def question(task: str, turn: int, problem: str, model: str, wrong: str) -> str:
    """The user's message: the problem, then what is asked. turn: which of the wordings, any number."""
    wordings = ASKED[task]
    asked = wordings[turn % len(wordings)]
    shown = {
        IMPLEMENT: f"{MODEL}\n\n{model}\n\n",
        REPAIR: f"{MEANT}\n\n{fenced(wrong)}\n\n",
    }.get(task, "")
    return f"{problem}\n\n{shown}{asked}"


def reply(task: str, style: str, model: str, program: str, result: str, checklist: Sequence[str], fault: str) -> str:
    """The assistant's message. result: the optimum in words, "" where it cannot be known; checklist: for Clean-CoT."""
    if style == CODE:
        return fenced(program)
    parts = [f"{FAULT} {fault}"] if task == REPAIR else []
    if style == EXPLAINED:
        parts.append(f"{MODEL}\n\n{model}")
        if task != FORMULATE:
            parts += [f"{PROGRAM}\n\n{fenced(program)}", *([f"{ANSWER}\n\n{result}"] if result else [])]
    else:
        parts.append(f"{CHECKLIST}\n" + "\n".join(checklist))
        parts.append(f"{MODEL}\n\n{model}" if task == FORMULATE else fenced(program))
    return "\n\n".join(parts)


def fenced(program: str) -> str:
    """A program in its fence."""
    return f"```python\n{program.rstrip()}\n```"


def checklist(found: Representation, mode: str, optimum: float | None) -> list[str]:
    """The lines of a representation's checklist. optimum: None where no program is given.

    In mode DPS nobody who answers has seen the data: neither how many members there are nor the optimum can be said.
    """
    counts = {part.name: None if mode == "DPS" else len(found.data[part.name]) for part in found.sets}
    sizes = ", ".join(f"{_counted(counts[part.name], part.meaning)} (`{part.name}`)" for part in found.sets)
    lines = [f"- Sets: {sizes}."] if sizes else []
    for decision in found.decisions:
        lines.append(f"- Decisions: `{decision.name}` ({KINDS[decision.domain]}): {decision.meaning}.")
    lines.append(f"- Objective: {found.sense} {_summed(found)}.")
    lines += [f"- Constraint `{rule.name}`: {shortened(rule.meaning)}" for rule in found.constraints]
    where = f"read from `{DATA_FILE}`" if mode == "DPS" else "as the problem states them, in `data`"
    lines.append(f"- Data: {where}.")
    if optimum is not None and mode != "DPS":
        lines.append(f"- Result: the optimum is {nice(optimum)}{' ' + found.unit if found.unit else ''}.")
    return lines


def _counted(count: int | None, meaning: str) -> str:
    """`3 workers`, `1 worker`; without a count `workers`."""
    return meaning if count is None else f"{count} {singular(meaning) if count == 1 else meaning}"


def _summed(found: Representation) -> str:
    """The objective by the names of its terms, with the weight of those that were weighted."""
    changes = found.origin.changes if found.origin is not None else ()
    weighed = {change.target for change in changes if change.kind == "weigh"}
    said = ""
    for term in found.objective:
        name = f"`weight_{term.name}` times `{term.name}`" if term.name in weighed else f"`{term.name}`"
        minus = term.formula.lstrip().startswith("-")
        said += (" minus " if minus else " plus " if said else "") + name
    return said.strip()


def shortened(meaning: str) -> str:
    """The first sentence of a meaning, or its beginning."""
    first = meaning.split(". ")[0].strip()
    first = first if len(first) <= SHOWN else first[: SHOWN - 1].rsplit(" ", 1)[0] + " …"
    return first if first.endswith((".", "…")) or not first else f"{first}."


def model_text(found: Representation) -> str:
    """Sets, parameters, variables, objective and constraints in words and LaTeX."""
    return formulation.model_text(
        [(part.symbol, part.meaning, part.letter) for part in found.sets],
        [(part.symbol, part.meaning, part.unit) for part in found.parameters],
        [(part.symbol, part.domain, part.meaning) for part in found.decisions],
        found.sense,
        [term.formula for term in found.objective],
        [(rule.name, rule.formula, rule.over) for rule in found.constraints],
    )
