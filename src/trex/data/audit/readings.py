"""A reader's opinion of the public seeds, row by row, to be held against the audit's verdicts on them.

`readings.yaml` says what was read, and what its words mean.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from trex.data.audit.verdicts import ACCEPTED, VERDICTS
from trex.data.problem import DataError

FILE = Path(__file__).with_name("readings.yaml")
RIGHT, WRONG, DOUBTFUL = "right", "wrong", "doubtful"
READINGS = (RIGHT, WRONG, DOUBTFUL)
KINDS = (
    "unit", "integrality", "missing constraint", "extra constraint", "direction", "data", "objective", "horizon",
    "infeasible", "trivial", "ambiguous text",
)  # fmt: skip
AGREES, MISSES, STRICT = "agrees", "misses", "too strict"
OPINIONS = (AGREES, MISSES, STRICT)
KEYS = ("id", "reading", "kind", "reason", "audit")


@dataclass(frozen=True)
class Reading:
    """What a reader says of one row: of its program as a model of its text, and of the audit's verdict."""

    id: str  # of the row, as its verdict has it
    reading: str  # one of READINGS
    kind: str  # one of KINDS, "" where the program is right
    reason: str  # one sentence; "" only where the program is right
    audit: str  # one of OPINIONS


@cache
def readings() -> tuple[Reading, ...]:
    """All readings, in the order of the file that was read. Raises DataError, with the entry, for one that is none."""
    return parse(FILE.read_text(encoding="utf-8"), FILE.name)


def parse(text: str, where: str = "readings") -> tuple[Reading, ...]:
    """Read a list of readings. Raises DataError, with the entry, for one that is incomplete or contradicts itself."""
    try:
        rows = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DataError(f"{where} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(rows, list):
        raise DataError(f"{where} is {type(rows).__name__}; accepted: a list of entries")
    found = tuple(_reading(row, f"{where}, entry {number}") for number, row in enumerate(rows, start=1))
    seen: dict[str, int] = {}
    for number, reading in enumerate(found, start=1):
        if seen.setdefault(reading.id, number) != number:
            raise DataError(f"{where}, entry {number}: id {reading.id!r:.80} is that of entry {seen[reading.id]} too")
    return found


def against(verdicts: Iterable[Mapping[str, Any]], read: Iterable[Reading] | None = None) -> dict[str, Any]:
    """Verdicts, as verdicts.jsonl has them, against readings (None: the packaged ones).

    "table": the audit's verdict -> reading -> number of rows; "accepted_wrong": ids of accepted rows that were read as
    wrong; "unread": ids without a reading. Raises DataError for what is no verdict.
    """
    by_id = {reading.id: reading for reading in (readings() if read is None else read)}
    table = {verdict: dict.fromkeys(READINGS, 0) for verdict in VERDICTS}
    wrong: list[str] = []
    unread: list[str] = []
    for row in verdicts:
        name, verdict = row.get("id"), row.get("verdict")
        if not isinstance(name, str) or verdict not in VERDICTS:
            raise DataError(f"id {name!r:.80}, verdict {verdict!r:.80}; accepted: a text, and {', '.join(VERDICTS)}")
        reading = by_id.get(name)
        if reading is None:
            unread.append(name)
            continue
        table[verdict][reading.reading] += 1
        if verdict == ACCEPTED and reading.reading == WRONG:
            wrong.append(name)
    return {"table": table, "accepted_wrong": wrong, "unread": unread}


def _reading(row: Any, where: str) -> Reading:
    """One entry. Raises DataError for one that is none."""
    if not isinstance(row, dict) or set(row) != set(KEYS) or not all(isinstance(value, str) for value in row.values()):
        raise DataError(f"{where} is {row!r:.200}; accepted: a mapping with texts for {', '.join(KEYS)}")
    name, reading, kind, reason, audit = (" ".join(row[key].split()) for key in KEYS)
    if not name:
        raise DataError(f"{where}: id is {row['id']!r}; accepted: the id of a row")
    where = f"{where} ({name:.40})"
    kinds = ("",) if reading == RIGHT else KINDS
    opinions = (AGREES, STRICT) if reading == RIGHT else (AGREES, MISSES)
    for key, value, accepted in (("reading", reading, READINGS), ("kind", kind, kinds), ("audit", audit, opinions)):
        if value not in accepted:
            raise DataError(f"{where}: {key} is {value!r:.80}; accepted: {', '.join(map(repr, accepted))}")
    if not reason and reading != RIGHT:
        raise DataError(f"{where}: no reason; accepted: none only where the reading is {RIGHT!r}")
    return Reading(name, reading, kind, reason, audit)
