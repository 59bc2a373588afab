"""A dialogue with all that it is judged by: its problem, files, program, optimum, and where it comes from."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from trex.data.flywheel.bucket import Bucket
from trex.data.flywheel.representation import Representation
from trex.data.problem import DataError

STRICT = ConfigDict(extra="forbid")
LONGEST = 2**24  # characters of a row


@with_config(STRICT)
@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: str  # system | user | assistant
    content: str


@with_config(STRICT)
@dataclass(frozen=True)
class Review:
    """What was said of a proposed answer: by whom, whether it is let through, and why."""

    reviewer: str
    accepted: bool
    reasons: tuple[str, ...] = ()


@with_config(STRICT)
@dataclass(frozen=True)
class Cleaning:
    """What a cleaner made of an answer: the answer before, what was changed, and what reviewers said of it."""

    cleaner: str
    before: str
    changes: tuple[str, ...]  # one line for each
    reviews: tuple[Review, ...] = ()


@with_config(STRICT)
@dataclass(frozen=True)
class Dialogue:
    """One row.

    problem: the text of the problem alone; the user's message holds it. files: what lies beside the program, by name.
    program: what proves the answer; the answer holds it, except where only a formulation is asked for. second: a
    program of an independent formulation, "" where there is none. optimum: what the author says it is. wrong: the
    program that is to be repaired, "" for other tasks. lineage: the seed that it descends from; parent: the row it was
    made from, or the seed. evidence: gate -> what it found.
    """

    id: str
    bucket: Bucket
    representation: Representation
    problem: str
    messages: tuple[Message, ...]
    files: dict[str, str]
    program: str
    optimum: float
    lineage: str
    parent: str
    author: str
    second: str = ""
    wrong: str = ""
    generation: int = 0
    cleaning: Cleaning | None = None
    evidence: dict[str, str] = field(default_factory=dict)

    @property
    def asked(self) -> str:
        """The user's messages."""
        return "\n\n".join(message.content for message in self.messages if message.role == "user")

    @property
    def answer(self) -> str:
        """The assistant's last message, "" where there is none."""
        return next((m.content for m in reversed(self.messages) if m.role == "assistant"), "")

    @property
    def line(self) -> str:
        """The row as JSON, without line break."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_line(cls, line: str) -> "Dialogue":
        """Read a row. Raises DataError that names the first part that is not what a row has."""
        if len(line) > LONGEST:
            raise DataError(f"a dialogue of {len(line):,} characters; accepted: up to {LONGEST:,}")
        try:
            return cls.of(json.loads(line))
        except (ValueError, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"not a dialogue: {error} in {line[:80]!r}") from None

    @classmethod
    def of(cls, value: Any) -> "Dialogue":
        """From what JSON held. Raises DataError that names the first part that is not what a row has."""
        try:
            return _adapter(Dialogue).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise DataError(f"dialogue, {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def sha256(value: Any) -> str:
    """Of a value's JSON with sorted keys."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
