"""Comparisons of models with themselves rewritten, and with one change: our verdict and the published checker's."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from trex.eval.rewriting import mutated, rewritten
from trex.solver.equivalence import compare
from trex.solver.model import Model

SAME = "none"  # the kind of change of a model that was only rewritten


@dataclass(frozen=True)
class Trial:
    """One comparison. `change` is SAME or the kind of change (`rewriting.KINDS`)."""

    model: str
    change: str
    verdict: str  # "equal", "different", "unknown"
    witness: str  # what differs; empty where nothing was found
    published: str  # "equal" or "different"
    seconds: float


def trials(models: Iterable[tuple[str, Model]], seed: int, changes: int = 1, time_s: float = 5.0) -> tuple[Trial, ...]:
    """Compare each (name, model) with itself rewritten, and `changes` times with one change made before rewriting."""
    rng = random.Random(seed)
    found = []
    for name, model in tqdm(list(models), desc="comparisons", leave=False):
        others = [(SAME, rewritten(model, rng))]
        for _ in range(changes):
            kind, changed = mutated(model, rng)
            others.append((kind, rewritten(changed, rng)))
        for change, other in others:
            verdict = compare(model, other, time_s=time_s)
            witness = verdict.witness.invariant if verdict.kind == "different" and verdict.witness else ""
            published = compare(model, other, mode="as-published").kind
            found.append(Trial(name, change, verdict.kind, witness, published, verdict.seconds))
    return tuple(found)


def summary(found: Sequence[Trial]) -> dict[str, Any]:
    """Counts of verdicts on unchanged and on changed models, ours and published, and the seconds of ours."""
    same = [trial for trial in found if trial.change == SAME]
    changed = [trial for trial in found if trial.change != SAME]
    return {
        "unchanged": len(same),
        "unchanged_equal": sum(trial.verdict == "equal" for trial in same),
        "unchanged_equal_as_published": sum(trial.published == "equal" for trial in same),
        "changed": len(changed),
        "changed_verdicts": dict(sorted(Counter(trial.verdict for trial in changed).items())),
        "changed_equal_as_published": sum(trial.published == "equal" for trial in changed),
        "different_called_equal_as_published": sum(
            t.published == "equal" and t.verdict == "different" for t in changed
        ),
        "timings": {
            "median_seconds_unchanged": sorted(t.seconds for t in same)[len(same) // 2] if same else None,
            "largest_seconds": max((t.seconds for t in found), default=None),
        },
    }


def table(found: Sequence[Trial]) -> dict[str, list[Any]]:
    """The trials as columns, for `trex.results.record(series=…)`; without the seconds, which no two runs share."""
    names = ("model", "change", "verdict", "witness", "published")
    return {name: [getattr(trial, name) for trial in found] for name in names}
