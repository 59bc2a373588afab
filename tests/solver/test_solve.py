"""Solving, checked against enumeration in exact arithmetic and against closed forms."""

import itertools
import json
import math
import random
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from trex.solver import believe, highs, lp, scip
from trex.solver.model import Model, ModelError
from trex.solver.outcome import Outcome
from trex.solver.solution import record, text
from trex.solver.solve import CURVATURE, NOT_CONVEX, STATUSES, curvature, solve, unchecked, violation


def dense(sense, cost, matrix, low, high, lower, upper, kinds="continuous", quadratic=None, offset=0.0):
    """A Model from dense rows."""
    n, rows = len(cost), len(matrix)
    return Model(
        sense, offset, tuple(f"x[{j}]" for j in range(n)), (kinds,) * n, np.array(cost, float), np.array(lower, float),
        np.array(upper, float), tuple(f"r[{i}]" for i in range(rows)), np.array(low, float), np.array(high, float),
        np.arange(rows + 1) * n, np.tile(np.arange(n), rows), np.array(matrix, float).reshape(-1), quadratic or {},
    )  # fmt: skip


def best_integer_point(sense, cost, matrix, high, upper):
    """Optimum over all integer points of the box, in integers; None where none satisfies the rows."""
    values = [
        sum(c * x for c, x in zip(cost, point, strict=True))
        for point in itertools.product(*(range(u + 1) for u in upper))
        if all(sum(a * x for a, x in zip(row, point, strict=True)) <= h for row, h in zip(matrix, high, strict=True))
    ]
    return (min if sense == "min" else max)(values) if values else None


def test_integer_programs_equal_enumeration():
    draw = random.Random(0)
    seen = set()
    for _ in range(150):
        n, m = draw.randint(1, 4), draw.randint(1, 4)
        cost = [draw.randint(-9, 9) for _ in range(n)]
        matrix = [[draw.randint(-5, 5) for _ in range(n)] for _ in range(m)]
        high = [draw.randint(-8, 8) for _ in range(m)]
        upper = [draw.randint(0, 4) for _ in range(n)]
        sense = draw.choice(("min", "max"))
        model = dense(sense, cost, matrix, [-math.inf] * m, high, [0] * n, upper, "integer", offset=2.5)
        best, solution = best_integer_point(sense, cost, matrix, high, upper), solve(model)
        assert solution.status == ("infeasible" if best is None else "optimal")
        if best is not None:
            assert solution.objective == pytest.approx(best + 2.5, abs=1e-9)
            assert solution.bound == pytest.approx(best + 2.5, abs=1e-6)
            assert all(value == round(value) for value in solution.values.values())
        seen.add(solution.status)
    assert seen == {"infeasible", "optimal"}


def vertices(matrix, high):
    """Vertices of {x : matrix x <= high} in two dimensions, in exact arithmetic."""
    for (a, b), (c, d) in itertools.combinations(zip(matrix, high, strict=True), 2):
        determinant = Fraction(a[0] * c[1] - a[1] * c[0])
        if determinant == 0:
            continue
        x, y = (b * c[1] - d * a[1]) / determinant, (a[0] * d - c[0] * b) / determinant
        if all(row[0] * x + row[1] * y <= h for row, h in zip(matrix, high, strict=True)):
            yield x, y


def test_linear_programs_equal_their_best_vertex():
    draw = random.Random(1)
    seen = set()
    for _ in range(150):
        m = draw.randint(1, 4)
        cost = [draw.randint(-9, 9) for _ in range(2)]
        matrix = [[draw.randint(-5, 5) for _ in range(2)] for _ in range(m)]
        high = [draw.randint(-8, 20) for _ in range(m)]
        sides = [[-1, 0], [0, -1], [1, 0], [0, 1]]
        best = max((cost[0] * x + cost[1] * y for x, y in vertices(matrix + sides, [*high, 0, 0, 7, 7])), default=None)
        solution = solve(dense("max", cost, matrix, [-math.inf] * m, high, [0, 0], [7, 7]))
        assert solution.status == ("infeasible" if best is None else "optimal")
        if best is not None:
            assert solution.objective == pytest.approx(float(best), abs=1e-8)
        seen.add(solution.status)
    assert seen == {"infeasible", "optimal"}


UNBOUNDED = "max\n x[0] + y\nst\n c: x[0] - y <= 1\n{rest}end\n"


