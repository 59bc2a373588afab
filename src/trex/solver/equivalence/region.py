"""The feasible set of a canonical form, over which many linear functions are optimised one after the other.

Rows are as the model has them, but for those in small numbers, which are scaled to a largest coefficient of 1: solvers
and the checks of points have absolute tolerances.
"""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import highspy
import numpy as np
from highspy import HighsModelStatus
from numpy.typing import NDArray

from trex.solver import highs
from trex.solver.check import violation
from trex.solver.equivalence.canonical import Canonical, HalfSpace
from trex.solver.model import Indicator, Model
from trex.solver.solve import solve

WIDE = 1e7  # largest over smallest coefficient of a row above which a solver's tolerances may hide the smallest
ROUNDING = 1e-12  # of a row's largest term: what is beyond a side by so much is on it
CLEAR = 1e-6  # over the smallest coefficient: what is beyond a side by more lies outside
Linear = Mapping[int, float]  # column of a canonical form -> coefficient


def size(half: HalfSpace) -> float:
    """Largest coefficient of a half-space's row in the models made here."""
    return max(half.scale, 1.0)


def to_model(form: Canonical, objective: Linear) -> Model:
    """A canonical form as a model that maximises a linear function."""
    costs = np.zeros(len(form.columns))
    for j, value in objective.items():
        costs[j] = value
    kinds = {(False, False): "continuous", (True, False): "integer"}
    kinds |= {(False, True): "semi-continuous", (True, True): "semi-integer"}
    lengths = [len(half.terms) for half in form.halves]
    return Model(
        sense="max",
        offset=0.0,
        variables=tuple(form.names),
        kinds=tuple(kinds[kind] for kind in zip(form.whole, form.semi, strict=True)),
        cost=costs,
        lower=np.array(form.lower, dtype=float),
        upper=np.array(form.upper, dtype=float),
        rows=tuple(half.rows[0] for half in form.halves),
        row_lower=np.full(len(form.halves), -math.inf),
        row_upper=np.array([half.side * size(half) for half in form.halves], dtype=float),
        start=np.cumsum([0, *lengths]).astype(np.int64),
        index=np.array([j for half in form.halves for j, _ in half.terms], dtype=np.int64),
        value=np.array([value * size(half) for half in form.halves for _, value in half.terms], dtype=float),
        quadratic_rows={
            k: {pair: value * size(half) for pair, value in half.quadratic}
            for k, half in enumerate(form.halves)
            if half.quadratic
        },
        sos=form.sos,
        indicators=tuple(
            Indicator(i.then.rows[0], i.binary, i.active, i.then.terms, -math.inf, i.then.side)
            for i in form.implications
        ),
        functions=form.functions,
    )


@dataclass(frozen=True)
class Extreme:
    """The largest value of a linear function: +inf where it has none; None where no solver found it in time."""

    value: float | None
    point: NDArray[np.float64] | None = None  # [columns]


def excess(
    half: HalfSpace, terms: Iterable[tuple[int, float]], point: NDArray[np.float64]
) -> tuple[Fraction, Fraction]:
    """How far a point [columns] lies beyond a half-space with these terms, exactly, and its largest term in size."""
    products = [Fraction(value) * Fraction(float(point[j])) for j, value in terms]
    largest = max([abs(Fraction(half.side)), *map(abs, products)], default=Fraction(0))
    return sum(products, Fraction(0)) - Fraction(half.side), largest


def outside(half: HalfSpace, terms: Iterable[tuple[int, float]], extreme: Extreme) -> bool | None:
    """Whether the point that goes farthest into a half-space's direction lies outside; None where rounding may decide.

    In exact arithmetic, and in units of the row's smallest coefficient: a row with one large number is not to hide what
    the others say.
    """
    terms = list(terms)
    if extreme.value is None or extreme.point is None or not np.isfinite(extreme.point).all():
        return None
    beyond, largest = excess(half, terms, extreme.point)
    sizes = [abs(value) for _, value in terms]
    if sizes and max(sizes) > WIDE * min(sizes):
        return None
    if beyond <= Fraction(ROUNDING) * largest:
        return False
    least = min(sizes, default=1.0)
    return True if beyond > Fraction(CLEAR * least) else None


class Region:
    """Feasible set of a form that is known to have a point. Linear ones stay in one HiGHS, which starts warm."""

    def __init__(self, form: Canonical, deadline: float, relaxed: bool = False) -> None:
        self.form, self.deadline = form, deadline
        self.most_s = max(deadline - time.perf_counter(), 0.0) / 10  # one hard problem leaves time for others
        self.model = to_model(form, {})
        if relaxed:
            self.model = replace(self.model, kinds=("continuous",) * len(form.columns))
        self.highs = highs.quiet() if form.linear else None
        if self.highs is not None:
            highs.load(self.highs, self.model)

    def largest(self, objective: Linear) -> Extreme:
        """Maximise a linear function within what is left of the time."""
        left = min(self.deadline - time.perf_counter(), self.most_s)
        if left <= 0:
            return Extreme(None)
        costs = np.zeros(len(self.form.columns))
        for j, value in objective.items():
            costs[j] = value
        if self.highs is None:
            return self._by_any_solver(costs, left)
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + left)
        self.highs.changeColsCost(len(costs), np.arange(len(costs), dtype=np.int32), costs)
        if self.highs.run() == highspy.HighsStatus.kError:
            return Extreme(None)
        status = self.highs.getModelStatus()
        if status in (HighsModelStatus.kUnbounded, HighsModelStatus.kUnboundedOrInfeasible):
            return Extreme(math.inf)
        if status != HighsModelStatus.kOptimal:
            return Extreme(None)
        point = np.array(self.highs.getSolution().col_value)[: len(costs)]
        return Extreme(float(costs @ point), point)

    def reach(self, objective: Linear, side: float) -> Extreme:
        """As `largest`, but of a function without a largest value a point well above `side` is found."""
        found = self.largest(objective)
        if found.value != math.inf or self.highs is None:
            return found
        columns, values = list(objective), list(objective.values())
        self.highs.addRow(-math.inf, side + max(1.0, abs(side)), len(columns), columns, values)
        capped = self.largest(objective)
        self.highs.deleteRows(1, [len(self.form.halves)])
        return capped

    def holds(self, point: NDArray[np.float64]) -> bool:
        """Whether a point [columns] is one of the set, to a thousandth of what counts as outside of a half-space."""
        for half in self.form.halves:
            least = min((abs(value) for _, value in half.terms), default=1.0)
            if excess(half, half.terms, point)[0] > Fraction(CLEAR * least) / 1000:
                return False
        return violation(self.model, point, CLEAR / 1000) is None

    def _by_any_solver(self, costs: NDArray[np.float64], left: float) -> Extreme:
        solution = solve(replace(self.model, cost=costs), left)
        if solution.status == "unbounded":
            return Extreme(math.inf)
        if solution.status != "optimal" or solution.objective is None:
            return Extreme(None)
        return Extreme(solution.objective, np.array([solution.values[name] for name in self.model.variables]))
