"""Bytes that a rank sends in one step of training as `trex.parallel` runs it, from shapes alone.

    transfers = step_traffic(config, layout, Work(seq_len=4096, rows=1, micro_batches=8, size=2))
    bytes_sent(transfers, layout)  # by axis

A step is accumulation of gradients, their norm, and the experts' loads (`ParallelModel.accumulate`, `clip`, `loads`);
`comm_model` has what goes between parts of the model, `comm_state` what keeps weights and gradients equal or in shards.
"""

from collections.abc import Iterable
from fractions import Fraction

from trex.model.config import ModelConfig
from trex.model.layout import Layout, LayoutError
from trex.planner.comm_model import model_traffic
from trex.planner.comm_state import state_traffic
from trex.planner.comm_work import OPERATIONS, Count, Pack, Rows, Transfer, Work, sent

__all__ = [
    "OPERATIONS", "Count", "Pack", "Rows", "Transfer", "Work", "axis_sizes", "bytes_sent", "sent", "step_traffic",
    "summed",
]  # fmt: skip


def step_traffic(
    config: ModelConfig, layout: Layout, work: Work, pipeline_rank: int = 0, shard_rank: int = 0
) -> list[Transfer]:
    """All that one rank gives to torch.distributed in one step, after the first, which also sets the pipeline up.

    pipeline_rank, shard_rank: the rank's place along pp, and among the ranks that share the shards of dense weights;
    of the others nothing depends. Raises LayoutError where the layout does not fit the model or the work, and for what
    training does not do yet: context parallelism, selective recomputation, or recomputation under zb-v.
    """
    layout.check(config, seq_len=work.seq_len)
    for name, value, size in (
        ("pipeline_rank", pipeline_rank, layout.pp),
        ("shard_rank", shard_rank, layout.dense_shards),
    ):
        if not 0 <= value < size:
            raise LayoutError(f"{name} = {value!r}; accepted: 0 to {size - 1}")
    if layout.cp > 1:
        raise LayoutError(f"cp = {layout.cp}; accepted: 1")
    if layout.recompute == "selective":
        raise LayoutError("recompute = 'selective'; accepted: none, full")
    if layout.schedule == "zb-v" and (work.recompute or layout.recompute == "full"):
        # torch's engine would compute a layer again for each group of its weights, some 25 times
        raise LayoutError("recompute = 'full' under zb-v; accepted: none")
    stages = [stage for stage in layout.stages(config) if stage.rank == pipeline_rank]
    return summed([
        *model_traffic(config, layout, work, stages),
        *state_traffic(config, layout, work, stages, shard_rank),
    ])  # fmt: skip


def bytes_sent(transfers: Iterable[Transfer], layout: Layout) -> dict[str, Fraction]:
    """Bytes that one rank sends over each axis."""
    sizes, found = axis_sizes(layout), dict[str, Fraction]()
    for each in transfers:
        more = sent(each.operation, each.payload, sizes[each.axis])
        found[each.axis] = found.get(each.axis, Fraction(0)) + more
    return found


def summed(transfers: Iterable[Transfer]) -> list[Transfer]:
    """One Transfer per part, operation and axis, in the order in which they first come."""
    found: dict[tuple[str, str, str], Count] = {}
    for each in transfers:
        key = each.part, each.operation, each.axis
        found[key] = found.get(key, Count()) + Count(each.calls, each.payload)
    return [Transfer(*key, count.calls, count.payload) for key, count in found.items() if count.calls]


def axis_sizes(layout: Layout) -> dict[str, int]:
    """Ranks along each axis of a Transfer."""
    return {
        "tp": layout.tp, "pp": layout.pp, "dp": layout.dense_dp, "experts": layout.ep * layout.etp,
        "expert_dp": layout.expert_dp, "shard": layout.dense_shards, "expert_shard": layout.expert_shards,
        "replica": layout.dp_replicate, "ends": 2, "world": layout.world_size,
    }  # fmt: skip
