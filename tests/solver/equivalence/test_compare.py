"""Verdicts on small models whose right answer is known by hand, and on the shared cases."""

import json
from pathlib import Path

import pytest

import trex.paths
from trex.solver import lp
from trex.solver.equivalence import compare
from trex.solver.equivalence.verdict import record, text
from trex.solver.model import ModelError

CASES = Path(trex.paths.CHECKOUT).parent / "shared" / "cases" / "or" / "equivalence_checker.json"


def shared_cases() -> list:
    if not CASES.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason="shared cases are not here"))]
    return [pytest.param(case, id=case["id"]) for case in json.loads(CASES.read_text())["cases"]]


@pytest.mark.parametrize("case", shared_cases())
def test_shared_case(case):
    for a, b in ((case["lp_a"], case["lp_b"]), (case["lp_b"], case["lp_a"])):
        assert compare(a, b).kind == ("equal" if case["right"] else "different")
        published = compare(a, b, mode="as-published")
        assert published.kind == ("equal" if case["bench4opt_says"] else "different")


def model(objective: str, *rows: str, rest: str = "", sense: str = "Minimize") -> str:
    return "\n".join([sense, f" obj: {objective}", "Subject To", *(f" {row}" for row in rows), rest, "End", ""])


BASE = model("2 x + 3 y + z", "c1: x + y >= 4", "c2: x + 2 y + z <= 10")
EQUAL = {
    "renamed and reordered": (BASE, model("b + 3 c + 2 a", "r: b + a + 2 c <= 10", "s: c + a >= 4")),
    "scaled, turned": (BASE, model("2 x + 3 y + z", "c1: - 0.1 x - 0.1 y <= -0.4", "c2: 3 x + 6 y + 3 z <= 30")),
    "max of -f": (BASE, model("- 2 x - 3 y - z", "c1: x + y >= 4", "c2: x + 2 y + z <= 10", sense="Maximize")),
    "equality as two rows": (
        model("x + 2 y", "c: x + y = 3"),
        model("x + 2 y", "c: x + y >= 3", "d: - x - y >= -3"),
    ),
    "range as two rows": (model("x + 2 y", "c: 1 <= x + y <= 3"), model("x + 2 y", "c: x + y >= 1", "d: x + y <= 3")),
    "binary, integer in [0, 1.5]": (
        model("- x - y", "c: x + 2 y <= 2", rest="Binaries\n x y"),
        model("- x - y", "c: x + 2 y <= 2", rest="Bounds\n x <= 1.5\n y <= 1\nGenerals\n x y"),
    ),
    "tightest of two bounds": (
        model("- x - y", "c: x + y <= 9", "d: x <= 5", "e: 2 x <= 6"),
        model("- x - y", "c: x + y <= 9", "d: x <= 3"),
    ),
    "duplicate row": (BASE, model("2 x + 3 y + z", "c1: x + y >= 4", "c2: x + 2 y + z <= 10", "c3: 2 x + 2 y >= 8")),
    "weaker parallel row": (BASE, model("2 x + 3 y + z", "c1: x + y >= 4", "c2: x + 2 y + z <= 10", "c3: x + y >= 3")),
    "redundant row": (
        BASE,
        model("2 x + 3 y + z", "c1: x + y >= 4", "c2: x + 2 y + z <= 10", "c3: 2 x + 3 y + z >= 4"),
    ),
    "redundant row, renamed": (
        BASE,
        model("2 p + 3 q + r", "a: p + q >= 4", "b: p + 2 q + r <= 10", "c: 2 p + 3 q + r >= 4"),
    ),
    "row that only integrality implies": (
        model("- x - y", "c: 2 x + 2 y <= 3", rest="Generals\n x y"),
        model("- x - y", "c: x + y <= 1", rest="Generals\n x y"),
    ),
    "surplus form": (BASE, model("2 x + 3 y + z", "c1: x + y - s = 4", "c2: x + 2 y + z + t = 10")),
    "bounded slack": (
        model("x + 3 y", "c: 2 <= x + y <= 5"),
        model("x + 3 y", "c: x + y + s = 5", rest="Bounds\n s <= 3"),
    ),
    "integer slack": (
        model("- x - y", "c: x + 2 y <= 5", rest="Generals\n x y"),
        model("- x - y", "c: x + 2 y + s = 5", rest="Generals\n x y s"),
    ),
    "objective as a variable": (
        BASE,
        model("cost", "c1: x + y >= 4", "c2: x + 2 y + z <= 10", "d: cost - 2 x - 3 y - z = 0"),
    ),
    "free definition": (
        model("x + 2 y", "a: x + y >= 2", "b: 2 x + 3 y <= 12"),
        model("x + 2 y", "a: t >= 2", "b: 2 t + y <= 12", "d: t - x - y = 0", rest="Bounds\n t free"),
    ),
    "copied variable": (
        model("x + 2 y", "a: x + y >= 2", "b: x + 3 y <= 12"),
        model("x + 2 y", "a: w + y >= 2", "b: x + 3 y <= 12", "d: x - w = 0"),
    ),
    "continuous, but an integer by its row": (
        model("x + 2 y", "a: x - y = 3", "b: x + 3 y >= 7", rest="Generals\n x y"),
        model("x + 2 y", "a: x - y = 3", "b: x + 3 y >= 7", rest="Generals\n y"),
    ),
    "cost moved along an equality": (
        model("x + y", "a: x + y + z = 5", "b: x - y <= 1"),
        model("5 - z", "a: x + y + z = 5", "b: x - y <= 1"),
    ),
    "fixed variable as a constant": (
        model("x + 10", "c: x + y >= 3"),
        model("x + 5 k", "c: x + y >= 3", rest="Bounds\n k = 2"),
    ),
    "ordered set, names and weights": (
        model("- x - 2 y", "c: x + y <= 5", rest="Bounds\n x <= 4\n y <= 3\nSOS\n s: S1 :: x : 1 y : 2"),
        model("- q - 2 p", "c: p + q <= 5", rest="Bounds\n q <= 4\n p <= 3\nSOS\n t: S1 :: p : 5 q : 7"),
    ),
    "order of a set of type 2, turned": (
        model("- x - 2 y - z", rest="Bounds\n x <= 4\n y <= 3\n z <= 2\nSOS\n s: S2 :: x : 1 y : 2 z : 3"),
        model("- x - 2 y - z", rest="Bounds\n x <= 4\n y <= 3\n z <= 2\nSOS\n s: S2 :: z : 1 y : 2 x : 3"),
    ),
    "indicator, renamed": (
        model("- x - 2 y + b", "c: x + y <= 5", "i: b = 0 -> y <= 1", rest="Binaries\n b"),
        model("- p - 2 q + k", "c: p + q <= 5", "i: k = 0 -> - 2 q >= -2", rest="Binaries\n k"),
    ),
    "quadratic row, renamed and scaled": (
        model("- x - 2 y", "q: [ x ^2 + y ^2 ] <= 4"),
        model("- p - 2 q", "q: [ 2 q ^2 + 2 p ^2 ] <= 8"),
    ),
    "maximum, arguments in another order": (
        model("z", "c: x + y >= 3", rest="General Constraints\n g: z = MAX ( x , y )"),
        model("z", "c: x + y >= 3", rest="General Constraints\n g: z = MAX ( y , x )"),
    ),
    "no rows, no objective": (model("", rest="Bounds\n x <= 1"), model("", rest="Bounds\n y <= 1")),
}  # fmt: skip
DIFFERENT = {
    "minimum and maximum": (BASE, BASE.replace("Minimize", "Maximize")),
    "a cost": (BASE, BASE.replace("3 y", "1.5 y")),
    "a side by 1e-5": (BASE, BASE.replace(">= 4", ">= 4.00001")),
    "coefficients 16777216 and 16777217": (
        model("- x", "c: 16777216 x + y <= 167772160000", "d: y >= 0"),
        model("- x", "c: 16777217 x + y <= 167772160000", "d: y >= 0"),
    ),
    "blocks AAB and ABB": (
        model("x + y + z", "a: x + p >= 1", "b: y + q >= 1", "c: z + 2 r >= 8", "d: x + p <= 2", rest=""),
        model("x + y + z", "a: x + p >= 1", "b: y + 2 q >= 8", "c: z + 2 r >= 8", "d: x + p <= 2",
              rest="Bounds\n p <= 0.5"),
    ),
    "constant": (BASE, BASE.replace("+ z\n", "+ z + 1\n")),
    "infeasible and feasible": (BASE, BASE.replace("<= 10", "<= 3")),
    "unbounded and bounded": (model("- x", "c: x - y <= 1"), model("- x", "c: x - y <= 1", "d: y <= 5")),
    "row that is not at the optimum": (
        BASE, model("2 x + 3 y + z", "c1: x + y >= 4", "c2: x + 2 y + z <= 11"),
    ),
    "integrality that the optimum does not show": (
        model("- x - y", "c: x + y <= 5"), model("- x - y", "c: x + y <= 5", rest="Generals\n x"),
    ),
    "cost of a variable that is 0 at the optimum": (BASE, BASE.replace("3 y", "4 y")),
    "quadratic row": (model("- x - 2 y", "q: [ x ^2 + y ^2 ] <= 4"), model("- x - 2 y", "q: [ x ^2 + y ^2 ] <= 5")),
    "type of ordered set": (
        model("- x - 2 y - z", rest="Bounds\n x <= 4\n y <= 3\n z <= 2\nSOS\n s: S1 :: x : 1 y : 2 z : 3"),
        model("- x - 2 y - z", rest="Bounds\n x <= 4\n y <= 3\n z <= 2\nSOS\n s: S2 :: x : 1 y : 2 z : 3"),
    ),
    "minimum and maximum of variables": (
        model("z", "c: x + y >= 3", "d: x >= 1", rest="General Constraints\n g: z = MAX ( x , y )"),
        model("z", "c: x + y >= 3", "d: x >= 1", rest="General Constraints\n g: z = MIN ( x , y )"),
    ),
    "semi-continuous": (
        model("x + 1.5 y", "c: x + y >= 1", rest="Bounds\n 2 <= x <= 5\nSemi-continuous\n x"),
        model("x + 1.5 y", "c: x + y >= 1", rest="Bounds\n 2 <= x <= 5"),
    ),
    "value of a fixed variable": (
        model("x", "c: x + y >= 3", rest="Bounds\n k = 2"), model("x", "c: x + y >= 3", rest="Bounds\n k = 3"),
    ),
}  # fmt: skip


