"""The gates on trial: good dialogues that they should let through, and planted faults that they should not.

Faults are planted by `faults`, which knows nothing of the gates.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from tqdm import tqdm

from trex.data.flywheel.bucket import CLEAN_COT, EXPLAINED
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.faults import KINDS, planted
from trex.data.flywheel.judging import judge
from trex.data.flywheel.making import finish
from trex.data.flywheel.reviewer import reviewed
from trex.data.gates import Refused
from trex.solver.workers import Died, Pool, Work

LONGEST_S = 600  # for one dialogue


@dataclass(frozen=True)
class Trial:
    """One dialogue through the gates. kind: of its fault, "" for none; gate: that refused it, "" where none did."""

    id: str
    kind: str
    what: str  # what was changed
    gate: str
    reason: str


def gate(line: str) -> tuple[str, str]:
    """Gate and reason that refuse a dialogue, "" and "" where all let it through."""
    try:
        row = Dialogue.from_line(line)
        if row.cleaning is not None:
            row = reviewed(row)
        judge(row)
    except Refused as error:
        return error.gate, error.reason
    return "", ""


def cleaned(line: str) -> tuple[str, str, int]:
    """An explained answer made Clean-CoT and judged: gate and reason that refuse it, and repairs of its program."""
    row = Dialogue.from_line(line)
    row = replace(row, bucket=replace(row.bucket, style=CLEAN_COT), cleaning=None)
    found = finish(row)
    after = found.row.cleaning if found.line else None
    return found.gate, found.reason, len(after.changes) - 1 if after else 0


def trials(rows: Sequence[Dialogue], faults: int, seed: int = 0, processes: int = 0) -> list[Trial]:
    """`faults` of the rows with a fault planted in each, the others as they are, all through the gates."""
    bad = planted(rows, faults, seed)
    taken = {fault.row.id for fault in bad}
    todo = [(fault.row, fault.kind, fault.what) for fault in bad]
    todo += [(row, "", "") for row in rows if row.id not in taken]
    said = _side_by_side(gate, [row.line for row, _, _ in todo], processes)
    return [
        Trial(row.id, kind, what, *(("execution", str(found)) if isinstance(found, Died) else found))
        for (row, kind, what), found in zip(todo, said, strict=True)
    ]


@dataclass(frozen=True)
class Cleaned:
    """One answer through cleaner, reviewer and gates. kind: of its fault, "" for none; repairs: of its program."""

    id: str
    kind: str
    repairs: int
    gate: str
    reason: str


def cleanings(rows: Sequence[Dialogue], faults: int, seed: int = 0, processes: int = 0) -> list[Cleaned]:
    """Explained answers, `faults` of them with a fault planted, through the cleaning of Clean-CoT."""
    explained = [row for row in rows if row.bucket.style == EXPLAINED]
    bad = planted(explained, faults, seed)
    taken = {fault.row.id for fault in bad}
    todo = [(fault.row, fault.kind) for fault in bad] + [(row, "") for row in explained if row.id not in taken]
    found = []
    for (row, kind), said in zip(todo, _side_by_side(cleaned, [r.line for r, _ in todo], processes), strict=True):
        refused, reason, repairs = ("execution", str(said), 0) if isinstance(said, Died) else said
        found.append(Cleaned(row.id, kind, repairs, refused, reason))
    return found


def yields(found: Sequence[Cleaned]) -> dict[str, int]:
    """Answers given to the cleaner, let through by the reviewer, and exported: those that all gates let through."""
    stopped = [row for row in found if row.gate in ("cleaner", "reviewer")]
    passed = [row for row in found if not row.gate]
    return {
        "input": len(found), "reviewed": len(found) - len(stopped), "exported": len(passed),
        "repaired": sum(1 for row in passed if row.repairs), "faults": sum(1 for row in found if row.kind),
        "faults_exported": sum(1 for row in passed if row.kind and not row.repairs),
    }  # fmt: skip


def _side_by_side(function: Callable[[str], Any], lines: Sequence[str], processes: int) -> list[Any]:
    """The function's values for all lines, in their order; a `Died` where a process ended."""
    found: dict[int, Any] = {}
    with closing(Pool(Work(function, LONGEST_S), processes or os.cpu_count() or 1)) as pool:
        for number, line in enumerate(lines):
            pool.put(number, line)
        for _ in tqdm(lines, unit="dialogue", disable=not sys.stderr.isatty()):
            number, said = pool.get()
            found[number] = said
    return [found[number] for number in range(len(lines))]


@dataclass(frozen=True)
class Caught:
    """Of one kind of fault: how many were planted, how many a gate refused, and which gates did."""

    kind: str
    planted: int
    caught: int
    gates: tuple[tuple[str, int], ...]


def table(found: Sequence[Trial]) -> list[Caught]:
    """A row for each kind of fault; kinds that were not planted have 0."""
    rows = []
    for kind in KINDS:
        those = [trial for trial in found if trial.kind == kind]
        gates = Counter(trial.gate for trial in those if trial.gate)
        rows.append(Caught(kind, len(those), sum(gates.values()), tuple(gates.most_common())))
    return rows


def refused_good(found: Sequence[Trial]) -> tuple[int, int]:
    """Good dialogues, and how many of them a gate refused."""
    good = [trial for trial in found if not trial.kind]
    return len(good), sum(1 for trial in good if trial.gate)
