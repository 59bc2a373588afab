"""A recorded model as a `Model`, with the names and the order that `from_gurobi` gives for Gurobi's, and back."""

import math
from dataclasses import replace
from typing import Any

from trex.solver.builder import Builder, Row
from trex.solver.formats.binaries import make_binary
from trex.solver.formats.tokens import INFINITE
from trex.solver.model import SOS, Function, Indicator, Model, ModelError
from trex.solver.recorder.store import Column, General, Store

KINDS = {"C": "continuous", "B": "integer", "I": "integer", "S": "semi-continuous", "N": "semi-integer"}
LETTERS = {"continuous": "C", "integer": "I", "semi-continuous": "S", "semi-integer": "N"}


def to_model(store: Store) -> Model:
    """Variables, linear rows, quadratic rows, sets, general constraints.

    Variables whose names are taken get `_1`, `_2`, …. y = x^2 is a quadratic row, a piecewise-linear function its
    breakpoints' weights in a special ordered set. Raises ModelError for what a Model cannot hold.
    """
    builder = Builder(sense="max" if store.sense < 0 else "min", offset=store.offset)
    _columns(store, builder)
    builder.quadratic = _square(store.square)
    for line in (*store.rows, *store.quadratic_rows):
        builder.rows.append(
            Row(line.name, _terms(line.terms), *_sides(line.sense, line.right, line.name), _square(line.square))
        )
    for number, ordered in enumerate(store.sets):
        type_, weights = ordered.data
        places = tuple(column.place for column in ordered.columns)
        builder.sos.append(SOS(f"s{number}", type_, places, weights))
    for general in store.generals:
        _general(general, builder)
    make_binary(builder)
    return builder.model()


def with_names(model: Model, all_new: bool) -> Model:
    """The model as a file has it: unnamed quadratic rows get qc0, …; with `all_new` every name is a default one."""
    if not all_new:
        unnamed = {row: f"qc{k}" for k, row in enumerate(r for r, name in enumerate(model.rows) if not name)}
        return replace(model, rows=tuple(unnamed.get(row, name) for row, name in enumerate(model.rows)))
    return replace(
        model,
        variables=tuple(f"C{j}" for j in range(len(model.variables))),
        rows=tuple(f"R{r}" for r in range(len(model.rows))),
        sos=tuple(replace(part, name=f"s{k}") for k, part in enumerate(model.sos)),
        indicators=tuple(replace(part, name=f"GC{k}") for k, part in enumerate(model.indicators)),
        functions=tuple(
            replace(part, name=f"GC{k}") for k, part in enumerate(model.functions, start=len(model.indicators))
        ),
    )


def fill(model: Any, source: Model) -> None:
    """Add the parts of a `Model` to an empty recorded one."""
    binary = [
        kind == "integer" and (low, up) == (0, 1)
        for kind, low, up in zip(source.kinds, source.lower.tolist(), source.upper.tolist(), strict=True)
    ]
    variables = [
        model.addVar(low, up, cost, "B" if both else LETTERS[kind], name)
        for low, up, cost, kind, name, both in zip(
            source.lower.tolist(), source.upper.tolist(), source.cost.tolist(), source.kinds, source.variables, binary,
            strict=True,
        )
    ]  # fmt: skip
    store: Store = model._recorded
    columns = store.columns
    store.offset, store.sense = source.offset, 1 if source.sense == "min" else -1
    store.square = {(columns[i], columns[j]): c for (i, j), c in source.quadratic.items()}
    for number, name in enumerate(source.rows):
        body = sum((c * variables[j] for j, c in source.row(number)), start=0 * variables[0]) if variables else 0.0
        for (i, j), c in source.quadratic_rows.get(number, {}).items():
            body += c * variables[i] * variables[j]
        low, up = float(source.row_lower[number]), float(source.row_upper[number])
        if low == up:
            model.addConstr(body == low, name)
        elif math.isinf(low) or math.isinf(up):
            model.addConstr(body <= up if math.isinf(low) else body >= low, name)
        else:
            model.addRange(body, low, up, name)
    for ordered in source.sos:
        model.addSOS(ordered.type, [variables[j] for j in ordered.members], list(ordered.weights))
    for given in source.indicators:
        body = sum((c * variables[j] for j, c in given.terms), start=0 * variables[given.binary])
        for side, sense in _each_side(given.lower, given.upper):
            model.addGenConstrIndicator(variables[given.binary], given.active, body, sense, side, given.name)
    for function in source.functions:
        used = tuple(columns[j] for j in (function.result, *function.arguments))
        model._general(General(store, len(store.generals), function.name, function.kind, used, function.constant))
    model.update()