# In each of these a tolerance, or the choice of the variables that leave, could hide or invent a difference.
DELICATE = {
    "big M": (
        False,
        model("x + z + w", "c: x - 1000000000 w <= 0", "d: x + z >= 0.5", "e: z <= 3", rest="Binaries\n w x"),
        model("x + z + w", "d: x + z >= 0.5", "e: z <= 3", rest="Binaries\n w x"),
    ),
    "sides near 0": (
        False,
        model("x - z", "c: x + y <= 0.0000000001", "d: y + z <= 5"),
        model("x - z", "c: x + y <= 0.0000000005", "d: y + z <= 5"),
    ),
    "a side that a large coefficient dwarfs": (
        False,
        model("x - z", "c: 70000 x - y <= 0.0001", "d: y + z <= 5"),
        model("x - z", "c: 70000 x - y <= 0.00015", "d: y + z <= 5"),
    ),
    "a cost that another dwarfs": (
        False,
        model("10000000000 p + y - z", "c: p + z >= 1", "d: y + z <= 5", "e: p <= 2", "f: z <= 3", "g: y <= 4"),
        model("10000000000 p + 2 y - z", "c: p + z >= 1", "d: y + z <= 5", "e: p <= 2", "f: z <= 3", "g: y <= 4"),
    ),
    "what is left of large numbers": (
        False,
        model("- x", "c: x + F <= 1000000000000.5", "d: x + y <= 9", rest="Bounds\n F = 1000000000000"),
        model("- x", "c: x + F <= 1000000000000.25", "d: x + y <= 9", rest="Bounds\n F = 1000000000000"),
    ),
    "24 bits of a side": (
        False,
        model("x + 2 y", "c: x + y <= 16777216", "d: x + 3 y >= 7"),
        model("x + 2 y", "c: x + y <= 16777217", "d: x + 3 y >= 7"),
    ),
    "coefficients exchanged": (
        False,
        model("x + y", "c: 2 x + 3 y >= 6", "d: 5 x + 4 y <= 40"),
        model("x + y", "c: 3 x + 2 y >= 6", "d: 5 x + 4 y <= 40"),
    ),
    "slacks in a chain": (
        True,
        model("t + 2 z", "a: s + x = 5", "r: x + t + u = 7", "b: v + u = 3", "c: t + z >= 1", "d: t <= 20",
              "e: z <= 9"),
        model("t + 2 z", "b: v + u = 3", "r: x + t + u = 7", "a: s + x = 5", "c: t + z >= 1", "d: t <= 20", "e: z <= 9",
              "f: t + 3 z <= 500"),
    ),
    "a slack in a redundant row too": (
        True,
        model("- 3 x - y", "c: - 2 y + z <= 2", "d: x + y <= 1", "e: z <= 3"),
        model("- 3 x - y", "c: - 2 y + z + s = 2", "f: s + y <= 500", "d: x + y <= 1", "e: z <= 3"),
    ),
    "a definition of which either variable may leave": (
        True,
        model("y", "c: x + y >= 1", "d: x + 3 y <= 9", "e: x <= 4", "f: y <= 7"),
        model("y", "g: d - x - y = 0", "c: d >= 1", "d: 3 d - 2 x <= 9", "e: x <= 4", "f: y <= 7",
              rest="Bounds\n d free"),
    ),
    "slacks of different rows": (
        True,
        model("2 x + 3 y + z", "c: x + y - s = 4", "d: x + 2 y + z <= 10"),
        model("2 x + 3 y + z", "c: x + y >= 4", "d: x + 2 y + z + s = 10"),
    ),
    "a constant column and a slack": (
        True,
        model("2 x + 3 y + z + 100 K", "c: x + y >= 4", "d: x + 2 y + z <= 10", rest="Bounds\n K = 1"),
        model("2 x + 3 y + z + 100", "c: x + y >= 4", "d: x + 2 y + z + s = 10"),
    ),
    "a bound that a badly scaled row implies": (
        True,
        model("x + y", "c: 0.0000007 x + 2000000 y <= 0.0000002", "d: y <= 1", "e: x <= 10"),
        model("x + y", "c: 0.0000007 x + 2000000 y <= 0.0000002", "d: y <= 1", "e: x <= 15"),
    ),
    "two copies that nothing uses": (True, model("x", "c: x + y >= 1"), model("x", "c: x + y >= 1", "d: v - w = 0")),
}  # fmt: skip


