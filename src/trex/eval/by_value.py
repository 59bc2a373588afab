"""What single change gives a model's optimum the label's value: evidence without a reference, and no proof.

Order, which is that of precedence where several changes do: the objective's sense or sign; kinds of variables; a row
or group of rows left out; a factor between label and optimum.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trex.eval import repairs
from trex.eval.factors import PARTS, as_text, is_unit
from trex.eval.scores import RELATIVE, right
from trex.eval.search import CONSTRAINTS, DIRECTION, DISCRETE, RATIO, Cause
from trex.solver.model import Model
from trex.solver.solution import Solution
from trex.solver.solve import solve

MOST = 5  # causes that are looked for
LONGEST = 0.5  # seconds for one solve
BINDS = 1e-6


@dataclass
class _Trials:
    model: Model
    label: float
    deadline: float

    def reaches(self, changed: Model) -> bool:
        """Whether a changed model's optimum is the label."""
        left = self.deadline - time.perf_counter()
        if left <= 0:
            return False
        found = solve(changed, min(left, LONGEST))
        return found.status == "optimal" and right(found.objective, self.label)


def causes_by_value(model: Model, solution: Solution, label: float, time_s: float = 2.0) -> list[Cause]:
    """The changes after which the optimum is the label, by precedence; the unchanged optimum is not."""
    trials = _Trials(model, label, time.perf_counter() + time_s)
    found: list[Cause] = []
    for each in _causes(trials, solution):
        found.append(each)
        if len(found) == MOST:
            break
    return found


def _causes(t: _Trials, solution: Solution) -> Iterator[Cause]:
    model, label, optimum = t.model, t.label, solution.objective if solution.status == "optimal" else None
    if right(optimum, label):
        return
    if t.reaches(repairs.turned(model)):
        yield Cause(DIRECTION, f"with the sense turned to {repairs.TURNED[model.sense]} the optimum is the label")
    elif optimum is not None and label and right(-optimum, label):
        yield Cause(DIRECTION, "the optimum is the label with the other sign")
    yield from _kinds(t)
    yield from _rows(t, solution)
    if optimum and label and is_unit(optimum / label, RELATIVE, PARTS):
        yield Cause(RATIO, f"the optimum is {_factor(optimum / label)} times the label")


def _factor(factor: float) -> str:
    """A factor of UNITS that is known within a tolerance."""
    return as_text(float(round(factor)) if abs(factor) >= 1 else 1 / round(1 / factor))


def _kinds(t: _Trials) -> Iterator[Cause]:
    """All variables continuous, all whole, or those of one name whole or not."""
    model = t.model
    for kind, text in (("continuous", "with all variables continuous"), ("integer", "with all variables integer")):
        if (changed := repairs.of_kind(model, kind)).kinds != model.kinds and t.reaches(changed):
            yield Cause(DISCRETE, f"{text} the optimum is the label")
            return
    by_name = repairs.column_groups(model)
    for name, columns in by_name if len(by_name) > 1 else ():
        for kind in ("continuous", "integer"):
            changed = repairs.of_kind(model, kind, columns)
            if changed.kinds != model.kinds and t.reaches(changed):
                yield Cause(DISCRETE, f"with {name} {kind} the optimum is the label")
                return


def _rows(t: _Trials, solution: Solution) -> Iterator[Cause]:
    """Rows and groups without which the optimum is the label; in a linear program only binding ones can be."""
    model = t.model
    groups = repairs.groups(model)
    binding = _binding(model, solution)
    if binding is not None:
        if not model.integers.size and not model.beyond_linear:
            groups = [group for group in groups if binding & set(group.rows)]
        groups.sort(key=lambda group: not binding & set(group.rows))
    for group in groups:
        if t.reaches(repairs.without_rows(model, group.rows)):
            yield Cause(CONSTRAINTS, f"extra: without {group.name} the optimum is the label")
            return


def _binding(model: Model, solution: Solution) -> set[int] | None:
    """Rows at one of their sides at the optimum; None without one."""
    if solution.status != "optimal" or any(name not in solution.values for name in model.variables):
        return None
    point = np.array([solution.values[name] for name in model.variables])
    found = set()
    for row in range(len(model.rows)):
        left = sum(model.terms(row, point))
        for side in (float(model.row_lower[row]), float(model.row_upper[row])):
            if abs(left - side) <= BINDS * max(1.0, abs(side)):
                found.add(row)
    return found
