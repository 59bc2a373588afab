"""What is written is read back the same, by us, by HiGHS and by Gurobi."""

import math
from dataclasses import replace

import highspy
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.solver.comparing import difference, gurobi_reads, highs_reads, meaning, models

from trex.solver import highs, lp
from trex.solver.model import SOS, Model, ModelError

# the same examples in every run: a failure is one of the change that is tested
UNHURRIED = settings(
    deadline=None, max_examples=60, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def by_variable(model: Model) -> Model:
    """The model with each row's entries in the order of variables, as MPS has them."""
    rows = [sorted(model.row(row)) for row in range(len(model.rows))]
    entries = [entry for row in rows for entry in row]
    index, value = np.array([j for j, _ in entries], dtype=np.int64), np.array([c for _, c in entries], dtype=float)
    indicators = tuple(replace(i, terms=tuple(sorted(i.terms))) for i in model.indicators)
    return replace(model, index=index, value=value, indicators=indicators)


@pytest.fixture(scope="module")
def gurobi():
    """A quiet environment of Gurobi."""
    with pytest.importorskip("gurobipy").Env(params={"OutputFlag": 0}) as env:
        yield env


@UNHURRIED
@given(models())
def test_lp_text_is_read_back_exactly(model):
    assert difference(model, lp.read(lp.write(model))) is None


@UNHURRIED
@given(models())
def test_mps_text_is_read_back_exactly(model):
    read = lp.read(lp.write(model, format="mps"))
    assert difference(by_variable(model), by_variable(read)) is None


@pytest.mark.slow
@settings(UNHURRIED, max_examples=1500)
@given(models())
def test_many_texts_are_read_back_exactly(model):
    assert difference(model, lp.read(lp.write(model))) is None
    assert difference(by_variable(model), by_variable(lp.read(lp.write(model, format="mps")))) is None


@UNHURRIED
@given(models(beyond=False, simple=True), st.sampled_from(["lp", "mps"]))
def test_highs_reads_the_same(model, format):
    text = lp.write(model, format=format)
    theirs = highs_reads(text, f".{format}")
    if theirs is None or "Constant" in theirs.variables:
        return  # the column of the constant stays
    expected = meaning(model)
    if format == "mps":  # HiGHS drops free rows
        expected["rows"] = [row for row in expected["rows"] if math.isfinite(row[2]) or math.isfinite(row[3])]
    assert meaning(theirs) == expected


@UNHURRIED
@given(models(ranged=False, simple=True), st.sampled_from(["lp", "mps"]))
def test_gurobi_reads_the_same(gurobi, model, format):
    theirs = gurobi_reads(gurobi, lp.write(model, format=format), f".{format}")
    left, right = meaning(theirs), meaning(model)
    for side in (left, right):  # Gurobi puts quadratic rows last, also where their terms are 0
        side["rows"].sort(key=lambda row: (sorted(row[0].items()), sorted(row[1].items()), row[2:]))
    assert left == right


def small(**parts) -> Model:
    """Two variables and one row, with parts exchanged."""
    model = lp.read("min\n x + y\nst\n c: x + y >= 1\nend\n")
    return replace(model, **parts)


@pytest.mark.parametrize("format", ["lp", "mps"])
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"variables": ("x y", "z")}, "'x y'"),
        ({"variables": ("", "z")}, "''"),
        ({"rows": ("a b",)}, "'a b'"),
        ({"rows": ("",)}, "''"),
        ({"upper": np.array([1e25, 1.0])}, "1e.25"),
        ({"lower": np.array([math.inf, 1.0])}, "'x' has the side inf"),
        ({"row_upper": np.array([-math.inf])}, "'c' has the side -inf"),
        ({"sos": (SOS("a b", 1, (0, 1), (1.0, 2.0)),)}, "'a b'"),
        ({"quadratic": {(0, 0): 6e19}}, "quadratic coefficient"),
        ({"cost": np.array([1e20, 0.0])}, "1e.20"),
    ],
)
def test_what_no_format_holds_is_refused(format, parts, message):
    with pytest.raises(ModelError, match=message):
        lp.write(small(**parts), format=format)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "2x",
            ".5",
            "x+y",
            "x-1",
            "a:b",
            "x[",
            "x]",
            "a<b",
            "e^x",
            "a*b",
            "a\\b",
            "inf",
            "Infinity",
            "NaN",
            "st",
            "s.t.",
        ),
        *(
            "bounds",
            "End",
            "general",
            "integer",
            "semi",
            "sos",
            "binary",
            "minimize",
            "(",
            ",",
            "/2",
            "a\0b",
            "subject to",
        ),
    ],
)
def test_names_that_the_lp_format_would_read_as_something_else_are_refused(name):
    with pytest.raises(ModelError, match="has no such name"):
        lp.write(small(variables=(name, "z")))


