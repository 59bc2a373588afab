"""Directed graphs for instances: nodes in the plane, arcs between near ones, every node between the first and last."""

import heapq
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

REACH = 4  # how many places in the order from left to right an arc may span


@dataclass(frozen=True)
class Graph:
    """A graph by the ends of its arcs. order: the nodes from left to right; length: of each arc, a whole number."""

    order: tuple[str, ...]
    tail: dict[str, str]
    head: dict[str, str]
    length: dict[str, int]

    @property
    def first(self) -> str:
        """The leftmost node, which no arc enters."""
        return self.order[0]

    @property
    def last(self) -> str:
        """The rightmost node, which no arc leaves."""
        return self.order[-1]

    def path(self, rng: random.Random, start: str, end: str) -> list[str]:
        """The arcs of a random path without a node twice. Raises ValueError where there is none."""
        arrival: dict[str, str] = {}
        seen, stack = {start}, [start]
        while stack:
            node = stack.pop(rng.randrange(len(stack)))
            for arc in rng.sample(leaving := [a for a in self.tail if self.tail[a] == node], len(leaving)):
                if self.head[arc] not in seen:
                    seen.add(self.head[arc])
                    arrival[self.head[arc]] = arc
                    stack.append(self.head[arc])
        if end not in seen:
            raise ValueError(f"no path leads from {start} to {end}")
        return self._back(arrival, start, end)

    def shortest(self, weight: Mapping[str, float], start: str, end: str) -> list[str]:
        """The arcs of a path of least total weight, by Dijkstra's method; weights are positive.

        Raises ValueError where there is no path.
        """
        arrival: dict[str, str] = {}
        done: set[str] = set()
        queue = [(0.0, start, "")]
        while queue:
            far, node, arc = heapq.heappop(queue)
            if node in done:
                continue
            done.add(node)
            arrival[node] = arc
            if node == end:
                return self._back(arrival, start, end)
            for a in self.tail:
                if self.tail[a] == node and self.head[a] not in done:
                    heapq.heappush(queue, (far + weight[a], self.head[a], a))
        raise ValueError(f"no path leads from {start} to {end}")

    def _back(self, arrival: Mapping[str, str], start: str, end: str) -> list[str]:
        """The path that reached `end`, given the arc by which each node was reached."""
        arcs: list[str] = []
        while end != start:
            arcs.append(arrival[end])
            end = self.tail[arrival[end]]
        return arcs[::-1]


def draw_graph(rng: random.Random, nodes: Sequence[str], arcs: Sequence[str], back: float = 0.2) -> Graph:
    """A graph without loops and parallel arcs; every node lies on a way from the first to the last.

    back: the share of the other arcs that lead from right to left, as far as there are such. Redrawn until the arcs
    that the ways need are not more than there are. Raises ValueError where nodes that near have too few pairs.
    """
    n, count = len(nodes), len(arcs)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j and abs(i - j) <= REACH and j != 0 and i != n - 1]
    if not n - 1 <= count <= len(pairs):
        raise ValueError(f"{count} arcs between {n} nodes; accepted: {n - 1} to {len(pairs)}")
    chosen: set[tuple[int, int]] = set()
    while not chosen or len(chosen) > count:
        chosen = {(rng.randrange(max(0, j - 3), j), j) for j in range(1, n)}
        chosen |= {(i, rng.randint(i + 1, min(n - 1, i + 3))) for i in range(n - 1) if all(i != k for k, _ in chosen)}
    rest = [[p for p in pairs if p not in chosen and (p[0] < p[1]) is forward] for forward in (True, False)]
    forward, backward = (rng.sample(part, len(part)) for part in rest)
    while len(chosen) < count:
        from_right = backward and (not forward or rng.random() < back)
        chosen.add(backward.pop() if from_right else forward.pop())
    place = [(10 * k + rng.uniform(-4, 4), rng.uniform(0, 25)) for k in range(n)]
    order = rng.sample(list(nodes), n)
    ends = dict(zip(arcs, sorted(chosen), strict=True))
    return Graph(
        order=tuple(order),
        tail={arc: order[i] for arc, (i, _) in ends.items()},
        head={arc: order[j] for arc, (_, j) in ends.items()},
        length={arc: max(3, round(math.dist(place[i], place[j]))) for arc, (i, j) in ends.items()},
    )
