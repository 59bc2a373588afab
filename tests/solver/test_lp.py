"""LP reading: names, constants, and what must be refused. Right values are by hand, from the shared cases, or from
HiGHS and Gurobi reading the same text."""

import gzip
import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from tests.solver.comparing import difference, gurobi_reads, highs_reads, meaning

import trex.paths
from trex.solver import lp
from trex.solver.formats.lp_reader import read_lp
from trex.solver.model import SOS, Function, Indicator, ModelError
from trex.solver.solve import solve

INF = math.inf
SHARED = Path(trex.paths.CHECKOUT).parent / "shared"
CASES = SHARED / "cases" / "or" / "lp_reading_highs.json"
BENCHMARKS = sorted(SHARED.glob("benchmarks/b4o_*/lp/*.lp"))


def shared_cases() -> list:
    if not CASES.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason="shared cases are not here"))]
    return [pytest.param(case, id=case["id"]) for case in json.loads(CASES.read_text())["cases"]]


@pytest.mark.parametrize("case", shared_cases())
def test_shared_case(case):
    model = lp.read(case["lp"])
    right = case["right"]
    if case["id"] == "double_sided_row":
        assert "optimal 2 if supported" in right["status"]
        right = {"status": "optimal", "objective": 2}
    solution = solve(model)
    assert solution.status == right["status"]
    if "objective" in right:
        assert solution.objective == pytest.approx(right["objective"], abs=1e-6)
    if "variables" in right:
        assert len(model.variables) == right["variables"]


@pytest.mark.skipif(not BENCHMARKS, reason="the benchmark folder is not here")
def test_benchmarks_are_read_as_highs_reads_them():
    assert len(BENCHMARKS) == 372
    beyond = 0
    for path in BENCHMARKS:
        # without the column of the objective's constant folded
        ours, theirs = read_lp(path.read_text(), str(path)), highs_reads(path.read_text())
        if theirs is None:
            assert ours.beyond_linear[-1] == "quadratic rows", path
            beyond += 1
            continue
        assert meaning(ours) == meaning(theirs), path
        assert (ours.rows, ours.variables) == (theirs.rows, theirs.variables), path
    assert beyond < 20


@pytest.mark.skipif(not BENCHMARKS, reason="the benchmark folder is not here")
def test_benchmarks_are_read_as_gurobi_reads_them():
    gurobipy = pytest.importorskip("gurobipy")
    with gurobipy.Env(params={"OutputFlag": 0}) as env:
        for path in BENCHMARKS:
            ours, theirs = lp.read(path), gurobi_reads(env, path.read_text())
            assert meaning(ours) == meaning(theirs), path
            assert (ours.rows, ours.variables) == (theirs.rows, theirs.variables), path


NAMES = r"""\ bracketed names in every section, and next to every kind of token
Maximize
 profit: 3 flow[A,B] + 2y[-1] - .5z[q[0],1].t + 1e2e[0] + $p[a:b]
   + [ 2 flow[A,B] * flow[A,B] - 2 y[-1]^2 - 8 flow[A,B]^2 ] / 2 \ x[no] = 1
Subject To
 limit[A:B]: flow[A,B]+y[-1]+z[q[0],1].t<=10
 plain: e[0] + v_0 - $p[a:b] <= 4
Bounds
 -5 <= flow[A,B] <= 6
 z[q[0],1].t free
 $p[a:b] <= 3
Generals
 e[0]
Binaries
 v_0
End
"""


def test_names_are_kept_in_every_section():
    model = lp.read(NAMES)
    names = ("flow[A,B]", "y[-1]", "z[q[0],1].t", "e[0]", "$p[a:b]", "v_0")
    assert model.variables == names
    assert model.rows == ("limit[A:B]", "plain")
    assert model.sense == "max"
    assert dict(zip(names, model.cost, strict=True)) == dict(zip(names, (3, 2, -0.5, 100, 1, 0), strict=True))
    assert model.quadratic == {(0, 0): 1 - 4, (1, 1): -1}
    assert model.lower.tolist() == [-5, 0, -np.inf, 0, 0, 0]
    assert model.upper.tolist() == [6, np.inf, np.inf, np.inf, 3, 1]
    assert [model.kinds[j] for j in model.integers] == ["integer"] * 2 and model.integers.tolist() == [3, 5]
    assert model.start.tolist() == [0, 3, 6] and model.index.tolist() == [0, 1, 2, 3, 5, 4]
    assert model.value.tolist() == [1, 1, 1, 1, 1, -1]
    assert model.row_lower.tolist() == [-np.inf] * 2 and model.row_upper.tolist() == [10, 4]


