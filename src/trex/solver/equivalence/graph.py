"""Two canonical forms as coloured graphs with labelled edges: they are isomorphic exactly where the forms are the same.

Nodes: columns, half-spaces, implications, ordered sets, functions, products of columns, and variables that columns
define.
Numbers enter as classes: two numbers of one class differ by less than `TOLERANCE`, relatively, or are linked by others
of which each next pair does. ORGEval (arXiv 2510.27610) uses columns and rows of this graph for linear models.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trex.solver.equivalence.canonical import Canonical, HalfSpace

TOLERANCE = 1e-12  # relative, of numbers that are taken as equal: well above what scaling a row can change
COLUMN, HALF, IMPLICATION, PRODUCT, ORDERED, NEIGHBOURS, FUNCTION, DEFINED = range(8)  # kinds of nodes
# labels of edges that carry no number; numbers have classes from 0 up
BINARY, ONCE, TWICE, MEMBER, RESULT, ARGUMENT = range(-6, 0)


class Classes:
    """Numbers by class."""

    def __init__(self, numbers: Iterable[float]) -> None:
        values = np.unique(np.fromiter(numbers, dtype=float) + 0.0)
        size = np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
        new = np.isinf(size) | (values[1:] - values[:-1] > TOLERANCE * np.where(np.isinf(size), 0.0, size))
        classes = np.concatenate(([0], np.cumsum(new))) if len(values) else np.zeros(0)
        self._class = dict(zip(values.tolist(), classes.astype(int).tolist(), strict=True))

    def of(self, number: float) -> int:
        """The class of a number that was given to the constructor."""
        return self._class[number]


@dataclass(frozen=True)
class Graph:
    """Nodes by number; each edge is there in both directions, sorted by source, target and label."""

    canonical: Canonical  # without repeated half-spaces
    keys: tuple[tuple[int, ...], ...]  # colour of each node
    source: NDArray[np.int64]  # [edges]
    target: NDArray[np.int64]  # [edges]
    label: NDArray[np.int64]  # [edges]
    value: NDArray[np.float64]  # [edges], the number behind the label
    numbers: tuple[tuple[float, ...], ...]  # of each node, behind its colour

    @property
    def columns(self) -> int:
        """Number of the nodes that are columns; they come first, then the half-spaces, and defined variables last."""
        return len(self.canonical.columns)


def graphs(a: Canonical, b: Canonical) -> tuple[Graph, Graph]:
    """Both graphs, with classes that are shared."""
    classes = Classes(number for form in (a, b) for number in _numbers(form))
    first, second = _merged(a, classes), _merged(b, classes)
    if not a.comparable(b):
        first, second = replace(first, defined=()), replace(second, defined=())
    return _graph(first, classes), _graph(second, classes)


def _numbers(form: Canonical) -> Iterator[float]:
    yield from (form.offset, 0.0)
    for numbers in (form.cost, form.lower, form.upper):
        yield from numbers
    yield from (c for _, c in form.quadratic)
    for half in (*form.halves, *(implication.then for implication in form.implications)):
        yield half.side
        yield from (value for _, value in half.terms)
        yield from (value for _, value in half.quadratic)
    for defined in form.defined:
        yield defined.constant
        yield from (value for _, value in defined.terms)
    yield from (f.constant for f in form.functions if f.constant is not None)


def _merged(form: Canonical, classes: Classes) -> Canonical:
    """One half-space for all that have the same left side: the tightest."""
    found: dict[object, HalfSpace] = {}
    for half in form.halves:
        key = (
            tuple((j, classes.of(value)) for j, value in half.terms),
            tuple((pair, classes.of(value)) for pair, value in half.quadratic),
        )
        other = found.get(key)
        if other is not None:
            half = replace(half if half.side < other.side else other, rows=(*other.rows, *half.rows))
        found[key] = half
    return replace(form, halves=tuple(found.values()))


def _graph(form: Canonical, classes: Classes) -> Graph:
    keys: list[tuple[int, ...]] = []
    numbers: list[tuple[float, ...]] = []
    edges: list[tuple[int, int, int, float]] = []

    def node(kind: int, *of: float, also: tuple[int, ...] = ()) -> int:
        keys.append((kind, *also, *map(classes.of, of)))
        numbers.append(of)
        return len(keys) - 1

    def edge(u: int, v: int, label: int, value: float = 0.0) -> None:
        edges.append((u, v, label, value))
        edges.append((v, u, label, value))

    def product(owner: int | None, pair: tuple[int, int], value: float) -> None:
        new = node(PRODUCT, value, also=(owner is None,))
        if owner is not None:
            edge(owner, new, MEMBER)
        i, j = pair
        if i == j:
            edge(new, i, TWICE)
        else:
            edge(new, i, ONCE)
            edge(new, j, ONCE)

    def half_space(new: int, half: HalfSpace) -> None:
        for j, value in half.terms:
            edge(new, j, classes.of(value), value)
        for pair, value in half.quadratic:
            product(new, pair, value)

    for j in range(len(form.columns)):
        also = (form.whole[j], form.semi[j])
        node(COLUMN, form.cost[j], form.lower[j], form.upper[j], also=also)
    for half in form.halves:
        node(HALF, half.side)
    for number, half in enumerate(form.halves):
        half_space(len(form.columns) + number, half)
    for pair, value in form.quadratic:
        product(None, pair, value)
    for implication in form.implications:
        new = node(IMPLICATION, implication.then.side, also=(implication.active,))
        edge(new, implication.binary, BINARY)
        half_space(new, implication.then)
    for ordered in form.sos:
        new = node(ORDERED, also=(ordered.type,))
        for j in ordered.members:
            edge(new, j, MEMBER)
        line = [j for _, j in sorted(zip(ordered.weights, ordered.members, strict=True))]
        for i, j in pairwise(line) if ordered.type == 2 else ():
            pair_node = node(NEIGHBOURS)
            edge(new, pair_node, MEMBER)
            edge(pair_node, i, ONCE)
            edge(pair_node, j, ONCE)
    for function in form.functions:
        constant = () if function.constant is None else (function.constant,)
        new = node(FUNCTION, *constant, also=(("min", "max", "abs", "and", "or").index(function.kind), len(constant)))
        edge(new, function.result, RESULT)
        for j in set(function.arguments):
            edge(new, j, ARGUMENT)
    for defined in form.defined:
        new = node(DEFINED, defined.constant, also=(defined.whole,))
        for j, value in defined.terms:
            edge(new, j, classes.of(value), value)
    table = np.array(edges, dtype=float).reshape(-1, 4)
    order = np.lexsort((table[:, 2], table[:, 1], table[:, 0]))
    source, target, label = table[order, :3].astype(np.int64).T
    return Graph(form, tuple(keys), source, target, label, table[order, 3], tuple(numbers))


def node_names(graph: Graph) -> list[str]:
    """Names of the nodes, as far as the model has any: of columns, and of the row of each half-space."""
    form = graph.canonical
    known = [*form.names, *(half.rows[0] for half in form.halves)]
    return known + [""] * (len(graph.keys) - len(known))
