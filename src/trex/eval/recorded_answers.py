"""A file of recorded answers, in the place of an endpoint."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trex.eval.rows import EvaluationError, Key, Row, key, read_json


@dataclass(frozen=True)
class Recorded:
    """Answers that were recorded before, by item and sample, with the hash of their file."""

    texts: Mapping[Key, str]
    sha256: str

    @staticmethod
    def read(path: Path) -> "Recorded":
        """Read JSON lines of item, sample and text. Raises EvaluationError that names file and line of a bad one."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise EvaluationError(f"{path} cannot be read: {error.strerror}") from None
        texts: dict[Key, str] = {}
        for number, line in enumerate(data.splitlines(), start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            row = read_json(line, where)
            try:
                found, text = key(row), row.get("text")
            except EvaluationError as error:
                raise EvaluationError(f"{where}: {error}") from None
            if not isinstance(text, str):
                raise EvaluationError(f"{where}: 'text' is {text!r:.80}; accepted: a text")
            if found in texts:
                raise EvaluationError(f"{where}: item {found[0]!r}, sample {found[1]} is there twice")
            texts[found] = text
        return Recorded(texts, hashlib.sha256(data).hexdigest())

    @property
    def samples(self) -> int:
        """How many samples an item has at most: the largest sample's number and one."""
        return 1 + max((sample for _, sample in self.texts), default=0)

    def not_asked(self, keys: Iterable[Key]) -> str:
        """What of the answers none of these keys asks for, in words; "" where all are asked for.

        Raises EvaluationError where not one is.
        """
        asked = set(keys)
        items = {item for item, _ in asked}
        unknown = [found for found in self.texts if found[0] not in items]
        beyond = [found for found in self.texts if found[0] in items and found not in asked]
        if not self.texts:
            raise EvaluationError("there are no recorded answers; accepted: at least one, of an item that is asked")
        reasons = [
            f"{len(found)} {why} (the first: {found[0][0]}, sample {found[0][1]})"
            for found, why in ((unknown, "of items that are not asked"), (beyond, "of samples that are not asked"))
            if found
        ]
        dropped = f"{len(unknown) + len(beyond)} of {len(self.texts)} recorded answers are not used: "
        if len(unknown) + len(beyond) == len(self.texts):
            raise EvaluationError(f"{dropped}{', '.join(reasons)}; accepted: answers of items that are asked")
        return dropped + ", ".join(reasons) if reasons else ""

    def row(self, found: Key) -> Row:
        """The answers row of a sample; one with status "error" where it was not recorded."""
        text = self.texts.get(found)
        row = {
            "item": found[0],
            "sample": found[1],
            "status": "ok" if text is not None else "error",
            "text": text or "",
        }
        return {
            **row,
            "error": "" if text is not None else "no recorded answer",
            "attempts": 0,
            "seconds": 0.0,
            "usage": None,
        }
