"""Labels as recorded and as they are today: a changelog of disputed rows, each with reason, evidence and source.

`labels.yaml` lists rows by set, id and recorded value, and by a hash of the text where it is known; an entry is applied
to no other row. Version 0 is as recorded; version v has the entries that came with versions 1 to v.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from trex.eval.benchmarks import PROBLEM_SETS, QUESTION_SETS
from trex.eval.items import Item, plain
from trex.eval.scores import right

FILE = Path(__file__).with_name("labels.yaml")
# confirmed: disputed, and right as recorded; changed: to `right`; dropped: no value is right; reference: the reference
# model is wrong; open: `others` are as likely, the recorded value stays
DECISIONS = ("confirmed", "changed", "dropped", "reference", "open")


class LabelError(ValueError):
    """A version or an entry of the changelog that is none. Names what is accepted."""


@dataclass(frozen=True)
class Dispute:
    """One entry of the changelog."""

    set: str
    row: str  # id in its set
    recorded: float | None
    decision: str  # one of DECISIONS
    right: float | None  # of "confirmed" and "changed"
    others: tuple[float | str, ...]  # values that other copies record, or what else may be right
    reason: str
    evidence: str
    source: str
    version: int  # the first with this entry
    text: str  # hash of the question, "" where it is not known


@dataclass(frozen=True)
class Label:
    """An item's label as recorded and in a version of the changelog."""

    recorded: float | None
    current: float | None  # None where the row is dropped or records nothing
    decision: str = ""  # one of DECISIONS; "" for a row that no one disputes
    reason: str = ""

    @property
    def dropped(self) -> bool:
        """Whether the row counts in no score with current labels; it keeps counting in those as recorded."""
        return self.decision == "dropped"

    @property
    def reference_wrong(self) -> bool:
        """Whether comparing with the reference model says nothing about an answer."""
        return self.decision in ("reference", "dropped")


def labels(item: Item, version: int | None = None) -> Label:
    """An item's label, recorded and current; None is the latest version. Raises LabelError for an unknown version."""
    last = latest()
    chosen = last if version is None else version
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen <= last:
        raise LabelError(f"label version {version!r}; accepted: 0 (as recorded) to {last}")
    for dispute in reversed(changelog()):
        if dispute.version <= chosen and applies(dispute, item):
            current = {"changed": dispute.right, "dropped": None}.get(dispute.decision, item.answer)
            return Label(item.answer, current, dispute.decision, dispute.reason)
    return Label(item.answer, item.answer)


def applies(dispute: Dispute, item: Item) -> bool:
    """Whether an entry is about this item: same row, same recorded value, same text where that is known."""
    if item.id != f"{dispute.set}/{dispute.row}" or (dispute.text and dispute.text != fingerprint(item.question)):
        return False
    return item.answer is None if dispute.recorded is None else right(item.answer, dispute.recorded)


def fingerprint(text: str) -> str:
    """What the changelog knows a text by: 16 digits of the SHA-256 of its words in lower case."""
    return hashlib.sha256(plain(text).encode(errors="surrogatepass")).hexdigest()[:16]


def disputed(items: Iterable[Item]) -> tuple[tuple[Item, ...], ...]:
    """Items of one text whose recorded values differ: candidates for the changelog, in the items' order."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        if item.answer is not None and not item.files:
            groups.setdefault(plain(item.question), []).append(item)
    return tuple(
        tuple(group) for group in groups.values() if any(not right(group[0].answer, other.answer) for other in group)
    )


def latest() -> int:
    """The newest version of the labels."""
    return max((dispute.version for dispute in changelog()), default=0)


@cache
def changelog() -> tuple[Dispute, ...]:
    """All entries, in the order of their versions."""
    return parse(FILE.read_text(encoding="utf-8"), str(FILE))


def parse(text: str, where: str = "labels") -> tuple[Dispute, ...]:
    """Read a changelog. Raises LabelError, with the entry, for one that is incomplete or contradicts itself."""
    try:
        rows = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise LabelError(f"{where} is not YAML: {error}") from None
    if not isinstance(rows, list):
        raise LabelError(f"{where} is {type(rows).__name__}; accepted: a list of entries")
    found = tuple(_dispute(row, f"{where}, entry {number}") for number, row in enumerate(rows, start=1))
    seen: set[tuple[Any, ...]] = set()
    for number, dispute in enumerate(found, start=1):
        key = (dispute.set, dispute.row, dispute.version)
        if key in seen or (number > 1 and dispute.version < found[number - 2].version):
            raise LabelError(f"{where}, entry {number}: {key} is there before, or of an older version")
        seen.add(key)
    return found


def _dispute(row: Any, where: str) -> Dispute:
    texts = ("set", "row", "decision", "reason", "evidence", "source")
    if not isinstance(row, dict) or any(not isinstance(row.get(key), str) or not row[key].strip() for key in texts):
        raise LabelError(f"{where} is {row!r:.120}; accepted: a mapping with texts for {', '.join(texts)}")
    unknown = set(row) - {*texts, "recorded", "right", "others", "version", "text"}
    if unknown or "recorded" not in row:
        raise LabelError(f"{where}: {', '.join(map(str, unknown)) or 'recorded'}: unknown, or missing")
    version, decision = row.get("version"), row["decision"]
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise LabelError(f"{where}: version {version!r}; accepted: whole numbers from 1")
    if row["set"] not in (*QUESTION_SETS, *PROBLEM_SETS) or decision not in DECISIONS:
        raise LabelError(f"{where}: {row['set']}, {decision}; accepted decisions: {', '.join(DECISIONS)}")
    recorded, value = (_number(row.get(key), f"{where}: {key}") for key in ("recorded", "right"))
    if (value is not None) != (decision in ("confirmed", "changed")):
        raise LabelError(f"{where}: right = {value!r} with {decision!r}; accepted: with confirmed and changed, only")
    if value is not None and right(value, recorded) != (decision == "confirmed"):
        raise LabelError(f"{where}: {decision!r} from {recorded!r} to {value!r}")
    reason, evidence, source = (" ".join(row[key].split()) for key in ("reason", "evidence", "source"))
    others, text = tuple(row.get("others", ())), str(row.get("text", ""))
    return Dispute(row["set"], row["row"], recorded, decision, value, others, reason, evidence, source, version, text)


def _number(value: Any, where: str) -> float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise LabelError(f"{where} is {value!r}; accepted: a number, or nothing")
