"""General dialogues of the user's own, mixed into the last part of the training rows.

The T-Rex report adds 10 to 15 % of them late, so that a model that is trained on one kind of task keeps the others.
"""

import hashlib
import heapq
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trex.data.flywheel.sharegpt import Messages, checked, to_openai
from trex.data.problem import DataError

LONGEST = 2**24  # bytes of a row


@dataclass(frozen=True)
class Drawn:
    """One row that was drawn: where it begins in the file, its line from 1, and how often it was drawn before."""

    offset: int
    line: int
    epoch: int


@dataclass(frozen=True)
class General:
    """Rows in the order in which they were drawn, and what became of the file's."""

    drawn: tuple[Drawn, ...]
    read: int
    duplicates: int  # of a row before
    refused: int  # by what the caller asks of a row
    sha256: str

    def to_dict(self, total: int) -> dict[str, Any]:
        """What a manifest says of them. total: all training rows."""
        counts = {name: getattr(self, name) for name in ("read", "duplicates", "refused", "sha256")}
        return {"drawn": len(self.drawn), "share": len(self.drawn) / total, **counts}


def lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Offset, number from 1 and content of each line that is not blank. Raises DataError for one without end."""
    try:
        with path.open("rb") as stream:
            number = offset = 0
            while line := stream.readline(LONGEST + 1):
                number += 1
                if len(line) > LONGEST:
                    raise DataError(f"{path}, line {number}: more than {LONGEST:,} bytes; accepted: one row a line")
                if line.strip():
                    yield offset, number, line
                offset += len(line)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None


def file_sha256(path: Path) -> str:
    """Of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read(line: bytes, where: str) -> Messages:
    """Messages of a row of OpenAI's or ShareGPT's form. Raises DataError that begins with `where`."""
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: no JSON: {error}") from None
    if not isinstance(row, Mapping) or not {"messages", "conversations"} & set(row):
        raise DataError(f"{where}: {line[:60]!r}; accepted: an object with messages or with conversations")
    try:
        return checked(row["messages"]) if "messages" in row else to_openai(row)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def wanted(own: int, share: float) -> int:
    """How many general rows beside `own` others make `share` of all, one at least.

    Raises DataError for a share out of range.
    """
    if not (math.isfinite(share) and 0 < share < 1):
        raise DataError(f"general share {share}; accepted: more than 0, less than 1")
    return max(1, round(share / (1 - share) * own))


def draw(path: Path, count: int, seed: int, repeat: bool, accepts: Callable[[Messages], bool]) -> General:
    """Draw `count` rows of a file in an order that comes from seed and contents, none twice.

    repeat: begin again where there are too few. In memory are 32 bytes for each row, and `count` places.
    Raises DataError that names line or number.
    """
    seen: set[bytes] = set()
    best: list[tuple[int, int, int]] = []  # a heap with the largest key first: negated key, offset, line
    numbers = {"read": 0, "duplicates": 0, "refused": 0}
    for offset, number, line in lines(path):
        numbers["read"] += 1
        messages = read(line, f"{path}, line {number}")
        content = hashlib.sha256(json.dumps(messages).encode()).digest()
        if content in seen:
            numbers["duplicates"] += 1
            continue
        seen.add(content)
        if not accepts(messages):
            numbers["refused"] += 1
            continue
        item = (-_key(seed, content), offset, number)
        if len(best) < count:
            heapq.heappush(best, item)
        else:
            heapq.heappushpop(best, item)
    order = [Drawn(offset, number, 0) for _, offset, number in sorted(best, reverse=True)]
    if len(order) < count and not (repeat and order):
        raise DataError(
            f"{path} has {len(order):,} different rows that fit, {count:,} are needed; accepted: a file with more, "
            "a smaller general share, or --repeat"
        )
    for epoch in range(1, math.ceil(count / len(order))):
        again = [Drawn(row.offset, row.line, epoch) for row in order[: len(best)]]
        random.Random(f"general/{seed}/{epoch}").shuffle(again)
        order += again
    return General(tuple(order[:count]), sha256=file_sha256(path), **numbers)


def places(total: int, count: int, late: float, seed: int) -> list[int]:
    """Which of `total` training rows are general ones: `count` of the last `late` of them, in rising order.

    Raises DataError where that part is too small.
    """
    if not (math.isfinite(late) and 0 < late <= 1):
        raise DataError(f"late {late}; accepted: more than 0, up to 1")
    part = min(total, round(late * total))
    if count > part:
        raise DataError(
            f"{count:,} general rows in the last {late:g} of {total:,} training rows, which are {part:,}; accepted: a "
            "smaller general share, or a larger late"
        )
    return sorted(random.Random(f"late/{seed}").sample(range(total - part, total), count))


def _key(seed: int, content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/".encode() + content).digest()[:8])
