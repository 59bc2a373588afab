"""The run: documents prepared side by side, compared in order with those before them and with the benchmarks, written.

A run that was stopped anywhere goes on where it was and ends in the same bytes as one that never was.
"""

import json
import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from trex.data.decontamination import Benchmarks
from trex.data.ingest.folder import DOCUMENTS, REFUSALS, claim, resume, rows
from trex.data.ingest.prepare import SHOWN, Prepared, Rules, prepare, signed
from trex.data.ingest.reading import GATES, MEGABYTE, optional
from trex.data.ingest.sources import File, Item, digest, inventory, items
from trex.data.near_duplicates import NearDuplicates, Signature, signature
from trex.data.problem import DataError
from trex.files import locked, make_folder
from trex.solver.workers import Died, InProcess, Jobs, Pool, Work

NEAR = 0.8  # similarity from which documents are near-duplicates, as for Gopher (Rae et al., 2021, appendix A.1.1)
AHEAD = 4  # documents per process that may be ready before those in front of them are written
NEEDED = {"pdf": "pypdf", "html": "selectolax"}


class Here(InProcess):
    """Documents prepared in this process, without a limit of time or memory."""

    def __init__(self) -> None:
        super().__init__(prepare)


@dataclass
class Funnel:
    """How many documents came in, which gates refused how many, and what was let in."""

    refused: Counter[str] = field(default_factory=Counter)
    documents: int = 0
    words: int = 0
    licences: Counter[str] = field(default_factory=Counter)

    @property
    def read(self) -> int:
        """All documents."""
        return self.documents + self.refused.total()

    def let_in(self, row: dict[str, Any]) -> None:
        """Count a document that was let in."""
        self.documents += 1
        self.words += row["words"]
        self.licences[row["licence"]] += 1

    def text(self) -> str:
        """A line per gate: what it refused, and what was left."""
        left, lines = self.read, [f"{'gate':<16}{'refused':>9}{'left':>9}", f"{'':<16}{'':>9}{self.read:>9}"]
        for gate in sorted(self.refused, key=GATES.index):
            left -= self.refused[gate]
            lines.append(f"{gate:<16}{self.refused[gate]:>9}{left:>9}")
        licences = ", ".join(f"{name} ({count})" for name, count in sorted(self.licences.items()))
        return "\n".join([*lines, f"{self.documents} documents, {self.words:,} words; licences: {licences or 'none'}"])


class Collection:
    """What the documents let in so far are compared with."""

    def __init__(self, near: float, benchmarks: Benchmarks) -> None:
        self._benchmarks = benchmarks
        self._near = NearDuplicates(near)
        self._places: list[str] = []
        self._texts: dict[str, str] = {}  # SHA-256 -> place

    def refusal(self, found: Prepared) -> tuple[str, str]:
        """Gate and reason where a document, or most of it, was let in already or is in a benchmark; "" otherwise."""
        if found.sha256 in self._texts:
            return "duplicate", f"its text is that of {self._texts[found.sha256]}"
        if (near := self._near.find(signed(found))) is not None:
            return "near-duplicate", f"{near[1]:.2f} like {self._places[near[0]]}"
        if (hit := self._benchmarks.find(found.row["text"])) is not None:
            return "benchmark", f"{hit.grams} runs of 13 words of {hit.source}"
        return "", ""

    def add(self, row: dict[str, Any], sign: Signature) -> None:
        """Let a document in."""
        self._near.add(sign)
        self._places.append(row["file"])
        self._texts[row["sha256"]] = row["file"]