def body(objective: str = "x", rows: str = "c: x + y >= 2", rest: str = "") -> str:
    return f"Minimize\n obj: {objective}\nSubject To\n {rows}\n{rest}End\n"


def one_row(rows: str) -> tuple[dict, float, float]:
    """The terms by name and the sides of a text's only row."""
    (terms, _, lower, upper), *others = meaning(lp.read(body("", rows)))["rows"]
    assert not others
    return terms, lower, upper


@pytest.mark.parametrize(
    ("row", "right"),
    [
        ("x - 1 >= 2", ({"x": 1}, 3, INF)),
        ("x + 3 - y + 2 <= 4 + 1", ({"x": 1, "y": -1}, -INF, 0)),
        ("x >= y", ({"x": 1, "y": -1}, 0, INF)),
        ("c: 3 + x >= 2 y - 4", ({"x": 1, "y": -2}, -7, INF)),
        ("2 <= x + y <= 8", ({"x": 1, "y": 1}, 2, 8)),
        ("8 >= x + y + 1 >= 2", ({"x": 1, "y": 1}, 1, 7)),
        ("-inf <= x <= 1e30", ({"x": 1}, -INF, INF)),
        ("2 <= x", ({"x": 1}, 2, INF)),
        ("2 = x", ({"x": 1}, 2, 2)),
        ("x =< 5", ({"x": 1}, -INF, 5)),
        ("x => 5", ({"x": 1}, 5, INF)),
        ("x == 5", ({"x": 1}, 5, 5)),
        ("x < 5", ({"x": 1}, -INF, 5)),
        ("c: >= 5", ({}, 5, INF)),
        ("c: 3 >= 5", ({}, 2, INF)),
        ("0 x >= 5", ({}, 5, INF)),
        ("x <= inf", ({"x": 1}, -INF, INF)),
        ("x >= -1e20", ({"x": 1}, -INF, INF)),
        ("x\n+\ny\n>=\n2", ({"x": 1, "y": 1}, 2, INF)),
        ("x - - y - + 2 z >= - -2", ({"x": 1, "y": 1, "z": -2}, 2, INF)),
        ("x + x + 2 x >= 1", ({"x": 4}, 1, INF)),
        ("2x + 2e5y + 3 e5 + 4e + .5z >= 1", ({"x": 2, "y": 2e5, "e5": 3, "e": 4, "z": 0.5}, 1, INF)),
        ("x[A, B] + x(1) + x#1 + q!\"$%&/,.;?@_'`{}|~() >= 1",
         ({"x[A, B]": 1, "x(1)": 1, "x#1": 1, "q!\"$%&/,.;?@_'`{}|~()": 1}, 1, INF)),
    ],
)  # fmt: skip
def test_a_row_s_terms_and_sides(row, right):
    assert one_row(row) == right


def test_rows_without_names_end_with_their_line():
    model = lp.read(body(rows="x >= 2\n + y >= 3\n 3 z\n >= 1\n R1: x + z >= 0 a: y <= 9\n x - y\n <= 5"))
    assert model.rows == ("R0", "R1_", "R2", "R1", "a", "R5")
    assert model.row_lower.tolist() == [2, 3, 1, 0, -INF, -INF]


