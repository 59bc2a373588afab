"""Sums of terms and what they are compared with: the objective and the rows of LP text."""

import math
from dataclasses import dataclass, field

from trex.solver.builder import Builder, add_terms
from trex.solver.formats.tokens import INFINITE, INFINITY, Token, Tokens

Pairs = dict[tuple[int, int], float]
LESS, MORE = ("<=", "=<", "<"), (">=", "=>", ">")
FLIPPED = {"<=": ">=", ">=": "<=", "=": "="}


@dataclass
class Sum:
    """Constants, linear and quadratic terms; or an infinity alone."""

    constants: list[float] = field(default_factory=list)
    linear: dict[int, float] = field(default_factory=dict)
    quadratic: Pairs = field(default_factory=dict)
    infinite: float = 0.0
    terms: int = 0

    @property
    def constant(self) -> float:
        """The sum of the constants, or the infinity."""
        return self.infinite or math.fsum(self.constants)

    @property
    def varies(self) -> bool:
        """Whether there is a variable."""
        return bool(self.linear or self.quadratic)


@dataclass(frozen=True)
class Comparison:
    """lower <= linear + quadratic <= upper."""

    linear: dict[int, float]
    quadratic: Pairs
    lower: float
    upper: float


def read_sum(tokens: Tokens, builder: Builder, part: str) -> Sum:
    """Terms joined by signs, as many as there are. `part` is objective, left or right.

    What stands right of a comparison ends with its line, so that a row without a name can follow.
    """
    total = Sum()
    while not (part == "right" and total.terms and tokens.new_line()):
        sign, signed = tokens.signs()
        if total.terms and not signed:
            break
        token = tokens.peek()
        if token.kind == "[":
            _quadratic(tokens, builder, part, sign, total.quadratic)
        elif token.kind == "number":
            value = sign * tokens.number()
            if abs(value) >= INFINITE:
                total.infinite = sign * math.inf
            if _variable_follows(tokens, part):
                if part == "right" and tokens.peek().column == token.column + len(token.text):
                    tokens.error("a coefficient right of a comparison is followed by a blank")  # `1O` is a slip
                add_terms(total.linear, [(_variable(tokens, builder, part), value)])
            else:
                total.constants.append(value)
        elif token.kind == "name" and token.text.lower() in INFINITY and not total.terms and part != "objective":
            tokens.next()
            total.infinite = sign * math.inf
            break
        elif token.kind == "name" and not tokens.is_label():
            add_terms(total.linear, [(_variable(tokens, builder, part), sign)])
        elif signed:
            tokens.expected("a term")
        else:
            break
        total.terms += 1
        if total.infinite and (total.varies or total.terms > 1 or part == "objective"):
            tokens.error(f"a number of {INFINITE:g} or more stands alone on its side", token)
    return total


def compare(tokens: Tokens) -> str:
    """A comparison as <=, >= or =."""
    text = tokens.take("compare", "+, - or a comparison").text
    return "<=" if text in LESS else ">=" if text in MORE else "="


def read_comparison(tokens: Tokens, builder: Builder) -> Comparison:
    """`sum <= sum`, `number <= sum <= number`, or either with >=; `sum = sum`. Constants end on the right."""
    left = read_sum(tokens, builder, "left")
    at = tokens.peek()
    sense = compare(tokens)
    middle = _side(tokens, builder)
    if tokens.peek().kind != "compare":
        _ends(tokens, middle)
        return _single(tokens, at, left, sense, middle)
    second = tokens.peek()
    if compare(tokens) != sense or sense == "=" or left.varies:
        tokens.error("of two comparisons in one row both are <= or both >=, and the outer sides are numbers", second)
    right = _side(tokens, builder)
    _ends(tokens, right)
    if right.varies or middle.infinite or (not left.infinite and not left.constants):
        tokens.error("of two comparisons in one row the outer sides are numbers and the middle is a sum", second)
    shift = middle.constant
    low, high = (left.constant, right.constant) if sense == "<=" else (right.constant, left.constant)
    lower, upper = lower_side(tokens, at, low - shift), upper_side(tokens, at, high - shift)
    return Comparison(middle.linear, middle.quadratic, lower, upper)


def lower_side(tokens: Tokens, at: Token, value: float) -> float:
    """A lower side or bound, -inf where it is none. Raises LPError at `at` for plus infinity."""
    if value >= INFINITE:
        tokens.error(f"a lower side of {value}; accepted: below {INFINITE:g}", at)
    return value if value > -INFINITE else -math.inf