def ingest(
    folder: Path,
    inputs: Sequence[Path],
    rules: Rules | None = None,
    benchmarks: Benchmarks | None = None,
    near: float = NEAR,
    processes: int = 0,
    pool: Callable[[], Jobs] | None = None,
) -> Funnel:
    """Collect the documents of files and folders in `folder`, or what is missing of them.

    near: similarity from which documents are near-duplicates. processes: side by side, one per core for 0. pool:
    another place for the work. Raises DataError where an input is missing, the folder lies in one or holds documents of
    other settings, a file changes meanwhile, or a library is not installed.
    """
    rules, benchmarks = rules or Rules(), benchmarks or Benchmarks()
    if not 0 < near <= 1 or processes < 0:
        raise DataError(f"near {near}, processes {processes}; accepted: above 0 up to 1, and whole numbers from 0")
    for path in inputs:
        if folder.resolve().is_relative_to(path.resolve()):
            raise DataError(f"{folder} lies in {path}; accepted: a folder outside of what is read")
    rules.check()
    files = inventory(inputs, rules.limits)
    settings = _settings(inputs, files, rules, benchmarks, near)
    make_folder(folder)
    with locked(folder / ".lock"):
        claim(folder, settings)
        done, funnel = Collection(near, benchmarks), Funnel()
        start = resume(folder)
        for _, _, row in rows(folder / DOCUMENTS):
            done.add(row, signature(row["text"]))
            funnel.let_in(row)
        funnel.refused.update(row["gate"] for _, _, row in rows(folder / REFUSALS))
        count = processes or os.cpu_count() or 1
        limits = rules.limits
        made = (pool or (lambda: Pool(Work(prepare, limits.seconds, limits.memory_mb * MEGABYTE), count)))()
        try:
            with (folder / DOCUMENTS).open("ab") as documents, (folder / REFUSALS).open("ab") as refusals:
                for item, found in _prepared(files, start, rules, made, count * AHEAD):
                    gate, reason = (found.gate, found.reason) if found.gate else done.refusal(found)
                    if gate:
                        _write(refusals, _refusal(item, gate, reason, found))
                        funnel.refused[gate] += 1
                        continue
                    _write(documents, found.row)
                    done.add(found.row, signed(found))
                    funnel.let_in(found.row)
                for stream in (documents, refusals):
                    os.fsync(stream.fileno())
        finally:
            made.close()
    return funnel


def _prepared(files: list[File], start: int, rules: Rules, pool: Jobs, ahead: int) -> Iterator[tuple[Item, Prepared]]:
    """The documents from `start` on in order, each with what was made of it."""
    total = sum(file.size for file in files)
    coming = items(files, rules.limits)
    with tqdm(total=total, unit="B", unit_scale=True, disable=not sys.stderr.isatty()) as bar:
        for item in islice(coming, start):
            bar.update(item.size)
        waiting: deque[Item] = deque()
        ready: dict[int, Prepared] = {}
        refused = Counter[str]()
        while True:
            for item in islice(coming, ahead - len(waiting)):
                pool.put(item.number, item, rules)
                waiting.append(item)
            if not waiting:
                return
            while waiting[0].number not in ready:
                number, found = pool.get()
                ready[number] = _ended(found, rules) if isinstance(found, Died) else found
            item = waiting.popleft()
            found = ready.pop(item.number)
            yield item, found
            refused[found.gate or "read"] += 1
            bar.set_postfix_str(" ".join(f"{gate}:{count}" for gate, count in refused.items()), refresh=False)
            bar.update(item.size)


def _ended(died: Died, rules: Rules) -> Prepared:
    """The refusal of a document at which its process ended."""
    if "SIGALRM" in str(died):
        return Prepared(gate="time", reason=f"it took longer than {rules.limits.seconds} s")
    if "more than" in str(died):
        return Prepared(gate="memory", reason=f"it took more than {rules.limits.memory_mb} MB")
    return Prepared(gate="crash", reason=str(died))


def _refusal(item: Item, gate: str, reason: str, found: Prepared) -> dict[str, Any]:
    excerpt = found.excerpt or found.row.get("text", "")[:SHOWN]
    return {
        "number": item.number, "file": item.place, "gate": gate, "reason": reason, "sha256": found.sha256,
        "excerpt": excerpt,
    }  # fmt: skip


def _write(stream: IO[bytes], row: dict[str, Any]) -> None:
    stream.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    stream.flush()


def _settings(
    inputs: Sequence[Path], files: list[File], rules: Rules, benchmarks: Benchmarks, near: float
) -> dict[str, Any]:
    """All that decides the bytes of the folder. Raises DataError where a library for a format is missing."""
    needed = sorted({NEEDED[file.format] for file in files if file.format in NEEDED and not file.gate} | {"py3langid"})
    for name in needed:
        optional(name, "`trex data ingest`")
    return {
        "inputs": [path.absolute().name for path in inputs],
        "files": len(files),
        "files_sha256": digest(files),
        "benchmarks_sha256": benchmarks.sha256,
        "near": near,
        **asdict(rules),
        "versions": {name: metadata.version(name) for name in ["trex-reproduction", *needed]},
    }