@pytest.mark.parametrize("rest", ["", "generals\n x[0] y\n", "generals\n y\n", " d: x[0] + y >= 3.5\ngenerals\n y\n"])
def test_unbounded_is_told_from_infeasible(rest):
    solution = solve(lp.read(UNBOUNDED.format(rest=rest)))
    assert (solution.status, solution.objective, solution.bound, solution.values) == ("unbounded", None, None, {})


@pytest.mark.parametrize("rest", [" d: 2 x[0] - 2 y = 1\ngenerals\n x[0] y\n", " d: x[0] - y >= 2\ngenerals\n y\n"])
def test_infeasible_with_an_improving_ray_is_not_called_unbounded(rest):
    solution = solve(lp.read(UNBOUNDED.format(rest=rest)))
    assert (solution.status, solution.objective, solution.values) == ("infeasible", None, {})


def test_crossed_bounds_are_infeasible_and_bad_data_an_error():
    assert solve(lp.read("min\n x\nst\n c: x >= -3\nbounds\n x <= -1\nend\n")).status == "infeasible"
    assert solve(dense("min", [1], [[1]], [0], [1], [math.inf], [math.inf])).status == "error"


def test_a_model_without_rows_or_variables_is_solved():
    empty = solve(lp.read("min\n 7\nst\nend\n"))
    assert (empty.status, empty.objective, empty.values) == ("optimal", 7, {})
    assert solve(lp.read("min\n 7\nst\n c: 0 >= 1\nend\n")).status == "infeasible"
    box = solve(dense("max", [1, -2], np.zeros((0, 2)), [], [], [0, 1], [3, 4]))
    assert (box.status, box.objective, box.values) == ("optimal", 1, {"x[0]": 3, "x[1]": 1})


def box_minimum(matrix, cost, upper):
    """Least c'x + x'Qx / 2 on [0, upper]^n: over the stationary points of all faces that lie in the box."""
    n, best = len(cost), math.inf
    for face in itertools.product((None, 0.0, upper), repeat=n):
        x = np.array([0.0 if side is None else side for side in face])
        free = [j for j in range(n) if face[j] is None]
        if free:
            gradient = cost[free] + matrix[np.ix_(free, range(n))] @ x
            x[free] = np.linalg.solve(matrix[np.ix_(free, free)], -gradient)
        if (x >= -1e-12).all() and (x <= upper + 1e-12).all():
            best = min(best, float(cost @ x + x @ matrix @ x / 2))
    return best


def quadratic_model(matrix, cost, upper):
    n = len(cost)
    terms = {(i, j): matrix[i, j] / (2 if i == j else 1) for i in range(n) for j in range(i, n)}
    row = [[1.0] * n]  # never binding
    return dense("min", cost, row, [-1], [n * upper + 1], [0] * n, [upper] * n, quadratic=terms)


def test_convex_quadratic_programs_equal_the_best_face_for_both_senses():
    random_numbers = np.random.default_rng(2)
    for _ in range(60):
        root = random_numbers.normal(size=(3, 3))
        matrix, cost = root @ root.T + 0.1 * np.eye(3), 3 * random_numbers.normal(size=3)
        model, best = quadratic_model(matrix, cost, 2.0), box_minimum(matrix, cost, 2.0)
        assert solve(model).objective == pytest.approx(best, rel=1e-6, abs=1e-6)
        flipped = {pair: -c for pair, c in model.quadratic.items()}
        solution = solve(replace(model, sense="max", cost=-model.cost, quadratic=flipped))
        assert solution.objective == pytest.approx(-best, rel=1e-6, abs=1e-6)


def test_indefinite_quadratic_programs_are_solved_where_highs_calls_wrong_values_optimal():
    """The diagonal is positive, or HiGHS would notice: indefinite through the products alone."""
    random_numbers = np.random.default_rng(3)
    tried = wrong = 0
    for _ in range(100):
        matrix = random_numbers.uniform(-2, 2, size=(4, 4))
        matrix = matrix + matrix.T
        np.fill_diagonal(matrix, random_numbers.uniform(0.2, 1, size=4))
        if np.linalg.eigvalsh(matrix)[0] > -0.1:
            continue
        cost = 0.3 * random_numbers.normal(size=4)
        model, best = quadratic_model(matrix, cost, 2.0), box_minimum(matrix, cost, 2.0)
        solution = solve(model)
        assert (solution.status, solution.message) == ("optimal", NOT_CONVEX) and solution.solver.startswith("SCIP")
        assert solution.objective == pytest.approx(best, rel=1e-6)
        assert solution.bound == pytest.approx(best, rel=1e-6, abs=1e-6)
        claimed = unchecked(model)[1]
        tried, wrong = tried + 1, wrong + (claimed is not None and claimed > best + 1e-3)
    assert tried == 100 and wrong > tried / 10, "HiGHS alone would do"