def upper_side(tokens: Tokens, at: Token, value: float) -> float:
    """An upper side or bound, inf where it is none. Raises LPError at `at` for minus infinity."""
    if value <= -INFINITE:
        tokens.error(f"an upper side of {value}; accepted: above {-INFINITE:g}", at)
    return value if value < INFINITE else math.inf


def _single(tokens: Tokens, at: Token, left: Sum, sense: str, right: Sum) -> Comparison:
    if right.varies and not left.varies:
        left, right, sense = right, left, FLIPPED[sense]
    if left.infinite:
        tokens.error("an infinite side is accepted beside a sum", at)
    add_terms(left.linear, [(j, -c) for j, c in right.linear.items()])
    for pair, c in right.quadratic.items():
        left.quadratic[pair] = left.quadratic.get(pair, 0.0) - c
    side = right.infinite or math.fsum([*right.constants, *(-c for c in left.constants)])
    lower = lower_side(tokens, at, side) if sense != "<=" else -math.inf
    upper = upper_side(tokens, at, side) if sense != ">=" else math.inf
    if sense == "=" and not (math.isfinite(lower) and math.isfinite(upper)):
        tokens.error(f"a row equal to {side}; accepted: a number within {INFINITE:g}", at)
    return Comparison(left.linear, left.quadratic, lower, upper)


def _side(tokens: Tokens, builder: Builder) -> Sum:
    side = read_sum(tokens, builder, "right")
    if not side.terms and not side.infinite:
        tokens.expected("a number")
    return side


def _ends(tokens: Tokens, side: Sum) -> None:
    """Raise LPError where it is not clear that a row ends here."""
    token = tokens.peek()
    if side.varies and token.kind in ("+", "-"):
        tokens.error("a side with variables ends with its line: it is not clear to which row this belongs")
    if not tokens.new_line() and not tokens.is_label() and token.kind not in ("section", "end of text"):
        tokens.expected("the end of the row: a new line or a name and a colon")


def _variable_follows(tokens: Tokens, part: str) -> bool:
    """Whether the number just read is the coefficient of a variable."""
    return tokens.peek().kind == "name" and not tokens.is_label() and not (part == "right" and tokens.new_line())


def _variable(tokens: Tokens, builder: Builder, part: str) -> int:
    at = tokens.peek()
    name = tokens.variable()
    if tokens.peek().kind in ("^", "*"):
        tokens.error("a quadratic term outside of [ ]")
    if part == "right" and name.lower() == "free":
        tokens.error(f"{name!r} right of a comparison; bounds begin with a new line", at)
    return builder.variable(name)


def _quadratic(tokens: Tokens, builder: Builder, part: str, sign: float, into: Pairs) -> None:
    """`[ 2 x ^2 - x * y ]`; in the objective `/ 2` may follow, which halves it."""
    tokens.next()
    found: Pairs = {}
    while tokens.peek().kind != "]":
        factor, signed = tokens.signs()
        if found and not signed:
            tokens.expected("+, - or ]")
        if tokens.peek().kind == "number":
            factor *= tokens.finite()
        i = builder.variable(tokens.variable())
        j = i
        if tokens.peek().kind == "^":
            tokens.next()
            at = tokens.peek()
            if tokens.number("2") != 2:
                tokens.error(f"the power {at.text}; accepted: 2", at)
        else:
            tokens.take("*", "^ or *")
            j = builder.variable(tokens.variable())
        pair = (min(i, j), max(i, j))
        found[pair] = found.get(pair, 0.0) + factor
    tokens.next()
    half = _halved(tokens)
    if half and part != "objective":
        tokens.error("`/ 2` after the quadratic terms of a row; accepted in the objective", half)
    for pair, c in found.items():
        into[pair] = into.get(pair, 0.0) + sign * (c / 2 if half else c)


def _halved(tokens: Tokens) -> Token | None:
    slash = tokens.peek()
    if slash.kind != "name" or not slash.text.startswith("/"):
        return None
    tokens.next()
    divisor = slash.text[1:] or str(tokens.number("2"))
    if divisor not in ("2", "2.0"):
        tokens.error(f"quadratic terms divided by {divisor}; accepted: 2", slash)
    return slash
