"""What only SCIP takes, against enumeration of integer points, closed forms and another solver."""

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from trex.eval.rewriting import rewritten
from trex.solver import scip
from trex.solver.builder import Builder, Row
from trex.solver.model import SOS, Function, Indicator
from trex.solver.solve import NOT_CONVEX, solve

INF = math.inf
PARTS = ("square", "square rows", "sets", "indicators", "semi", "min", "max", "abs", "and", "or")


def builder(*columns, sense="min"):
    """A Builder with (name, cost, lower, upper, kind) for each column."""
    built = Builder(sense)
    for name, cost, lower, upper, kind in columns:
        built.variable(name)
        column = built.columns[name]
        column.cost, column.lower, column.upper, column.kind = cost, lower, upper, kind
    return built


def random_model(draw, part):
    """Four integer variables (two binary) with one special part, and the same as a Python predicate and objective."""
    domains = [range(2), range(2), range(-3 if part != "semi" else 0, 4), range(0, 5)]
    kinds = ["integer"] * 4
    cost = [draw.randint(-5, 5) for _ in range(4)]
    built = builder(
        *(
            (f"x{j}", c, d[0], d[-1], kind)
            for j, (c, d, kind) in enumerate(zip(cost, domains, kinds, strict=True))
        ),
        sense=draw.choice(("min", "max")),
    )  # fmt: skip
    tests, square = [], {}
    coefficients, side = [draw.randint(-4, 4) for _ in range(4)], draw.randint(-3, 8)
    built.rows.append(Row("r", dict(enumerate(coefficients)), -INF, side))
    tests.append(lambda x: sum(a * v for a, v in zip(coefficients, x, strict=True)) <= side)

    def products():
        pairs = draw.sample([(i, j) for i in range(4) for j in range(i, 4)], 4)
        return {pair: draw.choice((-3, -2, -1, 1, 2, 3)) for pair in pairs}

    if part == "square":
        square = products()
        built.quadratic = {pair: float(c) for pair, c in square.items()}
    elif part == "square rows":
        inside, low = products(), draw.randint(-6, 3)
        built.rows.append(Row("q", {2: 1.0}, low, low + 6, inside))
        tests.append(lambda x: low <= x[2] + sum(c * x[i] * x[j] for (i, j), c in inside.items()) <= low + 6)
    elif part == "sets":
        kind, order = draw.choice((1, 2)), draw.sample(range(4), 4)
        built.sos.append(SOS("s", kind, tuple(order), (10.0, 20.0, 25.0, 27.0)))
        tests.append(
            lambda x: (
                (used := [k for k, j in enumerate(order) if x[j]]) is not None
                and len(used) <= kind
                and (not used or used[-1] - used[0] < kind)
            )
        )
    elif part == "indicators":
        on, low = draw.choice((0, 1)), draw.randint(-4, 3)
        high = draw.choice((low, low + 2, INF))
        built.indicators.append(Indicator("i", 0, on, ((2, 2.0), (3, -1.0)), low, high))
        tests.append(lambda x: x[0] != on or low <= 2 * x[2] - x[3] <= high)
    elif part == "semi":
        for name, low in (("x2", 2.0), ("x3", 3.0)):
            built.columns[name].kind, built.columns[name].lower = "semi-integer", low
        tests.append(lambda x: (x[2] == 0 or x[2] >= 2) and (x[3] == 0 or x[3] >= 3))
    elif part in ("and", "or"):
        built.variable("x4")
        built.columns["x4"].kind, built.columns["x4"].upper = "integer", 1.0
        built.columns["x4"].cost = weight = draw.randint(-5, 5)
        cost, domains = [*cost, weight], [*domains, range(2)]
        built.functions.append(Function("f", part, 4, (0, 1)))
        tests[0] = lambda x: sum(a * v for a, v in zip(coefficients, x[:4], strict=True)) <= side
        tests.append(lambda x: x[4] == (all if part == "and" else any)(x[:2]))
    else:
        constant = draw.choice((None, -1.0, 1.0)) if part != "abs" else None
        arguments = (2,) if part == "abs" else (0, 2)
        built.functions.append(Function("f", part, 3, arguments, constant))
        apply = abs if part == "abs" else (min if part == "min" else max)

        def holds(x):
            values = [x[j] for j in arguments] + ([] if constant is None else [constant])
            return x[3] == (apply(values[0]) if part == "abs" else apply(values))

        tests.append(holds)
    points = [x for x in itertools.product(*domains) if all(test(x) for test in tests)]

    def worth(x):
        linear = sum(c * v for c, v in zip(cost, x, strict=True))
        return linear + sum(c * x[i] * x[j] for (i, j), c in square.items())

    best = (min if built.sense == "min" else max)(map(worth, points), default=None)
    return built.model(), best


