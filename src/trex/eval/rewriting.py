"""Models rewritten without changing what they say, and models changed in one place: what equivalence is tried on."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trex.solver.model import SOS, Function, Indicator, Model, Quadratic

KINDS = ("coefficient", "side", "cost", "drop", "type", "objective sense", "row sense", "bound")


def renamed(model: Model, rng: random.Random) -> Model:
    """The same model: variables, rows and entries in another order, with other names."""
    return _moved(model, rng, turn=False)


def rewritten(model: Model, rng: random.Random) -> Model:
    """As `renamed`, with rows scaled and turned, and objective and sense turned together."""
    return _moved(model, rng, turn=True)


def _moved(model: Model, rng: random.Random, turn: bool) -> Model:
    columns = len(model.variables)
    place = rng.sample(range(columns), columns)  # old variable -> new
    old = np.argsort(place)
    order = rng.sample(range(len(model.rows)), len(model.rows))
    start, index, value, sides = [0], [], [], []
    quadratic_rows: dict[int, Quadratic] = {}
    for new, row in enumerate(order):
        factor = rng.choice((1, -1)) * 10 ** rng.uniform(-2, 2) if turn else 1.0
        entries = [(place[j], v * factor) for j, v in model.row(row)]
        rng.shuffle(entries)
        index += [j for j, _ in entries]
        value += [v for _, v in entries]
        start.append(len(index))
        ends = model.row_lower[row] * factor, model.row_upper[row] * factor
        sides.append(ends if factor > 0 else ends[::-1])
        if row in model.quadratic_rows:
            quadratic_rows[new] = _placed(model.quadratic_rows[row], place, factor)
    sign = rng.choice((1.0, -1.0)) if turn else 1.0
    return Model(
        sense=model.sense if sign > 0 else {"min": "max", "max": "min"}[model.sense],
        offset=sign * model.offset,
        variables=tuple(f"y{k}" for k in range(columns)),
        kinds=tuple(model.kinds[j] for j in old),
        cost=sign * model.cost[old],
        lower=model.lower[old],
        upper=model.upper[old],
        rows=tuple(f"row{k}" for k in range(len(order))),
        row_lower=np.array([low for low, _ in sides], dtype=float),
        row_upper=np.array([high for _, high in sides], dtype=float),
        start=np.array(start, dtype=np.int64),
        index=np.array(index, dtype=np.int64),
        value=np.array(value, dtype=float),
        quadratic=_placed(model.quadratic, place, sign),
        quadratic_rows=quadratic_rows,
        sos=tuple(SOS(s.name, s.type, tuple(place[j] for j in s.members), s.weights) for s in model.sos),
        indicators=tuple(
            Indicator(i.name, place[i.binary], i.active, tuple((place[j], c) for j, c in i.terms), i.lower, i.upper)
            for i in model.indicators
        ),
        functions=tuple(
            Function(f.name, f.kind, place[f.result], tuple(place[j] for j in f.arguments), f.constant)
            for f in model.functions
        ),
    )


def _placed(terms: Quadratic, place: Sequence[int], factor: float) -> Quadratic:
    return {(min(place[i], place[j]), max(place[i], place[j])): c * factor for (i, j), c in terms.items()}


def mutated(model: Model, rng: random.Random) -> tuple[str, Model]:
    """One random change of a linear model, and its kind (of KINDS); what would change nothing is drawn again."""
    kind = rng.choice(KINDS)
    changed = _mutated(model, kind, rng)
    return (kind, changed) if changed is not None else mutated(model, rng)


def _mutated(model: Model, kind: str, rng: random.Random) -> Model | None:
    variable = rng.randrange(len(model.variables))
    if kind == "objective sense":
        return replace(model, sense={"min": "max", "max": "min"}[model.sense])
    if kind == "cost":
        cost = model.cost.copy()
        cost[variable] = cost[variable] * 1.01 or 1.0
        return replace(model, cost=cost)
    if kind == "type":
        kinds = list(model.kinds)
        kinds[variable] = {"continuous": "integer", "integer": "continuous"}[kinds[variable]]
        return replace(model, kinds=tuple(kinds))
    if kind == "bound":
        upper = model.upper.copy()
        upper[variable] = upper[variable] + 1 if np.isfinite(upper[variable]) else 7.0
        return replace(model, upper=upper)
    if not model.rows:
        return None
    if kind == "coefficient":
        if not len(model.value):
            return None
        value = model.value.copy()
        value[rng.randrange(len(value))] *= 1.01
        return replace(model, value=value)
    row = rng.randrange(len(model.rows))
    low, high = float(model.row_lower[row]), float(model.row_upper[row])
    ends = {
        "side": (low + 1, high + 1),
        "drop": (-np.inf, np.inf),
        "row sense": (low, np.inf)
        if low == high
        else (high if high < np.inf else -np.inf, low if low > -np.inf else np.inf),
    }[kind]
    if ends == (low, high):
        return None
    row_lower, row_upper = model.row_lower.copy(), model.row_upper.copy()
    row_lower[row], row_upper[row] = ends
    return replace(model, row_lower=row_lower, row_upper=row_upper)
