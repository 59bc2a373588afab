"""Under a given matching of variables: does each model imply every row of the other, and are the objectives one?"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from trex.solver.equivalence.canonical import Canonical, HalfSpace
from trex.solver.equivalence.graph import TOLERANCE
from trex.solver.equivalence.matched import defined_alike, fixed_alike
from trex.solver.equivalence.region import Region, excess, outside

IMPLIED_BY_A, IMPLIED_BY_B = "implied by a", "implied by b"  # where the other model has no such row


@dataclass(frozen=True)
class Finding:
    """`holds` True: proved; False: `point` of the set named by `within` breaks `what`; None: not decided."""

    holds: bool | None
    what: str = ""
    within: str = ""  # "a" or "b"
    point: NDArray[np.float64] | None = None
    values: tuple[float, float] = (0.0, 0.0)  # of both models' objectives, or left side and side of the row
    rows: tuple[tuple[str, str], ...] = ()  # rows of a with those of b that say the same, or that they are implied


def same_set(mapping: NDArray[np.int64], a: Region, b: Region) -> Finding:
    """Whether `mapping` [columns of a] to columns of b turns a's set and objective into b's."""
    back = np.argsort(mapping)
    if others_alike(mapping.tolist(), a.form, b.form) is None:
        return Finding(None)
    rows: list[tuple[str, str]] = []
    for within, region, other, image in (("b", b, a, mapping), ("a", a, b, back)):
        twins: dict[object, list[HalfSpace]] = {}
        for half in region.form.halves:
            twins.setdefault(_key(half.terms), []).append(half)
        for half in (*other.form.halves, *_bounds(other.form)):
            terms = tuple(sorted((int(image[j]), value) for j, value in half.terms))
            if len(terms) == 1 and half.rows[0].startswith("bounds of "):
                j, sign = terms[0]
                has = sign * (region.form.upper[j] if sign > 0 else region.form.lower[j])
                if has <= half.side + TOLERANCE * abs(half.side):
                    continue
            twin = next((twin for twin in twins.get(_key(terms), ()) if _tighter(twin, terms, half.side)), None)
            if twin is not None:
                rows += [(half.rows[0], twin.rows[0])] if within == "b" else []
                continue
            largest = region.reach(dict(terms), half.side)
            broken = outside(half, terms, largest)
            if broken is None or largest.point is None:
                return Finding(None)
            if not broken:
                rows.append((half.rows[0], IMPLIED_BY_B) if within == "b" else (IMPLIED_BY_A, half.rows[0]))
            elif region.holds(largest.point):
                beyond, _ = excess(half, terms, largest.point)
                left = float(beyond + Fraction(half.side))
                return Finding(False, half.rows[0], within, largest.point, (left * half.scale, half.side * half.scale))
            else:
                return Finding(None)
    for j, whole in enumerate(a.form.whole):
        if whole != b.form.whole[mapping[j]]:
            return Finding(None)
    return _same_objective(mapping, a.form, b, tuple(dict.fromkeys(rows)))


def _same_objective(mapping: NDArray[np.int64], a: Canonical, b: Region, rows: tuple[tuple[str, str], ...]) -> Finding:
    """Whether the objectives agree all over the set: their difference has largest and smallest value 0 there."""
    ours = np.zeros(len(mapping))
    ours[mapping] = a.cost
    terms = {
        j: y - x
        for j, (x, y) in enumerate(zip(ours.tolist(), b.form.cost, strict=True))
        if abs(y - x) > TOLERANCE * max(abs(x), abs(y))
    }
    constant = b.form.offset - a.offset
    if not terms and abs(constant) <= TOLERANCE * max(abs(a.offset), abs(b.form.offset)):
        return Finding(True, rows=rows)
    for sign in (1.0, -1.0):
        half = HalfSpace((), (), -sign * constant, ("the objective",))
        over = {j: sign * value for j, value in terms.items()}
        largest = b.reach(over, half.side)
        broken = outside(half, over.items(), largest)
        if broken is None or largest.point is None:
            return Finding(None)
        if broken:
            if not b.holds(largest.point):
                return Finding(None)
            values = (
                a.offset + float(ours @ largest.point),
                b.form.offset + float(np.array(b.form.cost) @ largest.point),
            )
            return Finding(False, "the objective", "b", largest.point, values)
    return Finding(True, rows=rows)


def _bounds(form: Canonical) -> list[HalfSpace]:
    found = []
    for j, name in enumerate(form.names):
        for sign, bound in ((1.0, form.upper[j]), (-1.0, form.lower[j])):
            if math.isfinite(bound):
                found.append(HalfSpace(((j, sign),), (), sign * bound, (f"bounds of {name}",)))
    return found


def _key(terms: tuple[tuple[int, float], ...]) -> tuple[tuple[int, bool], ...]:
    return tuple((j, value > 0) for j, value in terms)


def _tighter(twin: HalfSpace, terms: tuple[tuple[int, float], ...], side: float) -> bool:
    """Whether a half-space over the same columns, with the same coefficients, has no larger side."""
    same = all(
        abs(value - other) <= TOLERANCE * max(abs(value), abs(other))
        for (_, value), (_, other) in zip(twin.terms, terms, strict=True)
    )
    return same and twin.side <= side + TOLERANCE * abs(side)


def others_alike(mapping: list[int], a: Canonical, b: Canonical) -> dict[str, str] | None:
    """Variables that are no columns, of a to those of b; None where they differ or the models are not linear.

    For models that are not linear isomorphism and the optimum must do.
    """
    if not (a.linear and b.linear and len(mapping) == len(b.columns)):
        return None
    if not a.comparable(b):
        return {}
    fixed, defined = fixed_alike(a, b), defined_alike(mapping, a, b)
    return None if fixed is None or defined is None else fixed | defined