@pytest.mark.parametrize(
    "name", ["free", "e5", "E1x", "inf1", "S1", "MAX", "x(1)", "x[A, B]", "q[a:b][-1]", "x.5", "é"]
)
def test_other_names_are_kept(name):
    kinds = ("semi-integer", "continuous")
    model = small(variables=(name, "z"), rows=(name,), kinds=kinds, lower=np.array([0.0, -math.inf]))
    for text in (lp.write(model), *([] if " " in name or name == "S1" else [lp.write(model, format="mps")])):
        assert difference(model, lp.read(text)) is None


@pytest.mark.parametrize("parts", [{"rows": ("c", "c")}, {"row_lower": np.array([3.0, 0.0])}])
def test_what_mps_lacks_is_refused(parts):
    model = lp.read("min\n x\nst\n c: 1 <= x <= 2\n d: x >= 1\nend\n")
    lp.write(replace(model, **parts))
    with pytest.raises(ModelError, match=r"two rows|above"):
        lp.write(replace(model, **parts), format="mps")


def test_a_column_that_reads_as_the_constant_is_refused():
    model = small(variables=("Constant", "y"), index=np.array([1]), start=np.array([0, 1]), value=np.array([1.0]))
    fixed = replace(model, lower=np.array([1.0, 0.0]), upper=np.array([1.0, 9.0]))
    for format in ("lp", "mps"):
        assert lp.read(lp.write(model, format=format)).variables == ("Constant", "y")
        with pytest.raises(ModelError, match="'Constant'"):
            lp.write(fixed, format=format)


def test_offset_beside_variables_of_its_usual_names():
    model = small(variables=("Constant", "ONE_VAR_CONSTANT"), offset=2.5)
    for format in ("lp", "mps"):
        assert difference(model, lp.read(lp.write(model, format=format))) is None


@pytest.mark.parametrize("suffix", [".lp", ".mps", ".LP.gz", ".mps.gz"])
def test_files_are_written_in_the_format_of_their_name(tmp_path, suffix):
    model, path = small(), tmp_path / f"a.b{suffix.lower()}"
    text = lp.write(model, path)
    assert difference(model, lp.read(path)) is None
    assert text == lp.write(model, format="mps" if "mps" in suffix else "lp")
    if not suffix.endswith("gz"):
        assert path.read_text() == text


@pytest.mark.parametrize("name", ["a.txt", "a", "none/a.lp", "a.gz"])
def test_paths_that_cannot_be_written_are_refused(tmp_path, name):
    with pytest.raises(ModelError, match=r"format|cannot be written"):
        lp.write(small(), tmp_path / name)
    with pytest.raises(ModelError, match="cannot be written"):
        lp.write(small(variables=("\ud800", "y")), tmp_path / "a.lp")
    with pytest.raises(ModelError, match="'nl'"):
        lp.write(small(), format="nl")


@UNHURRIED
@given(models(beyond=False))
def test_what_highs_holds_is_read_back(model):
    """Loaded and unloaded; HiGHS leaves out very small coefficients."""
    solver = highs.quiet()
    try:
        highs.load(solver, model)
    except ModelError:
        return
    # without names, and without a semi-continuous kind where the bounds say as much
    plain = {"semi-continuous": "continuous", "semi-integer": "integer"}
    kinds = (kind if low else plain.get(kind, kind) for kind, low in zip(model.kinds, model.lower, strict=True))
    named = replace(model, kinds=tuple(kinds), variables=tuple(f"c{j}" for j in range(len(model.variables))))
    ours, theirs = meaning(named), meaning(lp.from_highs(solver))
    if all(abs(c) > 1e-9 for c in (*model.value, *model.quadratic.values())):
        assert ours == theirs


def test_names_that_highs_lacks_are_made():
    solver = highspy.Highs()
    solver.silent()
    solver.addVars(3, [0, 0, 0], [1, 2, highspy.kHighsInf])
    solver.addRow(1, 5, 2, [0, 2], [1.0, -1.0])
    solver.passColName(1, "c2")
    solver.changeColIntegrality(0, highspy.HighsVarType.kSemiContinuous)
    model = lp.from_highs(solver)
    assert (model.variables, model.rows) == (("c0", "c2", "c2_"), ("r0",))
    assert model.kinds == ("semi-continuous", "continuous", "continuous")
    assert model.row(0) == [(0, 1), (2, -1)] and (model.row_lower[0], model.row_upper[0]) == (1, 5)
