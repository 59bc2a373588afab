"""The sections of MPS text after the rows' numbers: bounds, sets, quadratic terms and general constraints."""

import math

from trex.solver.builder import Column
from trex.solver.formats.mps_state import Record, State
from trex.solver.formats.tokens import INFINITE
from trex.solver.model import FUNCTIONS, SOS, Function

NUMBERED = ("LO", "UP", "FX", "LI", "UI", "SC", "SI")
BARE = ("FR", "MI", "PL", "BV")
LOWER, UPPER = "lower", "upper"


def bound(state: State, record: Record) -> None:
    """`UP BND x 4`; the set's name may be left out, as the number of FR, MI, PL and BV must be or may be."""
    kind, rest = record.fields[0].upper(), record.fields[1:]
    if kind not in NUMBERED + BARE:
        raise record.error(f"the bound {record.fields[0][:60]!r}; accepted: {', '.join(NUMBERED + BARE)}")
    text = "0"
    if kind in NUMBERED and len(rest) in (2, 3):
        text = rest.pop()
    elif kind in BARE and len(rest) == 3:
        record.finite(rest.pop())  # of no meaning
    if len(rest) not in (1, 2):
        raise record.error(f"the bound {kind} is on a column{' and has a number' * (kind in NUMBERED)}")
    if len(rest) == 2 and state.vectors.setdefault("BOUNDS", rest[0]) != rest[0]:
        raise record.error(f"a second set of bounds: {rest[0][:60]!r}")
    state.column(record, rest[-1])
    _apply(state, record, kind, rest[-1], record.number(text))


def _apply(state: State, record: Record, kind: str, name: str, value: float) -> None:
    column, bounded = state.builder.columns[name], state.bounded[name]
    lower = _limit(record, value, -1) if kind in ("LO", "LI", "FX") else {"FR": -math.inf, "MI": -math.inf}.get(kind)
    upper = _limit(record, value, 1) if kind in ("UP", "UI", "FX", "SC", "SI") else {"PL": math.inf}.get(kind)
    if kind == "FX" and abs(value) >= INFINITE:
        raise record.error(f"column {name[:60]!r} fixed at {value}")
    if kind == "BV":
        lower, upper = 0.0, 1.0
    if kind == "FR":
        upper = math.inf
    if upper is not None and upper < 0 and kind in ("UP", "UI"):
        state.negative[name] = record
    for side, given in ((LOWER, lower), (UPPER, upper)):
        if given is None:
            continue
        if side in bounded and getattr(column, side) != given:
            # Gurobi and HiGHS keep the first.
            raise record.error(f"column {name[:60]!r} has two {side} bounds")
        bounded.add(side)
        setattr(column, side, given)
    _kind(record, kind, column)


def _kind(record: Record, kind: str, column: Column) -> None:
    whole = kind in ("LI", "UI", "BV", "SI") or column.kind in ("integer", "semi-integer")
    semi = kind in ("SC", "SI") or column.kind.startswith("semi")
    column.kind = ("semi-" if semi else "") + ("integer" if whole else "continuous")


def _limit(record: Record, value: float, direction: int) -> float:
    if value * direction <= -INFINITE:
        raise record.error(f"a bound of {value} on this side; accepted: within {INFINITE:g}, or infinite on the other")
    return value if value * direction < INFINITE else direction * math.inf


def ordered_set(state: State, record: Record) -> None:
    """`S1 name` or `S1 SOS name 5`, then lines `x 1` or `SOS x 1`."""
    fields, sets = record.fields, state.builder.sos
    if fields[0].upper() in ("S1", "S2") and fields[0] not in state.builder.place:
        long = len(fields) > 2
        if len(fields) not in (2, 3, 4) or (long and fields[1].upper() != "SOS"):
            raise record.error("a set begins with S1 or S2 and its name")
        if len(fields) == 4:
            record.finite(fields[3])  # a priority, which means nothing for the model
        sets.append(SOS(fields[2] if long else fields[1], int(fields[0][1]), (), ()))
        return
    if not sets or len(fields) not in (2, 3) or (len(fields) == 3 and fields[0].upper() != "SOS"):
        raise record.error("a member of a set is a column and a weight, after S1 or S2 and the set's name")
    j, weight = state.column(record, fields[-2]), record.finite(fields[-1])
    state.members.setdefault(len(sets) - 1, []).append((j, weight))


