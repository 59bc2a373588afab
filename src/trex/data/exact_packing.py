"""Textbook algorithms for packing and cutting, in whole numbers: optima that owe nothing to a solver."""

from collections.abc import Sequence
from itertools import combinations

from trex.data.problem import DataError

MOST_STATES = 2_000  # of a dynamic program; beyond it there is no answer


def cheapest_bins(sizes: Sequence[int], capacities: Sequence[int], costs: Sequence[int]) -> int:
    """Least total cost of bins that hold all items whole, by trying sets of bins from the cheapest on.

    Time grows exponentially with the number of bins. Raises DataError where all bins together do not hold the items.
    """
    bins = range(len(capacities))
    chosen = [group for count in bins for group in combinations(bins, count + 1)]
    for group in sorted(chosen, key=lambda group: sum(costs[b] for b in group)):
        rooms = [capacities[b] for b in group]
        if sum(rooms) >= sum(sizes) and _fits(sorted(sizes, reverse=True), rooms):
            return sum(costs[b] for b in group)
    raise DataError(f"{len(sizes)} items do not fit into {len(capacities)} bins")


def _fits(sizes: Sequence[int], rooms: Sequence[int]) -> bool:
    """Whether all items, largest first, can be placed; bins with equal room left are tried once."""
    failed: set[tuple[int, tuple[int, ...]]] = set()

    def place(k: int, left: tuple[int, ...]) -> bool:
        if k == len(sizes):
            return True
        if (k, left) in failed:
            return False
        for room in set(left):
            if room >= sizes[k]:
                other = list(left)
                other[other.index(room)] -= sizes[k]
                if place(k + 1, tuple(sorted(other))):
                    return True
        failed.add((k, left))
        return False

    return place(0, tuple(sorted(rooms)))


def multiple_knapsack(values: Sequence[int], weights: Sequence[int], capacities: Sequence[int]) -> int | None:
    """Largest total value of items packed into several knapsacks, by dynamic programming over the room left in each.

    None where there are more than MOST_STATES states after some item.
    """
    best = {tuple(sorted(capacities)): 0}  # room left, knapsacks in order of it -> largest value so far
    for value, weight in zip(values, weights, strict=True):
        after = dict(best)
        for left, so_far in best.items():
            for room in set(left):
                if room >= weight:
                    other = list(left)
                    other[other.index(room)] -= weight
                    state = tuple(sorted(other))
                    after[state] = max(after.get(state, 0), so_far + value)
        if len(after) > MOST_STATES:
            return None
        best = after
    return max(best.values())


def cutting_stock(
    widths: Sequence[int], demand: Sequence[int], lengths: Sequence[int], costs: Sequence[int], available: Sequence[int]
) -> int | None:
    """Least cost of stock from which all pieces can be cut, by dynamic programming over the pieces still missing.

    lengths, costs, available: of each kind of stock. None where there could be more than MOST_STATES states; raises
    DataError where the stock does not suffice.
    """
    states = 1
    for pieces in demand:
        states *= pieces + 1
    if states > MOST_STATES:
        return None
    best = {tuple(demand): 0}  # pieces missing -> least cost so far
    for length, cost, rolls in zip(lengths, costs, available, strict=True):
        patterns: list[tuple[int, ...]] = [()]
        for width in widths:
            patterns = [
                (*p, n)
                for p in patterns
                for n in range((length - sum(m * w for m, w in zip(p, widths, strict=False))) // width + 1)
            ]
        full = [p for p in patterns if length - sum(m * w for m, w in zip(p, widths, strict=True)) < min(widths)]
        newest = dict(best)
        for _ in range(rolls):
            after: dict[tuple[int, ...], int] = {}
            for missing, so_far in newest.items():
                for p in full:
                    state = tuple(max(0, d - n) for d, n in zip(missing, p, strict=True))
                    if so_far + cost < min(after.get(state, so_far + cost + 1), best.get(state, so_far + cost + 1)):
                        after[state] = so_far + cost
            if not after:
                break
            best |= after
            newest = after
    nothing = (0,) * len(demand)
    if nothing not in best:
        raise DataError(f"stock {list(available)} does not suffice for {list(demand)}")
    return best[nothing]
