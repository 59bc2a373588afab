"""Data parallelism: who holds which shard of weights, gradients and optimizer states, and how gradients are summed.

    sharding     held in shards                    all-gather                   reduce-scatter or all-reduce
    none         nothing                           none                         all-reduce once a step
    optimizer    optimizer states (ZeRO-1)         weights once a step          gradients once a step
    gradients    and gradients (ZeRO-2)            weights once a step          gradients once a micro-batch
    parameters   and weights (ZeRO-3, FSDP)        layers twice a micro-batch,  gradients once a micro-batch
                                                   the rest once

FSDP2 does it (`torch.distributed.fsdp.fully_shard`), a layer at a time: dense weights over the dp ranks, routed experts
over the ranks with the same experts. With `dp_replicate` (HSDP) it shards within each replica and sums the shards of
the replicas by all-reduce once a step. In a pipeline weights are gathered and gradients reduced once a step whatever
the sharding, as its engine sums gradients over micro-batches first and computes them apart from those of activations.
Of more than three stages per rank the engine keeps the weights of three, and gathers again what comes back.

A weight is sharded along a dimension that leaves no rank an empty shard: the first where it can be, else another one
that divides evenly; what has none, such as three mHC scales over four ranks, stays whole and its gradient is summed by
all-reduce. Losses are already shares of the whole step's, so gradients are summed and never averaged.

Source: ZeRO (arXiv 1910.02054), FSDP (arXiv 2304.11277).
"""

from collections.abc import Iterable
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, Shard

from trex.model.block import Block, MTPBlock, Report
from trex.model.sharding import buckets, shard_dim
from trex.parallel.collectives import Axis
from trex.parallel.meshes import Meshes
from trex.parallel.stage import Stage


class _GatheredMTPBlock(MTPBlock):
    """FSDP2 gathers it for the whole of `predict`, so the block within is not to be gathered and given back again."""

    def run(self, *arguments: Any) -> tuple[Tensor, Report]:
        """The block itself, without hooks."""
        return Block.forward(self, *arguments)


def shard(stage: Stage, meshes: Meshes, shared: Iterable[nn.Parameter] = ()) -> None:
    """Shard a stage in place. shared: parameters that another stage of this rank has too, which stay whole."""
    layout = meshes.layout
    whole, again = set(shared), layout.sharding == "parameters" and layout.pp == 1
    blocks = stage.blocks().values()
    experts = {p for block in blocks for p in block.ffn.experts.parameters()}
    if meshes.expert is not None:
        for block in blocks:
            _apply(block.ffn.experts, meshes.expert, again, layout.expert_shards, whole)
            register_fsdp_forward_method(block.ffn.experts, "of_rows")
    if meshes.dense is not None:
        for block in blocks:
            if isinstance(block, MTPBlock):
                block.__class__ = _GatheredMTPBlock
            _apply(block, meshes.dense, again, layout.dense_shards, whole | experts)
            if isinstance(block, MTPBlock):
                register_fsdp_forward_method(block, "predict")
        _apply(stage, meshes.dense, False, layout.dense_shards, whole | experts)


def _apply(module: nn.Module, mesh: Any, again: bool, ranks: int, whole: set[nn.Parameter]) -> None:
    """again: gather the weights again for the backward pass."""

    def placement(parameter: nn.Parameter) -> Shard:
        dim = shard_dim(tuple(parameter.shape), ranks)
        assert dim is not None
        return Shard(dim)

    left = {p for p in module.parameters() if not isinstance(p, DTensor) and shard_dim(tuple(p.shape), ranks) is None}
    fully_shard(
        module, mesh=mesh, reshard_after_forward=again, shard_placement_fn=placement, ignored_params=left | whole
    )
    sharded = cast(FSDPModule, module)
    if hasattr(sharded, "set_force_sum_reduction_for_comms"):
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)  # what every backend has
    else:  # torch 2.7
        sharded.set_reduce_scatter_divide_factor(1.0)


def sharded_modules(stage: Stage) -> list[FSDPModule]:
    """The parts of a stage that FSDP2 works on, the outermost first."""
    return [module for module in stage.modules() if isinstance(module, FSDPModule)]


def before_micro_batch(stage: Stage, sharding: str, last: bool) -> None:
    """Tell FSDP2 what the next backward pass ends with. last: of the step."""
    for module in sharded_modules(stage):
        module.set_is_last_backward(last)
        module.set_requires_gradient_sync(last or sharding in ("gradients", "parameters"), recurse=False)
        module.set_requires_all_reduce(last, recurse=False)  # of replicas, once a step
        module.set_reshard_after_backward(last or sharding == "parameters", recurse=False)


def reshard(stage: Stage) -> None:
    """Give gathered weights back, after a forward pass that no backward pass followed."""
    for module in sharded_modules(stage):
        module.reshard()


@torch.no_grad()
def sum_over(gradients: Iterable[Tensor], axis: Axis) -> None:
    """Sum gradients over ranks in place, in buckets of one dtype."""
    if axis.size == 1:
        return
    by_dtype: dict[torch.dtype, list[Tensor]] = {}
    for gradient in gradients:
        by_dtype.setdefault(gradient.dtype, []).append(gradient)
    for tensors in by_dtype.values():
        for places in buckets([t.numel() for t in tensors]):
            bucket = tensors[places]
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            dist.all_reduce(flat, group=axis.group)
            for tensor, summed in zip(bucket, flat.split([t.numel() for t in bucket]), strict=True):
                tensor.copy_(summed.view_as(tensor))


def shard_offset(parameter: DTensor) -> tuple[int, ...]:
    """Where this rank's shard begins in what FSDP2 was given."""
    offset = [0] * parameter.dim()
    for axis, placement in enumerate(parameter.placements):
        if isinstance(placement, Shard):
            size = parameter.shape[placement.dim]
            each = -(-size // parameter.device_mesh.size(axis))
            offset[placement.dim] = min(parameter.device_mesh.get_local_rank(axis) * each, size)
    return tuple(offset)
