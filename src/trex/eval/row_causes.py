"""Rows and bounds that one model has and the other has not, and rows that differ."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from trex.eval import repairs
from trex.eval.factors import as_text, common, is_unit
from trex.eval.repairs import Group, named
from trex.eval.search import CONSTRAINTS, RATIO, Cause, Search, among, images, spare
from trex.solver.equivalence.graph import Classes
from trex.solver.model import Model

MOST_PAIRS = 60  # of a group of the answer with one of the reference
MOST_ALIKE = 200  # of single rows


def unlike(s: Search) -> Cause | None:
    """A row or group that only one of the models has, among rows without a twin in the other."""
    return _one_sided(s, True)


def one_sided(s: Search) -> Cause | None:
    """A row or group that only one of the models has, among all others."""
    return _one_sided(s, False)


def _one_sided(s: Search, without_twin: bool) -> Cause | None:
    looks = _looks(s.answer, s.reference)
    for group in _candidates(s.answer, looks[0], looks[1], without_twin):
        if s.same(repairs.without_rows(s.answer, group.rows), s.reference):
            return Cause(CONSTRAINTS, f"extra: without {group.name} the model is the reference")
    for group in _candidates(s.reference, looks[1], looks[0], without_twin):
        if s.same(s.answer, repairs.without_rows(s.reference, group.rows)):
            return Cause(CONSTRAINTS, f"missing: the model is the reference without its {group.name}")
    return None


def _candidates(model: Model, looks: list[object], others: list[object], without_twin: bool) -> list[Group]:
    """Groups all of whose rows are such that the other model has fewer of them, or all other groups."""
    more = Counter(looks) - Counter(others)
    return [g for g in repairs.groups(model) if all(more[looks[row]] for row in g.rows) == without_twin]


def _looks(*models: Model) -> tuple[list[object], ...]:
    """What each row is, whatever its variables are: scaled coefficients in order, and scaled sides."""
    found: list[list[list[tuple[float, list[float]]]]] = []
    for model in models:
        found.append([])
        for row in range(len(model.rows)):
            values = [value for _, value in model.row(row) if value]
            largest = max(map(abs, values), default=1.0)
            halves = []
            for sign, side in ((1.0, float(model.row_upper[row])), (-1.0, float(model.row_lower[row]))):
                if values and sign * side < math.inf:
                    halves.append((sign * side / largest, [sign * value / largest for value in values]))
                elif sign * side < 0:  # an empty row that nothing satisfies, whatever its scale
                    halves.append((-1.0, []))
            found[-1].append(halves)
    classes = Classes(x for rows in found for halves in rows for side, values in halves for x in (side, *values))
    return tuple(
        [
            tuple(sorted((classes.of(side), tuple(sorted(map(classes.of, values)))) for side, values in halves))
            for halves in rows
        ]
        for rows in found
    )


def bounds(s: Search) -> Cause | None:
    """Bounds of variables, where all else is the same."""
    stripped = repairs.without_bounds(s.answer), repairs.without_bounds(s.reference)
    if (verdict := s.match(*stripped)) is None:
        return None
    first, second = (_bounds_of(model) for model in (s.answer, s.reference))
    mapping = images(*stripped, verdict)
    pairs = [
        (name, first[name], second[image])
        for name, image in mapping.items()
        if not all(map(_near, first[name], second[image]))
    ]
    spare_a, spare_b = spare(*([x for ends in found.values() for x in ends] for found in (first, second)))
    factor = common(spare_a, spare_b)
    if factor is not None and is_unit(factor):
        return Cause(RATIO, f"bounds of {named('variable', [p[0] for p in pairs])} are {as_text(factor)} times the "
                            "reference's")  # fmt: skip
    shown = ", ".join(f"{name} in {_range(x)}, {_range(y)} in the reference" for name, x, y in pairs[:3])
    more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    return Cause(CONSTRAINTS, f"the models are equal but for bounds of variables: {shown}{more}")


def _bounds_of(model: Model) -> dict[str, tuple[float, float]]:
    """Bounds with those that rows of one entry set."""
    low, high = model.lower.tolist(), model.upper.tolist()
    for row in range(len(model.rows)):
        terms = model.row(row)
        if len(terms) == 1 and terms[0][1] and row not in model.quadratic_rows:
            ((j, value),) = terms
            ends = sorted((float(model.row_lower[row]) / value, float(model.row_upper[row]) / value))
            low[j], high[j] = max(low[j], ends[0]), min(high[j], ends[1])
    return {name: (low[j], high[j]) for j, name in enumerate(model.variables)}


def two_sided(s: Search) -> Cause | None:
    """A row or group of the answer beside one of the reference: how they differ, where all else is the same."""
    for group, other in _pairs(s):
        if s.over:
            return None
        without = repairs.without_rows(s.answer, group.rows), repairs.without_rows(s.reference, other.rows)
        if not s.same(*without):
            continue
        return _how_rows_differ(s, group, other)
    return None


def _pairs(s: Search) -> Iterator[tuple[Group, Group]]:
    """Groups that have rows without a twin, and hold all such rows of their model."""
    looks = _looks(s.answer, s.reference)
    more = Counter(looks[0]) - Counter(looks[1]), Counter(looks[1]) - Counter(looks[0])
    sides = []
    for model, found, only in zip((s.answer, s.reference), looks, more, strict=True):
        whole = only.total()
        fitting = [
            g for g in repairs.groups(model) if sum((Counter(found[r] for r in g.rows) & only).values()) == whole
        ]
        sides.append(sorted(fitting, key=lambda g: len(g.rows)) if whole else [])
    if not sides[0] and not sides[1]:  # rows may look alike and be about other variables
        yield from islice(_alike(s, *looks), MOST_ALIKE)
    count = 0
    for total in sorted({len(a.rows) + len(b.rows) for a in sides[0] for b in sides[1]}):
        for a in sides[0]:
            for b in sides[1]:
                if len(a.rows) + len(b.rows) == total and (count := count + 1) <= MOST_PAIRS:
                    yield a, b


def _alike(s: Search, looks: list[object], others: list[object]) -> Iterator[tuple[Group, Group]]:
    """Single rows of both models that look alike."""
    for row, look in enumerate(looks):
        for other in (k for k, each in enumerate(others) if each == look):
            yield tuple(Group(named("row", [m.rows[r]]), (r,)) for m, r in ((s.answer, row), (s.reference, other)))  # type: ignore[misc]


def turned_rows(s: Search) -> Cause | None:
    """A row or group that is the reference's the other way round."""
    for group in repairs.groups(s.answer):
        if s.same(repairs.turned_rows(s.answer, group.rows), s.reference):
            return _turned(group)
    return None


