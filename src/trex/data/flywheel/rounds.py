"""Rounds: which attempts are made in each, decided by what earlier rounds let through, and which slots they fill.

Slots are the dialogues that are wanted, by number, each with its bucket. A round makes an attempt for every open slot
that it is to fill, and some more (over-sampling); what passes beyond its slot is surplus, and fills other slots of the
same bucket, in this round or a later one.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from trex.data.flywheel.bucket import Bucket, Wanted
from trex.data.flywheel.embedded import Attempt
from trex.data.flywheel.pool import Pool
from trex.data.plan import FLYWHEEL, MOST, SEED_STRIDE
from trex.data.problem import DataError

LAST = 100  # rounds at most; instances of more would not have seeds of their own


@dataclass(frozen=True)
class Rounds:
    """How a run is cut into rounds. Raises DataError for values out of range.

    count: rounds over which the slots are spread; more follow while slots are open, up to `most`. oversampling:
    attempts per open slot.
    """

    count: int = 4
    oversampling: float = 1.0
    most: int = 20

    def __post_init__(self) -> None:
        """Check ranges."""
        if not 1 <= self.count <= self.most <= LAST:
            raise DataError(f"rounds {self.count}, most {self.most}; accepted: 1 to {LAST}, rounds no more than most")
        if not 1 <= self.oversampling <= 10:
            raise DataError(f"over-sampling {self.oversampling}; accepted: 1 to 10")


@dataclass(frozen=True)
class Candidate:
    """One attempt with the slot that it is for."""

    number: int
    round: int
    slot: int
    attempt: Attempt


@dataclass
class Progress:
    """What a run has so far: the candidate of each filled slot, the surplus by bucket, and how many there were."""

    filled: dict[int, int] = field(default_factory=dict)  # slot -> candidate
    surplus: dict[Bucket, list[int]] = field(default_factory=lambda: defaultdict(list))
    candidates: int = 0

    def accept(self, candidate: Candidate) -> None:
        """Take in what passed: for its slot, or as surplus."""
        if candidate.slot in self.filled:
            self.surplus[candidate.attempt.bucket].append(candidate.number)
        else:
            self.filled[candidate.slot] = candidate.number

    def settle(self, slots: Sequence[int], wanted: Wanted) -> None:
        """Fill open slots with surplus of their buckets."""
        for slot in slots:
            if slot not in self.filled and (rest := self.surplus.get(wanted.bucket(slot))):
                self.filled[slot] = rest.pop(0)


def due(wanted: Wanted, rounds: Rounds, number: int, progress: Progress) -> list[int]:
    """The open slots that a round is to fill, in order."""
    end = min(wanted.count, math.ceil(wanted.count * (number + 1) / rounds.count))
    return [slot for slot in range(end) if slot not in progress.filled]


def candidates(
    wanted: Wanted, rounds: Rounds, number: int, progress: Progress, pool: Pool
) -> Iterator[Candidate]:  # fmt: skip
    """The attempts of a round, in order: one for each slot that is due, then the extra ones."""
    slots = due(wanted, rounds, number, progress)
    total = math.ceil(len(slots) * rounds.oversampling)
    first = (FLYWHEEL + wanted.seed) * SEED_STRIDE + number * MOST
    for k in range(total):
        slot = slots[k % len(slots)]
        bucket = wanted.bucket(slot)
        count = progress.candidates + k
        attempt = Attempt(f"{wanted.seed}-{count:07d}", bucket, first + k, pool.choose(bucket, count))
        yield Candidate(count, number, slot, attempt)
