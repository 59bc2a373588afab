"""Changes of a model in one place, as an explanation of a wrong one tries them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trex.solver.model import SEMI, Model

TURNED = {"min": "max", "max": "min"}
SCALES = ("as they are", "largest", "side")  # what `scaled_rows` divides by
STEM = re.compile(r"[\[({].*|[_.,]*\d[\d_.,]*$")  # what is cut off: an index in brackets, or digits at the end


@dataclass(frozen=True)
class Group:
    """Rows that say one thing, and what to call them."""

    name: str
    rows: tuple[int, ...]


def turned(model: Model) -> Model:
    """The other sense of the objective."""
    return replace(model, sense=TURNED[model.sense])


def negated(model: Model) -> Model:
    """The objective's terms with their signs turned, its constant as it is."""
    return replace(model, cost=-model.cost, quadratic={pair: -c for pair, c in model.quadratic.items()})


def of_kind(model: Model, kind: str, columns: Iterable[int] | None = None, wider: bool = False) -> Model:
    """Variables, all or some, made "continuous" or "integer"; semi-continuous and logical ones stay as they are.

    `wider` lets integer variables that end at 1 go on without end.
    """
    logical = {i.binary for i in model.indicators}
    logical |= {j for f in model.functions if f.kind in ("and", "or") for j in (f.result, *f.arguments)}
    kinds, upper = list(model.kinds), model.upper.copy()
    for j in range(len(kinds)) if columns is None else columns:
        if kinds[j] in SEMI or j in logical:
            continue
        if wider and kinds[j] == "integer" and upper[j] == 1:
            upper[j] = np.inf
        kinds[j] = kind
    return replace(model, kinds=tuple(kinds), upper=upper)


def without_rows(model: Model, rows: Iterable[int]) -> Model:
    """The model without some rows."""
    gone = set(rows)
    kept = [row for row in range(len(model.rows)) if row not in gone]
    entries = [k for row in kept for k in range(int(model.start[row]), int(model.start[row + 1]))]
    sizes = [int(model.start[row + 1] - model.start[row]) for row in kept]
    return replace(
        model,
        rows=tuple(model.rows[row] for row in kept),
        row_lower=model.row_lower[kept],
        row_upper=model.row_upper[kept],
        start=np.cumsum([0, *sizes]).astype(np.int64),
        index=model.index[entries],
        value=model.value[entries],
        quadratic_rows={new: model.quadratic_rows[row] for new, row in enumerate(kept) if row in model.quadratic_rows},
    )


def without_bounds(model: Model) -> Model:
    """Without bounds of variables, and without rows of one entry, which are bounds too; semi-continuous ones keep them.

    Variables of logical constraints keep theirs.
    """
    sizes = np.diff(model.start)
    single = [r for r in range(len(model.rows)) if sizes[r] == 1 and r not in model.quadratic_rows]
    kept = {i.binary for i in model.indicators}
    kept |= {j for f in model.functions for j in (f.result, *f.arguments)}
    kept |= {j for j, kind in enumerate(model.kinds) if kind in SEMI}
    free = [j for j in range(len(model.variables)) if j not in kept]
    lower, upper = model.lower.copy(), model.upper.copy()
    lower[free], upper[free] = -np.inf, np.inf
    return without_rows(replace(model, lower=lower, upper=upper), single)


def without_objective(model: Model) -> Model:
    """The same constraints with nothing to optimise."""
    return replace(model, sense="min", offset=0.0, cost=np.zeros_like(model.cost), quadratic={})


def scaled_objective(model: Model, factor: float, constant: bool = True) -> Model:
    """The objective times a factor, with its constant or without."""
    return replace(
        model,
        offset=model.offset * factor if constant else model.offset,
        cost=model.cost * factor,
        quadratic={pair: c * factor for pair, c in model.quadratic.items()},
    )


def with_costs(model: Model, costs: Mapping[int, float]) -> Model:
    """Some objective coefficients replaced."""
    cost = model.cost.copy()
    for j, value in costs.items():
        cost[j] = value
    return replace(model, cost=cost)


def with_values(model: Model, values: Mapping[int, float]) -> Model:
    """Some entries of rows replaced, by their place in `Model.value`."""
    value = model.value.copy()
    for k, new in values.items():
        value[k] = new
    return replace(model, value=value)