@pytest.mark.parametrize(
    ("rest", "right"),
    [
        ("x <= 5", (0, 5)),
        ("5 >= x", (0, 5)),
        ("-2 <= x <= 5", (-2, 5)),
        ("5 >= x >= -2", (-2, 5)),
        ("x free", (-INF, INF)),
        ("x Free\n x <= 3", (-INF, 3)),
        ("-infinity <= x <= 3", (-INF, 3)),
        ("x >= -Inf", (-INF, INF)),
        ("x >= -1e30", (-INF, INF)),
        ("x = 4", (4, 4)),
        ("x <= -1", (0, -1)),
        ("x <= 5\n x <= 7\n x >= 2\n x >= 1", (1, 7)),
        ("x <= 3\n x free", (-INF, INF)),
        ("x <= 1e19", (0, 1e19)),
        ("x <= 1\nBounds\n x >= 0.5", (0.5, 1)),
        ("x <= 5\nBinaries\n x", (0, 1)),
        ("-5 <= x <= 5\nBinary\n x", (0, 1)),
        ("x <= 0.5\nbin\n x x", (0, 0.5)),
        ("2 <= x <= 3\nBinaries\n x", (2, 1)),
    ],
)
def test_bounds(rest, right):
    model = lp.read(body(rest=f"Bounds\n {rest}\n"))
    assert (model.lower[0], model.upper[0]) == right
    assert model.kinds[0] == ("integer" if "bin" in rest.lower() else "continuous")


def test_kinds_of_variables():
    rest = "gen\n a b\nsemi-continuous\n b c\nbin\n d\nsemi-integers\n e\nbounds\n 1 <= b <= 9\n"
    model = lp.read(body("a + b + c + d + e", "", rest))
    assert model.kinds == ("integer", "semi-integer", "semi-continuous", "integer", "semi-integer")
    assert model.lower.tolist() == [0, 1, 0, 0, 0] and model.upper.tolist() == [INF, 9, INF, 1, INF]
    assert lp.read(body(rest="Bounds\n z <= 3\nGenerals\n w\n")).variables == ("x", "y", "z", "w")


def test_special_parts():
    text = body(
        "x + 3 y - [ 2 x^2 + 4 x*y ] / 2 + [ y ^2 ]",
        "q: x + [ x^2 - 2 x * y + y * x ] <= 3\n i: b = 0 -> x - 1 >= 2\n 3 - [ y * x ] >= 4 x",
        "Lazy Constraints\n l: x <= 9\nBinaries\n b\nSOS\n s: S1 :: x : 1 y : 2\n S2:: x:3 y:-1 b:2\n"
        "SOS2\n t: x:1 y:2\nGeneral Constraints\n m: z = MAX ( x , 3 , y , 4 )\n w = MIN ( x , -1 )\n"
        " a: v = ABS ( x )\n k: b = AND ( b , b )\n o: b = or ( b )\n",
    )
    model = lp.read(text)
    assert model.variables == ("x", "y", "b", "z", "w", "v")
    assert model.quadratic == {(0, 0): -1, (0, 1): -2, (1, 1): 1}
    assert model.rows == ("q", "R1", "l")
    assert model.quadratic_rows == {0: {(0, 0): 1, (0, 1): -1}, 1: {(0, 1): -1}}
    assert meaning(model)["rows"][1] == ({"x": -4}, {("x", "y"): -1}, -3, INF)
    assert model.indicators == (Indicator("i", 2, 0, ((0, 1.0),), 3, INF),)
    assert model.sos == (
        SOS("s", 1, (0, 1), (1, 2)), SOS("s1", 2, (0, 1, 2), (3, -1, 2)), SOS("t", 2, (0, 1), (1, 2)),
    )  # fmt: skip
    assert model.functions == (
        Function("m", "max", 3, (0, 1), 4), Function("GC2", "min", 4, (0,), -1), Function("a", "abs", 5, (0,)),
        Function("k", "and", 2, (2, 2)), Function("o", "or", 2, (2,)),
    )  # fmt: skip


