"""Judge all executed answers of a run: step three of three, resumable, in processes of their own."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from trex.eval import rows
from trex.eval.execute import EXECUTIONS, fingerprint
from trex.eval.items import Item
from trex.eval.judge import Judgement, Judging, as_row, counted
from trex.eval.plan import Plan
from trex.eval.rows import EvaluationError, Key, Row
from trex.eval.runs import discard, kept_items
from trex.eval.workers import Died, judge_all
from trex.files import write_atomic

VERDICTS = "verdicts.jsonl"
SETTINGS = "verdicts.json"
ENDED = "judging ended its process"  # a class of failure beside those of the taxonomy: the answer is judged again
Group = tuple[list[Key], Item, Row]  # answers of one item with one and the same execution


def judge_run(
    folder: Path, settings: Judging | None = None, workers: int = 0, say: Callable[[str], None] | None = None
) -> int:
    """Judge every executed answer that has no verdict of these settings; returns how many were judged now.

    Verdicts of other settings, other items or earlier executions are discarded first: they can be had again. Equal
    models of one item are judged once. An answer whose judging dies or runs out of memory has a verdict with status
    "error", which is wrong until the next call judges it again. `say` is told what is discarded. Raises EvaluationError
    where the folder is no run, another process writes there, or no judging process starts.
    """
    settings = settings or Judging()
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise EvaluationError(f"workers = {workers!r}; accepted: a whole number from 0")
    plan, known = Plan.read(folder), {item.id: item for item in kept_items(folder)}
    done = {k: row for k, row in rows.latest(rows.read(folder / EXECUTIONS)).items() if rows.finished(row)}
    prints = {k: fingerprint(row) for k, row in done.items()}
    for reason in _fresh(folder, {**asdict(settings), "items_sha256": plan.items_sha256}, prints):
        if say is not None:
            say(reason)
    with rows.writer(folder / VERDICTS) as writer:
        todo = [k for k in writer.missing(plan.keys) if k in done]
        groups = _groups(todo, known, done)
        jobs = [(item, row) for _, item, row in groups]
        with tqdm(total=len(todo), desc="judge", unit="answer", disable=not sys.stderr.isatty()) as bar:
            for number, found in judge_all(jobs, settings, workers or os.cpu_count() or 1):
                keys, item, row = groups[number]
                judgement = _ended(item, row, found, settings) if isinstance(found, Died) else found
                status = "error" if isinstance(found, Died) else "ok"
                writer.append(
                    *({**as_row(*k, judgement), "status": status, "execution_sha256": prints[k]} for k in keys)
                )
                bar.update(len(keys))
    return len(todo)


def current(verdicts: Mapping[Key, Row], executions: Mapping[Key, Row]) -> dict[Key, Row]:
    """Those verdicts that are of the executions as they are now."""
    prints = {k: fingerprint(row) for k, row in executions.items() if k in verdicts}
    return {k: row for k, row in verdicts.items() if k in prints and row.get("execution_sha256") == prints[k]}


def _fresh(folder: Path, settings: Row, prints: Mapping[Key, str]) -> list[str]:
    """Discard verdicts that are not of these settings and executions, and write the settings; what was discarded."""
    path, verdicts = folder / SETTINGS, folder / VERDICTS
    before = rows.read_json(path.read_bytes(), str(path)) if path.exists() else {}
    said = []
    if before != settings:
        gone = discard(verdicts, lambda _: True)
        changed = ", ".join(
            f"{name} = {before.get(name)!r}, now {value!r}"
            for name, value in settings.items()
            if before.get(name) != value
        )
        if gone:
            said.append(f"{gone} verdicts of other settings are discarded ({changed if before else 'unknown ones'})")
        write_atomic(path, json.dumps(settings, indent=1).encode() + b"\n")
    if gone := discard(verdicts, lambda row: row.get("execution_sha256") != prints.get(rows.key(row), "none")):
        said.append(f"{gone} verdicts of programs that have been run again since are discarded")
    return said


def _groups(todo: Iterable[Key], known: Mapping[str, Item], done: Mapping[Key, Row]) -> list[Group]:
    found: dict[tuple, Group] = {}
    for k in todo:
        row = done[k]
        execution = row["execution"] or {}
        same = (k[0], row["how"], row["model"], *(execution.get(name) for name in ("status", "message", "unread")))
        found.setdefault(same, ([], known[k[0]], row))[0].append(k)
    return list(found.values())


def _ended(item: Item, row: Row, died: Died, settings: Judging) -> Judgement:
    """What is known of an answer whose judging died: nothing, so that it counts as wrong."""
    execution = row["execution"] or {}
    return Judgement(
        correct=False, recorded=False, as_published=False, counted=counted(item, settings.label_version), optimum=None,
        solved="", solver="", structure="", difference="", right_value=None, failure=ENDED, evidence=str(died),
        basis="", program=str(execution.get("status", "")), isolation=str(execution.get("isolation", "")),
    )  # fmt: skip
