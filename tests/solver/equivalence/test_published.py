"""The published checker's verdicts: one small pair per flaw, as observed with Gurobi, and the shared cases."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import trex.paths
from trex.solver import lp
from trex.solver.builder import Builder, Column, Row
from trex.solver.equivalence.published import declared_binaries, published_verdict
from trex.solver.model import SOS, Function, Indicator, Model

SHARED = Path(trex.paths.CHECKOUT).parent / "shared"
CASES = SHARED / "cases" / "or" / "equivalence_checker.json"
ORGEVAL, FEASIBLE = (SHARED / "benchmarks" / name / "lp" for name in ("b4o_orgeval", "b4o_feasible"))

NUMBER, SETS, UNDECIDABLE = "number of ", "the sets of colours differ", "equal sets of colours, but not decidable"
UNIQUE, PIECES = "equal sets of colours; all colours are unique", "equal sets of colours; components"


def lp_text(objective: str, *rows: str, bounds: str = "", binaries: str = "", generals: str = "") -> str:
    """A minimisation unless the objective starts with `Maximize`."""
    sense, _, terms = objective.rpartition(":")
    sections = (("Bounds", bounds), ("Binaries", binaries), ("Generals", generals))
    tail = "".join(f"{heading}\n {body}\n" for heading, body in sections if body)
    numbered = "".join(f" r{number}: {row}\n" for number, row in enumerate(rows))
    return f"{sense or 'Minimize'}\n obj:{terms}\nSubject To\n{numbered}{tail}End\n"


def verdict(a: str, b: str) -> tuple[bool, str]:
    return published_verdict(lp.read(a), lp.read(b), (declared_binaries(a), declared_binaries(b)))


PLAIN = ("x + 2 y", "x + y >= 4", "x + 3 y <= 10")
A, B = ("{0}1 + {0}2 <= 3", "{0}1 - {0}2 >= -1"), ("{0}1 + {0}2 <= 5", "{0}1 - {0}2 >= -1")  # kinds of blocks


def blocks(*kinds: tuple[str, ...]) -> str:
    """Blocks without a common row: x and y of each with the same costs, but different rows."""
    names = "abcdef"[: len(kinds)]
    rows = [row.format(name) for name, kind in zip(names, kinds, strict=True) for row in kind]
    return lp_text("Maximize: " + " + ".join(f"{name}1 + 2 {name}2" for name in names), *rows)


PAIRS = {
    "itself": (lp_text(*PLAIN), lp_text(*PLAIN), True, UNIQUE),
    "names and order": (lp_text(*PLAIN), lp_text("2 b + a", "3 b + a <= 10", "b + a >= 4"), True, UNIQUE),
    "other coefficient": (lp_text(*PLAIN), lp_text("x + 2 y", "x + y >= 4", "x + 2 y <= 10"), False, SETS),
    "other right side": (lp_text(*PLAIN), lp_text("x + 2 y", "x + y >= 5", "x + 3 y <= 10"), False, SETS),
    "1 sense of the objective": (lp_text(*PLAIN), lp_text("Maximize: x + 2 y", *PLAIN[1:]), True, UNIQUE),
    "2 negative singleton": (
        lp_text("x + 2 y", "x + y <= 9", "x >= 3"),
        lp_text("x + 2 y", "x + y <= 9", "- x <= -3"),
        False,
        SETS,
    ),
    "2 negative singleton on the wrong side": (
        lp_text("x + 2 y", "x + y <= 9", "x <= 3"),
        lp_text("x + 2 y", "x + y <= 9", "- x <= -3"),
        True,
        UNIQUE,
    ),
    "3 tighter bound is lost": (
        lp_text("x + 2 y", "x + y <= 9", "x <= 7", bounds="x <= 2"),
        lp_text("x + 2 y", "x + y <= 9", bounds="x <= 7"),
        True,
        UNIQUE,
    ),
    "3 but of two rows the tighter one counts": (
        lp_text("x + 2 y", "x + y <= 9", "x <= 7", "x <= 2"),
        lp_text("x + 2 y", "x + y <= 9", bounds="x <= 7"),
        False,
        SETS,
    ),
    "4 counts of colours": (blocks(A, A, B), blocks(A, B, B), True, PIECES),
    "4 one kind is missing": (blocks(A, A, B), blocks(A, A, A), False, SETS),
    "6 small coefficients": (
        lp_text("x + 2 y", "0.0000001 x + y <= 1", "x + y >= 0.5"),
        lp_text("x + 2 y", "0.0000004 x + y <= 1", "x + y >= 0.5"),
        True,
        UNIQUE,
    ),
    "6 large coefficients": (
        lp_text("x + 2 y", "16777216 x + y >= 1", "x + y >= 0.5"),
        lp_text("x + 2 y", "16777217 x + y >= 1", "x + y >= 0.5"),
        True,
        UNIQUE,
    ),
    "6 large coefficients that float32 tells apart": (
        lp_text("x + 2 y", "16777216 x + y >= 1", "x + y >= 0.5"),
        lp_text("x + 2 y", "16777218 x + y >= 1", "x + y >= 0.5"),
        False,
        SETS,
    ),
    "6 the sign of zero": (
        lp_text("x + 2 y", "x + y >= 1", "- x >= 0", bounds="x free"),
        lp_text("x + 2 y", "x + y >= 1", "x >= 0", bounds="x free"),
        False,
        SETS,
    ),
    "7 scaled row": (lp_text(*PLAIN), lp_text("x + 2 y", "2 x + 2 y >= 8", "x + 3 y <= 10"), False, SETS),
    "7 negated row": (lp_text(*PLAIN), lp_text("x + 2 y", "- x - y <= -4", "x + 3 y <= 10"), False, SETS),
    "7 negated inequality with right side 0": (
        lp_text("x + 2 y", "x - 2 y >= 0", "x + y >= 1"),
        lp_text("x + 2 y", "2 y - x <= 0", "x + y >= 1"),
        True,
        UNIQUE,
    ),
    "7 negated equality": (
        lp_text("x + 2 y", "x + 3 y = 6", "x + y >= 1"),
        lp_text("x + 2 y", "- x - 3 y = -6", "x + y >= 1"),
        False,
        SETS,
    ),
    "7 negated equality with right side 0": (
        lp_text("x + 2 y", "x - 3 y = 0", "x + y >= 1"),
        lp_text("x + 2 y", "3 y - x = 0", "x + y >= 1"),
        True,
        UNIQUE,
    ),
    "7 negated equality with right side 0 and sum 0": (
        lp_text("x + 2 y", "x - y = 0", "x + y >= 1"),
        lp_text("x + 2 y", "y - x = 0", "x + y >= 1"),
        False,
        SETS,
    ),
    "7 binary and integer": (
        lp_text("x + 2 y", "x + y >= 1", binaries="x"),
        lp_text("x + 2 y", "x + y >= 1", bounds="x <= 1", generals="x"),
        False,
        SETS,
    ),
    "7 minus the objective": (lp_text(*PLAIN), lp_text("Maximize: - x - 2 y", *PLAIN[1:]), False, SETS),
    "7 redundant row": (lp_text(*PLAIN), lp_text(*PLAIN, "x + y >= 3"), False, NUMBER + "rows: 2 and 3"),
    "7 slack": (
        lp_text(*PLAIN),
        lp_text("x + 2 y", "x + y >= 4", "x + 3 y + s = 10"),
        False,
        NUMBER + "variables: 2 and 3",
    ),
    "8 assignment against itself": (
        *[lp_text("a + b + c + d", "a + b = 1", "c + d = 1", "a + c = 1", "b + d = 1")] * 2,
        False,
        UNDECIDABLE,
    ),
    "8 two equal variables in one row": (*[lp_text("x + y + z", "x + y - z >= 1")] * 2, True, PIECES),
    "8 two equal variables in two rows": (
        *[lp_text("x + y", "x + y >= 1", "x + y >= 1")] * 2,
        False,
        UNDECIDABLE,
    ),
    "bounds of integers are rounded": (
        lp_text("x + 2 y", "x + y >= 1", bounds="0.3 <= x <= 3.6", generals="x"),
        lp_text("x + 2 y", "x + y >= 1", bounds="1 <= x <= 3", generals="x"),
        True,
        UNIQUE,
    ),
    "coefficient 0 is no entry": (
        lp_text("x + 2 y", "x + y >= 1", "x + 0 y >= 3"),
        lp_text("x + 2 y", "x + y >= 1", bounds="x >= 3"),
        True,
        UNIQUE,
    ),
}


@pytest.mark.parametrize(("a", "b", "equal", "step"), PAIRS.values(), ids=PAIRS)
def test_pair(a, b, equal, step):
    for first, second in ((a, b), (b, a)):
        found, reason = verdict(first, second)
        assert found is equal
        assert reason.startswith(step) or (step.startswith(NUMBER) and first == b)


def built() -> Builder:
    """max x + 2 y - b: x + y <= 5, x - 2 y - b >= 0, b binary, x at most 9."""
    builder = Builder(sense="max")
    columns = {"x": Column(1.0, upper=9.0), "y": Column(2.0), "b": Column(-1.0, 0.0, 1.0, "integer")}
    for name, column in columns.items():
        builder.variable(name)
        builder.columns[name] = column
    builder.rows += [Row("r0", {0: 1.0, 1: 1.0}, -np.inf, 5.0), Row("r1", {0: 1.0, 1: -2.0, 2: -1.0}, 0.0, np.inf)]
    return builder


def with_part(part: str) -> Model:
    builder = built()
    if part == "quadratic objective":
        builder.quadratic[0, 1] = 3.0
    elif part == "quadratic row":
        builder.rows.append(Row("q", {0: 1.0}, -np.inf, 4.0, {(0, 0): 1.0}))
    elif part == "special ordered set":
        builder.sos.append(SOS("s", 1, (0, 1), (1.0, 2.0)))
    elif part == "indicator":
        builder.indicators.append(Indicator("i", 2, 0, ((1, 1.0),), -np.inf, 1.0))
    elif part == "general constraint":
        builder.functions.append(Function("f", "abs", 0, (1,)))
    elif part == "semi-continuous variable":
        builder.columns["x"].kind = "semi-continuous"
    else:
        builder.offset = 100.0
    return builder.model()


PARTS = ("quadratic objective", "quadratic row", "special ordered set", "indicator", "general constraint")


@pytest.mark.parametrize("part", [*PARTS, "semi-continuous variable", "constant"])
def test_flaw_5_what_is_beyond_linear_is_dropped(part):
    assert published_verdict(built().model(), with_part(part)) == (True, UNIQUE)


def test_row_with_two_sides_is_an_equality_with_a_slack_variable():
    """As Gurobi reads it: x + y - s = 2 with s in [0, 3]."""
    ranged, slack = built(), built()
    ranged.rows[0] = Row("r0", {0: 1.0, 1: 1.0}, 2.0, 5.0)
    slack.variable("s")
    slack.columns["s"].upper = 3.0
    slack.rows[0] = Row("r0", {0: 1.0, 1: 1.0, 3: -1.0}, 2.0, 2.0)
    assert published_verdict(ranged.model(), slack.model()) == (True, UNIQUE)


def test_without_declarations_an_integer_within_0_and_1_is_binary():
    binary = lp_text("x + 2 y", "x + y >= 1", binaries="x")
    integer = lp_text("x + 2 y", "x + y >= 1", bounds="x <= 1", generals="x")
    wider = lp_text("x + 2 y", "x + y >= 1", "x <= 1", bounds="x <= 2", generals="x")
    assert published_verdict(lp.read(binary), lp.read(integer))[0]
    assert not published_verdict(lp.read(binary), lp.read(wider))[0]


def test_declared_binaries():
    head = "Minimize\n obj: x\nSubject To\n r: x + end >= 1\n"
    text = head + "BINARY\n x y[0,1] \\ not z\n\n u\nGenerals\n w\nbin v\nEnd\n q\n"
    assert declared_binaries(text) == {"x", "y[0,1]", "u", "v"}
    assert declared_binaries("NAME\nBOUNDS\n BV BND x\n UP BND y 1\n BV BND z 1\nENDATA\n") == {"x", "z"}


def test_empty_and_extreme_models_get_a_verdict():
    empty = Builder().model()
    assert published_verdict(empty, empty) == (False, "no variables and no rows: the evaluator fails")
    assert published_verdict(empty, built().model())[0] is False
    wild = built()
    wild.columns["x"] = Column(1e300, -np.inf, np.inf)
    wild.columns["b"] = Column(-1e300, -1e308, 1e308, "integer")
    wild.rows += [Row("w", {0: 1e-300, 1: 1e308}, -1e308, 1e308), Row("free", {}, -np.inf, np.inf)]
    wild.rows += [Row("single", {0: 1e-11}, -np.inf, 1e308), Row("none", {1: 2.0}, np.inf, np.inf)]
    assert published_verdict(wild.model(), wild.model()) == (True, UNIQUE)


def permuted(model: Model, seed: int) -> Model:
    """The same model with variables and rows in another order and under other names."""
    rng = np.random.default_rng(seed)
    columns, rows = rng.permutation(len(model.variables)), rng.permutation(len(model.rows))
    place = np.argsort(columns)
    entries = [[(int(place[j]), c) for j, c in model.row(r)] for r in rows]
    return replace(
        model,
        variables=tuple(f"v{j}" for j in range(len(columns))),
        kinds=tuple(model.kinds[j] for j in columns),
        **{name: getattr(model, name)[columns] for name in ("cost", "lower", "upper")},
        rows=tuple(f"r{r}" for r in range(len(rows))),
        **{name: getattr(model, name)[rows] for name in ("row_lower", "row_upper")},
        start=np.cumsum([0, *map(len, entries)]).astype(np.int64),
        index=np.array([j for row in entries for j, _ in row], dtype=np.int64),
        value=np.array([c for row in entries for _, c in row]),
    )


# what the published code says of a reference LP against itself, in a run with Gurobi
SELF = [(ORGEVAL, 360, False), (ORGEVAL, 361, False), (ORGEVAL, 0, True), (ORGEVAL, 101, True), (FEASIBLE, 140, False)]


@pytest.mark.parametrize(("folder", "number", "equal"), SELF)
def test_reference_lp_against_itself(folder, number, equal):
    path = folder / f"{number}.lp"
    if not path.is_file():
        pytest.skip("shared benchmarks are not here")
    model = lp.read(path)
    assert published_verdict(model, model)[0] is equal
    assert published_verdict(model, permuted(model, number))[0] is equal
    changed = model.value.copy()
    changed[len(changed) // 2] *= 1.01
    assert published_verdict(model, replace(model, value=changed))[0] is False


def shared_cases() -> list:
    if not CASES.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason="shared cases are not here"))]
    return [pytest.param(case, id=case["id"]) for case in json.loads(CASES.read_text())["cases"]]


@pytest.mark.parametrize("case", shared_cases())
def test_shared_case(case):
    assert verdict(case["lp_a"], case["lp_b"])[0] is case["bench4opt_says"]
