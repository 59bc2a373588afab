"""LP reading: names, constants, and what must be refused. Right values are by hand or from the shared cases."""

import json
from pathlib import Path

import numpy as np
import pytest

import trex.paths
from trex.solver import lp
from trex.solver.solve import solve

CASES = Path(trex.paths.CHECKOUT).parent / "shared" / "cases" / "or" / "lp_reading_highs.json"
# shared cases that HiGHS cannot answer: refused or flagged, with what the message must say
REFUSED = {"sos": "SOS", "max_general_constraint": "line 6", "double_sided_row": "line 4, column 11"}
FLAGGED = {"miqp": "mixed-integer quadratic"}


def shared_cases() -> list:
    if not CASES.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason="shared cases are not here"))]
    return [pytest.param(case, id=case["id"]) for case in json.loads(CASES.read_text())["cases"]]


@pytest.mark.parametrize("case", shared_cases())
def test_shared_case(case):
    if case["id"] in REFUSED:
        with pytest.raises(lp.LPError, match=REFUSED[case["id"]]):
            lp.read(case["lp"])
        return
    model = lp.read(case["lp"])
    solution = solve(model)
    if case["id"] in FLAGGED:
        assert solution.status == "error" and FLAGGED[case["id"]] in solution.message
        assert solution.objective is None and not solution.values
        return
    right = case["right"]
    assert solution.status == right["status"]
    if "objective" in right:
        assert solution.objective == pytest.approx(right["objective"], abs=1e-9)
    if "variables" in right:
        assert len(model.variables) == right["variables"]


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
    assert model.start.tolist() == [0, 3, 6] and model.index.tolist() == [0, 1, 2, 3, 4, 5]
    assert model.value.tolist() == [1, 1, 1, 1, -1, 1]
    assert model.row_lower.tolist() == [-np.inf] * 2 and model.row_upper.tolist() == [10, 4]


def body(objective: str = "x", rows: str = "c: x + y >= 2", rest: str = "") -> str:
    return f"Minimize\n obj: {objective}\nSubject To\n {rows}\n{rest}End\n"


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        (body(rows="c: [ x[0]^2 ] + y <= 3"), (4, 5), "quadratic"),
        (body(rows="row[a]: x[0] - 1 >= 2"), (4, 15), "constant"),
        (body(rows="c: x >= 1 + 2"), (4, 12), "expected"),
        (body(rows="c: x + y >= y"), (4, 14), "number"),
        (body(rows="c: b[0] = 1 -> x >= 2"), (4, 14), "indicator"),
        (body(rows="c: x[0] y[0] >= 2"), (4, 10), r"found `y\[0\]`"),
        (body(rest="SOS\n s: S1 :: x : 1 y : 2\n"), (5, 1), "SOS"),
        (body(rest="General Constraints\n g: z = MAX ( x , y )\n"), (6, 3), "expected"),
        (body(rest="Semi-Continuous\n x[0]\nBounds\n x[0] <= 3\n"), (None, None), r"'x\[0\]' is SemiContinuous"),
        (
            "Minimize multi-objectives\n a: Priority=1\n x\n b: Priority=2\n y\nSubject To\n c: x + y >= 1\nEnd\n",
            (2, 2),
            "expected",
        ),
        (body(rest="Lazy Constraints\n l: x <= 1\n"), (5, 6), "expected"),
        (body(rows="c: 1e-13 x + y >= 1"), (None, None), "ignored"),
        (body(rows="c: x + y >= 1e30"), (None, None), "lower bound"),
        (body(objective="1e30 x"), (None, None), "not finite"),
        ("Minimize\n x\nSubject To\n c: x >= 1\n", (4, 11), "end"),
        ("hello\nworld\n", (1, 1), "section"),
        (" \n \n", (None, None), "empty"),
    ],
)
def test_what_a_model_cannot_hold_is_refused_with_its_place(text, place, reason):
    with pytest.raises(lp.LPError, match=reason) as caught:
        lp.read(text)
    assert (caught.value.line, caught.value.column) == place
    assert "v_" not in str(caught.value), "a message about an alias, not about the name in the text"


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


def test_a_variable_called_constant_that_is_not_fixed_stays():
    for rest in ("", "Bounds\n Constant = 2\n"):
        assert "Constant" in lp.read(body("x + 3 Constant", rest=rest)).variables
    assert "Constant" in lp.read(body("x", "c: x + Constant >= 2", "Bounds\n Constant = 1\n")).variables


def test_files_are_read_by_path_and_bad_paths_refused(tmp_path):
    path = tmp_path / "a.lp"
    path.write_text(body("x[0]", "c: x[0] >= 2"))
    assert lp.read(path).variables == lp.read(str(path)).variables == ("x[0]",)
    for missing in (tmp_path / "none.lp", "none.lp", tmp_path, "", "Minimize x"):
        with pytest.raises(lp.LPError, match="neither LP text"):
            lp.read(missing)
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(lp.LPError, match="neither LP text"):
        lp.read(path)


def test_reading_prints_nothing(capfd):
    lp.read(NAMES)
    with pytest.raises(lp.LPError):
        lp.read(body(rows="c: x y >= 2"))
    assert capfd.readouterr() == ("", "")
