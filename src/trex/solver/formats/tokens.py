"""Words, numbers and signs of LP text, each with its line and column."""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from trex.solver.model import ModelError

INFINITE = 1e20  # a side or bound this large is none, as every reader of these formats has it
LONGEST = 400  # characters of a number
INFINITY = ("inf", "infinity")  # in upper or lower case; no variable has these names
NO_NAMES = (*INFINITY, "nan")
NO_STARTS = ("(", ")", "[", "]", ",")  # of a variable's name

# Brackets belong to a name where no blank stands before them. Within them: anything but blanks, with at most one level
# of brackets more (`z[q[0],1]`); or blanks too where no sign of a quadratic term stands beside them (`x[A, B]`).
BRACKETS = r"\[(?:(?:[^\s\[\]\\]|\[[^\s\[\]\\]*\])*|[^\[\]\\+*^<>=:\n\t]*)\]"
OUTSIDE = r"[^\s\x00-\x1f\x7f\\\[\]+\-*^<>=:]"  # of brackets
NAME = rf"(?![\d.]){OUTSIDE}+(?:{BRACKETS}{OUTSIDE}*)*|\.(?!\d){OUTSIDE}*(?:{BRACKETS}{OUTSIDE}*)*"
NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
TOKEN = re.compile(
    rf"(?P<blank>\s+)|(?P<comment>\\.*)|(?P<number>{NUMBER})|(?P<name>{NAME})"
    r"|(?P<arrow><->|->)|(?P<compare><=|=<|>=|=>|==|<|>|=)|(?P<sign>::|[-+*^:\[\]])"
)
WHOLE_NAME = re.compile(NAME)

# A section begins with these words, where a line does and within it; followed by a colon they are a row's name.
OBJECTIVE = r"(?P<maximum>max|maximi[sz]e|maximum)|(?P<minimum>min|minimi[sz]e|minimum)"
SECTIONS = (
    r"(?P<objective>(?:maximi[sz]e|minimi[sz]e|maximum|minimum))"
    r"|(?P<rows>subject\s+to|such\s+that|s\.t\.?|st\.?)"
    r"|(?P<lazy>lazy\s+constraints?)|(?P<cuts>user\s+cuts?)"
    r"|(?P<bounds>bounds?)"
    r"|(?P<functions>(?:general|gen)\s*(?:constraints?|cons?|constrs?))"
    r"|(?P<whole>generals?|gens?|integers?)"
    r"|(?P<binary>binary|binaries|bin)"
    r"|(?P<semiwhole>semi-?integers?)"
    r"|(?P<semi>semi-continuous|semis?)"
    r"|(?P<sos1>sos1)|(?P<sos2>sos2)|(?P<sos>sos)"
    r"|(?P<piecewise>pwlobj)|(?P<scenario>scenario\s+\S+(?=\s*$))"
    r"|(?P<end>end)"
)
# Not within a line, where each of their words may be a variable. Other sections' first words are none.
NOT_WITHIN = ("lazy", "scenario")
ALONE = r"(?![^\s\\])(?!\s*:)"
FIRST = re.compile(rf"\s*(?:(?P<several>(?:max|min)\w*\s+multi-objectives?)|{OBJECTIVE}){ALONE}", re.IGNORECASE)
SECTION = re.compile(rf"\s*(?:{SECTIONS}){ALONE}", re.IGNORECASE)
LINES = re.compile(r"\r\n|\n|\r")


class LPError(ModelError):
    """Text that is malformed or says what a Model cannot hold. `reason` is the message without its place."""

    def __init__(self, where: str, reason: str, line: int | None = None, column: int | None = None) -> None:
        place = "" if line is None else f", line {line}" if column is None else f", line {line}, column {column}"
        super().__init__(f"{where}{place}: {reason}")
        self.reason, self.line, self.column = reason, line, column


class Token(NamedTuple):
    """`kind` is name, number, arrow, compare, section (`text` is then which), end of text, or the sign itself."""

    kind: str
    text: str
    line: int  # from 1
    column: int  # from 1


