"""Which items are one problem: shared texts, twins in other words, one model behind two rows, in any set.

Linked are items with the same text but for case, spacing and punctuation; the same data files; the same reference
program; and the same reference model, as text or up to isomorphism. A cluster is what links connect.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from trex.eval.items import Item
from trex.solver import lp
from trex.solver.equivalence import compare
from trex.solver.model import Model

COMPARE_S = 0.5  # per pair of models; undecided pairs are linked, which only widens intervals


def related(a: Item, b: Item) -> bool:
    """Whether the answer of one item tells that of the other: equal ids, one cluster, a shared key, or one family.

    Problems of one family are answered by one program with other data. They are no cluster all the same: an interval
    is about new instances of these families, which are too few to be drawn from.
    """
    return (
        a.id == b.id
        or bool(a.cluster and a.cluster == b.cluster)
        or bool(a.family and a.family == b.family)
        or not a.keys.isdisjoint(b.keys)
    )


def clustered(items: Sequence[Item]) -> tuple[Item, ...]:
    """The items in their order, each with the name of its cluster: the least id in it, so no order changes a name."""
    ids = [item.id for item in items]
    parents = {name: name for name in ids}

    def root(name: str) -> str:
        while parents[name] != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    def link(one: str, other: str) -> None:
        low, high = sorted((root(one), root(other)))
        parents[high] = low

    first: dict[str, str] = {}
    for item in items:
        for key in item.keys:
            link(item.id, first.setdefault(key, item.id))
    for one, other in _isomorphic(items):
        link(one, other)
    return tuple(replace(item, cluster=root(item.id)) for item in items)


def _isomorphic(items: Iterable[Item]) -> Iterator[tuple[str, str]]:
    """Pairs of items whose different reference texts are one model up to names and order.

    Only models of equal size are compared, each with those of its size that no earlier one is isomorphic to.
    """
    seen: set[str] = set()
    sizes: dict[tuple[int, ...], list[tuple[str, Model]]] = defaultdict(list)
    for item in items:
        text = item.reference.strip()
        if not text or text in seen:
            continue
        seen.add(text)
        try:
            model = lp.read(item.reference)
        except lp.LPError:
            continue  # its text, data and program still link it
        alike = sizes[_size(model)]
        for other, representative in alike:
            if compare(model, representative, "isomorphism", COMPARE_S).kind != "different":
                yield item.id, other
                break
        else:
            alike.append((item.id, model))


def _size(model: Model) -> tuple[int, ...]:
    return len(model.variables), len(model.rows), len(model.value)
