"""The pool that attempts are made from: seeds, and dialogues that were let through in earlier rounds.

A parent is chosen by how well it fits the bucket and how seldom it was used; ties are broken by its id and the slot.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable

from trex.data.flywheel.bucket import Bucket
from trex.data.flywheel.embedded import Parent
from trex.data.problem import DataError

SEED_ONLY, HYBRID, SNOWBALL = "seed-only", "hybrid", "snowball"
GROWTHS = (SEED_ONLY, HYBRID, SNOWBALL)
FEW = 64  # parents of a structure that are looked at for one slot: the least used


class Pool:
    """Seeds and accepted dialogues, by structure.

    growth: seed-only takes parents from the seeds; snowball from accepted dialogues, where there are any; hybrid from
    each in turn. Raises DataError for a growth that there is none of.
    """

    def __init__(self, seeds: Iterable[Parent], growth: str) -> None:
        if growth not in GROWTHS:
            raise DataError(f"growth {growth!r}; accepted: {', '.join(GROWTHS)}")
        self.growth = growth
        self.uses: Counter[str] = Counter()
        self._seeds: dict[str, list[Parent]] = defaultdict(list)
        self._grown: dict[str, list[Parent]] = defaultdict(list)
        for seed in seeds:
            self._seeds[seed.bucket.structure].append(seed)
        if not self._seeds:
            raise DataError("no seeds; accepted: at least one")

    def add(self, parent: Parent) -> None:
        """Let a dialogue in."""
        self._grown[parent.bucket.structure].append(parent)

    def choose(self, bucket: Bucket, number: int) -> Parent:
        """The parent of one attempt, which counts as used. number: of the attempt."""
        grown = self.growth == SNOWBALL or (self.growth == HYBRID and number % 2 == 1)
        order = (self._grown, self._seeds) if grown else (self._seeds, self._grown)
        candidates = next((found[bucket.structure] for found in order if found.get(bucket.structure)), None)
        if candidates is None:  # no parent of the structure: any, for an author that can change it
            candidates = [parent for found in order for group in found.values() for parent in group]
        if len(candidates) > FEW:
            candidates = sorted(candidates, key=lambda parent: (self.uses[parent.id], parent.id))[:FEW]
        best = min(candidates, key=lambda parent: self._rank(parent, bucket, number))
        self.uses[best.id] += 1
        return best

    def _rank(self, parent: Parent, bucket: Bucket, number: int) -> tuple[int, int, str]:
        """Small for a parent that fits: each use weighs as much as one trait that it has not."""
        other = parent.bucket
        misses = (
            4 * (other.structure != bucket.structure) + (other.mode != bucket.mode) + (other.task != bucket.task)
            + abs(other.difficulty - bucket.difficulty)
        )  # fmt: skip
        tie = hashlib.blake2b(f"{parent.id}/{number}".encode(), digest_size=8).hexdigest()
        return misses + self.uses[parent.id], self.uses[parent.id], tie
