"""The interface over open solvers: solutions in closed form, attributes, parameters, what is refused."""

import math
import random
import sys
from unittest import mock

import numpy as np
import pytest

from trex.solver import lp, recorder
from trex.solver.model import ModelError
from trex.solver.recorder import GRB, GurobiError, LinExpr, Model, QuadExpr, abs_, max_, quicksum, tuplelist


@pytest.fixture
def m():
    return Model("m")


def test_a_knapsack_by_enumeration(m, capfd):
    weights, values = [3, 4, 5, 9, 4], [3, 4, 4, 10, 4]
    x = m.addVars(5, vtype=GRB.BINARY, name="x")
    m.addConstr(x.prod(dict(enumerate(weights))) <= 11, "capacity")
    m.setObjective(quicksum(values[i] * x[i] for i in x), GRB.MAXIMIZE)
    m.optimize()
    subsets = ([i for i in range(5) if mask >> i & 1] for mask in range(32))
    best = max(sum(values[i] for i in s) for s in subsets if sum(weights[i] for i in s) <= 11)
    assert m.Status == GRB.OPTIMAL and m.objVal == m.ObjVal == m.getObjective().getValue() == best
    assert m.SolCount == 1 and m.IsMIP == 1 and m.MIPGap == 0 and m.ObjBound == best and m.Runtime > 0
    row = m.getConstrByName("capacity")
    assert row.Slack == 11 - m.getRow(row).getValue() == 11 - sum(weights[i] * x[i].x for i in x)
    assert m.getAttr("X", x) == {i: x[i].X for i in x} and [x[i].Xn for i in x] == m.X
    assert capfd.readouterr() == ("", "")


def test_duals_of_a_transport_problem_prove_its_optimum(m):
    supply, demand, cost = [20, 30], [10, 25, 15], [[8, 6, 10], [9, 5, 7]]
    x = m.addVars(2, 3, name="x")
    out = m.addConstrs((x.sum(i, "*") <= supply[i] for i in range(2)), name="supply")
    into = m.addConstrs((x.sum("*", j) >= demand[j] for j in range(3)), name="demand")
    m.setObjective(sum(cost[i][j] * x[i, j] for i, j in x))
    m.optimize()
    dual = sum(supply[i] * out[i].Pi for i in out) + sum(demand[j] * into[j].Pi for j in into)
    assert dual == pytest.approx(m.ObjVal, rel=1e-9)
    for i, j in x:
        reduced = x[i, j].RC
        assert reduced == pytest.approx(cost[i][j] - out[i].Pi - into[j].Pi, abs=1e-9)
        assert reduced >= -1e-9
    assert all(out[i].Pi <= 1e-9 for i in out) and all(into[j].Pi >= -1e-9 for j in into)


def test_duals_of_a_maximum_have_the_sign_of_gurobi_s(m):
    x, y = m.addVar(), m.addVar(ub=1)
    row = m.addConstr(x + y <= 4)
    m.setObjective(3 * x + 5 * y, GRB.MAXIMIZE)
    m.optimize()
    assert (row.Pi, x.RC, y.RC, row.Slack) == (3, 0, 2, 0)
    x.VType = "I"
    m.optimize()
    with pytest.raises(AttributeError, match="only an optimal linear program has dual values"):
        _ = row.Pi


@pytest.mark.parametrize(("rows", "status"), [((">", 3, "<", 2), 3), ((">", 3), 5)])
def test_no_optimum(m, rows, status):
    x = m.addVar(name="x")
    for sense, side in zip(rows[::2], rows[1::2], strict=True):
        m.addLConstr(x, sense, side)
    m.setObjective(x, GRB.MAXIMIZE)
    m.optimize()
    assert m.Status == m.status == status and m.SolCount == 0
    assert not hasattr(m, "ObjVal") and not hasattr(x, "X")
    with pytest.raises(AttributeError, match="Unable to retrieve attribute 'ObjVal'"):
        _ = m.ObjVal