def triangle(state: State, record: Record) -> None:
    """`x y 3` in QUADOBJ: half of x'Qx by one triangle of Q; an entry and its mirror image are added up."""
    (i, j), value = _entry(state, record)
    pair, add = (min(i, j), max(i, j)), value / 2 if i == j else value
    state.builder.quadratic[pair] = state.builder.quadratic.get(pair, 0.0) + add


def symmetric(state: State, record: Record) -> None:
    """`x y 3` in QMATRIX: half of x'Qx by all of Q."""
    _symmetric(state, record, "")


def symmetric_row(state: State, record: Record) -> None:
    """`x y 3` in QCMATRIX: x'Qx of a row by all of Q."""
    _symmetric(state, record, state.argument)


def _symmetric(state: State, record: Record, row: str) -> None:
    places, value = _entry(state, record)
    entries = state.symmetric.setdefault(row, (record, {}))[1]
    if places in entries:
        raise record.error("this entry of the matrix is there twice")
    entries[places] = value


def _entry(state: State, record: Record) -> tuple[tuple[int, int], float]:
    if len(record.fields) != 3:
        raise record.error("an entry of a matrix is two columns and a number")
    i, j = (state.column(record, name) for name in record.fields[:2])
    return (i, j), record.finite(record.fields[2])


def function(state: State, record: Record) -> None:
    """`MAX name`, then a line each for the result and the arguments."""
    fields = record.fields
    if len(fields) == 2:
        if fields[0].lower() not in FUNCTIONS:
            raise record.error(f"the general constraint {fields[0][:60]!r}; accepted: {', '.join(FUNCTIONS).upper()}")
        state.functions.append((record, fields[0].lower(), fields[1], []))
        return
    if len(fields) != 1 or not state.functions:
        raise record.error("a general constraint is a kind and a name, then its variables, one per line")
    state.functions[-1][3].append((record, fields[0]))


def finish(state: State) -> None:
    """Put together what takes several lines. Raises LPError where it does not fit."""
    for row, (record, entries) in state.symmetric.items():
        square: dict[tuple[int, int], float] = {}
        for (i, j), value in entries.items():
            if entries.get((j, i)) != value:
                raise record.error(f"the matrix of {row or 'the objective'} is not symmetric")
            pair = (min(i, j), max(i, j))
            square[pair] = square.get(pair, 0.0) + (value if row else value / 2)
        into = state.rows[row].quadratic if row else state.builder.quadratic
        if into:
            raise record.error("quadratic terms in two sections")
        into.update(square)
    for name, record in state.negative.items():
        if LOWER not in state.bounded[name]:
            # Gurobi and CPLEX then take minus infinity, HiGHS 0.
            raise record.error(f"column {name[:60]!r} has a negative upper bound and no lower one")
    for place, found in state.members.items():
        ordered = state.builder.sos[place]
        members, weights = tuple(j for j, _ in found), tuple(weight for _, weight in found)
        state.builder.sos[place] = SOS(ordered.name, ordered.type, members, weights)
    for record, kind, name, arguments in state.functions:
        _function(state, record, kind, name, arguments)


def _function(state: State, record: Record, kind: str, name: str, fields: list[tuple[Record, str]]) -> None:
    if len(fields) < 2:
        raise record.error(f"the general constraint {name[:60]!r} has no result and argument")
    variables, constants = [], []
    for line, text in fields:
        if text in state.builder.place:
            variables.append(state.builder.place[text])
        else:
            constants.append(line.finite(text))
    if constants and (kind not in ("min", "max") or fields[0][1] not in state.builder.place):
        raise record.error(f"a constant in {name[:60]!r}; accepted among the arguments of MIN and MAX")
    constant = (min if kind == "min" else max)(constants) if constants else None
    state.builder.functions.append(Function(name, kind, variables[0], tuple(variables[1:]), constant))
