"""Graph isomorphism: colour refinement, and individualisation where it is not enough.

Refinement gives two nodes one colour as long as they see the same colours over the same labels, as often (Weisfeiler
and Leman). Where colours remain shared, one node of the first graph is set apart and matched with each of its colour in
the second. Colours are 64-bit hashes: equal neighbourhoods always hash alike, so different colours are a proof of
difference, and a mapping that is found is checked edge by edge, so hash collisions can prove nothing wrong.
"""

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trex.solver.equivalence.graph import Graph

Colours = NDArray[np.uint64]
NODES = 20_000  # of the search tree, at most


@dataclass(frozen=True)
class Isomorphism:
    """`mapping` [nodes of a] to nodes of b; None where there is none or, with `undecided`, where none was found."""

    mapping: NDArray[np.int64] | None
    undecided: bool = False
    rounds: int = 0  # of refinement until the colours of the graphs differed, where they did
    node_a: int | None = None  # a node whose colour is more frequent in its graph than in the other
    node_b: int | None = None


def isomorphism(a: Graph, b: Graph, time_s: float) -> Isomorphism:
    """Find a mapping of nodes that keeps colours, edges and labels, or show that there is none, within `time_s`."""
    ids: dict[tuple[int, ...], int] = {}
    colours = mix(np.array([ids.setdefault(key, len(ids)) for key in (*a.keys, *b.keys)], dtype=np.uint64))
    return _Search(a, b, time.perf_counter() + time_s).run(colours)


def rounds(graph: Graph) -> list[list[int]]:
    """Classes of a graph's nodes, from the start to the last round that splits one; numbered in the order of nodes."""
    search = _Search(graph, graph, 0.0)
    ids: dict[tuple[int, ...], int] = {}
    colours = mix(np.array([ids.setdefault(key, len(ids)) for key in graph.keys * 2], dtype=np.uint64))
    found: list[list[int]] = []
    while True:
        numbers: dict[int, int] = {}
        found.append([numbers.setdefault(colour, len(numbers)) for colour in colours[: search.split].tolist()])
        colours = search.round(colours)
        if len(np.unique(colours)) == len(numbers):
            return found


