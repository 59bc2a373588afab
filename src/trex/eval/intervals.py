"""Confidence intervals by bootstrap over clusters of related problems, and paired comparisons of two runs.

A cluster is drawn or left as a whole: twins are answered alike, so that items are not independent.
(Davison and Hinkley, Bootstrap Methods and their Application, 1997, sections 2.4, 3.8 and 5.3.)
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from trex.eval.scores import ScoreError

METHODS = ("percentile", "bca")
RESAMPLES = 10_000
EXACT = 14  # clusters that differ, up to which all 2^n signs are tried
CHUNK = 1 << 20  # draws at a time: bounds the memory
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate with its bootstrap interval and standard error."""

    estimate: float
    low: float
    high: float
    standard_error: float
    level: float
    method: str
    items: int
    clusters: int
    resamples: int
    seed: int


@dataclass(frozen=True)
class Comparison:
    """Mean of b less mean of a on the same items, with interval and two-sided p-value.

    p_value: of the sign-flip test over clusters; the null hypothesis is that swapping the two runs within a cluster
    changes nothing. `exact` where all signs were tried; else it is (1 + hits) / (1 + resamples).
    """

    difference: Interval
    p_value: float
    exact: bool


def mean_interval(
    scores: Mapping[str, float],
    clusters: Mapping[str, str],
    level: float = 0.95,
    method: str = "percentile",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Interval of the mean score. `scores` by item; `clusters` gives each item's cluster, others are left out.

    Clusters are drawn with replacement, as many as there are; a resample's mean is over its own number of items.
    "bca" corrects bias and skewness, by the jackknife over clusters. One cluster alone, or scores that all agree, give
    an interval of no width. Raises ScoreError for no items, an item without cluster, a score that is not finite, a
    level outside (0, 1), an unknown method, and fewer than 2 resamples.
    """
    _require(level, method, resamples)
    sums, sizes = _by_cluster(scores, clusters)
    means = _resampled(sums, sizes, resamples, seed)
    estimate = float(sums.sum() / sizes.sum())
    tail = (1.0 - level) / 2.0
    shares = (tail, 1.0 - tail) if method == "percentile" else _bca(sums, sizes, means, estimate, tail)
    low, high = (float(bound) for bound in np.quantile(means, shares))
    error = float(np.std(means, ddof=1))
    return Interval(estimate, low, high, error, level, method, len(scores), len(sums), resamples, seed)


def compare_runs(
    a: Mapping[str, float],
    b: Mapping[str, float],
    clusters: Mapping[str, str],
    level: float = 0.95,
    method: str = "percentile",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compare two runs item by item. Raises ScoreError where they hold different items, and as `mean_interval`."""
    if a.keys() != b.keys():
        item = min(a.keys() ^ b.keys())
        raise ScoreError(f"{item} is in one run only; accepted: two runs of the same items")
    differences = {item: b[item] - a[item] for item in a}
    interval = mean_interval(differences, clusters, level, method, resamples, seed)
    sums, _ = _by_cluster(differences, clusters)
    return Comparison(interval, *_sign_flip(sums, resamples, seed))


def _require(level: float, method: str, resamples: int) -> None:
    if not 0.0 < level < 1.0:
        raise ScoreError(f"level {level!r}; accepted: above 0 and below 1")
    if method not in METHODS:
        raise ScoreError(f"method {method!r}; accepted: {', '.join(METHODS)}")
    if resamples < 2:
        raise ScoreError(f"{resamples} resamples; accepted: from 2")


def _by_cluster(scores: Mapping[str, float], clusters: Mapping[str, str]) -> tuple[Array, Array]:
    """Sum of scores and number of items of each cluster, by the cluster's name: the items' order changes nothing."""
    if not scores:
        raise ScoreError("no items; accepted: at least one")
    groups: dict[str, list[float]] = {}
    for item, score in scores.items():
        name = clusters.get(item, "")
        if not name:
            raise ScoreError(f"{item} has no cluster; accepted: one for each item")
        if not math.isfinite(score):
            raise ScoreError(f"{item} has the score {score!r}; accepted: finite numbers")
        groups.setdefault(name, []).append(float(score))
    ordered = [groups[name] for name in sorted(groups)]
    return np.array([math.fsum(group) for group in ordered]), np.array([float(len(group)) for group in ordered])


def _resampled(sums: Array, sizes: Array, resamples: int, seed: int) -> Array:
    """Means of the resamples. Shape (resamples,)."""
    rng = np.random.default_rng(seed)
    count = len(sums)
    means = np.empty(resamples)
    step = max(1, CHUNK // count)
    for start in range(0, resamples, step):
        drawn = rng.integers(count, size=(min(step, resamples - start), count), dtype=np.int32)
        means[start : start + step] = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return means


def _bca(sums: Array, sizes: Array, means: Array, estimate: float, tail: float) -> tuple[float, float]:
    """The shares of the resamples at which the bias-corrected and accelerated interval ends (Efron 1987)."""
    if len(sums) < 2 or np.ptp(means) == 0.0:
        return tail, 1.0 - tail
    normal = NormalDist()
    # a mean of resamples is a multiple of something: ties count half, and sums carry rounding
    near = np.isclose(means, estimate, rtol=1e-12, atol=1e-12)
    below = float(np.mean((means < estimate) & ~near) + 0.5 * np.mean(near))
    edge = 0.5 / len(means)
    bias = normal.inv_cdf(min(max(below, edge), 1.0 - edge))
    left_out = (sums.sum() - sums) / (sizes.sum() - sizes)
    deviations = left_out.mean() - left_out
    spread = float(np.sum(deviations**2)) ** 1.5
    skew = float(np.sum(deviations**3)) / (6.0 * spread) if spread else 0.0

    def share(probability: float) -> float:
        z = bias + normal.inv_cdf(probability)
        return normal.cdf(bias + z / (1.0 - skew * z)) if skew * z < 1.0 else float(z > 0.0)

    return share(tail), share(1.0 - tail)


def _sign_flip(sums: Array, resamples: int, seed: int) -> tuple[float, bool]:
    """Two-sided p-value of the clusters' sums under random signs, and whether all signs were tried."""
    differing = sums[sums != 0.0]
    if not len(differing):
        return 1.0, True
    observed = abs(differing.sum())
    bar = observed - 1e-12 * np.abs(differing).sum()  # equal sums, added in another order, are equal
    if len(differing) <= EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(differing))))
        return float(np.mean(np.abs(signs @ differing) >= bar)), True
    rng = np.random.default_rng([seed, 1])  # not the resamples' stream
    hits, step = 0, max(1, CHUNK // len(differing))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        signs = 2.0 * rng.integers(2, size=(rows, len(differing)), dtype=np.int8) - 1.0
        hits += int(np.count_nonzero(np.abs(signs @ differing) >= bar))
    return (1 + hits) / (1 + resamples), False
