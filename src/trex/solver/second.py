"""A second solver's word on a solution, and what to make of a disagreement."""

import math
from dataclasses import replace

from trex.solver import highs
from trex.solver.believe import Limits, beyond_highs, by_highs, by_scip
from trex.solver.check import TOLERANCE
from trex.solver.model import Model
from trex.solver.solution import Agreement, Solution, joined

DECIDED = ("optimal", "infeasible", "unbounded")


def second(model: Model, first: Solution, limits: Limits) -> Solution:
    """`first` with the agreement of SCIP, or of HiGHS where SCIP gave it.

    A checked point decides: of two optima the better one stands, and a point refutes "infeasible". Where one says
    "unbounded" against an optimum, the status is "error" without a point.
    """
    if first.solver != highs.NAME and beyond_highs(model) is not None:
        return replace(first, message=joined(first.message, "no second solver takes this model"))
    if first.solver == highs.NAME:
        other = by_scip(model, limits, easy=not model.beyond_linear)
    else:
        other = by_highs(model, limits)
    agrees = _agrees(first, other)
    solution = replace(first, agreement=Agreement(other.solver, other.status, other.objective, agrees))
    if agrees is not False:
        return solution
    value = "" if other.objective is None else f" with {other.objective!r}"
    message = joined(first.message, f"{other.solver} disagrees: {other.status}{value}")
    if first.status == "optimal" and (other.status == "infeasible" or _better(model, first, other)):
        return replace(solution, message=message)  # the checked point refutes the other
    if other.status == "optimal" and (first.status == "infeasible" or _better(model, other, first)):
        refuted = f"{first.solver} said {first.status}" + ("" if first.objective is None else f", {first.objective!r}")
        return replace(other, agreement=solution.agreement, message=joined(other.message, refuted))
    return replace(solution, status="error", objective=None, bound=None, values={}, message=message)


def _agrees(first: Solution, other: Solution) -> bool | None:
    """None where one of the two decides nothing; a checked point is enough to contradict "infeasible"."""
    if first.status not in DECIDED or other.status not in DECIDED:
        pointed = {s.status for s in (first, other) if s.objective is not None and s.status != "optimal"}
        return False if pointed and "infeasible" in (first.status, other.status) else None
    if first.status != other.status:
        return False
    if first.objective is None or other.objective is None:
        return True
    return math.isclose(first.objective, other.objective, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _better(model: Model, first: Solution, other: Solution) -> bool:
    if first.objective is None or other.objective is None:
        return False
    return first.objective < other.objective if model.sense == "min" else first.objective > other.objective
