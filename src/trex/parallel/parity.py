"""Does a layout train as one process does? The same steps under both, and the distance of every tensor.

    one = parity.train(Layout(), 2, problem)                                            # this process alone
    found = ranks.run(parity.several, 4, [(Layout(tp=2, pp=2), 4)], problem)            # ranks of a group
    parity.distances([of_rank[0].gradients for of_rank in found], one.gradients)

Equality is asked for in float64, where only the order of sums differs; in float32 distances show what that order does.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import sqrt

import torch
from torch import Tensor

from trex.model.config import SPARSE, ModelConfig
from trex.model.documents import Documents
from trex.model.layout import Layout
from trex.model.losses import IGNORE, counts
from trex.model.pieces import local
from trex.model.transformer import Transformer
from trex.parallel.apply import ParallelModel, apply
from trex.parallel.meshes import meshes
from trex.parallel.observed import Observed
from trex.parallel.traffic import Row, Traffic, beside

WEIGHTS = {"lm": 1.0, "mtp": 0.3, "indexer": 1.0, "balance": 0.01}  # of the losses
LEARNING_RATE, DECAY, EPS = 1e-2, 0.1, 1e-6  # of AdamW
CLIP, SPEED = 0.5, 1e-2  # norm that clips the gradients of the first steps; of the selection biases
Blocks = dict[str, tuple[Tensor, tuple[int, ...]]]  # by name: a block of a tensor, and where it begins


@dataclass(frozen=True)
class Problem:
    """A model, rows, and how it is trained on them."""

    config: ModelConfig
    rows: int = 8  # per step
    length: int = 192  # tokens of a row
    steps: int = 3
    indexer: str = "sparse"
    recompute: bool = False
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    dtype: torch.dtype = torch.float64


@dataclass(frozen=True)
class Outcome:
    """What one rank has at the end; of the only rank, everything."""

    losses: list[dict[str, float]]  # of each step, summed over its tokens
    norms: list[float]  # of the gradient, before clipping
    gradients: Blocks  # of the first step, before clipping
    parameters: Blocks  # after the last step, buffers included
    loads: Tensor  # [layers, E], of the last step
    held: Mapping[str, int]  # bytes of this rank's weights, gradients and optimizer states between steps
    traffic: list[Row]  # of the last step: what was sent, beside the formula; empty where one rank is alone


def batch(problem: Problem, step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of several documents of uneven length, some padded; targets of nine tokens in ten. [rows, length] each."""
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
    left_out = torch.rand(rows, length, generator=generator) < 0.1
    targets[last | (documents < 0) | left_out] = IGNORE
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
    """The steps of this rank; all ranks of torch.distributed call it together. Raises LayoutError."""
    mesh = meshes(layout)
    mine = apply(model(problem), layout, mesh)
    parameters = mine.parameters().values()
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=DECAY, eps=EPS)
    losses, norms, gradients = [], [], dict[str, Tensor]()
    held = {"gradients": 0}
    traffic, observed = Traffic(), None
    for number in range(problem.steps):
        last = number == problem.steps - 1
        observed = Observed(mine) if last and mesh.world.size > 1 and not problem.recompute else None
        with traffic if last else nullcontext():
            losses.append(step(mine, micro_batches, problem, number))
            if number == 0:
                gradients = {name: gradient.clone() for name, gradient in mine.gradients().items()}
            held["gradients"] = sum(map(_bytes, mine.gradients().values()))
            norms.append(mine.clip(CLIP))
            optimizer.step()
            optimizer.zero_grad()
            loads = mine.loads()
        mine.shift_biases(loads, SPEED)
    rows = []
    if observed is not None:
        documents = rows_of(mine, problem, problem.steps - 1)[1]
        rows = beside(traffic, observed.transfers(documents, micro_batches, problem.indexer), mesh)
    pieces = mine.pieces()
    states = [local(t) for state in optimizer.state.values() for t in state.values()]
    held |= {
        "weights": sum(_bytes(local(p)) for p in parameters),
        "optimizer": sum(_bytes(t) for t in states if t.dim()),
    }
    return Outcome(
        losses, norms, {name: (gradient, pieces[name].offset) for name, gradient in gradients.items()},
        {name: (local(p.tensor).detach().clone(), p.offset) for name, p in pieces.items()}, loads, held, rows,
    )  # fmt: skip


def step(mine: ParallelModel, micro_batches: int, problem: Problem, number: int) -> dict[str, float]:
    """Forward and backward of one step's rows; returns the losses."""
    _, documents, targets = batch(problem, number)
    found = counts(Documents.packed(documents, {SPARSE}), targets)
    scales = {name: weight / int(found[name]) for name, weight in problem.weights.items() if weight and found[name]}
    tokens, documents, targets = rows_of(mine, problem, number)
    return mine.accumulate(
        tokens, documents, targets, micro_batches, scales, indexer=problem.indexer, recompute=problem.recompute
    )


def rows_of(mine: ParallelModel, problem: Problem, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """The part of a step's rows that this replica trains on."""
    dp = mine.meshes.dp
    tokens, documents, targets = (t.chunk(dp.size)[dp.rank] for t in batch(problem, number))
    return tokens, documents, targets


def several(rank: int, layouts: list[tuple[Layout, int]], problem: Problem) -> list[Outcome]:
    """Several layouts, each with its micro-batches, one after the other in one group of ranks."""
    return [train(layout, micro_batches, problem) for layout, micro_batches in layouts]


def distances(found: list[Blocks], whole: Blocks) -> dict[str, float]:
    """Greatest distance ‖Δ‖ of any rank's block from that part of the whole tensor, by name.

    Raises ValueError where a rank has an empty block, or a part of a tensor is nowhere.
    """
    worst: dict[str, float] = {}
    seen = {name: torch.zeros(tensor.shape, dtype=torch.bool) for name, (tensor, _) in whole.items()}
    for blocks in found:
        for name, (block, offset) in blocks.items():
            if not block.numel():
                raise ValueError(f"{name}: a rank has nothing of it")
            place = tuple(slice(o, o + s) for o, s in zip(offset, block.shape, strict=True))
            seen[name][place] = True
            distance = (block.double() - whole[name][0][place].double()).norm().item()
            worst[name] = max(worst.get(name, 0.0), distance)
    missing = [name for name, places in seen.items() if not places.all()]
    if missing:
        raise ValueError(f"parts of {', '.join(missing)} are nowhere")
    return worst


def sizes(whole: Blocks, gradients: bool) -> dict[str, float]:
    """What a distance is measured against: a tensor's norm.

    Of gradients at least a thousandth of the share in the whole gradient's norm that each of its tensors would have if
    all had the same, as a tensor whose gradient nearly vanishes is known to rounding of the others only.
    """
    norms = {name: tensor.double().norm().item() for name, (tensor, _) in whole.items()}
    least = 1e-3 * sqrt(sum(norm**2 for norm in norms.values())) / sqrt(len(norms)) if gradients else 0.0
    return {name: max(norm, least) for name, norm in norms.items()}


def relative(found: list[Blocks], whole: Blocks, gradients: bool) -> dict[str, float]:
    """`distances` in units of `sizes`; 0 where both are 0."""
    size = sizes(whole, gradients)
    return {name: gap / size[name] if gap else 0.0 for name, gap in distances(found, whole).items()}


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