@pytest.mark.parametrize("part", PARTS)
def test_integer_models_equal_enumeration(part):
    draw = random.Random(part)
    seen = set()
    for _ in range(25):
        model, best = random_model(draw, part)
        for outcome in (solve(model), scip.solve(model, 60)):
            assert outcome.status == ("infeasible" if best is None else "optimal"), (model, outcome)
            if best is not None:
                objective = getattr(outcome, "objective", None) or getattr(outcome, "claimed", 0.0)
                assert objective == pytest.approx(best, abs=1e-6), model
        seen.add(best is None)
    assert False in seen


def test_a_set_an_indicator_a_maximum_and_a_semi_continuous_variable_by_hand():
    sets = builder(("x", 1, 0, 4, "continuous"), ("y", 2, 0, 3, "continuous"), sense="max")
    sets.rows.append(Row("c", {0: 1.0, 1: 1.0}, -INF, 5))
    sets.sos.append(SOS("s", 1, (0, 1), (1.0, 2.0)))
    assert solve(sets.model()).objective == pytest.approx(6)  # y = 3 alone
    free = builder(("b", -4, 0, 1, "integer"), ("x", 1, 0, INF, "continuous"), sense="max")
    for active, limit in ((1, 3.0), (0, 5.0)):
        free.indicators.append(Indicator(f"i{active}", 0, active, ((1, 1.0),), -INF, limit))
    solution = solve(free.model())
    assert solution.objective == pytest.approx(5) and solution.values["b"] == 0
    greatest = builder(("z", 1, -INF, INF, "continuous"), *((n, 0, 0, INF, "continuous") for n in "xy"))
    greatest.rows.append(Row("c", {1: 1.0, 2: 1.0}, 3, INF))
    greatest.functions.append(Function("f", "max", 0, (1, 2)))
    assert solve(greatest.model()).objective == pytest.approx(1.5)
    for upper in (10.0, 1e7, INF):  # HiGHS takes the first only
        semi = builder(("x", 1, 2.5, upper, "semi-continuous"), ("y", 3, 0, INF, "continuous"))
        semi.rows.append(Row("c", {0: 1.0, 1: 1.0}, 0.75, INF))
        assert solve(semi.model()).objective == pytest.approx(2.25)  # y = 0.75 beats x = 2.5
        semi.columns["y"].cost = 4.0
        assert solve(semi.model()).objective == pytest.approx(2.5)


def test_a_circle_and_a_hyperbola():
    circle = builder(*((n, 1, -INF, INF, "continuous") for n in "xy"))
    circle.rows.append(Row("c", {}, -INF, 2.0, {(0, 0): 1.0, (1, 1): 1.0}))
    assert solve(circle.model()).objective == pytest.approx(-2, rel=1e-6)
    hyperbola = builder(*((n, 1, 0, 10, "continuous") for n in "xy"))
    hyperbola.rows.append(Row("c", {}, 4.0, INF, {(0, 1): 1.0}))
    assert solve(hyperbola.model()).objective == pytest.approx(4, rel=1e-6)
    outside = replace(circle.model(), row_lower=[3.0])  # 3 <= x² + y² <= 2
    assert solve(replace(outside, row_lower=circle.model().row_upper + 1)).status == "infeasible"


def test_functions_of_themselves_of_repeated_and_of_no_arguments():
    def best(kind, result, arguments, constant=None):
        built = builder(*((n, 1, -2, 2, "continuous") for n in "xy"))
        built.functions.append(Function("f", kind, result, arguments, constant))
        return solve(built.model()).objective

    assert best("max", 0, (0, 1)) == pytest.approx(-4)  # x >= y
    assert best("min", 0, (1, 1, 1)) == pytest.approx(-4)
    assert best("min", 0, (), 1.5) == pytest.approx(-0.5)
    assert best("abs", 0, (0,)) == pytest.approx(-2)  # x >= 0
    assert best("abs", 0, (1,)) == pytest.approx(0)  # |y| + y
    assert best("max", 0, (1,), 0.5) == pytest.approx(-1.5)


def test_indicators_without_terms_and_with_crossed_sides():
    built = builder(("b", -1, 0, 1, "integer"), ("x", 0, 0, 1, "continuous"))
    assert solve(built.model()).objective == -1
    for terms, low, high in (((), 1.0, INF), (((1, 1.0),), 3.0, 2.0), (((1, 1.0), (1, -1.0)), 1.0, 2.0)):
        built.indicators = [Indicator("i", 0, 1, terms, low, high)]
        assert solve(built.model()).objective == 0, "the switch has to stay off"


