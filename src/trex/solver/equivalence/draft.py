"""A model under simplification: as a minimum, without fixed columns, singleton rows and empty rows.

Every step keeps the set of feasible points (of the columns that are left; the others follow from them) and the
objective on it.
"""

import math
from dataclasses import dataclass, field

from trex.solver.model import SEMI, WHOLE, Model

SNAP = 2e-15  # relative: what sums and quotients of scaled numbers may be off by


@dataclass
class DraftRow:
    """lower <= terms + quadratic <= upper."""

    name: str
    terms: dict[int, float]
    lower: float
    upper: float
    quadratic: dict[tuple[int, int], float] = field(default_factory=dict)

    @property
    def equality(self) -> bool:
        """Whether both sides are one number."""
        return self.lower == self.upper


@dataclass
class Draft:
    """Columns keep the numbers of the model; those that are gone are not in `alive`."""

    model: Model
    whole: list[bool]
    semi: list[bool]
    lower: list[float]
    upper: list[float]
    cost: list[float]
    offset: float
    rows: list[DraftRow]
    quadratic: dict[tuple[int, int], float]
    alive: set[int]
    fixed: dict[int, float]  # columns that left because their bounds are one number
    defined: dict[
        int, tuple[dict[int, float], float]
    ]  # columns that left as terms over others and a constant, in order
    special: set[int]  # columns in sets, indicators, functions, and semi-continuous ones: left as they are
    bounds_from: dict[int, list[str]] = field(default_factory=dict)  # column -> singleton rows that became its bounds
    steps: list[str] = field(default_factory=list)
    ambiguous: bool = False  # whether another choice of columns to eliminate was open

    @property
    def squared(self) -> set[int]:
        """Columns in quadratic terms."""
        every = (self.quadratic, *(row.quadratic for row in self.rows))
        return {j for terms in every for pair in terms for j in pair}

    def uses(self) -> dict[int, list[DraftRow]]:
        """The rows that each column is in, by its linear terms."""
        found: dict[int, list[DraftRow]] = {j: [] for j in self.alive}
        for row in self.rows:
            for j in row.terms:
                found[j].append(row)
        return found


def draft(model: Model) -> Draft:
    """The model as a minimum, with rows as dictionaries; entries of 0 are left out, repeated ones added up."""
    sign = 1.0 if model.sense == "min" else -1.0
    rows = []
    for number, name in enumerate(model.rows):
        terms: dict[int, float] = {}
        for j, value in model.row(number):
            terms[j] = terms.get(j, 0.0) + value
        quadratic = {pair: c for pair, c in model.quadratic_rows.get(number, {}).items() if c}
        terms = {j: value for j, value in terms.items() if value}
        rows.append(DraftRow(name, terms, float(model.row_lower[number]), float(model.row_upper[number]), quadratic))
    special = {j for j, kind in enumerate(model.kinds) if kind in SEMI}
    special |= {j for ordered in model.sos for j in ordered.members}
    special |= {j for i in model.indicators for j in (i.binary, *(k for k, _ in i.terms))}
    special |= {j for f in model.functions for j in (f.result, *f.arguments)}
    return Draft(
        model=model,
        whole=[kind in WHOLE for kind in model.kinds],
        semi=[kind in SEMI for kind in model.kinds],
        lower=model.lower.tolist(),
        upper=model.upper.tolist(),
        cost=[sign * c for c in model.cost.tolist()],
        offset=sign * model.offset,
        rows=rows,
        quadratic={pair: sign * c for pair, c in model.quadratic.items() if c},
        alive=set(range(len(model.variables))),
        fixed={},
        defined={},
        special=special,
    )


def simplify(work: Draft) -> None:
    """Singleton rows to bounds, bounds of integers rounded, fixed columns to constants; until nothing changes.

    The outcome does not depend on the order of rows and columns, for contradictory models neither.
    """
    for j in work.alive:
        _round(work, j)
    changed = True
    while changed:
        changed = _bounds(work)
        changed |= _fixed(work)


def _bounds(work: Draft) -> bool:
    """Rows with one entry or none become bounds, or are checked and dropped."""
    kept = []
    for row in work.rows:
        if row.quadratic or len(row.terms) > 1 or any(work.semi[j] for j in row.terms):
            kept.append(row)
        elif not row.terms:
            if not row.lower <= 0 <= row.upper:
                kept.append(row)  # no point is feasible
        else:
            ((j, value),) = row.terms.items()
            ends = row.lower / value, row.upper / value
            low, high = ends if value > 0 else ends[::-1]
            work.lower[j], work.upper[j] = max(work.lower[j], low), min(work.upper[j], high)
            work.bounds_from.setdefault(j, []).append(row.name)
            _round(work, j)
    changed = len(kept) < len(work.rows)
    work.rows = kept
    return changed


def _round(work: Draft, j: int) -> None:
    """Bounds of an integer column as integers; bounds that cross by rounding alone as one."""
    low, high = work.lower[j], work.upper[j]
    if work.whole[j] and not work.semi[j]:
        low, high = _ceil(low), -_ceil(-high)
    if low > high and low - high <= SNAP * max(abs(low), abs(high)):
        low = high
    work.lower[j], work.upper[j] = low + 0.0, high + 0.0


def _ceil(value: float) -> float:
    if not math.isfinite(value):
        return value
    near = round(value)
    return float(near) if abs(value - near) <= SNAP * max(1.0, abs(value)) else float(math.ceil(value))


def _fixed(work: Draft) -> bool:
    """Columns whose bounds are one number leave rows and objective."""
    gone = {j for j in work.alive - work.special if work.lower[j] == work.upper[j]}
    if not gone:
        return False
    work.alive -= gone
    at = work.lower
    work.fixed |= {j: at[j] for j in gone}
    for j in gone:
        work.offset = shifted(work.offset, [work.cost[j] * at[j]])
    work.quadratic, linear, constant = _without(work.quadratic, gone, at)
    for j, value in linear.items():
        work.cost[j] = shifted(work.cost[j], [value])
    work.offset = shifted(work.offset, [constant])
    for row in work.rows:
        moved = [value * at[j] for j, value in row.terms.items() if j in gone]
        row.terms = {j: value for j, value in row.terms.items() if j not in gone}
        if row.quadratic:
            row.quadratic, linear, constant = _without(row.quadratic, gone, at)
            moved.append(constant)
            for j, value in linear.items():
                row.terms[j] = shifted(row.terms.get(j, 0.0), [value])
            row.terms = {j: value for j, value in row.terms.items() if value}
        row.lower, row.upper = (shifted(side, [-value for value in moved]) for side in (row.lower, row.upper))
    return True


def _without(
    terms: dict[tuple[int, int], float], gone: set[int], at: list[float]
) -> tuple[dict[tuple[int, int], float], dict[int, float], float]:
    """Quadratic terms with some columns at their values: what stays quadratic, what became linear, the constant."""
    kept: dict[tuple[int, int], float] = {}
    linear: dict[int, float] = {}
    constants = []
    for (i, j), c in terms.items():
        if i in gone and j in gone:
            constants.append(c * at[i] * at[j])
        elif i in gone or j in gone:
            rest, fixed = (j, i) if i in gone else (i, j)
            linear[rest] = linear.get(rest, 0.0) + c * at[fixed]
        else:
            kept[i, j] = c
    return kept, linear, math.fsum(constants)


def shifted(side: float, by: list[float]) -> float:
    """A sum, taken as 0 where only rounding is left of its parts."""
    if not math.isfinite(side):
        return side
    total = math.fsum([side, *by])
    return 0.0 if abs(total) <= SNAP * max(map(abs, (side, *by))) else total