@pytest.mark.parametrize(("square", "convex"), [("x^2 + 2 x*y + y^2", True), ("x^2 + 2.001 x*y + y^2", False)])
def test_semidefinite_is_convex_and_slightly_less_is_not(square, convex):
    model = lp.read(f"min\n 0.5 x + [ {square} ]\nst\n c: x + y >= 2\nbounds\n x <= 9\n y <= 9\nend\n")
    assert (curvature(model) > -1e-10) == convex
    solution = solve(model)
    # x = y = 1 and, on the segment between the axes, where the square is not less: 4 + 0.5 x, at x = 0
    assert solution.status == "optimal" and solution.solver.startswith("HiGHS" if convex else "SCIP")
    assert solution.objective == pytest.approx(4)
    assert curvature(replace(model, sense="max")) == pytest.approx(-1)


@pytest.mark.parametrize("exponent", range(15))
@pytest.mark.parametrize("scale", [1, 6])
def test_one_large_square_does_not_hide_negative_curvature(exponent, scale):
    """Worth -40 at (0, 4, 4), whatever the coefficient of x^2."""
    large = scale * 10**exponent
    model = lp.read(
        f"min\n x + y + z + [ {large} x^2 + 2 y^2 - 10 y*z + 2 z^2 ] / 2\nst\n c: x + y + z <= 1000\n"
        "bounds\n x <= 1\n y <= 4\n z <= 4\nend\n"
    )
    assert model.objective(np.array([0.0, 4.0, 4.0])) == -40
    # scaled, the squares are 1 and the product -2.5: eigenvalues 1, 3.5 and -1.5
    assert curvature(model) == pytest.approx(-1.5 / 3.5, rel=1e-12)
    solution = solve(model)
    assert (solution.status, solution.message) == ("optimal", NOT_CONVEX)
    assert solution.objective == pytest.approx(-40, rel=1e-6)
    convex = replace(model, quadratic={**model.quadratic, (1, 2): -1.0})
    assert curvature(convex) == pytest.approx(0.5 / 1.5, rel=1e-12)


@pytest.mark.parametrize("product", [1e-300, 1e-9, -1.0, 1e300])
@pytest.mark.parametrize("square", [0.0, 1e-300, 1e300])
def test_a_product_with_a_variable_without_square_is_indefinite(product, square):
    """x * y takes both signs near the axis of x; a square of y alone cannot make up for it, however large."""
    model = quadratic_model(np.zeros((2, 2)), np.zeros(2), 1.0)
    for sense in ("min", "max"):
        assert curvature(replace(model, quadratic={(0, 1): product, (1, 1): square}, sense=sense)) == -1


def test_extreme_coefficients_are_judged_too():
    model = quadratic_model(np.zeros((2, 2)), np.zeros(2), 1.0)
    assert curvature(replace(model, quadratic={(0, 0): -1e-300, (1, 1): 1e300})) == -1
    assert curvature(replace(model, quadratic={(0, 0): 1e-300, (0, 1): 1e300, (1, 1): 1e-300})) < -0.5
    assert curvature(replace(model, quadratic={(0, 0): 1e300, (0, 1): 1.0, (1, 1): 1e-300})) > 0
    assert curvature(model) == 0  # three coefficients, all zero


def is_semidefinite(matrix):
    """Whether x'Ax is never negative, exactly: elimination in fractions, where a zero pivot needs a zero row."""
    a = [[Fraction(entry) for entry in row] for row in matrix]
    for k in range(len(a)):
        if a[k][k] < 0 or (a[k][k] == 0 and any(a[k][k + 1 :])):
            return False
        for i in range(k + 1, len(a)):
            factor = a[i][k] / a[k][k] if a[k][k] else Fraction(0)
            a[i] = [x - factor * y for x, y in zip(a[i], a[k], strict=True)]
    return True


