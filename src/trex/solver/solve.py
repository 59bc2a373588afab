"""Solve a model and believe only what can be checked: convexity before the run, the point after it.

HiGHS calls many indefinite quadratic programs optimal with a wrong value, and leaves "infeasible or unbounded" open for
unbounded mixed-integer programs; both are settled here.
"""

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np
from highspy import HighsModelStatus
from numpy.typing import NDArray

from trex.solver import highs
from trex.solver.model import Model, ModelError

NOT_CONVEX = "the quadratic objective is not convex: an optimum that HiGHS reports is no proof"
MIXED_QUADRATIC = "HiGHS does not solve mixed-integer quadratic programs"
STATUSES = ("optimal", "infeasible", "unbounded", "infeasible_or_unbounded", "time_limit", "error")
TOLERANCE = 1e-6  # of bounds, sides of rows and integrality, relative where the number compared with is above 1
ROUNDING = 1e-12  # of a row's largest term: what HiGHS' own sums may be off by
CURVATURE = 1e-10  # eigenvalue of the wrong sign, relative to the largest, that is taken for rounding
LARGEST = 1e100  # of an entry of the scaled quadratic matrix


@dataclass(frozen=True)
class Solution:
    """What is known after solving. `objective` and `values` belong to a checked point and are absent without one."""

    status: str  # one of STATUSES
    objective: float | None
    bound: float | None  # proved bound on the optimum
    seconds: float
    solver: str  # name and version
    values: dict[str, float]  # variable name -> value
    message: str  # reason, where the status alone does not say it


def solve(model: Model, time_s: float = 60.0) -> Solution:
    """Solve with HiGHS on one thread, within `time_s` seconds of wall-clock time.

    Never raises for a model's properties: a non-convex objective, a mixed-integer quadratic program, data that HiGHS
    refuses and a point that fails its check are status "error" with the reason. Raises ModelError where `time_s` is not
    positive.
    """
    if not time_s > 0:
        raise ModelError(f"time_s = {time_s!r}; a positive number of seconds is accepted")
    begin = time.perf_counter()
    try:
        solution = _solve(model, begin, time_s)
    except ModelError as error:
        solution = _without_point("error", str(error))
    return replace(solution, seconds=time.perf_counter() - begin)


def solve_pyomo(model: Any, time_s: float = 60.0) -> Solution:
    """Solve a pyomo ConcreteModel as `solve` does; the model itself is not changed and no values are loaded into it.

    `values` covers every active variable, fixed ones included. Raises ModelError for what `from_pyomo` refuses.
    """
    import pyomo.environ as pyo

    from trex.solver.pyomo_model import from_pyomo

    solution = solve(from_pyomo(model), time_s)
    if not solution.values:
        return solution
    every = model.component_data_objects(pyo.Var, active=True, descend_into=True)
    fixed = {var.name: float(var.value) for var in every if var.fixed and var.value is not None}
    return replace(solution, values={**solution.values, **fixed})


def curvature(model: Model) -> float:
    """Smallest eigenvalue over largest (in size) of the objective's matrix, scaled to a unit diagonal: >= 0 is convex.

    Signs are turned for a maximum. Scaling, x[i] -> x[i] / sqrt(d[i]), keeps the signs of the eigenvalues (Sylvester)
    and makes them comparable: in the matrix as it stands one large square hides any curvature elsewhere. -1 where the
    diagonal alone decides: a negative entry, or a zero beside another entry that is not.
    """
    terms = {pair: c if model.sense == "min" else -c for pair, c in model.quadratic.items() if c}
    diagonal = {i: c for (i, j), c in terms.items() if i == j}
    if any(diagonal.get(position, 0.0) <= 0 for pair in terms for position in pair):
        return -1.0
    if not terms:
        return 0.0
    place = {position: k for k, position in enumerate(diagonal)}
    matrix = np.eye(len(place))
    for (i, j), c in terms.items():
        if i != j:
            entry = c / 2 / math.sqrt(diagonal[i]) / math.sqrt(diagonal[j])
            # above 1 it is negative curvature already: the limit only keeps the arithmetic finite
            matrix[place[i], place[j]] = matrix[place[j], place[i]] = max(-LARGEST, min(entry, LARGEST))
    eigenvalues = np.linalg.eigvalsh(matrix)
    return float(eigenvalues[0] / np.abs(eigenvalues).max())


def violation(model: Model, point: NDArray[np.float64]) -> str | None:
    """First bound, integrality or row that a point [variables] breaks, as a sentence; None where it satisfies all."""
    integers = set(model.integers.tolist())
    lower, upper = _widened(model.lower, model.upper)
    for j, x in enumerate(point.tolist()):
        if not lower[j] <= x <= upper[j]:
            return f"{model.variables[j]} = {x} lies outside [{model.lower[j]}, {model.upper[j]}]"
        if not math.isfinite(x):
            return f"{model.variables[j]} = {x}"
        if j in integers and abs(x - round(x)) > TOLERANCE:
            return f"{model.variables[j]} = {x} is not an integer"
    low, high = _widened(model.row_lower, model.row_upper)
    for row, name in enumerate(model.rows):
        terms = model.terms(row, point)
        activity = math.fsum(terms)
        rounding = ROUNDING * max(map(abs, terms), default=0.0)
        if not low[row] - rounding <= activity <= high[row] + rounding:
            return f"row {name} = {activity} lies outside [{model.row_lower[row]}, {model.row_upper[row]}]"
    return None


