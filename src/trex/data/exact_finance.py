"""Least variance of a portfolio: the binding limits are guessed by pivoting, the optimum is proved in fractions."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from trex.data.exact import Number, fraction

ZERO, BETWEEN, LIMIT = "zero", "between", "limit"
BLOCKS = 20  # rounds that move all offenders at once; after these, one by one, so that the search cannot cycle for long
ROUNDS = 200
FEW = 6  # amounts up to which all possibilities are tried
NEAR = 1e-9  # relative to the budget: less is no offence while guessing


@dataclass(frozen=True)
class _Problem:
    """Least x' square x over 0 <= x <= most with sum x = whole and gain' x >= wanted."""

    square: list[list[Fraction]]
    gain: list[Fraction]
    most: list[Fraction]
    whole: Fraction
    wanted: Fraction


def least_variance(
    covariance: Sequence[Sequence[Number]],
    mean: Sequence[Number],
    limits: Sequence[Number],
    budget: Number,
    target: Number,
) -> Fraction | None:
    """Least x' C x over 0 <= x <= limits with sum x = budget and mean' x >= target; None where it is not found.

    With a guess of which amounts are zero, at their limit or between, and of whether the target binds, the conditions
    of Karush, Kuhn and Tucker are linear equations. A guess whose exact solution is feasible, with multipliers of the
    right sign, is optimal, for C is positive semidefinite. Source of the search: J. Júdice and F. Pires, A block
    principal pivoting algorithm for large-scale strictly monotone linear complementarity problems, 1994.
    """
    problem = _Problem(
        [[fraction(c) for c in row] for row in covariance], [fraction(r) for r in mean],
        [fraction(u) for u in limits], fraction(budget), fraction(target),
    )  # fmt: skip
    for states, tight in _guesses(problem):
        solution = _eliminated(_conditions(problem, states, tight))
        if solution is None:
            continue
        x, slope, reward = _point(problem, states, tight, solution)
        gained = sum((r * a for r, a in zip(problem.gain, x, strict=True)), Fraction(0))
        if reward >= 0 and gained >= problem.wanted and not _offenders(problem, states, x, slope, 0):
            return sum(
                (c * x[i] * x[j] for i, row in enumerate(problem.square) for j, c in enumerate(row)), Fraction(0)
            )
    return None


def _guesses(problem: _Problem) -> Iterator[tuple[list[str], bool]]:
    """What the search finds, and for few amounts every possibility, for the search can fail."""
    for tight in (False, True):
        states = _guess(problem, tight)
        if states is not None:
            yield states, tight
    if len(problem.most) <= FEW:
        for every in itertools.product((ZERO, BETWEEN, LIMIT), repeat=len(problem.most)):
            yield from ((list(every), tight) for tight in (False, True))


def _guess(problem: _Problem, tight: bool) -> list[str] | None:
    """States in which nothing offends, in floating point."""
    states = [BETWEEN] * len(problem.most)
    for turn in range(ROUNDS):
        rows = np.array(_conditions(problem, states, tight), dtype=float)
        try:
            solution = np.linalg.solve(rows[:, :-1], rows[:, -1])
        except np.linalg.LinAlgError:
            return None
        x, slope, _ = _point(problem, states, tight, [Fraction(value) for value in solution.tolist()])
        moves = _offenders(problem, states, x, slope, NEAR * float(problem.whole))
        if not moves:
            return states
        for k in moves if turn < BLOCKS else [max(moves)]:
            states[k] = moves[k]
    return None


def _offenders(
    problem: _Problem, states: list[str], x: list[Fraction], slope: list[Fraction], room: float
) -> dict[int, str]:
    """Where each amount that is out of place belongs."""
    moves = {}
    for k, state in enumerate(states):
        if state == BETWEEN and x[k] < -room:
            moves[k] = ZERO
        elif state == BETWEEN and x[k] > problem.most[k] + Fraction(room):
            moves[k] = LIMIT
        elif (state == ZERO and slope[k] < -room) or (state == LIMIT and slope[k] > room):
            moves[k] = BETWEEN
    return moves


def _fixed(problem: _Problem, states: list[str]) -> list[Fraction]:
    return [most if state == LIMIT else Fraction(0) for most, state in zip(problem.most, states, strict=True)]


def _conditions(problem: _Problem, states: list[str], tight: bool) -> list[list[Fraction]]:
    """Equations for the amounts between, the price of the budget and, where tight, the reward of the target.

    Columns: these unknowns, then the right side. Rows: the slope of each such amount vanishes; budget; target.
    """
    fixed, free = _fixed(problem, states), [k for k, state in enumerate(states) if state == BETWEEN]
    borders = [([Fraction(1)] * len(states), problem.whole)] + ([(problem.gain, problem.wanted)] if tight else [])
    rows = []
    for i in free:
        constant = sum((c * amount for c, amount in zip(problem.square[i], fixed, strict=True)), Fraction(0))
        rows.append([*(2 * problem.square[i][j] for j in free), *(-border[i] for border, _ in borders), -2 * constant])
    for border, side in borders:
        left = side - sum((b * amount for b, amount in zip(border, fixed, strict=True)), Fraction(0))
        rows.append([*(border[j] for j in free), *[Fraction(0)] * len(borders), left])
    return rows


def _point(
    problem: _Problem, states: list[str], tight: bool, solution: list[Fraction]
) -> tuple[list[Fraction], list[Fraction], Fraction]:
    """Amounts, their slopes (of the variance less what budget and target pay) and the reward of the target."""
    x, free = _fixed(problem, states), [k for k, state in enumerate(states) if state == BETWEEN]
    for k, amount in zip(free, solution, strict=False):
        x[k] = amount
    price, reward = solution[len(free)], solution[len(free) + 1] if tight else Fraction(0)
    slope = [
        2 * sum((c * a for c, a in zip(row, x, strict=True)), Fraction(0)) - price - reward * gain
        for row, gain in zip(problem.square, problem.gain, strict=True)
    ]
    return x, slope, reward


def _eliminated(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """The solution of a square system with its right side as last column; None where it is singular."""
    rows = [list(row) for row in rows]
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i, row in enumerate(rows):
            if i != k and row[k]:
                rows[i] = [value - row[k] * part for value, part in zip(row, rows[k], strict=True)]
    return [row[-1] for row in rows]
