"""A `Model` as LP text that `read_lp` reads back as the same model.

Gurobi and HiGHS read it too, except rows with two sides, which are written `2 <= x + y <= 8`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from trex.solver.formats.constant import NAMES, constant_column
from trex.solver.formats.tokens import INFINITE, NO_NAMES, NO_STARTS, SECTION, WHOLE_NAME
from trex.solver.model import SEMI, WHOLE, Model, ModelError, Quadratic

TERMS = 8  # per line


def write_lp(model: Model) -> str:
    """LP text. Raises ModelError for what the format does not hold: some names, finite sides of 1e20 and more."""
    _check(model)
    return "\n".join([*_objective(model), "Subject To", *_rows(model), *_bounds(model), *_special(model), "End", ""])


def number(value: float) -> str:
    """The shortest text that is read back as the same number."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))


def check_numbers(model: Model) -> None:
    """Raise ModelError for finite numbers that readers take for infinite, and sides infinite the wrong way."""
    squares = [model.quadratic, *model.quadratic_rows.values()]
    numbers = [model.offset, *model.cost.tolist(), *model.value.tolist(), *(c for s in squares for c in s.values())]
    numbers += [c for i in model.indicators for _, c in i.terms] + [w for s in model.sos for w in s.weights]
    numbers += [f.constant for f in model.functions if f.constant is not None]
    for value in numbers:
        if abs(value) >= INFINITE:
            raise ModelError(f"the number {value}; the formats accept numbers within {INFINITE:g}")
    sides = [(f"variable {n!r}", a, b) for n, a, b in zip(model.variables, model.lower, model.upper, strict=True)]
    sides += [(f"row {n!r}", a, b) for n, a, b in zip(model.rows, model.row_lower, model.row_upper, strict=True)]
    sides += [(f"indicator {i.name!r}", i.lower, i.upper) for i in model.indicators]
    for what, lower, upper in sides:
        for side, none in ((lower, -math.inf), (upper, math.inf)):
            if side != none and abs(side) >= INFINITE:
                raise ModelError(f"{what} has the side {side}; the formats accept numbers within {INFINITE:g}")
    if (j := constant_column(model)) is not None:
        raise ModelError(f"variable {model.variables[j]!r}, fixed at 1, would be read as the objective's constant")


def _check(model: Model) -> None:
    check_numbers(model)
    for name in model.variables:
        keyword = SECTION.fullmatch(name)
        punctuation = name.startswith((*NO_STARTS, "/"))
        if not WHOLE_NAME.fullmatch(name) or keyword or punctuation or name.lower() in NO_NAMES:
            raise ModelError(f"variable {name!r}: the LP format has no such name")
    special = (s.name for group in (model.sos, model.indicators, model.functions) for s in group)
    for name in (*model.rows, *special):
        if not WHOLE_NAME.fullmatch(name):
            raise ModelError(f"row {name!r}: the LP format has no such name")


def _objective(model: Model) -> list[str]:
    linear = [(j, cost) for j, cost in enumerate(model.cost.tolist()) if cost]
    if list(dict.fromkeys(_mentioned(model, linear))) != list(range(len(model.variables))):
        linear = list(enumerate(model.cost.tolist()))  # variables are numbered as they are first named
    terms = [_term(cost, model.variables[j]) for j, cost in linear]
    if model.offset:
        free = [name for name in NAMES if name not in model.variables]
        terms.append(_term(model.offset, free[0] if free else ""))
    if model.quadratic:
        doubled = {pair: 2 * c for pair, c in model.quadratic.items()}
        if any(abs(c) >= INFINITE for c in doubled.values()):
            raise ModelError("a quadratic coefficient of the objective is too large to be written doubled")
        terms += ["+ [", *_quadratic(model, doubled), "] / 2"]
    return ["Minimize" if model.sense == "min" else "Maximize", _wrapped(" obj:", terms)]


def _mentioned(model: Model, linear: Iterable[tuple[int, float]]) -> Iterator[int]:
    yield from (j for j, _ in linear)
    yield from (j for pair in model.quadratic for j in pair)
    for row in range(len(model.rows)):
        yield from (j for j, _ in model.row(row))
        yield from (j for pair in model.quadratic_rows.get(row, {}) for j in pair)


