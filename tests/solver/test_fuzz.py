"""Texts broken at random: each is read as a Model or refused by LPError, and where HiGHS reads it too they agree."""

import random
import time

import pytest
from tests.solver.comparing import highs_reads, meaning

from trex.solver import lp
from trex.solver.formats.lp_reader import read_lp
from trex.solver.formats.tokens import SECTION
from trex.solver.model import Model

SECONDS = 10.0  # a generous bound for a text of a few hundred characters
LP = (
    """Minimize
 obj: x[0] + 2 y - 3.5 z + 7 + [ 2 x[0] ^2 - 4 x[0] * y ] / 2
Subject To
 c1: x[0] + y >= 2
 c2: 2 x[0] - y + z <= 8
 c3: x[0] = 1
Bounds
 -5 <= y <= 7
 z free
 x[0] <= 9
Generals
 y
Binaries
 b
End
""",
    """\\ a comment
max
 3 x + 2y -4z
st
 x + y + z <= 10
 r: x - y >= -2.5e1
 x = 4
bound
 x >= -inf
 1 <= y
semi-continuous
 w
bounds
 w <= 1e2
end
""",
    """Maximize
 obj: a + b + 5 Constant
Subject To
 q: a + [ a ^2 + 2 a * b ] <= 9
 i: k = 1 -> a + b <= 3
 d: 2 <= a + b <= 8
Lazy Constraints
 l: a <= 5
Bounds
 Constant = 1
Binaries
 k
SOS
 s1: S1 :: a : 1 b : 2
 s2: S2:: a:1 b:2 k:3
General Constraints
 g: m = MAX ( a , b , 3 )
 h: k = AND ( k )
End
""",
)
MPS = """NAME model
OBJSENSE
    MAX
ROWS
 N  obj
 L  c1
 G  c2
 E  c3
COLUMNS
    MARKER  'MARKER'  'INTORG'
    x  obj  1  c1  1
    x  c2  -2
    MARKER  'MARKER'  'INTEND'
    y  obj  2  c1  1
    y  c3  1.5
RHS
    RHS  obj  -3  c1  4
    RHS  c3  1
RANGES
    RNG  c1  2.5
BOUNDS
 UP BND  x  9
 MI BND  y
QUADOBJ
    x  x  2
    x  y  1
QCMATRIX c1
    x  x  1
SOS
 S1 s
    x  1
    y  2
ENDATA
"""
WORDS = [
    *("+", "-", "*", "^", "/", "[", "]", "<=", ">=", "=", "<", ">", "->", ":", "::", "(", ")", ",", "2", "0", "1e400"),
    *("1e-400", "1e30", "-inf", "inf", "nan", "x", "y", "x[0]", "2x", "e5", "free", "st", "End", "1_0", "é"),
    *("\n", "\n\n", "3 x", "Bounds\n", "Generals\n", "Binaries\n", "SOS\n", "Subject To\n", "Minimize\n", "\\", "\0"),
    *("9" * 50, "x ^2", "[ x ^2 ]", "[ x * y ] / 2", "MAX ( x , y )", "S1 ::", "c9:", "[" * 40, "- " * 9, "\t", "\r\n"),
]


def broken(draw: random.Random, text: str) -> str:
    """The text after one to four changes: words or characters added, removed, repeated or exchanged."""
    for _ in range(draw.randint(1, 4)):
        parts = text.split(" ") if draw.random() < 0.7 else list(text)
        glue = " " if " " not in parts else ""
        place, other = draw.randrange(len(parts)), draw.randrange(len(parts))
        action = draw.randrange(5)
        if action == 0:
            parts.insert(place, draw.choice(WORDS))
        elif action == 1:
            del parts[place]
        elif action == 2:
            parts[place] = draw.choice(WORDS)
        elif action == 3:
            parts[place], parts[other] = parts[other], parts[place]
        else:
            low, high = sorted((place, other))
            parts[low:low] = parts[low:high][:30]
        text = glue.join(parts) or "\n"
    return text if "\n" in text else text + "\n"


