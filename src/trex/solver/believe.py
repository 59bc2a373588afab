"""From a solver's claim to a solution: the point polished and checked, "infeasible or unbounded" settled."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trex.solver import highs, scip
from trex.solver.check import TOLERANCE, polished, violation
from trex.solver.convexity import CURVATURE, curvature
from trex.solver.model import SEMI, Model, ModelError
from trex.solver.outcome import Outcome
from trex.solver.solution import Solution, joined

NOT_CONVEX = "the quadratic objective is not convex: an optimum that HiGHS reports is no proof"
MIXED_QUADRATIC = "HiGHS does not solve mixed-integer quadratic programs"
NEAR = 1e-5  # relative where above 1: how far a point of a quadratic program is moved to sit on its rows
SHORT = 5.0  # seconds for a first try
LIMITS = ("time_limit", "memory_limit")


@dataclass(frozen=True)
class Limits:
    """Seconds of wall-clock time from now on, and megabytes for SCIP (None: its own limit)."""

    time_s: float
    memory_mb: float | None = None
    begin: float = field(default_factory=time.perf_counter)

    def left(self) -> float:
        """Seconds that are left; a little when none are, as a limit of 0 means something else to some solvers."""
        return max(self.time_s - self.spent(), 1e-3)

    def spent(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self.begin


def beyond_highs(model: Model) -> str | None:
    """Why HiGHS' answer to a model would be none or could not be believed; None where HiGHS goes first."""
    refused = highs.refuses(model)
    if refused is None and any(model.quadratic.values()):
        if curvature(model) < -CURVATURE:
            return NOT_CONVEX
        if len(model.integers) or set(model.kinds) & set(SEMI):
            return MIXED_QUADRATIC
    return refused


def by_highs(model: Model, limits: Limits) -> Solution:
    """HiGHS' answer, checked; an error where HiGHS refuses the data. For models that are not `beyond_highs`."""
    try:
        outcome = highs.solve(model, limits.left())
    except ModelError as error:
        return without_point("error", str(error), highs.NAME)
    found = believed(model, outcome, limits)
    if found.status == "optimal" and model.quadratic and _improves(model, found, limits):
        return without_point("error", "a better point lies near the one that HiGHS calls optimal", highs.NAME)
    return found


def _improves(model: Model, found: Solution, limits: Limits) -> bool:
    """Whether the gradient of a convex objective falls towards a point of the model nearby: then it is no optimum."""
    point = np.array([found.values[name] for name in model.variables])
    fall = 0.0
    for near, _ in _refined(model, point, limits, 1.0):
        fall = abs(float(_gradient(model, point) @ (near - point)))
    return fall > TOLERANCE * max(1.0, abs(found.objective or 0.0))


def by_scip(model: Model, limits: Limits, seconds: float = math.inf, easy: bool = False) -> Solution:
    """SCIP's answer, checked, within the limits and so many seconds. `easy`: as in `scip.solve`.

    A run that ends in numerical trouble is followed by a looser one; so is one with products of variables that finds
    no optimum in half of the time.
    """
    products = bool(model.quadratic or model.quadratic_rows)
    granted = min(seconds, limits.left()) / (2 if products else 1)
    found = believed(model, scip.solve(model, granted, limits.memory_mb, easy=easy), limits)
    if found.status == "error" or (products and found.status == "time_limit"):
        granted = min(seconds, limits.left())
        looser = believed(model, scip.solve(model, granted, limits.memory_mb, loose=True), limits)
        if looser.status == "optimal" or (looser.objective is not None and found.objective is None):
            return looser
    return found


def believed(model: Model, outcome: Outcome, limits: Limits) -> Solution:
    """What of an outcome can be believed. A point that breaks the model makes it an error that says so."""
    if outcome.status in ("unbounded", "infeasible_or_unbounded"):
        return _settled(model, outcome, limits)
    message = outcome.message
    if outcome.status in LIMITS:
        reached = f"stopped after {limits.time_s:g} s" if outcome.status == "time_limit" else "out of memory"
        message = reached if outcome.point is not None else f"{reached}, without a point"
    if outcome.point is None:
        return replace(without_point(outcome.status, message, outcome.solver), bound=outcome.bound)
    return _checked(model, outcome, message, limits)


def without_point(status: str, message: str, solver: str) -> Solution:
    """A solution that has nothing but a status."""
    return Solution(status, None, None, 0.0, solver, {}, message)


def feasible(model: Model, limits: Limits) -> str:
    """Whether the model has a point, its objective left out: "optimal" (a point, checked), "infeasible" or other."""
    flat = replace(model, cost=np.zeros(len(model.variables)), quadratic={}, offset=0.0)
    found = by_highs(flat, limits) if beyond_highs(flat) is None else by_scip(flat, limits)
    return found.status


