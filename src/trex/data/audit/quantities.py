"""Numbers of a text as they are written: digits, percentages, fractions, words, and how far rounding may have gone."""

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"  # noqa: E501
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
WORDS: dict[str, float] = {
    **{word: float(k) for k, word in enumerate(ONES.split())},
    **{word: 10.0 * k for k, word in enumerate(TENS.split(), start=2)},
}
FRACTIONS = {
    "half": 2,
    "third": 3,
    "thirds": 3,
    "quarter": 4,
    "quarters": 4,
    "fourth": 4,
    "fourths": 4,
    "fifth": 5,
    "fifths": 5,
}
MULTIPLES = {"twice": 2.0, "double": 2.0, "thrice": 3.0, "triple": 3.0, "dozen": 12.0, "dozens": 12.0, "score": 20.0}
DIGITS = re.compile(
    r"(?<![\w.])(?P<number>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"(?:(?P<percent>\s?(?:%|percent\b|per cent\b))|\s(?P<scale>thousand|million|billion)\b"
    r"|/(?P<below>\d+(?:\.\d+)?)\b)?",
    re.IGNORECASE,
)
WORD = re.compile(r"[a-z]+|[^a-z\s-]")  # a mark such as a comma ends a number
# numbers that count the parts of a text
COUNTED = re.compile(
    r"^[ \t]*(?:[-*#>]+[ \t]*)?\(?\d+[.):](?=\s)|\((?:\d+|[ivx]+)\)|"
    r"\b(?:table|section|step|constraint|equation|eq\.|figure|part|note)s?[ \t]+\d+\b:?",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True)
class Quantity:
    """A number as written, what it is worth, and half a unit of its last digit."""

    written: str
    value: float
    half: float
    percent: bool = False

    def fits(self, value: float, relative: float = 1e-6) -> bool:
        """Whether it is the value, or the value rounded to the digits that are written."""
        near = max(self.half * (1 + 1e-9), relative * abs(value), 1e-9)
        return abs(self.value - value) <= near


def written(text: str) -> Quantity:
    """The quantity of a number that stands alone, such as a label. Raises ValueError for what is no number."""
    value = float(text.replace(",", ""))
    return Quantity(text, value, _half(text.replace(",", "")))


def digits(text: str) -> Iterator[Quantity]:
    """The numbers of a text that are written in digits, in order; a fraction such as 2/3 is one."""
    for found in DIGITS.finditer(text):
        number = found["number"].replace(",", "")
        value, half = float(number), _half(number)
        if not math.isfinite(value):
            continue
        if found["scale"]:
            value, half = value * SCALES[found["scale"].lower()], half * SCALES[found["scale"].lower()]
        elif found["below"] and float(found["below"]):
            value, half = value / float(found["below"]), 0.0
        yield Quantity(found[0], value, half, bool(found["percent"]))


def prose(text: str) -> str:
    """The text without the numbers that only count its parts: `1.`, `(2)`, `Table 3`."""
    return COUNTED.sub(" ", text)


def words(text: str) -> set[float]:
    """The numbers of a text that are written in words: counts, fractions with their parts, twice, a dozen."""
    found: set[float] = set()
    total = current = 0.0  # of the number that is being read: its thousands, and what is below them
    before = ""
    for word in [*WORD.findall(text.lower()), ""]:
        if word in WORDS:
            current += WORDS[word]
            found.add(WORDS[word])
        elif word == "hundred":
            current = 100.0 * (current or 1.0)
        elif word in SCALES and (total or current):
            total, current = total + current * SCALES[word], 0.0
        elif word == "and" and (before == "hundred" or before in SCALES):
            pass  # three hundred and five
        else:
            count = total + current
            if word in FRACTIONS:
                found |= {(count or 1.0) / FRACTIONS[word], float(FRACTIONS[word])}
            if word in MULTIPLES:
                found.add((count or 1.0) * MULTIPLES[word])
            if count:
                found.add(count)
            total = current = 0.0
        before = word
    return found


def power_of_ten(value: float) -> bool:
    """1000, 1e-6 and the like: bounds that stand for infinity, and tolerances."""
    return bool(re.fullmatch(r"1(?:e[+-]\d+)?", f"{abs(value):.12e}".replace(".000000000000", "")))


def _half(number: str) -> float:
    """Half a unit of the last digit of a number in digits."""
    mantissa, _, power = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** (int(power or 0) - decimals) if abs(int(power or 0)) < 300 else 0.0


@dataclass(frozen=True)
class CodeNumbers:
    """The numbers of a program: those it computes with, and all that stand anywhere in it, names and texts included."""

    used: frozenset[float]
    anywhere: frozenset[float]


TECHNICAL = frozenset(
    {"range", "round", "enumerate", "setParam", "linspace", "arange", "exit", "center", "ljust", "rjust"}
)
SETTINGS = frozenset({"Params", "options", "params"})


def of_code(tree: ast.Module) -> CodeNumbers:
    """The numbers of a program; indices, loop ends, rounding, solver settings and formats are none it computes with."""
    used: set[float] = set()
    anywhere: set[float] = set()

    def visit(node: ast.AST, counts: bool) -> None:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, int | float) and not isinstance(node.value, bool):
                value = _float(node.value)
                anywhere.add(value)
                if counts:
                    used.add(value)
            elif isinstance(node.value, str):
                found = [float(text) for text in re.findall(r"\d+(?:\.\d+)?", node.value[:100_000])]
                anywhere.update(found)
            return
        if isinstance(node, ast.Name | ast.Attribute | ast.arg):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else node.arg
            anywhere.update(float(text) for text in re.findall(r"\d{1,15}", name))
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            anywhere.add(float(len(node.elts)))
        if isinstance(node, ast.Dict):
            anywhere.add(float(len(node.keys)))
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            counts = counts and called not in TECHNICAL
        if isinstance(node, ast.Assign) and any(_setting(target) for target in node.targets):
            counts = False
        if isinstance(node, ast.JoinedStr):
            counts = False
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child, counts and not (isinstance(node, ast.Subscript) and name == "slice"))

    try:
        visit(tree, True)
    except RecursionError:
        return CodeNumbers(frozenset(), frozenset())
    return CodeNumbers(frozenset(used), frozenset(anywhere))


def _setting(target: ast.AST) -> bool:
    while isinstance(target, ast.Attribute | ast.Subscript):
        if isinstance(target, ast.Attribute) and target.attr in SETTINGS:
            return True
        target = target.value
    return False


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
