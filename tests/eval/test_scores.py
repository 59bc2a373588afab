"""Scores: tolerances, pass@k against enumeration and exact binomials, and any-of-k with early stop."""

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

import trex.paths
from trex.eval.scores import (
    ScoreError,
    any_of_k,
    mean_pass_at_k,
    pass_at_k,
    pass_at_k_scores,
    right,
    right_as_published,
)

CASES = Path(trex.paths.CHECKOUT).parent / "shared" / "cases" / "or" / "solver_evaluator.json"


@pytest.mark.parametrize(
    ("value", "label", "ours", "published"),
    [
        (776738904.7901208, 776738904.7901645, True, False),
        (17.71428, 17.71, False, False),
        (9e-7, 0.0, False, True),
        (1e-10, 0.0, True, True),
        (0.0, 0.0, True, True),
        (-12.0, 12.0, False, False),
        (1e-3, 1.0000005e-3, True, True),
        (1e-3, 1.0005e-3, False, True),
        (1_000_000.5, 1_000_000.0, True, False),
        (1_000_002.0, 1_000_000.0, False, False),
        (math.nan, math.nan, False, False),
        (math.inf, math.inf, False, False),
        (None, 1.0, False, False),
        (1.0, None, False, False),
    ],
)
def test_values_are_judged_by_both_tolerances(value, label, ours, published):
    assert right(value, label) is ours
    assert right_as_published(value, label) is published


@pytest.mark.skipif(not CASES.is_file(), reason="the cases are not here")
def test_the_large_optimum_of_the_cases_is_right():
    (case,) = [case for case in json.loads(CASES.read_text())["cases"] if case["id"] == "abs_tol_large"]
    assert right(776738904.7901208, case["label"]) is case["right"]
    assert right_as_published(776738904.7901208, case["label"]) is case["observed"]


@pytest.mark.parametrize("samples", range(1, 9))
def test_pass_at_k_is_the_share_of_draws_with_a_right_one(samples):
    for correct, k in itertools.product(range(samples + 1), range(1, samples + 1)):
        draws = list(itertools.combinations([True] * correct + [False] * (samples - correct), k))
        assert pass_at_k(samples, correct, k) == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-14)


@pytest.mark.parametrize(
    ("samples", "correct", "k"), [(1000, 3, 500), (10_000, 1, 9_999), (5000, 2500, 4), (300, 1, 1)]
)
def test_large_counts_keep_their_digits(samples, correct, k):
    exact = 1 - Fraction(math.comb(samples - correct, k), math.comb(samples, k))
    assert pass_at_k(samples, correct, k) == pytest.approx(float(exact), rel=1e-12)


def test_denominators_are_fixed():
    outcomes = {"a": [True, False], "b": [False, False], "c": []}
    assert pass_at_k_scores(outcomes, ["d", "c", "b", "a"], 1) == {"d": 0.0, "c": 0.0, "b": 0.0, "a": 0.5}
    assert mean_pass_at_k(outcomes, ["a", "b", "c", "d"], 1) == 0.125
    assert mean_pass_at_k(outcomes, ["a", "b", "c", "d"], 2) == 0.25


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pass_at_k(4, 5, 1), "5 correct of 4"),
        (lambda: pass_at_k(4, 1, 0), "k = 0"),
        (lambda: pass_at_k(4, 1, True), "k = True"),
        (lambda: pass_at_k(3, 1, 4), "at least 4 samples"),
        (lambda: pass_at_k_scores({"a": [True], "b": [True] * 4}, ["a", "b"], 4), "fewer have a;"),
        (lambda: pass_at_k_scores({"x": [True]}, ["a"], 1), "not asked: x"),
        (lambda: pass_at_k_scores({}, ["a", "a"], 1), "named twice: a"),
        (lambda: mean_pass_at_k({}, [], 1), "no items"),
        (lambda: any_of_k({}, ["a"], -1), "k = -1"),
    ],
)
def test_what_no_estimate_can_be_made_from_is_refused(call, message):
    with pytest.raises(ScoreError, match=message):
        call()


def test_any_of_k_stops_early_and_is_the_mean_of_pass_at_k_over_orders():
    outcomes = {"a": [False, True, True], "b": [False, False, False, True], "c": [True]}
    found = any_of_k(outcomes, ["a", "b", "c", "d"], 3)
    assert found.accuracy == 0.5 and found.drawn == {"a": 2, "b": 3, "c": 1, "d": 0}
    orders = list(itertools.permutations([True, False, False, False, True]))
    mean = sum(any_of_k({"a": order}, ["a"], 2).accuracy for order in orders) / len(orders)
    assert mean == pytest.approx(pass_at_k(5, 2, 2))
