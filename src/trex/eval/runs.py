"""A run's folder: its items kept beside its plan, so that later steps need no other input."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from trex.eval import rows
from trex.eval.items import Item
from trex.eval.plan import Plan, sha256
from trex.eval.rows import EvaluationError
from trex.files import write_atomic

ITEMS = "items.jsonl"


def keep_items(folder: Path, items: Iterable[Item]) -> None:
    """Write the items of a run into its folder, unless they are there."""
    path = folder / ITEMS
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        lines = (json.dumps({**asdict(item), "files": dict(item.files)}) for item in items)
        write_atomic(path, "".join(f"{line}\n" for line in lines).encode())


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
        raise EvaluationError(f"{path} has been changed: its items are not those of {folder / 'plan.json'}")
    return chosen


def fingerprint(items: Iterable[Item]) -> str:
    """Hash over all that items hold, as a plan has it."""
    return sha256([{**vars(item), "files": dict(item.files)} for item in items])