def read(text: str) -> Model | None:
    """The model, None where it is refused; anything else fails the test."""
    begun = time.monotonic()
    try:
        return lp.read(text)
    except lp.LPError as error:
        assert error.line is None or 1 <= error.line <= text.count("\n") + text.count("\r") + 1
        return None
    finally:
        assert time.monotonic() - begun < SECONDS, text


def agrees(text: str) -> bool:
    """Whether HiGHS reads the text too; then the models mean the same."""
    theirs = highs_reads(text)
    if theirs is None:
        return False
    ours, theirs = meaning(read_lp(text, "text")), meaning(theirs)  # without folding the constant's column
    if any(SECTION.fullmatch(name) for name in theirs["variables"]):
        return False  # within a line HiGHS takes a section's word for a variable, Gurobi and we do not
    for name, (kind, cost, lower, upper) in ours["variables"].items():
        their_kind, their_cost, their_lower, their_upper = theirs["variables"][name]
        if kind == "integer" and lower >= 0 and upper <= 1:
            # HiGHS keeps bounds of binary variables beyond 0 and 1.
            their_lower, their_upper = max(their_lower, 0), min(their_upper, 1)
        theirs["variables"][name] = their_kind, their_cost, their_lower, their_upper
        assert theirs["variables"][name] == (kind, cost, lower, upper), text
    assert ours == theirs, text
    return True


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 3000), *(pytest.param(seed, 10_000, marks=pytest.mark.slow) for seed in range(1, 11))]
)
def test_broken_lp_text(seed, count):
    draw = random.Random(seed)
    outcomes = {"read": 0, "refused": 0, "agreed": 0}
    for _ in range(count):
        text = broken(draw, draw.choice(LP))
        if read(text) is None:
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        outcomes["agreed"] += agrees(text)
    assert outcomes["refused"] > count / 10 and outcomes["agreed"] > count / 50, outcomes


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 2000), *(pytest.param(seed, 10_000, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_broken_mps_text(seed, count):
    draw = random.Random(seed)
    outcomes = [read(broken(draw, MPS)) is not None for _ in range(count)]
    assert count / 100 < sum(outcomes) < count * 0.9


@pytest.mark.parametrize(
    "text",
    [
        "min\n " + "[" * 100_000 + "\nend\n",
        "min\n x" + "[" * 100_000 + "\nend\n",
        "min\n " + "x[a" * 50_000 + "\nend\n",
        "min\n " + "- " * 200_000 + "x\nend\n",
        "min\n x" + "\n+ x" * 50_000 + "\nend\n",
        "min\n " + "9" * 1_000_000 + " x\nend\n",
        "min\n x\nst\n" + "c: x >= 1\n" * 20_000 + "end\n",
        "min\n x\nst\n" + "x >= 1\n" * 20_000 + "end\n",
        "min\n x\nst\nend" + " " * 1_000_000 + "\n",
        "min\n x\nst" + " c: x >= 1" * 20_000 + " end\n",
        "min\n x" + " general" * 20_000 + " end\n",
        "min\n x general" + " " * 1_000_000 + ": x end\n",
        "min x" + " scenario" * 20_000 + " end",
        "min x subject" + " " * 1_000_000 + "x end",
        "min\n x\nsos\n" + "s: S1 :: x:1\n" * 20_000 + "end\n",
        "min\n x\nbounds\n" + " 9e999999999 <= x\n" + "end\n",
        "NAME\nROWS\n N o\n L c\nCOLUMNS\n x c 1\nRHS\n R c 0e999999999\nRANGES\n R c 1\nENDATA\n",
        "NAME\nROWS\n N o\n" + "".join(f" L c{k}\n" for k in range(30_000)) + "COLUMNS\n x o 1\nENDATA\n",
    ],
)
def test_texts_made_to_take_long(text):
    read(text)
