"""Which ranks work together: one mesh for the dense weights, one for the routed experts, over the same ranks.

Ranks are numbered with tensor parallelism innermost, as it communicates most: [pp, dp, tp] (cp takes its place between
dp and tp). The ranks of a pipeline rank hold the experts as [expert_dp, ep, etp], in the same order.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from trex.model.layout import Layout, LayoutError, rank_of_stage
from trex.parallel.collectives import Axis


@dataclass(frozen=True)
class Meshes:
    """The axes of this rank. Shards and replicas: see `Layout.dp_replicate`."""

    layout: Layout
    rank: int = 0
    world: Axis = Axis()
    tp: Axis = Axis()
    pp: Axis = Axis()
    dp: Axis = Axis()  # all ranks with the same dense weights
    experts: Axis = Axis()  # ep x etp: the ranks that together hold all experts
    ep: Axis = Axis()  # places only, no group
    etp: Axis = Axis()  # places only, no group
    expert_dp: Axis = Axis()  # all ranks with the same experts
    ends: Axis = Axis()  # the pipeline ranks of the first stage and of the last, where they are two
    dense: DeviceMesh | None = None  # [replicas,] shards: what FSDP works on; None where nothing is sharded
    expert: DeviceMesh | None = None


def meshes(layout: Layout, device_type: str = "cpu") -> Meshes:
    """The meshes of a layout over all ranks of torch.distributed; without it, of one rank.

    All ranks call it together. Raises LayoutError where the number of ranks is not the layout's.
    """
    many = dist.is_available() and dist.is_initialized()
    size = dist.get_world_size() if many else 1
    if size != layout.world_size:
        product = f"tp {layout.tp} x pp {layout.pp} x cp {layout.cp} x dp {layout.dp}"
        raise LayoutError(f"{size} ranks; accepted: {layout.world_size}, which is {product}")
    if not many:
        return Meshes(layout)
    rank, pp, tp, replicas = dist.get_rank(), layout.pp, layout.tp, layout.dp_replicate
    shards, expert_shards = layout.dp // replicas, layout.expert_dp // replicas
    numbers = torch.arange(size)
    dense = DeviceMesh(
        device_type, numbers.view(pp, replicas, shards, tp), mesh_dim_names=("pp", "replica", "shard", "tp")
    )
    split = (pp, replicas, expert_shards, layout.ep, layout.etp)
    expert = DeviceMesh(device_type, numbers.view(split), mesh_dim_names=("pp", "replica", "expert_shard", "ep", "etp"))
    place = dict(zip(("pp", "replica", "shard", "ep", "etp"), expert.get_coordinate() or (), strict=True))
    last = rank_of_stage(layout.schedule, pp, pp * layout.vpp - 1)
    ends = numbers.view(pp, -1)[[0, last]].T.tolist() if last else []
    sharded = layout.sharding != "none"
    whole_stage = pp > 1 and layout.expert_dp > 1  # the pipeline's engine handles FSDP where the stage itself has it
    return Meshes(
        layout,
        rank,
        world=Axis(size, rank),
        tp=_axis(dense, "tp"),
        pp=_axis(dense, "pp"),
        dp=_axis(dense, "replica", "shard"),
        experts=_axis(expert, "ep", "etp"),
        ep=Axis(layout.ep, place["ep"]),
        etp=Axis(layout.etp, place["etp"]),
        expert_dp=_axis(expert, "replica", "expert_shard"),
        ends=_pair(ends, rank),
        dense=_sharded(dense, replicas, "shard") if sharded and (layout.dp > 1 or whole_stage) else None,
        expert=_sharded(expert, replicas, "expert_shard") if sharded and layout.expert_dp > 1 else None,
    )


def _axis(mesh: DeviceMesh, *names: str) -> Axis:
    part = mesh[names]
    part = part._flatten() if len(names) > 1 else part
    return Axis(part.size(), part.get_local_rank(), part.get_group()) if part.size() > 1 else Axis()


def _sharded(mesh: DeviceMesh, replicas: int, name: str) -> DeviceMesh:
    return mesh["replica", name] if replicas > 1 else mesh[name]


def _pair(pairs: list[list[int]], rank: int) -> Axis:
    """The axis of the pair that has this rank; every rank takes part in making every group."""
    found = Axis()
    for pair in pairs:
        group = dist.new_group(pair)
        if rank in pair:
            found = Axis(2, pair.index(rank), group)
    return found
