"""Layouts against one process: the problems, delays, and where ranks differ."""

import contextlib
import random
import time
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trex.launch import ranks
from trex.model.config import HEAVY, SPARSE, WINDOW, ModelConfig
from trex.model.layout import Layout
from trex.parallel.parity import Outcome, Problem, relative, train

LARGE = Problem(
    ModelConfig.tiny(
        num_layers=8, compress_ratios=(WINDOW, SPARSE, HEAVY, SPARSE, HEAVY, SPARSE, WINDOW, SPARSE), num_heads=8,
        o_groups=8, hash_layers=2,
    )
)  # fmt: skip
SMALL = Problem(
    ModelConfig.tiny(num_layers=4, compress_ratios=(WINDOW, SPARSE, HEAVY, SPARSE), hash_layers=1, vocab_size=128),
    rows=4, length=144,
)  # fmt: skip


class Delays(TorchDispatchMode):
    """Before every operation of torch.distributed this rank sleeps for a random while."""

    def __init__(self, rank: int, most_s: float) -> None:
        super().__init__()
        self.random, self.most_s, self.count = random.Random(rank), most_s, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            self.count += 1
            time.sleep(self.random.random() * self.most_s)
        return func(*args, **(kwargs or {}))


def several(rank: int, layouts: list[tuple[Layout, int]], problem: Problem, delay_s: float = 0.0) -> list[Outcome]:
    """Several layouts of as many ranks, one after the other in one process group."""
    with Delays(rank, delay_s) if delay_s else contextlib.nullcontext() as delays:
        found = [train(layout, micro_batches, problem) for layout, micro_batches in layouts]
    assert delays is None or delays.count > 20
    return found


def outcomes(layouts: list[tuple[Layout, int]], problem: Problem, **more: float) -> list[list[Outcome]]:
    """Of every layout, the outcome of each rank."""
    found = ranks.run(several, layouts[0][0].world_size, layouts, problem, *more.values(), timeout_s=900)
    return [list(of_layout) for of_layout in zip(*found, strict=True)]


def problems(found: list[Outcome], one: Outcome, bound: float) -> list[str]:
    """Where ranks differ from one process by more than `bound`, relative to what is compared."""
    said = []
    for kind, theirs, ours in (
        ("gradient", [o.gradients for o in found], one.gradients),
        ("parameter", [o.parameters for o in found], one.parameters),
    ):
        gaps = relative(theirs, ours, kind == "gradient")
        said += [f"{kind} {name}: {gap:.1e}" for name, gap in gaps.items() if gap > bound]
    for rank, outcome in enumerate(found):
        for step, (mine, theirs) in enumerate(zip(outcome.losses, one.losses, strict=True)):
            said += [
                f"rank {rank}, step {step}, {name}: {mine.get(name)} for {value}" for name, value in theirs.items()
                if name not in mine or abs(mine[name] - value) > bound * abs(value)
            ]  # fmt: skip
            said += [f"rank {rank}: a loss {name}" for name in mine.keys() - theirs.keys()]
        for mine_norm, norm in zip(outcome.norms, one.norms, strict=True):
            said += [f"rank {rank}: norm {mine_norm} for {norm}"] if abs(mine_norm - norm) > bound * norm else []
        said += [] if torch.equal(outcome.loads, one.loads) else [f"rank {rank}: other loads"]
    return said
