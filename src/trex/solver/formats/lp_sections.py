"""The sections of LP text after the rows: bounds, kinds of variables, sets and general constraints."""

import math

from trex.solver.builder import Builder
from trex.solver.formats.lp_rows import FLIPPED, compare, lower_side, upper_side
from trex.solver.formats.tokens import INFINITE, INFINITY, Token, Tokens
from trex.solver.model import FUNCTIONS, SOS, Function


def read_bounds(tokens: Tokens, builder: Builder) -> None:
    """`x <= 5`, `0 <= x <= 5`, `x = 4`, `x free`. Of several bounds on one side the last one stands.

    A negative upper bound leaves the lower one at 0, as Gurobi and HiGHS have it.
    """
    begun = False
    while tokens.peek().kind not in ("section", "end of text"):
        if begun and not tokens.new_line():
            tokens.expected("a new line, with which a bound begins")
        begun = True
        token = tokens.peek()
        if token.kind == "name" and token.text.lower() not in INFINITY:
            name = tokens.variable()
            if tokens.peek().kind == "name" and tokens.peek().text.lower() == "free":
                tokens.next()
                column = builder.column(name)
                column.lower, column.upper = -math.inf, math.inf
                continue
            sense = compare(tokens)
            _bound(tokens, builder, name, sense, *_value(tokens))
            continue
        value = _value(tokens, "a number or a variable")
        first = compare(tokens)
        name = tokens.variable()
        _bound(tokens, builder, name, FLIPPED[first], *value)
        if tokens.peek().kind == "compare":
            at = tokens.peek()
            second = compare(tokens)
            if second != first or first == "=":
                tokens.error("of two comparisons both are <= or both >=", at)
            _bound(tokens, builder, name, second, *_value(tokens))


def _value(tokens: Tokens, what: str = "a number") -> tuple[float, Token]:
    at = tokens.peek()
    sign, _ = tokens.signs()
    if tokens.peek().kind == "name" and tokens.peek().text.lower() in INFINITY:
        tokens.next()
        return sign * math.inf, at
    return sign * tokens.number(what), at


def _bound(tokens: Tokens, builder: Builder, name: str, sense: str, value: float, at: Token) -> None:
    column = builder.column(name)
    if sense == "=" and abs(value) >= INFINITE:
        tokens.error(f"{name} = {value}; accepted: a number within {INFINITE:g}", at)
    if sense != "<=":
        column.lower = lower_side(tokens, at, value)
    if sense != ">=":
        column.upper = upper_side(tokens, at, value)


def read_names(tokens: Tokens, builder: Builder) -> set[str]:
    """The variables listed in a section; new ones are added, as Gurobi and HiGHS do."""
    names = set()
    while tokens.peek().kind not in ("section", "end of text"):
        name = tokens.variable()
        builder.variable(name)
        names.add(name)
    return names


def read_sets(tokens: Tokens, builder: Builder, type_: int | None) -> None:
    """`name: S1 :: x : 1 y : 2`, the name left out or not; under SOS1 and SOS2 also `name: x : 1 y : 2`."""
    while tokens.peek().kind not in ("section", "end of text"):
        at = tokens.peek()
        name = tokens.label() if tokens.peek(2).kind == "name" else None
        kind = type_ if name is not None else None
        if tokens.peek(1).kind == "::":
            text = tokens.next().text
            if text.upper() not in ("S1", "S2"):
                tokens.error(f"a set of kind {text!r}; accepted: S1, S2", at)
            kind = int(text[1])
            tokens.next()
        if kind is None:
            tokens.expected("S1 :: or S2 ::")
        members, weights = [], []
        while tokens.is_label() and tokens.peek(2).kind != "name":
            members.append(builder.variable(tokens.variable()))
            tokens.next()
            sign, _ = tokens.signs()
            weights.append(sign * tokens.finite("a weight"))
        if not members:
            tokens.expected("a variable, a colon and a weight")
        for what, found in (("member", members), ("weight", weights)):
            if len(set(found)) != len(found):
                tokens.error(f"the set has a {what} twice", at)
        builder.sos.append(SOS(name or f"s{len(builder.sos)}", kind, tuple(members), tuple(weights)))


def read_functions(tokens: Tokens, builder: Builder) -> None:
    """`name: z = MAX ( x , y , 3 )`; MIN, MAX, ABS, AND and OR, with blanks around brackets and commas."""
    while tokens.peek().kind not in ("section", "end of text"):
        name = tokens.label() or f"GC{len(builder.indicators) + len(builder.functions)}"
        result = builder.variable(tokens.variable())
        if tokens.take("compare", "=").text != "=":
            tokens.error("a general constraint is an equation", tokens.tokens[tokens.place - 1])
        at = tokens.peek()
        kind = tokens.take("name", "MIN, MAX, ABS, AND or OR").text.lower()
        if kind not in FUNCTIONS:
            tokens.error(f"the general constraint {at.text[:60]!r}; accepted: {', '.join(FUNCTIONS).upper()}", at)
        arguments, constants = _arguments(tokens, builder)
        if constants and kind not in ("min", "max"):
            tokens.error(f"a constant among the arguments of {at.text}; accepted in MIN and MAX", at)
        if kind == "abs" and len(arguments) != 1:
            tokens.error(f"ABS of {len(arguments)} variables; accepted: one", at)
        constant = (min if kind == "min" else max)(constants) if constants else None
        builder.functions.append(Function(name, kind, result, tuple(arguments), constant))


def _arguments(tokens: Tokens, builder: Builder) -> tuple[list[int], list[float]]:
    variables, constants = [], []
    _word(tokens, "(")
    while True:
        sign, signed = tokens.signs()
        if signed or tokens.peek().kind == "number":
            constants.append(sign * tokens.finite())
        elif tokens.peek().text in ("(", ")", ","):
            tokens.expected("a variable or a number")
        else:
            variables.append(builder.variable(tokens.variable()))
        if tokens.peek().text == ")":
            tokens.next()
            return variables, constants
        _word(tokens, ",")


def _word(tokens: Tokens, text: str) -> None:
    if tokens.peek().text != text:
        tokens.expected(f"`{text}` between blanks")
    tokens.next()
