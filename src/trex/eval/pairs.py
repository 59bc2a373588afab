"""Pairs of small models whose right verdict is plain, one for each way in which the published checker errs."""

from dataclasses import dataclass

BASE = """Minimize
 obj: 2 x + 3 y + z
Subject To
 c1: x + y >= 4
 c2: x + 2 y + z <= 10
End
"""


@dataclass(frozen=True)
class Pair:
    """Two LP texts, and whether they are the same model."""

    name: str
    a: str
    b: str
    equal: bool
    why: str


def _lp(objective: str, *rows: str, sense: str = "Minimize", rest: str = "") -> str:
    """LP text of an objective, rows and further sections."""
    return "\n".join(
        [sense, f" obj: {objective}", "Subject To", *(f" {row}" for row in rows), *rest.split("\n"), "End", ""]
    )


_BLOCKS = "2 x1 + 2 x2 + 2 x3 + 3 y1 + 3 y2 + 3 y3"


def _blocks(kinds: str) -> str:
    """Three independent blocks of two variables, each of kind A or B."""
    rows = {"A": "x{k} + y{k} >= 1", "B": "x{k} + 2 y{k} >= 8"}
    return _lp(_BLOCKS, *(f"{kind}{k}: {rows[kind].format(k=k)}" for k, kind in enumerate(kinds, start=1)))


PAIRS = (
    Pair("rewritten", BASE, _lp("- b - 3 c - 2 a", "r: 3 b + 3 a + 6 c <= 30", "s: - c - a <= -4", sense="Maximize"),
         True, "other names and order, a row scaled, a row turned, minimum as maximum"),
    Pair("sense", BASE, BASE.replace("Minimize", "Maximize"), False, "minimum and maximum of one objective"),
    Pair("turned bound", _lp("x + y", "c: x + y <= 9", "d: x >= 3"), _lp("x + y", "c: x + y <= 9", "d: - x <= -3"),
         True, "-x <= -3 is x >= 3"),
    Pair("bound twice", _lp("- 2 x - y", "c: x + y <= 30", "d: x <= 10", rest="Bounds\n x <= 5"),
         _lp("- 2 x - y", "c: x + y <= 30", "d: x <= 10"), False, "the tighter of two bounds counts"),
    Pair("how often", _blocks("AAB"), _blocks("ABB"), False, "the same blocks, but not as often"),
    Pair("constant", _lp("x + y + 100", "c: x + y >= 4"), _lp("x + y", "c: x + y >= 4"), False, "100 more"),
    Pair("indicator", _lp("- x - 2 y + b", "c: x + y <= 5", "i: b = 0 -> y <= 1", rest="Bounds\n x <= 9\nBinaries\n b"),
         _lp("- x - 2 y + b", "c: x + y <= 5", rest="Bounds\n x <= 9\nBinaries\n b"), False, "a constraint less"),
    Pair("small coefficient", _lp("- x - y", "c: 0.0000001 x + y <= 1", rest="Bounds\n x <= 5000000"),
         _lp("- x - y", "c: 0.0000004 x + y <= 1", rest="Bounds\n x <= 5000000"), False, "1e-7 is not 4e-7"),
    Pair("scaled row", BASE, BASE.replace("c1: x + y >= 4", "c1: 2 x + 2 y >= 8"), True, "both sides doubled"),
    Pair("binary", _lp("- x - y", "c: x + 2 y <= 2", rest="Binaries\n x y"),
         _lp("- x - y", "c: x + 2 y <= 2", rest="Bounds\n x <= 1\n y <= 1\nGenerals\n x y"), True,
         "binary is integer from 0 to 1"),
    Pair("redundant row", BASE, BASE.replace("End", " c3: 2 x + 3 y + z >= 4\nEnd"), True, "c1 implies the third row"),
    Pair("slack", BASE, _lp("2 x + 3 y + z", "c1: x + y - s = 4", "c2: x + 2 y + z <= 10"), True,
         "an inequality with its slack"),
    Pair("symmetric", _lp("a + b + c + d", "r1: a + b = 1", "r2: c + d = 1", "k1: a + c = 1", "k2: b + d = 1"),
         _lp("a + b + c + d", "r1: a + b = 1", "r2: c + d = 1", "k1: a + c = 1", "k2: b + d = 1"), True,
         "an assignment problem and itself"),
)  # fmt: skip
