"""`trex train`: one process alone, or each of many that torchrun, SLURM or variables started.

torch is not imported before the environment of NPUs is set: torch_npu, where it is installed, comes with it.
"""

import importlib.util
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from trex.device import Device
    from trex.launch.cluster import Place

RESUME = "; the same command with --resume goes on from its last checkpoint, if any"
BEFORE_OTHERS_S = 2.0  # the first rank speaks first
Set = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE [...]")]


def train(
    layout: str = "",
    model: str = "tiny",
    recipe: str = "embedded_cpt",
    set: Set = (),
    documents: int = 100,
    data: Path | None = None,
    held_out: float = 0.05,
    folder: Path | None = None,
    resume: bool = False,
    seed: int = 0,
    timeout_s: float = 600.0,
    dtype: str = "float32",
    device: str | None = None,
) -> int:
    """Train a model under a layout, alone or as one of the ranks that torchrun or a cluster starts.

    torchrun --nproc-per-node 4 -m trex train --layout tp=2,pp=2. Exits 1 where a rank was lost or stood still.

    Args:
        layout: Such as tp=2,pp=2,ep=2,sharding=parameters,sequence_parallel=true,stage_layers=2/4; or a YAML or JSON
            file of these fields; one rank by default.
        model: tiny, nano, or a folder with config.json; with weights and a tokenizer there, the run goes on from them.
        recipe: embedded_cpt, embedded_sft, published_flash_cpt, published_flash_sft, published_pro_cpt,
            published_pro_sft, published_sft_code_only, published_sft_clean_cot, or a YAML file of the recipe's fields.
        set: Fields of the recipe (steps, global_batch, micro_batch, seq_len, peak_lr, ...) in place of its own.
        documents: How many documents on optimisation problems are generated.
        data: JSON lines, each with a "text", a generated document or the "messages" of a dialogue, in place of
            generated documents; of a dialogue, what the assistant writes is trained on.
        held_out: Share of the documents that is held out.
        folder: For checkpoints, losses (steps.jsonl) and rows; all ranks must see it. runs/train by default.
        resume: Go on from the folder's last whole checkpoint, under whatever layout it was saved; begin where there is
            none.
        seed: Of documents, random weights and the order of rows.
        timeout_s: Seconds that ranks wait for each other.
        dtype: Of weights and computation: float32 or float64.
        device: cpu, cuda or npu; the accelerator where there is one.
    """
    if importlib.util.find_spec("torch_npu") is not None:
        from trex.launch.ascend_environment import ascend_environment

        os.environ.update(ascend_environment(timeout_s))
    place, chosen = _place(device)
    from trex import paths
    from trex.checkpoint.together import Together
    from trex.commands.errors import told
    from trex.launch.join import join
    from trex.train.agreement import AgreedError
    from trex.train.job import Job, carry_out

    job = Job(
        layout, model, recipe, set, documents, data, held_out, folder or paths.runs() / "train", resume, seed, dtype
    )
    if place.rank:
        warnings.filterwarnings("ignore")  # the first rank has the same
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.")
    if place.world_size > 1:
        signal.signal(signal.SIGINT, lambda *_: _interrupted(place.rank))
    if place.rank == 0:
        nodes = f"{place.nodes} node{'s' if place.nodes > 1 else ''}"
        print(f"ranks       {place.world_size} ({place.source}) on {nodes}; {chosen.describe()}", flush=True)
    with join(place, chosen.backend, timeout_s):
        try:
            carry_out(job, Together(), chosen, timeout_s, lambda line: print(line, flush=True))
        except AgreedError as error:  # every rank is here
            line = told(error.__cause__ or error)
            if line is None:
                raise
            if place.rank == 0:
                print(line, file=sys.stderr, flush=True)
            return 2
    return 0


def _place(device: str | None) -> "tuple[Place, Device]":
    """Where this process stands, and its device. What the first rank finds wrong, it says before the others do."""
    from trex.device import of_rank
    from trex.launch import cluster

    place = cluster.detect()
    try:
        return place, of_rank(place.local_rank, device)
    except ValueError:
        if place.rank:
            time.sleep(BEFORE_OTHERS_S)  # the launcher ends the others once the first rank has left
        raise


def _interrupted(rank: int) -> None:
    """Leave at once: unwinding could wait for ranks that have left."""
    if rank == 0:
        os.write(2, f"trex: interrupted{RESUME}\n".encode())
    os._exit(130)
