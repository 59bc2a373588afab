"""A folder of documents proved again, each from its record alone."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from trex.data.documents import Document, verify
from trex.data.engine import DOCUMENTS, LONGEST_S, PLAN, REFUSALS, Settings, of_plan, read_settings, refusal_rows
from trex.data.gates import OF_PROGRAMS
from trex.data.near_duplicates import NearDuplicates, signature
from trex.data.problem import DataError
from trex.data.proving import sandbox
from trex.data.rewritten import faults as rewriting_faults
from trex.solver.sandbox.execution import SandboxError
from trex.solver.workers import Died, Pool, Work

AHEAD = 8  # lines per process that are read before they are proved


@dataclass(frozen=True)
class Fault:
    """What is wrong with a row; row 0 for the folder as a whole."""

    row: int
    reason: str


def reprove(line: str, execute: bool) -> str:
    """Prove one line again; what is wrong with it, "" for nothing."""
    try:
        verify(Document.from_line(line), sandbox() if execute else None)
    except SandboxError:
        raise
    except ValueError as error:  # a row may hold anything: whatever it leads to is its fault
        return str(error)
    except (TypeError, KeyError, AttributeError, OverflowError) as error:
        return f"not what a document holds: {error!r}"
    return ""


def verify_folder(folder: Path, execute: bool = True, processes: int = 0) -> tuple[int, list[Fault]]:
    """How many rows a folder has, and what is wrong with it, each row alone and with the plan and the other rows.

    Raises DataError where there are no documents or no settings to read, and for a negative number of processes.
    """
    if processes < 0:
        raise DataError(f"processes {processes}; accepted: whole numbers from 0")
    path = folder / DOCUMENTS
    if not path.is_file():
        raise DataError(f"{path} does not exist; accepted: a folder that `trex data generate` made")
    settings = read_settings(folder) if (folder / PLAN).exists() else None
    faults, total, others = [], 0, _Others(settings)
    with path.open("rb") as stream:
        count = sum(1 for _ in stream)
    pool = Pool(Work(reprove, LONGEST_S), max(1, min(processes or os.cpu_count() or 1, count)))
    try:
        with tqdm(total=count, unit="document", disable=not sys.stderr.isatty()) as bar:
            rows, waiting = _rows(path), 0
            for row, line in rows:
                total = row
                if not line.endswith("\n"):
                    faults.append(Fault(row, "it does not end with a line break"))
                line = line.removesuffix("\n")
                if (fault := _out_of_place(settings, row, line)) is not None:
                    faults.append(fault)
                faults += [Fault(row, reason) for reason in others.compare(row, line)]
                pool.put(row, line, execute)
                waiting += 1
                if waiting >= AHEAD * (processes or os.cpu_count() or 1):
                    faults += _next(pool)
                    waiting -= 1
                    bar.update()
            for _ in range(waiting):
                faults += _next(pool)
                bar.update()
    finally:
        pool.close()
    if settings is None:
        faults.append(Fault(0, f"there is no {PLAN}: nothing says which documents there are to be"))
    elif total != settings.plan.count:
        faults.append(Fault(0, f"{total} documents; the plan has {settings.plan.count}"))
    faults += [Fault(0, reason) for reason in _refusals(folder, settings)]
    faults += [Fault(0, reason) for reason in rewriting_faults(folder)]
    return total, sorted(faults, key=lambda fault: fault.row)


def _next(pool: Pool) -> list[Fault]:
    row, found = pool.get()
    reason = f"proving it: {found}" if isinstance(found, Died) else found
    return [Fault(row, reason)] if reason else []


def _rows(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as stream:
        for row, line in enumerate(stream, start=1):
            yield row, line.decode(errors="replace")


class _Others:
    """What a row is compared with: the settings and the rows before it."""

    def __init__(self, settings: Settings | None) -> None:
        self._settings = settings
        self._near = NearDuplicates() if settings is None else NearDuplicates(settings.near)
        self._signed: list[int] = []  # rows of the signatures
        self._rows: dict[str, int] = {}  # statement hash -> row

    def compare(self, row: int, line: str) -> list[str]:
        """What is wrong with a row beside the others. Rows that cannot be read are told by `reprove`."""
        try:
            document = Document.from_line(line)
            gates, sign = list(document.provenance["gates"]), signature(document.statement)
        except (DataError, TypeError, KeyError):
            return []
        found = []
        first = self._rows.setdefault(document.provenance["statement_sha256"], row)
        if first != row:
            found.append(f"it is the document of row {first} again")
        if self._settings is not None:
            ran = [gate for gate in OF_PROGRAMS if gate in gates]
            if ran != (list(OF_PROGRAMS) if self._settings.execute else []):
                said = f"{PLAN} has execute {json.dumps(self._settings.execute)}"
                found.append(f"{said}; its gates on programs are {', '.join(ran) or 'none'}")
            if first == row and (near := self._near.find(sign)) is not None:
                said = f"{near[1]:.2f} like that of row {self._signed[near[0]]}"
                found.append(f"its statement is {said}; {PLAN} has near {self._settings.near}")
            self._near.add(sign)
            self._signed.append(row)
        return found


def _refusals(folder: Path, settings: Settings | None) -> list[str]:
    """Refusals that cannot be read, or that the settings would not have led to."""
    found = []
    try:
        for number, (_, row) in enumerate(refusal_rows(folder / REFUSALS), start=1):
            said = f"{REFUSALS}, row {number}: refused at the gate {row['gate']!r}, but {PLAN} has"
            if settings is not None and row["gate"] in OF_PROGRAMS and not settings.execute:
                found.append(f"{said} execute false")
            if settings is not None and row["gate"] == "benchmark" and not settings.benchmarks:
                found.append(f"{said} no benchmarks")
    except DataError as error:
        return [*found, str(error)]
    return found


def _out_of_place(settings: Settings | None, row: int, line: str) -> Fault | None:
    """Rows that cannot be read are told by `reprove`."""
    try:
        origin = json.loads(line)["provenance"]
        fits = settings is None or (row <= settings.plan.count and of_plan(settings.plan, row - 1, origin))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return None if fits else Fault(row, "it is not what the plan has there")
