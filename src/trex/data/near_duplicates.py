"""Near-duplicate texts by MinHash and banded locality-sensitive hashing (Broder, 1997; Indyk and Motwani, 1998)."""

import hashlib
import re

import numpy as np
from numpy.typing import NDArray

from trex.solver.equivalence.refine import mix

Signature = NDArray[np.uint32]  # [PERMUTATIONS]
FIRST = 1024  # texts that there is room for at first
PERMUTATIONS, BANDS = 128, 32  # 4 rows per band: pairs from a similarity of about 0.42 are looked at
SHINGLE = 5  # words
WORD = re.compile(r"\w+(?:\.\d+)?")
THRESHOLD = 0.9  # estimated Jaccard similarity from which two texts are near-duplicates


def words(text: str) -> list[str]:
    """Words and numbers of a text in small letters, without punctuation."""
    return WORD.findall(text.lower())


def grams(tokens: list[str], size: int) -> set[int]:
    """64-bit hashes of all runs of `size` words; of the whole text where it is shorter."""
    runs = (" ".join(tokens[k : k + size]) for k in range(max(1, len(tokens) - size + 1)))
    return {int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "little") for run in runs}


def signature(text: str) -> Signature:
    """MinHash signature of a text's runs of SHINGLE words."""
    found = np.array(sorted(grams(words(text), SHINGLE)), dtype=np.uint64)
    seeds = mix(np.arange(PERMUTATIONS, dtype=np.uint64))
    least = np.array([mix(found ^ seed).min() for seed in seeds])
    return (least >> np.uint64(32)).astype(np.uint32)


def similarity(a: Signature, b: Signature) -> float:
    """Estimated Jaccard similarity of two texts; standard error at most 0.045."""
    return float(np.mean(a == b))


class NearDuplicates:
    """Signatures that were let in, found again by their bands. A text takes 640 bytes."""

    def __init__(self, threshold: float = THRESHOLD) -> None:
        self.threshold = threshold
        self._count = 0
        self._kept = np.empty((FIRST, PERMUTATIONS), dtype=np.uint32)
        self._bands = np.empty((FIRST, BANDS), dtype=np.uint32)  # hashes

    def find(self, new: Signature) -> tuple[int, float] | None:
        """Number and similarity of the most similar text that is a near-duplicate, None where there is none."""
        near = np.flatnonzero((self._bands[: self._count] == _bands(new)).any(axis=1)).tolist()
        found = [(similarity(new, self._kept[number]), -number) for number in near]
        best, number = max(found, default=(0.0, 0))
        return (-number, best) if best >= self.threshold else None

    def add(self, new: Signature) -> None:
        """Let a text in."""
        if self._count == len(self._kept):
            self._kept, self._bands = (
                np.concatenate((part, np.empty_like(part))) for part in (self._kept, self._bands)
            )
        self._kept[self._count], self._bands[self._count] = new, _bands(new)
        self._count += 1


def _bands(signed: Signature) -> NDArray[np.uint32]:
    """A hash of each band [BANDS]."""
    parts = signed.reshape(BANDS, -1).astype(np.uint64)
    return (mix(parts) * np.arange(1, 2 * parts.shape[1], 2, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
