"""Textbook algorithms in exact arithmetic: optima that owe nothing to a solver or a modelling language."""

import heapq
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from math import gcd, inf

import numpy as np

from trex.data.problem import DataError

Number = int | float | Fraction


def fraction(value: Number) -> Fraction:
    """The number as it is written in decimals: 0.1 is one tenth."""
    return value if isinstance(value, Fraction) else Fraction(str(value))


def transportation(
    supply: Mapping[str, Number],
    demand: Mapping[str, Number],
    cost: Mapping[str, Mapping[str, Number]],
    route_limit: Number = inf,
) -> Fraction:
    """Least cost of meeting all demands, by successive shortest paths with node potentials.

    Costs must not be negative. `route_limit` bounds the quantity on every route. Raises DataError where demand cannot
    be met. Source: Ahuja, Magnanti and Orlin, Network Flows (1993), §9.7.
    """
    graph = _Network()
    for i, amount in supply.items():
        graph.arc("source", ("from", i), fraction(amount), Fraction(0))
    for j, amount in demand.items():
        graph.arc(("to", j), "sink", fraction(amount), Fraction(0))
    total_demand = sum(map(fraction, demand.values()), Fraction(0))
    limit = total_demand if route_limit == inf else fraction(route_limit)
    for i in supply:
        for j in demand:
            graph.arc(("from", i), ("to", j), limit, fraction(cost[i][j]))
    shipped, total = graph.cheapest_flow("source", "sink")
    if shipped < total_demand:
        raise DataError(f"only {float(shipped):g} of a demand of {float(total_demand):g} can be met")
    return total


def knapsack(values: Sequence[int], uses: Sequence[Sequence[int]], limits: Sequence[int]) -> int:
    """Largest total value of a subset within all limits, by dynamic programming over used amounts.

    values: [items]; uses: [items][limits]; all whole numbers. Time and memory grow with the product of the limits.
    """
    best = np.zeros([limit + 1 for limit in limits], dtype=np.int64)  # best value within given amounts
    for value, use in zip(values, uses, strict=True):
        if any(amount > limit for amount, limit in zip(use, limits, strict=True)):
            continue
        reachable = tuple(slice(amount, None) for amount in use)
        before = tuple(slice(0, limit + 1 - amount) for amount, limit in zip(use, limits, strict=True))
        best[reachable] = np.maximum(best[reachable], best[before] + value)
    return int(best.flat[-1])


def lot_sizing(
    demand: Sequence[Number],
    capacity: Sequence[Number],
    setup: Sequence[Number],
    holding: Number,
    initial: Number = 0,
    storage: Number = inf,
) -> Fraction:
    """Least setup and holding cost of one product, by dynamic programming over end-of-period stocks.

    demand, capacity, setup: [periods]; holding: cost of one unit at the end of a period. All amounts are multiples
    of one grid step, their greatest common divisor: with setups fixed this is a network flow, so some optimal plan lies
    on the grid. Raises DataError where no plan meets the demand.
    """
    amounts = [fraction(a) for a in (*demand, *capacity, initial)]
    amounts += [] if storage == inf else [fraction(storage)]
    step = reduce(_fraction_gcd, amounts)
    needs, most = [int(fraction(d) / step) for d in demand], [int(fraction(c) / step) for c in capacity]
    start = int(fraction(initial) / step)
    room = start + sum(needs) if storage == inf else int(fraction(storage) / step)
    coin = reduce(_fraction_gcd, [fraction(s) for s in setup], fraction(holding) * step)  # divides every cost
    setups, held = [int(fraction(s) / coin) for s in setup], int(fraction(holding) * step / coin)
    cost = {start: 0}  # end-of-period stock -> least cost so far, in coins
    for t, need in enumerate(needs):
        useful = sum(needs[t:])  # more stock than all demand to come is never needed
        after: dict[int, int] = {}
        for stock, so_far in cost.items():
            for made in range(max(0, need - stock), min(most[t], max(0, useful - stock)) + 1):
                left = stock + made - need
                if left > room:
                    break
                price = so_far + (setups[t] if made else 0) + held * left
                if left not in after or price < after[left]:
                    after[left] = price
        cost = after
    if not cost:
        raise DataError("no production plan meets the demand")
    return min(cost.values()) * coin


def _fraction_gcd(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


class _Network:
    """Arcs in pairs: arc k and its reverse k ^ 1."""

    def __init__(self) -> None:
        self.out: dict[object, list[int]] = {}
        self.head: list[object] = []
        self.room: list[Fraction] = []
        self.cost: list[Fraction] = []

    def arc(self, tail: object, head: object, room: Fraction, cost: Fraction) -> None:
        for a, b, r, c in ((tail, head, room, cost), (head, tail, Fraction(0), -cost)):
            self.out.setdefault(a, []).append(len(self.head))
            self.head.append(b)
            self.room.append(r)
            self.cost.append(c)

    def cheapest_flow(self, source: object, sink: object) -> tuple[Fraction, Fraction]:
        """Size and cost of the cheapest of all largest flows."""
        potential = dict.fromkeys(self.out, Fraction(0))
        shipped = total = Fraction(0)
        while True:
            distance, arrival = self._shortest(source, potential)
            if sink not in distance:
                return shipped, total
            # nodes out of reach stay out of reach: flow only opens arcs between nodes that were reached
            potential = {node: potential[node] + distance.get(node, Fraction(0)) for node in potential}
            path, node = [], sink
            while node != source:
                path.append(arrival[node])
                node = self.head[arrival[node] ^ 1]
            amount = min(self.room[k] for k in path)
            for k in path:
                self.room[k] -= amount
                self.room[k ^ 1] += amount
                total += amount * self.cost[k]
            shipped += amount

    def _shortest(
        self, source: object, potential: Mapping[object, Fraction]
    ) -> tuple[dict[object, Fraction], dict[object, int]]:
        """Dijkstra on reduced costs: distance of each node within reach, and the arc by which it is reached."""
        distance, arrival = {source: Fraction(0)}, {}
        done, queue, ticket = set(), [(Fraction(0), 0, source)], 0
        while queue:
            near, _, node = heapq.heappop(queue)
            if node in done:
                continue
            done.add(node)
            for k in self.out[node]:
                if not self.room[k]:
                    continue
                head = self.head[k]
                far = near + self.cost[k] + potential[node] - potential[head]
                if head not in distance or far < distance[head]:
                    distance[head], arrival[head] = far, k
                    ticket += 1  # breaks ties, for nodes have no order
                    heapq.heappush(queue, (far, ticket, head))
        return distance, arrival
