"""Drawn graphs: what is promised of them, and paths against networkx."""

import random
from itertools import pairwise

import networkx as nx
import pytest

from trex.data.graphs import Graph, draw_graph

NODES = [f"N{k}" for k in range(9)]
ARCS = [f"A{k}" for k in range(20)]


def drawn(seed: int) -> Graph:
    return draw_graph(random.Random(seed), NODES, ARCS)


def network(graph: Graph) -> "nx.DiGraph[str]":
    found: nx.DiGraph[str] = nx.DiGraph()
    found.add_nodes_from(graph.order)
    for arc in graph.tail:
        assert not found.has_edge(graph.tail[arc], graph.head[arc])
        found.add_edge(graph.tail[arc], graph.head[arc], arc=arc, weight=graph.length[arc])
    return found


@pytest.mark.parametrize("seed", range(30))
def test_every_node_lies_between_first_and_last(seed: int) -> None:
    graph = drawn(seed)
    found = network(graph)
    assert sorted(graph.order) == sorted(NODES) and list(graph.tail) == ARCS
    assert nx.number_of_selfloops(found) == found.in_degree(graph.first) == found.out_degree(graph.last) == 0
    assert nx.descendants(found, graph.first) == set(graph.order) - {graph.first}
    assert nx.ancestors(found, graph.last) == set(graph.order) - {graph.last}
    assert min(graph.length.values()) >= 3


@pytest.mark.parametrize("seed", range(30))
def test_shortest_is_that_of_networkx(seed: int) -> None:
    graph = drawn(seed)
    path = graph.shortest(graph.length, graph.first, graph.last)
    length = nx.dijkstra_path_length(network(graph), graph.first, graph.last)
    assert sum(graph.length[arc] for arc in path) == length
    _is_path(graph, path)


@pytest.mark.parametrize("seed", range(10))
def test_a_random_path_visits_no_node_twice(seed: int) -> None:
    graph = drawn(seed)
    path = graph.path(random.Random(seed), graph.first, graph.last)
    _is_path(graph, path)
    assert len({graph.head[arc] for arc in path}) == len(path)


def test_no_way_back() -> None:
    graph = drawn(0)
    for call in (lambda: graph.shortest(graph.length, graph.last, graph.first),
                 lambda: graph.path(random.Random(0), graph.last, graph.first)):  # fmt: skip
        with pytest.raises(ValueError, match=f"no path leads from {graph.last} to {graph.first}"):
            call()


@pytest.mark.parametrize("count", [7, 200])
def test_too_few_and_too_many_arcs(count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} arcs between 9 nodes; accepted: 8 to "):
        draw_graph(random.Random(0), NODES, [f"A{k}" for k in range(count)])


def _is_path(graph: Graph, path: list[str]) -> None:
    assert graph.tail[path[0]] == graph.first and graph.head[path[-1]] == graph.last
    assert all(graph.head[a] == graph.tail[b] for a, b in pairwise(path))
