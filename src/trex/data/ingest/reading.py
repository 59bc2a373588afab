"""What a reader makes of a file, why it may refuse one, and how much it takes of it."""

import importlib
import unicodedata
from dataclasses import dataclass
from typing import Any

from trex.data.problem import DataError

MEGABYTE = 2**20
TITLE = 200  # characters of titles, sources and licences
GATES = (  # in the order in which documents pass them
    "hidden", "link", "unreadable", "format", "size", "empty", "licence", "binary", "encoding", "encrypted", "pages",
    "pdf", "html", "json", "long line", "time", "memory", "crash", "language", "quality", "relevance", "duplicate",
    "near-duplicate", "benchmark",
)  # fmt: skip


class Refused(Exception):
    """A document that is not let in: the gate that refused it, and why."""

    def __init__(self, gate: str, reason: str) -> None:
        super().__init__(f"{gate}: {reason}")
        self.gate, self.reason = gate, reason


@dataclass(frozen=True)
class Limits:
    """How much one document may take; what is beyond is refused."""

    file_mb: int = 64  # of one file that is one document
    row_mb: int = 8  # of one line of JSONL
    pages: int = 3000  # of a PDF
    line: int = 100_000  # characters of one line of text
    seconds: int = 120  # for reading one document and looking at it; then its process is ended
    memory_mb: int = 4096  # of address space of that process


@dataclass(frozen=True)
class Reading:
    """The text of a document as its format has it, not yet cleaned. `licence` and `source`: what it says itself."""

    text: str
    title: str = ""
    licence: str = ""
    source: str = ""


def one_line(text: str) -> str:
    """At most TITLE characters on one line, without control characters and halves of characters."""
    kept = "".join(
        " " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c) not in ("Cc", "Cs")
    )
    return " ".join(kept.split())[:TITLE].strip()


def optional(module: str, what: str) -> Any:
    """A module of the extra `ingest`. Raises DataError that names the extra where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise DataError(f"{what} needs {name}: pip install 'trex-reproduction[ingest]' ({error})") from None