@pytest.mark.parametrize(
    "head",
    ["minimum", "MINIMISE", "Minimize\n\nSubject To", "min\n obj:\nst", "min 0\ns.t.", "min\nsuch that", "MIN\nst."],
)
def test_heads(head):
    rows = "" if "\n" in head else "subject   to\n"
    model = lp.read(f"\n\\ comment\n{head}\n{rows} c: x >= 1\nend\n\\ done\n\n")
    assert (model.sense, model.offset, model.variables, model.rows) == ("min", 0, ("x",), ("c",))
    assert lp.read("max 3 x + 2 - 5\nend\n").offset == -3


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        (body(rows="c: [ x^2 ] / 2 <= 3"), (4, 13), "accepted in the objective"),
        (body(rows="c: y + x^2 <= 3"), (4, 10), r"outside of \[ \]"),
        (body(rows="c: [ x^2 + y ] <= 3"), (4, 15), r"expected \^ or \*"),
        (body(rows="c: [ x^3 ] <= 3"), (4, 9), "power 3"),
        (body(rows="c: 3 [ x^2 ] <= 3"), (4, 7), "comparison"),
        (body(rows="c: y[ x^2 ] <= 3"), (4, 6), "without its `]`"),
        (body("3 x + [ x^2 ] / 3"), (2, 21), "divided by 3"),
        (body(rows="c: x + y = [2, 8]"), (4, 15), "',' is no variable"),
        (body("2 (x + y)"), (2, 9), r"'\(x' is no variable.*products with parentheses"),
        (body(rows="c: 2 ( x + y ) >= 1"), (4, 7), r"'\(' is no variable.*products with parentheses"),
        (body(rows="c: x - )y >= 1"), (4, 9), r"'\)y' is no variable"),
        (body(rows="c: x + ,y >= 1"), (4, 9), "',y' is no variable"),
        (body(rows="c: 3 4 x >= 2"), (4, 7), "found `4`"),
        (body(rows="c: x[0] y[0] >= 2"), (4, 10), r"found `y\[0\]`"),
        (body(rows="c: x >= 1e400"), (4, 10), "too large"),
        (body(rows="c: x >= 1e-400"), (4, 10), "too small"),
        (body(rows="c: x >= nan"), (4, 10), "'nan' is no variable"),
        (body(rows="c: inf x >= 2"), (4, 9), "found `x`"),
        (body(rows="c: 3 inf >= 2"), (4, 7), "'inf' is no variable"),
        (body(rows="c: x >= 1e30"), (4, 7), "lower side of inf"),
        (body(rows="c: x <= -inf"), (4, 7), "upper side of -inf"),
        (body(rows="c: x = inf"), (4, 7), "lower side of inf"),
        (body(rows="c: x + 1e30 >= 2"), (4, 9), "alone on its side"),
        (body(rows="c: 1e30 x >= 2"), (4, 5), "alone on its side"),
        (body("1e30 x"), (2, 7), "alone on its side"),
        (body(rows="c: x"), (5, 1), "comparison"),
        (body(rows="c: x >="), (5, 1), "a number"),
        (body(rows="c: x >= 2 >= 1"), (4, 12), "outer sides"),
        (body(rows="c: 2 <= x >= 1"), (4, 12), "both"),
        (body(rows="c: 2 <= x + y\n + z <= 8"), (5, 2), "not clear"),
        (body("x + 3 bin"), (2, 13), "not clear whether it is a variable"),
        (body(rows="c: x + 3 bin >= 1"), (4, 11), "comparison"),
        (body(rest="Generals\n x lazy constraints\n 3\n"), (7, 2), "a variable"),
        (body(rows="c: x + >= 2"), (4, 9), "a term"),
        (body(rows="b = 1 <-> x >= 2"), (4, 8), "equivalence"),
        (body(rows="b = 2 -> x >= 2"), (4, 6), "indicator at 2"),
        (body(rows="b = 1 -> [ x^2 ] >= 2"), (4, 8), "quadratic terms under"),
        (body(rows="a: b: x >= 2"), (4, 5), "comparison"),
        (body(rest="Bounds\n 2 x <= 4\n"), (6, 4), "comparison"),
        (body(rest="Bounds\n b: x <= 4\n"), (6, 3), "comparison"),
        (body(rows="c: x >= 1O"), (4, 11), "followed by a blank"),
        (body("x + end"), (2, 11), "expected a term"),
        (body(rest="Bounds\n -5 <= x y <= 7\n"), (6, 10), "a new line"),
        (body(rows="c: x <= 100 free"), (4, 14), "new line"),
        (body(rest="Bounds\n x >= 1e30\n"), (6, 7), "lower side"),
        (body(rest="Bounds\n x = inf\n"), (6, 6), "x = inf"),
        (body(rest="Bounds\n x <= y\n"), (6, 7), "a number"),
        (body(rest="Bounds\n x\n"), (7, 1), "comparison"),
        (body(rest="Generals\n 3\n"), (6, 2), "a variable"),
        (body(rest="Bounds\n -2 <= x <= 3\nSemi\n x\n"), (None, None), "'x' is semi-continuous"),
        (body(rest="SOS\n s: S3 :: x : 1 y : 2\n"), (6, 2), "accepted: S1, S2"),
        (body(rest="SOS\n s: S1 :: x : 1 y : 1\n"), (6, 2), "weight twice"),
        (body(rest="SOS\n s: S1 ::\n"), (7, 1), "a weight"),
        (body(rest="SOS\n s: x : 1\n"), (6, 5), "S1 ::"),
        (body(rest="General Constraints\n g: z = EXP ( x )\n"), (6, 9), "'EXP'; accepted: MIN, MAX, ABS, AND, OR"),
        (body(rest="General Constraints\n g: z = PWL ( x ) : (0, 0) (1, 1)\n"), (6, 9), "'PWL'"),
        (body(rest="General Constraints\n g: z = NORM ( 2 ) ( x , y )\n"), (6, 9), "'NORM'"),
        (body(rest="General Constraints\n g: z = MAX (x,y)\n"), (6, 13), "between blanks"),
        (body(rest="General Constraints\n g: z = ABS ( x , y )\n"), (6, 9), "ABS of 2"),
        (body(rest="General Constraints\n g: z = AND ( x , 1 )\n"), (6, 9), "a constant"),
        (body(rest="User Cuts\n l: x <= 1\n"), (5, 1), "user cuts"),
        (body(rest="PWLObj\n x: (0, 0) (1, 1)\n"), (5, 1), "piecewise"),
        (body(rest="Generals\n x\nScenario s0\n"), (7, 1), "scenarios"),
        (body(rest="Maximize\n x\n"), (5, 1), "second objective"),
        (body(rest="Subject To\n x >= 1\n"), (5, 1), "twice"),
        ("Minimize multi-objectives\n a: Priority=1\n x\nSubject To\n c: x >= 1\nEnd\n", (1, 1), "several objectives"),
        (body() + "foo\n", (6, 1), "after End"),
        ("Minimize\n x\nSubject To\n c: x >= 1\n", (4, 11), "found end of text: End is missing"),
        ("Minimize\n x\nSubject To\n c: x +", (4, 8), "End is missing"),
        ("Minimize x", (1, 11), "End is missing"),
        ("Minimize\n x y\nEnd\n", (2, 4), "a section"),
        ("hello\nworld\n", (1, 1), "section"),
        ("Minimize\n x\0\nEnd\n", (2, 3), r"'\\x00'"),
        ("Minimize\n " + "9" * 401 + " x\nEnd\n", (2, 2), "401 characters"),
        (" \n \n", (None, None), "empty"),
    ],
)
def test_what_is_malformed_or_not_represented_is_refused_with_its_place(text, place, reason):
    with pytest.raises(lp.LPError, match=reason) as caught:
        lp.read(text)
    assert (caught.value.line, caught.value.column) == place
    assert caught.value.reason in str(caught.value) and "\n" not in str(caught.value)


