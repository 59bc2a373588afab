"""The check of points, against the same sentences in plain fractions."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from trex.solver.builder import Builder, Row
from trex.solver.check import RELATIVE, ROUNDING, TOLERANCE, polished, violation
from trex.solver.model import SOS, Function, Indicator

INF = math.inf


def built(count, kind="continuous", lower=-INF, upper=INF):
    """A Builder with x0, x1, … of one kind."""
    builder = Builder()
    for j in range(count):
        builder.variable(f"x{j}")
        column = builder.columns[f"x{j}"]
        column.kind, column.lower, column.upper = kind, lower, upper
    return builder


def satisfied(terms, low, high, point):
    """Whether a row holds, with every number a fraction and every sum exact."""
    products = [Fraction(c) * Fraction(point[j]) for j, c in terms]
    total, size = sum(products, Fraction(0)), sum(map(abs, products), Fraction(0))
    slack = Fraction(ROUNDING) * size

    def missed(side, sign):
        allowed = Fraction(TOLERANCE) + Fraction(RELATIVE) * abs(Fraction(side)) + slack
        return sign * (total - Fraction(side)) < -allowed

    return not (not math.isinf(low) and missed(low, 1)) and not (not math.isinf(high) and missed(high, -1))


def test_rows_near_their_sides_are_decided_as_in_exact_arithmetic():
    """Sides one rounding to either side of the tolerance; large terms that cancel, where sums of floats are wrong."""
    draw = random.Random(0)
    seen = []
    for _ in range(3000):
        n = draw.randint(1, 6)
        scale = 10.0 ** draw.choice((0, 0, 3, 8, 15))
        terms = {j: draw.uniform(-1, 1) * scale for j in range(n)}
        point = [draw.uniform(-1, 1) * 10.0 ** draw.choice((0, 2, 5)) for _ in range(n)]
        total = float(sum(Fraction(c) * Fraction(point[j]) for j, c in terms.items()))
        off = (TOLERANCE + RELATIVE * abs(total)) * draw.choice((0, 0.4, 0.999999999, 1 + 1e-16, 1 + 1e-9, 1.5, 10))
        side = total + draw.choice((-1, 1)) * off
        low, high = draw.choice(((side, INF), (-INF, side), (side, side), (-INF, INF)))
        builder = built(n)
        builder.rows.append(Row("r", terms, low, high))
        found = violation(builder.model(), np.array(point))
        expected = satisfied(list(terms.items()), low, high, point)
        assert (found is None) == expected, (terms, point, low, high, found)
        seen.append(expected)
    assert 500 < sum(seen) < 2700


def test_a_sum_that_floats_lose_is_seen():
    builder = built(3)
    builder.rows.append(Row("r", {0: 1.0, 1: 1.0, 2: -1.0}, 0.0, 0.0))
    model = builder.model()
    assert 1e17 + 3.0 - 1e17 == 0.0  # in floats
    assert violation(model, np.array([1e17, 3.0, 1e17])) is None  # coordinates of that size cannot say better
    assert violation(model, np.array([1e8, 3e-6, 1e8])) is not None
    assert "lies outside" in violation(model, np.array([1e308, 1e308, -1e308]))  # beyond floats


def test_large_coefficients_do_not_hide_a_breach():
    """A switch that is 1e-7 on opens a row with coefficient 1e9 by 100: only because of the tolerance of integers."""
    builder = built(2, lower=0.0, upper=1000.0)
    builder.columns["x0"].kind, builder.columns["x0"].upper = "integer", 1.0
    builder.rows.append(Row("r", {0: -1e9, 1: 1.0}, -INF, 0.0))
    model = builder.model()
    assert violation(model, np.array([1e-7, 100.0])) is None
    assert polished(model, np.array([1e-7, 100.0])).tolist() == [0.0, 100.0]
    assert "row r" in violation(model, np.array([0.0, 100.0]))
    assert violation(model, np.array([0.0, 1e-3])) is not None


@pytest.mark.parametrize("x", [math.nan, INF, -INF])
def test_a_coordinate_that_is_not_finite_is_a_breach(x):
    assert "x1 = " in violation(built(2).model(), np.array([0.0, x]))


def test_quadratic_rows_are_summed_exactly():
    builder = built(2)
    builder.rows.append(Row("q", {0: 1.0}, -INF, 1.0, {(0, 1): 2.0, (1, 1): -1.0}))
    model = builder.model()
    assert violation(model, np.array([1.0, 0.0])) is None
    assert violation(model, np.array([1.0, 2.0])) is None  # 1 + 4 - 4
    assert "row q = 2.0" in violation(model, np.array([1.0, 1.0]))
    assert violation(model, np.array([1e200, 1e200])) is not None  # beyond floats


def test_rows_without_entries_and_models_without_rows():
    builder = built(1)
    assert violation(builder.model(), np.array([3.0])) is None
    for low, good in ((0.0, True), (1.0, False)):
        builder.rows = [Row("a", {0: 1.0}, -INF, 5.0), Row("e", {}, low, INF), Row("f", {}, -INF, 0.0)]
        assert (violation(builder.model(), np.array([3.0])) is None) == good


def test_sets_indicators_functions_and_semi_continuous_variables():
    builder = built(4, lower=-5.0, upper=5.0)
    builder.sos = [SOS("s", 2, (2, 0, 1), (30.0, 10.0, 20.0))]  # in order x0, x1, x2
    model = builder.model()
    for point, good in (((1, 1, 0, 9e-7), True), ((0, 1, 1, 0), True), ((1, 0, 1, 0), False), ((1, 1, 1, 0), False),
                        ((1, 9e-7, 0, 0), True), ((1, 0, 9e-7, 0), True), ((0, 0, 0, 0), True)):  # fmt: skip
        assert (violation(model, np.array(point, float)) is None) == good, point
    builder = built(2, lower=0.0, upper=5.0)
    builder.columns["x0"].kind, builder.columns["x0"].upper = "integer", 1.0
    builder.indicators = [Indicator("i", 0, 1, ((1, 2.0),), 3.0, 4.0)]
    for point, good in (((1, 1.5), True), ((1, 2), True), ((1, 1.4), False), ((0, 5), True), ((1 - 1e-7, 0), False)):
        assert (violation(builder.model(), np.array(point, float)) is None) == good, point
    for kind, points in {
        "min": {(1, 1, 2): True, (1.5, 1.5, 2): True, (1.5, 1, 2): False, (2, 3, 2): False},
        "max": {(2, 1, 2): True, (1, 1, 2): False, (1.5, 0, 0): True},
        "abs": {(2, -2, 0): True, (-2, -2, 0): False},
    }.items():
        builder = built(3)
        arguments, constant = ((1,), None) if kind == "abs" else ((1, 2), 1.5)
        builder.functions = [Function("f", kind, 0, arguments, constant)]
        for point, good in points.items():
            assert (violation(builder.model(), np.array(point, float)) is None) == good, (kind, point)
    for kind, apply in (("and", all), ("or", any)):
        builder = built(3, "integer", 0.0, 1.0)
        builder.functions = [Function("f", kind, 0, (1, 2))]
        for number in range(8):
            point = [number >> k & 1 for k in range(3)]
            assert (violation(builder.model(), np.array(point, float)) is None) == (point[0] == apply(point[1:]))
    for kind in ("semi-continuous", "semi-integer"):
        model = built(1, kind, 2.0, 3.0).model()
        for x, good in ((0.0, True), (1e-7, True), (1.0, False), (2.0, True), (3.0, True), (4.0, False)):
            assert (violation(model, np.array([x])) is None) == good, x
        assert (violation(model, np.array([2.5])) is None) == (kind == "semi-continuous")
        assert polished(model, np.array([1e-7]))[0] == 0.0
