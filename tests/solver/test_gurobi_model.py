"""gurobipy models read through their interface, against Gurobi's own LP and MPS files of them."""

import math

import pytest
from tests.solver.comparing import meaning

from trex.solver import lp
from trex.solver.model import ModelError

gurobipy = pytest.importorskip("gurobipy")
GRB = gurobipy.GRB


@pytest.fixture
def model():
    with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as empty:
        yield empty


def filled(m):
    """A model with every part that is represented; some of its names are left to Gurobi."""
    x, y = m.addVar(name="x[0,1]"), m.addVar(lb=-5, ub=7, name="y")
    b, c = m.addVar(vtype="B", name="b"), m.addVar(vtype="B", name="c")
    s, n = m.addVar(vtype="S", ub=9, lb=2, name="s"), m.addVar(vtype="N", ub=9, name="n")
    z, i = m.addVar(lb=-math.inf, name="z"), m.addVar(vtype="I", name="i", ub=4)
    m.setObjective(x + 2 * y + 3 * x * x - x * y + 7 - i, GRB.MAXIMIZE)
    m.addConstr(x + y - s >= 2 - n, "c1")
    m.addConstr(3 * x == 4)
    m.addConstr(x * x + 2 * x * y + y <= 9, "q")
    m.addRange(x + y, 1, 6, "rg")
    m.addSOS(GRB.SOS_TYPE1, [x, y], [1, 2])
    m.addSOS(GRB.SOS_TYPE2, [x, y, z], [1, 2, 3])
    m.addGenConstrIndicator(b, 1, x + y <= 3, name="ind")
    m.addGenConstrIndicator(c, 0, x + y + 1 >= 1)
    m.addGenConstrMax(z, [x, y], 3, name="mx")
    m.addGenConstrMin(z, [x, y])
    m.addGenConstrAbs(z, y)
    m.addGenConstrAnd(b, [c])
    m.addGenConstrOr(b, [c, b])
    m.addConstr(x <= 100, "lz").Lazy = 1
    return m


@pytest.mark.parametrize("suffix", [".lp", ".mps"])
def test_equals_gurobi_s_own_file(model, tmp_path, suffix):
    ours = lp.from_gurobi(filled(model))
    path = tmp_path / f"model{suffix}"
    model.write(str(path))
    left, right = meaning(ours), meaning(lp.read(path))
    for side in (left, right):  # the file has lazy rows last
        side["rows"].sort(key=lambda row: (sorted(row[0].items()), row[2]))
    assert left == right
    assert sorted(ours.rows) == sorted(lp.read(path).rows)
    assert ours.sense == "max" and ours.offset == 7


def test_repeated_and_empty_names(model):
    for name in ("x", "x", "x_1", "", "y"):
        model.addVar(name=name)
    model.update()
    names = lp.from_gurobi(model).variables
    assert names[:1] == ("x",) and names[2:] == ("x_1", "C3", "y") and len(set(names)) == 5


def test_infinite_sides_and_bounds(model):
    x = model.addVar(lb=-1e20, ub=1e30)
    model.addConstr(x <= 1e25)
    read = lp.from_gurobi(model)
    assert (read.lower[0], read.upper[0], read.row_lower[0], read.row_upper[0]) == (-math.inf, math.inf) * 2
    model.addConstr(x >= 1e25, "bad")
    with pytest.raises(ModelError, match="'bad' has the right side"):
        lp.from_gurobi(model)


def piecewise_objective(m, x, y):
    m.setPWLObj(x, [0, 1, 2], [0, 1, 5])


def objectives(m, x, y):
    m.setObjectiveN(x, 0)
    m.setObjectiveN(y, 1)


def scenarios(m, x, y):
    m.NumScenarios = 2


def user_cut(m, x, y):
    m.addConstr(x <= 1, "cut").Lazy = -1


def power(m, x, y):
    m.addGenConstrPow(x, y, 3, name="g")


def norm(m, x, y):
    m.addGenConstrNorm(x, [x, y], 2.0, name="g")


def piecewise(m, x, y):
    m.addGenConstrPWL(x, y, [0, 1], [0, 1], name="g")


def exponential(m, x, y):
    m.addGenConstrExp(x, y, name="g")


def nonlinear(m, x, y):
    m.addGenConstrNL(x, gurobipy.nlfunc.sin(y), name="g")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (piecewise_objective, "piecewise-linear objective"),
        (objectives, "2 objectives"),
        (scenarios, "scenarios"),
        (user_cut, "'cut' is a user cut"),
        (power, "'g' is POW"),
        (norm, "'g' is NORM"),
        (piecewise, "'g' is PWL"),
        (exponential, "'g' is EXP"),
        (nonlinear, "'g' is NL"),
    ],
)
def test_what_is_not_represented_is_refused_by_name(model, change, message):
    x, y = model.addVar(name="x"), model.addVar(name="y")
    change(model, x, y)
    with pytest.raises(ModelError, match=message):
        lp.from_gurobi(model)


def test_an_indicator_s_variable_is_binary(model):
    b, x = model.addVar(name="b"), model.addVar(name="x")
    model.addGenConstrIndicator(b, 1, x >= 2)
    read = lp.from_gurobi(model)
    assert read.kinds == ("integer", "continuous") and read.upper.tolist() == [1, math.inf]
    b.UB = 5
    with pytest.raises(ModelError, match="needs 'b' to be binary, or without a kind and bounds"):
        lp.from_gurobi(model)


def test_what_is_no_gurobi_model_is_refused_with_its_type(model):
    for other in (None, object(), "min x end"):
        with pytest.raises(ModelError, match=f"a {type(other).__name__} is not accepted; accepted: a gurobipy Model"):
            lp.from_gurobi(other)
    model.dispose()
    with pytest.raises(ModelError, match=r"cannot be read: .*freed"):
        lp.from_gurobi(model)
