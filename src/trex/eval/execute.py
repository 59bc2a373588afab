"""Run the programs of a run's answers in sandboxes: step two of three, resumable, several at a time."""

import hashlib
import itertools
import json
import os
import queue
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from trex.data import extraction
from trex.eval import rows
from trex.eval.plan import ANSWERS, Plan, sha256
from trex.eval.rows import EvaluationError, Key, Row
from trex.eval.runs import discard, kept_items
from trex.files import write_atomic
from trex.solver import wire
from trex.solver.model import Model
from trex.solver.sandbox import Execution, Limits, Sandbox, SandboxError, record

EXECUTIONS = "executions.jsonl"
SETTINGS = "executions.json"


@dataclass(frozen=True)
class Executing:
    """How programs are run. `level` None is the strongest that works; see `trex.solver.sandbox.Sandbox`."""

    limits: Limits = field(default_factory=Limits)
    level: str | None = None
    unsafe: bool = False
    gurobi: str = "recorder"
    workers: int = 0  # sandboxes side by side; 0: one for each processor

    def __post_init__(self) -> None:
        """Raise EvaluationError for a number of workers that is none."""
        if isinstance(self.workers, bool) or not isinstance(self.workers, int) or self.workers < 0:
            raise EvaluationError(f"workers = {self.workers!r}; accepted: a whole number from 0")


def execute(folder: Path, settings: Executing | None = None) -> int:
    """Run the program of every answer that has not been run; returns how many answers were done now.

    Rows of answers that are others now are discarded first. Raises EvaluationError where the folder is no run, its
    earlier programs were run under other limits, or another process writes there, and SandboxError where no sandbox
    works.
    """
    settings = settings or Executing()
    plan, known = Plan.read(folder), {item.id: item for item in kept_items(folder)}
    answers = {k: row for k, row in rows.latest(rows.read(folder / ANSWERS)).items() if rows.finished(row)}
    _same_settings(folder / SETTINGS, settings, folder / EXECUTIONS)
    texts = {k: _of_text(str(row["text"])) for k, row in answers.items()}
    discard(folder / EXECUTIONS, lambda row: row.get("answer_sha256") != texts.get(rows.key(row), "none"))
    with rows.writer(folder / EXECUTIONS) as writer:
        todo = [k for k in writer.missing(plan.keys) if k in answers]
        jobs = ((k, str(answers[k]["text"]), known[k[0]].files) for k in todo)
        with tqdm(total=len(todo), desc="execute", unit="program", disable=not sys.stderr.isatty()) as bar:
            for row in _run_all(jobs, settings, len(todo)):
                writer.append(row)
                bar.update()
    return len(todo)


def run_program(text: str, files: Mapping[str, str], sandbox: Sandbox, limits: Limits) -> Row:
    """The row of one answer, without its key: how the program was found, and what became of it."""
    return _run(text, extraction.program(text), files, sandbox, limits)


def _run(text: str, program: extraction.Program, files: Mapping[str, str], sandbox: Sandbox, limits: Limits) -> Row:
    found: Row = {"status": "ok", "how": program.how, "answer_sha256": _of_text(text)}
    found |= {"program_sha256": _of_text(program.code), "execution": None, "model": ""}
    if program.code:
        execution = sandbox.run(program.code, files, limits)
        found["execution"] = record(execution)
        found["model"] = wire.dumps(execution.model).decode() if execution.model is not None else ""
    return found


def fingerprint(row: Mapping[str, Any]) -> str:
    """Hash over what a row tells of an execution but for the seconds it took: what a verdict is a verdict of."""
    found = {name: value for name, value in row.items() if name not in ("item", "sample")}
    if isinstance(found.get("execution"), dict):
        found["execution"] = {name: value for name, value in found["execution"].items() if name != "seconds"}
    return sha256(found)


def execution(row: Mapping[str, Any]) -> Execution | None:
    """The execution that a row tells of, None where the answer had no program. Raises EvaluationError."""
    if row["execution"] is None:
        return None
    try:
        model: Model | None = wire.loads(row["model"].encode()) if row["model"] else None
        return Execution(model=model, **row["execution"])
    except (TypeError, ValueError, AttributeError) as error:
        raise EvaluationError(f"item {row.get('item')!r}, sample {row.get('sample')}: no execution: {error}") from None


def _run_all(jobs: Iterable[tuple[Key, str, Mapping[str, str]]], settings: Executing, count: int) -> Iterator[Row]:
    """Rows as they come, from as many sandboxes as there are workers.

    Programs are found in this thread: Python's parser is not safe in several (python/cpython issue 106905).
    """
    if not count:
        return
    workers = min(settings.workers or os.cpu_count() or 1, count)
    todo: queue.Queue[tuple[Key, str, extraction.Program, Mapping[str, str]] | None] = queue.Queue()
    found = ((k, text, extraction.program(text), files) for k, text, files in jobs)
    done: queue.Queue[Row | BaseException] = queue.Queue()
    stop = threading.Event()

    def work(sandbox: Sandbox) -> None:
        while not stop.is_set() and (job := todo.get()) is not None:
            (item, sample), text, program, files = job
            try:
                done.put({"item": item, "sample": sample, **_run(text, program, files, sandbox, settings.limits)})
            except BaseException as error:
                done.put(error)
                return

    with ExitStack() as stack:
        first = Sandbox(settings.level, settings.unsafe, settings.gurobi)
        others = [Sandbox(first.level, settings.unsafe, settings.gurobi) for _ in range(1, workers)]
        sandboxes = [stack.enter_context(sandbox) for sandbox in (first, *others)]
        threads = [threading.Thread(target=work, args=(sandbox,), daemon=True) for sandbox in sandboxes]
        for thread in threads:
            thread.start()
        try:
            for job in itertools.islice(found, 2 * workers):
                todo.put(job)
            for _ in range(count):
                row = done.get()
                if isinstance(row, BaseException):
                    raise row
                yield row
                todo.put(next(found, None))
        finally:
            stop.set()
            for _ in threads:
                todo.put(None)
            for thread in threads:
                thread.join()


def _of_text(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _same_settings(path: Path, settings: Executing, rows_path: Path) -> None:
    """Write how programs are run, or check that those before were run so."""
    now = {"limits": asdict(settings.limits), "level": settings.level, "gurobi": settings.gurobi}
    if rows_path.exists() and rows_path.stat().st_size:
        if not path.exists():
            missing = f"{path} is missing, so that nothing tells how the programs of {rows_path.name} were run"
            raise EvaluationError(f"{missing}; put it back, or delete {rows_path.name} to run them again")
        before = rows.read_json(path.read_bytes(), str(path))
        for name, value in now.items():
            if before.get(name) != value:
                differs = f"{path} has {name} = {before.get(name)!r}, not {value!r}"
                raise EvaluationError(f"{differs}; go on with that, or delete {rows_path.name}")
        return
    write_atomic(path, json.dumps(now, indent=1).encode() + b"\n")


__all__ = ["EXECUTIONS", "Executing", "SandboxError", "execute", "execution", "run_program"]