class _Search:
    """Both graphs side by side: nodes of b follow those of a."""

    def __init__(self, a: Graph, b: Graph, deadline: float) -> None:
        self.a, self.b, self.deadline = a, b, deadline
        self.split = len(a.keys)
        count = self.split + len(b.keys)
        source = np.concatenate((a.source, b.source + self.split))
        self.target = np.concatenate((a.target, b.target + self.split))
        self.label = mix(np.concatenate((a.label, b.label)).astype(np.uint64))
        degree = np.bincount(source, minlength=count)
        self.linked = np.flatnonzero(degree)
        self.start = np.concatenate(([0], np.cumsum(degree[self.linked])))[:-1]
        self.visited = 0

    def run(self, colours: Colours) -> Isomorphism:
        """Depth-first search with its own stack: a path of nodes set apart, each with the candidates still to try."""
        stable, rounds = self.refine(colours)
        if stable is None:
            return self.difference(colours, rounds)
        path: list[tuple[Colours, int, list[int]]] = []
        while True:
            if stable is not None:
                if (found := self.match(stable, len(path))) is not None:
                    return Isomorphism(found)
                cell = self.cell(stable)
                if cell is not None:
                    path.append((stable, *cell))
            while path and not path[-1][2]:
                path.pop()
            if not path:
                return Isomorphism(None)
            self.visited += 1
            if self.visited > NODES or time.perf_counter() > self.deadline:
                return Isomorphism(None, undecided=True)
            base, node, candidates = path[-1]
            apart = base.copy()
            apart[[node, candidates.pop()]] = mix(base[[node]] + np.uint64(1))
            stable, _ = self.refine(apart)

    def refine(self, colours: Colours) -> tuple[Colours | None, int]:
        """Refine until the number of colours stays; None and the round as soon as the two graphs' colours differ."""
        count, rounds = 0, 0
        while True:
            first, second = np.sort(colours[: self.split]), np.sort(colours[self.split :])
            if len(first) != len(second) or not np.array_equal(first, second):
                return None, rounds
            new = 1 + int(np.count_nonzero(first[1:] != first[:-1]))
            if new == count or new == len(first):
                return colours, rounds
            count, rounds = new, rounds + 1
            colours = self.round(colours)

    def round(self, colours: Colours) -> Colours:
        """Each node's colour and the multiset of (colour, label) around it, as a new colour."""
        around = np.zeros(len(colours), dtype=np.uint64)
        if len(self.target):
            around[self.linked] = np.add.reduceat(mix(colours[self.target] + self.label), self.start)
        return mix(colours ^ mix(around))

    def cell(self, colours: Colours) -> tuple[int, list[int]] | None:
        """The smallest shared colour: its first node in a, and its nodes in b. None where no colour is shared."""
        first = colours[: self.split]
        values, index, counts = np.unique(first, return_index=True, return_counts=True)
        shared = np.flatnonzero(counts > 1)
        if not len(shared):
            return None
        smallest = shared[np.lexsort((index[shared], counts[shared]))[0]]
        nodes = np.flatnonzero(colours[self.split :] == values[smallest]) + self.split
        return int(index[smallest]), nodes[::-1].tolist()

    def match(self, colours: Colours, depth: int) -> NDArray[np.int64] | None:
        """Match nodes of one colour in their order, and check: right where all colours differ or nodes are alike."""
        discrete = len(np.unique(colours[: self.split])) == self.split
        if not discrete and depth & (depth - 1):
            return None  # a guess is checked at depths 0, 1, 2, 4, 8, … only
        mapping = np.empty(self.split, dtype=np.int64)
        first, second = (np.argsort(half, kind="stable") for half in (colours[: self.split], colours[self.split :]))
        mapping[first] = second
        return mapping if keeps(mapping, self.a, self.b) else None

    def difference(self, colours: Colours, rounds: int) -> Isomorphism:
        """The graphs' colours differ after some rounds: a node on either side that the other has too few of."""
        for _ in range(rounds):
            colours = self.round(colours)
        first, second = (Counter(half.tolist()) for half in (colours[: self.split], colours[self.split :]))
        more = [
            next((k for k, colour in enumerate(half.tolist()) if one[colour] > other[colour]), None)
            for half, one, other in (
                (colours[: self.split], first, second),
                (colours[self.split :], second, first),
            )
        ]
        return Isomorphism(None, rounds=rounds, node_a=more[0], node_b=more[1])


def keeps(mapping: NDArray[np.int64], a: Graph, b: Graph) -> bool:
    """Whether a mapping of nodes keeps every colour and every edge with its label."""
    if len(a.source) != len(b.source) or any(key != b.keys[k] for key, k in zip(a.keys, mapping, strict=True)):
        return False
    source, target = mapping[a.source], mapping[a.target]
    order = np.lexsort((a.label, target, source))
    return all(
        np.array_equal(one[order], other) for one, other in ((source, b.source), (target, b.target), (a.label, b.label))
    )


def largest_difference(mapping: NDArray[np.int64], a: Graph, b: Graph) -> float:
    """Largest relative difference between numbers that a mapping matches."""
    order = np.lexsort((a.label, mapping[a.target], mapping[a.source]))
    pairs = [(a.value[order], b.value)]
    nodes = [(a.numbers[k], b.numbers[image]) for k, image in enumerate(mapping.tolist())]
    pairs += [
        (np.array([x for one, _ in nodes for x in one]), np.array([x for _, one in nodes for x in one])),
        (np.array([a.canonical.offset]), np.array([b.canonical.offset])),
    ]
    largest = 0.0
    for one, other in pairs:
        differ = one != other
        gap = np.abs(one[differ] - other[differ]) / np.maximum(np.abs(one[differ]), np.abs(other[differ]))
        largest = max(largest, float(gap.max(initial=0.0)))
    return largest


def mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number (the finaliser of splitmix64: Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
