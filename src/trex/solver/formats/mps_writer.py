"""A `Model` as free MPS text that `read_mps` reads back as the same model, and Gurobi and HiGHS read too."""

import math
from collections.abc import Iterable, Iterator
from decimal import Context, Decimal
from fractions import Fraction

from trex.solver.formats.lp_writer import check_numbers, number
from trex.solver.formats.tokens import INFINITE, LONGEST
from trex.solver.model import SEMI, WHOLE, Model, ModelError


def write_mps(model: Model) -> str:
    """MPS text. Raises ModelError for what the format does not hold: some names, crossed sides of rows."""
    check_numbers(model)
    rows = (*model.rows, *(i.name for i in model.indicators))
    for what, names in (("variable", model.variables), ("row", rows), ("set or function", _special(model))):
        _check_names(what, names)
    goal = "obj"
    while goal in rows:
        goal += "_"
    return "\n".join([*_head(model, goal), *_columns(model, goal), *_bounds(model), *_rest(model), "ENDATA", ""])


def _special(model: Model) -> tuple[str, ...]:
    return (*(s.name for s in model.sos), *(f.name for f in model.functions))


def _check_names(what: str, names: tuple[str, ...]) -> None:
    for name in names:
        if not name or name.split() != [name] or name.strip("'") == "MARKER" or not name.isprintable():
            raise ModelError(f"{what} {name!r}: the MPS format has no such name")
    if what == "row" and len(set(names)) != len(names):
        raise ModelError("the MPS format has no two rows of one name")
    if what == "variable":
        for name in names:
            if name.upper() in ("S1", "S2", "SOS") or _is_number(name):
                raise ModelError(f"variable {name!r}: in the MPS format it could be read as something else")


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _all_rows(model: Model) -> Iterator[tuple[str, list[tuple[int, float]], float, float]]:
    """Name, entries and sides of the rows under indicators, then of the others.

    In this order Gurobi 13 reads them; where quadratic rows come before indicators it breaks its memory.
    """
    for indicator in model.indicators:
        yield indicator.name, list(indicator.terms), indicator.lower, indicator.upper
    for row, name in enumerate(model.rows):
        yield name, model.row(row), float(model.row_lower[row]), float(model.row_upper[row])


def _type(lower: float, upper: float) -> str:
    if lower == upper:
        return "E"
    return "G" if math.isfinite(lower) else "L" if math.isfinite(upper) else "N"


def _head(model: Model, goal: str) -> Iterator[str]:
    yield "NAME model"
    yield from ["OBJSENSE", f"    {model.sense.upper()}", "ROWS", f" N  {goal}"]
    for name, _, lower, upper in _all_rows(model):
        yield f" {_type(lower, upper)}  {name}"


def _columns(model: Model, goal: str) -> Iterator[str]:
    entries: list[list[tuple[str, float]]] = [[] for _ in model.variables]
    right, ranges = [], []
    if model.offset:
        right.append(f"    RHS  {goal}  {number(-model.offset)}")
    for name, terms, lower, upper in _all_rows(model):
        if len({j for j, _ in terms}) != len(terms):
            raise ModelError(f"row {name!r} has a variable twice")
        for j, value in terms:
            entries[j].append((name, value))
        kind = _type(lower, upper)
        side = upper if kind == "L" else lower
        if kind != "N" and side:
            right.append(f"    RHS  {name}  {number(side)}")
        if kind == "G" and math.isfinite(upper):
            ranges.append(f"    RNG  {name}  {_distance(name, lower, upper)}")
    yield "COLUMNS"
    inside = False
    for j, name in enumerate(model.variables):
        if inside != (model.kinds[j] == "integer"):
            inside = not inside
            yield f"    MARKER  'MARKER'  '{'INTORG' if inside else 'INTEND'}'"
        if model.cost[j] or not entries[j]:
            yield f"    {name}  {goal}  {number(float(model.cost[j]))}"
        yield from (f"    {name}  {row}  {number(value)}" for row, value in entries[j])
    if inside:
        yield "    MARKER  'MARKER'  'INTEND'"
    yield from ["RHS", *right]
    yield from ["RANGES", *ranges] if ranges else []


def _distance(name: str, lower: float, upper: float) -> str:
    """The number that added to `lower` gives `upper` exactly: with as many digits as it takes."""
    if lower > upper:
        raise ModelError(f"row {name!r} has its lower side {lower} above its upper one {upper}: no range in MPS")
    rounded = upper - lower
    if float(Fraction(number(lower)) + Fraction(number(rounded))) == upper:
        return number(rounded)
    exact = Context(prec=2 * LONGEST).subtract(Decimal(number(upper)), Decimal(number(lower)))
    if len(str(exact)) > LONGEST:
        raise ModelError(f"row {name!r}: its sides {lower} and {upper} are too far apart to be written")
    return str(exact)


def _bounds(model: Model) -> Iterator[str]:
    yield "BOUNDS"
    for j, name in enumerate(model.variables):
        lower, upper, kind = float(model.lower[j]), float(model.upper[j]), model.kinds[j]
        if kind in SEMI:
            if lower:
                yield f" LO BND  {name}  {number(lower)}"
            top = number(upper) if math.isfinite(upper) else "1e30"
            yield f" {'SI' if kind in WHOLE else 'SC'} BND  {name}  {top}"
        elif (lower, upper) == (0, math.inf):
            yield from [f" PL BND  {name}"] if kind == "integer" else []
        elif (lower, upper) == (-math.inf, math.inf):
            yield f" FR BND  {name}"
        elif lower == upper:
            yield f" FX BND  {name}  {number(lower)}"
        else:
            if lower == -math.inf:
                yield f" MI BND  {name}"
            elif lower or upper < 0 or kind == "integer":
                yield f" LO BND  {name}  {number(lower)}"
            if upper < math.inf:
                yield f" UP BND  {name}  {number(upper)}"


def _rest(model: Model) -> Iterator[str]:
    names = model.variables
    if model.sos:
        yield "SOS"
    for ordered in model.sos:
        yield f" S{ordered.type} {ordered.name}"
        for j, weight in zip(ordered.members, ordered.weights, strict=True):
            yield f"    {names[j]}  {number(weight)}"
    if model.quadratic:
        yield "QUADOBJ"
    for (i, j), c in model.quadratic.items():
        yield f"    {names[i]}  {names[j]}  {number(_exact(2 * c, c) if i == j else c)}"
    for row, square in model.quadratic_rows.items():
        yield f"QCMATRIX {model.rows[row]}"
        for (i, j), c in square.items():
            pairs: Iterable[tuple[int, int]] = [(i, i)] if i == j else [(i, j), (j, i)]
            yield from (f"    {names[a]}  {names[b]}  {number(c if i == j else _exact(c / 2, c))}" for a, b in pairs)
    if model.indicators:
        yield "INDICATORS"
    for indicator in model.indicators:
        yield f" IF {indicator.name}  {names[indicator.binary]}  {indicator.active}"
    if model.functions:
        yield "GENCONS"
    for function in model.functions:
        yield f" {function.kind.upper()} {function.name}"
        yield from (f"    {names[j]}" for j in (function.result, *function.arguments))
        yield from [f"    {number(function.constant)}"] if function.constant is not None else []


def _exact(changed: float, coefficient: float) -> float:
    """Twice or half of a coefficient, where that is exact."""
    if abs(changed) >= INFINITE or Fraction(changed) / Fraction(coefficient or 1) not in (2, Fraction(1, 2), 0):
        raise ModelError(f"the quadratic coefficient {coefficient} cannot be written")
    return changed
