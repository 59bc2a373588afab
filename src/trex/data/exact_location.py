"""Optimal choices of sites by trying every choice: exact, and only for few sites."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

from trex.data.exact import Number, fraction
from trex.data.problem import DataError

MOST_CHOICES = 2_048  # sets of sites tried one by one
Table = Mapping[str, Mapping[str, Number]]


def choices(sites: Sequence[str], sizes: Iterable[int]) -> Iterator[tuple[str, ...]]:
    """All sets of sites of these sizes."""
    for size in sizes:
        yield from combinations(sites, size)


def opened(fixed: Mapping[str, Number], cost: Table) -> Fraction | None:
    """Least fixed cost plus cost of each customer from its cheapest open site, any number of sites open.

    cost: [sites][customers], of serving a customer as a whole. None where there are more than MOST_CHOICES choices.
    """
    if 2 ** len(fixed) > MOST_CHOICES:
        return None
    scale = _scale([*fixed.values(), *(value for row in cost.values() for value in row.values())])
    rents = {i: int(fraction(value) * scale) for i, value in fixed.items()}
    rows = {i: [int(fraction(value) * scale) for value in row.values()] for i, row in cost.items()}
    totals = (
        sum(rents[i] for i in some) + sum(map(min, zip(*(rows[i] for i in some), strict=True)))
        for some in choices(list(fixed), range(1, len(fixed) + 1))
    )
    return Fraction(min(totals), scale)


def median(cost: Table, count: int) -> Fraction | None:
    """Least cost of all customers from the nearest of `count` sites; cost: [sites][customers]. None as in `opened`."""
    if comb(len(cost), count) > MOST_CHOICES:
        return None
    scale = _scale([value for row in cost.values() for value in row.values()])
    rows = {i: [int(fraction(value) * scale) for value in row.values()] for i, row in cost.items()}
    totals = (sum(map(min, zip(*(rows[i] for i in some), strict=True))) for some in choices(list(cost), [count]))
    return Fraction(min(totals), scale)


def covered(reach: Mapping[str, Sequence[str]], weight: Mapping[str, Number], count: int) -> Fraction | None:
    """Largest weight within reach of `count` sites; reach: [sites] -> customers. None as in `opened`."""
    if comb(len(reach), count) > MOST_CHOICES:
        return None
    sets = {i: frozenset(customers) for i, customers in reach.items()}
    weights = {j: fraction(value) for j, value in weight.items()}
    found = {frozenset[str]().union(*(sets[i] for i in some)) for some in choices(list(reach), [count])}
    return max(sum((weights[j] for j in customers), Fraction(0)) for customers in found)


def chain(
    supply: Mapping[str, Number],
    fixed: Mapping[str, Number],
    capacity: Mapping[str, Number],
    demand: Mapping[str, Number],
    inbound: Table,
    outbound: Table,
    most_choices: int = 64,
) -> Fraction | None:
    """Least fixed and transport cost of meeting all demands through depots that are open, by cheapest flows.

    supply: of plants; fixed, capacity: of depots; inbound: [plants][depots] and outbound: [depots][customers], costs of
    one unit. None where there are more than `most_choices` choices. Raises DataError where demand cannot be met.
    Source of the flows: networkx's network simplex, in whole numbers.
    """
    import networkx as nx

    if 2 ** len(fixed) > most_choices:
        return None
    amounts = _scale([*supply.values(), *capacity.values(), *demand.values()])
    coins = _scale([value for table in (inbound, outbound) for row in table.values() for value in row.values()])
    total = int(sum(map(fraction, demand.values()), Fraction(0)) * amounts)
    best: Fraction | None = None
    for some in choices(list(fixed), range(1, len(fixed) + 1)):
        if sum(fraction(capacity[i]) for i in some) * amounts < total:
            continue
        graph = nx.DiGraph()
        graph.add_node("source", demand=-total)
        for p, amount in supply.items():
            graph.add_edge("source", ("plant", p), capacity=int(fraction(amount) * amounts), weight=0)
        for i in some:
            graph.add_edge(("in", i), ("out", i), capacity=int(fraction(capacity[i]) * amounts), weight=0)
            for p in supply:
                graph.add_edge(("plant", p), ("in", i), weight=int(fraction(inbound[p][i]) * coins))
            for j in demand:
                graph.add_edge(("out", i), ("customer", j), weight=int(fraction(outbound[i][j]) * coins))
        for j, amount in demand.items():
            graph.add_node(("customer", j), demand=int(fraction(amount) * amounts))
        try:
            carried = nx.min_cost_flow_cost(graph)
        except nx.NetworkXUnfeasible:
            continue
        cost = sum((fraction(fixed[i]) for i in some), Fraction(carried, amounts * coins))
        best = cost if best is None else min(best, cost)
    if best is None:
        raise DataError(f"no choice of depots meets the demand of {total / amounts:g}")
    return best


def _scale(values: Iterable[Number]) -> int:
    """What to multiply with so that all values are whole; their denominators divide a power of ten."""
    scale = 1
    for value in map(fraction, values):
        while (value * scale).denominator > 1:
            scale *= value.denominator
    return scale
