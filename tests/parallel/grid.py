"""One training problem, run by one process and by many: losses, gradients, parameters after some steps."""

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trex import parallel
from trex.model.config import HEAVY, SPARSE, WINDOW, ModelConfig
from trex.model.layout import Layout
from trex.model.transformer import Transformer
from trex.parallel.data import local

CONFIG = ModelConfig.tiny(
    num_layers=8, compress_ratios=(WINDOW, SPARSE, HEAVY, SPARSE, HEAVY, SPARSE, WINDOW, SPARSE), num_heads=8, o_groups=4, hash_layers=2,
)  # fmt: skip
ROWS, LENGTH = 8, 192
WEIGHTS = {"lm": 1.0, "mtp": 0.3, "indexer": 1.0, "balance": 0.01}
CLIP, SPEED = 0.5, 1e-2


def batch(step: int, rows: int = ROWS, length: int = LENGTH) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of several documents of uneven length, some padded; targets of some tokens only."""
    generator = torch.Generator().manual_seed(100 + step)
    tokens = torch.randint(CONFIG.vocab_size, (rows, length), generator=generator)
    documents = torch.zeros(rows, length, dtype=torch.int64)
    for row in range(rows):
        cuts = torch.randperm(length - 1, generator=generator)[: row % 4] + 1
        for cut in cuts.tolist():
            documents[row, cut:] += 1
        if row % 3 == 1:
            documents[row, length - 7 * (row + 1) :] = -1
    targets = tokens.roll(-1, dims=1)
    last = torch.ones_like(documents, dtype=torch.bool)
    last[:, :-1] = documents[:, 1:] != documents[:, :-1]
    hidden = torch.rand(rows, length, generator=generator) < 0.1
    targets[last | (documents < 0) | hidden] = -100
    return tokens, documents, targets


def scales(doc_ids: Tensor, targets: Tensor) -> dict[str, float]:
    from trex.train.objective import counts

    return {name: WEIGHTS[name] / count for name, count in counts(doc_ids, targets).items()}


def randomise(model: Transformer) -> Transformer:
    """Nothing at a value that hides a mistake: no zeros, no ones."""
    generator = torch.Generator().manual_seed(7)
    for name, parameter in sorted(model.named_parameters()):
        if parameter.dim() < 2 or name.endswith("ape"):
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        else:
            parameter.data *= 3.0
    for name, buffer in sorted(model.named_buffers()):
        if name.endswith("gate.bias"):
            buffer += 0.05 * torch.randn(buffer.shape, generator=generator, dtype=buffer.dtype)
    return model


@dataclass
class Outcome:
    losses: list[dict[str, float]]
    norms: list[float]
    gradients: dict[str, Any]  # of the first step, before clipping
    parameters: dict[str, Any]  # after the last
    loads: dict[str, Tensor]


def train(
    layout: Layout, micro_batches: int, steps: int = 3, dtype: torch.dtype = torch.float64, recompute: bool = False,
    config: ModelConfig = CONFIG,
) -> Outcome:  # fmt: skip
    """Some steps of this rank; of tensors, pieces (tensor, offset, owned)."""
    meshes = parallel.meshes(layout)
    mine = parallel.apply(randomise(Transformer(config, seed=3).to(dtype)), layout, meshes)
    optimizer = torch.optim.AdamW(mine.parameters().values(), lr=1e-2, weight_decay=0.1, eps=1e-6, foreach=False)
    losses, norms, gradients = [], [], {}
    for step in range(steps):
        whole = batch(step)
        part = [t.chunk(meshes.dp.size)[meshes.dp.rank] for t in whole]
        losses.append(mine.accumulate(*part, micro_batches, scales(*whole[1:]), recompute=recompute))
        if step == 0:
            gradients = {n: g.clone() for n, g in mine.gradients().items()}
        norms.append(mine.clip(CLIP))
        optimizer.step()
        optimizer.zero_grad()
        loads = mine.loads()
        mine.shift_biases(loads, SPEED)
    pieces = mine.pieces()
    found = {n: (local(p.tensor).detach().clone(), p.offset) for n, p in pieces.items()}
    return Outcome(losses, norms, {n: (g, pieces[n].offset) for n, g in gradients.items()}, found, loads)


def gap(pieces: list[dict[str, tuple[Tensor, tuple[int, ...]]]], whole: dict[str, Tensor]) -> dict[str, float]:
    """Greatest distance of any rank's block from the whole tensor, and that nothing is missing."""
    worst: dict[str, float] = {}
    covered = {name: torch.zeros_like(t, dtype=torch.bool) for name, t in whole.items()}
    for found in pieces:
        for name, (block, offset) in found.items():
            place = tuple(slice(o, o + s) for o, s in zip(offset, block.shape, strict=True))
            covered[name][place] = True
            distance = (
                float((block - whole[name][place]).double().norm())
                if block.is_floating_point()
                else float(not torch.equal(block, whole[name][place]))
            )
            worst[name] = max(worst.get(name, 0.0), distance)
    assert all(bool(c.all()) for c in covered.values()), [n for n, c in covered.items() if not c.all()]
    return worst
