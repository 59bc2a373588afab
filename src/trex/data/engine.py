"""The engine: prove the documents of a plan side by side, keep them in order, and go on after any interruption.

A folder holds plan.json, documents.jsonl and refusals.jsonl. Documents are written in the order of the plan, each after
the refusals of its earlier attempts, so that a run that was stopped anywhere ends in the same files as one that never
was.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from trex.data.collection import Collection
from trex.data.decontamination import Benchmarks
from trex.data.documents import Document, read_jsonl
from trex.data.gates import GATES
from trex.data.near_duplicates import THRESHOLD
from trex.data.plan import ATTEMPTS, MOST, Plan
from trex.data.problem import DataError
from trex.data.proving import Outcome, prove, written
from trex.files import cut_half_line, locked, make_folder, write_atomic
from trex.solver.workers import Died, InProcess, Jobs, Pool, Work

PLAN, DOCUMENTS, REFUSALS = "plan.json", "documents.jsonl", "refusals.jsonl"
LONGEST_S = 300  # for one instance, after which its process is ended
REFUSAL = {"document": int, "gate": str, "reason": str}  # what is read again of a refusal
AHEAD = 8  # documents per process that may be proved before those in front of them are written


class Here(InProcess):
    """Instances proved in this process."""

    def __init__(self) -> None:
        super().__init__(prove)


@dataclass(frozen=True)
class Settings:
    """What a folder of documents is made by. Two runs with equal settings end in equal bytes."""

    plan: Plan
    near: float = THRESHOLD  # similarity from which statements are near-duplicates
    benchmarks: str = ""  # SHA-256 of the benchmarks that are kept out, "" for none
    execute: bool = True  # whether programs are run

    def __post_init__(self) -> None:
        """Raise DataError for a similarity out of range."""
        if not 0 < self.near <= 1:
            raise DataError(f"near-duplicates from a similarity of {self.near}; accepted: above 0, up to 1")


def generate(
    folder: Path,
    settings: Settings,
    benchmarks: Benchmarks | None = None,
    processes: int = 0,
    pool: Callable[[], Jobs] | None = None,
) -> Counter[str]:
    """Make the documents of a plan, or what is missing of them; returns how many instances each gate refused.

    processes: side by side, one per core for 0. pool: another place for the work. Raises DataError for a negative
    number of them, where the folder holds documents of other settings, or no instance of a family passes;
    BlockingIOError where another run is at work in the folder.
    """
    if processes < 0:
        raise DataError(f"processes {processes}; accepted: whole numbers from 0")
    make_folder(folder)
    with locked(folder / ".lock"):
        _claim(folder, settings)
        done, refused = Collection(settings.near, benchmarks or Benchmarks()), Counter[str]()
        start = _resume(folder, settings.plan, done, refused)
        if start == settings.plan.count:
            return refused
        count = processes or os.cpu_count() or 1
        made = (pool or (lambda: Pool(Work(prove, LONGEST_S), count)))()
        try:
            with (folder / DOCUMENTS).open("ab") as documents, (folder / REFUSALS).open("ab") as refusals:
                _work(settings, start, done, refused, made, count * AHEAD, documents, refusals)
                for stream in (documents, refusals):
                    stream.flush()
                    os.fsync(stream.fileno())
        finally:
            made.close()
    return refused


def _work(
    settings: Settings, start: int, done: Collection, refused: Counter[str], pool: Jobs, ahead: int,
    documents: IO[bytes], refusals: IO[bytes],
) -> None:  # fmt: skip
    plan = settings.plan
    attempts: Counter[int] = Counter()
    outcomes: dict[int, Outcome] = {}
    asked = start

    def ask(k: int) -> None:
        pool.put(k, plan.item(k, attempts[k]), settings.execute)

    with tqdm(total=plan.count, initial=start, unit="document", disable=not sys.stderr.isatty()) as bar:
        for k in range(start, plan.count):
            while asked < min(plan.count, k + ahead):
                ask(asked)
                asked += 1
            while True:
                while k not in outcomes:
                    number, found = pool.get()
                    outcomes[number] = _ended(found) if isinstance(found, Died) else found
                outcome = outcomes.pop(k)
                if not outcome.gate and (said := done.refusal(outcome)) is not None:
                    outcome = Outcome(gate=said[0], reason=said[1], data=Document.from_line(outcome.line).data)
                if not outcome.gate:
                    break
                _write(refusals, _row(plan, k, attempts[k], outcome))
                refused[outcome.gate] += 1
                attempts[k] += 1
                if attempts[k] == ATTEMPTS:
                    item = plan.item(k)
                    last = f"{outcome.gate}: {outcome.reason}"
                    raise DataError(f"document {k}: {ATTEMPTS} instances of {item.family} refused, the last: {last}")
                ask(k)
            refusals.flush()
            documents.write(outcome.line.encode() + b"\n")
            documents.flush()
            done.add(outcome)
            bar.update()
            bar.set_postfix_str(" ".join(f"{gate}:{count}" for gate, count in refused.items()), refresh=False)


def _write(stream: IO[bytes], row: dict[str, Any]) -> None:
    stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def _row(plan: Plan, k: int, attempt: int, outcome: Outcome) -> dict[str, Any]:
    return {
        "document": k, "attempt": attempt, **asdict(plan.item(k, attempt)), "gate": outcome.gate,
        "reason": outcome.reason, "data": outcome.data,
    }  # fmt: skip


def _ended(died: Died) -> Outcome:
    return Outcome(gate="solver", reason=str(died))


def _claim(folder: Path, settings: Settings) -> None:
    """Write the settings, or see that they are those of the folder."""
    path = folder / PLAN
    expected = (json.dumps(asdict(settings), indent=1) + "\n").encode()
    if not path.exists():
        if any((folder / name).exists() for name in (DOCUMENTS, REFUSALS)):
            raise DataError(
                f"{folder} holds documents but no {PLAN}; accepted: an empty folder, or one of an earlier run"
            )
        write_atomic(path, expected)
    elif (found := path.read_bytes()) != expected:
        before, now = _flat(found), _flat(expected)
        other = next((key for key in now if before.get(key) != now[key]), "")
        raise DataError(
            f"{folder} holds documents of another plan: {other} is {before.get(other)!r} there, {now.get(other)!r} here"
        )


def read_settings(folder: Path) -> Settings:
    """The settings of a folder. Raises DataError for a file that holds none."""
    path = folder / PLAN
    try:
        row = json.loads(path.read_bytes())
        plan = row.pop("plan")
        settings = Settings(Plan.of(*(plan[field.name] for field in fields(Plan))), **row)
        kinds = {"near": (int, float), "benchmarks": (str,), "execute": (bool,)}
        found = {**plan, **{key: getattr(settings, key) for key in kinds}}
        lists = dict.fromkeys(("families", "modes", "difficulties"), (list,))
        for key, accepted in ({"count": (int,), "seed": (int,)} | lists | kinds).items():
            if type(found[key]) not in accepted:
                raise TypeError(f"{key} is {found[key]!r:.80}")
        return settings
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise DataError(f"{path} holds no plan: {error}") from None


def _flat(text: bytes) -> dict[str, Any]:
    try:
        row = json.loads(text)
        return {**row.pop("plan"), **row}
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise DataError(f"{PLAN} is no plan: {text[:80]!r}") from None


def _resume(folder: Path, plan: Plan, done: Collection, refused: Counter[str]) -> int:
    """Cut half lines and refusals of documents not yet written, take in what is there; returns the next number."""
    documents, refusals = folder / DOCUMENTS, folder / REFUSALS
    for path in (documents, refusals):
        cut_half_line(path)
    present = 0
    for document in read_jsonl(documents) if documents.exists() else ():
        origin = document.provenance
        if present == plan.count or not of_plan(plan, present, origin) or "model_fingerprint" not in origin:
            raise DataError(f"{documents}, row {present + 1} is not what the plan has there")
        done.add(written(document))
        present += 1
    kept = [(line, row) for line, row in refusal_rows(refusals) if row["document"] < present]
    if refusals.exists():
        write_atomic(refusals, b"".join(line for line, _ in kept))
    refused.update(row["gate"] for _, row in kept)
    return present


def of_plan(plan: Plan, k: int, origin: Mapping[str, Any]) -> bool:
    """Whether a document of this origin is one that number k of the plan may be: some attempt's."""
    item = plan.item(k)
    seeds = range(item.seed, item.seed + ATTEMPTS * MOST, MOST)
    return origin.get("seed") in seeds and all(
        origin.get(key) == value for key, value in asdict(item).items() if key != "seed"
    )


def refusal_rows(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Line and content of each refused instance, none of a missing file; a half-written last line is left out.

    Raises DataError that names file and row for one that is none.
    """
    if not path.exists():
        return
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                row = json.loads(line)
                wrong = "" if isinstance(row, dict) else f"it is a {type(row).__name__}, not an object"
                for key, kind in REFUSAL.items():
                    if not wrong and type(row.get(key)) is not kind:
                        wrong = f"{key} is {row[key]!r:.80}" if key in row else f"it has no `{key}`"
                if not wrong and (row["document"] < 0 or row["gate"] not in GATES):
                    wrong = f"document {row['document']}, gate {row['gate']!r:.80}"
            except (ValueError, RecursionError) as error:
                wrong = f"no JSON: {error}"
            if wrong:
                raise DataError(f"{path}, row {number}: {wrong}; accepted: what `trex data generate` writes")
            yield line, row
