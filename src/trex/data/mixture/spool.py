"""Texts and their tokens in temporary files, so that only some 60 bytes per text are in memory.

First every text is put down, then duplicates are found and texts held out, then each is tokenised; from then on any
document's tokens can be read at once.
"""

import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trex.data.mixture.text import Text
from trex.data.problem import DataError

TEXTS, ABOUT, TOKENS = "texts.bin", "about.jsonl", "tokens.bin"
Mask = NDArray[np.bool_]  # one per text
Ids = NDArray[np.int32]


class Spool:
    """Texts by their number, in the order in which they were added, in files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._texts, self._about = (folder / TEXTS).open("w+b"), (folder / ABOUT).open("w+b")
        self._text_ends, self._about_ends = array("q", [0]), array("q", [0])
        self._token_ends = array("q", [0])
        self._digests = bytearray()
        self._sources = array("B")
        self._tokens: Ids | None = None

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, source: int, text: Text) -> None:
        """Put a text down. Raises DataError for one that is no Unicode."""
        try:
            body = text.text.encode()
            digest = hashlib.sha256(body)
            line = json.dumps([text.name, text.licence, text.package, digest.hexdigest()]).encode()
        except UnicodeEncodeError as error:
            raise DataError(f"{text.name}: text that is not Unicode: {error.reason}") from None
        self._texts.write(body)
        self._about.write(line)
        self._text_ends.append(self._text_ends[-1] + len(body))
        self._about_ends.append(self._about_ends[-1] + len(line))
        self._digests += digest.digest()[:16]
        self._sources.append(source)

    def sources(self) -> NDArray[np.uint8]:
        """The source of each text."""
        return np.frombuffer(self._sources, dtype=np.uint8) if self._sources else np.zeros(0, dtype=np.uint8)

    def digests(self) -> NDArray[np.uint64]:
        """128 bits of SHA-256 of each text, [N, 2]."""
        return np.frombuffer(bytes(self._digests), dtype="<u8").reshape(-1, 2)

    def texts(self, chosen: Mask) -> Iterator[tuple[int, str]]:
        """Number and text of those chosen, in order."""
        self._texts.flush()
        with (self._folder / TEXTS).open("rb") as stream:
            for number in np.flatnonzero(chosen).tolist():
                stream.seek(self._text_ends[number])
                yield number, stream.read(self._text_ends[number + 1] - self._text_ends[number]).decode()

    def tokenise(self, chosen: Iterable[tuple[int, str]], encode: Callable[[str], list[int]]) -> None:
        """Put down the tokens of those chosen, which `texts` gives, and let go of all texts. The others have none."""
        done = 0
        with (self._folder / TOKENS).open("wb") as stream:
            for number, text in chosen:
                ids = np.array(encode(text), dtype="<i4")
                stream.write(ids.tobytes())
                self._token_ends.extend([self._token_ends[-1]] * (number - done))
                self._token_ends.append(self._token_ends[-1] + len(ids))
                done = number + 1
        self._token_ends.extend([self._token_ends[-1]] * (len(self) - done))
        self._texts.close()
        os.unlink(self._folder / TEXTS)
        if self._token_ends[-1]:
            self._tokens = np.memmap(self._folder / TOKENS, dtype="<i4", mode="r")

    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text."""
        ends = np.frombuffer(self._token_ends, dtype=np.int64)
        return ends[1:] - ends[:-1]

    def tokens(self, number: int) -> Ids:
        """The tokens of a text, [n]."""
        assert self._tokens is not None
        return np.array(self._tokens[self._token_ends[number] : self._token_ends[number + 1]], dtype=np.int32)

    def about(self, number: int) -> tuple[str, str, str, str]:
        """Name, licence, package and SHA-256 of a text."""
        self._about.seek(self._about_ends[number])
        found: Any = json.loads(self._about.read(self._about_ends[number + 1] - self._about_ends[number]))
        return tuple(found)

    def close(self) -> None:
        """Close and remove the files."""
        self._texts.close()
        self._about.close()
        self._tokens = None
        for name in (TEXTS, ABOUT, TOKENS):
            (self._folder / name).unlink(missing_ok=True)
