"""Flows, matchings and paths by combinatorial algorithms in whole numbers: optima that owe nothing to a solver."""

import heapq
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from math import inf, lcm

import networkx as nx

from trex.data.exact import Number, fraction
from trex.data.problem import DataError

Arc = tuple[Hashable, Hashable, Number, Number]  # tail, head, capacity (may be infinite), cost of one unit


def cheapest_flow(arcs: Iterable[Arc], surplus: Mapping[Hashable, Number]) -> Fraction:
    """Least cost of a flow that brings every node what it lacks, by the network simplex method.

    surplus: of each node that has one; negative for a node in need. What is not needed stays where it is. Raises
    DataError where the needs cannot be met.
    """
    arcs = list(arcs)
    amounts = lcm(*(fraction(u).denominator for _, _, u, _ in arcs if u != inf), *_denominators(surplus.values()))
    money = lcm(*_denominators(cost for *_, cost in arcs))
    graph = nx.MultiDiGraph()
    for tail, head, capacity, cost in arcs:
        room = {} if capacity == inf else {"capacity": int(fraction(capacity) * amounts)}
        graph.add_edge(("node", tail), ("node", head), weight=int(fraction(cost) * money), **room)
    rest = 0
    for node, amount in surplus.items():
        extra = int(fraction(amount) * amounts)
        graph.add_node(("node", node), demand=-extra)
        rest += extra
        if extra > 0:
            graph.add_edge(("node", node), "rest", weight=0)
    graph.add_node("rest", demand=rest)
    try:
        cost, _ = nx.network_simplex(graph)
    except nx.NetworkXUnfeasible:
        raise DataError("the needs of the nodes cannot be met") from None
    return Fraction(cost, amounts * money)


def matching(cost: Mapping[str, Mapping[str, Number]], tasks: Iterable[str]) -> Fraction:
    """Least cost of giving each task a partner of its own, by maximum-weight matching.

    cost: {partner: {task: cost}} of the pairs that there are. Raises DataError where some task stays without.
    """
    scale = lcm(*_denominators(c for row in cost.values() for c in row.values()))
    graph = nx.Graph()
    graph.add_nodes_from(("task", t) for t in tasks)
    wanted = graph.number_of_nodes()
    for partner, row in cost.items():
        for task, c in row.items():
            graph.add_edge(("partner", partner), ("task", task), weight=-int(fraction(c) * scale))
    pairs = nx.max_weight_matching(graph, maxcardinality=True)
    if len(pairs) < wanted:
        raise DataError(f"only {len(pairs)} of {wanted} tasks can have a partner of their own")
    return Fraction(-sum(graph.edges[pair]["weight"] for pair in pairs), scale)


def largest_flow(arcs: Iterable[tuple[Hashable, Hashable, Number]], source: Hashable, sink: Hashable) -> Fraction:
    """The largest flow from source to sink, by preflow-push. arcs: tail, head and capacity."""
    arcs = list(arcs)
    scale = lcm(*_denominators(capacity for *_, capacity in arcs))
    graph = nx.DiGraph()
    for tail, head, capacity in arcs:
        known = graph.get_edge_data(tail, head, {"capacity": 0})["capacity"]
        graph.add_edge(tail, head, capacity=known + int(fraction(capacity) * scale))
    return Fraction(nx.maximum_flow_value(graph, source, sink), scale)


def shortest_within(arcs: Iterable[tuple[str, str, Number, int]], start: str, end: str, budget: int) -> Fraction | None:
    """Length of the shortest path whose arcs use no more than the budget, by labels of node and use; None if none.

    arcs: tail, head, length and use, neither negative. Source: H. C. Joksch, The shortest route problem with
    constraints, 1966.
    """
    leaving: dict[str, list[tuple[str, Fraction, int]]] = {}
    for tail, head, length, use in arcs:
        leaving.setdefault(tail, []).append((head, fraction(length), use))
    queue = [(Fraction(0), 0, start)]
    least: dict[str, int] = {}  # use of the labels settled so far: those to come are longer
    while queue:
        length, used, node = heapq.heappop(queue)
        if node == end:
            return length
        if used >= least.get(node, budget + 1):
            continue
        least[node] = used
        for head, further, use in leaving.get(node, ()):
            if used + use <= budget:
                heapq.heappush(queue, (length + further, used + use, head))
    return None


def _denominators(values: Iterable[Number]) -> list[int]:
    return [fraction(value).denominator for value in values]
