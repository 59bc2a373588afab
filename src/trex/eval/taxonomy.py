"""Why an answer fails: a class, and the evidence for it.

Where a reference model is known, the answer's model is repaired in one place until it is the reference, which is a
proof (`trex.eval.causes`); elsewhere the changed model's optimum is compared with the label, which is none
(`trex.eval.by_value`). `Failure.basis` tells the two apart.

* A program that ends with an exception of the interfaces (ImportError, AttributeError, TypeError, … and what pyomo,
  gurobipy or highspy raise) or of the data (KeyError, FileNotFoundError, …) is of the first class; limits, signals and
  all other exceptions are "execution". Where the model that it had solved has no optimum, that is the failure.
* An infeasible or unbounded model is of that class even where a repair is known, which the evidence then names; not so
  where the reference has no optimum for the same reason.
* A number of objective or rows that is off is "ratio or units", by whatever factor; a right side or bound only where
  the factor is one of units (`trex.eval.factors`), else it is another constraint.
* A model without a free decision, one whose optimum was not found within the time, one whose objective alone differs by
  no factor, and one that differs in more than one place are "structural".
"""

import math
import re
from dataclasses import dataclass

from trex.eval import search
from trex.eval.by_value import causes_by_value
from trex.eval.causes import cause
from trex.eval.search import Cause
from trex.solver.equivalence import Verdict
from trex.solver.equivalence.canonical import canonical
from trex.solver.equivalence.draft import draft, simplify
from trex.solver.model import Model, ModelError
from trex.solver.sandbox import Execution
from trex.solver.solution import Solution
from trex.solver.solve import solve

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
CLASSES = {
    search.DIRECTION: DIRECTION,
    search.DISCRETE: DISCRETE,
    search.CONSTRAINTS: CONSTRAINTS,
    search.RATIO: RATIO,
    search.OBJECTIVE: STRUCTURAL,
}
NO_OPTIMUM = ("infeasible", "unbounded", "infeasible_or_unbounded")
INTERFACE = (
    "ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "NameError", "UnboundLocalError",
    "SyntaxError", "IndentationError", "TabError", "NotImplementedError", "ApplicationError", "GurobiError",
)  # fmt: skip
DATA = ("KeyError", "IndexError", "FileNotFoundError", "IsADirectoryError", "JSONDecodeError", "UnicodeDecodeError")
RUNNING = ("MemoryError", "RecursionError", "ZeroDivisionError", "OverflowError", "AssertionError", "SystemExit")
FRAME = re.compile(r'^  File "([^"\n]*)", line \d+', re.M)
LIBRARY = re.compile(r"[/\\](?:pyomo|gurobipy|highspy|recorder)[/\\.]")
SOLVE_S = 5.0  # for a model whose program ended with an exception
LONGEST = 500  # characters of evidence


@dataclass(frozen=True)
class Failure:
    """A class of FAILURES, what shows it, and whether that is a comparison of models or of values alone."""

    kind: str
    evidence: str
    basis: str  # "text", "execution", "models", "values"


def of_execution(how: str, execution: Execution | None) -> Failure | None:
    """The failure of an answer that left no model to judge, or whose program did not end by itself."""
    if execution is None:
        return Failure(PROTOCOL, f"no program: {how}" if how else "no program", "text")
    if execution.status == "error":
        return _of_exception(execution)
    if execution.status != "ok":
        return Failure(EXECUTION, _short(f"{execution.status}: {execution.message}".rstrip(": ")), "execution")
    if execution.model is None:
        what = f"the model cannot be represented: {execution.unread}" if execution.unread else ""
        return Failure(PROTOCOL, _short(what or "the program solved, wrote and built no model"), "execution")
    return None


