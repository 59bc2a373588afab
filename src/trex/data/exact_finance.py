"""Least variance of a portfolio in exact arithmetic, by trying every set of constraints that could hold with equality.

Slow on purpose and for small cases only: it owes nothing to a solver of quadratic programs.
"""

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

from trex.data.exact import Number, fraction
from trex.data.problem import DataError

Matrix = Sequence[Sequence[Fraction]]


def least_variance(
    covariance: Sequence[Sequence[Number]],
    mean: Sequence[Number],
    limits: Sequence[Number],
    budget: Number,
    target: Number,
) -> Fraction:
    """Least x' C x over 0 <= x <= limits with sum x = budget and mean' x >= target.

    For each choice of amounts at zero, at their limit and between, with the target met exactly or not at all, the
    conditions of optimality are linear equations; of a convex program any solution that is feasible and has multipliers
    of the right sign is an optimum (Karush, Kuhn and Tucker). Singular systems are passed over: C has to be positive
    definite. Raises DataError where no choice is feasible.
    """
    square = [[fraction(c) for c in row] for row in covariance]
    gain, most = [fraction(r) for r in mean], [fraction(u) for u in limits]
    whole, wanted = fraction(budget), fraction(target)
    for states in itertools.product(("zero", "between", "limit"), repeat=len(gain)):
        fixed = [most[k] if state == "limit" else Fraction(0) for k, state in enumerate(states)]
        free = [k for k, state in enumerate(states) if state == "between"]
        if sum(fixed) > whole or (not free and sum(fixed) != whole):
            continue
        for tight in (False, True):
            x, price, reward = _stationary(square, gain, fixed, free, whole, wanted if tight else None) or (None, 0, 0)
            if x is None or reward < 0 or sum(r * a for r, a in zip(gain, x, strict=True)) < wanted:
                continue
            slope = [
                2 * sum(c * a for c, a in zip(row, x, strict=True)) - price - reward * gain[k]
                for k, row in enumerate(square)
            ]
            if all(_fits(states[k], x[k], most[k], slope[k]) for k in range(len(x))):
                return sum((c * x[i] * x[j] for i, row in enumerate(square) for j, c in enumerate(row)), Fraction(0))
    raise DataError("no portfolio meets budget, target and limits")


def _fits(state: str, amount: Fraction, most: Fraction, slope: Fraction) -> bool:
    if state == "between":
        return 0 <= amount <= most
    return slope >= 0 if state == "zero" else slope <= 0


def _stationary(
    square: Matrix, gain: Sequence[Fraction], fixed: list[Fraction], free: list[int], whole: Fraction,
    wanted: Fraction | None,
) -> tuple[list[Fraction], Fraction, Fraction] | None:  # fmt: skip
    """Amounts, price of the budget and reward of the target where the free amounts' slopes vanish; None if singular."""
    borders = [[Fraction(1)] * len(gain)] + ([list(gain)] if wanted is not None else [])
    sides = [whole] + ([wanted] if wanted is not None else [])
    rows = []
    for i in free:
        constant = -2 * sum((square[i][j] * fixed[j] for j in range(len(gain))), Fraction(0))
        rows.append([*(2 * square[i][j] for j in free), *(-border[i] for border in borders), constant])
    for border, side in zip(borders, sides, strict=True):
        left = side - sum((b * amount for b, amount in zip(border, fixed, strict=True)), Fraction(0))
        rows.append([*(border[j] for j in free), *([Fraction(0)] * len(borders)), left])
    solution = _solved(rows)
    if solution is None:
        return None
    x = list(fixed)
    for k, amount in zip(free, solution, strict=False):
        x[k] = amount
    return x, solution[len(free)], solution[len(free) + 1] if wanted is not None else Fraction(0)


def _solved(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """The solution of a square system with its right side as last column, by elimination; None where it is singular."""
    for k in range(len(rows)):
        pivot = next((row for row in rows[k:] if row[k]), None)
        if pivot is None:
            return None
        rows.remove(pivot)
        rows.insert(k, [value / pivot[k] for value in pivot])
        for other in _others(rows, k):
            factor = other[k]
            other[:] = [value - factor * part for value, part in zip(other, rows[k], strict=True)]
    return [row[-1] for row in rows]


def _others(rows: list[list[Fraction]], k: int) -> Iterator[list[Fraction]]:
    return (row for i, row in enumerate(rows) if i != k and row[k])
