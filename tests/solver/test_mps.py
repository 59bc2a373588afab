"""MPS reading. Right values are by hand, and HiGHS' and Gurobi's where they read the same text alike."""

import math
import re

import pytest
from tests.solver.comparing import difference, gurobi_reads, highs_reads, meaning

from trex.solver import lp
from trex.solver.model import SOS, Function, Indicator

INF = math.inf


def mps(
    *,
    head: str = "NAME t",
    rows: str = "G c",
    columns: str = " x obj 1 c 1\n y obj 2 c 1",
    right: str = " RHS c 2",
    ranges: str = "",
    bounds: str = "",
    rest: str = "",
) -> str:
    sections = [head, "ROWS\n N obj", *(f" {row}" for row in rows.split("\n")), f"COLUMNS\n{columns}", f"RHS\n{right}"]
    sections += [f"RANGES\n{ranges}"] if ranges else []
    sections += [f"BOUNDS\n{bounds}"] if bounds else []
    return "\n".join([*sections, *([rest] if rest else []), "ENDATA", ""])


INTEGER = " M1 'MARKER' 'INTORG'\n x obj 1 c 1\n M2 'MARKER' 'INTEND'\n y obj 2 c 1"


@pytest.mark.parametrize(
    ("kind", "sign", "distance", "right"),
    [
        ("E", "", 3, (2, 5)), ("E", "-", 3, (-1, 2)), ("E", "", 0, (2, 2)),
        ("L", "", 3, (-1, 2)), ("L", "-", 3, (-1, 2)), ("G", "", 3, (2, 5)), ("G", "-", 3, (2, 5)),
    ],
)  # fmt: skip
def test_ranges(kind, sign, distance, right):
    text = mps(rows=f"{kind} c", ranges=f" RNG c {sign}{distance}")
    model = lp.read(text)
    assert (model.row_lower[0], model.row_upper[0]) == right
    assert meaning(highs_reads(text, ".mps")) == meaning(model)


@pytest.mark.parametrize(
    ("columns", "bounds", "right"),
    [
        ("", "", ("continuous", 0, INF)),
        ("", " UP BND x 4", ("continuous", 0, 4)),
        ("", " UP x 4", ("continuous", 0, 4)),
        ("", " UP BND x 0", ("continuous", 0, 0)),
        ("", " LO BND x 0\n UP BND x -3", ("continuous", 0, -3)),
        ("", " UP BND x -3\n LO BND x -5", ("continuous", -5, -3)),
        ("", " MI BND x\n UP BND x -3", ("continuous", -INF, -3)),
        ("", " UP BND x 4\n MI BND x 0", ("continuous", -INF, 4)),
        ("", " FR x", ("continuous", -INF, INF)),
        ("", " FX BND x 4", ("continuous", 4, 4)),
        ("", " UP BND x 1e30\n LO BND x -inf", ("continuous", -INF, INF)),
        ("", " BV BND x", ("integer", 0, 1)),
        ("", " LI BND x 2", ("integer", 2, INF)),
        ("", " UI BND x 4", ("integer", 0, 4)),
        ("", " SC BND x 4", ("semi-continuous", 0, 4)),
        ("", " SC BND x 4\n LO BND x 2", ("semi-continuous", 2, 4)),
        ("", " SC BND x 1e30", ("semi-continuous", 0, INF)),
        ("", " SI BND x 4", ("semi-integer", 0, 4)),
        (INTEGER, "", ("integer", 0, 1)),  # without any bound
        (INTEGER, " PL BND x", ("integer", 0, INF)),
        (INTEGER, " LO BND x 2", ("integer", 2, INF)),
        (INTEGER, " MI BND x", ("integer", -INF, INF)),
        (INTEGER, " UP BND x 7", ("integer", 0, 7)),
        (INTEGER, " FR BND x", ("integer", -INF, INF)),
    ],
)
def test_bounds_as_highs_has_them(columns, bounds, right):
    text = mps(bounds=bounds, **({"columns": columns} if columns else {}))
    model = lp.read(text)
    assert (model.kinds[0], model.lower[0], model.upper[0]) == right
    assert meaning(highs_reads(text, ".mps")) == meaning(model)


