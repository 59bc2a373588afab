"""What a run begins from: rows of anyone's file, representations that were made before, and the embedded families."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trex.data import families
from trex.data.audit import rows
from trex.data.flywheel.bucket import BOTH, EXPLAINED, Bucket
from trex.data.flywheel.embedded import Parent
from trex.data.flywheel.representation import LONGEST, Representation
from trex.data.plan import chosen
from trex.data.problem import DIFFICULTIES, DataError
from trex.data.rendering import MODES

KEY = "representation"  # of a line that holds one
LONGEST_LINE = 8 * LONGEST  # bytes; a dialogue's line holds its representation too
LONGEST_ID = 200


@dataclass(frozen=True)
class Seed:
    """A representation to begin from, and the problem's text where there is one."""

    id: str
    representation: Representation
    problem: str = ""


def read_seeds(path: Path) -> list[rows.Row]:
    """The rows of a JSONL file in any of the usual shapes; one that is no row comes with its `fault`.

    Raises DataError for a file that cannot be read or holds no rows.
    """
    rows.check(path)
    return list(rows.read(path))


def holds_representations(path: Path) -> bool:
    """Whether the first object of a JSONL file holds a representation. Raises DataError without the file."""
    return next((KEY in value for _, value in _lines(path) if isinstance(value, dict)), False)


def read_representations(path: Path) -> list[Seed]:
    """The seeds of a JSONL file with a `representation` per line; `id` and `problem` are optional, so dialogues do too.

    Where a representation says that it comes of a family, this is dropped: a file's word for it is not taken. Raises
    DataError that names the line of the first that cannot be read.
    """
    found: dict[str, Seed] = {}
    for number, value in _lines(path):
        where = f"{path}, line {number}"
        if isinstance(value, DataError):
            raise value
        if not isinstance(value, dict) or KEY not in value:
            raise DataError(f'{where}: {value!r:.60}; accepted: an object {{"{KEY}": …}}')
        name, problem = value.get("id", f"{path.name}/{number}"), value.get("problem", "")
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_ID or not isinstance(problem, str):
            raise DataError(f"{where}: id {name!r:.60}, problem {problem!r:.60}; accepted: two texts")
        if name in found:
            raise DataError(f"{where}: id {name!r} is there twice")
        try:
            representation = replace(Representation.of(value[KEY]), origin=None)
            "\n".join((name, problem, representation.line)).encode()
        except (DataError, OverflowError, UnicodeEncodeError) as error:
            raise DataError(f"{where}: {error}") from None
        found[name] = Seed(name, representation, problem)
    if not found:
        raise DataError(f'{path} holds no line; accepted: JSONL with a {{"{KEY}": …}} per line')
    return list(found.values())


def embedded_seeds(structures: Sequence[str] | None = None) -> list[Parent]:
    """The seeds that need no file: one for each family and difficulty; all families where none is named.

    Raises DataError for a family that there is none of.
    """
    found = []
    for name in chosen("structure", structures, families.names()):
        for difficulty in DIFFICULTIES:
            seed = f"seed/{name}/{difficulty}"
            domain = families.get(name).problem(0, difficulty).domain
            found.append(Parent(seed, seed, Bucket(MODES[0], name, difficulty, BOTH, EXPLAINED), domain))
    return found


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Number and JSON value of every line that is not blank; a DataError as value of a line that is no JSON.

    Raises DataError for a file that cannot be read.
    """
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield number, _value(line, f"{path}, line {number}")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; accepted: a JSONL file") from None


def _value(line: bytes, where: str) -> Any:
    if len(line) > LONGEST_LINE:
        return DataError(f"{where}: {len(line):,} bytes; accepted: up to {LONGEST_LINE:,}")
    try:
        return json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return DataError(f"{where}: no JSON: {error}"[:300])