def _settled(model: Model, outcome: Outcome, limits: Limits) -> Solution:
    """Infeasible or unbounded? A ray is known; any feasible point, found with the objective left out, decides."""
    if outcome.solver == highs.NAME and len(model.integers):
        # HiGHS may search long for a point of an integer program without objective
        asked = scip.solve(model, min(SHORT, limits.left() / 4), limits.memory_mb)
        outcome = asked if asked.status in ("unbounded", "infeasible") else outcome
    status = outcome.status
    if status != "infeasible":
        known = outcome.point is not None and violation(model, polished(model, outcome.point)) is None
        status = "optimal" if known else feasible(model, limits)
    bounded = np.isfinite(model.lower).all() and np.isfinite(model.upper).all()
    if status == "optimal" and bounded:
        message = f"{outcome.solver} calls a model unbounded in which every variable has its bounds"
        return without_point("unknown", message, outcome.solver)
    if status in ("optimal", "infeasible"):
        return without_point("unbounded" if status == "optimal" else status, "", outcome.solver)
    message = "no feasible point was found or excluded in time"
    return without_point("infeasible_or_unbounded", message, outcome.solver)


def _checked(model: Model, outcome: Outcome, message: str, limits: Limits) -> Solution:
    """The solver's point if it satisfies the model, integers rounded; otherwise an error that names what it breaks."""
    for point, note in _candidates(model, outcome, limits):  # noqa: B007
        broken = violation(model, point)
        objective = model.objective(point) if broken is None else math.nan
        claimed = objective if outcome.claimed is None else outcome.claimed
        wrong = not math.isclose(objective, claimed, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        if broken is None and not wrong:
            break
    name = outcome.solver.split()[0]
    if broken is not None:
        reason = f"the point that {name} returned breaks the model: {broken}"
        return without_point("error", reason, outcome.solver)
    if wrong:
        reason = f"{name} claims the objective {claimed!r}; its point gives {objective!r}"
        return without_point("error", reason, outcome.solver)
    bound = objective if outcome.status == "optimal" and outcome.bound is None else outcome.bound
    values = dict(zip(model.variables, point.tolist(), strict=True))
    message = joined(message, note)
    return Solution(outcome.status, objective, bound, 0.0, outcome.solver, values, message)


def _candidates(model: Model, outcome: Outcome, limits: Limits) -> Iterator[tuple[NDArray[np.float64], str]]:
    """Points to try, best first, each with a note: integers rounded; the rest solved again; as the solver left it."""
    raw = np.asarray(outcome.point, dtype=float)
    point = polished(model, raw)
    refinable = set(model.beyond_linear) <= {"a quadratic objective"}
    loose = bool(model.quadratic) and outcome.solver != highs.NAME  # SCIP's tolerance is wider there
    mixed = 0 < len(model.integers) < len(model.kinds) and not model.beyond_linear
    if (loose or mixed) and refinable:
        # a mixed-integer search leaves the continuous part anywhere within its tolerance; and rounding a switch can
        # matter in a row with large coefficients: the continuous part may make up for it
        yield from _refined(model, point, limits)
    yield point, ""
    if (point != raw).any() and refinable and not (loose or mixed):
        yield from _refined(model, point, limits)
    yield raw, f"integers are whole only to within {TOLERANCE:g}"


def _refined(
    model: Model, point: NDArray[np.float64], limits: Limits, near: float = NEAR
) -> Iterator[tuple[NDArray[np.float64], str]]:
    """The best point for the objective's gradient with the integers fixed, near the point if that is not constant."""
    lower, upper = model.lower.copy(), model.upper.copy()
    if model.quadratic:
        step = near * np.maximum(1.0, np.abs(point))
        lower, upper = np.maximum(lower, point - step), np.minimum(upper, point + step)
    lower[model.integers] = upper[model.integers] = point[model.integers]
    kinds = ("continuous",) * len(model.kinds)
    try:
        gradient = _gradient(model, point)
        rest = replace(model, cost=gradient, lower=lower, upper=upper, kinds=kinds, quadratic={}, offset=0.0)
        again = highs.solve(rest, limits.left())
    except ModelError:
        return
    if again.status == "optimal" and again.point is not None:
        again.point[model.integers] = point[model.integers]
        yield again.point, ""


def _gradient(model: Model, point: NDArray[np.float64]) -> NDArray[np.float64]:
    gradient = model.cost.copy()
    for (i, j), c in model.quadratic.items():
        gradient[i] += c * point[j]
        gradient[j] += c * point[i]
    return gradient
