"""The commands of `trex data`: documents of the problem families, made, proved again and counted."""

import sys
from json import dumps
from pathlib import Path
from typing import Annotated

import tyro
from tyro.extras import SubcommandApp

from trex.commands.data_audit import audit
from trex.commands.data_dialogues import dialogues
from trex.commands.data_export import export
from trex.commands.data_flywheel import flywheel
from trex.commands.data_ingest import ingest
from trex.commands.data_rewrite import rewrite

data = SubcommandApp()
data.command(audit)
data.command(dialogues)
data.command(flywheel)
data.command(ingest)
data.command(export)
data.command(rewrite)
Folder = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FOLDER")]]
Several = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")]
SHOWN = 20  # faults that are printed


@data.command
def generate(
    out: Path,
    count: int = 1000,
    seed: int = 0,
    families: Several = (),
    modes: Several = (),
    difficulty: tuple[int, ...] = (),
    benchmarks: Path | None = None,
    near: float = 0.9,
    processes: int = 0,
    execute: bool = True,
    ray: str | None = None,
) -> int:
    """Make documents whose answers are proved, in order, with what every gate refused beside them.

    The same command goes on after an interruption, and ends in the same bytes.

    Args:
        out: Folder for plan.json, documents.jsonl, refusals.jsonl and README.md.
        count: Documents, from 1, over all combinations of families, modes and difficulties.
        seed: Other seeds share no instance. From 900,000 on they are kept for dialogues and for evaluation.
        families: Problem families; all by default.
        modes: DP (data in the problem), DT (in tables), DPS (in a file); all by default.
        difficulty: 1 to 4; all by default.
        benchmarks: Folder of texts and models that no document may be taken from.
        near: Similarity of statements from which the later one is left out.
        processes: Side by side; one per core for 0.
        execute: Run every program in the sandbox.
        ray: Work on a Ray cluster: its address, "auto" for this machine's, "local" for a new one here.
    """
    from trex.data import engine
    from trex.data.card import write_card
    from trex.data.decontamination import Benchmarks
    from trex.data.plan import FLYWHEEL, HELD_OUT, Plan
    from trex.data.problem import DataError
    from trex.data.statistics import statistics, text

    if seed >= FLYWHEEL:
        raise DataError(
            f"seed {seed}; accepted: below {FLYWHEEL:,}; `trex data flywheel` has those from there on, and evaluation "
            f"those from {HELD_OUT:,} on"
        )
    plan = Plan.of(count, seed, families or None, modes or None, difficulty or None)
    kept_out = None if benchmarks is None else Benchmarks.read(benchmarks)
    settings = engine.Settings(plan, near, "" if kept_out is None else kept_out.sha256, execute)
    pool = None
    if ray is not None:
        from trex.data.ray_pool import RayPool

        address = ray
        pool = lambda: RayPool(address, processes)  # noqa: E731
    engine.generate(out, settings, kept_out, processes, pool)
    found = statistics(out)
    write_card(out, settings, found)
    print(text(found))
    return 0


@data.command
def verify(folder: Folder, execute: bool = True, processes: int = 0, json: bool = False) -> int:
    """Prove every document again from its record alone; exits 1 and names the faults where anything fails.

    Args:
        folder: What `trex data generate` made.
        execute: Run every program in the sandbox again.
        processes: Side by side; one per core for 0.
        json: Print all faults as JSON.
    """
    from trex.data.verification import verify_folder

    total, faults = verify_folder(folder, execute, processes)
    if json:
        print(dumps({"documents": total, "faults": [vars(fault) for fault in faults]}, indent=1))
    else:
        for fault in faults[:SHOWN]:
            print(f"{f'row {fault.row}' if fault.row else folder}: {fault.reason}")
        if len(faults) > SHOWN:
            print(f"and {len(faults) - SHOWN} more (--json shows all)")
        print(f"{total:,} documents, {len(faults):,} faults", file=sys.stderr)
    return 1 if faults else 0


@data.command
def stats(folder: Folder, json: bool = False) -> int:
    """Count a folder's documents: funnel of the gates, families, sizes, variety of the texts.

    Args:
        folder: What `trex data generate` made.
        json: Print everything as JSON.
    """
    from trex.data.statistics import statistics, text

    found = statistics(folder)
    print(dumps(vars(found), indent=1) if json else text(found))
    return 0