@pytest.mark.parametrize(
    ("head", "sense"),
    [
        ("NAME t\nOBJSENSE\n    MAX", "max"), ("NAME\nOBJSENSE MAX", "max"), ("* c\n\nNAME t FREE", "min"),
        ("NAME t\nOBJSENSE\n MAXIMIZE", "max"), ("NAME t\nOBJSENSE\n MIN", "min"), ("", "min"),
    ],
)  # fmt: skip
def test_heads_and_senses(head, sense):
    text = mps(head=head).lstrip("\n")
    model = lp.read(text)
    assert model.sense == sense
    assert meaning(highs_reads(text, ".mps")) == meaning(model)


def test_objective_s_constant_free_rows_and_names():
    columns = " x[0] obj 1 free 3\n x[0] c 0\n y obj -2 c 1"
    model = lp.read(mps(rows="N free\nG c", columns=columns, right=" RHS c 2 obj 5"))
    assert model.offset == -5 and model.rows == ("free", "c") and model.variables == ("x[0]", "y")
    assert meaning(model)["rows"] == [({"x[0]": 3}, {}, -INF, INF), ({"y": 1}, {}, 2, INF)]
    assert model.index.tolist() == [0, 0, 1], "the entry of 0 stays"
    chosen = lp.read(mps(head="NAME t\nOBJNAME\n free", rows="N free\nG c", columns=columns))
    assert chosen.cost.tolist() == [3, 0] and chosen.rows == ("obj", "c")


SPECIAL = mps(
    rows="L i\nL q",
    columns=f" y obj 2 i 1\n y q 3\n z obj 1\n{' b obj 0'}",
    right=" RHS i 4 q 5",
    bounds=" BV BND b",
    rest="SOS\n S1 s\n y 1\n z 2\n S2 t\n z 3\n y 1\nQUADOBJ\n y y 4\n y z 3\nQCMATRIX q\n y y 2\n y z 1.5\n z y 1.5\n"
    "INDICATORS\n IF i b 1\nGENCONS\n MAX m\n z\n y\n b\n 3\n ABS a\n z\n y\n AND k\n b\n b",
)


def test_special_parts():
    model = lp.read(SPECIAL)
    assert model.quadratic == {(0, 0): 2, (0, 1): 3}
    assert model.rows == ("q",) and model.quadratic_rows == {0: {(0, 0): 2, (0, 1): 3}}
    assert model.indicators == (Indicator("i", 2, 1, ((0, 1.0),), -INF, 4),)
    assert model.sos == (SOS("s", 1, (0, 1), (1, 2)), SOS("t", 2, (1, 0), (3, 1)))
    assert model.functions == (
        Function("m", "max", 1, (0, 2), 3), Function("a", "abs", 1, (0,)), Function("k", "and", 2, (2,)),
    )  # fmt: skip
    gurobipy = pytest.importorskip("gurobipy")
    with gurobipy.Env(params={"OutputFlag": 0}) as env:
        assert meaning(gurobi_reads(env, SPECIAL, ".mps")) == meaning(model)


@pytest.mark.parametrize("section", ["QMATRIX\n x x 2\n x y 3\n y x 3", "QSECTION obj\n x x 2\n x y 3"])
def test_other_ways_to_write_a_quadratic_objective(section):
    text = mps(rest=section)
    model = lp.read(text)
    assert model.quadratic == {(0, 0): 1, (0, 1): 3}
    assert meaning(highs_reads(text, ".mps")) == meaning(model)


