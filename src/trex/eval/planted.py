"""Answers with one known failure, and right ones in several styles: what the evaluator is tried on.

An answer's program is the family's own, with one change of the Pyomo model before it is solved. Each change is made
here too, and solved: one that leaves the optimum as it was is not planted.
"""

import inspect
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from trex.data import families
from trex.data.contract import BINARY, INTEGER
from trex.data.problem import DataError, Problem
from trex.data.program import program
from trex.eval import planted_changes as change
from trex.eval.items import Item
from trex.eval.scores import right
from trex.eval.sets import problem_of
from trex.eval.taxonomy import CONSTRAINTS, DIRECTION, DISCRETE, EXECUTION, PROTOCOL, RATIO, STATUS, STRUCTURAL
from trex.solver.pyomo_model import from_pyomo
from trex.solver.solve import solve

BUILT = "m = model(data)\n"
LONGEST = 20.0  # seconds to solve a changed model
MOST = 40  # changes of one kind that are tried
UNITS = (1000.0, 0.001, 60.0, 12.0, 24.0, 100.0)
Tries = Iterator[tuple[Callable[..., None], dict[str, Any]]]


def _turned(model: Any, item: Item, rng: random.Random) -> Tries:
    yield change.turn_objective, {}


def _relaxed(model: Any, item: Item, rng: random.Random) -> Tries:
    if _whole_variables(item):
        yield change.relax, {}


def _whole(model: Any, item: Item, rng: random.Random) -> Tries:
    for name in _shuffled([name for name in _variables(item) if name not in _whole_variables(item)], rng):
        yield change.make_whole, {"name": name}


def _forgotten(model: Any, item: Item, rng: random.Random) -> Tries:
    for name in _shuffled(_constraints(item.family), rng):
        yield change.forget, {"name": name}


def _forgotten_row(model: Any, item: Item, rng: random.Random) -> Tries:
    for name, number in _rows(model, item.family, rng):
        yield change.forget_one, {"name": name, "number": number}


def _added(model: Any, item: Item, rng: random.Random) -> Tries:
    names = [name for name in _variables(item) if name not in _whole_variables(item)]
    if not names:
        name = _variables(item)[0]
        yield from ((change.at_most, {"name": name, "most": float(most)}) for most in (4, 3, 2, 1))
        return
    name = rng.choice(names)
    for number in _shuffled(range(len(model.component(name))), rng):
        yield change.at_least, {"name": name, "number": number, "least": float(rng.randint(3, 6))}


def _side(model: Any, item: Item, rng: random.Random) -> Tries:
    for name, number in _rows(model, item.family, rng):
        for more in _shuffled((-2.0, -1.0, 1.0, 2.0, 5.0), rng):
            yield change.other_side, {"name": name, "number": number, "more": more}


def _other_way(model: Any, item: Item, rng: random.Random) -> Tries:
    for name in _shuffled(_constraints(item.family), rng):
        yield change.other_way, {"name": name}


def _objective_units(model: Any, item: Item, rng: random.Random) -> Tries:
    yield change.scale_objective, {"factor": rng.choice(UNITS)}


def _side_units(model: Any, item: Item, rng: random.Random) -> Tries:
    for name in _shuffled(_constraints(item.family), rng):
        yield from ((change.scale_sides, {"name": name, "factor": factor}) for factor in _shuffled(UNITS, rng))


def _contradiction(model: Any, item: Item, rng: random.Random) -> Tries:
    yield change.contradict, {"name": rng.choice(_variables(item))}


def _without_end(model: Any, item: Item, rng: random.Random) -> Tries:
    yield change.without_end, {}


def _constant(model: Any, item: Item, rng: random.Random) -> Tries:
    assert item.answer is not None
    yield change.constant, {"value": item.answer + rng.randint(1, 9)}


def _another(model: Any, item: Item, rng: random.Random) -> Tries:
    yield change.another_problem, {"size": rng.randint(2, 5)}


CHANGES: dict[str, tuple[str, Callable[[Any, Item, random.Random], Tries]]] = {
    "objective turned": (DIRECTION, _turned),
    "relaxed": (DISCRETE, _relaxed),
    "whole quantities": (DISCRETE, _whole),
    "constraint forgotten": (CONSTRAINTS, _forgotten),
    "row forgotten": (CONSTRAINTS, _forgotten_row),
    "constraint added": (CONSTRAINTS, _added),
    "other side": (CONSTRAINTS, _side),
    "other way round": (CONSTRAINTS, _other_way),
    "objective in other units": (RATIO, _objective_units),
    "sides in other units": (RATIO, _side_units),
    "contradiction": (STATUS, _contradiction),
    "unbounded": (STATUS, _without_end),
    "constant": (STRUCTURAL, _constant),
    "another problem": (STRUCTURAL, _another),
}
# class, and what is put behind the line that builds the model ("{first}" is the name of a variable)
LINES = {
    "wrong import": (PROTOCOL, "from pyomo.environ import ConcretModel\n"),
    "wrong interface": (PROTOCOL, "m.addConstr(m.{first} <= 3)\n"),
    "wrong argument": (PROTOCOL, "m.more = pyo.Var(lower=0)\n"),
    "missing key": (PROTOCOL, 'penalty = data["penalties_of_nobody"]\n'),
    "missing file": (PROTOCOL, 'import json\nmore = json.load(open("more_data.json"))\n'),
    "endless loop": (EXECUTION, "while True:\n    pass\n"),
    "memory": (EXECUTION, "kept = [b'x' * 2**28 for _ in range(2**12)]\n"),
    "division by zero": (EXECUTION, "share = 1 / (len(data) - len(data))\n"),
    "crash": (EXECUTION, "import os\nos.abort()\n"),
}
TEXTS = {
    "prose": (PROTOCOL, "The best plan follows from comparing the ratios of gain and use.\n\nThe optimum is {answer}."),
    "no model": (PROTOCOL, "The optimum is printed.\n\n```python\nprint('objective:', {answer})\n```\n"),
}
RIGHT = ("right", "right, in a function", "right, other names", "right, unclosed fence", "right, after a draft")
KINDS = (*RIGHT, *TEXTS, *LINES, *CHANGES)


