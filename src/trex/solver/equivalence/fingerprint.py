"""A hash that isomorphic models share: equal hashes are to be compared, different ones need not be."""

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trex.solver.equivalence.canonical import canonical
from trex.solver.equivalence.draft import draft, simplify
from trex.solver.equivalence.graph import Graph, graphs
from trex.solver.equivalence.refine import mix
from trex.solver.model import Model

DIGITS = 9  # of a number that counts
ROUNDS = 8  # of colour refinement, at most


def fingerprint(model: Model) -> str:
    """Hash of the canonical form's colours after refinement, whatever the order and names of its parts are.

    Two models that are isomorphic have the same one, but where a number lies within rounding of a tie at 9 digits.
    """
    work = draft(model)
    simplify(work)
    form = canonical(work)
    graph, _ = graphs(form, form)
    colours = np.array(
        [_hash((key[0], *map(_digits, of))) for key, of in zip(graph.keys, graph.numbers, strict=True)], dtype=np.uint64
    )
    labels = np.array([_hash((_digits(value),)) for value in graph.value.tolist()], dtype=np.uint64)
    count = len(np.unique(colours))
    for _ in range(ROUNDS):
        colours = _round(graph, colours, labels)
        if len(np.unique(colours)) == count:
            break
        count = len(np.unique(colours))
    whole = np.sort(colours).tobytes() + _digits(form.offset).encode()
    return hashlib.sha256(whole).hexdigest()[:32]


def _round(graph: Graph, colours: NDArray[np.uint64], labels: NDArray[np.uint64]) -> NDArray[np.uint64]:
    around = np.zeros(len(colours), dtype=np.uint64)
    np.add.at(around, graph.source, mix(colours[graph.target] + labels))
    return mix(colours ^ mix(around))


def _digits(number: float) -> str:
    return f"{number:.{DIGITS}g}"


@lru_cache(maxsize=2**14)
def _hash(parts: tuple[object, ...]) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little"))
