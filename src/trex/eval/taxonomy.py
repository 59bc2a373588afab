"""Why an answer fails: a class, and the evidence for it."""

from dataclasses import dataclass

from trex.solver.equivalence import Verdict
from trex.solver.model import Model
from trex.solver.sandbox import Execution
from trex.solver.solution import Solution

PROTOCOL, EXECUTION, STATUS, DIRECTION, DISCRETE, CONSTRAINTS, RATIO, STRUCTURAL = FAILURES = (
    "protocol, interface or data",
    "execution",
    "infeasible or unbounded",
    "objective direction",
    "discrete variables",
    "missing or extra constraint",
    "ratio or units",
    "structural",
)


@dataclass(frozen=True)
class Failure:
    """A class of FAILURES, what shows it, and whether that is a comparison of models or of values alone."""

    kind: str
    evidence: str
    basis: str  # "text", "execution", "models", "values"


def of_execution(how: str, execution: Execution | None) -> Failure | None:
    """The failure of an answer that left no model to judge, or whose program did not end by itself."""
    if execution is None:
        return Failure(PROTOCOL, how, "text")
    if execution.status != "ok":
        return Failure(EXECUTION, execution.message or execution.status, "execution")
    if execution.model is None:
        return Failure(PROTOCOL, execution.unread or "the program solved, wrote and built no model", "execution")
    return None


def of_model(
    model: Model, solution: Solution, reference: Model | None, verdict: Verdict | None, label: float | None
) -> Failure:
    """The failure of a model with a wrong optimum, or that is not the reference's."""
    if solution.status in ("infeasible", "unbounded", "infeasible_or_unbounded"):
        return Failure(STATUS, f"the model is {solution.status}", "values")
    return Failure(STRUCTURAL, "", "values")
