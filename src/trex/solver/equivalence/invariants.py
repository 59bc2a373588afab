"""What no renaming of variables and no rewriting of rows changes, found with a solver: where it differs, models differ.

Functions of the feasible set and the objective on it that treat all variables alike: the largest objective, the optimum
of objective + w * (sum of all variables), the sorted list of each variable's largest value, and the like.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trex.solver.equivalence.canonical import Canonical
from trex.solver.equivalence.graph import TOLERANCE
from trex.solver.equivalence.region import Extreme, Linear, Region
from trex.solver.equivalence.verdict import Witness

APART = 1e-6  # relative where values are above 1: optima that differ by more are different
CLOSE = 1e-5  # of values that may be one: wider than APART, so that what is near stays together
MIXES = ((0.0, 1.0), (0.0, -1.0), (1.0, 0.37), (1.0, -0.73), (-1.0, 0.61), (-1.0, -0.29))
MOST_MAPPINGS = 24


def apart(x: float, y: float) -> bool:
    """Whether two optima are different, beyond what solvers' tolerances explain."""
    if math.isinf(x) or math.isinf(y):
        return x != y
    return abs(x - y) > APART * max(1.0, abs(x), abs(y))


@dataclass
class Difference:
    """A function whose largest value differs: over columns of each form, to be asked of a second solver."""

    invariant: str
    a: Linear
    b: Linear
    extreme_a: Extreme
    extreme_b: Extreme
    constant_a: float = 0.0  # of the function, beside its linear part
    constant_b: float = 0.0
    needs_renaming: bool = True  # whether it only means something where the columns left are the same


@dataclass
class Signatures:
    """Values of each column that do not depend on names; columns with equal values may correspond."""

    a: list[list[float]] = field(default_factory=list)  # [kind of value][column]
    b: list[list[float]] = field(default_factory=list)
    complete: bool = True


def total_differs(a: Region, b: Region) -> Iterator[Difference]:
    """Functions of all variables alike whose largest values differ."""
    offset = a.form.offset - b.form.offset
    if abs(offset) <= TOLERANCE * max(abs(a.form.offset), abs(b.form.offset)):
        for difference in _compare("largest objective", _mix(a, 1.0, 0.0), _mix(b, 1.0, 0.0), a, b):
            yield replace(difference, needs_renaming=False)
        for share, weight in MIXES:
            fixed = [weight * math.fsum(r.form.fixed.values()) * a.form.comparable(b.form) for r in (a, b)]
            yield from _compare(_words(share, weight), _mix(a, share, weight), _mix(b, share, weight), a, b, *fixed)


def _words(share: float, weight: float) -> str:
    if not share:
        return f"{'largest' if weight > 0 else 'smallest (times -1)'} sum of all variables"
    return f"largest value of {share:g} * objective {weight:+g} * sum of all variables"


def _mix(region: Region, share: float, weight: float) -> Linear:
    return {j: share * cost + weight for j, cost in enumerate(region.form.cost)}


def _compare(
    what: str, over_a: Linear, over_b: Linear, a: Region, b: Region, constant_a: float = 0.0, constant_b: float = 0.0
) -> Iterator[Difference]:
    first, second = a.largest(over_a), b.largest(over_b)
    if first.value is None or second.value is None:
        return
    if apart(first.value + constant_a, second.value + constant_b):
        yield Difference(what, over_a, over_b, first, second, constant_a, constant_b)


def signatures(a: Region, b: Region) -> Iterator[Difference | Signatures]:
    """Per variable: largest and smallest value, and the best objective at either. Yields differences, then all."""
    found = Signatures()
    for what, share, weight in (
        ("largest value of a variable", 0.0, 1.0),
        ("smallest value of a variable (times -1)", 0.0, -1.0),
        ("best objective with a reward on one variable", 1.0, 1.0),
        ("best objective with a price on one variable", 1.0, -1.0),
    ):
        scales = [max((abs(c) for c in region.form.cost), default=1.0) for region in (a, b)]
        weight *= max(scales) * 1.5 if share else 1.0
        lists = []
        for region in (a, b):
            extremes = []
            for j in range(len(region.form.columns)):
                objective = {k: -share * cost for k, cost in enumerate(region.form.cost) if share and cost}
                objective[j] = objective.get(j, 0.0) + weight
                extremes.append((objective, region.largest(objective)))
            lists.append(extremes)
        if any(extreme.value is None for extremes in lists for _, extreme in extremes):
            found.complete = False
            continue
        ordered = [sorted(extremes, key=lambda item: item[1].value or 0.0) for extremes in lists]
        for rank, ((over_a, first), (over_b, second)) in enumerate(zip(*ordered, strict=True), start=1):
            assert first.value is not None and second.value is not None
            if apart(first.value, second.value):
                yield Difference(f"{what}, number {rank} of {len(lists[0])} in size", over_a, over_b, first, second)
                break
        found.a.append([extreme.value or 0.0 for _, extreme in lists[0]])
        found.b.append([extreme.value or 0.0 for _, extreme in lists[1]])
    yield found


def mappings(found: Signatures, a: Canonical, b: Canonical) -> tuple[list[NDArray[np.int64]], bool]:
    """The matchings of columns with close signatures, and whether these are all.

    Where there are more than MOST_MAPPINGS, the only one is that which pairs columns by cost and bounds.
    """
    columns = len(a.columns)
    groups: list[dict[tuple[int, ...], list[int]]] = [{}, {}]
    labels = [_clusters(one, other) for one, other in zip(found.a, found.b, strict=True)]
    for shift, form, into in ((0, a, groups[0]), (columns, b, groups[1])):
        alike = sorted(range(columns), key=lambda j: (form.cost[j], form.lower[j], form.upper[j], form.whole[j]))
        for j in alike:
            into.setdefault(tuple(label[shift + j] for label in labels), []).append(j)
    first, second = groups
    if {key: len(group) for key, group in first.items()} != {key: len(group) for key, group in second.items()}:
        return [], True
    count = math.prod(math.factorial(len(group)) for group in first.values())
    complete = count <= MOST_MAPPINGS
    choices = [itertools.permutations(second[key]) if complete else [second[key]] for key in first]
    every = []
    for choice in itertools.product(*choices):
        mapping = np.empty(columns, dtype=np.int64)
        for group, images in zip(first.values(), choice, strict=True):
            mapping[group] = images
        every.append(mapping)
    return every, complete


def _clusters(a: list[float], b: list[float]) -> list[int]:
    """A number per value of a, then of b: the same where values are linked by steps that are CLOSE."""
    values = np.array(a + b)
    order = np.argsort(values)
    labels = np.zeros(len(values), dtype=int)
    for before, after in itertools.pairwise(order):
        x, y = float(values[before]), float(values[after])
        new = x != y and (math.isinf(x) or math.isinf(y) or y - x > CLOSE * max(1.0, abs(x), abs(y)))
        labels[after] = labels[before] + new
    return labels.tolist()


def witness(difference: Difference, a: Region, b: Region, confirmed_by: tuple[str, ...]) -> Witness:
    """The difference as what a verdict shows, with the points that attain the values."""
    points = [
        {} if extreme.point is None else dict(zip(region.form.names, extreme.point.tolist(), strict=True))
        for region, extreme in ((a, difference.extreme_a), (b, difference.extreme_b))
    ]
    values = (
        (difference.extreme_a.value or 0.0) + difference.constant_a,
        (difference.extreme_b.value or 0.0) + difference.constant_b,
    )
    return Witness(difference.invariant, *values, points[0], points[1], confirmed_by)
