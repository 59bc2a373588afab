"""Tensor parallelism: attention heads, indexer heads, the shared expert's channels and the vocabulary split over tp.

A sub-layer's input enters with `copy` and its output, a sum over ranks, leaves with `reduce`. With sequence parallelism
the streams between sub-layers are split along the sequence: `gather` and `scatter_sum`. Per layer and micro-batch of
[B, S] tokens, forward, the backward mirrors it:

    attention                    one sum of [B, S, d] (all-reduce, or all-gather and reduce-scatter)
    shared expert                the same
    CSA                          all-to-all of the indexer's queries [B, S, heads, c] and weights [B, S, heads] from
                                 heads to tokens, so that each rank selects entries for S / tp tokens as one process
                                 does; reduce-scatter of the attention's mass [B, S, K]; all-gather of the ids [B, S, K]
    embedding, head              see `vocabulary`

Who owns what: `trex.model.weights.Weight.split` names the dimension of which a rank has the tp-th part; what has none
is on every rank. Such a weight's gradient is whole where its input and output are the same on all ranks, else each rank
has the part of its heads or tokens and the parts are summed after the backward pass
(`trex.model.sharding.gradient_is_partial`).

Source: Megatron-LM (arXiv 1909.08053; sequence parallelism 2205.05198).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from trex.model.attention import Attention
from trex.model.config import ModelConfig
from trex.model.documents import Blocks, Documents
from trex.model.indexer import Index, Indexer
from trex.model.rotary import Turns
from trex.model.weights import embedding_weights, head_weights, layer_weights, mtp_weights
from trex.parallel import collectives
from trex.parallel.collectives import Axis
from trex.parallel.meshes import Meshes

SEQUENCE, HEADS = 1, 2  # dimensions


@dataclass(frozen=True)
class Region:
    """How activations enter a tensor parallel sub-layer and leave it. x: [B, S or S / tp, d]."""

    axis: Axis = Axis()
    sequence_parallel: bool = False

    def enter(self, x: Tensor) -> Tensor:
        """The whole sequence, on every rank."""
        return collectives.gather(x, self.axis, SEQUENCE) if self.sequence_parallel else collectives.copy(x, self.axis)

    def leave(self, partial: Tensor) -> Tensor:
        """The sum over ranks; with sequence parallelism, this rank's tokens of it."""
        if self.sequence_parallel:
            return collectives.scatter_sum(partial, self.axis, SEQUENCE)
        return collectives.reduce(partial, self.axis)

    def places(self, length: int) -> slice:
        """Places of this rank's tokens."""
        return self.axis.part(length)


class TensorParallelAttention(Attention):
    """Some of the heads, and the groups of the output projection that they are in."""

    region: Region

    def forward(
        self, x: Tensor, documents: Documents, turns: Turns, indexer: str = "sparse"
    ) -> tuple[Tensor, Tensor | None]:
        """As in `Attention`, of the streams between sub-layers; the indexer's loss is that of this rank's tokens."""
        out, loss = super().forward(self.region.enter(x), documents, turns, indexer)
        return self.region.leave(out), loss


class TensorParallelIndexer(Indexer):
    """Some of the heads; they are exchanged so that each rank scores the entries for its tokens with all heads."""

    axis: Axis

    def forward(self, x: Tensor, qr: Tensor, blocks: Blocks, turns: Turns) -> Index:
        """As in `Indexer`; q [B, S / tp, heads, c] and w [B, S / tp, heads] of this rank's tokens, k of all."""
        index = super().forward(x, qr, blocks, turns)
        q, w = (collectives.exchange(t, self.axis, SEQUENCE, HEADS) for t in (index.q, index.w))
        return Index(q, index.k, w)

    def select(self, index: Index, blocks: Blocks) -> Tensor | None:
        """As in `Indexer`, for all tokens."""
        own = super().select(index, self._own(blocks))
        if own is None:
            return None
        return collectives.all_gather(own.to(torch.int32), self.axis, SEQUENCE).to(torch.int64)

    def loss(self, index: Index, blocks: Blocks, mass: Tensor, selected: Tensor | None) -> Tensor:
        """As in `Indexer`, 0 for the tokens of other ranks. mass: that of this rank's heads."""
        own_mass = collectives.reduce_scatter(mass, self.axis, SEQUENCE)
        own = None if selected is None else collectives.own_part(selected, self.axis, SEQUENCE)
        loss = super().loss(index, self._own(blocks), own_mass, own)
        places = self.axis.part(mass.shape[SEQUENCE])
        return functional.pad(loss, (places.start, mass.shape[SEQUENCE] - places.stop))

    def _own(self, blocks: Blocks) -> Blocks:
        places = self.axis.part(blocks.visible.shape[SEQUENCE])
        return blocks.part(places)


def split_attention(attention: Attention, region: Region) -> None:
    """Make a layer's attention one of tp parts, in place; its weights have been cut."""
    size = region.axis.size
    attention.heads //= size
    attention.wo_a.groups //= size
    attention.__class__ = TensorParallelAttention
    cast(TensorParallelAttention, attention).region = region
    if attention.indexer is not None:
        attention.indexer.heads //= size
        attention.indexer.__class__ = TensorParallelIndexer
        cast(TensorParallelIndexer, attention.indexer).axis = region.axis


def cut(module: nn.Module, axis_of: Callable[[str], list[tuple[int, Axis]]]) -> dict[str, tuple[int, ...]]:
    """Replace every parameter by this rank's block of it; returns the blocks' offsets by name.

    axis_of: the dimensions of a parameter that are split, and over which ranks.
    """
    offsets = {}
    for name, parameter in list(module.named_parameters()):
        offset = [0] * parameter.dim()
        block = parameter.detach()
        for dim, axis in axis_of(name):
            places = axis.part(parameter.shape[dim])
            offset[dim] = places.start
            block = block.narrow(dim, places.start, places.stop - places.start)
        offsets[name] = tuple(offset)
        if block.shape != parameter.shape:
            owner, _, last = name.rpartition(".")
            place = module.get_submodule(owner)
            kept = torch.empty_like(block, memory_format=torch.contiguous_format).copy_(block)
            setattr(place, last, nn.Parameter(kept, parameter.requires_grad))
    return offsets


def splits_of(config: ModelConfig, meshes: Meshes) -> dict[str, list[tuple[int, Axis]]]:
    """The dimensions that are split, and over which ranks, of each parameter that is."""
    layers = [weight for layer in range(config.num_layers) for weight in layer_weights(config, layer)]
    found = {}
    for weight in (*embedding_weights(config), *layers, *head_weights(config), *mtp_weights(config)):
        if weight.split is None:
            continue
        if weight.part == "routed_experts":  # stacked in the model: the expert is the first dimension
            name = weight.name.replace("experts.*.", "experts.").removesuffix(".weight")
            axes = [(0, meshes.ep), (weight.split + 1, meshes.etp)]
        else:
            name, axes = weight.name, [(weight.split, meshes.tp)]
        axes = [(dim, axis) for dim, axis in axes if axis.size > 1]
        if axes:
            found[name] = axes
    return found