def test_duplicate_terms_are_summed_and_cancelled_ones_keep_their_variable():
    model = lp.read(body(objective="x + 2 x", rows="c: x[0] + 2 x[0] + z - z >= 6"))
    assert model.variables == ("x", "x[0]", "z")
    assert model.cost.tolist() == [3, 0, 0]
    assert dict(zip(model.index.tolist(), model.value.tolist(), strict=True)).get(1) == 3


@pytest.mark.parametrize("name", ["Constant", "ONE_VAR_CONSTANT"])
def test_a_constant_written_as_a_column_becomes_the_offset(name):
    text = body(f"2 {name} + x[0] + 7 + [ x[0]^2 + 2 x[0]*y + y^2 ]", "c: x[0] + y >= 3", f"Bounds\n {name} = 1\n")
    model = lp.read(text)
    assert model.offset == 9 and model.variables == ("x[0]", "y")
    assert model.quadratic == {(0, 0): 1, (0, 1): 2, (1, 1): 1}
    assert solve(model).objective == pytest.approx(9 + 0 + 9, abs=1e-6)


def test_parts_after_the_constant_s_column_keep_their_variables():
    text = body(
        "2 Constant + x + y + b",
        "q: x + [ x * y ] >= 1\n i: b = 1 -> x <= 3",
        "Bounds\n Constant = 1\nBinaries\n b\nSOS\n S1:: x:1 y:2\nGeneral Constraints\n y = MAX ( x , b )\n",
    )
    with_constant, without = lp.read(text), lp.read(text.replace("2 Constant", "2").replace(" Constant = 1\n", ""))
    assert meaning(with_constant) == meaning(without) and with_constant.variables == ("x", "y", "b")