def _widened(low: NDArray[np.float64], high: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """Sides moved out by the tolerance."""
    allowed = [TOLERANCE * np.maximum(1.0, np.abs(np.where(np.isfinite(side), side, 0.0))) for side in (low, high)]
    return (low - allowed[0]).tolist(), (high + allowed[1]).tolist()


def unchecked(model: Model, time_s: float = 60.0) -> tuple[str, float | None]:
    """What HiGHS says when nothing is checked: its own status and objective. For comparison, not for use."""
    solver = _run(model, time.perf_counter(), time_s)
    status = solver.modelStatusToString(solver.getModelStatus())
    return status, solver.getInfo().objective_function_value if status == "Optimal" else None


def _solve(model: Model, begin: float, time_s: float) -> Solution:
    if not model.variables:  # HiGHS forgets the offset of an empty model
        return _without_variables(model)
    if model.quadratic and curvature(model) < -CURVATURE:
        return _without_point("error", NOT_CONVEX)
    if model.quadratic and len(model.integers):
        return _without_point("error", MIXED_QUADRATIC)
    solver = _run(model, begin, time_s)
    status = solver.getModelStatus()
    if status == HighsModelStatus.kOptimal:
        return _checked(solver, model, "optimal", "")
    if status == HighsModelStatus.kInfeasible:
        return _without_point("infeasible", "")
    if status in (HighsModelStatus.kUnbounded, HighsModelStatus.kUnboundedOrInfeasible):
        return _settle(model, begin, time_s)
    if status == HighsModelStatus.kTimeLimit:
        return _checked(solver, model, "time_limit", f"stopped after {time_s:g} s")
    return _without_point("error", f"HiGHS ended with {solver.modelStatusToString(status)!r}")


def _run(model: Model, begin: float, time_s: float) -> highs.Highs:
    """One run of HiGHS in what is left of the time."""
    for attempt in range(2):
        solver = highs.quiet(max(time_s - (time.perf_counter() - begin), 1e-3))
        highs.load(solver, model)
        if solver.run() != highspy.HighsStatus.kError or attempt:
            break
        # HiGHS refuses threads=1 where someone else in this process started its scheduler with more
        highspy.Highs.resetGlobalScheduler(True)
    return solver


def _settle(model: Model, begin: float, time_s: float) -> Solution:
    """Infeasible or unbounded? A ray is known; any feasible point, found with the objective left out, decides."""
    flat = replace(model, cost=np.zeros(len(model.variables)), quadratic={}, offset=0.0)
    status = _run(flat, begin, time_s).getModelStatus()
    if status == HighsModelStatus.kOptimal:
        return _without_point("unbounded", "")
    if status == HighsModelStatus.kInfeasible:
        return _without_point("infeasible", "")
    return _without_point("infeasible_or_unbounded", "no feasible point was found or excluded in time")


def _checked(solver: highs.Highs, model: Model, status: str, message: str) -> Solution:
    """The solver's point if it satisfies the model, integers rounded; otherwise an error that names what it breaks."""
    info = solver.getInfo()
    bound = info.mip_dual_bound if len(model.integers) else None
    bound = bound if bound is not None and math.isfinite(bound) else None
    if status == "time_limit" and info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return replace(_without_point(status, f"{message}, without a point"), bound=bound)
    raw = np.array(solver.getSolution().col_value, dtype=float)
    point = raw.copy()
    near = np.abs(raw - np.round(raw)) <= TOLERANCE
    whole = model.integers[near[model.integers]]
    point[whole] = np.round(raw[whole])
    if violation(model, point) is not None:
        point = raw  # rounding a switch can matter in a row with large coefficients
    broken = violation(model, point)
    if broken is not None:
        return _without_point("error", f"the point that HiGHS returned breaks the model: {broken}")
    objective = model.objective(point)
    claimed = info.objective_function_value
    if not math.isclose(objective, claimed, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        return _without_point("error", f"HiGHS claims the objective {claimed!r}; its point gives {objective!r}")
    if status == "optimal" and bound is None:
        bound = objective
    values = dict(zip(model.variables, point.tolist(), strict=True))
    return Solution(status, objective, bound, 0.0, highs.NAME, values, message)


def _without_variables(model: Model) -> Solution:
    if violation(model, np.zeros(0)) is not None:
        return _without_point("infeasible", "")
    return Solution("optimal", model.offset, model.offset, 0.0, highs.NAME, {}, "")


def _without_point(status: str, message: str) -> Solution:
    return Solution(status, None, None, 0.0, highs.NAME, {}, message)
