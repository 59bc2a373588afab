"""The files of a collection in a fixed order, with the licences and sources that lie beside them, and their documents.

The licence of `paper.pdf` is read from `paper.pdf.licence` or `paper.pdf.license`: one line that is the licence, or
lines `SPDX-License-Identifier: …` (as the REUSE specification has it) and `Source: …`.
"""

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trex.data.ingest.reading import MEGABYTE, TITLE, Limits, Refused, one_line
from trex.data.problem import DataError

FORMATS = {
    ".txt": "text", ".text": "text", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html",
    ".xhtml": "html", ".pdf": "pdf", ".jsonl": "jsonl", ".ndjson": "jsonl",
}  # fmt: skip
SIDECARS = (".licence", ".license")
SIDECAR_SIZE = 1 << 16  # bytes
SAID = re.compile(r"\s*(SPDX-License-Identifier|licen[cs]e|source)\s*:\s*(\S.*)", re.IGNORECASE)
LICENCES = ("licence", "license")  # keys of a row with its licence
# controls, formats (zero width, bidirectional), halves, private ones, separators of lines and paragraphs
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
NO_LICENCE = {"", "none", "unknown", "noassertion", "n/a", "na", "null", "-", "?"}  # what says that there is none


@dataclass(frozen=True)
class File:
    """One file of the collection. `gate` and `reason`: why nothing in it is read, "" where it is."""

    name: str  # from the name of the folder that was given, with slashes
    path: str
    format: str = ""  # one of the values of FORMATS
    size: int = 0  # bytes
    sha256: str = ""
    licence: str = ""
    source: str = ""
    gate: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Item:
    """One document: a whole file (line 0), or a line of a JSONL file with its content."""

    number: int  # in the collection, from 0
    file: File
    line: int = 0
    content: bytes = b""
    size: int = 0  # bytes, for progress
    gate: str = ""
    reason: str = ""

    @property
    def place(self) -> str:
        """File, and line of a JSONL file."""
        return f"{self.file.name}:{self.line}" if self.line else self.file.name


def licence(value: object) -> str:
    """A licence as it is recorded; "" for what names none."""
    text = one_line(value) if isinstance(value, str) else ""
    return "" if text.lower() in NO_LICENCE else text


def inventory(inputs: Sequence[Path], limits: Limits) -> list[File]:
    """All files of the given files and folders, sorted by name within each.

    Raises DataError for an input that does not exist, and for two of one name, whose files could not be told apart.
    """
    names = [_name(path.absolute()) for path in inputs]
    if not inputs or len(set(names)) < len(names):
        raise DataError(
            f"documents from {', '.join(map(str, inputs)) or 'nowhere'}; accepted: inputs of different names"
        )
    found: list[File] = []
    for name, path in zip(names, inputs, strict=True):
        if not path.exists():
            raise DataError(f"{path} does not exist; accepted: files and folders")
        found += _below(name, Path(os.path.realpath(path)), limits)
    return found