def test_a_variable_called_constant_that_is_not_fixed_stays():
    for rest in ("", "Bounds\n Constant = 2\n"):
        assert "Constant" in lp.read(body("x + 3 Constant", rest=rest)).variables
    fixed = "Bounds\n Constant = 1\n"
    for rows, rest in (
        ("c: x + Constant >= 2", fixed),
        ("c: x + [ Constant * x ] >= 2", fixed),
        ("c: x >= 2", fixed + "SOS\n S1:: Constant:1 x:2\n"),
        ("c: x >= 2", fixed + "General Constraints\n x = ABS ( Constant )\n"),
        ("b = 1 -> Constant >= 2", fixed + "Binaries\n b\n"),
        ("c: x >= 2", fixed + "Generals\n Constant\n"),
    ):
        assert "Constant" in lp.read(body("x", rows, rest)).variables


def test_files_are_read_by_path_and_bad_paths_refused(tmp_path):
    path = tmp_path / "a.lp"
    path.write_text("\ufeff" + body("x[0]", "c: x[0] >= 2"))
    assert lp.read(path).variables == lp.read(str(path)).variables == ("x[0]",)
    packed = tmp_path / "a.lp.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert lp.read(packed).variables == ("x[0]",)
    packed.write_bytes(packed.read_bytes()[:-9])
    for missing in (packed, tmp_path / "none.lp", "none.lp", tmp_path, "", "Minimize", "min.lp x", "max: x", "a\0b"):
        with pytest.raises(lp.LPError, match="neither LP text"):
            lp.read(missing)
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(lp.LPError, match="neither LP text"):
        lp.read(path)


ONE_LINE = "min x[1] - 2 st c: x[1] >= 0 d: x[1] <= 9 Bounds x[1] <= 4 Generals x[1] y Binary z End"


def test_sections_begin_within_a_line_too():
    right = lp.read(
        "min\n x[1] - 2\nst\n c: x[1] >= 0\n d: x[1] <= 9\nBounds\n x[1] <= 4\nGenerals\n x[1] y\nBinary\n z\nEnd\n"
    )
    assert right.variables == ("x[1]", "y", "z") and right.offset == -2 and right.upper.tolist() == [4, INF, 1]
    words = ONE_LINE.split(" ")
    assert difference(lp.read(ONE_LINE), right) is None
    for text in (ONE_LINE + "\n", ONE_LINE + "\r", ONE_LINE.replace(" c:", "\nc:"), ONE_LINE.replace(" End", "\nEnd")):
        assert difference(lp.read(text), right) is None
    for place in range(1, len(words)):
        assert difference(lp.read(f"{' '.join(words[:place])}\n{' '.join(words[place:])}"), right) is None
    parts = "MINIMISE x SUBJECT  TO c: x>=1 semi-continuous s sos2 t: x:1 y:2 general constraints z = MAX ( x , y ) end"
    model = lp.read(parts)
    assert model.variables == ("x", "s", "y", "z") and model.kinds[1] == "semi-continuous"
    assert model.sos == (SOS("t", 2, (0, 2), (1, 2)),) and model.functions == (Function("GC0", "max", 3, (0, 2)),)
    named = lp.read("min x st bounds: x >= 1 end : x <= 4\n End")  # before a colon they are names
    assert named.rows == ("bounds", "end")
    variables = lp.read(body("x + lazy + scenario +\n constraints", rest="Generals\n x lazy constraints\n")).variables
    assert variables == ("x", "lazy", "scenario", "constraints", "y")