def scaled_column(model: Model, columns: Iterable[int], factor: float) -> Model:
    """Variables in other units: x = factor * the new x, in objective, rows and bounds. The factor is positive."""
    gone = set(columns)
    cost, lower, upper, value = (part.copy() for part in (model.cost, model.lower, model.upper, model.value))
    for j in gone:
        cost[j] *= factor
        lower[j], upper[j] = lower[j] / factor, upper[j] / factor
    value[np.isin(model.index, list(gone))] *= factor
    return replace(model, cost=cost, lower=lower, upper=upper, value=value)


def with_sides(model: Model, sides: Mapping[int, tuple[float, float]]) -> Model:
    """Some rows with other lower and upper sides."""
    low, high = model.row_lower.copy(), model.row_upper.copy()
    for row, ends in sides.items():
        low[row], high[row] = ends
    return replace(model, row_lower=low, row_upper=high)


def turned_rows(model: Model, rows: Iterable[int]) -> Model:
    """Rows <= as >= and the other way round; equations and ranges stay."""
    sides = {}
    for row in rows:
        low, high = float(model.row_lower[row]), float(model.row_upper[row])
        if np.isinf(low) != np.isinf(high):
            sides[row] = (high, np.inf) if np.isinf(low) else (-np.inf, low)
    return with_sides(model, sides)


def scaled_rows(model: Model, by: str) -> Model:
    """Each linear row divided by its largest coefficient or its first side that is not 0, turned to <= if it is >=."""
    value, low, high = model.value.copy(), model.row_lower.copy(), model.row_upper.copy()
    for row in range(len(model.rows)) if by != "as they are" else ():
        entries = slice(int(model.start[row]), int(model.start[row + 1]))
        size = max((abs(v) for _, v in model.row(row)), default=0.0)
        if by == "side":
            size = next((abs(float(x)) for x in (low[row], high[row]) if x and np.isfinite(x)), 0.0)
        if not size or row in model.quadratic_rows:
            continue
        factor = -1 / size if np.isfinite(low[row]) and np.isinf(high[row]) else 1 / size
        value[entries] *= factor
        ends = sorted((float(low[row]) * factor, float(high[row]) * factor))
        low[row], high[row] = ends
    return replace(model, value=value, row_lower=low, row_upper=high)


def stem(name: str) -> str:
    """A name without its index: "cap" of "cap[1]", "cap(a,2)", "cap_0_1" and "cap3"."""
    return STEM.sub("", name) or name


def groups(model: Model) -> list[Group]:
    """Rows with one stem, rows that look alike (sense and stems of their variables), and single rows; each once."""
    stems: dict[object, list[int]] = {}
    looks: dict[object, list[int]] = {}
    variables = [stem(name) for name in model.variables]
    for row, name in enumerate(model.rows):
        stems.setdefault(stem(name), []).append(row)
        ends = (bool(np.isfinite(model.row_lower[row])), bool(np.isfinite(model.row_upper[row])))
        looks.setdefault((ends, frozenset(variables[j] for j, _ in model.row(row))), []).append(row)
    found: dict[tuple[int, ...], Group] = {}
    for members in (*stems.values(), *looks.values(), *([row] for row in range(len(model.rows)))):
        rows = tuple(members)
        found.setdefault(rows, Group(named("row", [model.rows[row] for row in rows]), rows))
    return list(found.values())


def column_groups(model: Model) -> list[tuple[str, tuple[int, ...]]]:
    """Variables with one stem, and how to call them."""
    stems: dict[str, list[int]] = {}
    for j, name in enumerate(model.variables):
        stems.setdefault(stem(name), []).append(j)
    return [(named("variable", [model.variables[j] for j in found]), tuple(found)) for found in stems.values()]


def named(what: str, names: Sequence[str], most: int = 4) -> str:
    """`row 'a'`, `rows 'a', 'b'`, `rows 'a', 'b', 'c', 'd' and 8 more`."""
    shown = ", ".join(f"{name[:60]!r}" for name in names[:most])
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{what}{'s' * (len(names) != 1)} {shown}{more}"
