"""The rewritten problems of a folder, and the replies refused on the way: lines appended beside documents.jsonl.

Every reply is one line in one of two files, on the disk before the next is asked for, so that a run may be killed at
any moment and goes on where it was. documents.jsonl is only read.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from trex.data.documents import Document, read_jsonl
from trex.data.engine import DOCUMENTS, PLAN, read_settings
from trex.data.problem import DataError
from trex.data.rewriting import CHECKS, Prose, preserved, statement_sha256
from trex.files import cut_half_line, locked

REWRITTEN, REFUSED = "rewritten.jsonl", "rewriting_refusals.jsonl"
Row = dict[str, Any]
_OF_BOTH = {"document": int, "statement_sha256": str, "model": str}
KINDS: dict[str, dict[str, Any]] = {
    REWRITTEN: {**_OF_BOTH, "problem": str, "attempts": int, "checks": list},
    REFUSED: {**_OF_BOTH, "attempt": int, "reasons": list, "answer": str},
}


class Store:
    """What a folder has of rewritings; made by `store`.

    accepted: the numbers of the documents, from 0, that have one. refused: by number, the replies of `model` that were
    refused, with reasons.
    """

    def __init__(self, folder: Path, model: str, streams: dict[str, FileIO]) -> None:
        self.model, self._streams = model, streams
        self._made_from: dict[int, str] = {}
        self.accepted: set[int] = set()
        self.refused: dict[int, list[tuple[str, Sequence[str]]]] = {}
        for name in (REWRITTEN, REFUSED):
            for number, row in read_rows(folder / name):
                k = row["document"]
                where = f"{folder / name}, row {number}: document {k}"
                if self._made_from.setdefault(k, row["statement_sha256"]) != row["statement_sha256"]:
                    raise DataError(f"{where} has another statement than in an earlier row")
                if name == REFUSED:
                    if row["model"] == model:
                        self.refused.setdefault(k, []).append((row["answer"], row["reasons"]))
                elif k in self.accepted:
                    raise DataError(f"{where} is there twice")
                else:
                    self.accepted.add(k)

    def check(self, k: int, document: Document) -> None:
        """Raise DataError where document k is not the one that its rows were made from."""
        if self._made_from.setdefault(k, digest := statement_sha256(document)) != digest:
            raise DataError(f"document {k} is another than when it was rewritten; delete {REWRITTEN} and {REFUSED}")

    def add(self, k: int, document: Document, reply: str) -> list[str]:
        """Judge a reply and write it down; returns why it is refused, nothing where it is accepted."""
        problem = Prose.of(document.problem).whole(reply)
        reasons = preserved(document.problem, problem, document) if reply.strip() else ["form: it is empty"]
        if problem == document.problem:
            reasons = ["form: it is the original word by word"]
        attempt = len(self.refused.get(k, ())) + 1
        head = {"document": k, "statement_sha256": statement_sha256(document)}
        if reasons:
            self._append(REFUSED, head | {"model": self.model, "attempt": attempt, "reasons": reasons, "answer": reply})
            self.refused.setdefault(k, []).append((reply, reasons))
        else:
            head |= {"problem": problem, "model": self.model, "attempts": attempt, "checks": list(CHECKS)}
            self._append(REWRITTEN, head)
            self.accepted.add(k)
        return reasons

    def _append(self, name: str, row: Row) -> None:
        """On the disk when it returns; not there where it raises."""
        stream = self._streams[name]
        start = stream.seek(0, os.SEEK_END)
        try:
            rest = memoryview(json.dumps(row).encode("ascii") + b"\n")  # escapes keep even lone surrogates
            while rest:
                rest = rest[stream.write(rest) :]
            os.fsync(stream.fileno())
        except BaseException:  # a full disk, say: the next row must not follow half of this one
            stream.truncate(start)
            raise


@contextmanager
def store(folder: Path, model: str) -> Iterator[Store]:
    """The only writer of a folder's rewritings; half-written last lines are cut off.

    Raises DataError where another process writes them, where the folder is not finished, and for a bad row.
    """
    total(folder)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / ".rewriting.lock"))
        except BlockingIOError:
            raise DataError(f"{folder} is being rewritten by another process; wait for it or stop it") from None
        for name in (REWRITTEN, REFUSED):
            cut_half_line(folder / name)
        streams = {name: stack.enter_context(FileIO(folder / name, "ab")) for name in (REWRITTEN, REFUSED)}
        yield Store(folder, model, streams)


def total(folder: Path) -> int:
    """How many documents a finished folder has. Raises DataError where there are none, or fewer than planned."""
    path = folder / DOCUMENTS
    if not path.is_file():
        raise DataError(f"{path} does not exist; accepted: a folder that `trex data generate` made")
    with path.open("rb") as stream:
        count = sum(line.endswith(b"\n") for line in stream)
    if (folder / PLAN).exists() and count < (planned := read_settings(folder).plan.count):
        raise DataError(
            f"{folder} is not finished: it has {count} of {planned} documents; go on with trex data generate"
        )
    return count


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Number from 1 and content of each row, none where there is no file. Raises DataError that names a bad row."""
    if not path.exists():
        return
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            where = f"{path}, row {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where}: no JSON: {error}") from None
            kinds = KINDS[path.name]
            if not isinstance(row, dict) or row.keys() != kinds.keys():
                raise DataError(f"{where}: accepted: an object of {', '.join(kinds)}")
            for key, kind in kinds.items():
                if not isinstance(row[key], kind) or isinstance(row[key], bool):
                    raise DataError(f"{where}: {key} is {row[key]!r:.80}")
            if row["document"] < 0:
                raise DataError(f"{where}: document is {row['document']}; accepted: whole numbers from 0")
            yield number, row


def faults(folder: Path) -> list[str]:
    """What is wrong with a folder's rewritten problems, row by row; every one is checked again."""
    path, found = folder / REWRITTEN, []
    rows: dict[int, tuple[int, Row]] = {}
    try:
        for number, row in read_rows(path):
            if row["document"] in rows:
                found.append(f"{REWRITTEN}, row {number}: document {row['document']} is there twice")
            rows.setdefault(row["document"], (number, row))
    except DataError as error:
        return [str(error)]
    if not rows:
        return found
    try:
        for k, document in enumerate(read_jsonl(folder / DOCUMENTS)):
            if k in rows:
                number, row = rows.pop(k)
                found += [f"{REWRITTEN}, row {number}: {reason}" for reason in _wrong(row, document)]
    except DataError as error:  # the row of documents.jsonl is a fault of its own
        return [*found, f"{REWRITTEN} is not checked from there on: {error}"]
    return found + [f"{REWRITTEN}, row {number}: there is no document {k}" for k, (number, _) in rows.items()]


def _wrong(row: Row, document: Document) -> list[str]:
    if row["statement_sha256"] != statement_sha256(document):
        return ["it was made from another statement"]
    if row["checks"] != list(CHECKS):
        return [f"checks are {row['checks']!r:.120}, not {list(CHECKS)}"]
    if row["attempts"] < 1 or not row["model"]:
        return [f"attempts is {row['attempts']}, model {row['model']!r}"]
    try:
        return preserved(document.problem, row["problem"], document)[:3]
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # of a document that holds anything
        return [f"its document cannot be read: {error!r}"]