def test_a_solution_ends_with_a_change(m):
    x = m.addVar(ub=2, name="x")
    m.setObjective(x, GRB.MAXIMIZE)
    m.optimize()
    x.UB = 3
    assert x.X == 2 and m.Status == GRB.OPTIMAL
    m.update()
    assert m.Status == GRB.LOADED and not hasattr(x, "X")
    m.optimize()
    assert x.X == 3
    m.reset()
    assert not hasattr(x, "X")


@pytest.mark.parametrize("exponent", [1, 2, 2.0])
def test_a_power_is_exact(m, exponent):
    x, y = m.addVar(lb=1.5, ub=9), m.addVar()
    m.addGenConstrPow(x, y, exponent, "p")
    m.setObjective(y)
    m.optimize()
    assert m.ObjVal == pytest.approx(1.5**exponent, rel=1e-6)


@pytest.mark.parametrize("at", [-2.0, 0.0, 0.25, 1.0, 2.5, 4.0, 6.0])
def test_a_piecewise_linear_function_goes_on_beyond_its_points(m, at):
    xs, ys = [0, 1, 4], [1, 3, 0]
    x, y = m.addVar(lb=at, ub=at), m.addVar(lb=-GRB.INFINITY)
    m.addGenConstrPWL(x, y, xs, ys, "f")
    right = 1 + 2 * at if at <= 1 else 4 - at
    for sense in (GRB.MINIMIZE, GRB.MAXIMIZE):
        m.setObjective(y, sense)
        m.optimize()
        assert m.ObjVal == pytest.approx(right, abs=1e-6) and abs(x.X - at) < 1e-6


@pytest.mark.parametrize("points", [([0], [1]), ([1, 0], [0, 1]), ([0, 1], [0]), ([0, math.inf], [0, 1])])
def test_points_of_no_function_are_refused(m, points):
    with pytest.raises(GurobiError, match="accepted: two or more, x not falling"):
        m.addGenConstrPWL(m.addVar(), m.addVar(), *points)


def test_a_function_that_ends_with_a_jump_is_refused(m):
    m.addGenConstrPWL(m.addVar(), m.addVar(), [0, 0, 1], [0, 1, 1], "jump")
    with pytest.raises(ModelError, match="'jump' begins or ends with a jump"):
        m.trex_model()


def test_functions_and_indicators_in_closed_form(m):
    x, z, top, b = m.addVar(lb=-3, ub=-3), m.addVar(), m.addVar(), m.addVar(vtype="B")
    m.addConstr(z == abs_(x))
    m.addConstr(top == max_(z, x, constant=2.5))
    m.addConstr((b == 1) >> (top <= 1))
    m.setObjective(top + 10 * (1 - b))
    m.optimize()
    assert (z.X, top.X, b.X, m.ObjVal) == pytest.approx((3, 3, 0, 13))


def test_matrices_against_rows_one_by_one(m):
    rng = np.random.default_rng(0)
    a, cost, right = rng.integers(-3, 4, (3, 4)), rng.integers(1, 5, 4), rng.integers(1, 6, 3)
    x = m.addMVar(4, ub=5, name="x")
    m.addConstr(a @ x >= -right, name="r")
    m.addConstr(x[0] + x[1:3].sum() == 2, "s")
    m.addConstr(x[:2] <= x[2:] + 1, name="t")
    m.setObjective(cost @ x + x @ x)
    n = Model()
    y = n.addVars(4, ub=5, name="x")
    for i in range(3):
        n.addConstr(sum(int(a[i, j]) * y[j] for j in range(4)) >= -int(right[i]), f"r[{i}]")
    n.addConstr(y.sum() - y[3] == 2, "s")
    for i in range(2):
        n.addConstr(y[i] <= y[i + 2] + 1, f"t[{i}]")
    n.setObjective(sum(int(cost[j]) * y[j] + y[j] * y[j] for j in y))
    assert lp.write(m.trex_model()) == lp.write(n.trex_model())
    m.optimize()
    assert x.X.shape == (4,) and (cost @ x + x @ x).getValue() == pytest.approx(m.ObjVal)
    x.UB = np.arange(4)
    assert x.ub.tolist() == [0, 1, 2, 3] and m.addMVar((2, 2), name="y")[1, 0].VarName == "y[1,0]"