def test_curvature_agrees_with_exact_elimination_on_badly_scaled_matrices():
    """Small integer matrices, rows and columns scaled by powers of two, which is exact in floating point."""
    draw = np.random.default_rng(5)
    seen = []
    for _ in range(400):
        n = int(draw.integers(2, 6))
        root = draw.integers(-3, 4, size=(n, int(draw.integers(1, n + 1))))
        bump = draw.integers(-1, 2, size=(n, n)) * (draw.random() < 0.6)
        scale = 2.0 ** draw.integers(-40, 41, size=n)
        matrix = scale[:, None] * (root @ root.T + bump + bump.T) * scale
        model, convex = quadratic_model(matrix, np.zeros(n), 1.0), is_semidefinite(matrix)
        assert (curvature(model) >= -CURVATURE) == convex, matrix
        flipped = replace(model, sense="max", quadratic={pair: -c for pair, c in model.quadratic.items()})
        assert curvature(flipped) == curvature(model)
        seen.append(convex)
    assert 100 < sum(seen) < 300, "both kinds are to be met"


def test_the_check_of_points_names_what_is_broken():
    model = dense("min", [1, 1], [[1, 2], [1e6, -1]], [3, -math.inf], [math.inf, 0], [0, 0], [5, 9e5], "integer")
    broken = {
        (0.0, 2.0): None,
        (0.0, 1.0): "row r[0]",
        (1.0, 1.0): "row r[1]",
        (-1.0, 2.0): "x[0] = -1.0 lies outside",
        (0.0, 1e6): "x[1] = 1000000.0 lies outside",
        (0.0, 2.5): "x[1] = 2.5 is not an integer",
        (math.nan, 2.0): "x[0] = nan",
        (2e-7, 2.0): None,  # within tolerance
    }
    for point, message in broken.items():
        found = violation(model, np.array(point))
        assert (found is None) if message is None else (found is not None and message in found), point


