"""Scores: is a value right, pass@k without bias, and any-of-k as some reports call accuracy."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RELATIVE = 1e-6  # tolerance of an optimum
ABSOLUTE = 1e-9  # for optima of 0, where solvers' sums leave about 1e-10
PUBLISHED = 1e-6  # absolute tolerance of the published evaluator, whatever the size of the label


class ScoreError(ValueError):
    """Counts or scores that no estimate can be made from. Names the items and what is accepted."""


def right(value: float | None, label: float | None) -> bool:
    """Equal within 1e-6 of the larger one, or within 1e-9; nothing is right without a finite value and a label."""
    return _numbers(value, label) and math.isclose(value, label, rel_tol=RELATIVE, abs_tol=ABSOLUTE)  # type: ignore[arg-type]


def right_as_published(value: float | None, label: float | None) -> bool:
    """Equal within 1e-6 absolutely: the published evaluator's rule (facts of its code), kept for comparison."""
    return _numbers(value, label) and abs(value - label) <= PUBLISHED  # type: ignore[operator]


def _numbers(value: float | None, label: float | None) -> bool:
    return value is not None and label is not None and math.isfinite(value) and math.isfinite(label)


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """The chance that k of the samples, drawn without replacement, hold a correct one: 1 - C(n-c, k) / C(n, k).

    As a product of at most k factors, which neither overflows nor cancels. An item without samples has 0.
    (Chen et al. 2021, arXiv 2107.03374.) Raises ScoreError for k below 1, counts that are none, and 0 < n < k.
    """
    _require_k(k)
    if not 0 <= correct <= samples:
        raise ScoreError(f"{correct} correct of {samples} samples; accepted: 0 to the number of samples")
    if samples == 0:
        return 0.0
    if samples < k:
        raise ScoreError(f"pass@{k} of {samples} samples; accepted: at least {k} samples, or none at all")
    if samples - correct < k:
        return 1.0
    return 1.0 - math.prod(1.0 - correct / (samples - j) for j in range(k))


def pass_at_k_scores(outcomes: Mapping[str, Sequence[bool]], items: Sequence[str], k: int) -> dict[str, float]:
    """pass@k of every item, in the order of `items`; one that `outcomes` lacks, or holds no sample of, has 0.

    A sample whose request failed belongs into `outcomes` as False. Raises ScoreError that names the items with fewer
    than k samples but not none, items named twice, and outcomes of items that are not among `items`.
    """
    _require_k(k)
    _require_known(outcomes, items)
    short = [item for item in items if 0 < len(outcomes.get(item, ())) < k]
    if short:
        raise ScoreError(
            f"pass@{k} needs {k} samples of each item; fewer have {_named(short)}; accepted: k up to the fewest samples"
        )
    found = {item: outcomes.get(item, ()) for item in items}
    return {item: pass_at_k(len(marks), sum(map(bool, marks)), k) for item, marks in found.items()}


def mean_pass_at_k(outcomes: Mapping[str, Sequence[bool]], items: Sequence[str], k: int) -> float:
    """Mean of pass@k over all `items`, the fixed denominator. Raises ScoreError as `pass_at_k_scores`."""
    return math.fsum(pass_at_k_scores(outcomes, items, k).values()) / len(items)


@dataclass(frozen=True)
class AnyOfK:
    """Share of items with a right one among the first k samples, and what that cost."""

    accuracy: float
    drawn: Mapping[str, int]  # samples per item until the first right one, at most k: no two items' k need be equal


def any_of_k(outcomes: Mapping[str, Sequence[bool]], items: Sequence[str], k: int) -> AnyOfK:
    """What reports call "4-acc": items are asked up to k times and left at the first right answer.

    An oracle's best of k, an estimate of pass@k that uses the samples' order; for comparison with such reports only.
    An item with fewer than k samples is judged by those it has. Raises ScoreError for k below 1 and unknown items.
    """
    _require_k(k)
    _require_known(outcomes, items)
    drawn, solved = {}, 0
    for item in items:
        marks = [bool(mark) for mark in outcomes.get(item, ())[:k]]
        solved += any(marks)
        drawn[item] = marks.index(True) + 1 if any(marks) else len(marks)
    return AnyOfK(solved / len(items), drawn)


def _require_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ScoreError(f"k = {k!r}; accepted: whole numbers from 1")


def _require_known(outcomes: Mapping[str, Sequence[bool]], items: Sequence[str]) -> None:
    known = set(items)
    if not items:
        raise ScoreError("no items; accepted: at least one")
    if len(known) < len(items):
        raise ScoreError(f"items named twice: {_named([item for item in known if items.count(item) > 1])}")
    strange = sorted(outcomes.keys() - known)
    if strange:
        raise ScoreError(f"outcomes of items that were not asked: {_named(strange)}")


def _named(items: Sequence[str]) -> str:
    shown = sorted(items)[:5]
    return ", ".join(shown) + (f" and {len(items) - len(shown)} more" if len(items) > len(shown) else "")
