"""MPS text as a `Model`. Fields are parted by blanks, in fixed and in free format; names have none.

Where Gurobi and HiGHS read a text alike, so is it read here; a text that they read differently is refused.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from trex.solver.builder import Row
from trex.solver.formats import mps_sections
from trex.solver.formats.binaries import make_binary
from trex.solver.formats.mps_state import Record, State
from trex.solver.formats.tokens import INFINITE, LINES, LPError
from trex.solver.model import Indicator, Model, ModelError

SIDES = {"L": (-math.inf, 0.0), "G": (0.0, math.inf), "E": (0.0, 0.0), "N": (-math.inf, math.inf)}
SENSES = {"max": "max", "maximize": "max", "maximise": "max", "min": "min", "minimize": "min", "minimise": "min"}


def read_mps(text: str, where: str) -> Model:
    """The model that MPS text describes. Raises LPError with the line."""
    state = State(where)
    section, ended, seen = "", False, set()
    for record, heads in _records(text, where):
        if ended:
            raise record.error("there is text after ENDATA")
        if heads:
            section = record.fields[0].upper()
            state.argument = " ".join(record.fields[1:])
            if section not in SECTIONS:
                raise record.error(f"the section {record.fields[0][:60]!r}; accepted: {', '.join(SECTIONS)}")
            key = f"{section} {state.argument}" if section in ("QCMATRIX", "QSECTION") else section
            if key in seen:
                raise record.error(f"the section {key} is there twice")
            seen.add(key)
            ended = section == "ENDATA"
            _head(state, record, section)
        elif section in SECTIONS:
            SECTIONS[section](state, record)
        else:
            raise record.error("a line before the first section")
    if not ended:
        raise LPError(where, "it ends without ENDATA", len(LINES.split(text)))
    try:
        return _model(state)
    except ModelError as error:
        raise error if isinstance(error, LPError) else LPError(where, str(error)) from None


def _records(text: str, where: str) -> Iterator[tuple[Record, bool]]:
    for line, content in enumerate(LINES.split(text), start=1):
        fields = content.split()
        if fields and not content.startswith("*"):
            yield Record(where, line, fields), not content[0].isspace()


def _head(state: State, record: Record, section: str) -> None:
    if section == "OBJSENSE" and state.argument:
        _sense(state, Record(record.where, record.line, record.fields[1:]))
    if section in ("QUADOBJ", "QMATRIX", "QSECTION") and state.argument not in ("", str(state.goal)):
        raise record.error(f"{section} {state.argument}; accepted: the objective's name")
    if section in ("COLUMNS", "RHS") and state.wanted is not None and state.goal is None:
        raise record.error(f"the objective {state.wanted!r} is not in ROWS")
    if section == "QCMATRIX":
        state.row(record, state.argument)
    if section in ("ROWS", "COLUMNS", "ENDATA") and state.argument:
        raise record.error(f"{state.argument[:60]!r} after {section}")


def _nothing(state: State, record: Record) -> None:
    raise record.error(f"{record.fields[0][:60]!r} outside of a section that holds lines")


def _sense(state: State, record: Record) -> None:
    word = record.fields[0].lower()
    if word not in SENSES or len(record.fields) != 1:
        raise record.error(f"the sense {' '.join(record.fields)[:60]!r}; accepted: MIN, MAX")
    state.builder.sense = SENSES[word]


def _name(state: State, record: Record) -> None:
    state.wanted = record.fields[0]


def _row(state: State, record: Record) -> None:
    """`N cost`. The first free row, or the one that OBJNAME names, is the objective; others stay as rows."""
    if len(record.fields) != 2 or record.fields[0].upper() not in SIDES:
        raise record.error("a row is N, L, G or E and a name without blanks")
    kind, name = record.fields[0].upper(), record.fields[1]
    if name in state.rows or name == state.goal:
        raise record.error(f"the row {name[:60]!r} is there twice")
    if kind == "N" and state.goal is None and state.wanted in (None, name):
        state.goal = name
        return
    state.types[name], state.terms[name] = kind, {}
    state.rows[name] = Row(name, state.terms[name], *SIDES[kind])


def _entry(state: State, record: Record) -> None:
    """`x cost 1 limit 2`, or the marker of integer columns."""
    fields = record.fields
    if len(fields) == 3 and fields[1].strip("'") == "MARKER":
        if fields[2].strip("'") not in ("INTORG", "INTEND"):
            raise record.error(f"the marker {fields[2][:60]}; accepted: INTORG, INTEND")
        state.integers = fields[2].strip("'") == "INTORG"
        return
    if len(fields) not in (3, 5):
        raise record.error("a column's line is its name and one or two pairs of a row and a number")
    if fields[0] != state.last:
        if fields[0] in state.builder.place:
            raise record.error(f"the column {fields[0][:60]!r} is there twice")
        column = state.builder.column(fields[0])
        column.kind = "integer" if state.integers else "continuous"
        state.last = fields[0]
        state.bounded[fields[0]] = set()
        state.entered = set()
    j = state.builder.place[fields[0]]
    for name, text in zip(fields[1::2], fields[2::2], strict=True):
        value = record.finite(text)
        if name in state.entered:
            # Gurobi and HiGHS keep the first and say nothing.
            raise record.error(f"column {fields[0][:60]!r} has the row {name[:60]!r} twice")
        state.entered.add(name)
        if name == state.goal:
            state.builder.columns[fields[0]].cost = value
        else:
            state.row(record, name)
            state.terms[name][j] = value


def _pairs(state: State, record: Record, section: str) -> Iterator[tuple[str, str]]:
    """Row and number; a set's name may stand before them."""
    fields = record.fields
    if len(fields) % 2:
        if state.vectors.setdefault(section, fields[0]) != fields[0]:
            raise record.error(f"a second set of numbers in {section}: {fields[0][:60]!r}")
        fields = fields[1:]
    if not fields or len(fields) > 4:
        raise record.error("a line is a set's name and one or two pairs of a row and a number")
    yield from zip(fields[::2], fields[1::2], strict=True)


