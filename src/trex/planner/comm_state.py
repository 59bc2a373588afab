"""What a rank sends in one step to keep weights and gradients in shards, or equal, and to know losses, norm and loads.

By the file of `trex.parallel` that does it; n ranks hold shards, padded by FSDP2 to equal size:

    data: weights           all-gather of the shards of a layer, its experts, or the rest of a stage
    data: gradients         reduce-scatter of n times as much; over replicas (HSDP), an all-reduce of the shard
    data: whole             all-reduce over replicas of the gradients of weights that are not sharded
    tensor: partial         all-reduce over tp of gradients of which each rank has the part of its tokens or heads
    pipeline: embedding     all-reduce of the embedding's gradient between its copies
    apply: …                all-reduce over all ranks of the losses, the norm and the loads
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from trex.model.config import ModelConfig
from trex.model.layout import Layout, Stage
from trex.model.sharding import buckets, gradient_is_partial, shard_dim
from trex.model.weights import Weight, embedding_weights, head_weights, layer_weights, mtp_weights
from trex.planner.comm_work import Transfer, Work
from trex.planner.schedules import schedule

DOUBLE = 8  # bytes
STAGES_AHEAD = 3  # of which torch's engines for several stages per rank hold the weights
LOSSES = 2 * 4  # sums of four losses, and which of them there are


@dataclass(frozen=True)
class _Held:
    """A trained weight as a rank has it."""

    weight: Weight
    numbers: int  # in its block, or its shard of the block
    padded: int | None  # of a shard with FSDP2's padding; None where FSDP2 does not hold the weight
    has_gradient: bool

    @property
    def expert(self) -> bool:
        return self.weight.part == "routed_experts"


def state_traffic(
    config: ModelConfig, layout: Layout, work: Work, stages: Sequence[Stage], shard_rank: int
) -> Iterator[Transfer]:
    """Of a rank that has these stages, at this place among the ranks that share dense shards."""
    twice = _twice(config, layout, stages)
    everything: dict[str, _Held] = {}
    for stage in stages:
        for name, weights in _groups(config, stage):
            group = [_held(w, layout, work, stage, shard_rank, w.name in twice) for w in weights if w.trained]
            gathers = _gathers(layout, work, stage, name)
            for expert, axis in ((True, "expert_shard"), (False, "shard")):
                yield from _fsdp(layout, work, [held for held in group if held.expert == expert], axis, gathers)
            for held in group:
                everything.setdefault(held.weight.name, held)
    yield from _sums(config, layout, work, [held for held in everything.values() if held.has_gradient])
    if layout.world_size > 1:
        blocks = config.num_layers + (config.mtp_layers if work.mtp else 0)
        for name, numbers in (("losses", LOSSES), ("norm", 1), ("loads", blocks * config.num_experts)):
            yield Transfer(f"apply: {name}", "all-reduce", "world", 1, numbers * DOUBLE)


def _held(weight: Weight, layout: Layout, work: Work, stage: Stage, shard_rank: int, twice: bool) -> _Held:
    expert = weight.part == "routed_experts"
    replicas, ranks = (layout.expert_dp, layout.expert_shards) if expert else (layout.dense_dp, layout.dense_shards)
    shape, has_gradient = _local_shape(weight, layout), _has_gradient(weight, work, stage)
    sharded = layout.sharding != "none" and replicas > 1 and not twice
    dim = shard_dim(shape, ranks) if sharded else None
    if dim is None:
        return _Held(weight, prod(shape), None, has_gradient)
    row, each = prod(shape) // shape[dim], -(-shape[dim] // ranks)
    own = len(range(shape[dim])[shard_rank * each : (shard_rank + 1) * each])
    return _Held(weight, row * own, row * each, has_gradient)


def _sums(config: ModelConfig, layout: Layout, work: Work, weights: Sequence[_Held]) -> Iterator[Transfer]:
    """What FSDP2 has not summed. weights: those with a gradient."""
    whole = [held for held in weights if held.padded is None]
    dense = [held for held in weights if not held.expert]
    partial = [held for held in dense if held.weight.split is None and gradient_is_partial(held.weight.name, layout)]
    for name, axis, ranks, of in (
        ("data: whole", "expert_dp", layout.expert_dp, [held for held in whole if held.expert]),
        ("data: whole", "dp", layout.dense_dp, [held for held in whole if not held.expert]),
        ("tensor: partial", "tp", layout.tp, partial),
        (
            "pipeline: embedding",
            "ends",
            _ends(config, layout),
            [h for h in dense if h.weight.part == "embedding"],
        ),
    ):
        if ranks > 1 and of:
            sizes = [held.numbers for held in of]
            yield Transfer(name, "all-reduce", axis, len(buckets(sizes)), sum(sizes) * work.size)


def _fsdp(layout: Layout, work: Work, weights: Iterable[_Held], axis: str, gathers: int) -> Iterator[Transfer]:
    """Weights that FSDP2 gathers together."""
    ranks = layout.dense_shards if axis == "shard" else layout.expert_shards
    sizes = [(each.padded or 0, each.has_gradient) for each in weights]
    held = sum(size for size, _ in sizes) * work.size
    reduced = sum(size for size, has_gradient in sizes if has_gradient) * work.size
    each_time = layout.pp == 1 and layout.sharding in ("gradients", "parameters")
    reduces = work.micro_batches if each_time else 1
    if held:
        yield Transfer("data: weights", "all-gather", axis, gathers, gathers * held)
    if reduced:
        yield Transfer("data: gradients", "reduce-scatter", axis, reduces, reduces * ranks * reduced)
        if layout.dp_replicate > 1:
            yield Transfer("data: gradients", "all-reduce", "replica", 1, reduced)


def _gathers(layout: Layout, work: Work, stage: Stage, name: str) -> int:
    """Times that a group of weights is gathered in a step."""
    if layout.vpp > 1:  # these engines gather stages whole, also what does not run
        return _fetches(layout, work)[stage.index]
    if name == "mtp" and not work.mtp:
        return 0
    if layout.pp > 1 or layout.sharding != "parameters":
        return 1
    return work.micro_batches * (1 if name == "stage" else 2)


def _fetches(layout: Layout, work: Work) -> Counter[int]:
    """Times that torch.distributed.pipelining gathers each stage: it holds those next in turn, three of them."""
    fetched = Counter[int]()
    for order in schedule(layout.schedule, layout.pp, work.micro_batches, layout.vpp):
        stages = [part.stage for step in order for part in step.parts]
        held = set[int]()
        for place in range(len(stages)):
            following = set(list(dict.fromkeys(stages[place:]))[:STAGES_AHEAD])
            fetched.update(following - held)
            held = following
    return fetched


def _groups(config: ModelConfig, stage: Stage) -> Iterator[tuple[str, tuple[Weight, ...]]]:
    """The weights of each block of a stage, and of the rest of it, called "stage"."""
    rest: tuple[Weight, ...] = ()
    if stage.embedding or (stage.head and config.mtp_layers):
        rest += embedding_weights(config)
    for layer in stage.layers:
        yield f"layers.{layer}", layer_weights(config, layer)
    if stage.head:
        rest += head_weights(config)
        yield "mtp", mtp_weights(config)
    yield "stage", rest


def _local_shape(weight: Weight, layout: Layout) -> tuple[int, ...]:
    """Of this rank's block; the experts of a layer are one tensor."""
    shape = list(weight.shape)
    expert = weight.part == "routed_experts"
    if weight.split is not None:
        shape[weight.split] //= layout.etp if expert else layout.tp
    return (weight.copies // layout.ep, *shape) if expert else tuple(shape)


def _has_gradient(weight: Weight, work: Work, stage: Stage) -> bool:
    if weight.name.startswith("mtp.") and not work.mtp:
        return False
    if ".attn.indexer." in weight.name:
        return work.trains_indexer
    return True


def _twice(config: ModelConfig, layout: Layout, stages: Sequence[Stage]) -> set[str]:
    """Weights that two stages of this rank have: they are not sharded."""
    with_embedding = sum(stage.embedding or (stage.head and config.mtp_layers > 0) for stage in stages)
    return {weight.name for weight in embedding_weights(config)} if with_embedding > 1 else set()


def _ends(config: ModelConfig, layout: Layout) -> int:
    """Ranks with a copy of the embedding."""
    return 1 + any(stage.embedding_copy for stage in layout.stages(config))