def digest(files: Iterable[File]) -> str:
    """SHA-256 of all that decides what is made of the files."""
    lines = ("\0".join((f.name, f.format, str(f.size), f.sha256, f.licence, f.source, f.gate)) for f in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def items(files: Iterable[File], limits: Limits) -> Iterator[Item]:
    """The documents of the files one by one. Raises DataError where a JSONL file is not what it was any more."""
    number = 0
    for file in files:
        whole = file.gate or file.format != "jsonl"
        for item in [Item(number, file, 0, b"", file.size)] if whole else _rows(number, file, limits):
            yield item
            number += 1


def changed(file: File) -> DataError:
    """The error for a file that was written while it was read."""
    return DataError(f"{file.name} changed after it was first read; begin with an empty output folder")


def _name(path: Path) -> str:
    return os.fsencode(path.name or path.resolve().name or "root").decode("utf-8", "backslashreplace")


def _below(name: str, path: Path, limits: Limits) -> Iterator[File]:
    try:
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            yield _file(name, path, status, limits)
            return
        entries = sorted(path.iterdir())
    except OSError as error:
        yield File(name, str(path), gate="unreadable", reason=str(error.strerror))
        return
    beside = {entry.name for entry in entries}
    for entry in entries:
        below = f"{name}/{_name(entry)}"
        if entry.suffix.lower() in SIDECARS and entry.stem in beside:
            continue
        if entry.name.startswith("."):
            yield File(
                below, str(entry), gate="hidden", reason="files and folders whose names begin with a dot stay out"
            )
        elif entry.is_symlink():
            yield File(below, str(entry), gate="link", reason="links inside a folder are not followed")
        else:
            yield from _below(below, entry, limits)


def _file(name: str, path: Path, status: os.stat_result, limits: Limits) -> File:
    try:
        form = FORMATS.get(path.suffix.lower(), "")
        if not stat.S_ISREG(status.st_mode):
            raise Refused("format", "it is no regular file")
        if not form:
            raise Refused("format", f"{path.suffix or 'no suffix'}; accepted: {', '.join(FORMATS)}")
        if status.st_size == 0:
            raise Refused("empty", "it has no byte")
        if form != "jsonl" and status.st_size > limits.file_mb * MEGABYTE:
            raise Refused("size", f"{status.st_size:,} bytes; accepted: up to {limits.file_mb} MB")
        said, source = _sidecar(path)
        with path.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        return File(name, str(path), form, status.st_size, sha256, said, source)
    except OSError as error:
        return File(name, str(path), size=status.st_size, gate="unreadable", reason=str(error.strerror))
    except Refused as error:
        return File(name, str(path), size=status.st_size, gate=error.gate, reason=error.reason)


def _sidecar(path: Path) -> tuple[str, str]:
    """Licence and source from beside a file, "" where there is nothing. Raises Refused where it names no licence."""
    for side in (path.with_name(path.name + suffix) for suffix in SIDECARS):
        if not os.path.lexists(side):
            continue
        lines = [line for line in _read(side).splitlines() if line.strip()]
        said = {m[1].lower(): m[2] for line in lines if (m := SAID.match(line))}
        source = said.pop("source", "").strip()
        named = next(iter(said.values()), lines[0] if len(lines) == 1 and not source else "").strip()
        if not licence(named):
            raise Refused("licence", f"{_name(side)} names none; accepted: one line, or SPDX-License-Identifier: …")
        if wrong := misstated(named) or misstated(source):
            raise Refused("licence", f"{_name(side)} has {wrong}")
        return licence(named), one_line(source)
    return "", ""


def _read(side: Path) -> str:
    """The text beside a file. Raises Refused where it is not plain text."""
    if side.is_symlink() or not side.is_file():
        raise Refused("licence", f"{_name(side)} is no regular file; accepted: a file with one line")
    with side.open("rb") as stream:
        data = stream.read(SIDECAR_SIZE + 1)
    if len(data) > SIDECAR_SIZE:
        raise Refused("licence", f"{_name(side)} has more than {SIDECAR_SIZE:,} bytes; accepted: one line")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = data[error.start : error.start + 1].hex()
        raise Refused("licence", f"{_name(side)}: byte {error.start} (0x{byte}) is no UTF-8") from None
    if wrong := _unseen(text):
        raise Refused("licence", f"{_name(side)} has {wrong}")
    return text


def misstated(text: str) -> str:
    """Why a licence or source cannot be recorded as it is stated, "" where it can."""
    if len(text.strip()) > TITLE:
        return f"a line of {len(text.strip()):,} characters; accepted: up to {TITLE}"
    return _unseen(text)


def _unseen(text: str) -> str:
    """The first character that shows nothing, turns the order of others, or stands for one that was lost; else ""."""
    found = (c for c in text if c == "\ufffd" or (c not in "\t\r\n" and unicodedata.category(c) in UNSEEN))
    return next((f"the character U+{ord(c):04X}; accepted: letters, signs and spaces" for c in found), "")


def _rows(number: int, file: File, limits: Limits) -> Iterator[Item]:
    most, sha256, line, first = limits.row_mb * MEGABYTE, hashlib.sha256(), 0, number
    with Path(file.path).open("rb") as stream:
        while content := stream.readline(most + 1):
            sha256.update(content)
            line, size, gate, reason = line + 1, len(content), "", ""
            if len(content) > most:
                gate, reason = "size", f"a row of more than {limits.row_mb} MB"
                while not content.endswith(b"\n") and (content := stream.readline(most)):
                    sha256.update(content)
                    size += len(content)
                content = b""
            if gate or content.strip():
                yield Item(number, file, line, content, size, gate, reason)
                number += 1
    if sha256.hexdigest() != file.sha256:
        raise changed(file)
    if number == first:
        yield Item(number, file, 0, b"", file.size, "empty", "it has no row")