@pytest.mark.parametrize("name", DELICATE)
def test_never_wrong(name):
    equal, a, b = DELICATE[name]
    for first, second in ((a, b), (b, a)):
        verdict = compare(first, second)
        assert verdict.kind in ("unknown", "equal" if equal else "different"), text(verdict)


def test_most_delicate_pairs_are_decided():
    kinds = [compare(a, b).kind for _, a, b in DELICATE.values()]
    assert kinds.count("unknown") <= 4


def test_time_is_kept():
    """An inventory over 1,000 periods: its free stocks could be substituted one after the other for minutes."""
    rows = ["c0: I0 - p0 = -1"] + [f"c{t}: I{t} - I{t - 1} - p{t} = -{t % 7 + 1}" for t in range(1, 1000)]
    objective = " + ".join(f"p{t} + 0.1 I{t}" for t in range(1000))
    free = "Bounds\n" + "\n".join(f" I{t} free" for t in range(1000))
    verdict = compare(model(objective, *rows, rest=free), model(objective, *rows), time_s=3.0)
    assert verdict.kind in ("unknown", "different") and verdict.seconds < 30


@pytest.mark.parametrize("name", EQUAL)
def test_equal(name):
    a, b = EQUAL[name]
    for first, second in ((a, b), (b, a), (a, a), (b, b)):
        verdict = compare(first, second)
        assert verdict.kind == "equal", text(verdict)
        assert set(verdict.variables) <= set(lp.read(first).variables)
        assert set(verdict.variables.values()) <= set(lp.read(second).variables)
        assert verdict.witness is None