def test_sets_in_the_longer_form():
    model = lp.read(mps(rest="SOS\n S1 SOS s1 5\n SOS x 1\n SOS y 2"))
    assert model.sos == (SOS("s1", 1, (0, 1), (1, 2)),)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (mps(bounds=" UP BND x -3"), 11, "negative upper bound and no lower one"),  # Gurobi: -inf, HiGHS: 0
        (mps(bounds=" UP BND x 4\n UP BND x 7"), 12, "two upper bounds"),
        (mps(bounds=" UP BND zz 4"), 11, "'zz' is not in COLUMNS"),
        (mps(bounds=" UP BND x"), 11, "not in COLUMNS"),
        (mps(bounds=" XX BND x 4"), 11, "bound 'XX'"),
        (mps(bounds=" UP BND x 1e400"), 11, "too large"),
        (mps(bounds=" LO BND x 1e30"), 11, "on this side"),
        (mps(bounds=" FX BND x inf"), 11, "on this side|fixed at"),
        (mps(bounds=" UP BND x nan"), 11, "not a number"),
        (mps(bounds=" UP BND x 1_0"), 11, "not a number"),
        (mps(bounds=" UP A x 1\n UP B y 1"), 12, "second set of bounds"),
        (mps(columns=" x obj 1 c 1\n x c 4"), 7, "'c' twice"),
        (mps(columns=" x obj 1\n y c 4\n x c 1"), 8, "'x' is there twice"),
        (mps(columns=" x obj 1d1 c 1"), 6, "not a number"),
        (mps(columns=" x zz 1"), 6, "'zz' is not in ROWS"),
        (mps(columns=" x one obj 1"), 6, "column's line"),
        (mps(rows="G my row"), 4, "without blanks"),
        (mps(rows="X c"), 4, "N, L, G or E"),
        (mps(rows="G c\nG c"), 5, "'c' is there twice"),
        (mps(right=" RHS zz 4"), 9, "'zz' is not in ROWS"),
        (mps(right=" RHS c 4\n RHS c 4"), 10, "two right sides"),
        (mps(right=" R1 c 4\n R2 obj 4"), 10, "second set of numbers"),
        (mps(right=" RHS c inf"), 9, "right side inf"),
        (mps(ranges=" RNG obj 3"), 11, "objective"),
        (mps(rows="N f\nG c", ranges=" RNG f 3"), 12, "free row"),
        (mps(rest="QMATRIX\n x x 2\n x y 3"), 11, "not symmetric"),
        (mps(rest="QCMATRIX c\n x y 3"), 11, "not symmetric"),
        (mps(rest="QCMATRIX zz\n x y 3"), 10, "'zz' is not in ROWS"),
        (mps(rest="QUADOBJ\n x x 2\nQSECTION obj\n x x 2\nQMATRIX\n x x 2"), 15, "two sections"),
        (mps(rest="SOS\n S3 s\n x 1"), 11, "not in COLUMNS|after S1 or S2"),
        (mps(rest="SOS\n x 1"), 11, "after S1 or S2"),
        (mps(rest="INDICATORS\n IF c x 2"), 11, "0 or 1"),
        (mps(bounds=" UP BND x 3", rest="INDICATORS\n IF c x 1"), None, "'x' to be binary"),
        (mps(rest="GENCONS\n PWL g\n x"), 11, "'PWL'; accepted: MIN, MAX, ABS, AND, OR"),
        (mps(rest="GENCONS\n ABS g\n x\n 3"), 11, "a constant"),
        (mps(rest="PWLOBJ\n x 0 0"), 10, "'PWLOBJ'"),
        (mps(rest="USERCUTS\n L u"), 10, "'USERCUTS'"),
        (mps(rest="RHS\n RHS c 2"), 10, "twice"),
        (mps(head="NAME t\nOBJSENSE\n    BIG"), 3, "'BIG'"),
        (mps() + "more\n", 11, "after ENDATA"),
        (mps().replace("ENDATA\n", ""), 10, "without ENDATA"),
        ("NAME t\n x\nENDATA\n", 2, "outside of a section"),
    ],
)
def test_what_is_malformed_or_not_represented_is_refused_with_its_line(text, line, reason):
    with pytest.raises(lp.LPError, match=reason) as caught:
        lp.read(text)
    assert caught.value.line == line and caught.value.column is None


def test_section_words_in_lower_case_and_names_as_they_are(tmp_path):
    upper = mps(head="NAME T\nOBJSENSE\n MAX", columns=" X obj 1 c 1\n y obj 2 c 1", bounds=" UP BND X 4")
    lower = re.sub("^[A-Z]+", lambda word: word[0].lower(), upper, flags=re.MULTILINE)
    assert lower.startswith("name T\nobjsense\n MAX\nrows\n") and lower.endswith("endata\n")
    (tmp_path / "a").write_text(lower)
    model = lp.read(tmp_path / "a")
    assert model.variables == ("X", "y") and model.upper[0] == 4
    assert difference(model, lp.read(upper)) is None
    assert meaning(highs_reads(lower, ".mps")) == meaning(model)
    assert lp.read(lower.partition("\n")[2]).sense == "max"  # without its name


def test_the_column_of_an_indicator_is_binary():
    model = lp.read(mps(rest="INDICATORS\n IF c x 1"))
    assert (model.kinds, model.upper.tolist()) == (("integer", "continuous"), [1, INF])


def test_files_by_name_and_by_content(tmp_path):
    for name in ("a.mps", "a.txt", "a"):
        (tmp_path / name).write_text(mps())
        assert lp.read(tmp_path / name).variables == ("x", "y")
    (tmp_path / "a.lp").write_text(mps())
    with pytest.raises(lp.LPError, match=r"a\.lp, line 1, column 1: expected the section Minimize"):
        lp.read(tmp_path / "a.lp")
