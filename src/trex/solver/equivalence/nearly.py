"""A matching of columns for two forms that are isomorphic but for a few half-spaces: a guess that must be proved."""

import time
from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trex.solver.equivalence.canonical import Canonical
from trex.solver.equivalence.graph import Graph, graphs
from trex.solver.equivalence.refine import isomorphism

SHARE = 4  # of the time that is left, at most one part in so many


def near_mapping(a: Canonical, b: Canonical, deadline: float) -> NDArray[np.int64] | None:
    """Columns of a to columns of b, from an isomorphism without the half-spaces that one form has more of.

    Half-spaces count as alike here by side, coefficients, and what their columns are by themselves. None where the
    rest is not isomorphic, or is too little to tell.
    """
    if len(a.columns) != len(b.columns):
        return None
    first, second = graphs(a, b)
    kinds_a, kinds_b = _kinds(first), _kinds(second)
    spare_a, spare_b = Counter(kinds_a) - Counter(kinds_b), Counter(kinds_b) - Counter(kinds_a)
    if not spare_a and not spare_b:
        return None
    reduced = graphs(_without(first.canonical, kinds_a, spare_a), _without(second.canonical, kinds_b, spare_b))
    if len(reduced[0].keys) != len(reduced[1].keys):
        return None
    found = isomorphism(*reduced, max(deadline - time.perf_counter(), 0.0) / SHARE)
    return None if found.mapping is None else found.mapping[: len(a.columns)]


def _kinds(graph: Graph) -> list[tuple[object, ...]]:
    """Of each half-space: its own colour, and the sorted colours of its columns with the coefficients."""
    around: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for node, other, label in zip(graph.source.tolist(), graph.target.tolist(), graph.label.tolist(), strict=True):
        around.setdefault(node, []).append((label, graph.keys[other]))
    halves = range(graph.columns, graph.columns + len(graph.canonical.halves))
    return [(graph.keys[node], *sorted(around.get(node, []))) for node in halves]


def _without(form: Canonical, kinds: list[tuple[object, ...]], spare: Counter[tuple[object, ...]]) -> Canonical:
    """A form without as many half-spaces of each kind as are to spare."""
    left = Counter(spare)
    kept = []
    for half, kind in zip(form.halves, kinds, strict=True):
        if left[kind] > 0:
            left[kind] -= 1
        else:
            kept.append(half)
    return replace(form, halves=tuple(kept))
