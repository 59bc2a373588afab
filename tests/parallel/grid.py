"""One training problem, run by one process and by many: losses, gradients, parameters after some steps."""

import contextlib
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from trex import parallel
from trex.launch import ranks
from trex.model.config import HEAVY, SPARSE, WINDOW, ModelConfig
from trex.model.layout import Layout
from trex.model.transformer import Transformer
from trex.parallel.data import local
from trex.train.objective import counts

WEIGHTS = {"lm": 1.0, "mtp": 0.3, "indexer": 1.0, "balance": 0.01}
CLIP, SPEED = 0.5, 1e-2
Blocks = dict[str, tuple[Tensor, tuple[int, ...]]]  # by name: a block and where it begins


@dataclass(frozen=True)
class Problem:
    """A model, rows, and how it is trained on them."""

    config: ModelConfig
    rows: int = 8
    length: int = 192
    steps: int = 3
    indexer: str = "sparse"
    recompute: bool = False
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    dtype: torch.dtype = torch.float64


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


@dataclass(frozen=True)
class Outcome:
    """What one rank has at the end; of the only rank, everything."""

    losses: list[dict[str, float]]  # summed over the tokens of each step
    norms: list[float]  # before clipping
    gradients: Blocks  # of the first step, before clipping
    parameters: Blocks  # after the last step, buffers included
    loads: Tensor


def batch(problem: Problem, step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of several documents of uneven length, some padded; targets of some tokens only."""
    generator = torch.Generator().manual_seed(100 + step)
    rows, length = problem.rows, problem.length
    tokens = torch.randint(problem.config.vocab_size, (rows, length), generator=generator)
    documents = torch.zeros(rows, length, dtype=torch.int64)
    for row in range(rows):
        for cut in (torch.randperm(length - 1, generator=generator)[: row % 4] + 1).tolist():
            documents[row, cut:] += 1
        if row % 3 == 1:
            documents[row, length - 7 * (row + 1) :] = -1
    targets = tokens.roll(-1, dims=1)
    last = torch.ones_like(documents, dtype=torch.bool)
    last[:, :-1] = documents[:, 1:] != documents[:, :-1]
    hidden = torch.rand(rows, length, generator=generator) < 0.1
    targets[last | (documents < 0) | hidden] = -100
    return tokens, documents, targets


def model(problem: Problem) -> Transformer:
    """Weights at which no mistake hides: no zeros, no ones, experts and indexers that differ."""
    made = Transformer(problem.config, seed=3).to(problem.dtype)
    generator = torch.Generator().manual_seed(7)
    for name, parameter in sorted(made.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(parameter.dtype)
        if parameter.dim() < 2 or name.endswith("ape"):
            parameter.data += 0.1 * noise
        else:
            parameter.data *= 3.0
    for name, buffer in sorted(made.named_buffers()):
        if name.endswith("gate.bias"):
            buffer += 0.05 * torch.randn(buffer.shape, generator=generator, dtype=torch.float64).to(buffer.dtype)
    return made


def train(layout: Layout, micro_batches: int, problem: Problem) -> Outcome:
    """Some steps of this rank."""
    meshes = parallel.meshes(layout)
    mine = parallel.apply(model(problem), layout, meshes)
    optimizer = torch.optim.AdamW(mine.parameters().values(), lr=1e-2, weight_decay=0.1, eps=1e-6, foreach=False)
    losses, norms, gradients = [], [], {}
    for step in range(problem.steps):
        tokens, documents, targets = batch(problem, step)
        found = counts(documents, targets)
        scales = {name: weight / found[name] for name, weight in problem.weights.items() if weight and found[name]}
        part = [t.chunk(meshes.dp.size)[meshes.dp.rank] for t in (tokens, documents, targets)]
        losses.append(
            mine.accumulate(*part, micro_batches, scales, indexer=problem.indexer, recompute=problem.recompute)
        )
        if step == 0:
            gradients = {name: gradient.clone() for name, gradient in mine.gradients().items()}
        norms.append(mine.clip(CLIP))
        optimizer.step()
        optimizer.zero_grad()
        loads = mine.loads()
        mine.shift_biases(loads, SPEED)
    pieces = mine.pieces()
    return Outcome(
        losses, norms, {name: (gradient, pieces[name].offset) for name, gradient in gradients.items()},
        {name: (local(p.tensor).detach().clone(), p.offset) for name, p in pieces.items()}, loads,
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


def several(
    rank: int, layouts: list[tuple[Layout, int]], problem: Problem, delay_s: float = 0.0
) -> list[Outcome | None]:
    """Several layouts of as many ranks, one after the other in one process group."""
    with Delays(rank, delay_s) if delay_s else contextlib.nullcontext() as delays:
        found = [train(layout, micro_batches, problem) for layout, micro_batches in layouts]
    assert delays is None or delays.count > 20
    return found


def outcomes(layouts: list[tuple[Layout, int]], problem: Problem, **more: float) -> list[list[Outcome]]:
    """Of every layout, the outcome of each rank."""
    world = layouts[0][0].world_size
    found = ranks.run(several, world, layouts, problem, *more.values(), timeout_s=900)
    return [list(of_layout) for of_layout in zip(*found, strict=True)]


def gaps(found: list[Blocks], whole: Blocks) -> dict[str, float]:
    """Greatest distance of any rank's block from the whole tensor, by name; all of it must be there."""
    worst: dict[str, float] = {}
    seen = {name: torch.zeros(tensor.shape, dtype=torch.bool) for name, (tensor, _) in whole.items()}
    for blocks in found:
        for name, (block, offset) in blocks.items():
            assert block.numel(), f"{name}: a rank has nothing of it"
            place = tuple(slice(o, o + s) for o, s in zip(offset, block.shape, strict=True))
            seen[name][place] = True
            distance = (block.double() - whole[name][0][place].double()).norm().item()
            worst[name] = max(worst.get(name, 0.0), distance)
    missing = [name for name, places in seen.items() if not places.all()]
    assert not missing, f"parts of {missing} are nowhere"
    return worst


def problems(found: list[Outcome], one: Outcome, bound: float) -> list[str]:
    """Where ranks differ from one process by more than `bound`, relative to each tensor's norm.

    For a gradient, relative to a thousandth of its share in the whole gradient's norm, where that is more.
    """
    said = []
    total = sum(tensor.double().square().sum() for tensor, _ in one.gradients.values()).item() ** 0.5
    floor = 1e-3 * total / len(one.gradients) ** 0.5
    parts = {"gradient": ([o.gradients for o in found], one.gradients, floor)}
    parts["parameter"] = ([o.parameters for o in found], one.parameters, 0.0)
    for kind, (theirs, ours, least) in parts.items():
        for name, gap in gaps(theirs, ours).items():
            if gap > bound * max(ours[name][0].double().norm().item(), least):
                said.append(f"{kind} {name}: {gap:.1e}")
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
