"""One document through the gates that need nothing but itself: what each process does."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from trex.data.ingest import quality
from trex.data.ingest.cleaning import clean, readable
from trex.data.ingest.language import detect, known, prose
from trex.data.ingest.quality import Thresholds
from trex.data.ingest.readers import read
from trex.data.ingest.reading import TITLE, Limits, Refused, one_line
from trex.data.ingest.relevance import relevance
from trex.data.ingest.sources import NO_LICENCE, Item, changed, licence, misstated
from trex.data.near_duplicates import Signature, signature
from trex.data.problem import DataError

SHOWN = 300  # characters of a refused text that are kept
NO_LICENCE_NAMED = "none is named; accepted: a row's `licence`, a file NAME.licence beside it, or one for all"


@dataclass(frozen=True)
class Rules:
    """What is let in."""

    licence: str = ""  # of documents that name none, "" to refuse them
    languages: tuple[str, ...] = ("en",)  # ISO 639-1; none: every language
    sure: float = 0.5  # how sure the language must be, from 0 to 1
    relevance: float = 0.0  # least weighted hits of terms of operations research per 1,000 words; 0: all are let in
    thresholds: Thresholds = field(default_factory=Thresholds)
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Raise DataError for a licence, a language or a number that is none."""
        if self.licence and (licence(self.licence) != self.licence or misstated(self.licence)):
            none = ", ".join(sorted(NO_LICENCE - {""}))
            raise DataError(f"licence {self.licence!r}; accepted: one line of up to {TITLE} characters, not {none}")
        if not 0 <= self.sure <= 1 or not 0 <= self.relevance < float("inf"):
            raise DataError(f"sure {self.sure}, relevance {self.relevance}; accepted: 0 to 1, and numbers from 0")
        if unknown := sorted(set(self.languages) - known()):
            raise DataError(f"languages {', '.join(unknown)}; accepted: {', '.join(sorted(known()))}")


@dataclass(frozen=True)
class Prepared:
    """A document's row and its MinHash signature, or the gate that refused it, why, and the beginning of its text."""

    row: dict[str, Any] = field(default_factory=dict)
    signature: bytes = b""
    gate: str = ""
    reason: str = ""
    excerpt: str = ""
    sha256: str = ""  # of the cleaned text


def prepare(item: Item, rules: Rules) -> Prepared:
    """Read, clean and judge one document. Raises DataError where its file is not what it was any more."""
    text = ""
    try:
        if item.gate or item.file.gate:
            raise Refused(item.gate or item.file.gate, item.reason or item.file.reason)
        if item.file.format != "jsonl" and not (item.file.licence or rules.licence):
            raise Refused("licence", NO_LICENCE_NAMED)
        found = read(_content(item), item.file.format, rules.limits)
        named = found.licence or item.file.licence or rules.licence
        if not named:
            raise Refused("licence", NO_LICENCE_NAMED)
        text, cut = clean(found.text)
        readable(text, rules.limits.line)
        language, sure = detect(prose(text))
        if rules.languages and (language not in rules.languages or sure < rules.sure):
            raise Refused("language", f"{language}, sure to {sure}; accepted: {', '.join(rules.languages)}")
        if fault := quality.fault(text, language, rules.thresholds):
            raise Refused("quality", fault)
        words = len(quality.words(text, language))
        score, terms = relevance(text, words)
        if score < rules.relevance:
            raise Refused("relevance", f"{score}; accepted: from {rules.relevance:g}")
    except Refused as error:
        return Prepared(
            gate=error.gate, reason=error.reason, excerpt=text[:SHOWN], sha256=_sha256(text) if text else ""
        )
    row: dict[str, Any] = {
        "number": item.number,
        "title": found.title or one_line(PurePosixPath(item.file.name).stem),
        "text": text,
        "source": found.source or item.file.source or item.place,
        "file": item.place,
        "licence": named,
        "format": item.file.format,
        "language": language,
        "words": words,
        "relevance": score,
        "terms": terms,
        "cut_lines": cut,
        "sha256": _sha256(text),
    }
    return Prepared(row, signature(text).tobytes(), sha256=row["sha256"])


def signed(prepared: Prepared) -> Signature:
    """The MinHash signature of a document."""
    return np.frombuffer(prepared.signature, dtype=np.uint32)


def _content(item: Item) -> bytes:
    if item.line:
        return item.content
    try:
        data = Path(item.file.path).read_bytes()
    except OSError as error:
        raise Refused("unreadable", str(error.strerror)) from None
    if hashlib.sha256(data).hexdigest() != item.file.sha256:
        raise changed(item.file)
    return data


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
