"""Solve a model and believe only what can be checked: convexity before the run, the point after it.

HiGHS goes first. It calls many indefinite quadratic programs optimal with a wrong value, and leaves "infeasible or
unbounded" open for unbounded mixed-integer programs; both are settled here, as is what only SCIP can take.
"""

import math
import time
from dataclasses import replace
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from trex.solver import exact, highs, scip
from trex.solver.believe import (
    MIXED_QUADRATIC,
    NOT_CONVEX,
    Limits,
    beyond_highs,
    by_highs,
    by_scip,
    feasible,
    without_point,
)
from trex.solver.check import TOLERANCE, violation
from trex.solver.child import call
from trex.solver.convexity import CURVATURE, curvature, recession
from trex.solver.model import Model, ModelError
from trex.solver.second import second
from trex.solver.solution import STATUSES, Agreement, Solution, joined

__all__ = [
    "CURVATURE", "MIXED_QUADRATIC", "NOT_CONVEX", "STATUSES", "TOLERANCE", "Agreement", "Solution",
    "curvature", "solve", "solve_pyomo", "unchecked", "violation",
]  # fmt: skip
CHECKS = (None, "second", "exact")
PATIENCE = 10.0  # times what HiGHS took, given to SCIP to confirm that a model is infeasible
LEAST_PATIENCE = 2.0  # seconds
STRICT = 1e-9  # by how much a point that refutes "infeasible" may miss a side
WIDE = 1e9  # largest over smallest coefficient of an integer model from which a second solver is always asked
FALL = 1e-6  # of a ray's objective, relative to the largest coefficient: less may be rounding


def solve(model: Model, time_s: float = 60.0, memory_mb: float | None = None, check: str | None = None) -> Solution:
    """Solve on one thread, within `time_s` seconds of wall-clock time and `memory_mb` megabytes, in a child process.

    `check`: "second" asks another solver too (within as much time again) and fills `agreement`. A checked point decides
    between two claims, the better one between two optima; a disagreement that no point settles is status "error".
    Integer models with coefficients WIDE apart are asked of both without it, within `time_s`.
    "exact" fills `exact`, the rational value of the optimal basis of a linear program, or of the incumbent's integers
    for a mixed-integer one (`trex.solver.exact`); one that contradicts the objective is status "error".
    Without `memory_mb` there is no child and no limit.

    Never raises for a model's properties: data that no solver takes and a point that fails its check are status
    "error" with the reason; "unknown" is a claim that nothing supports. Raises ModelError for what is no Model, where
    `time_s` or `memory_mb` is not positive, and for an unknown `check`.
    """
    if not isinstance(model, Model):
        raise ModelError(f"a {type(model).__name__} is no Model; trex.solver.lp reads files, text and other models")
    require_positive("time_s", time_s, "seconds")
    if memory_mb is not None:
        require_positive("memory_mb", memory_mb, "megabytes")
    if check not in CHECKS:
        raise ModelError(f"check = {check!r}; accepted: {', '.join(map(repr, CHECKS))}")
    begin = time.perf_counter()
    if memory_mb is None:
        solution = _complete(model, time_s, None, check)
    else:
        found, ended = call(
            _complete, (model, time_s, memory_mb, check), memory_mb, time_s * (1 if check is None else 2)
        )
        solution = found or without_point(*ended, highs.NAME)
    return replace(solution, seconds=time.perf_counter() - begin)


def require_positive(name: str, limit: float, unit: str) -> None:
    """Raise ModelError for a limit that is not a positive number."""
    if not isinstance(limit, Real) or isinstance(limit, bool) or not limit > 0:
        raise ModelError(f"{name} = {limit!r}; a positive number of {unit} is accepted")


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


def unchecked(model: Model, time_s: float = 60.0) -> tuple[str, float | None]:
    """What HiGHS says when nothing is checked: its own status and objective. For comparison, not for use."""
    try:
        solver = highs.run(model, time_s)
    except ModelError as error:
        return str(error), None
    status = solver.modelStatusToString(solver.getModelStatus())
    return status, solver.getInfo().objective_function_value if status == "Optimal" else None


def _complete(model: Model, time_s: float, memory_mb: float | None, check: str | None) -> Solution:
    """The solution with what `check` adds."""
    limits = Limits(time_s, memory_mb)
    solution = _solve(model, limits)
    if check == "second":
        return second(model, solution, Limits(time_s, memory_mb))
    if _wide(model):
        solution = second(model, solution, limits)
    if check == "exact" and solution.status == "optimal":
        point = np.array([solution.values[name] for name in model.variables])
        value, reason = exact.value(model, point, Limits(time_s).left())
        return _with_exact(solution, value, reason)
    return solution


def _wide(model: Model) -> bool:
    """Whether an integer model has coefficients so far apart that a solver's tolerances can hide some of them."""
    sizes = np.abs(model.value[model.value != 0])
    return bool(len(model.integers)) and len(sizes) > 0 and sizes.max() >= WIDE * sizes.min()


def _with_exact(solution: Solution, value: Fraction | None, reason: str) -> Solution:
    """The solution with its exact value; an error where the two do not agree."""
    message = joined(solution.message, reason)
    if value is None or solution.objective is None:
        return replace(solution, message=message)
    if math.isclose(float(value), solution.objective, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        return replace(solution, exact=value, message=message)
    wrong = f"{solution.solver} claims the optimum {solution.objective!r}; in rational numbers it is {float(value)!r}"
    return replace(without_point("error", wrong, solution.solver), exact=value)


def _solve(model: Model, limits: Limits) -> Solution:
    if (model.lower == np.inf).any() or (model.upper == -np.inf).any():
        return without_point("error", "a variable has a lower bound of inf or an upper bound of -inf", highs.NAME)
    if not model.variables:  # HiGHS forgets the offset of an empty model
        if violation(model, np.zeros(0)) is not None:
            return without_point("infeasible", "", highs.NAME)
        return Solution("optimal", model.offset, model.offset, 0.0, highs.NAME, {}, "")
    reason = beyond_highs(model)
    if reason is None:
        found = by_highs(model, limits)
        if found.status == "infeasible":
            return _confirmed(model, found, limits)
        if found.status not in ("error", "infeasible_or_unbounded", "unknown"):
            return found
        reason = found.message
    elif _falls_without_end(model, limits):
        return without_point("unbounded", "", scip.name())
    found = by_scip(model, limits)
    return replace(found, message=joined(reason, found.message))


def _confirmed(model: Model, found: Solution, limits: Limits) -> Solution:
    """HiGHS' "infeasible", unless SCIP has a point that satisfies the model to the last digits, or a ray beside one.

    A point that misses rows by what solvers tolerate is none: a row in large numbers can be missed so by much.
    """
    other = by_scip(model, limits, max(LEAST_PATIENCE, PATIENCE * limits.spent()))
    if other.objective is None and other.status != "unbounded":
        return found
    if other.values and violation(model, np.array([other.values[name] for name in model.variables]), STRICT):
        return found
    return replace(other, message=f"HiGHS calls the model infeasible; {other.solver} has a point of it")


def _falls_without_end(model: Model, limits: Limits) -> bool:
    """Whether a quadratic objective improves for ever along a ray of the feasible set, and that is not empty."""
    cone = recession(model)
    if cone is None:
        return False
    steepest = by_scip(cone, limits, limits.left() / 4).objective
    largest = max(map(abs, cone.quadratic.values()))
    return steepest is not None and abs(steepest) > FALL * largest and feasible(model, limits) == "optimal"
