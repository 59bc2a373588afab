"""Which rows are held out: whole lineages, with all that is connected to them, so that no relative is on both sides."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trex.data.problem import DataError


@dataclass(frozen=True)
class Link:
    """What connects a row with others: equal lineages, one row being the other's parent, and equal problem texts."""

    id: str
    lineage: str
    parent: str  # "" for none
    text: str  # the problem's, or a digest of it


@dataclass(frozen=True)
class Split:
    """Rows held out and how the groups of connected rows were divided."""

    held_out: frozenset[int]  # numbers of rows
    groups: int
    held_out_groups: int


def digest(text: str) -> str:
    """Of a text, the same where only white space differs."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def groups(links: Iterable[Link]) -> list[list[int]]:
    """Numbers of rows that are connected, directly or through others, in the order of each group's first row.

    Ids, lineages and parents share one space of names: a row's parent is another row or the seed of its lineage.
    """
    parents: list[int] = []
    nodes: dict[tuple[str, str], int] = {}

    def node(kind: str, name: str) -> int:
        found = nodes.setdefault((kind, name), len(parents))
        if found == len(parents):
            parents.append(found)
        while parents[found] != found:
            parents[found] = parents[parents[found]]
            found = parents[found]
        return found

    rows = []
    for link in links:
        rows.append(link.id)
        names = [("row", link.lineage), ("row", link.parent), ("text", link.text)]
        for kind, name in names:
            if name:
                parents[node(kind, name)] = node("row", link.id)
    found: dict[int, list[int]] = {}
    for number, name in enumerate(rows):
        found.setdefault(node("row", name), []).append(number)
    return list(found.values())


def split(links: Sequence[Link], share: float, seed: int) -> Split:
    """Hold out groups of connected rows in the order of a hash of seed and lineage, each that still fits the share.

    The smallest group that is left joins them where that comes nearer to the share, or where none did fit; both sides
    have one group at least. Raises DataError for a share out of range and for fewer than two groups.
    """
    if not (math.isfinite(share) and 0 <= share < 1):
        raise DataError(f"validation {share}; accepted: from 0, below 1")
    found = groups(links)
    if not share:
        return Split(frozenset(), len(found), 0)
    if len(found) < 2:
        raise DataError(
            f"validation {share:g} of {len(links):,} rows in {len(found)} group of connected lineages; "
            "accepted: two groups or more, or validation 0"
        )
    order = sorted(found, key=lambda group: _place(min(links[number].lineage for number in group), seed))
    target = share * len(links)
    chosen: list[int] = []
    left: list[list[int]] = []
    count = 0
    for group in order:
        if len(chosen) + len(group) <= target:
            chosen += group
            count += 1
        else:
            left.append(group)
    nearest = min(left, key=len)  # of equally small ones the first in the order
    if not count or (len(left) > 1 and abs(len(chosen) + len(nearest) - target) < target - len(chosen)):
        chosen += nearest
        count += 1
    return Split(frozenset(chosen), len(found), count)


def _place(lineage: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/{lineage}".encode("utf-8", "surrogatepass")).digest()
