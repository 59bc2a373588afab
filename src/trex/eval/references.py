"""Solve reference models and compare with the recorded optima; every disagreement carries its reason."""

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trex.data import families
from trex.data.documents import generate
from trex.eval.benchmarks import BenchmarkError, ReferenceProblem
from trex.eval.scores import RELATIVE as RELATIVE  # its tolerance, for those that report the checks
from trex.eval.scores import right
from trex.published import load
from trex.solver import highs, lp
from trex.solver.solve import solve, unchecked

DIFFERS = "the optimum differs from the recorded one"
UNRECORDED = "no optimum is recorded"
CLAIMS = ("right", "wrong", "none")  # of HiGHS by itself, beside an optimum that is believed


@dataclass(frozen=True)
class Reference:
    """A model in LP format and the optimum recorded for it, if any."""

    id: str
    lp: str
    recorded: float | None


@dataclass(frozen=True)
class ReferenceCheck:
    """One reference model against its record. `agrees` needs status "optimal" and a value equal to the record.

    Where another solver than HiGHS was needed, `highs_alone` and `claimed` say what HiGHS makes of the model unchecked.
    """

    id: str
    model: str  # hash of the LP text: equal for rows that share one model
    recorded: float | None
    objective: float | None
    status: str  # of trex.solver.solve, or "not read"
    solver: str  # name and version of the one that gave the status; empty where the text was not read
    agrees: bool
    reason: str  # of a disagreement; empty where the row agrees
    highs_alone: str  # HiGHS' own status, or why it does not take the model; empty where its answer stands
    claimed: float | None  # what HiGHS alone calls the optimum, if it does
    seconds: float

    @property
    def difference(self) -> float | None:
        """Relative difference between optimum and record; None where either is missing."""
        if self.objective is None or self.recorded is None:
            return None
        largest = max(abs(self.objective), abs(self.recorded))
        return abs(self.objective - self.recorded) / largest if largest else 0.0


def references(problems: Iterable[ReferenceProblem]) -> tuple[Reference, ...]:
    """The reference models of benchmark rows. Raises BenchmarkError where a file is not text."""
    found = []
    for row in problems:
        try:
            found.append(Reference(row.id, row.reference_lp.read_text(encoding="utf-8"), row.optimal_value))
        except (OSError, UnicodeDecodeError) as error:
            raise BenchmarkError(f"{row.id}: {row.reference_lp} cannot be read: {error}") from None
    return tuple(found)


def rows_read(rows: Sequence[Reference], benchmark: str) -> dict[str, Any]:
    """Which rows these are, for a record: how many the benchmark has released, and one hash over all that was read.

    `rows_sha256` is that of a JSON list of [id, LP text, recorded optimum or null], one per row, in order, ASCII,
    without spaces.
    """
    text = json.dumps([[row.id, row.lp, row.recorded] for row in rows], separators=(",", ":"))
    released = int(load("benchmark_sets")[benchmark]["rows"].value)
    return {"released": released, "rows_sha256": hashlib.sha256(text.encode()).hexdigest()}


def family_references(count: int, seed: int) -> tuple[Reference, ...]:
    """Models of generated documents, written to LP format by Pyomo; recorded is the objective in the document."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.lp")
        for number, document in enumerate(generate(count, seed)):
            model = families.get(document.family).model(document.data)
            model.write(str(path), io_options={"symbolic_solver_labels": True})
            found.append(Reference(f"{document.family}_{number}", path.read_text(), document.objective))
    return tuple(found)


def check_references(rows: Sequence[Reference], time_s: float = 60.0) -> tuple[ReferenceCheck, ...]:
    """Solve every reference model within `time_s` seconds each; rows that share one LP text share one solve."""
    outcomes: dict[str, _Outcome] = {}
    checks = []
    for row in rows:
        key = hashlib.sha256(row.lp.encode()).hexdigest()[:16]
        if key not in outcomes:
            outcomes[key] = _outcome(row.lp, time_s)
        found = outcomes[key]
        agrees, reason = False, found.reason
        if row.recorded is None:
            reason = UNRECORDED
        elif found.objective is not None:
            agrees = right(found.objective, row.recorded)
            reason = "" if agrees else DIFFERS
        checks.append(
            ReferenceCheck(
                row.id, key, row.recorded, found.objective, found.status, found.solver, agrees, reason,
                found.highs_alone, found.claimed, found.seconds,
            )
        )  # fmt: skip
    return tuple(checks)


def summary(checks: Sequence[ReferenceCheck]) -> dict[str, Any]:
    """Counts of rows and of distinct models: rows come in pairs of texts for one model, so `models` is the sample size.

    `optima_by_solver` counts rows by the solver whose optimum is believed. `highs_alone` is about those of them where
    that is not HiGHS: how many times HiGHS by itself claims that optimum (right), another one (wrong), or none.
    """
    solved = [check for check in checks if check.objective is not None]
    alone = Counter(_alone(check) for check in solved if check.highs_alone)
    return {
        "rows": len(checks),
        "agree": sum(check.agrees for check in checks),
        "models": len({check.model for check in checks}),
        "models_agree": len({check.model for check in checks} - {c.model for c in checks if not c.agrees}),
        "disagree_by_reason": dict(sorted(Counter(c.reason for c in checks if not c.agrees).items())),
        "optima_by_solver": dict(sorted(Counter(check.solver for check in solved).items())),
        "highs_alone": {claim: alone[claim] for claim in CLAIMS},
        "largest_relative_difference": max((c.difference for c in checks if c.difference is not None), default=None),
        "timings": {"solve_seconds": sum({check.model: check.seconds for check in checks}.values())},
    }


def table(checks: Sequence[ReferenceCheck]) -> dict[str, list[Any]]:
    """The checks as columns, for `trex.results.record(series=…)`; without the seconds, which no two runs share."""
    names = (
        "id", "model", "recorded", "objective", "status", "solver", "agrees", "reason", "highs_alone", "claimed",
        "difference",
    )  # fmt: skip
    return {name: [getattr(check, name) for check in checks] for name in names}


def _alone(check: ReferenceCheck) -> str:
    """What HiGHS' own claim is worth beside the optimum that is believed."""
    if check.claimed is None or check.objective is None:
        return "none"
    return "right" if right(check.claimed, check.objective) else "wrong"


@dataclass(frozen=True)
class _Outcome:
    """What was found about one LP text; the fields are those of ReferenceCheck. `reason`: why there is no optimum."""

    status: str
    reason: str
    objective: float | None = None
    solver: str = ""
    highs_alone: str = ""
    claimed: float | None = None
    seconds: float = 0.0


def _outcome(text: str, time_s: float) -> _Outcome:
    try:
        model = lp.read(text)
    except lp.LPError as error:
        return _Outcome("not read", error.reason)
    solution = solve(model, time_s)
    optimal = solution.status == "optimal"
    alone, claimed = "", None
    if solution.solver != highs.NAME or solution.status == "error":
        alone, claimed = unchecked(model, time_s)
    reason = "" if optimal else solution.message or solution.status
    objective = solution.objective if optimal else None
    return _Outcome(solution.status, reason, objective, solution.solver, alone, claimed, solution.seconds)
