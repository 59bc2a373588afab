"""Is an optimum attained at one point only? Two further solves over the optimal face decide."""

import highspy
import numpy as np
from numpy.typing import NDArray

from trex.solver import highs
from trex.solver.model import Model

UNIQUE, MULTIPLE, UNKNOWN = "unique", "multiple", "unknown"
APART = 1e-4  # by how much some variable must differ between two optimal points, relative to its size from 1 up
LEVEL = 1e-6  # of the costs that a move trades, how much may be left of them: less is a tie, more is the slack used up
SLACK = 1e-9  # of the objective, relative: how far below the optimum a point of the optimal face may be
NODES, ITERATIONS = 50, 20_000  # of each search, instead of seconds, so that the verdict does not depend on the machine


def uniqueness(model: Model, point: NDArray[np.float64], seed: int = 0) -> str:
    """Whether `point` [variables], an optimum of a linear or mixed-integer model, is the only one.

    A random linear function is minimised and maximised over the points that are as good. Where both end at `point` it
    is the only one, but for directions of probability zero; any other end is a second optimum. UNKNOWN for models that
    are not linear, and where the searches reach their limits.
    """
    if model.beyond_linear:
        return UNKNOWN
    direction = np.random.default_rng(seed).integers(1, 1000, len(model.variables)).astype(float)
    solver = highs.quiet()
    highs.load(solver, model)
    best = model.objective(point) - model.offset
    room = SLACK * max(1.0, abs(best))
    used = np.flatnonzero(model.cost)
    sides = (-highspy.kHighsInf, best + room) if model.sense == "min" else (best - room, highspy.kHighsInf)
    solver.addRow(*sides, len(used), used.astype(np.int32), model.cost[used])
    solver.setOptionValue("mip_max_nodes", NODES)
    solver.setOptionValue("simplex_iteration_limit", ITERATIONS)
    solver.setOptionValue("user_objective_scale", 0)
    solver.changeColsCost(len(direction), np.arange(len(direction), dtype=np.int32), direction)
    ends = []
    for sense in (highspy.ObjSense.kMinimize, highspy.ObjSense.kMaximize):
        solver.changeObjectiveSense(sense)
        solver.run()
        info = solver.getInfo()
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            found = np.array(solver.getSolution().col_value, dtype=float)
            if _another(model, point, found):
                return MULTIPLE
        ends.append(solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)
    return UNIQUE if all(ends) else UNKNOWN


def _another(model: Model, point: NDArray[np.float64], found: NDArray[np.float64]) -> bool:
    """Whether a point of the face is another optimum, not the same one moved as far as the objective's slack allows."""
    move = found - point
    if not np.any(np.abs(move) > APART * np.maximum(1.0, np.abs(point))):
        return False
    traded = model.cost * move
    return bool(abs(traded.sum()) <= LEVEL * np.abs(traded).sum())
