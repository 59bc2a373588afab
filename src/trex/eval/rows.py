"""Rows of a run: JSON lines keyed by (item, sample), appended one by one, so that a run may be killed at any moment.

A row is an object with at least "item" (a text) and "sample" (a count from 0). The last row of a key is the one that
counts; a key has at most one row whose "status" is "ok", which ends the work on it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from trex.files import cut_half_line, locked

Row = dict[str, Any]
Key = tuple[str, int]


class EvaluationError(ValueError):
    """A run, its files or its settings are not what is accepted. Names the file and line, or the value."""


def key(row: Mapping[str, Any]) -> Key:
    """Item and sample of a row. Raises EvaluationError where it has none."""
    item, sample = row.get("item"), row.get("sample")
    if not isinstance(item, str) or not item:
        raise EvaluationError(f"'item' is {item!r:.80}; accepted: a text")
    if not isinstance(sample, int) or isinstance(sample, bool) or sample < 0:
        raise EvaluationError(f"'sample' is {sample!r:.80}; accepted: a whole number from 0")
    return item, sample


def read(path: Path) -> list[Row]:
    """All whole rows of a file in order, none where it is missing; a half-written last line is left out.

    Raises EvaluationError that names file and line of the first row that is none.
    """
    rows = []
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.endswith(b"\n"):
                    rows.append(_row(line, f"{path}, line {number}"))
    except FileNotFoundError:
        return []
    return rows


def latest(rows: Iterable[Row]) -> dict[Key, Row]:
    """The row that counts of each key: the last one. Keys stand in the order in which they first appeared."""
    return {key(row): row for row in rows}


def finished(row: Mapping[str, Any]) -> bool:
    """Whether a row ends the work on its key."""
    return row.get("status") == "ok"


class Writer:
    """Appends rows to one file; made by `writer`. `latest` holds the row that counts of each key."""

    def __init__(self, path: Path, stream: FileIO, rows: Iterable[Row]) -> None:
        self.path, self._stream, self.latest = path, stream, latest(rows)

    def append(self, *rows: Row) -> None:
        """Append rows, which are on the disk when this returns; all of them or none where it raises.

        Raises EvaluationError for a row of a key that is finished, and for one that is no JSON.
        """
        new = self._accepted(rows)
        lines = b"".join(_line(row) for row in rows)
        start = self._stream.seek(0, os.SEEK_END)
        try:
            rest = memoryview(lines)
            while rest:
                rest = rest[self._stream.write(rest) :]
            os.fsync(self._stream.fileno())
            self.latest.update(new)
        except BaseException:  # a full disk, say: the next row must not follow half of this one
            self._stream.truncate(start)
            raise

    def missing(self, keys: Iterable[Key]) -> list[Key]:
        """Those keys that no finished row has yet, in their order."""
        return [k for k in keys if not finished(self.latest.get(k, {}))]

    def _accepted(self, rows: Iterable[Row]) -> dict[Key, Row]:
        new: dict[Key, Row] = {}
        for row in rows:
            k = key(row)
            if finished(new.get(k, self.latest.get(k, {}))):
                raise EvaluationError(f"{self.path}: item {k[0]!r}, sample {k[1]} is finished; it takes no other row")
            new[k] = row
        return new


@contextmanager
def writer(path: Path) -> Iterator[Writer]:
    """The only writer of a file, which is made if it is missing; a half-written last line is cut off.

    Raises EvaluationError for a bad row, and where another process writes to the file.
    """
    try:
        with locked(path.with_name(f".{path.name}.lock")):
            cut_half_line(path)
            rows = read(path)
            with FileIO(path, "ab") as stream:
                yield Writer(path, stream, rows)
    except BlockingIOError:
        raise EvaluationError(f"{path} is being written by another process; wait for it or stop it") from None


def read_json(text: bytes | str, where: str) -> Row:
    """A JSON object. Raises EvaluationError that starts with `where` for anything else."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:  # of JSON, of Unicode, and for numbers of too many digits
        raise EvaluationError(f"{where}: no JSON: {error}") from None
    if not isinstance(row, dict):
        raise EvaluationError(f"{where}: {row!r:.80} is no JSON object")
    return row


def _row(line: bytes, where: str) -> Row:
    row = read_json(line, where)
    try:
        key(row)
    except EvaluationError as error:
        raise EvaluationError(f"{where}: {error}") from None
    return row


def _line(row: Row) -> bytes:
    try:
        return json.dumps(row, allow_nan=False).encode("ascii") + b"\n"  # escapes keep even lone surrogates
    except (ValueError, TypeError, RecursionError) as error:
        raise EvaluationError(f"item {row['item']!r}, sample {row['sample']}: no JSON: {error}") from None
