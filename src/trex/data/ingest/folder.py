"""The folder of a collection: its settings, and how far a run that was stopped has come.

Documents have numbers; each has one row, in documents.jsonl or in refusals.jsonl, both in the order of the numbers.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trex.data.ingest.reading import GATES
from trex.data.problem import DataError
from trex.files import cut_half_line, write_atomic

SETTINGS, DOCUMENTS, REFUSALS = "settings.json", "documents.jsonl", "refusals.jsonl"

LET_IN = {"text": str, "file": str, "licence": str, "sha256": str, "words": int}
REFUSED = {"file": str, "gate": str, "reason": str}


def claim(folder: Path, settings: dict[str, Any]) -> None:
    """Write the settings, or see that they are those of the folder. Raises DataError where they are not."""
    path = folder / SETTINGS
    if not path.exists():
        if any((folder / name).exists() for name in (DOCUMENTS, REFUSALS)):
            raise DataError(
                f"{folder} holds documents but no {SETTINGS}; accepted: a new folder, or one of an earlier run"
            )
        write_atomic(path, (json.dumps(settings, indent=1, ensure_ascii=False) + "\n").encode())
        return
    try:
        before = _flat(json.loads(path.read_bytes()))
    except (ValueError, RecursionError):
        raise DataError(f"{path} is no JSON; accepted: a new folder, or one of an earlier run") from None
    now = _flat(json.loads(json.dumps(settings)))
    for key in [*now, *before]:
        if before.get(key) != now.get(key):
            raise DataError(
                f"{folder} holds documents of other settings: {key} is {before.get(key)!r:.100} there, "
                f"{now.get(key)!r:.100} here"
            )


def resume(folder: Path) -> int:
    """Cut half lines, and rows after the first number that has none; returns that number.

    Raises DataError for a row that is none, is not in order, or whose text was changed.
    """
    paths = [folder / DOCUMENTS, folder / REFUSALS]
    for path in paths:
        cut_half_line(path)
    numbers = sorted(number for path in paths for number, _, _ in rows(path))
    next_number = next((k for k, number in zip_longest(range(len(numbers) + 1), numbers) if k != number), 0)
    if len(set(numbers)) < len(numbers):
        raise DataError(f"{folder}: a document has two rows; accepted: a new folder, or one of an earlier run")
    for path in paths:
        start = next((start for number, start, _ in rows(path) if number >= next_number), None)
        if start is not None:
            os.truncate(path, start)
    return next_number


def rows(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Number, first byte and content of each row of a file; none of a missing one. Raises DataError as `resume`."""
    if not path.exists():
        return
    start, last = 0, -1
    with path.open("rb") as stream:
        for place, line in enumerate(stream, start=1):
            try:
                row = json.loads(line)
                number, text = row["number"], row.get("text")
                if type(number) is not int or number <= last:
                    raise ValueError("it is out of order")
                if any(
                    type(row.get(key)) is not kind for key, kind in (LET_IN if text is not None else REFUSED).items()
                ):
                    raise ValueError(f"it lacks what a row has: {', '.join(LET_IN if text is not None else REFUSED)}")
                if text is None and row["gate"] not in GATES:
                    raise ValueError(f"gate {row['gate']!r}; accepted: {', '.join(GATES)}")
                if text is not None and hashlib.sha256(text.encode()).hexdigest() != row["sha256"]:
                    raise ValueError("its text does not have the recorded hash")
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise DataError(f"{path}, row {place}: {error}") from None
            yield number, start, row
            start, last = start + len(line), number


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {key: value}
    return {k: v for name, part in value.items() for k, v in _flat(part, f"{key}.{name}" if key else name).items()}
