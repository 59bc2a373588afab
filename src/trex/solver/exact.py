"""The exact optimum of a linear program: fractions on the optimal basis, or QSopt_ex where that basis does not hold.

A float stands for the shortest decimal that reads as it: 0.1 is 1/10, as the modeller wrote it, not the binary number
next to it. HiGHS proposes a basis; the point and the multipliers that belong to it are solved for in rational numbers
and checked, sign by sign: where all hold the value is the optimum, whatever HiGHS thought. With integer variables the
integers are fixed where the incumbent has them and the rest is solved: the exact value of the incumbent, which is the
optimum only as far as the bound says.
"""

import time
from dataclasses import dataclass, replace
from fractions import Fraction

import highspy
import numpy as np
from highspy import HighsBasisStatus
from numpy.typing import NDArray

from trex.solver import highs, qsopt
from trex.solver.model import Model, ModelError
from trex.solver.rational import SingularError, solve

TIGHT = 1e-10  # HiGHS' least tolerance


def value(model: Model, point: NDArray[np.float64], seconds: float) -> tuple[Fraction | None, str]:
    """The rational optimum, or None and why there is none. `point` [variables] gives the integers their values."""
    if model.beyond_linear:
        return None, f"no exact value: the model has {' and '.join(model.beyond_linear)}"
    deadline = time.perf_counter() + seconds
    if len(model.integers):
        lower, upper = model.lower.copy(), model.upper.copy()
        lower[model.integers] = upper[model.integers] = np.round(point[model.integers])
        if (lower < model.lower).any() or (upper > model.upper).any():
            return None, "no exact value: a rounded integer lies outside its bounds"
        model = replace(model, lower=lower, upper=upper, kinds=("continuous",) * len(model.kinds))
    program = Program.of(model)
    reason = "HiGHS has no optimal basis"
    for tolerance in (None, TIGHT):
        try:
            basis = _basis(model, max(deadline - time.perf_counter(), 1e-3), tolerance)
            found = None if basis is None else on_basis(program, *basis, deadline)
        except (SingularError, ModelError) as error:
            reason = str(error)
            continue
        if found is not None:
            return found, ""
        if basis is not None:
            reason = "HiGHS' basis is not exactly optimal"
    found, instead = qsopt.value(program, deadline - time.perf_counter())
    return found, "" if found is not None else f"no exact value: {reason}, {instead}"


@dataclass(frozen=True)
class Program:
    """A linear program in fractions; sides and bounds are None where they are infinite."""

    sense: str
    offset: Fraction
    cost: list[Fraction]
    columns: list[tuple[Fraction | None, Fraction | None]]
    rows: list[dict[int, Fraction]]
    sides: list[tuple[Fraction | None, Fraction | None]]

    @classmethod
    def of(cls, model: Model) -> "Program":
        """The linear parts of a model; entries of a row that share a variable are added up."""
        rows: list[dict[int, Fraction]] = []
        for number in range(len(model.rows)):
            row: dict[int, Fraction] = {}
            for j, c in model.row(number):
                row[j] = row.get(j, Fraction(0)) + decimal(c)
            rows.append(row)
        return cls(
            model.sense,
            decimal(model.offset),
            [decimal(c) for c in model.cost.tolist()],
            [(_side(low), _side(high)) for low, high in zip(model.lower.tolist(), model.upper.tolist(), strict=True)],
            rows,
            [
                (_side(low), _side(high))
                for low, high in zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True)
            ],
        )


def decimal(number: float) -> Fraction:
    """The shortest decimal that reads as this float."""
    return Fraction(int(number)) if number.is_integer() and abs(number) < 2**53 else Fraction(repr(number))


def _side(number: float) -> Fraction | None:
    return None if np.isinf(number) else decimal(number)


def _basis(
    model: Model, seconds: float, tolerance: float | None
) -> tuple[list[HighsBasisStatus], list[HighsBasisStatus]] | None:
    """HiGHS' optimal basis, of columns and rows."""
    solver = highs.quiet(seconds)
    if tolerance is not None:
        for option in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            solver.setOptionValue(option, tolerance)
    highs.load(solver, model)
    solver.run()
    basis = solver.getBasis()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal or not basis.valid:
        return None
    return list(basis.col_status), list(basis.row_status)


def on_basis(
    program: Program, columns: list[HighsBasisStatus], rows: list[HighsBasisStatus], deadline: float
) -> Fraction | None:
    """The objective of a basis if its point and its multipliers are feasible, exactly; otherwise None.

    Raises SingularError where the basis is singular or too large.
    """
    basic = [j for j, status in enumerate(columns) if status == HighsBasisStatus.kBasic]
    tight = [i for i, status in enumerate(rows) if status != HighsBasisStatus.kBasic]
    if len(basic) != len(tight):
        raise SingularError(f"a basis of {len(basic)} columns and {len(tight)} rows")
    point: list[Fraction] = []
    for status, bounds in zip(columns, program.columns, strict=True):
        resting = _resting(status, bounds)
        if resting is None:
            return None
        point.append(resting)
    right = []
    for i in tight:
        side = _resting(rows[i], program.sides[i])
        if side is None:
            return None
        right.append(side - sum((c * point[j] for j, c in program.rows[i].items() if point[j]), Fraction(0)))
    place = {j: k for k, j in enumerate(basic)}
    matrix = [{place[j]: c for j, c in program.rows[i].items() if j in place} for i in tight]
    for j, x in zip(basic, solve(matrix, right, deadline), strict=True):
        point[j] = x
    activity = [sum((c * point[j] for j, c in row.items() if point[j]), Fraction(0)) for row in program.rows]
    if not all(_between(x, bounds) for x, bounds in zip(point, program.columns, strict=True)):
        return None
    if not all(_between(a, sides) for a, sides in zip(activity, program.sides, strict=True)):
        return None
    transposed: list[dict[int, Fraction]] = [{} for _ in basic]
    for k, row in enumerate(matrix):
        for j, c in row.items():
            transposed[j][k] = c
    multipliers = solve(transposed, [program.cost[j] for j in basic], deadline)
    reduced = list(program.cost)
    for i, y in zip(tight, multipliers, strict=True):
        if y:
            for j, c in program.rows[i].items():
                reduced[j] -= c * y
    prices = [*zip(reduced, point, program.columns, strict=True)]
    prices += [(y, activity[i], program.sides[i]) for i, y in zip(tight, multipliers, strict=True)]
    sign = 1 if program.sense == "min" else -1
    # a better value needs a step up where the price is negative, down where it is positive: only a side stops it
    if not all(price == 0 or at == sides[0 if sign * price > 0 else 1] for price, at, sides in prices):
        return None
    return program.offset + sum((c * x for c, x in zip(program.cost, point, strict=True)), Fraction(0))


def _resting(status: HighsBasisStatus, sides: tuple[Fraction | None, Fraction | None]) -> Fraction | None:
    """Where a variable that is not basic rests; 0 for a basic one, which is solved for; None for an infinite side."""
    if status == HighsBasisStatus.kLower:
        return sides[0]
    if status == HighsBasisStatus.kUpper:
        return sides[1]
    if status == HighsBasisStatus.kNonbasic:
        return next((side for side in sides if side is not None), Fraction(0))
    return Fraction(0)


def _between(x: Fraction, sides: tuple[Fraction | None, Fraction | None]) -> bool:
    low, high = sides
    return (low is None or low <= x) and (high is None or x <= high)
