"""What no renaming of variables and no rewriting of rows changes, found with a solver: where it differs, models differ.

Functions of the feasible set and the objective on it that treat all variables alike: the largest objective, the optimum
of objective + w * (sum of all variables), the sorted list of each variable's largest value, and the like.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trex.solver.equivalence.canonical import Canonical
from trex.solver.equivalence.region import Extreme, Linear, Region
from trex.solver.equivalence.verdict import Witness

APART = 1e-6  # relative where values are above 1: optima that differ by more are different
CLOSE = 1e-5  # of values that may be one: wider than APART, so that what is near stays together
AT_BOUND = 1e-9  # relative where the bound is above 1: how near a value that attains it comes
MIXES = ((0.0, 1.0), (0.0, -1.0), (1.0, 0.37), (1.0, -0.73), (-1.0, 0.61), (-1.0, -0.29))
MOST_MAPPINGS = 24


def apart(x: float, y: float) -> bool:
    """Whether two optima are different, beyond what solvers' tolerances explain."""
    if math.isinf(x) or math.isinf(y):
        return x != y
    return abs(x - y) > APART * max(1.0, abs(x), abs(y))


@dataclass(frozen=True)
class Affine:
    """Sum of terms over the columns of a form, plus a constant."""

    terms: Linear
    constant: float = 0.0


@dataclass(frozen=True)
class Difference:
    """A function whose largest value differs, over the columns of each form, and where it takes it."""

    invariant: str
    a: Affine
    b: Affine
    extreme_a: Extreme
    extreme_b: Extreme
    needs_renaming: bool = True  # whether it only means something where the columns left are the same

    @property
    def values(self) -> tuple[float, float]:
        """The largest values."""
        return _value(self.a, self.extreme_a), _value(self.b, self.extreme_b)


@dataclass
class Signatures:
    """Values of each column that do not depend on names; columns with equal values may correspond."""

    a: list[list[tuple[Affine, Extreme]]] = field(default_factory=list)  # [kind of value][column]
    b: list[list[tuple[Affine, Extreme]]] = field(default_factory=list)
    complete: bool = True

    def classes(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """For each column of a, and of b, a class per kind of value: the same for values that are CLOSE."""
        labels = [
            _clusters([_value(*item) for item in one], [_value(*item) for item in other])
            for one, other in zip(self.a, self.b, strict=True)
        ]
        columns = len(self.a[0]) if self.a else 0
        every = [tuple(label[j] for label in labels) for j in range(2 * columns)]
        return every[:columns], every[columns:]


def total_differs(a: Region, b: Region) -> Iterator[Difference]:
    """Functions of all variables alike whose largest values differ."""
    fixed_too = a.form.comparable(b.form) and not a.form.defined
    for share, weight in ((1.0, 0.0), *MIXES):
        over_a, over_b = (_mix(region, share, weight, fixed_too) for region in (a, b))
        first, second = a.largest(over_a.terms), b.largest(over_b.terms)
        if first.value is not None and second.value is not None:
            difference = Difference(_words(share, weight), over_a, over_b, first, second, weight != 0)
            if apart(*difference.values):
                yield difference


def _words(share: float, weight: float) -> str:
    if not weight:
        return "largest objective, as a minimum"
    if not share:
        return f"{'largest' if weight > 0 else 'smallest (times -1)'} sum of all variables"
    return f"largest value of {share:g} * objective (as a minimum) {weight:+g} * sum of all variables"


def _mix(region: Region, share: float, weight: float, fixed_too: bool) -> Affine:
    """share * objective + weight * sum of the columns, or of the fixed variables too."""
    terms = {j: share * cost + weight for j, cost in enumerate(region.form.cost)}
    constant = share * region.form.offset
    if fixed_too:
        constant += weight * math.fsum(region.form.fixed.values())
    return Affine(terms, constant)


def _value(function: Affine, extreme: Extreme) -> float:
    return (extreme.value or 0.0) + function.constant


def signatures(a: Region, b: Region) -> Iterator[Difference | Signatures]:
    """Per variable: largest and smallest value, and the best objective at either. Yields differences, then all."""
    found = Signatures()
    largest_cost = max((abs(cost) for region in (a, b) for cost in region.form.cost), default=1.0)
    for what, share, weight in (
        ("largest value of a variable", 0.0, 1.0),
        ("smallest value of a variable (times -1)", 0.0, -1.0),
        ("best objective with a reward on one variable", 1.0, 1.5 * largest_cost),
        ("best objective with a price on one variable", 1.0, -1.5 * largest_cost),
    ):
        first, second = (_each(region, share, weight) for region in (a, b))
        if any(extreme.value is None for _, extreme in (*first, *second)):
            found.complete = False
            continue
        ordered = [sorted(each, key=lambda item: _value(*item)) for each in (first, second)]
        for rank, ((over_a, one), (over_b, other)) in enumerate(zip(*ordered, strict=True), start=1):
            difference = Difference(f"{what}, number {rank} of {len(first)} in size", over_a, over_b, one, other)
            if apart(*difference.values):
                yield difference
                break
        found.a.append(first)
        found.b.append(second)
    yield found


def _each(region: Region, share: float, weight: float) -> list[tuple[Affine, Extreme]]:
    """For each column, weight * column - share * objective, and its largest value."""
    if not share:
        return _at_bounds(region, weight)
    every = []
    for j in range(len(region.form.columns)):
        terms = {k: -share * cost for k, cost in enumerate(region.form.cost) if cost}
        terms[j] = terms.get(j, 0.0) + weight
        every.append((Affine(terms, -share * region.form.offset), region.largest(terms)))
    return every


def _at_bounds(region: Region, weight: float) -> list[tuple[Affine, Extreme]]:
    """Largest value of each column, times a weight of 1 or -1: points that show many at their bounds come first."""
    form = region.form
    bounds = [weight * bound for bound in (form.upper if weight > 0 else form.lower)]
    found: dict[int, Extreme] = {}
    while open_ones := [j for j in range(len(bounds)) if j not in found and math.isfinite(bounds[j])]:
        extreme = region.largest(dict.fromkeys(open_ones, weight))
        if extreme.point is None:
            break
        reached = [j for j in open_ones if weight * extreme.point[j] >= bounds[j] - AT_BOUND * max(1.0, abs(bounds[j]))]
        found |= {j: Extreme(bounds[j], extreme.point) for j in reached}
        if not reached:
            break
    return [(Affine({j: weight}), found[j] if j in found else region.largest({j: weight})) for j in range(len(bounds))]


def mappings(found: Signatures, a: Canonical, b: Canonical) -> tuple[list[NDArray[np.int64]], bool]:
    """The matchings of columns with close signatures, and whether these are all.

    Where there are more than MOST_MAPPINGS, the only one is that which pairs columns by cost and bounds.
    """
    columns = len(a.columns)
    groups: list[dict[tuple[int, ...], list[int]]] = [{}, {}]
    for form, classes, into in zip((a, b), found.classes(), groups, strict=True):
        look = list(zip(form.cost, form.lower, form.upper, form.whole, strict=True))
        for j in sorted(range(columns), key=look.__getitem__) if classes else ():
            into.setdefault(classes[j], []).append(j)
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
    return Witness(difference.invariant, *difference.values, points[0], points[1], confirmed_by)