@pytest.mark.parametrize(
    ("quadratic", "sense", "upper", "status"),
    [
        ({(0, 0): -1.0}, "min", INF, "unbounded"),
        ({(0, 1): 1.0}, "max", INF, "unbounded"),
        ({(0, 1): 1.0}, "max", 10.0, "optimal"),
        ({(0, 1): -1.0, (0, 0): 0.25, (1, 1): 0.25}, "min", INF, "unbounded"),
        ({(0, 1): -1.0, (0, 0): 0.5, (1, 1): 0.5}, "min", INF, "optimal"),
    ],
)
@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_unbounded_quadratic_programs(quadratic, sense, upper, status, kind):
    built = builder(("x", 0, 0, upper, kind), ("y", 0, 0, upper, kind), sense=sense)
    built.quadratic = quadratic
    built.rows.append(Row("c", {0: 1.0, 1: -1.0}, -INF, 1.0))
    assert solve(built.model()).status == status
    built.rows.append(Row("d", {0: 1.0, 1: 1.0}, -INF, -1.0))
    assert solve(built.model()).status == "infeasible"


def test_nothing_is_printed_and_runs_repeat(capfd):
    draw = random.Random(8)
    for part in PARTS:
        model, _ = random_model(draw, part)
        first, second = solve(model), solve(model)
        assert replace(first, seconds=0.0) == replace(second, seconds=0.0)
    assert capfd.readouterr() == ("", "")


def test_rows_of_one_variable_each():
    """Each variable runs from 0 to 1 by a scaled row, beside two that nothing reaches: the optimum is plain to see."""
    built = builder(*((f"x{j}", 0, 0, INF, "continuous") for j in range(10)))
    built.rows = [Row(f"r{j}", {j: 1.0}, -INF, 1) for j in range(10)]
    built.rows += [Row(f"far{side}", dict.fromkeys(range(10), 1.0), -INF, side) for side in (1e4, 1e6)]
    for seed in range(100):
        draw = random.Random(seed)
        model = rewritten(built.model(), draw)
        costs = [draw.gauss(0, 1) for _ in range(10)]
        outcome = scip.solve(replace(model, sense="min", cost=np.array(costs)), 10.0)
        assert outcome.status == "optimal"
        assert outcome.claimed == pytest.approx(sum(min(cost, 0) for cost in costs), abs=1e-6)


def test_a_refusal_of_the_library_is_an_outcome_and_a_limit_is_kept():
    built = builder(("x", 1e25, 0, 5, "continuous"))
    assert scip.solve(built.model(), 10).status in ("error", "optimal")
    hard = builder(*((f"x{j}", 0, 0, 10, "continuous") for j in range(40)))
    draw = random.Random(3)
    hard.quadratic = {(i, j): draw.uniform(-1, 1) for i in range(40) for j in range(i, 40)}
    solution = solve(hard.model(), time_s=1.0)
    assert solution.status == "time_limit" and solution.seconds < 30
    assert solution.message.startswith(NOT_CONVEX) and "stopped after 1 s" in solution.message


def test_random_quadratic_models_equal_another_solver():
    gurobipy = pytest.importorskip("gurobipy")
    draw = random.Random(9)
    quiet = gurobipy.Env(params={"OutputFlag": 0, "Threads": 1, "NonConvex": 2, "MIPGap": 1e-9, "FeasibilityTol": 1e-9})
    decided = 0
    for number in range(40):
        kinds = ["continuous"] * 3 + ["integer"]
        built = builder(
            *((f"x{j}", draw.uniform(-3, 3), -2, 3, kind) for j, kind in enumerate(kinds)),
            sense=draw.choice(("min", "max")),
        )
        pairs = [(i, j) for i in range(4) for j in range(i, 4)]
        built.quadratic = {pair: draw.uniform(-2, 2) for pair in draw.sample(pairs, 4)} if number % 2 else {}
        built.rows.append(Row("q", {0: 1.0}, -INF, 2.0, {pair: draw.uniform(-2, 2) for pair in draw.sample(pairs, 3)}))
        built.rows.append(Row("l", {j: draw.uniform(-2, 2) for j in range(4)}, draw.uniform(-3, 1), INF))
        model = built.model()
        other = gurobipy.Model(env=quiet)
        types = ["I" if kind == "integer" else "C" for kind in kinds]
        x = [other.addVar(lb=-2, ub=3, vtype=kind) for kind in types]
        square = sum(c * x[i] * x[j] for (i, j), c in model.quadratic.items())
        other.setObjective(
            sum(c * v for c, v in zip(model.cost, x, strict=True)) + square, -1 if model.sense == "max" else 1
        )
        for row, sign in ((0, 1), (1, -1)):
            linear = sum(c * x[j] for j, c in model.row(row))
            linear += sum(c * x[i] * x[j] for (i, j), c in model.quadratic_rows.get(row, {}).items())
            other.addConstr(sign * linear <= sign * float((model.row_upper if row == 0 else model.row_lower)[row]))
        other.optimize()
        solution = solve(model)
        assert solution.status == ("optimal" if other.Status == 2 else "infeasible")
        if other.Status == 2:
            decided += 1
            assert solution.objective == pytest.approx(other.ObjVal, rel=2e-6, abs=2e-6)
    assert decided > 20