def _each_side(low: float, up: float) -> list[tuple[float, str]]:
    if low == up:
        return [(low, "=")]
    return [(side, sense) for side, sense in ((low, ">"), (up, "<")) if math.isfinite(side)]


def _columns(store: Store, builder: Builder) -> None:
    taken = {column.name for column in store.columns}
    for given in store.columns:
        name, copy = given.name, 0
        while name in builder.place or (copy and name in taken):
            copy += 1
            name = f"{given.name}_{copy}"
        column = builder.column(name)
        column.cost, column.kind = given.cost, KINDS[given.kind]
        column.lower, column.upper = _finite(given.lower), _finite(given.upper)
        if given.kind == "B":
            column.lower, column.upper = max(column.lower, 0.0), min(column.upper, 1.0)


def _finite(side: float) -> float:
    return side if abs(side) < INFINITE else math.copysign(math.inf, side)


def _sides(sense: str, right: float, name: str) -> tuple[float, float]:
    side = _finite(right)
    if side == (math.inf if sense == ">" else -math.inf) or (sense == "=" and math.isinf(side)):
        raise ModelError(f"row {name!r} has the right side {right}; accepted: a number within {INFINITE:g}")
    return (-math.inf if sense == "<" else side), (math.inf if sense == ">" else side)


def _terms(terms: dict[Column, float]) -> dict[int, float]:
    return dict(sorted((column.place, c) for column, c in terms.items()))


def _square(square: dict[tuple[Column, Column], float]) -> dict[tuple[int, int], float]:
    return {(a.place, b.place): c for (a, b), c in square.items()}


def _general(general: General, builder: Builder) -> None:
    places = tuple(column.place for column in general.columns)
    if general.kind == "indicator":
        active, terms, sense, right = general.data
        lower, upper = _sides(sense, right, general.name)
        builder.indicators.append(
            Indicator(general.name, places[0], active, tuple(_terms(terms).items()), lower, upper)
        )
    elif general.kind == "pow":
        square = {(places[0], places[0]): -1.0} if general.data == 2 else {}
        terms = dict(sorted({places[1]: 1.0, **({} if square else {places[0]: -1.0})}.items()))
        if not square and places[0] == places[1]:
            terms = {places[0]: 0.0}
        builder.rows.append(Row(general.name, terms, 0.0, 0.0, square))
    elif general.kind == "pwl":
        _piecewise(general, places, builder)
    else:
        constant = general.data if general.data is not None and abs(general.data) < INFINITE else None
        builder.functions.append(Function(general.name, general.kind, places[0], places[1:], constant))


def _piecewise(general: General, places: tuple[int, ...], builder: Builder) -> None:
    """y = f(x) through breakpoints: their weights sum to 1, at most two neighbours are not 0.

    Beyond the first and the last, f goes on with the slope that it has there: a distance beside each of them, which is
    not 0 only beside that one.
    """
    xs, ys = general.data
    ends = [-_slope(xs[:2], ys[:2], general.name), _slope(xs[-2:], ys[-2:], general.name)]
    steps = [(-1.0, ends[0]), *zip(xs, ys, strict=True), (1.0, ends[1])]
    weights = []
    for number in range(len(steps)):
        name = f"{general.name}_{number}"
        while name in builder.place:
            name += "_"
        weights.append(builder.variable(name))
    for what, place, values in (("x", places[0], [x for x, _ in steps]), ("y", places[1], [y for _, y in steps])):
        row = {place: -1.0, **{j: value for j, value in zip(weights, values, strict=True) if value}}
        builder.rows.append(Row(f"{general.name}_{what}", row, 0.0, 0.0))
    builder.rows.append(Row(f"{general.name}_sum", dict.fromkeys(weights[1:-1], 1.0), 1.0, 1.0))
    builder.sos.append(
        SOS(f"s{len(builder.sos)}", 2, tuple(weights), tuple(float(k) for k in range(1, len(weights) + 1)))
    )


def _slope(xs: list[float], ys: list[float], name: str) -> float:
    if xs[0] == xs[1]:
        raise ModelError(f"{name!r} begins or ends with a jump at {xs[0]}; accepted: two different points at each end")
    return (ys[1] - ys[0]) / (xs[1] - xs[0])