def test_arithmetic_against_numbers(m):
    """Random expressions have the value that the same arithmetic has on the variables' values."""
    variables = [m.addVar(lb=v, ub=v) for v in (2.0, -3.0, 0.5)]
    m.optimize()
    rng = random.Random(1)

    def grow(depth, degree):
        if depth == 0:
            k = rng.randrange(4)
            return (variables[k], variables[k].X) if k < 3 else (rng.choice([LinExpr(1.5), 1.5]), 1.5)
        (a, u), (b, v) = grow(depth - 1, degree), grow(depth - 1, degree)
        operation = rng.choice("+-*/s" if degree == 2 and depth == 1 else "+-ns/")
        if operation == "*":
            return a * b, u * v
        if operation == "s":
            return a * 0.5 - b / 4, u * 0.5 - v / 4
        if operation == "n":
            return 3 - a - (-b), 3 - u + v
        if operation == "/":
            return a / 8 + b, u / 8 + v
        return (a + b, u + v) if operation == "+" else (a - b, u - v)

    for _ in range(300):
        expression, value = grow(4, 2)
        found = (LinExpr() + expression).getValue()
        assert found == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_expressions_are_not_shared(m):
    x, y = m.addVar(name="x"), m.addVar(name="y")
    e = x + y
    f = e + 0
    e += 5
    g = e.copy()
    e.addTerms(1, x)
    assert (f.size(), f.getConstant(), g.size(), e.size(), e.getConstant()) == (2, 0, 2, 3, 5)
    q = x * y
    r = q + 0
    q += x
    assert r.getLinExpr().size() == 0 and q.getLinExpr().size() == 1 and isinstance(e * x, QuadExpr)


NONLINEAR = {
    "power": lambda x: x**3,
    "root": lambda x: x**0.5,
    "cube": lambda x: x * x * x,
    "quotient": lambda x: 1 / x,
    "ratio": lambda x: (x + 1) / x,
    "exponential": lambda x: 2**x,
}


@pytest.mark.parametrize("make", NONLINEAR.values(), ids=NONLINEAR)
def test_nonlinear_expressions_are_refused(m, make):
    with pytest.raises(GurobiError, match="not represented; accepted") as caught:
        make(m.addVar())
    assert caught.value.errno == 10024


REFUSED = {
    "objectives": lambda m, x: m.setObjectiveN(x, 0),
    "scenarios": lambda m, x: setattr(m, "NumScenarios", 2),
    "number of objectives": lambda m, x: setattr(m, "NumObj", 2),
    "piecewise objective": lambda m, x: m.setPWLObj(x, [0, 1], [0, 1]),
    "sine": lambda m, x: m.addGenConstrSin(x, x),
    "exponential": lambda m, x: m.addGenConstrExp(x, x),
    "norm": lambda m, x: m.addConstr(x == recorder.norm([x], 2)),
    "user cut": lambda m, x: setattr(m.addConstr(x <= 1), "Lazy", -1),
    "nonlinear function": lambda m, x: recorder.nlfunc.sin(x),
    "lazy constraint": lambda m, x: m.cbLazy(x <= 1),
    "matrix rows": lambda m, x: m.addMConstr(None, None, "<", None),
    "implied function": lambda m, x: m.addGenConstrIndicator(x, 1, x == abs_(x)),
    "relaxed": lambda m, x: (m.addSOS(1, [x]), m.relax()),
    "parameters to a file": lambda m, x: m.write("model.prm"),
}


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED)
def test_what_a_model_does_not_hold_is_refused(m, use):
    with pytest.raises(GurobiError, match=r"not represented"):
        use(m, m.addVar())


def test_callbacks_that_add_rows_are_refused_others_not_called(m):
    m.addVar()
    m.optimize(lambda model, where: pytest.fail("called"))
    assert m.Status == GRB.OPTIMAL
    m.Params.LazyConstraints = 1
    with pytest.raises(GurobiError, match="lazy constraints"):
        m.optimize(lambda model, where: None)


