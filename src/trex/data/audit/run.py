"""The run: rows judged side by side, verdicts written in the order of the rows, whatever interrupts it.

A folder holds settings.json, verdicts.jsonl, summary.json and README.md. A run that was stopped anywhere goes on where
it was and ends in the same bytes as one that never was.
"""

import hashlib
import json
import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from trex.data.audit import report
from trex.data.audit.rows import Row, check, read
from trex.data.audit.verdicts import ended, judge
from trex.data.problem import DataError
from trex.files import cut_half_line, locked, make_folder, write_atomic
from trex.solver.workers import Died, InProcess, Jobs, Pool, Work

SETTINGS, VERDICTS, SUMMARY, CARD = "settings.json", "verdicts.jsonl", "summary.json", "README.md"
AHEAD = 8  # rows per process that may be judged before those in front of them are written
SECONDS = 30.0  # for a row's program, and for each solver
MOST_SECONDS = 86_400.0
SLACK_S = 180  # for a sandbox that starts, and all that is neither program nor solver
VERSIONS = ("trex-reproduction", "highspy", "pyscipopt")


class Here(InProcess):
    """Rows judged in this process."""

    def __init__(self) -> None:
        super().__init__(judge)


def audit(
    file: Path,
    folder: Path,
    linear: bool = False,
    processes: int = 0,
    seconds: float = SECONDS,
    pool: Callable[[], Jobs] | None = None,
) -> dict[str, Any]:
    """Judge the rows of a JSONL file, or what is missing of them; returns the summary.

    linear: refuse what is no mixed-integer linear program. processes: side by side, one per core for 0. seconds: for
    a row's program, and for each solver. pool: another place for the work. Raises DataError for a file that is no
    JSONL or changes meanwhile, settings out of range, and a folder that holds verdicts of another file or settings.
    """
    if not 0 < seconds <= MOST_SECONDS:
        raise DataError(f"seconds = {seconds!r}; accepted: above 0, up to {MOST_SECONDS:g}")
    if processes < 0:
        raise DataError(f"processes = {processes}; accepted: whole numbers from 0")
    check(file)
    settings = {
        "file": file.name, "sha256": _sha256(file), "linear": linear, "seconds": seconds,
        "versions": {name: metadata.version(name) for name in VERSIONS},
    }  # fmt: skip
    make_folder(folder)
    with locked(folder / ".lock"):
        _claim(folder, settings)
        tally = report.Tally()
        start = _resume(folder, file, tally)
        count = processes or os.cpu_count() or 1
        work = Work(judge, int(3 * seconds) + SLACK_S)
        with closing((pool or (lambda: Pool(work, count)))()) as made, (folder / VERDICTS).open("ab") as stream:
            for verdict in _judged(file, start, made, count * AHEAD, seconds, linear):
                _write(stream, verdict)
                tally.add(verdict)
            os.fsync(stream.fileno())
        if _sha256(file) != settings["sha256"]:
            raise DataError(f"{file} has changed while it was read; accepted: a file that stays as it is")
        summary = tally.summary()
        write_atomic(folder / SUMMARY, (json.dumps(summary, indent=1, ensure_ascii=False) + "\n").encode())
        write_atomic(folder / CARD, report.card(settings, summary).encode())
    return summary


def _judged(file: Path, start: int, pool: Jobs, ahead: int, seconds: float, linear: bool) -> Iterator[dict[str, Any]]:
    """The verdicts on rows from `start` on, in order."""
    coming = islice(enumerate(read(file)), start, None)
    waiting: deque[tuple[int, Row]] = deque()
    ready: dict[int, Any] = {}
    counts = Counter[str]()
    total = sum(1 for _ in _lines(file))
    with tqdm(total=total, initial=start, unit="row", disable=not sys.stderr.isatty()) as bar:
        while True:
            for place, row in islice(coming, ahead - len(waiting)):
                pool.put(place, row, seconds, linear)
                waiting.append((place, row))
            if not waiting:
                return
            place, row = waiting.popleft()
            while place not in ready:
                number, found = pool.get()
                ready[number] = found
            found = ready.pop(place)
            verdict = ended(row, found) if isinstance(found, Died) else found
            yield verdict
            counts[verdict["verdict"]] += 1
            bar.set_postfix_str(" ".join(f"{kind}:{n}" for kind, n in sorted(counts.items())), refresh=False)
            bar.update()


def _lines(file: Path) -> Iterator[bytes]:
    """The lines that are rows."""
    with file.open("rb") as stream:
        yield from (line for line in stream if line.strip())


def _write(stream: IO[bytes], verdict: dict[str, Any]) -> None:
    stream.write(json.dumps(verdict, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    stream.flush()


def _claim(folder: Path, settings: dict[str, Any]) -> None:
    """Write the settings, or see that they are those of the folder. Raises DataError where they are not."""
    path = folder / SETTINGS
    if not path.exists():
        if (folder / VERDICTS).exists():
            raise DataError(
                f"{folder} holds verdicts but no {SETTINGS}; accepted: a new folder, or one of an earlier run"
            )
        write_atomic(path, (json.dumps(settings, indent=1, ensure_ascii=False) + "\n").encode())
        return
    try:
        before = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        before = None
    if not isinstance(before, dict):
        raise DataError(f"{path} holds no settings; accepted: a new folder, or one of an earlier run")
    for key, value in settings.items():
        if before.get(key) != value:
            raise DataError(
                f"{folder} holds verdicts of another run: {key} is {before.get(key)!r:.100} there, {value!r:.100} here"
            )


def _resume(folder: Path, file: Path, tally: report.Tally) -> int:
    """Cut a half line and count the verdicts that are there; returns how many. Raises DataError for other rows'."""
    path = folder / VERDICTS
    cut_half_line(path)
    if not path.exists():
        return 0
    present = 0
    rows = read(file)
    with path.open("rb") as stream:
        for line in stream:
            row = next(rows, None)
            try:
                verdict = json.loads(line)
                if row is None or (verdict["line"], verdict["id"]) != (row.number, row.id):
                    raise ValueError("it is not of the row that the file has there")
                tally.add(verdict)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise DataError(f"{path}, row {present + 1}: {error}; accepted: verdicts of an earlier run") from None
            present += 1
    return present


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
