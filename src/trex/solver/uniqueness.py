"""Is an optimum attained at one point only?

First the other integers: a row that excludes the known ones is added to a model of binaries, which is solved again.
Then the rest, with the integers fixed: dual values tell which rows and bounds every optimum meets, and random linear
functions are minimised and maximised over what is left.
"""

from collections.abc import Iterator
from dataclasses import replace

import highspy
import numpy as np
from highspy import HighsModelStatus, HighsStatus, ObjSense
from numpy.typing import NDArray

from trex.solver import highs
from trex.solver.model import Model

UNIQUE, MULTIPLE, UNKNOWN = "unique", "multiple", "unknown"
APART = 1e-4  # by how much some variable must differ between two optimal points, relative to its size from 1 up
LEVEL = 1e-6  # of the costs that a move trades, how much may be left of them in a tie
SLACK = 1e-9  # of the objective, relative: by how much points that are searched as equally good may miss the optimum
NEAR = 10  # times what a tie may miss: up to there a worse optimum may be one that the solver's tolerances hide
DUAL = 1e-7  # of the largest cost: smaller dual values are taken for zero
NODES, ITERATIONS = 50, 20_000  # of each search, instead of seconds, so that the verdict does not depend on the machine

Point = NDArray[np.float64]


def uniqueness(model: Model, point: Point, seed: int = 0) -> str:
    """Whether `point` [variables], an optimum of a linear or mixed-integer model, is the only one.

    UNKNOWN for models that are not linear, and where a search reaches its limit. UNIQUE is wrong with probability zero
    over the random function, within the tolerances above.
    """
    if model.beyond_linear:
        return UNKNOWN
    integers = np.array(model.integers, dtype=np.int32)
    point = point.astype(float)
    point[integers] = np.round(point[integers])
    direction = np.random.default_rng(seed).integers(1, 1000, len(point)).astype(float)
    rest = _other_continuous(model, point, integers, direction)
    if rest == MULTIPLE or not len(integers):
        return rest
    binary = not model.lower[integers].any() and (model.upper[integers] == 1).all()
    whole = _other_binaries(model, point, integers) if binary else _other_integers(model, point, direction)
    return whole if rest == UNIQUE or whole == MULTIPLE else UNKNOWN


def _other_binaries(model: Model, point: Point, binaries: NDArray[np.int32]) -> str:
    """Solve again without the binaries that are known."""
    solver = _loaded(model)
    known = point[binaries]
    solver.addRow(1 - known.sum(), highspy.kHighsInf, len(binaries), binaries, 1 - 2 * known)
    status, found = _run(solver)
    if status == HighsModelStatus.kInfeasible:
        return UNIQUE
    if found is not None and _tie(model, point, found):
        return MULTIPLE
    best, bound = model.objective(point), solver.getInfo().mip_dual_bound
    worse = bound - best if model.sense == "min" else best - bound
    return UNIQUE if worse > NEAR * _slack(model, point) else UNKNOWN


def _other_integers(model: Model, point: Point, direction: Point) -> str:
    """Search the points that are as good, which a row asks for, in a random direction and against it."""
    solver = _loaded(model)
    best = model.objective(point) - model.offset
    room = _slack(model, point)
    sides = (-highspy.kHighsInf, best + room) if model.sense == "min" else (best - room, highspy.kHighsInf)
    used = np.flatnonzero(model.cost)
    solver.addRow(*sides, len(used), used.astype(np.int32), model.cost[used])
    ended = []
    for status, found in _both_ways(solver, direction):
        if found is not None and np.any(np.abs(found - point)[model.integers] > 0.5) and _tie(model, point, found):
            return MULTIPLE
        ended.append(status == HighsModelStatus.kOptimal)
    return UNIQUE if all(ended) else UNKNOWN


def _other_continuous(model: Model, point: Point, integers: NDArray[np.int32], direction: Point) -> str:
    """Search the optimal face of the linear program that is left when the integers keep their values."""
    if len(integers) == len(point):
        return UNIQUE
    lower, upper = model.lower.copy(), model.upper.copy()
    lower[integers] = upper[integers] = point[integers]
    solver = _loaded(replace(model, kinds=("continuous",) * len(point), lower=lower, upper=upper))
    status, found = _run(solver)
    if status != HighsModelStatus.kOptimal or found is None:
        return UNKNOWN
    solution = solver.getSolution()
    least = DUAL * np.abs(model.cost).max(initial=0.0)
    met = np.flatnonzero(np.abs(np.array(solution.col_dual)) > least).astype(np.int32)
    solver.changeColsBounds(len(met), met, found[met], found[met])
    for row in np.flatnonzero(np.abs(np.array(solution.row_dual)) > least):
        value = solution.row_value[row]
        side = min((model.row_lower[row], model.row_upper[row]), key=lambda side: abs(side - value))
        solver.changeRowBounds(int(row), side, side)
    around = 1 + np.abs(point)  # enough, as the face is convex
    free = np.setdiff1d(np.arange(len(point)), met).astype(np.int32)
    low, high = np.maximum(lower, point - around), np.minimum(upper, point + around)
    solver.changeColsBounds(len(free), free, low[free], high[free])
    ended = []
    for status, end in _both_ways(solver, direction):
        far = end is not None and np.any(np.abs(end - point) > APART * np.maximum(1.0, np.abs(point)))
        if end is not None and far and _tie(model, point, end):
            return MULTIPLE
        ended.append(status == HighsModelStatus.kOptimal)
    return UNIQUE if all(ended) else UNKNOWN


def _loaded(model: Model) -> highs.Highs:
    solver = highs.quiet()
    highs.load(solver, model)
    solver.setOptionValue("mip_max_nodes", NODES)
    solver.setOptionValue("simplex_iteration_limit", ITERATIONS)
    return solver


def _run(solver: highs.Highs) -> tuple[HighsModelStatus, Point | None]:
    """Status and, where there is one, the point."""
    if solver.run() == HighsStatus.kError:
        return solver.getModelStatus(), None
    feasible = solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return solver.getModelStatus(), np.array(solver.getSolution().col_value, dtype=float) if feasible else None


def _both_ways(solver: highs.Highs, direction: Point) -> Iterator[tuple[HighsModelStatus, Point | None]]:
    """What is found in a direction and against it, in place of the objective."""
    solver.setOptionValue("user_objective_scale", 0)
    solver.changeColsCost(len(direction), np.arange(len(direction), dtype=np.int32), direction)
    for sense in (ObjSense.kMinimize, ObjSense.kMaximize):
        solver.changeObjectiveSense(sense)
        yield _run(solver)


def _tie(model: Model, point: Point, other: Point) -> bool:
    """Whether two points are as good, measured by the costs that the way between them trades."""
    traded = model.cost * (other - point)
    return bool(abs(traded.sum()) <= LEVEL * np.abs(traded).sum() + 2 * _slack(model, point))


def _slack(model: Model, point: Point) -> float:
    return SLACK * max(1.0, abs(model.objective(point) - model.offset))