@pytest.mark.parametrize("name", DIFFERENT)
def test_different(name):
    for first, second in (DIFFERENT[name], DIFFERENT[name][::-1]):
        verdict = compare(first, second)
        assert verdict.kind == "different", text(verdict)
        assert verdict.witness is not None and verdict.witness.confirmed_by
        assert verdict.witness.a != verdict.witness.b


def test_the_mapping_names_variables_and_rows():
    verdict = compare(*EQUAL["renamed and reordered"])
    assert verdict.variables == {"x": "a", "y": "c", "z": "b"}
    assert set(verdict.rows) == {("c1", "s"), ("c2", "r")}
    assert verdict.largest_difference == 0 and verdict.rewritten == ()


def test_a_row_that_became_a_bound_is_told():
    verdict = compare(*EQUAL["tightest of two bounds"])
    assert ("d", "d") in verdict.rows and ("e", "d") in verdict.rows


def test_rows_are_matched_where_each_model_implies_the_other():
    """The proof lists rows with a twin too, whatever their order; b's t is tighter, and still implied by a's."""
    rows = ["w: x + 100 y <= 2000", "s: x + 2 y <= 15"]
    a = model("- x - y", *rows, "t: 2 x + 2 y >= 3", rest="Generals\n x y")
    for order in (rows, rows[::-1]):
        verdict = compare(a, model("- x - y", *order, "t: x + y >= 2", rest="Generals\n x y"))
        assert verdict.kind == "equal"
        assert set(verdict.rows) == {("w", "w"), ("s", "s"), ("t", "t"), ("implied by a", "t")}