def test_parameters(m):
    m.Params.timelimit = 7
    m.setParam("MIPGap", np.float64(0.25))
    m.setParam(GRB.Param.Threads, 2)
    assert (m.Params.TimeLimit, m.params.mipgap, m.Params.Threads, m.Params.NonConvex) == (7.0, 0.25, 2, -1)
    m.setParam("TimeLimit", "default")
    assert m.Params.TimeLimit == math.inf
    m.resetParams()
    assert m.Params.MIPGap == 1e-4
    with recorder.Env(empty=True) as env:
        env.setParam("OutputFlag", 0)
        env.setParam("WLSAccessID", "ours")
        env.start()
        with Model("other", env=env) as other:
            assert other.Params.OutputFlag == 0
    with pytest.raises(GurobiError, match="already been freed"):
        other.addVar()


def test_a_time_limit_ends_the_search(m):
    rng = random.Random(0)  # market split: no relaxation says anything
    x, over, under = m.addVars(40, vtype="B"), m.addVars(5), m.addVars(5)
    for i in range(5):
        weights = [rng.randrange(100) for _ in x]
        m.addConstr(quicksum(w * x[j] for j, w in enumerate(weights)) + over[i] - under[i] == sum(weights) // 2)
    m.setObjective(over.sum() + under.sum())
    m.Params.TimeLimit = 0.3
    m.optimize()
    assert m.Status == GRB.TIME_LIMIT and m.ObjBound == 0


@pytest.mark.parametrize("name", ["model.lp", "model.mps", "model.lp.gz"])
def test_written_and_read(m, tmp_path, name):
    x, y, b = m.addVar(lb=-1, ub=4, name="x[1,a]"), m.addVar(name="y", vtype="I"), m.addVar(name="b", vtype="B")
    m.addConstr(x + 2 * y <= 7.25, "r")
    m.addConstr(x * x + y <= 9)
    m.addConstr((b == 1) >> (x >= 2), "i")
    m.addRange(x - y, -3, 3, "range")
    m.addSOS(1, [x, y])
    m.setObjective(x + y + b, GRB.MAXIMIZE)
    m.write(str(tmp_path / name))
    again = recorder.read(str(tmp_path / name))
    for model in (m, again, m.copy()):
        model.optimize()
    assert again.ObjVal == pytest.approx(m.ObjVal) and m.copy().trex_model().rows == m.trex_model().rows
    assert lp.read(tmp_path / name).variables == m.trex_model().variables
    assert "qc0" in lp.read(tmp_path / name).rows


def test_names_that_no_file_has_are_replaced_in_it(m, tmp_path):
    x = m.addVar(name="a b", obj=1)
    m.addConstr(x >= 3, "at least")
    m.write(str(tmp_path / "model.lp"))
    read = lp.read(tmp_path / "model.lp")
    assert (read.variables, read.rows, read.row_lower.tolist()) == (("C0",), ("R0",), [3])
    m.optimize()
    m.write(str(tmp_path / "model.sol"))
    assert (tmp_path / "model.sol").read_text().splitlines() == ["# Objective value = 3.0", "a b 3.0"]


def test_a_relaxation(m):
    x = m.addVar(vtype="I", name="x")
    m.addConstr(2 * x <= 7)
    m.setObjective(x, GRB.MAXIMIZE)
    relaxed = m.relax()
    for model in (m, relaxed):
        model.optimize()
    assert (m.ObjVal, relaxed.ObjVal, relaxed.IsMIP) == (3, 3.5, 0)


def test_a_conflict_is_minimal(m, tmp_path):
    x = m.addVars(3, ub=10, name="x")
    rows = {
        "low": m.addConstr(x[0] + x[1] >= 8, "low"),
        "free": m.addConstr(x[0] + x[2] <= 15, "free"),
        "first": m.addConstr(x[0] <= 3, "first"),
        "square": m.addConstr(x[1] * x[1] <= 16, "square"),
    }
    m.computeIIS()
    inside = {k for k, row in rows.items() if (row.IISQConstr if k == "square" else row.IISConstr)}
    assert inside == {"low", "first", "square"} and m.IISMinimal == 1
    assert not any(v.IISLB or v.IISUB for v in x.values())
    m.write(str(tmp_path / "model.ilp"))
    assert " first: " in (tmp_path / "model.ilp").read_text()
    m.remove(rows["first"])
    with pytest.raises(GurobiError, match="Cannot compute IIS on a feasible model"):
        m.computeIIS()
    x[0].UB = 1
    m.update()
    with pytest.raises(AttributeError):
        _ = rows["low"].IISConstr
    m.computeIIS()
    assert [v.IISUB for v in x.values()] == [1, 0, 0]


def test_own_attributes_do_not_meet_the_recorder_s(m):
    x = m.addVar(name="x")
    for owner in (m, x, m.addConstr(x <= 2)):
        for name in ("_x", "_vars", "_data", "_name", "_store", "_model", "_params", "_columns"):
            setattr(owner, name, 5)
            assert getattr(owner, name) == 5
    m.optimize()
    assert m.Status == GRB.OPTIMAL


def test_installed_in_gurobipy_s_place():
    with mock.patch.dict(sys.modules):
        module = recorder.install()
        import gurobipy
        from gurobipy import GRB as CONSTANTS
        from gurobipy import Model as Installed

        assert gurobipy is module and CONSTANTS is GRB
        gurobipy.setParam("TimeLimit", 9)
        assert Installed().Params.TimeLimit == 9 and Model().Params.TimeLimit == math.inf
        assert recorder.module().Model().Params.TimeLimit == math.inf
        gurobipy.disposeDefaultEnv()
        assert Installed().Params.TimeLimit == math.inf and isinstance(Installed(), Model)
        with pytest.raises(GurobiError, match="Unknown parameter 'Foo'"):
            gurobipy.setParam("Foo", 1)


def test_models_that_no_model_holds_raise_when_solved(m):
    b = m.addVar(name="b", ub=5)
    m.addConstr((b == 1) >> (b <= 3))
    with pytest.raises(GurobiError, match="needs 'b' to be binary"):
        m.optimize()
    with pytest.raises(ModelError, match="needs 'b' to be binary"):
        m.trex_model()


def test_tuplelists():
    pairs = tuplelist([(1, "a"), (1, "b"), (2, "a")])
    assert pairs.select(1, "*") == [(1, "a"), (1, "b")] and pairs.select("*", ["a"]) == [(1, "a"), (2, "a")]
    assert (
        pairs.select() == pairs
        and isinstance(pairs + tuplelist([(3, "c")]), tuplelist)
        and tuplelist([1, 2]).select(2) == [2]
    )


def test_selections_follow_changes():
    rng = random.Random(0)
    table, pairs = recorder.tupledict(), tuplelist()
    for step in range(300):
        key = (rng.randrange(4), rng.choice("abc"))
        if rng.random() < 0.7:
            table[key] = LinExpr(step)
            pairs.append(key)
        elif pairs:
            table.pop(pairs[0], None)
            pairs.remove(pairs[0])
        first, second = rng.choice([*range(4), "*", [1, 3]]), rng.choice([*"abc", "*", ["a", "c"]])

        def fits(pattern, value):
            return pattern == "*" or (value in pattern if isinstance(pattern, list) else value == pattern)

        chosen = [key for key in pairs if fits(first, key[0]) and fits(second, key[1])]
        assert pairs.select(first, second) == chosen
        kept = [key for key in table if fits(first, key[0]) and fits(second, key[1])]
        assert table.sum(first, second).getConstant() == sum(table[key].getConstant() for key in kept)


def test_many_terms_take_no_quadratic_time(m):
    x = m.addVars(20000)
    total = quicksum(x[i] for i in range(20000))
    total += total.copy()
    m.addConstr(total <= 1)
    assert m.trex_model().value.tolist() == [2.0] * 20000