def _right(state: State, record: Record) -> None:
    """`RHS limit 4`; on the objective's row it is the negative of the constant."""
    for name, text in _pairs(state, record, "RHS"):
        if name in state.sides:
            raise record.error(f"the row {name[:60]!r} has two right sides")
        if name == state.goal:
            state.builder.offset = -record.finite(text)
        elif state.row(record, name) and state.types[name] == "N":
            raise record.error(f"the free row {name[:60]!r} has a right side")
        record.number(text)
        state.sides[name] = record, text


def _range(state: State, record: Record) -> None:
    """`RNG limit 3`: the distance between a row's sides; for E its sign says on which side the other one lies."""
    for name, text in _pairs(state, record, "RANGES"):
        if name in state.ranges:
            raise record.error(f"the row {name[:60]!r} has two ranges")
        if state.row(record, name) and state.types[name] == "N":
            raise record.error(f"the free row {name[:60]!r} has a range")
        record.finite(text)
        state.ranges[name] = record, text


def _sides(state: State, name: str) -> tuple[float, float]:
    """A row's sides from its type, right side and range."""
    kind = state.types[name]
    record, text = state.sides.get(name, (Record(state.where, 0, []), "0"))
    value = record.number(text)
    if abs(value) >= INFINITE:
        if name in state.ranges or (kind, value > 0) not in (("L", True), ("G", False)):
            raise record.error(f"the row {name[:60]!r} of type {kind} has the right side {text}")
        return -math.inf, math.inf
    lower, upper = (value if side == 0 else side for side in SIDES[kind])
    if name in state.ranges:
        # Exact, so that every pair of sides can be written: the number may have more digits than a double.
        record, distance = state.ranges[name]
        first, second = Fraction(text), Fraction(distance)
        rises = kind == "G" or (kind == "E" and second >= 0)
        other = first + abs(second) if rises else first - abs(second)
        if abs(other) >= INFINITE:
            raise record.error(f"the row {name[:60]!r} has a side beyond {INFINITE:g}")
        lower, upper = (value, float(other)) if other >= first else (float(other), value)
    return lower, upper


def _indicator(state: State, record: Record) -> None:
    """`IF limit b 1`: the row holds where b is 1."""
    if len(record.fields) != 4 or record.fields[0].upper() != "IF" or record.fields[3] not in ("0", "1"):
        raise record.error("an indicator is IF, a row, a column, and 0 or 1")
    name = record.fields[1]
    state.row(record, name)
    if name in state.indicators:
        raise record.error(f"the row {name[:60]!r} has two indicators")
    state.indicators[name] = (state.column(record, record.fields[2]), int(record.fields[3]))


def _model(state: State) -> Model:
    builder = state.builder
    mps_sections.finish(state)
    for name, column in builder.columns.items():
        # An integer column without any bound is binary, as Gurobi and HiGHS have it.
        if column.kind == "integer" and not state.bounded[name]:
            column.upper = 1.0
    for name, row in state.rows.items():
        row.lower, row.upper = _sides(state, name)
        if name not in state.indicators:
            builder.rows.append(row)
            continue
        if row.quadratic:
            raise LPError(state.where, f"the row {name!r} is quadratic and under an indicator")
        binary, active = state.indicators[name]
        builder.indicators.append(Indicator(name, binary, active, tuple(row.terms.items()), row.lower, row.upper))
    make_binary(builder)
    return builder.model()


SECTIONS: dict[str, Callable[[State, Record], None]] = {
    "NAME": _nothing,
    "OBJSENSE": _sense,
    "OBJNAME": _name,
    "ROWS": _row,
    "COLUMNS": _entry,
    "RHS": _right,
    "RANGES": _range,
    "BOUNDS": mps_sections.bound,
    "SOS": mps_sections.ordered_set,
    "QUADOBJ": mps_sections.triangle,
    "QSECTION": mps_sections.triangle,
    "QMATRIX": mps_sections.symmetric,
    "QCMATRIX": mps_sections.symmetric_row,
    "INDICATORS": _indicator,
    "GENCONS": mps_sections.function,
    "LAZYCONS": _row,
    "ENDATA": _nothing,
}
