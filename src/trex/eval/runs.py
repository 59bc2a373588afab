"""A run's folder: its items and prompts kept beside its plan, so that later steps need no other input."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from trex.data.endpoint import Messages
from trex.eval import rows
from trex.eval.items import Item
from trex.eval.plan import FILE, Plan, sha256
from trex.eval.rows import EvaluationError, Row
from trex.files import make_folder, write_atomic

ITEMS = "items.jsonl"
PROMPTS = "prompts.jsonl"


def keep_items(folder: Path, items: Iterable[Item], prompts: Mapping[str, Messages] | None = None) -> None:
    """Write the items of a run into its folder, and what is asked about them, unless a plan is there already.

    Raises OSError where the folder cannot be made or written into.
    """
    make_folder(folder)
    if (folder / FILE).exists() and (folder / ITEMS).exists():
        return
    if prompts is not None:
        asked = ({"item": item, "messages": list(map(dict, messages))} for item, messages in prompts.items())
        _write(folder / PROMPTS, asked)
    _write(folder / ITEMS, (item.content() for item in items))


def kept_items(folder: Path) -> tuple[Item, ...]:
    """The items of a run. Raises EvaluationError where the folder is no run, or they are not those of its plan."""
    plan, path = Plan.read(folder), folder / ITEMS
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise EvaluationError(f"{path} cannot be read: {error.strerror}") from None
    found = []
    for number, line in enumerate(lines, start=1):
        row = rows.read_json(line, f"{path}, line {number}")
        try:
            found.append(Item(**row))
        except TypeError as error:
            raise EvaluationError(f"{path}, line {number}: no item: {error}") from None
    known = {item.id: item for item in found}
    if set(plan.items) - set(known):
        raise EvaluationError(f"{path} lacks {min(set(plan.items) - set(known))!r} of the plan")
    chosen = tuple(known[item] for item in plan.items)
    if fingerprint(chosen) != plan.items_sha256:
        raise EvaluationError(f"{path} has been changed: its items are not those of {folder / FILE}")
    return chosen


def fingerprint(items: Iterable[Item]) -> str:
    """Hash over all that items hold, as a plan has it."""
    return sha256([item.content() for item in items])


def discard(path: Path, stale: Callable[[Row], bool]) -> int:
    """Take the stale rows out of a run's file; how many of those that count went.

    The file is written anew, whole or not at all. Raises EvaluationError where another process writes there.
    """
    if not path.exists():
        return 0
    with rows.writer(path) as writer:  # for its lock
        every = rows.read(path)
        kept = [row for row in every if not stale(row)]
        gone = sum(map(stale, writer.latest.values()))
        if len(kept) < len(every):
            _write(path, kept)
    return gone


def _write(path: Path, lines: Iterable[Row]) -> None:
    write_atomic(path, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
