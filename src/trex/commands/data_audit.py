"""`trex data audit`: the gates over anyone's set of problems with answers."""

from pathlib import Path
from typing import Annotated

import tyro

File = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FILE")]]
Folder = Annotated[Path, tyro.conf.arg(metavar="FOLDER")]


def audit(file: File, out: Folder, linear: bool = False, processes: int = 0, seconds: float = 30.0) -> int:
    """Judge every row of a training set: run its program confined, solve its model twice, compare with its text.

    JSONL is read, a row per line: problem and answer, chat messages, ShareGPT conversations, or benchmark rows. FOLDER
    gets verdicts.jsonl (in the order of the rows, with evidence), summary.json and README.md; the same command goes on
    after an interruption. Exits 0 also where rows are refused.

    Args:
        file: The rows.
        out: Where the verdicts go.
        linear: Refuse models that are no mixed-integer linear programs; otherwise they are noted.
        processes: How many rows are judged side by side; one per core for 0.
        seconds: For a row's program, and for each solver.
    """
    from trex.data.audit.report import text
    from trex.data.audit.run import audit as work

    print(text(work(file, out, linear, processes, seconds)))
    return 0
