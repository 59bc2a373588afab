"""Lines of MPS text, and what has been read of it so far."""

import math
from dataclasses import dataclass, field

from trex.solver.builder import Builder, Row
from trex.solver.formats.tokens import INFINITE, INFINITY, LPError, number


@dataclass
class Record:
    """The fields of one line, and where it stands."""

    where: str
    line: int
    fields: list[str]

    def error(self, reason: str) -> LPError:
        """An LPError at this line, to be raised."""
        return LPError(self.where, reason, self.line)

    def number(self, text: str) -> float:
        """A number, +-inf where readers take it for that. Raises LPError for anything else."""
        if text.lower().lstrip("+-") in INFINITY:
            return -math.inf if text[0] == "-" else math.inf
        sign, digits = (-1.0, text[1:]) if text[0] == "-" else (1.0, text.removeprefix("+"))
        decimal = digits.isascii() and digits[:1] in set("0123456789.") and "_" not in digits
        try:
            value = number(digits) if decimal else f"{text[:60]!r} is not a number"
        except ValueError:
            value = f"{text[:60]!r} is not a number"
        if isinstance(value, str):
            raise self.error(value)
        return sign * value

    def finite(self, text: str) -> float:
        """A number that is not taken for infinite."""
        value = self.number(text)
        if abs(value) >= INFINITE:
            raise self.error(f"the number {text}; accepted here: within {INFINITE:g}")
        return value


@dataclass
class State:
    """What has been read so far."""

    where: str
    builder: Builder = field(default_factory=Builder)
    goal: str | None = None  # the objective's row
    wanted: str | None = None  # by OBJNAME
    rows: dict[str, Row] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    terms: dict[str, dict[int, float]] = field(default_factory=dict)
    integers: bool = False  # between the markers
    last: str | None = None  # column
    entered: set[str] = field(default_factory=set)  # rows of that column
    sides: dict[str, tuple[Record, str]] = field(default_factory=dict)  # row -> its number in RHS, as written
    ranges: dict[str, tuple[Record, str]] = field(default_factory=dict)  # row -> its number in RANGES, as written
    vectors: dict[str, str] = field(default_factory=dict)  # section -> name of the set of numbers in use
    bounded: dict[str, set[str]] = field(default_factory=dict)  # column -> sides with a bound
    indicators: dict[str, tuple[int, int]] = field(default_factory=dict)  # row -> binary, active
    symmetric: dict[str, tuple[Record, dict[tuple[int, int], float]]] = field(default_factory=dict)  # row -> entries
    negative: dict[str, Record] = field(default_factory=dict)  # column with a negative upper bound
    members: dict[int, list[tuple[int, float]]] = field(default_factory=dict)  # set -> column, weight
    functions: list[tuple[Record, str, str, list[tuple[Record, str]]]] = field(default_factory=list)
    argument: str = ""  # of the section's head

    def column(self, record: Record, name: str) -> int:
        """Number of a known column. Raises LPError for another one."""
        if name not in self.builder.place:
            raise record.error(f"the column {name[:60]!r} is not in COLUMNS")
        return self.builder.place[name]

    def row(self, record: Record, name: str) -> Row:
        """A known row other than the objective. Raises LPError for another one."""
        if name not in self.rows:
            raise record.error(f"the row {name[:60]!r} is not in ROWS, or it is the objective")
        return self.rows[name]