def planted(item: Item, kind: str, seed: int) -> tuple[str, str] | None:
    """An answer's text, and the class of its failure, "" for a right one; None where the kind does not apply.

    The same arguments give the same text. Raises DataError for an unknown kind and for an item of no family.
    """
    if kind not in KINDS:
        raise DataError(f"kind {kind!r}; accepted: {', '.join(KINDS)}")
    problem, mode = problem_of(item)
    rng = random.Random(f"planted/{item.id}/{kind}/{seed}")
    if kind in TEXTS:
        expected, text = TEXTS[kind]
        return text.format(answer=item.answer), expected
    code = program(problem, mode)
    if kind in RIGHT:
        return _right(code, kind), ""
    if kind in LINES:
        expected, lines = LINES[kind]
        return _answer(code.replace(BUILT, BUILT + lines.format(first=_variables(item)[0]))), expected
    expected, tries = CHANGES[kind]
    original = families.get(item.family).model(problem.data)
    for (function, arguments), _ in zip(tries(original, item, rng), range(MOST), strict=False):
        if _changes(problem, item, function, arguments, expected):
            named = "".join(f", {name}={value!r}" for name, value in arguments.items())
            source = inspect.getsource(function).replace(": Any", "")
            call = f"{BUILT}{function.__name__}(m{named})\n"
            return _answer(code.replace(f"\n{BUILT}", f"\n\n{source}\n\n{call}")), expected
    return None


def _changes(problem: Problem, item: Item, function: Callable[..., None], arguments: dict[str, Any], kind: str) -> bool:
    """Whether the change makes the optimum another one; or none, for a change of that class alone."""
    model = families.get(item.family).model(problem.data)
    function(model, **arguments)
    found = solve(from_pyomo(model), LONGEST)
    if kind == STATUS:
        return found.status in ("infeasible", "unbounded")
    return found.status == "optimal" and not right(found.objective, item.answer)


def _answer(code: str) -> str:
    return (
        f"The model has variables, an objective and constraints.\n\n```python\n{code}```\n\nRun it for the optimum.\n"
    )


def _right(code: str, kind: str) -> str:
    """The program as it is, or written in another way."""
    if kind == "right, in a function":
        head, solving = code.split(BUILT)
        body = "".join(f"    {line}\n" if line else "\n" for line in (BUILT + solving).splitlines())
        code = f"{head}def main():\n{body}\n\nif __name__ == '__main__':\n    main()\n"
    elif kind == "right, other names":
        for old, new in (("m", "plan"), ("model", "make_plan"), ("result", "outcome"), ("data", "given")):
            code = re.sub(rf"(?<![\w.\"])\b{old}\b(?![\w\"]|\.json)", new, code)
    elif kind == "right, unclosed fence":
        return f"Here is the program.\n\n```Python\n{code}"
    elif kind == "right, after a draft":
        draft = "import pyomo.environ as pyo\nmodel = pyo.ConcreteModel()\n# variables and constraints follow\n"
        return f"First the outline:\n\n```python\n{draft}```\n\n{_answer(code)}"
    return _answer(code)


def _variables(item: Item) -> list[str]:
    return [variables.name for variables in families.get(item.family).contract.variables]


def _whole_variables(item: Item) -> list[str]:
    contract = families.get(item.family).contract
    return [variables.name for variables in contract.variables if variables.domain in (BINARY, INTEGER)]


def _constraints(family: str) -> list[str]:
    return [clause.name for clause in families.get(family).contract.constraints]


def _shuffled(names: Any, rng: random.Random) -> list[Any]:
    return rng.sample(list(names), len(names))


def _rows(model: Any, family: str, rng: random.Random) -> list[tuple[str, int]]:
    """Constraints of more than one row, and the numbers of their rows."""
    found = [(name, k) for name in _constraints(family) for k in range(len(model.component(name)))]
    return _shuffled(found, rng)


__all__ = ["CHANGES", "KINDS", "RIGHT", "planted", "problem_of"]