def test_a_file_s_name_may_begin_as_text_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "min x end").write_text(body("y"))
    assert lp.read("min x end").variables == ("y", "x")
    assert lp.read("min x  end").variables == ("x",)
    assert len(lp.read("min " + " + ".join(f"x{k}" for k in range(5000)) + " end").variables) == 5000


@pytest.mark.parametrize("source", [None, b"min x end\n", 3, ["min"]])
def test_what_is_neither_path_nor_text_is_refused_with_its_type(source):
    with pytest.raises(lp.LPError, match=rf"a {type(source).__name__}.*accepted: a path, or LP or MPS text"):
        lp.read(source)
    with pytest.raises(ModelError, match=rf"a {type(source).__name__} .*accepted: a highspy.Highs"):
        lp.from_highs(source)
    with pytest.raises(ModelError, match=rf"a {type(source).__name__} .*accepted: a Model"):
        lp.write(source)
    if source is not None:
        with pytest.raises(ModelError, match=rf"a {type(source).__name__} .*accepted: str, Path"):
            lp.write(lp.read("min x end"), source)


BINARY_BOUNDS = [
    ("", (0, 1)), ("b <= 1", (0, 1)), ("b <= 0.5", (0, 0.5)), ("0.2 <= b <= 1", (0.2, 1)), ("b = 1", (1, 1)),
    ("b >= 0", (0, 1)), ("b <= 5", None), ("b free", None), ("-1 <= b <= 1", None), ("b >= 2", None), ("b >= 1", None),
    ("b <= 1\nSemi\n b", None), ("\nGenerals\n b", None), ("b <= 1\nGenerals\n b", (0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize(("bounds", "right"), BINARY_BOUNDS)
@pytest.mark.parametrize("use", ["indicator", "g: b = AND ( c , d )", "g: c = OR ( b , d )"])
def test_what_an_indicator_or_a_logical_function_makes_binary(use, bounds, right, sense):
    rows, rest = ("i: b = 1 -> x >= 2", "") if use == "indicator" else ("", f"General Constraints\n {use}\n")
    text = body("b + 0.1 x", f"{rows}\n x >= 1\n x <= 9", f"Bounds\n {bounds}\n{rest}")
    text = text.replace("Minimize", "Minimize" if sense == "min" else "Maximize").replace(
        "0.1", "-0.1" * (sense == "max") or "0.1"
    )
    if right is None:
        with pytest.raises(lp.LPError, match="needs 'b' to be binary, or without a kind and bounds; it is"):
            lp.read(text)
        return
    model = lp.read(text)
    j = model.variables.index("b")
    assert (model.kinds[j], model.lower[j], model.upper[j]) == ("integer", *right)
    ours = solve(model)
    gurobipy = pytest.importorskip("gurobipy")
    with gurobipy.Env(params={"OutputFlag": 0}) as env:
        assert gurobi_solves(env, text) == pytest.approx(ours.objective, abs=1e-6)


def gurobi_solves(env, text: str) -> float:
    import gurobipy

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.lp")
        path.write_text(text)
        with gurobipy.read(str(path), env) as theirs:
            theirs.optimize()
            return theirs.ObjVal


def test_a_file_that_unpacks_to_more_than_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(lp, "LARGEST", 1000)
    path = tmp_path / "a.lp.gz"
    path.write_bytes(gzip.compress(b"\n" * 100_000))
    with pytest.raises(lp.LPError, match="more than 1000 bytes"):
        lp.read(path)


def test_reading_prints_nothing(capfd):
    lp.read(NAMES)
    with pytest.raises(lp.LPError):
        lp.read(body(rows="c: x y >= 2"))
    assert capfd.readouterr() == ("", "")