def _of_exception(execution: Execution) -> Failure:
    """An exception by its name, and by whether a library of models raised it."""
    name, evidence = execution.error.rpartition(".")[2], execution.message or "the program ended with an error"
    if execution.how == "solved" and execution.model is not None and name not in RUNNING:
        status = solve(execution.model, SOLVE_S).status
        if status in NO_OPTIMUM:
            return Failure(
                STATUS, _short(f"the model is {_words(status)}, which ended the program: {evidence}"), "values"
            )
    frames = FRAME.findall(execution.stderr)
    from_library = bool(frames) and LIBRARY.search(frames[-1]) is not None
    if name in DATA and not from_library:
        return Failure(PROTOCOL, _short(f"data: {evidence}"), "execution")
    if name in INTERFACE or (from_library and name not in RUNNING):
        return Failure(PROTOCOL, _short(f"interface: {evidence}"), "execution")
    return Failure(EXECUTION, _short(evidence), "execution")


def of_model(
    model: Model,
    solution: Solution,
    reference: Model | None,
    verdict: Verdict | None,
    label: float | None,
    time_s: float = 2.0,
) -> Failure:
    """The failure of a model with a wrong optimum, or that is not the reference's.

    Repairs are tried for about `time_s` seconds. Without a cause the failure is "structural", or the status of a model
    that has no optimum.
    """
    if not _decides(model) and (reference is None or _decides(reference)):
        return Failure(STRUCTURAL, "the model has no free decision: a constant written as a model", "values")
    basis, found = _causes(model, solution, reference, verdict, label, time_s)
    texts = "; also: ".join(each.evidence for each in found)
    if solution.status in NO_OPTIMUM and not _as_reference(solution, reference, time_s):
        evidence = f"the model is {_words(solution.status)}"
        return Failure(STATUS, _short(f"{evidence}; {texts}" if texts else evidence), basis if found else "values")
    if found:
        return Failure(CLASSES[found[0].kind], _short(texts), basis)
    return Failure(STRUCTURAL, _short(_difference(solution, reference, verdict, label)), basis)


def _causes(
    model: Model,
    solution: Solution,
    reference: Model | None,
    verdict: Verdict | None,
    label: float | None,
    time_s: float,
) -> tuple[str, list[Cause]]:
    """The basis, and the causes on it."""
    try:
        if reference is not None:
            if verdict is not None and verdict.kind == "equal":
                return "models", []
            found = cause(model, reference, time_s)
            return "models", [found] if found else []
        if label is not None and math.isfinite(label):
            found_by_value = causes_by_value(model, solution, label, time_s)
            if found_by_value and not label:
                note = "the label is 0, which many models reach"
                found_by_value.append(Cause(found_by_value[0].kind, note))
            return "values", found_by_value
    except ModelError:  # a repair that would be no model
        return "models" if reference is not None else "values", []
    return "values", []


def _difference(solution: Solution, reference: Model | None, verdict: Verdict | None, label: float | None) -> str:
    """Why no single change is the cause, in words."""
    if solution.status != "optimal" and solution.status not in NO_OPTIMUM:
        reason = f": {solution.message}" if solution.message else ""
        return f"no optimum was found ({_words(solution.status)}){reason}"
    if verdict is not None and verdict.kind == "equal":
        return f"the model is the reference; its optimum {solution.objective!r} is not the label {label!r}"
    if verdict is not None and verdict.witness is not None:
        seen = verdict.witness
        text = f"{seen.invariant}: {seen.a} in the answer, {seen.b} in the reference"
        return f"no single change makes the model the reference; {text}"
    if reference is not None:
        return "no single change makes the model the reference"
    if label is None:
        return "there is neither a reference nor a label to compare with"
    return f"wrong value, no single change explains it: {solution.objective!r}, the label is {label!r}"


def _decides(model: Model) -> bool:
    """Whether a variable is left when all that bounds fix are put in."""
    work = draft(model)
    simplify(work)
    return bool(canonical(work).columns)


def _as_reference(solution: Solution, reference: Model | None, time_s: float) -> bool:
    """Whether the reference has no optimum for the same reason."""
    return reference is not None and solve(reference, time_s).status == solution.status


def _words(status: str) -> str:
    return status.replace("_", " ")


def _short(text: str) -> str:
    """One line of at most LONGEST characters."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
