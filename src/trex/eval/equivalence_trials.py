"""Models compared with themselves in other words, and with one change: our verdict and the published checker's."""

import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from trex.eval.rewriting import mutated, renamed, rewritten
from trex.solver.equivalence import INFEASIBLE, compare
from trex.solver.model import Model

RENAMED, REWRITTEN = "only renamed", "rewritten"  # what was done to a model that was not changed
SAME = (RENAMED, REWRITTEN)


@dataclass(frozen=True)
class Trial:
    """One comparison. `change` is one of SAME or the kind of change (`rewriting.KINDS`)."""

    model: str
    change: str
    verdict: str  # "equal", "different", "unknown"
    witness: str  # what differs; empty where nothing was found
    infeasible: bool  # whether the verdict is unknown because both models are
    published: str  # "equal" or "different"
    seconds: float


def trials(models: Iterable[tuple[str, Model]], seed: int, changes: int = 1, time_s: float = 5.0) -> tuple[Trial, ...]:
    """Compare each (name, linear model) with itself renamed, rewritten, and `changes` times changed and renamed."""
    rng = random.Random(seed)
    found = []
    for name, model in tqdm(list(models), unit="model", disable=not sys.stderr.isatty()):
        others = [(RENAMED, renamed(model, rng)), (REWRITTEN, rewritten(model, rng))]
        for _ in range(changes):
            kind, changed = mutated(model, rng)
            others.append((kind, renamed(changed, rng)))
        for change, other in others:
            verdict = compare(model, other, time_s=time_s)
            witness = verdict.witness.invariant if verdict.kind == "different" and verdict.witness else ""
            infeasible = verdict.reason == INFEASIBLE
            published = compare(model, other, mode="as-published").kind
            found.append(Trial(name, change, verdict.kind, witness, infeasible, published, verdict.seconds))
    return tuple(found)


def summary(found: Sequence[Trial]) -> dict[str, Any]:
    """Counts of verdicts on unchanged and on changed models, ours and published, and the seconds of ours."""
    same = [trial for trial in found if trial.change in SAME]
    changed = [trial for trial in found if trial.change not in SAME]
    seconds = sorted(trial.seconds for trial in same)
    return {
        **{f"{of.replace(' ', '_')}": sum(t.change == of for t in same) for of in SAME},
        **{f"{of.replace(' ', '_')}_equal": sum(t.change == of and t.verdict == "equal" for t in same) for of in SAME},
        **{
            f"{of.replace(' ', '_')}_equal_as_published": sum(t.change == of and t.published == "equal" for t in same)
            for of in SAME
        },
        "changed": len(changed),
        "changed_verdicts": dict(sorted(Counter(trial.verdict for trial in changed).items())),
        "changed_both_infeasible": sum(trial.infeasible for trial in changed),
        "different_called_equal_as_published": sum(
            t.published == "equal" and t.verdict == "different" for t in changed
        ),
        "timings": {
            "median_seconds_unchanged": seconds[len(seconds) // 2] if seconds else None,
            "largest_seconds": max((t.seconds for t in found), default=None),
        },
    }


def table(found: Sequence[Trial]) -> dict[str, list[Any]]:
    """The trials as columns, for `trex.results.record(series=…)`; without the seconds, which no two runs share."""
    names = ("model", "change", "verdict", "witness", "infeasible", "published")
    return {name: [getattr(trial, name) for trial in found] for name in names}
