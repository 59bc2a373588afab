"""Pyomo models, against hand-solved optima, Pyomo's own way to HiGHS, and Pyomo's LP writer."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pyomo.environ as pyo
import pyomo.gdp as gdp
import pyomo.mpec as mpec
import pytest
from tests.solver.comparing import meaning

import trex.paths
from trex.solver import lp
from trex.solver.model import ModelError
from trex.solver.pyomo_model import from_pyomo
from trex.solver.solve import solve, solve_pyomo

CASES = Path(trex.paths.CHECKOUT).parent / "shared" / "cases" / "or" / "pyomo_highs.json"


def plane(*, sense=pyo.minimize, objective=lambda m: m.x["A", 1] + m.x["B", 2], **rows) -> pyo.ConcreteModel:
    """Two non-negative variables x[A,1] and x[B,2], an objective, and named rows."""
    m = pyo.ConcreteModel()
    m.x = pyo.Var([("A", 1), ("B", 2)], domain=pyo.NonNegativeReals)
    m.objective = pyo.Objective(expr=objective(m), sense=sense)
    for name, row in rows.items():
        setattr(m, name, pyo.Constraint(expr=row(m.x["A", 1], m.x["B", 2])))
    return m


def convex_qp() -> pyo.ConcreteModel:
    def objective(m):
        return m.x["A", 1] + m.x["A", 1] ** 2 + m.x["B", 2] ** 2

    return plane(objective=objective, c=lambda a, b: a + b >= 2)


def test_infeasible_never_raises():
    solution = solve_pyomo(plane(c=lambda a, b: a <= 4, d=lambda a, b: a >= 20))
    assert (solution.status, solution.objective, solution.values) == ("infeasible", None, {})


def test_unbounded_never_returns_a_point():
    solution = solve_pyomo(plane(sense=pyo.maximize, c=lambda a, b: a - b <= 1))
    assert (solution.status, solution.objective, solution.values) == ("unbounded", None, {})


def test_convex_quadratic_objective():
    solution = solve_pyomo(convex_qp())
    assert solution.status == "optimal" and solution.objective == pytest.approx(2.875, abs=1e-6)
    assert solution.values == {"x[A,1]": pytest.approx(0.75, abs=1e-4), "x[B,2]": pytest.approx(1.25, abs=1e-4)}


@pytest.mark.skipif(not CASES.is_file(), reason="shared cases are not here")
def test_shared_cases():
    """The shared file gives these two values; its third case, an import order, needs `packaging` to be installed."""
    right = {case["id"]: case["right"] for case in json.loads(CASES.read_text())["cases"]}
    assert right.keys() == {"infeasible_load", "convex_qp", "import_order"}
    assert solve_pyomo(convex_qp()).objective == pytest.approx(right["convex_qp"], rel=1e-6)
    assert right["infeasible_load"].startswith("status infeasible")
    assert solve_pyomo(plane(c=lambda a, b: a + b <= -1)).status == "infeasible"
    import packaging  # noqa: F401


def test_constants_fixed_variables_and_repeated_terms():
    m = plane(
        sense=pyo.maximize,
        objective=lambda m: 3 * m.x["A", 1] + 2 * m.x["A", 1] + 7 - m.x["B", 2],
        c=lambda a, b: a + 1 - b <= 4 - a,  # 2 a - b <= 3
        d=lambda a, b: (1, b + 3, 5),  # -2 <= b <= 2
    )
    m.scale = pyo.Var(bounds=(0, 1))
    m.scale.fix(2)  # outside its bounds: fixed means fixed
    m.e = pyo.Constraint(expr=m.scale * m.x["A", 1] * 3 <= 9 + m.scale)  # 6 a <= 11
    m.spare = pyo.Var(domain=pyo.Integers, bounds=(1.5, 3))
    solution = solve_pyomo(m)
    # a = 11/6 needs b >= 2/3: objective 5 * 11/6 + 7 - 2/3
    assert solution.objective == pytest.approx(5 * 11 / 6 + 7 - 2 / 3, abs=1e-9)
    assert solution.values["scale"] == 2 and 1.5 <= solution.values["spare"] <= 3
    assert solution.values["x[B,2]"] == pytest.approx(2 / 3)
    assert m.x["A", 1].value is None, "the user's model was changed"


def test_inactive_parts_do_not_count_and_blocks_do():
    m = plane(c=lambda a, b: a + b >= 5)
    m.off = pyo.Constraint(expr=m.x["A", 1] >= 100)
    m.off.deactivate()
    m.other = pyo.Objective(expr=-m.x["A", 1])
    m.other.deactivate()
    m.b = pyo.Block()
    m.b.y = pyo.Var(domain=pyo.Binary)
    m.b.link = pyo.Constraint(expr=m.x["A", 1] + m.x["B", 2] >= 6 + 2 * m.b.y)
    solution = solve_pyomo(m)
    assert solution.objective == pytest.approx(6) and solution.values["b.y"] == 0
    model = from_pyomo(m)
    assert model.rows == ("c", "b.link") and model.kinds == ("continuous", "continuous", "integer")


@pytest.mark.parametrize("sense", [pyo.minimize, pyo.maximize])
def test_quadratic_rows_sets_and_ranges_equal_pyomo_s_lp_file(sense, tmp_path):
    m = plane(
        sense=sense,
        objective=lambda m: m.x["A", 1] * 2 + m.x["B", 2] ** 2 - 3 * m.x["A", 1] * m.x["B", 2] + 4,
        c=lambda a, b: a**2 + 3 * a * b - b + 1 <= 9,
        d=lambda a, b: a + b + a + 2 == 4,
        e=lambda a, b: b**2 - a * b >= -3,
    )
    m.y = pyo.Var(range(3), bounds=(-1, 5))
    m.link = pyo.Constraint(expr=pyo.quicksum(m.y[i] for i in range(3)) >= m.x["A", 1])
    m.s = pyo.SOSConstraint(var=m.y, sos=1)
    m.t = pyo.SOSConstraint(var=m.y, sos=2, weights={0: 3, 1: 1, 2: 2})
    path = tmp_path / "model.lp"
    m.write(str(path), io_options={"symbolic_solver_labels": True})
    model = from_pyomo(m)
    labels = tuple(name.translate(str.maketrans("[,]", "(_)")) for name in model.variables)  # how the file has them
    ours, file = meaning(replace(model, variables=labels)), meaning(lp.read(path))
    for side in (ours, file):
        side["rows"].sort(key=lambda row: (sorted(row[0].items()), sorted(row[1].items())))
        side["sos"].sort()
    assert ours == file
    m.r = pyo.Constraint(expr=(1, m.x["A", 1] + 1, 5))  # the file has two rows for this one
    assert meaning(from_pyomo(m))["rows"][-1] == ({"x[A,1]": 1}, {}, 0, 4)


def no_objective(m):
    m.objective.deactivate()


def two_objectives(m):
    m.second = pyo.Objective(expr=m.x["A", 1])


def nonlinear_row(m):
    m.c = pyo.Constraint(expr=pyo.exp(m.x["A", 1]) <= 3)


def cubic_row(m):
    m.c = pyo.Constraint(expr=m.x["A", 1] ** 3 <= 3)


def cubic_objective(m):
    m.objective.set_value(m.x["A", 1] ** 3)


def disjunction(m):
    m.s = gdp.Disjunction(expr=[m.x["A", 1] <= 1, m.x["A", 1] >= 2])


def complementarity(m):
    m.s = mpec.Complementarity(expr=mpec.complements(m.x["A", 1] >= 0, m.x["B", 2] >= 0))


def set_with_a_fixed_variable(m):
    m.x["A", 1].fix(1)
    m.s = pyo.SOSConstraint(var=m.x, sos=1)


def names_that_clash(m):
    m.c = pyo.Constraint(expr=m.x["A", 1] + plane().x["A", 1] >= 1)  # of another model


def semicontinuous(m):
    m.z = pyo.Var(domain=pyo.Any)


def fixed_without_value(m):
    m.x["A", 1].fix(None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (no_objective, "has 0"),
        (two_objectives, "has 2: objective, second"),
        (nonlinear_row, "row 'c'"),
        (cubic_row, "row 'c' is not linear or quadratic"),
        (cubic_objective, "objective 'objective'"),
        (disjunction, "is a Disjunct"),
        (complementarity, "'s' is a Complementarity"),
        (set_with_a_fixed_variable, r"'s' has the fixed variable 'x\[A,1\]'"),
        (names_that_clash, r"'x\[A,1\]' is named twice"),
        (semicontinuous, "'z' has domain"),
        (fixed_without_value, r"'x\[A,1\]' is fixed"),
    ],
)
def test_what_is_not_represented_is_refused_by_name(change, message):
    m = plane()
    change(m)
    with pytest.raises(ModelError, match=message):
        solve_pyomo(m)


def random_model(seed: int) -> pyo.ConcreteModel:
    draw = random.Random(seed)
    m = pyo.ConcreteModel()
    m.i = pyo.Set(initialize=range(draw.randint(2, 6)))
    m.x = pyo.Var(m.i, bounds=(draw.randint(-3, 0), draw.randint(1, 9)))
    m.y = pyo.Var(m.i, domain=pyo.NonNegativeIntegers, bounds=(None, 7))
    m.rows = pyo.ConstraintList()
    for _ in range(draw.randint(1, 5)):
        body = sum(draw.randint(-5, 5) * m.x[i] + draw.randint(-5, 5) * m.y[i] for i in m.i) + draw.randint(-3, 3)
        side = draw.randint(-4, 25)
        m.rows.add(draw.choice([body <= side, body >= -side, pyo.inequality(-30, body, side + 3)]))
    expression = sum(draw.randint(-9, 9) * m.x[i] + draw.randint(-9, 9) * m.y[i] for i in m.i) + draw.random()
    m.objective = pyo.Objective(expr=expression, sense=draw.choice((pyo.minimize, pyo.maximize)))
    return m


@pytest.mark.parametrize("seed", range(25))
def test_equals_pyomo_s_own_way_and_its_lp_file(seed, tmp_path):
    m = random_model(seed)
    ours = solve_pyomo(m)
    path = tmp_path / "model.lp"
    m.write(str(path), io_options={"symbolic_solver_labels": True})
    from_file = solve(lp.read(path))
    assert from_file.status == ours.status
    theirs = pyo.SolverFactory("highs").solve(m, load_solutions=False)
    assert str(theirs.solver.termination_condition) == ours.status
    if ours.status == "optimal":
        assert from_file.objective == pytest.approx(ours.objective, rel=1e-8, abs=1e-8)
        bound = theirs.problem.lower_bound if m.objective.sense == pyo.minimize else theirs.problem.upper_bound
        assert ours.objective == pytest.approx(bound, rel=1e-3, abs=1e-3)  # Pyomo leaves HiGHS its gap of 1e-4
        for name, value in ours.values.items():
            m.find_component(name).set_value(value, skip_validation=True)
        assert pyo.value(m.objective) == pytest.approx(ours.objective, rel=1e-12, abs=1e-9)
        assert all(row.slack() > -1e-6 for row in m.rows.values())


@pytest.mark.parametrize("other", [None, object(), pyo.ConcreteModel, pyo.AbstractModel(), pyo.Block([1, 2])])
def test_what_is_no_concrete_model_is_refused_with_its_type(other):
    with pytest.raises(ModelError, match=f"a {type(other).__name__} is not accepted; accepted: a pyomo ConcreteModel"):
        lp.from_pyomo(other)