@pytest.mark.parametrize("row", ["x + y + s = 4", "x + 2 y + s = 4"])
def test_the_slack_is_the_column_that_costs_nothing(row):
    a = model("x", f"c: {row.replace('+ s = 4', '<= 4')}", "d: x >= 1", "e: y >= 1")
    verdict = compare(a, model("x", f"c: {row}", "d: x >= 1", "e: y >= 1"))
    assert verdict.kind == "equal" and "b: s is the slack of row c" in verdict.rewritten


def test_one_line_text_as_published():
    text_ = "Minimize x Subject To c: x + y >= 1 Binary x y End"
    assert (
        compare(text_, text_.replace(" Subject", "\nSubject").replace(" Binary", "\nBinary"), mode="as-published").kind
        == "equal"
    )


def test_what_was_rewritten_is_told():
    verdict = compare(*EQUAL["surplus form"])
    assert set(verdict.rewritten) == {"b: s is the slack of row c1", "b: t is the slack of row c2"}


def test_numbers_apart_by_rounding_are_equal_and_told():
    verdict = compare(BASE, BASE.replace("<= 10", "<= 10.000000000001"))
    assert verdict.kind == "equal"
    assert verdict.largest_difference == pytest.approx(1e-13, rel=0.01)


def test_two_infeasible_models_are_unknown_unless_isomorphic():
    a, b = BASE.replace("<= 10", "<= 3"), BASE.replace("<= 10", "<= 2")
    verdict = compare(a, b)
    assert verdict.kind == "unknown" and "infeasible" in verdict.reason
    assert compare(a, a.replace("x", "u")).kind == "equal"


def test_isomorphism_alone_asks_no_solver():
    verdict = compare(*EQUAL["surplus form"], mode="isomorphism")
    assert verdict.kind == "different" and verdict.witness.confirmed_by == ()
    assert verdict.witness.invariant == "number of variables that are not fixed"
    verdict = compare(BASE, BASE.replace(">= 4", ">= 5"), mode="isomorphism")
    assert "row c1" in verdict.witness.a and "-4 " in verdict.witness.a and "-5 " in verdict.witness.b


@pytest.mark.parametrize("name", ["surplus form", "redundant row"])
def test_the_published_checker_misses(name):
    assert compare(*EQUAL[name], mode="as-published").kind == "different"


def test_records_are_json_and_texts_say_it_all():
    for a, b in (*EQUAL.values(), *DIFFERENT.values()):
        verdict = compare(a, b)
        kept = json.loads(json.dumps(record(verdict), allow_nan=False))
        assert kept["kind"] == verdict.kind
        assert text(verdict).startswith(f"{verdict.kind}: {verdict.reason}")


@pytest.mark.parametrize(
    ("arguments", "named"), [({"mode": "fuzzy"}, "'fuzzy'"), ({"time_s": 0}, "time_s = 0"), ({"time_s": -1}, "-1")]
)
def test_bad_arguments(arguments, named):
    with pytest.raises(ModelError, match=named):
        compare(BASE, BASE, **arguments)


def test_bad_text():
    with pytest.raises(lp.LPError, match="line 4, column"):
        compare(BASE, "Minimize\n x\nSubject To\n c: x >= >= 2\nEnd\n")


def test_paths(tmp_path):
    (tmp_path / "a.lp").write_text(BASE)
    lp.write(lp.read(BASE), tmp_path / "b.mps")
    assert compare(tmp_path / "a.lp", str(tmp_path / "b.mps")).kind == "equal"
