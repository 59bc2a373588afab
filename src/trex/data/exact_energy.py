"""Which units run hour by hour, by dynamic programming in exact arithmetic."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from trex.data.exact import Number, fraction
from trex.data.problem import DataError


@dataclass(frozen=True)
class Unit:
    """Least and largest output of an hour; cost of output, of an hour on and of a start; hours to stay on, from 1."""

    least: Number
    most: Number
    cost: Number
    running: Number
    start: Number
    stay: int


def unit_commitment(units: Sequence[Unit], demand: Sequence[Number], reserve: Number) -> Fraction:
    """Least cost of meeting every hour's demand exactly with a reserve on top; all units are off before.

    A state holds for each unit the hours it still has to stay on (0: on, free to stop; None: off). Within an hour the
    load is shared by merit order. Raises DataError where no plan is feasible.
    """
    reached: dict[tuple[int | None, ...], Fraction] = {(None,) * len(units): Fraction(0)}
    for load in demand:
        after: dict[tuple[int | None, ...], Fraction] = {}
        for choice in itertools.product((False, True), repeat=len(units)):
            hour = _dispatch([u for u, on in zip(units, choice, strict=True) if on], fraction(load), fraction(reserve))
            if hour is None:
                continue
            for state, so_far in reached.items():
                if any(left and not on for left, on in zip(state, choice, strict=True)):
                    continue  # a unit that has to stay on
                starts = [u for u, left, on in zip(units, state, choice, strict=True) if on and left is None]
                price = so_far + hour + sum((fraction(u.start) for u in starts), Fraction(0))
                following = tuple(
                    None if not on else u.stay - 1 if left is None else max(0, left - 1)
                    for u, left, on in zip(units, state, choice, strict=True)
                )
                if following not in after or price < after[following]:
                    after[following] = price
        reached = after
    if not reached:
        raise DataError("no plan meets the demand of every hour")
    return min(reached.values())


def _dispatch(units: Sequence[Unit], load: Fraction, reserve: Fraction) -> Fraction | None:
    """Least cost of one hour with these units on; None where they cannot meet the load with the reserve."""
    least, most = (sum((fraction(a) for a in amounts), Fraction(0)) for amounts in zip(*_ranges(units), strict=True))
    if not least <= load or not load + reserve <= most:
        return None
    total = sum((fraction(u.running) + fraction(u.least) * fraction(u.cost) for u in units), Fraction(0))
    left = load - least
    for unit in sorted(units, key=lambda u: fraction(u.cost)):
        more = min(left, fraction(unit.most) - fraction(unit.least))
        total += more * fraction(unit.cost)
        left -= more
    return total


def _ranges(units: Sequence[Unit]) -> list[tuple[Number, Number]]:
    return [(u.least, u.most) for u in units] or [(0, 0)]
