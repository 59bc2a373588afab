"""The run: rounds of attempts, each written down in order with what became of it, whatever interrupts it.

A folder holds plan.json, candidates.jsonl (every attempt: let through, or refused by which gate and why) and, when it
is done, dialogues.jsonl in the order of the slots, surplus.jsonl, summary.json and README.md. A run that was stopped
anywhere goes on where it was, and with the embedded author ends in the same bytes as one that never was.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from trex.data.collection import Collection
from trex.data.decontamination import Benchmarks
from trex.data.flywheel.bucket import Wanted
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.embedded import Attempt, Parent
from trex.data.flywheel.making import Made, made_again, make, model_of
from trex.data.flywheel.pool import SNOWBALL, Pool
from trex.data.flywheel.report import Summary, card
from trex.data.flywheel.rounds import Candidate, Progress, Rounds, candidates, due
from trex.data.near_duplicates import THRESHOLD
from trex.data.problem import DataError
from trex.files import cut_half_line, locked, make_folder, write_atomic
from trex.solver.workers import Died, InProcess, Jobs, Work
from trex.solver.workers import Pool as Processes

PLAN, CANDIDATES, DIALOGUES, SURPLUS = "plan.json", "candidates.jsonl", "dialogues.jsonl", "surplus.jsonl"
SUMMARY, CARD = "summary.json", "README.md"
BESIDE = ("asked", "seeds.jsonl")  # what an author that is asked has written before there is a plan
LONGEST_S = 600  # for one attempt, after which its process is ended
AHEAD = 64  # attempts per process that may be made before those in front of them are written: one may take long


class Here(InProcess):
    """Attempts made in this process."""

    def __init__(self) -> None:
        super().__init__(make)


@dataclass(frozen=True)
class Settings:
    """What a run is made by. Two runs of the embedded author with equal settings end in equal bytes.

    author: `embedded`, or the names of what is asked. seeds: SHA-256 of the seeds. near: similarity of problems from
    which the later one is left out. benchmarks: SHA-256 of what is kept out, "" for nothing.
    """

    wanted: Wanted
    rounds: Rounds = field(default_factory=Rounds)
    growth: str = SNOWBALL
    author: str = "embedded"
    seeds: str = ""
    near: float = THRESHOLD
    benchmarks: str = ""

    def __post_init__(self) -> None:
        """Raise DataError for a similarity out of range."""
        if not 0 < self.near <= 1:
            raise DataError(f"near-duplicates from a similarity of {self.near}; accepted: above 0, up to 1")


def run(
    folder: Path,
    settings: Settings,
    seeds: Sequence[Parent],
    benchmarks: Benchmarks | None = None,
    statements: Sequence[bytes] = (),
    processes: int = 0,
    jobs: Callable[[], Jobs] | None = None,
) -> Summary:
    """Make the dialogues that are wanted, or what is missing of them.

    statements: signatures of the seeds' texts, which no dialogue may be like. processes: side by side, one per core for
    0. jobs: another author's. Raises DataError for settings out of range and for a folder of other settings,
    BlockingIOError where another run is at work in it, and what `jobs` raises.
    """
    if processes < 0:
        raise DataError(f"processes {processes}; accepted: whole numbers from 0")
    make_folder(folder)
    with locked(folder / ".lock"):
        _claim(folder, settings)
        count = processes or os.cpu_count() or 1
        state = _State(settings, Pool(seeds, settings.growth), benchmarks or Benchmarks(), statements)
        cut_half_line(folder / CANDIDATES)
        written = _rows(folder / CANDIDATES)
        lazy = _Lazy(jobs or (lambda: Processes(Work(make, LONGEST_S), count)))
        with closing(lazy), (folder / CANDIDATES).open("ab") as stream:
            ahead = getattr(lazy, "ahead", count * AHEAD)
            try:
                _work(state, written, lazy, ahead, stream)
            finally:
                os.fsync(stream.fileno())
        _finish(folder, state)
    return state.summary


class _State:
    """What a run has so far."""

    def __init__(self, settings: Settings, pool: Pool, benchmarks: Benchmarks, statements: Sequence[bytes]) -> None:
        self.settings, self.pool, self.progress = settings, pool, Progress()
        self.collection = Collection(settings.near, benchmarks, model_of)
        for statement in statements:
            self.collection.add_text(statement)
        self.summary = Summary(settings.wanted)

    def take(self, candidate: Candidate, found: Made) -> None:
        """Take in what became of an attempt."""
        self.progress.candidates += 1
        self.summary.count(candidate.round, found)
        if found.gate:
            return
        self.collection.add(found)
        self.progress.accept(candidate)
        row = found.row
        origin = row.representation.origin
        own = origin is None
        self.pool.add(
            Parent(
                row.id, row.lineage, row.bucket, row.representation.domain, row.generation,
                () if origin is None else origin.changes, row.representation.line if own else "",
                row.problem if own else "",
            )
        )  # fmt: skip


def _work(state: _State, written: Iterator[dict[str, Any]], jobs: Jobs, ahead: int, stream: IO[bytes]) -> None:
    """All rounds: attempts that are written already are taken in, the others made."""
    wanted, rounds = state.settings.wanted, state.settings.rounds
    row = next(written, None)
    with tqdm(total=wanted.count, unit="dialogue", disable=not sys.stderr.isatty()) as bar:
        for number in range(rounds.most):
            slots = due(wanted, rounds, number, state.progress)
            if not slots and len(state.progress.filled) == wanted.count:
                break
            coming = list(candidates(wanted, rounds, number, state.progress, state.pool))
            done = 0
            while row is not None and done < len(coming):
                state.take(coming[done], made_again(row, coming[done].number))
                done, row = done + 1, next(written, None)
            bar.update(len(state.progress.filled) - bar.n)
            for candidate, found in _made(coming[done:], jobs, ahead):
                if not found.gate and (said := state.collection.refusal(found)) is not None:
                    found = Made(found.line, gate=said[0], reason=said[1])
                _write(stream, candidate, found)
                state.take(candidate, found)
                bar.update(len(state.progress.filled) - bar.n)
                bar.set_postfix_str(state.summary.short(), refresh=False)
            state.progress.settle(slots, wanted)
    if row is not None:
        raise DataError(f"{CANDIDATES} has more rows than its plan; accepted: those of an earlier run")


def _made(todo: Sequence[Candidate], jobs: Jobs, ahead: int) -> Iterator[tuple[Candidate, Made]]:
    """Attempts with what became of them, in order."""
    ready: dict[int, Any] = {}
    asked = 0
    for place, candidate in enumerate(todo):
        while asked < min(len(todo), place + ahead):
            jobs.put(todo[asked].number, todo[asked].attempt)
            asked += 1
        while candidate.number not in ready:
            number, found = jobs.get()
            ready[number] = Made(gate="author", reason=str(found)) if isinstance(found, Died) else found
        yield candidate, ready.pop(candidate.number)


class _Lazy:
    """Jobs that are started when the first is put in: a run that is done starts no process."""

    def __init__(self, start: Callable[[], Jobs]) -> None:
        self._start = start
        self._jobs: Jobs | None = None

    def put(self, key: Any, attempt: Attempt) -> None:
        """Add a job."""
        self._jobs = self._jobs or self._start()
        self._jobs.put(key, attempt)

    def get(self) -> tuple[Any, Any]:
        """The next that is done."""
        assert self._jobs is not None
        return self._jobs.get()

    def close(self) -> None:
        """End what was started."""
        if self._jobs is not None:
            self._jobs.close()


def _write(stream: IO[bytes], candidate: Candidate, found: Made) -> None:
    head = {"candidate": candidate.number, "round": candidate.round, "slot": candidate.slot, "gate": found.gate,
            "reason": found.reason, "fingerprint": found.fingerprint}  # fmt: skip
    line = json.dumps(head, ensure_ascii=False)[:-1] + f', "row": {found.line or "null"}}}\n'
    stream.write(line.encode(errors="replace"))  # a reason may quote half a character of anyone's text
    stream.flush()


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                row = json.loads(line)
                if not isinstance(row, dict) or not {"candidate", "gate", "reason", "fingerprint", "row"} <= set(row):
                    raise ValueError("it is no candidate")
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, row {number}: {error}; accepted: what an earlier run wrote") from None
            yield row


def _claim(folder: Path, settings: Settings) -> None:
    """Write the settings, or see that they are those of the folder."""
    path = folder / PLAN
    expected = json.loads(json.dumps(asdict(settings)))
    if not path.exists():
        if other := sorted({path.name for path in folder.iterdir()} - {".lock", *BESIDE}):
            raise DataError(
                f"{folder} holds {other[0]} but no {PLAN}; accepted: a new folder, or one of an earlier run"
            )
        write_atomic(path, (json.dumps(expected, indent=1) + "\n").encode())
        return
    try:
        before = json.loads(path.read_bytes())
        if not isinstance(before, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no plan: {error}") from None
    known, asked = _flat(before), _flat(expected)
    for key, value in asked.items():
        if known.get(key) != value:
            raise DataError(
                f"{folder} holds dialogues of another plan: {key} is {known.get(key)!r:.100} there, {value!r:.100} here"
            )


def _flat(row: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        found |= _flat(value, f"{place}{key}.") if isinstance(value, dict) else {f"{place}{key}": value}
    return found


def _finish(folder: Path, state: _State) -> None:
    """Write the dialogues in the order of their slots, the surplus, the summary and the card."""
    lines: dict[int, bytes] = {}
    chosen = set(state.progress.filled.values())
    extra = []
    for row in _rows(folder / CANDIDATES):
        if not row["gate"]:
            line = Dialogue.of(row["row"]).line.encode() + b"\n"
            if row["candidate"] in chosen:
                lines[row["candidate"]] = line
            else:
                extra.append(line)
    filled = sorted(state.progress.filled.items())
    write_atomic(folder / DIALOGUES, b"".join(lines[number] for _, number in filled))
    write_atomic(folder / SURPLUS, b"".join(extra))
    state.summary.filled([state.settings.wanted.bucket(slot) for slot, _ in filled], len(extra))
    summary = state.summary.row()
    write_atomic(folder / SUMMARY, (json.dumps(summary, indent=1, ensure_ascii=False) + "\n").encode())
    write_atomic(folder / CARD, card(asdict(state.settings), summary).encode())


def refusals(folder: Path) -> Counter[str]:
    """How many attempts each gate refused, of a folder. Raises DataError for rows that are none."""
    return Counter(row["gate"] for row in _rows(folder / CANDIDATES) if row["gate"])
