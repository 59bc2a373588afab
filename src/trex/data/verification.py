"""A folder of documents proved again, each from its record alone."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from trex.data.documents import Document, verify
from trex.data.engine import DOCUMENTS, LONGEST_S, PLAN, Settings, of_plan, read_settings
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
    """How many rows a folder has, and what is wrong with it. Raises DataError where there are no documents to read."""
    path = folder / DOCUMENTS
    if not path.is_file():
        raise DataError(f"{path} does not exist; accepted: a folder that `trex data generate` made")
    settings = read_settings(folder) if (folder / PLAN).exists() else None
    faults, total = [], 0
    with path.open("rb") as stream:
        count = sum(1 for _ in stream)
    pool = Pool(Work(reprove, LONGEST_S), max(1, min(processes or os.cpu_count() or 1, count)))
    try:
        with tqdm(total=count, unit="document", disable=not sys.stderr.isatty()) as bar:
            rows, waiting = _rows(path), 0
            for row, line in rows:
                total = row
                if (fault := _out_of_place(settings, row, line)) is not None:
                    faults.append(fault)
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
    if settings is not None and total != settings.plan.count:
        faults.append(Fault(0, f"{total} documents; the plan has {settings.plan.count}"))
    faults += [Fault(0, reason) for reason in rewriting_faults(folder)]
    return total, sorted(faults, key=lambda fault: fault.row)


def _next(pool: Pool) -> list[Fault]:
    row, found = pool.get()
    reason = f"proving it: {found}" if isinstance(found, Died) else found
    return [Fault(row, reason)] if reason else []


def _rows(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as stream:
        for row, line in enumerate(stream, start=1):
            yield row, line.decode(errors="replace").removesuffix("\n")


def _out_of_place(settings: Settings | None, row: int, line: str) -> Fault | None:
    """Rows that cannot be read are told by `reprove`."""
    try:
        origin = json.loads(line)["provenance"]
        fits = settings is None or (row <= settings.plan.count and of_plan(settings.plan, row - 1, origin))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return None if fits else Fault(row, "it is not what the plan has there")