def _turned(group: Group) -> Cause:
    return Cause(CONSTRAINTS, f"{group.name}: turned the other way (<= or >=) the model is the reference")


def _how_rows_differ(s: Search, group: Group, other: Group) -> Cause:
    """A turned sense, a factor of sides or coefficients, other sides, or more than that.

    Rows are compared as they are, then scaled by their largest coefficient, then by their side.
    """
    a, b = s.answer, s.reference
    if s.same(repairs.turned_rows(a, group.rows), b):
        return _turned(group)
    for scale in repairs.SCALES:
        scaled = replace(s, answer=repairs.scaled_rows(a, scale), reference=repairs.scaled_rows(b, scale))
        found = _sides(scaled, group, other) or _coefficients(scaled, group, other)
        if found is not None:
            return found
    texts = [_relation(m, g) for m, g in ((a, group), (b, other))]
    how = f" ({texts[0]}; {texts[1]} in the reference)" if texts[0] != texts[1] else ""
    return Cause(CONSTRAINTS, f"all but {group.name} is the reference without its {other.name}{how}")


def _sides(s: Search, group: Group, other: Group) -> Cause | None:
    """Sides of these rows off by one factor."""
    a, b = s.answer, s.reference
    ends = [[float(x) for r in g.rows for x in (m.row_lower[r], m.row_upper[r]) if np.isfinite(x)]
            for m, g in ((a, group), (b, other))]  # fmt: skip
    only = spare(*ends)
    if len(ends[0]) == 1 and only[0] and len(ends[1]) == 1:  # any two numbers have a factor, but for 0
        row, (low, high) = group.rows[0], (float(x[other.rows[0]]) for x in (b.row_lower, b.row_upper))
        if s.same(repairs.with_sides(a, {row: (low, high)}), b) and not all(map(math.prod, only)):
            return Cause(CONSTRAINTS, f"{group.name}: right side {_list(only[0])}, {_list(only[1])} in the reference")
    if (factor := common(*only)) is None:
        return None
    sides = {}
    for r in group.rows:
        low, high = (x / factor if among(x, only[0]) else x for x in (float(a.row_lower[r]), float(a.row_upper[r])))
        sides[r] = (low, high) if low <= high else (high, low)
    if not s.same(repairs.with_sides(a, sides), b):
        return None
    if is_unit(factor):
        return Cause(RATIO, f"right sides of {group.name} are {as_text(factor)} times the reference's")
    return Cause(CONSTRAINTS, f"{group.name}: right side {_list(only[0])}, {_list(only[1])} in the reference")


def _coefficients(s: Search, group: Group, other: Group) -> Cause | None:
    """Coefficients of these rows off by one factor."""
    places = [k for r in group.rows for k in range(int(s.answer.start[r]), int(s.answer.start[r + 1]))]
    only = spare([float(s.answer.value[k]) for k in places], [v for r in other.rows for _, v in s.reference.row(r)])
    if (factor := common(*only)) is None:
        return None
    alike = [k for k in places if among(float(s.answer.value[k]), only[0])]
    chosen: list[Sequence[int]] = [alike] if len(alike) == len(only[0]) else []
    chosen = chosen or ([[k] for k in alike] if len(only[0]) == 1 else [])
    for entries in chosen:
        fixed = repairs.with_values(s.answer, {k: float(s.answer.value[k]) / factor for k in entries})
        if s.same(fixed, s.reference):
            names = sorted({s.answer.variables[int(s.answer.index[k])] for k in entries})
            text = f"coefficients of {named('variable', names)} in {group.name} are {as_text(factor)} times"
            return Cause(RATIO, f"{text} the reference's")
    return None


def _near(x: float, y: float) -> bool:
    return among(x, [y])


def _list(numbers: Sequence[float]) -> str:
    return ", ".join(f"{x:.12g}" for x in numbers[:4]) + (", …" if len(numbers) > 4 else "")


def _range(ends: tuple[float, float]) -> str:
    return f"[{ends[0]:.12g}, {ends[1]:.12g}]"


def _relation(model: Model, group: Group) -> str:
    """The senses of rows."""
    found = {
        "=" if low == high else "<=" if low == -math.inf else ">=" if high == math.inf else "a range"
        for low, high in ((float(model.row_lower[r]), float(model.row_upper[r])) for r in group.rows)
    }
    return " and ".join(sorted(found))