def market_split(m=4, n=40):
    """Equal splits of m random weights: integer programs that branch and bound cannot finish."""
    draw = random.Random(4)
    matrix = [[draw.randint(1, 99) for _ in range(n)] for _ in range(m)]
    rows = [[*row, *(s if k == i else 0 for k in range(m) for s in (1, -1))] for i, row in enumerate(matrix)]
    half = [sum(row) // 2 for row in matrix]
    model = dense("min", [0] * n + [1] * 2 * m, rows, half, half, [0] * (n + 2 * m), [1] * n + [math.inf] * 2 * m)
    return replace(model, kinds=("integer",) * n + ("continuous",) * 2 * m)


def test_time_limit_is_kept_and_the_incumbent_checked():
    model = market_split()
    solution = solve(model, time_s=0.5)
    assert solution.status == "time_limit" and solution.seconds < 30
    assert solution.objective is not None and solution.bound is not None and solution.bound < solution.objective
    point = np.array([solution.values[name] for name in model.variables])
    assert violation(model, point) is None and model.objective(point) == solution.objective


@pytest.mark.parametrize("limit", [0, -1, math.nan, "ten", True])
@pytest.mark.parametrize("name", ["time_s", "memory_mb"])
def test_a_limit_that_is_not_positive_is_refused(name, limit):
    with pytest.raises(ModelError, match=name):
        solve(lp.read("min\n x\nst\n c: x >= 1\nend\n"), **{name: limit})


@pytest.mark.parametrize("check", ["both", True, "", 1])
def test_an_unknown_check_is_refused(check):
    with pytest.raises(ModelError, match="check"):
        solve(lp.read("min\n x\nst\n c: x >= 1\nend\n"), check=check)


def test_memory_is_limited_in_a_process_that_ends():
    easy = solve(lp.read("max\n 2 x\nst\n c: 3 x <= 7\ngenerals\n x\nend\n"), memory_mb=200)
    assert (easy.status, easy.objective, easy.values) == ("optimal", 4, {"x": 2})
    large = dense("max", np.ones(3000), np.ones((300, 3000)), [0] * 300, [9] * 300, [0] * 3000, [1] * 3000, "integer")
    solution = solve(large, memory_mb=20)
    assert (solution.status, solution.values) == ("memory_limit", {}) and "20 MB" in solution.message
    stopped = solve(market_split(), time_s=0.5, memory_mb=500)
    assert stopped.status == "time_limit" and stopped.seconds < 60


SECOND = {
    "optimal": "max\n x + 2 y\nst\n c: x + 3 y <= 7.5\nbounds\n x <= 4\ngenerals\n x\nend\n",
    "infeasible": "max\n x\nst\n c: 2 x + 4 y = 3\nbounds\n x <= 9\ngenerals\n x y\nend\n",
    "unbounded": UNBOUNDED.format(rest=""),
}


@pytest.mark.parametrize("status", SECOND)
def test_a_second_solver_agrees(status):
    solution = solve(lp.read(SECOND[status]), check="second")
    assert solution.status == status and solution.solver.startswith("HiGHS")
    assert solution.agreement.agrees and solution.agreement.solver.startswith("SCIP")
    assert solution.agreement.status == status and solution.message == ""


@pytest.mark.parametrize(
    ("text", "first", "status", "message"),
    [
        (
            "optimal",
            Outcome("HiGHS x", "optimal", np.array([0.0, 0.0]), 0.0, 0.0),
            "optimal",
            "HiGHS x said optimal, 0.0",
        ),
        ("optimal", Outcome("HiGHS x", "infeasible"), "optimal", "HiGHS calls the model infeasible"),
        (
            "infeasible",
            Outcome("HiGHS x", "optimal", np.array([1.0, 0.25]), 1.0, 1.0),
            "infeasible",
            "breaks the model",
        ),
        ("optimal", Outcome("HiGHS x", "error", message="trouble"), "optimal", "trouble"),
        (
            "optimal",
            Outcome("HiGHS x", "optimal", np.array([9.0, 0.0]), 9.0, 9.0),
            "optimal",
            "breaks the model: x = 9",
        ),
        ("optimal", Outcome("HiGHS x", "optimal", np.array([4.0, 1.0]), 7.0, 7.0), "optimal", "claims the objective 7"),
        ("optimal", Outcome("HiGHS x", "infeasible_or_unbounded"), "unknown", "every variable has its bounds"),
    ],
)
def test_a_solver_that_is_wrong_is_not_believed(monkeypatch, text, first, status, message):
    """HiGHS replaced by one that says something else of the model."""
    model = lp.read(SECOND[text].replace("bounds\n", "bounds\n y <= 50\n"))
    monkeypatch.setattr(highs, "NAME", first.solver)
    monkeypatch.setattr(highs, "solve", lambda model, _: first if model.cost.any() else scip.solve(model, 10))
    solution = solve(model, check="second")
    if status == "unknown":  # then SCIP is asked
        status = "optimal"
    assert solution.status == status and message in solution.message
    if status == "optimal":
        assert solution.objective == pytest.approx(19 / 3)
    elif status == "error":
        assert solution.objective is None and solution.agreement.agrees is False


@pytest.mark.parametrize(("point", "believed"), [((1.0, 1.0), True), ((1.2, 0.8), False), ((2.0, 0.0), False)])
def test_a_convex_optimum_is_tested_too(monkeypatch, point, believed):
    """x² + y² on x + y >= 2 is least at (1, 1); HiGHS replaced by one that claims another feasible point."""
    model = lp.read("min\n [ 2 x^2 + 2 y^2 ] / 2\nst\n c: x + y >= 2\nend\n")
    value, true = model.objective(np.array(point)), highs.solve
    claim = Outcome("HiGHS x", "optimal", np.array(point), value)
    monkeypatch.setattr(highs, "NAME", "HiGHS x")
    monkeypatch.setattr(highs, "solve", lambda model, seconds: claim if model.quadratic else true(model, seconds))
    solution = solve(model)
    assert solution.status == "optimal" and solution.objective == pytest.approx(2, rel=1e-6)
    assert solution.solver.startswith("HiGHS x" if believed else "SCIP")
    assert ("a better point" in solution.message) == (not believed)


def test_rounding_a_switch_is_made_up_for_by_the_continuous_part():
    """b = 1e-7 lets x be 100; with b = 0 it is 0, and the optimum is 5 at b = 1."""
    model = dense("max", [-95, 1], [[-1e9, 1]], [-math.inf], [0], [0, 0], [1, 100])
    model = replace(model, kinds=("integer", "continuous"))
    limits = believe.Limits(10)
    trick = Outcome("HiGHS x", "optimal", np.array([1e-7, 100.0]), 100.0, 100.0)
    # the rounded point breaks the row, the rest solved again is worth 0, and the raw one says what it rests on
    found = believe.believed(model, trick, limits)
    assert found.status == "optimal" and "whole only to within" in found.message
    assert solve(model).objective == pytest.approx(5)
    slight = Outcome("HiGHS x", "optimal", np.array([1 - 1e-8, 100.0]), 5.0, 5.0)
    assert believe.believed(model, slight, limits).values == {"x[0]": 1.0, "x[1]": 100.0}


def test_solutions_are_told_as_text_and_record():
    solution = solve(lp.read("max\n x[0] + y\nst\n c: 3 x[0] + y <= 1\n d: x[0] + 3 y <= 1\nend\n"), check="exact")
    told = text(solution)
    assert "status     optimal" in told and "exact      1/2" in told and "  x[0] = 0.25" in told
    assert record(solution)["exact"] == "1/2" and record(solution)["values"] == solution.point
    json.dumps(record(solution), allow_nan=False)
    agreed = solve(lp.read(SECOND["infeasible"]), check="second")
    assert "agrees: infeasible" in text(agreed) and record(agreed)["agreement"]["agrees"] is True
    json.dumps(record(agreed), allow_nan=False)
    many = dense("max", range(1, 31), np.zeros((0, 30)), [], [], [0] * 30, range(1, 31))
    assert text(solve(many)).endswith("  and 18 smaller values that are not zero")


def test_models_that_contradict_themselves_are_refused():
    good = dense("min", [1, 1], [[1, 2]], [0], [1], [0, 0], [1, 1])
    for change, message in (
        ({"sense": "maximise"}, "maximise"),
        ({"variables": ("x", "x")}, "'x' is named twice"),
        ({"kinds": ("continuous", "semi")}, "semi"),
        ({"cost": np.array([1.0])}, "cost has length 1"),
        ({"cost": np.array([1.0, math.nan])}, "cost"),
        ({"lower": np.array([0.0, math.nan])}, "lower"),
    ):
        with pytest.raises(ModelError, match=message):
            replace(good, **change)


def test_repeats_bit_for_bit_and_prints_nothing(capfd):
    model = market_split(2, 14)
    first, second = solve(model), solve(model)
    assert first.status == "optimal" and first.status in STATUSES
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)
    assert first.solver.startswith("HiGHS 1.")
    assert capfd.readouterr() == ("", "")