def _rows(model: Model) -> Iterator[str]:
    for row, name in enumerate(model.rows):
        terms = [_term(c, model.variables[j]) for j, c in model.row(row)]
        if square := model.quadratic_rows.get(row):
            terms += ["+ [", *_quadratic(model, square), "]"]
        yield _comparison(f" {name}:", terms, float(model.row_lower[row]), float(model.row_upper[row]))
    for indicator in model.indicators:
        terms = [_term(c, model.variables[j]) for j, c in indicator.terms]
        head = f" {indicator.name}: {model.variables[indicator.binary]} = {indicator.active} ->"
        yield _comparison(head, terms, indicator.lower, indicator.upper)


def _comparison(head: str, terms: Sequence[str], lower: float, upper: float) -> str:
    if lower == upper:
        return f"{_wrapped(head, terms)} = {number(lower)}"
    if lower == -math.inf:
        return f"{_wrapped(head, terms)} <= {number(upper) if upper < math.inf else 'inf'}"
    if upper == math.inf:
        return f"{_wrapped(head, terms)} >= {number(lower)}"
    return f"{head} {number(lower)} <= {' '.join(terms) or '0'} <= {number(upper)}"  # a side ends with its line


def _bounds(model: Model) -> Iterator[str]:
    yield "Bounds"
    if model.offset:
        yield from (f" {name} = 1" for name in [n for n in NAMES if n not in model.variables][:1])
    for j, name in enumerate(model.variables):
        lower, upper = float(model.lower[j]), float(model.upper[j])
        if (lower, upper) == (0, math.inf) or (_is_binary(model, j)):
            continue
        if (lower, upper) == (-math.inf, math.inf):
            yield f" {name} free"
        elif lower == upper:
            yield f" {name} = {number(lower)}"
        elif upper == math.inf:
            yield f" {name} >= {number(lower)}"
        elif lower == -math.inf:
            yield f" -inf <= {name} <= {number(upper)}"
        else:
            yield f" {number(lower)} <= {name} <= {number(upper)}"


def _is_binary(model: Model, j: int) -> bool:
    return model.kinds[j] == "integer" and model.lower[j] == 0 and model.upper[j] == 1


def _special(model: Model) -> Iterator[str]:
    names = model.variables
    binary = [_is_binary(model, j) for j in range(len(names))]
    listed = {
        "Binaries": [name for j, name in enumerate(names) if binary[j]],
        "Generals": [name for j, name in enumerate(names) if model.kinds[j] in WHOLE and not binary[j]],
        "Semi-Continuous": [name for j, name in enumerate(names) if model.kinds[j] in SEMI],
    }
    for section, members in listed.items():
        if members:
            yield section
            yield from (f" {' '.join(members[k : k + TERMS])}" for k in range(0, len(members), TERMS))
    if model.sos:
        yield "SOS"
    for ordered in model.sos:
        pairs = zip(ordered.members, ordered.weights, strict=True)
        yield f" {ordered.name}: S{ordered.type} :: " + " ".join(f"{names[j]}:{number(w)}" for j, w in pairs)
    if model.functions:
        yield "General Constraints"
    for function in model.functions:
        arguments = [names[j] for j in function.arguments]
        arguments += [number(function.constant)] if function.constant is not None else []
        yield f" {function.name}: {names[function.result]} = {function.kind.upper()} ( {' , '.join(arguments)} )"


def _quadratic(model: Model, square: Quadratic) -> Iterator[str]:
    for (i, j), c in square.items():
        yield _term(c, f"{model.variables[i]} ^2" if i == j else f"{model.variables[i]} * {model.variables[j]}")


def _term(coefficient: float, name: str) -> str:
    sign, size = "-" if math.copysign(1.0, coefficient) < 0 else "+", abs(coefficient)
    return f"{sign} {name}" if size == 1 and name else f"{sign} {number(size)} {name}".rstrip()


def _wrapped(head: str, terms: Sequence[str]) -> str:
    lines = [" ".join(terms[k : k + TERMS]) for k in range(0, len(terms), TERMS)]
    return "\n   ".join([" ".join([head, *lines[:1]]), *lines[1:]])
