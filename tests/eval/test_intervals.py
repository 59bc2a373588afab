"""Bootstrap over clusters: closed forms, enumeration of all resamples and signs, coverage on simulated data."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest

from trex.eval.intervals import EXACT, compare_runs, mean_interval
from trex.eval.scores import ScoreError


def of(groups):
    """Scores and clusters of items, from a list of scores per cluster."""
    scores = {f"{g}/{i}": float(score) for g, group in enumerate(groups) for i, score in enumerate(group)}
    return scores, {item: item.split("/")[0] for item in scores}


def test_one_cluster_per_item_gives_the_binomial_error():
    scores, clusters = of([[k < 120] for k in range(400)])
    found = mean_interval(scores, clusters, resamples=40_000)
    error = math.sqrt(0.3 * 0.7 / 400)
    assert found.estimate == pytest.approx(0.3) and (found.items, found.clusters) == (400, 400)
    assert found.standard_error == pytest.approx(error, rel=0.02)
    assert found.low == pytest.approx(0.3 - 1.96 * error, abs=0.003)
    assert found.high == pytest.approx(0.3 + 1.96 * error, abs=0.003)


def test_twins_that_agree_count_once():
    single = of([[k % 3 == 0] for k in range(150)])
    double = of([[k % 3 == 0] * 2 for k in range(150)])
    alone = {item: item for item in double[0]}
    one, two = mean_interval(*single), mean_interval(*double)
    assert two.standard_error == pytest.approx(one.standard_error, rel=1e-12) and two.low == one.low
    naive = mean_interval(double[0], alone)
    assert two.standard_error / naive.standard_error == pytest.approx(math.sqrt(2), rel=0.05)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_small_data_agree_with_all_resamples(method):
    groups = [[1, 0, 1], [0], [1, 1], [0, 0], [1]]
    means = sorted(
        sum(sum(groups[g]) for g in drawn) / sum(len(groups[g]) for g in drawn)
        for drawn in itertools.product(range(5), repeat=5)
    )
    found = mean_interval(*of(groups), level=0.8, method=method, resamples=100_000)
    assert found.standard_error == pytest.approx(np.std(means), rel=0.02)
    if method == "percentile":
        assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, (0.1, 0.9))), abs=0.02)
        return
    normal = NormalDist()  # Efron's formulas over the 3125 resamples, all of them
    theta = sum(map(sum, groups)) / 9
    below = sum((mean < theta - 1e-9) + (mean < theta + 1e-9) for mean in means) / 2 / len(means)
    bias = normal.inv_cdf(below)
    left = [[group for k, group in enumerate(groups) if k != out] for out in range(5)]
    jack = [sum(map(sum, rest)) / sum(map(len, rest)) for rest in left]
    gaps = [sum(jack) / 5 - value for value in jack]
    skew = sum(gap**3 for gap in gaps) / (6 * sum(gap**2 for gap in gaps) ** 1.5)
    ends = []
    for share in (0.1, 0.9):
        z = bias + normal.inv_cdf(share)
        ends.append(np.quantile(means, normal.cdf(bias + z / (1 - skew * z))))
    assert abs(skew) > 0.01
    assert (found.low, found.high) == pytest.approx(tuple(ends), abs=0.02)


def test_bca_follows_the_skew():
    """For a skewed sample both ends move to the side of the long tail."""
    scores = {str(k): -math.log(1 - (k + 0.5) / 40) for k in range(40)}  # quantiles of the exponential distribution
    clusters = {item: item for item in scores}
    found = mean_interval(scores, clusters, method="bca", resamples=40_000)
    plain = mean_interval(scores, clusters, resamples=40_000)
    assert found.low > plain.low + 0.01 and found.high > plain.high + 0.01


def test_a_seed_fixes_the_result_and_the_order_of_items_changes_nothing():
    scores, clusters = of([[k % 2, k % 5 == 0] for k in range(30)])
    turned = dict(reversed(scores.items()))
    assert mean_interval(scores, clusters) == mean_interval(turned, clusters)
    assert mean_interval(scores, clusters, seed=1).low != mean_interval(scores, clusters, seed=2, level=0.9).low
    other = {item: 1.0 - score for item, score in scores.items()}
    assert compare_runs(scores, other, clusters) == compare_runs(turned, other, clusters)


def test_agreement_everywhere_gives_no_width():
    for method in ("percentile", "bca"):
        found = mean_interval(*of([[1], [1, 1]]), method=method)
        assert (found.low, found.estimate, found.high, found.standard_error) == (1.0, 1.0, 1.0, 0.0)
        alone = mean_interval(*of([[1, 0]]), method=method)
        assert (alone.low, alone.high, alone.clusters) == (0.5, 0.5, 1)


def test_exact_p_values_are_those_of_the_enumerated_signs():
    a, clusters = of([[0, 1], [1], [0], [0, 0, 1], [1], [0], [0]])
    b, _ = of([[1, 1], [1], [1], [0, 1, 1], [0], [1], [1]])
    sums = [1, 0, 1, 1, -1, 1, 1]
    every = [
        abs(sum(s * d for s, d in zip(signs, sums, strict=True))) for signs in itertools.product((1, -1), repeat=7)
    ]
    found = compare_runs(a, b, clusters)
    assert found.exact and found.p_value == sum(value >= 4 for value in every) / len(every)
    assert found.difference.estimate == pytest.approx(4 / 10)
    assert compare_runs(b, a, clusters).difference.estimate == pytest.approx(-4 / 10)
    assert compare_runs(a, a, clusters).p_value == 1.0


def test_many_signs_agree_with_the_binomial_test():
    wins, losses = 34, 16
    a, clusters = of([[0]] * wins + [[1]] * losses)
    b = {item: 1.0 - score for item, score in a.items()}
    count = wins + losses
    assert count > EXACT
    tail = sum(math.comb(count, k) for k in range(wins, count + 1)) / 2**count
    found = compare_runs(a, b, clusters, resamples=100_000)
    assert not found.exact and found.p_value == pytest.approx(2 * tail, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_coverage_on_clustered_data_is_nominal(method):
    rng = np.random.default_rng(11)
    trials, hits, naive = 400, 0, 0
    for trial in range(trials):
        chances = rng.beta(2, 2, size=120)  # mean 0.5, twins share theirs
        groups = [list(rng.random(rng.integers(1, 5)) < chance) for chance in chances]
        scores, clusters = of(groups)
        found = mean_interval(scores, clusters, method=method, resamples=1000, seed=trial)
        hits += found.low <= 0.5 <= found.high
        alone = mean_interval(scores, {item: item for item in scores}, resamples=1000, seed=trial)
        naive += alone.low <= 0.5 <= alone.high
    spread = math.sqrt(0.95 * 0.05 / trials)
    assert abs(hits / trials - 0.95) < 3.5 * spread
    assert naive < hits


@pytest.mark.slow
def test_p_values_of_equal_runs_are_uniform():
    rng = np.random.default_rng(2)
    small = 0
    for trial in range(300):
        groups = [list(rng.random(3) < 0.5) for _ in range(40)]
        a, clusters = of(groups)
        b = {item: float(rng.random() < 0.5) for item in a}
        small += compare_runs(a, b, clusters, resamples=500, seed=trial).p_value <= 0.1
    assert 0.03 < small / 300 < 0.16


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"scores": {}}, "no items"),
        ({"clusters": {}}, "a has no cluster"),
        ({"scores": {"a": math.nan}}, "score nan"),
        ({"level": 1.0}, "level 1.0"),
        ({"method": "t"}, "accepted: percentile, bca"),
        ({"resamples": 1}, "1 resamples"),
    ],
)
def test_bad_input_is_named(over, message):
    given = {"scores": {"a": 1.0}, "clusters": {"a": "c"}} | over
    with pytest.raises(ScoreError, match=message):
        mean_interval(**given)


def test_runs_over_different_items_are_not_compared():
    with pytest.raises(ScoreError, match="b is in one run only"):
        compare_runs({"a": 1.0}, {"a": 1.0, "b": 0.0}, {"a": "a", "b": "b"})
