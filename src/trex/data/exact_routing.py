"""Shortest round trips and sets of round trips by dynamic programming over subsets: exact, for few stops."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import inf, lcm

from trex.data.exact import Number, fraction
from trex.data.problem import DataError

Table = Mapping[str, Mapping[str, Number]]


def round_trips(cost: Table, start: str, others: Sequence[str]) -> tuple[list[float], int]:
    """Least cost of a round trip from `start` through each subset of the others, in whole units of 1 / scale.

    cost: from each stop to each other. Returns the costs by subset (bit k is others[k]; the empty one costs nothing)
    and the scale. Time grows with 2 ** len(others). Source: M. Held and R. M. Karp, A dynamic programming approach to
    sequencing problems, 1962.
    """
    scale = lcm(*(fraction(value).denominator for row in cost.values() for value in row.values()))
    between = [[int(fraction(cost[a][b]) * scale) if a != b else 0 for b in others] for a in others]
    out = [int(fraction(cost[start][b]) * scale) for b in others]
    back = [int(fraction(cost[a][start]) * scale) for a in others]
    count = len(others)
    last: list[dict[int, float]] = [{} for _ in range(1 << count)]  # subset -> last stop -> least cost so far
    trips: list[float] = [0.0] * (1 << count)
    for subset in range(1, 1 << count):
        row = last[subset]
        for k in range(count):
            if subset >> k & 1:
                before = last[subset ^ (1 << k)]
                row[k] = min((far + between[j][k] for j, far in before.items()), default=out[k])
        trips[subset] = min(far + back[k] for k, far in row.items())
    return trips, scale


def round_trip(cost: Table) -> Fraction:
    """Least cost of a round trip through all stops."""
    start, *others = cost
    trips, scale = round_trips(cost, start, others)
    return Fraction(int(trips[-1]), scale)


def delivery(cost: Table, depot: str, demand: Mapping[str, Number], capacity: Number, vehicles: int) -> Fraction:
    """Least cost of exactly so many round trips from the depot that serve each customer once, within the capacity.

    Raises DataError where they cannot.
    """
    customers = list(demand)
    trips, scale = round_trips(cost, depot, customers)
    whole = len(trips) - 1
    fits = [True] * len(trips)
    for subset in range(1, len(trips)):
        load = sum(fraction(demand[j]) for k, j in enumerate(customers) if subset >> k & 1)
        fits[subset] = load <= fraction(capacity)
    best = [trips[subset] if fits[subset] else inf for subset in range(len(trips))]  # with one vehicle
    best[0] = inf  # no vehicle stays at the depot
    one = list(best)
    for _ in range(vehicles - 1):
        more = [inf] * len(trips)
        for subset in range(1, len(trips)):
            first, part = subset & -subset, subset
            while part:  # parts that hold the subset's first customer
                if part & first and one[part] + best[subset ^ part] < more[subset]:
                    more[subset] = one[part] + best[subset ^ part]
                part = (part - 1) & subset
        best = more
    if best[whole] == inf:
        raise DataError(f"{vehicles} vehicles with room for {capacity} cannot serve all {len(customers)} customers")
    return Fraction(int(best[whole]), scale)