class Tokens:
    """The tokens of an LP text and the place reached. Raises LPError for characters that begin none."""

    def __init__(self, text: str, where: str) -> None:
        self.where = where
        lines = LINES.split(text)
        self.tokens = list(self._tokens(lines))
        last = self.tokens[-1] if self.tokens else Token("", "", 1, 1)
        self.tokens += [Token("end of text", "end of text", last.line, last.column + len(last.text))] * 5
        self.place = 0
        self.names: set[str] = set()  # that are variables

    def _tokens(self, lines: list[str]) -> Iterator[Token]:
        begun = False
        for number, line in enumerate(lines, start=1):
            place = 0
            header = (SECTION if begun else FIRST).match(line)
            if header and header.lastgroup:
                place = header.end()
                yield Token("section", header.lastgroup, number, header.start(header.lastgroup) + 1)
                begun = True
            while place < len(line):
                found = TOKEN.match(line, place)
                glued = place and not line[place - 1].isspace() and line[place] == "["
                if not found or (glued and self._names(line[place - 1])):
                    what = f"the character {line[place]!r}" if not glued else "`[` after a name without its `]`"
                    raise LPError(self.where, f"{what} is not expected", number, place + 1)
                kind = str(found.lastgroup)
                header = SECTION.match(line, place) if kind == "name" else None
                if header and header.lastgroup not in NOT_WITHIN:
                    place = header.end()
                    yield Token("section", str(header.lastgroup), number, header.start(str(header.lastgroup)) + 1)
                    continue
                if kind not in ("blank", "comment"):
                    yield Token(found[0] if kind == "sign" else kind, found[0], number, place + 1)
                    begun = True
                place = found.end()

    @staticmethod
    def _names(before: str) -> bool:
        return re.match(OUTSIDE + r"|\]", before) is not None

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or one up to four after it."""
        return self.tokens[self.place + ahead]

    def next(self) -> Token:
        """The next token, which is then passed; the end of the text stays."""
        token = self.tokens[self.place]
        if token.kind != "end of text":
            self.place += 1
        return token

    def take(self, kind: str, what: str) -> Token:
        """The next token, which must be of this kind. Raises LPError otherwise."""
        if self.peek().kind != kind:
            self.expected(what)
        return self.next()

    def is_label(self) -> bool:
        """Whether a name and a colon come next."""
        return self.peek().kind == "name" and self.peek(1).kind == ":"

    def new_line(self) -> bool:
        """Whether the next token begins a line."""
        return self.place == 0 or self.peek().line > self.tokens[self.place - 1].line

    def label(self) -> str | None:
        """The name before a colon, both passed; None where there is none."""
        if not self.is_label():
            return None
        name = self.next().text
        self.next()
        return name

    def error(self, reason: str, token: Token | None = None) -> NoReturn:
        """Raise LPError at a token, by default the next one."""
        token = token or self.peek()
        raise LPError(self.where, reason, token.line, token.column)

    def expected(self, what: str) -> NoReturn:
        """Raise LPError that names what should come next, and what does."""
        token = self.peek()
        found = f"`{token.text[:60]}`"
        if token.kind == "section":
            found = f"the beginning of a section ({token.text})" if token.text != "end" else "End"
        if token.kind == "end of text":
            found = "end of text: End is missing, without which a text cut off would look whole"
        self.error(f"expected {what}; found {found}", token)

    def variable(self, what: str = "a variable") -> str:
        """The next token, which must be a variable's name; numbers' words and sections' are none."""
        text = self.peek().text
        if text not in self.names and self.peek().kind == "name":
            if text.lower() in NO_NAMES:
                self.error(f"{text!r} is no variable")
            if SECTION.fullmatch(text):
                self.error(f"{text!r} is no variable: a section is called that")
            if text.startswith(NO_STARTS):
                reason = (
                    "names do not begin with ( ) [ ] or a comma; products with parentheses are not part of the format"
                )
                self.error(f"{text[:60]!r} is no variable: {reason}")
            self.names.add(text)
        return self.take("name", what).text

    def number(self, what: str = "a number") -> float:
        """The next token, which must be a number."""
        token = self.take("number", what)
        value = number(token.text)
        if isinstance(value, str):
            self.error(value, token)
        return value

    def finite(self, what: str = "a number") -> float:
        """The next token, which must be a number that is not taken for infinite."""
        token = self.peek()
        value = self.number(what)
        if value >= INFINITE:
            self.error(f"the number {token.text}; accepted here: below {INFINITE:g}", token)
        return value

    def signs(self) -> tuple[float, bool]:
        """The product of the signs that come next, and whether there is any."""
        product, any_sign = 1.0, False
        while self.peek().kind in ("+", "-"):
            product, any_sign = -product if self.next().kind == "-" else product, True
        return product, any_sign


def number(text: str) -> float | str:
    """The double nearest to a decimal number, or why there is none."""
    if len(text) > LONGEST:
        return f"a number of {len(text)} characters; accepted: {LONGEST}"
    mantissa, _, exponent = text.lower().partition("e")
    if len(exponent) > 6:
        return f"the exponent {exponent[:60]}; accepted: four digits"
    value = float(text)
    if math.isinf(value):
        return f"{text} is too large for a double"
    if value == 0 and re.search("[1-9]", mantissa):
        return f"{text} is too small for a double"
    return value
