"""Which texts are held out, and in what order the others are drawn: decided by contents, weights and seed alone.

Orders come from hashes of the texts, so that neither the order of a source's files nor a library's generator of random
numbers plays a part.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trex.data.problem import DataError
from trex.solver.equivalence.refine import mix

Keys = NDArray[np.uint64]
Numbers = NDArray[np.int64]
CHUNK = 4096  # documents that are numbers of Python's at a time


@dataclass(frozen=True)
class Pool:
    """The texts that are drawn from one source."""

    name: str
    share: float  # of the tokens
    epochs: int  # how often each may be drawn
    texts: Numbers  # their numbers
    keys: Keys  # what their order comes from
    tokens: Numbers  # of each

    def order(self, epoch: int) -> Numbers:
        """Places in `texts` as they are drawn in one epoch."""
        return np.lexsort((self.texts, mix(self.keys ^ _hash(epoch + 1))))


@dataclass(frozen=True)
class Drawn:
    """Documents in the order of training: their number among the texts, and the epoch of their source."""

    texts: "array[int]"
    epochs: "array[int]"

    def __len__(self) -> int:
        return len(self.texts)


def first_of_each(digests: Keys) -> NDArray[np.bool_]:
    """Whether a text is the first with its content. digests: [N, 2]."""
    order = np.lexsort((np.arange(len(digests)), digests[:, 1], digests[:, 0]))
    ranked = digests[order]
    first = np.ones(len(digests), dtype=bool)
    first[order[1:]] = (ranked[1:] != ranked[:-1]).any(axis=1)
    return first


def keys(digests: Keys, seed: int) -> Keys:
    """What orders come from: 64 bits per text, other ones for another seed. digests: [N, 2]."""
    return mix(digests[:, 0] ^ mix(digests[:, 1] ^ _hash(seed)))


def held_out(numbers: Numbers, found: Keys, share: float) -> Numbers:
    """The numbers of a source's texts that are held out: `share` of them, rounded, but one at least if two are there.

    found: key of each. Which they are changes with the seed, and does not with the order of the texts.
    """
    count = min(max(1, round(share * len(numbers))), len(numbers) - 1) if share and len(numbers) > 1 else 0
    return np.sort(numbers[np.lexsort((numbers, mix(found)))[:count]])


def draw(pools: Sequence[Pool], tokens: int) -> Drawn:
    """Draw `tokens` tokens or up to a document more, from whichever source is furthest behind its share.

    tokens: 0 for as many as there are until a source is used up whose turn it is. Then each source has its share to
    within a document. Raises DataError where a source is used up before.
    """
    drawn = Drawn(array("q"), array("I"))
    taken = [0] * len(pools)
    runs = [_runs(pool) for pool in pools]
    while not tokens or sum(taken) < tokens:
        turn = min(range(len(pools)), key=lambda k: (taken[k] / pools[k].share, k))
        following = next(runs[turn], None)
        if following is None:
            if tokens:
                raise DataError(_too_few(pools[turn], sum(taken), tokens))
            break
        number, epoch, size = following
        drawn.texts.append(number)
        drawn.epochs.append(epoch)
        taken[turn] += size
    return drawn


def draw_once(pools: Sequence[Pool], tokens: Sequence[int]) -> Drawn:
    """Draw from each source about `tokens` tokens, one document at least where it has any, no document twice.

    The documents of a source stand together.
    """
    drawn = Drawn(array("q"), array("I"))
    for pool, wanted in zip(pools, tokens, strict=True):
        taken = 0
        for number, epoch, size in _runs(pool):
            if epoch or (taken and taken + size > wanted):
                break
            drawn.texts.append(number)
            drawn.epochs.append(0)
            taken += size
    return drawn


def _runs(pool: Pool) -> Iterator[tuple[int, int, int]]:
    """Number, epoch and tokens of a source's documents as they are drawn."""
    for epoch in range(pool.epochs):
        order = pool.order(epoch)
        for start in range(0, len(order), CHUNK):
            part = order[start : start + CHUNK]
            for number, size in zip(pool.texts[part].tolist(), pool.tokens[part].tolist(), strict=True):
                yield number, epoch, size


def _hash(number: int) -> Keys:
    return mix(np.array([number], dtype=np.uint64))


def _too_few(pool: Pool, taken: int, tokens: int) -> str:
    has = int(pool.tokens.sum())
    return (
        f"source {pool.name} is used up after {taken:,} of {tokens:,} tokens: {has:,} tokens in {len(pool.texts):,} "
        f"texts, each up to {pool.epochs} times, for a share of {pool.share:.3g}; accepted: tokens up to {taken:,}, "
        f"more texts, more max_epochs, or a smaller weight"
    )