def test_a_scheduler_started_by_someone_else_does_not_matter():
    program = """
import highspy
from trex.solver import lp
from trex.solver.solve import solve
text = "max\\n x + y\\nst\\n c: 2 x + 3 y <= 8\\ngenerals\\n x y\\nend\\n"
other = highspy.Highs()
other.setOptionValue("threads", 2)
other.addVars(3, [0] * 3, [1] * 3)
other.run()
print("result", solve(lp.read(text)).objective)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == "result 4.0"


# Right answers by hand. HiGHS' and SCIP's tolerances are absolute; what is small beside them is lost without care.
DELICATE = {
    "free to rise with an indicator off": (
        "min\n -2 x + 2 z\nst\n i: b = 1 -> z - x >= 0\n j: b = 0 -> z >= 2\nbinaries\n b\nend\n", "unbounded", None,
    ),
    "free to rise beside a minimum": (
        "min\n -2 x + 2 z\nst\n c: y >= 0\ngeneral constraints\n g: z = MIN ( x , 2 )\nend\n", "unbounded", None,
    ),
    "small costs": (
        "max\n 0.00000001 x + 0.00000001 y\nst\n x + 2 y <= 3000000000\n 2 x + y <= 3000000000\nend\n", "optimal", 20,
    ),
    "small costs of integers": (
        "max\n 0.00000005 x + 0.00000004 y\nst\n x + y <= 3000000\ngenerals\n x y\nend\n", "optimal", 0.15,
    ),
    "small costs beside a large one": (
        "max\n 3 z + 0.00000005 x + 0.00000004 y\nst\n z <= 4\n x + y + z <= 200000000\nend\n", "optimal", 21.9999998,
    ),
    "a small cost without end": ("max\n 0.000000001 x\nst\n x - y <= 3\nend\n", "unbounded", None),
    "a small cost without end beside a large one": ("max\n 0.0000001 x - y\nst\n x - z <= 3\nend\n", "unbounded", None),
    "a row in large numbers missed by 52": (
        "min\n X\nst\n c: 1000000000 A1 + 100 A4 = 999999998\nbounds\n A4 <= 1\nbinaries\n A1\nend\n",
        "infeasible", None,
    ),
    "a row in large numbers missed by 1": (
        "min\n x\nst\n c: x - y >= 10000000\n d: x <= 9999999\ngenerals\n x y\nend\n", "infeasible", None,
    ),
    "rows that cross by 5e-7": (
        "min\n x + 2 y\nst\n c: x + y <= 100\n d: x + y >= 100.0000005\nend\n", "infeasible", None,
    ),
    "a row in small numbers missed by 1e-7": (
        "min\n x\nst\n c: 0.0000001 x >= 1\n d: x <= 9999999\nend\n", "infeasible", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DELICATE)
def test_what_tolerances_could_hide(name):
    text, status, objective = DELICATE[name]
    solution = solve(lp.read(text))
    assert solution.status == status
    assert solution.objective == (None if objective is None else pytest.approx(objective, rel=1e-9))


def test_the_continuous_part_of_a_point_is_solved_again():
    """A mixed-integer search would stop 1e-6 short of it."""
    text = "min\n 2 x + 3 y + 7\nst\n c: x + y >= 3.5\nbounds\n x <= 4\n y <= 9\ngenerals\n y\nend\n"
    assert solve(lp.read(text)).objective == pytest.approx(14, abs=1e-12)


def test_a_wide_integer_model_is_solved_twice():
    text = "max\n x + y\nst\n c: 1000000000 x + y <= 2000000001\n d: y <= 5\ngenerals\n x\nend\n"
    solution = solve(lp.read(text))
    assert solution.status == "optimal" and solution.agreement is not None and solution.agreement.agrees


def test_an_exact_value_that_contradicts_is_an_error(monkeypatch):
    claim = Outcome("HiGHS x", "optimal", np.array([0.0, 0.0]), 0.0)
    monkeypatch.setattr(highs, "solve", lambda model, seconds: claim)
    solution = solve(lp.read("max\n x + y\nst\n c: x + y <= 4\nend\n"), check="exact")
    assert solution.status == "error" and solution.exact == 4 and "in rational numbers it is 4.0" in solution.message


@pytest.mark.parametrize("model", ["a.lp", None, 3])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(ModelError, match="is no Model"):
        solve(model)


def test_curvature_is_that_of_the_whole_matrix_and_of_many_small_groups() -> None:
    """Groups of connected variables are looked at one by one; the whole matrix gives the same."""
    rng = random.Random(4)
    for _ in range(100):
        count = rng.randint(1, 9)
        terms = {(i, i): rng.uniform(0.1, 3) for i in range(count)}
        for _ in range(rng.randint(0, 7)):
            i, j = sorted((rng.randrange(count), rng.randrange(count)))
            terms[i, j] = rng.uniform(0.1, 3) if i == j else rng.uniform(-3, 3)
        matrix = np.eye(count)
        for (i, j), c in terms.items():
            if i != j:
                matrix[i, j] = matrix[j, i] = c / 2 / math.sqrt(terms[i, i] * terms[j, j])
        values = np.linalg.eigvalsh(matrix)
        model = dense("min", [0.0] * count, [], [], [], [0.0] * count, [1.0] * count, quadratic=terms)
        assert curvature(model) == pytest.approx(values[0] / np.abs(values).max(), abs=1e-12)
    many = 4000
    pairs = {(i, i): 1.0 for i in range(many)} | {(i, i + 1): 1.0 for i in range(0, many, 2)}
    plain = dense("min", [1.0] * many, [], [], [], [0.0] * many, [1.0] * many, quadratic=pairs)
    assert curvature(plain) == pytest.approx(1 / 3)  # eigenvalues 1/2 and 3/2
    chain = {(i, i): 1.0 for i in range(many)} | {(i, i + 1): 0.1 for i in range(many - 1)}
    connected = dense("min", [1.0] * many, [], [], [], [0.0] * many, [1.0] * many, quadratic=chain)
    assert curvature(connected) == -1.0  # too many to look at
