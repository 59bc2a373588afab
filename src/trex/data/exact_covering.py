"""Textbook algorithms for covering and partitioning, in whole numbers: optima that owe nothing to a solver."""

from collections.abc import Sequence, Set
from functools import cache

MOST_STATES = 3_000  # of a dynamic program; beyond it there is no answer
MOST_ELEMENTS = 16  # of an exact partition


def cover(needs: Sequence[int], sets: Sequence[Set[int]], costs: Sequence[int]) -> int | None:
    """Least total cost of sets that together hold every element as often as it needs, each set used at most once.

    needs: of the elements 0, 1, …, which the sets hold. By dynamic programming over what is still needed; None where
    no sets suffice, or where there are more than MOST_STATES states after some set.
    """
    last = {e: k for k, members in enumerate(sets) for e in members}
    best = {tuple(needs): 0}
    for k, (members, cost) in enumerate(zip(sets, costs, strict=True)):
        after = dict(best)
        for missing, so_far in best.items():
            state = tuple(max(0, n - (e in members)) for e, n in enumerate(missing))
            after[state] = min(after.get(state, so_far + cost), so_far + cost)
        over = [e for e in members if last[e] == k]  # no later set holds these
        best = {state: value for state, value in after.items() if not any(state[e] for e in over)}
        if len(best) > MOST_STATES:
            return None
    return best.get((0,) * len(needs))


def partition(
    elements: int, sets: Sequence[Set[int]], costs: Sequence[int], kinds: Sequence[int], limits: Sequence[int]
) -> int | None:
    """Least total cost of disjoint sets that hold the elements 0, 1, …, `elements` - 1, each once.

    kinds: of the sets; no more sets of kind k than limits[k]. By recursion on the first element not yet held, with
    what is known of every state. None where there is no such choice, or for more than MOST_ELEMENTS elements.
    """
    if elements > MOST_ELEMENTS:
        return None
    holding = [[k for k, members in enumerate(sets) if e in members] for e in range(elements)]

    @cache
    def least(missing: frozenset[int], left: tuple[int, ...]) -> int | None:
        if not missing:
            return 0
        found = []
        for k in holding[min(missing)]:
            if sets[k] <= missing and left[kinds[k]]:
                rest = least(missing - sets[k], tuple(n - (kind == kinds[k]) for kind, n in enumerate(left)))
                if rest is not None:
                    found.append(costs[k] + rest)
        return min(found, default=None)

    return least(frozenset(range(elements)), tuple(limits))
