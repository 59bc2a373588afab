"""Judge one answer: its model is solved again here and compared with label and reference; nothing it says counts."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trex.eval import scores, taxonomy
from trex.eval.execute import execution as execution_of
from trex.eval.execute import run_program
from trex.eval.items import Item
from trex.eval.labels import labels, latest
from trex.eval.rows import EvaluationError, Row
from trex.eval.taxonomy import Failure
from trex.solver import lp
from trex.solver.equivalence import Verdict, compare
from trex.solver.model import Model
from trex.solver.sandbox import Limits, Sandbox
from trex.solver.solution import Solution
from trex.solver.solve import solve

BY_MODEL = "b4o_orgeval"  # the set whose answers are right where their model is the reference's


@dataclass(frozen=True)
class Judging:
    """Limits of judging one answer, and the version of the labels: 0 is as recorded, None the newest."""

    solve_s: float = 30.0
    compare_s: float = 3.0
    label_version: int | None = None

    def __post_init__(self) -> None:
        """Raise EvaluationError for a limit that is not positive, or an unknown version."""
        for name in ("solve_s", "compare_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise EvaluationError(f"{name} = {value!r}; a positive number of seconds is accepted")
        if self.label_version is None:
            object.__setattr__(self, "label_version", latest())
        if self.label_version not in range(latest() + 1):
            raise EvaluationError(f"label_version = {self.label_version!r}; accepted: 0 to {latest()}")


@dataclass(frozen=True)
class Judgement:
    """What an answer is worth. `correct` uses current labels, `recorded` those of the set, both at 1e-6 relatively.

    Both are about the model in `b4o_orgeval`, about its optimum elsewhere. `as_published` applies the published
    tolerance, 1e-6 absolutely, to the same optimum and the recorded label; in `b4o_orgeval`, the published checker to
    the same model. `counted` is false where current labels drop the item.
    """

    correct: bool
    recorded: bool
    as_published: bool
    counted: bool
    optimum: float | None  # of the answer's model, found here
    solved: str  # status of that; "" where there was no model
    solver: str
    structure: str  # "equal", "different" or "unknown" beside the reference; "" where one is missing
    difference: str  # the witness, or how the models are equal
    right_value: bool | None  # whether the optimum is the current label's; None where there is no label
    failure: str  # one of taxonomy.FAILURES; "" where correct
    evidence: str
    basis: str
    program: str  # status of the program; "" where there was none
    isolation: str

    @property
    def explanation(self) -> str:
        """One line for a reader."""
        if self.correct:
            return f"right: optimum {self.optimum!r}" + (f", model {self.structure}" if self.structure else "")
        return f"{self.failure}: {self.evidence}"


def judge(item: Item, row: Mapping[str, Any], settings: Judging | None = None) -> Judgement:
    """Judge an answer by the row of its execution (`trex.eval.execute`). Raises EvaluationError for a damaged row."""
    settings = settings or Judging()
    label = labels(item, settings.label_version)
    execution = execution_of(row)
    failure = taxonomy.of_execution(str(row["how"]), execution)
    if failure is not None and failure.kind == taxonomy.STATUS:
        failure = None  # solvers' interfaces raise where a model has no optimum: the model is judged
    model = execution.model if execution is not None else None
    solution = solve(model, settings.solve_s) if model is not None else None
    optimum = solution.objective if solution is not None and solution.status == "optimal" else None
    reference = lp.read(item.reference) if item.reference else None
    verdict = (
        compare(model, reference, time_s=settings.compare_s) if model is not None and reference is not None else None
    )
    right = scores.right(optimum, label.current)
    same = verdict is not None and verdict.kind == "equal"
    by_model = item.set == BY_MODEL and reference is not None
    recorded = same if by_model else scores.right(optimum, label.recorded)
    good = same if by_model and not label.reference_wrong else right
    published = scores.right_as_published(optimum, label.recorded)
    if item.set == BY_MODEL and model is not None:
        published = compare(model, item.reference, "as-published").kind == "equal"
    runs = failure is None
    if failure is None and not good:
        assert model is not None and solution is not None
        compared = (None, None) if label.reference_wrong else (reference, verdict)
        failure = taxonomy.of_model(model, solution, *compared, label.current)
    elif failure is not None and model is not None and good:
        failure = Failure(failure.kind, f"{failure.evidence}; its model is right", failure.basis)
    return Judgement(
        correct=runs and good,
        recorded=runs and recorded,
        as_published=runs and published,
        counted=counted(item, settings.label_version),
        optimum=optimum,
        solved=solution.status if solution is not None else "",
        solver=solution.solver if solution is not None else "",
        structure=verdict.kind if verdict is not None else "",
        difference=_difference(verdict),
        right_value=None if label.current is None else right,
        failure=failure.kind if failure is not None else "",
        evidence=failure.evidence if failure is not None else "",
        basis=failure.basis if failure is not None else "",
        program=execution.status if execution is not None else "",
        isolation=execution.isolation if execution is not None else "",
    )


def judge_answer(
    item: Item, text: str, sandbox: Sandbox, limits: Limits | None = None, settings: Judging | None = None
) -> Judgement:
    """Extract, run and judge one answer."""
    return judge(item, run_program(text, item.files, sandbox, limits or Limits()), settings)


def as_row(item: str, sample: int, judgement: Judgement) -> Row:
    """The judgement as a row of a run."""
    return {"item": item, "sample": sample, "status": "ok", **asdict(judgement)}


def counted(item: Item, label_version: int | None = None) -> bool:
    """Whether the labels of a version can tell right from wrong."""
    label = labels(item, label_version)
    if item.set == BY_MODEL and not label.reference_wrong:
        return True
    return label.current is not None and not label.dropped


def _difference(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    if verdict.witness is not None and verdict.kind != "equal":
        found = verdict.witness
        return f"{found.invariant}: {found.a} in the answer, {found.b} in the reference"[:500]
    return verdict.reason[:500]


__all__ = ["BY_MODEL", "Judgement", "Judging", "Model", "Solution", "as_row", "judge", "judge_answer"]
