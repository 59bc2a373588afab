"""Seeds of anyone's file for an author that is asked: each row becomes a representation, once, and is kept.

What became of each row stands in the folder's seeds.jsonl, which later runs go by: a request that failed once and
would be answered now must not make another plan of the same command.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm.asyncio import tqdm

from trex.data.audit.rows import Row
from trex.data.endpoint import run_apart
from trex.data.flywheel.asked import Asked, Refusal
from trex.data.flywheel.asking import Asking
from trex.data.flywheel.bucket import BOTH, EXPLAINED, Bucket
from trex.data.flywheel.dialogue import sha256
from trex.data.flywheel.embedded import Parent
from trex.data.flywheel.representation import Representation, numbers_of
from trex.data.flywheel.run import PLAN
from trex.data.flywheel.seeds import holds_representations, read_representations, read_seeds
from trex.data.problem import DataError
from trex.data.rendering import MODES
from trex.files import make_folder, write_atomic

SEEDS = "seeds.jsonl"
LIMITS = (20, 60, 200)  # numbers of the data beyond which a problem is of the next difficulty


def from_file(
    path: Path, folder: Path, asking: Callable[[], AbstractAsyncContextManager[Asking]], repairs: int
) -> list[Parent]:  # fmt: skip
    """The seeds of a file; rows that are no representations yet are asked for once, and written down in the folder.

    Raises DataError for a file without a row that can be used and for a folder of other seeds; and what ends a run, a
    spent budget or no endpoint, when all that was asked is answered.
    """
    if holds_representations(path):
        return [seed_parent(s.id, s.representation, s.problem, False) for s in read_representations(path)]
    rows = read_seeds(path)
    kept = _kept(folder, rows)
    if not any(kept):
        said = run_apart(_represent(rows, asking, repairs))
        kept = [None if isinstance(one, Refusal) else one for one in said]
        lines = [json.dumps(_line(*pair), ensure_ascii=False) for pair in zip(rows, said, strict=True)]
        make_folder(folder)
        write_atomic(folder / SEEDS, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    found = [seed_parent(row.id, one, row.problem, bool(row.files)) for row, one in zip(rows, kept, strict=True) if one]
    if not found:
        raise DataError(f"{path}: none of {len(rows)} rows became a representation; {folder / SEEDS} says why")
    return found


def _line(row: Row, said: Representation | Refusal) -> dict[str, Any]:
    refused = isinstance(said, Refusal)
    return {"id": row.id, "sha256": _sha256(row), "representation": None if refused else asdict(said),
            "refused": asdict(said) if refused else None}  # fmt: skip


def _sha256(row: Row) -> str:
    return sha256([row.id, row.problem, row.answer, row.label, row.files, row.fault])


def _kept(folder: Path, rows: Sequence[Row]) -> list[Representation | None]:
    """What an earlier run in the folder kept of the rows; nothing in a new one. Raises DataError for other rows."""
    path = folder / SEEDS
    if not path.exists():
        if (folder / PLAN).exists():
            raise DataError(f"{folder} holds dialogues of another plan: {SEEDS} is not there")
        return []
    try:
        written = [json.loads(line) for line in path.read_bytes().splitlines()]
        same = [row["sha256"] for row in written] == [_sha256(row) for row in rows]
        found = [row["representation"] and Representation.of(row["representation"]) for row in written]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path}: {error!r:.200}; accepted: what an earlier run wrote") from None
    if not same:
        raise DataError(f"{folder} holds dialogues of another plan: {SEEDS} is of other rows than the file of seeds")
    return found


async def _represent(
    rows: Sequence[Row], asking: Callable[[], AbstractAsyncContextManager[Asking]], repairs: int
) -> list[Representation | Refusal]:  # fmt: skip
    async with asking() as asks:
        author = Asked(asks, repairs)

        async def one(row: Row, number: int) -> Representation | Refusal | Exception:
            try:
                return await author.seed(row, number)
            except Exception as error:  # raised when the others have ended: their answers are paid for
                return error

        tasks = [asyncio.create_task(one(row, number)) for number, row in enumerate(rows)]
        try:
            found = await tqdm.gather(*tasks, unit="seed", disable=None)
        finally:
            for task in tasks:
                task.cancel()
        for said in found:
            if isinstance(said, Exception):
                raise said
        return [said for said in found if not isinstance(said, Exception)]


def seed_parent(name: str, found: Representation, problem: str, has_files: bool) -> Parent:
    """What a foreign problem is to a run; its difficulty is by the size of its data."""
    size = sum(1 for _ in numbers_of(found.data))
    difficulty = 1 + sum(size > limit for limit in LIMITS)
    mode = MODES[2] if has_files else MODES[1] if "|" in problem else MODES[0]
    bucket = Bucket(mode, found.structure, difficulty, BOTH, EXPLAINED)
    return Parent(f"seed/{name}", f"seed/{name}", bucket, found.domain, 0, (), found.line, problem)


def digest(parents: Sequence[Parent]) -> str:
    """SHA-256 of the seeds, for a run's plan."""
    lines = [json.dumps([p.id, asdict(p.bucket), p.representation, p.problem], sort_keys=True) for p in parents]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
