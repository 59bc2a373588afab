"""Judge all executed answers of a run: step three of three, resumable, in processes of their own."""

import json
import multiprocessing
import os
import resource
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from trex.eval import rows
from trex.eval.execute import EXECUTIONS
from trex.eval.items import Item
from trex.eval.judge import Judgement, Judging, as_row, judge
from trex.eval.plan import Plan
from trex.eval.rows import Key, Row
from trex.eval.runs import kept_items
from trex.files import write_atomic

VERDICTS = "verdicts.jsonl"
SETTINGS = "verdicts.json"
MEMORY = 8 * 2**30  # bytes of address space of one judging process
LEAST = 4  # answers per process, below which none is started for them
Group = tuple[list[Key], Item, Row]  # answers of one item with one and the same execution


def judge_run(folder: Path, settings: Judging | None = None, workers: int = 0) -> int:
    """Judge every executed answer that has no verdict of these settings; returns how many were judged now.

    Verdicts of other settings or other items are discarded first: they can be had again. Equal models of one item are
    judged once. Raises EvaluationError where the folder is no run, or another process writes there.
    """
    settings = settings or Judging()
    plan, known = Plan.read(folder), {item.id: item for item in kept_items(folder)}
    done = {k: row for k, row in rows.latest(rows.read(folder / EXECUTIONS)).items() if rows.finished(row)}
    _fresh(folder, {**asdict(settings), "items_sha256": plan.items_sha256})
    with rows.writer(folder / VERDICTS) as writer:
        todo = [k for k in writer.missing(plan.keys) if k in done]
        groups = _groups(todo, known, done)
        with tqdm(total=len(todo), desc="judge", unit="answer", disable=not sys.stderr.isatty()) as bar:
            for keys, judgement in _judge_all(groups, settings, workers or os.cpu_count() or 1):
                writer.append(*(as_row(*k, judgement) for k in keys))
                bar.update(len(keys))
    return len(todo)


def _fresh(folder: Path, settings: Row) -> None:
    path, verdicts = folder / SETTINGS, folder / VERDICTS
    if path.exists() and rows.read_json(path.read_bytes(), str(path)) != settings:
        verdicts.unlink(missing_ok=True)
    if not path.exists() or not verdicts.exists():
        write_atomic(path, json.dumps(settings, indent=1).encode() + b"\n")


def _groups(todo: Iterable[Key], known: dict[str, Item], done: dict[Key, Row]) -> list[Group]:
    found: dict[tuple, Group] = {}
    for k in todo:
        row = done[k]
        execution = row["execution"] or {}
        same = (k[0], row["how"], row["model"], *(execution.get(name) for name in ("status", "message", "unread")))
        found.setdefault(same, ([], known[k[0]], row))[0].append(k)
    return list(found.values())


def _judge_all(groups: list[Group], settings: Judging, workers: int) -> Iterator[tuple[list[Key], Judgement]]:
    """Judgements as they come. A process that dies takes only the answers with it that it was at, one by one."""
    workers = min(workers, len(groups) // LEAST)
    if workers < 1:
        for keys, item, row in groups:
            yield keys, judge(item, row, settings)
        return
    left = groups
    while left:
        failed: list[Group] = []
        with _pool(workers) as pool:
            running: dict[Future[Judgement], Group] = {}
            queue = iter(left)
            try:
                while True:
                    for group in queue:
                        running[pool.submit(judge, group[1], group[2], settings)] = group
                        if len(running) >= 4 * workers:
                            break
                    if not running:
                        break
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        group = running.pop(future)
                        try:
                            yield group[0], future.result()
                        except BrokenProcessPool:
                            failed.append(group)
                        if failed:
                            raise BrokenProcessPool
            except BrokenProcessPool:
                failed += running.values()
        left = list(queue)
        for group in failed:
            yield group[0], _alone(group, settings)


def _alone(group: Group, settings: Judging) -> Judgement:
    """Judge an answer whose process may die again."""
    with _pool(1) as pool:
        try:
            return pool.submit(judge, group[1], group[2], settings).result()
        except BrokenProcessPool:
            without = {
                **group[2],
                "model": "",
                "execution": {**group[2]["execution"], "unread": "solving it ended the solver's process"},
            }
            return judge(group[1], without, settings)


def _pool(workers: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_limit)


def _limit() -> None:
    """One thread and so much memory: an answer's model may be of any size."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
