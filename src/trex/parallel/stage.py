"""What one virtual pipeline stage computes: some layers, before them the embedding or after them the losses.

One process has one stage that is the whole model. Between stages go the residual streams [B, S, n, d] of mHC, split
along the sequence with sequence parallelism, and back their gradient. Tokens, documents and targets of a micro-batch
are given to every stage by its own rank, so they are not sent, and positions follow from the documents.

Losses of layers that are not the last stage's reach the backward pass through `_Attached`: their gradient is 1 whatever
the gradient of the streams is, so no stage has to know of the others' losses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

from trex.kernels import ops
from trex.model import layout
from trex.model.block import Block, MTPBlock, Report
from trex.model.config import WINDOW
from trex.model.losses import mtp_targets, next_tokens
from trex.model.transformer import Transformer, surroundings
from trex.parallel import vocabulary
from trex.parallel.tensor import Region

PER_LAYER = ("indexer", "balance")  # losses


@dataclass
class Sums:
    """What a stage found in the micro-batches so far: losses summed over tokens, and the experts' loads by layer."""

    losses: dict[str, Tensor] = field(default_factory=dict)  # float64 scalars
    loads: dict[str, Tensor] = field(default_factory=dict)  # by the block's name, [E] int64

    def add(self, losses: Mapping[str, Tensor], loads: Mapping[str, Tensor]) -> None:
        """Add a micro-batch."""
        for mine, more in ((self.losses, losses), (self.loads, loads)):
            for name, value in more.items():
                added = value.detach().double() if value.is_floating_point() else value
                mine[name] = mine[name] + added if name in mine else added


class _Attached(Function):
    """A tensor as it is, with a loss whose gradient is 1 once the tensor has one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, loss: Tensor) -> Tensor:
        ctx.loss = loss.dtype, loss.device
        # the same memory, but no view: the engine detaches outputs in place
        return cast(Tensor, x.new_empty(0).set_(x))  # type: ignore[call-overload]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        dtype, device = ctx.loss
        return grads[0], torch.ones((), dtype=dtype, device=device)


class Stage(nn.Module):
    """The parts of a model that a stage has, under the names that they have in the model."""

    def __init__(self, model: Transformer, part: layout.Stage, region: Region) -> None:
        super().__init__()
        self.config, self.region, self.first, self.last = model.config, region, part.embedding, part.head
        self.dtype = model.embed.weight.dtype  # of the streams
        self.wide = torch.promote_types(self.dtype, torch.float32)  # of losses and angles
        if part.embedding or (part.head and len(model.mtp)):
            self.embed = model.embed
        self.layers = nn.ModuleDict({str(layer): model.layers[layer] for layer in part.layers})
        if part.head:
            self.hc_head_fn, self.hc_head_base = model.hc_head_fn, model.hc_head_base
            self.hc_head_scale = model.hc_head_scale
            self.norm, self.head, self.mtp = model.norm, model.head, model.mtp
        self.scales: Mapping[str, float] = {}  # weight of each loss over its tokens in the whole step
        self.indexer, self.recompute, self.ahead = "sparse", False, True
        self.found = Sums()

    def blocks(self) -> dict[str, Block]:
        """Layers and MTP block by name."""
        named = {f"layers.{name}": layer for name, layer in self.layers.items()}
        named |= {f"mtp.{depth}": block for depth, block in enumerate(self.mtp)} if self.last else {}
        return cast(dict[str, Block], named)

    def forward(self, x: Tensor, tokens: Tensor, doc_ids: Tensor, targets: Tensor) -> Tensor:
        """The streams after this stage, or, of the last, this micro-batch's share of the objective, [1].

        x: tokens [B, S] for the first stage, else streams [B, S or S / tp, n, d]. tokens, doc_ids, targets: [B, S], as
        for `Transformer`. Losses and loads are added to `found`.
        """
        documents, turn = surroundings(self.config, tokens, doc_ids, self.wide)
        if self.first:
            x = self.region.leave(self.embed(tokens)).unsqueeze(2).expand(-1, -1, self.config.hc_mult, -1)
        reports: dict[str, Report] = {}
        for name, layer in self.layers.items():
            arguments = (x, tokens, documents, turn[self.config.compress_ratios[int(name)]], self.indexer)
            x, report = checkpoint(layer, *arguments, use_reentrant=False) if self.recompute else layer(*arguments)
            reports[f"layers.{name}"] = report
        losses: dict[str, Tensor] = {}
        if self.last:
            hidden = self.norm(
                ops.collapse_streams(x, self.hc_head_fn, self.hc_head_base, self.hc_head_scale, self.config.eps)
            )
            losses["lm"] = self._cross_entropy(hidden, targets)
            if self.ahead and len(self.mtp):
                following, exists = next_tokens(tokens, documents)
                embedded = self.region.leave(self.embed(following) * exists.unsqueeze(-1))
                block = cast(MTPBlock, self.mtp[0])
                hidden, reports["mtp.0"] = block.predict(
                    x, embedded, following, documents, turn[WINDOW], self.indexer, self.recompute
                )
                losses["mtp"] = self._cross_entropy(hidden, mtp_targets(targets, documents))
        for name in PER_LAYER:
            values = [v for r in reports.values() if (v := _loss(r, name)) is not None]
            if values:
                losses[name] = torch.stack(values).sum()
        self.found.add(losses, {name: report.routing.load for name, report in reports.items()})
        shares = [self.scales[name] * loss for name, loss in losses.items() if self.scales.get(name)]
        if not self.last:
            return _Attached.apply(x, sum(shares[1:], shares[0])) if shares else x
        return torch.stack(shares or [hidden.sum() * 0]).sum(dim=0, keepdim=True)

    def _cross_entropy(self, hidden: Tensor, targets: Tensor) -> Tensor:
        states, axis = self.region.enter(hidden).flatten(0, 1), self.region.axis
        if axis.size == 1:
            return ops.linear_cross_entropy(states, self.head.weight, targets.flatten())
        return vocabulary.linear_cross_entropy(states, self.head.weight, targets.flatten(), axis)


def _loss(report: Report, name: str) -> Tensor | None:
    return report.indexer if name == "indexer" else report.routing.balance
