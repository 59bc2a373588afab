"""Packed rows in parquet files, from which the documents come back token by token.

A file holds the rows of some documents, whole: columns `tokens`, `labels`, `doc_ids` and `positions`, lists of equally
many 32-bit integers. `labels` are the tokens that follow, so that nothing has to be shifted; `positions` count from 0
in each document, wherever its pieces lie.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from pyarrow import parquet

from trex.data.problem import DataError
from trex.data.tokens import IGNORE, Rows, pack

COLUMNS = ("tokens", "labels", "doc_ids", "positions")
GROUP = 2**18  # positions per row group, about
Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Packed:
    """The content of a file, [N, seq_len] each: padding has document -1, position 0, label IGNORE."""

    tokens: Ids
    labels: Ids
    doc_ids: Ids  # numbers in the whole split
    positions: Ids

    @property
    def rows(self) -> Rows:
        """As the trainer takes them."""
        return Rows(*(torch.from_numpy(part.astype(np.int64)) for part in (self.tokens, self.doc_ids, self.labels)))


def packed(documents: Sequence[Ids], first: int, seq_len: int) -> Packed:
    """Rows of documents that are numbered from `first`. Raises DataError for a document of fewer than 2 tokens."""
    rows = pack([document.tolist() for document in documents], seq_len)
    numbers = rows.doc_ids.numpy().astype(np.int32)
    positions = _positions(numbers)
    numbers[numbers >= 0] += first
    return Packed(rows.tokens.numpy().astype(np.int32), rows.labels.numpy().astype(np.int32), numbers, positions)


def write(path: Path, content: Packed) -> None:
    """Write a file."""
    count, seq_len = content.tokens.shape
    ends = np.arange(0, (count + 1) * seq_len, seq_len, dtype=np.int32)
    columns = [pa.ListArray.from_arrays(ends, getattr(content, name).reshape(-1)) for name in COLUMNS]
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
    parquet.write_table(table, path, row_group_size=max(1, GROUP // seq_len), compression="zstd")


def read(path: Path) -> Packed:
    """Read a file. Raises DataError where it is no such file."""
    try:
        table = parquet.read_table(path, columns=list(COLUMNS))
        lists = [table[name].combine_chunks() for name in COLUMNS]
        widths = {int(width) for part in lists for width in part.value_lengths().unique().to_pylist()}
        (seq_len,) = widths
        parts = [part.flatten().to_numpy().reshape(-1, seq_len).astype(np.int32, casting="safe") for part in lists]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, pa.ArrowException) as error:
        raise DataError(f"{path} holds no packed rows: {' '.join(str(error).split())[:200]}") from None
    return Packed(*parts)


def documents(content: Packed) -> Iterator[tuple[int, Ids]]:
    """Number and tokens of each document of a file, by number. Raises DataError where a piece is missing."""
    pieces = _pieces(content.doc_ids)
    flat = {name: getattr(content, name).reshape(-1) for name in COLUMNS}
    starts = pieces.starts[np.lexsort((flat["positions"][pieces.starts], pieces.documents))]
    ends = dict(zip(pieces.starts.tolist(), (pieces.starts + pieces.lengths).tolist(), strict=True))
    parts: list[Ids] = []
    place, last = 0, len(starts) - 1
    for k, start in enumerate(starts.tolist()):
        number, end = int(flat["doc_ids"][start]), ends[start]
        if flat["positions"][start] != place:
            raise DataError(f"document {number} has no piece from position {place}")
        parts.append(flat["tokens"][start:end])
        place += end - start
        if k == last or flat["doc_ids"][starts[k + 1]] != number:
            yield number, np.concatenate([*parts, flat["labels"][end - 1 : end]])
            parts, place = [], 0


@dataclass(frozen=True)
class _Pieces:
    documents: NDArray[np.int32]
    starts: NDArray[np.int64]  # in the flattened rows
    lengths: NDArray[np.int64]


def _pieces(numbers: Ids) -> _Pieces:
    """Runs of one document within a row, padding left out. numbers: [N, seq_len]."""
    flat = numbers.reshape(-1)
    begins = np.ones(len(flat), dtype=bool)
    begins[1:] = flat[1:] != flat[:-1]
    begins[:: numbers.shape[1]] = True
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(flat)))
    kept = flat[starts] >= 0
    return _Pieces(flat[starts[kept]], starts[kept], lengths[kept])


def _positions(numbers: Ids) -> Ids:
    """Positions within documents. `pack` lays a long one out in full rows, in order, and then what is left over."""
    pieces, seq_len = _pieces(numbers), numbers.shape[1]
    order = np.lexsort((pieces.starts, pieces.lengths < seq_len, pieces.documents))
    lengths, ids = pieces.lengths[order], pieces.documents[order]
    before = np.cumsum(lengths) - lengths  # of all pieces
    opens = np.append(True, ids[1:] != ids[:-1])
    offsets = before - np.maximum.accumulate(np.where(opens, before, 0))
    positions = np.zeros(numbers.size, dtype=np.int32)
    for start, length, offset in zip(pieces.starts[order].tolist(), lengths.tolist(), offsets.tolist(), strict=True):
        positions[start : start + length] = np.arange(offset, offset + length)
    return positions.reshape(numbers.shape)


def padding(content: Packed) -> int:
    """Positions that are not trained on."""
    return int((content.labels == IGNORE).sum())
