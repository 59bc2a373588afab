"""Static memory per device: the weights, gradients and optimizer states that live through a whole step.

Modelled: the layouts are published, the bytes per parameter are not; they are those of `Layout.precision`, the engines'
defaults, for every parameter, also for those that some engines keep in FP32 (norms, position biases, hyper-connections:
half a percent of the dense parameters of Flash).

Activations, communication buffers, blocks gathered by FSDP, the slice of a swapped optimizer that is on the device
while it is updated, and the allocator's own losses come on top.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trex.model.config import ModelConfig
from trex.model.layout import SHARDINGS, Layout, Stage
from trex.model.weights import Weight, embedding_weights, head_weights, layer_weights, mtp_weights
from trex.published import load

GIB = 2**30
MIB = 2**20


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of one device in bytes: what it has, and what a process can allocate."""

    name: str
    total: int
    allocatable: int
    source: str


def ascend_910c_die() -> DeviceMemory:
    """One of the two dies of an Ascend 910C, by the published platform files."""
    total, allocatable = (load("hardware")[row]["value"] for row in ("hbm_die", "hbm_allocatable"))
    return DeviceMemory("Ascend 910C die", int(total.value) * GIB, int(allocatable.value) * MIB, total.source)


@dataclass(frozen=True)
class RankBytes:
    """What each device of one pipeline rank holds. Bytes, but for the parameters."""

    rank: int  # pipeline rank
    dense_parameters: int  # after tp, before sharding
    expert_parameters: int  # after ep and etp, before sharding
    weights: int
    gradients: int
    optimizer: int  # on the device
    host_optimizer: int  # in host memory, where the optimizer is swapped

    @property
    def device(self) -> int:
        """Bytes on the device."""
        return self.weights + self.gradients + self.optimizer


@dataclass(frozen=True)
class StaticBytes:
    """Static memory of every pipeline rank; the devices of one rank, tp x cp x dp of them, hold equally much."""

    ranks: tuple[RankBytes, ...]

    @property
    def largest(self) -> RankBytes:
        """The pipeline rank whose devices hold most."""
        return max(self.ranks, key=lambda rank: rank.device)

    def margin(self, device: DeviceMemory) -> int:
        """Bytes left for everything else on the fullest device; negative where the static memory alone does not fit."""
        return device.allocatable - self.largest.device


def static_bytes(config: ModelConfig, layout: Layout) -> StaticBytes:
    """Static memory of every pipeline rank. Raises LayoutError where the layout does not fit the model.

    Dense weights are split over tp (replicated where a weight has no split dimension) and, by `layout.sharding`, over
    the cp x dp ranks that share them; routed experts over ep and etp and, likewise, over the `expert_dp` ranks that
    share them, with `dp_replicate` those of one replica. A sharded buffer is padded to equal shards, as in Megatron-LM;
    FSDP2 pads tensor by tensor, which is not counted. Our own trainer keeps weights and gradients whole through a step
    of a pipeline, where this counts what the sharding asks for.
    """
    layout.check(config)
    stages = layout.stages(config)
    return StaticBytes(tuple(_rank_bytes(config, layout, rank, stages) for rank in range(layout.pp)))


def stage_weights(config: ModelConfig, stage: Stage) -> Iterator[Weight]:
    """Weights of one virtual stage, its copy of the embedding included."""
    if stage.embedding or stage.embedding_copy:
        yield from embedding_weights(config)
    for layer in stage.layers:
        yield from layer_weights(config, layer)
    if stage.head:
        yield from head_weights(config)
        yield from mtp_weights(config)


def local_size(weight: Weight, layout: Layout) -> int:
    """Parameters of a weight on one device, before sharding over replicas."""
    if weight.part == "routed_experts":
        return weight.size // (layout.ep * layout.etp)
    return weight.size if weight.split is None else weight.size // layout.tp


def _rank_bytes(config: ModelConfig, layout: Layout, rank: int, stages: tuple[Stage, ...]) -> RankBytes:
    weights = [weight for stage in stages if stage.rank == rank for weight in stage_weights(config, stage)]
    experts = [weight for weight in weights if weight.part == "routed_experts"]
    dense = [weight for weight in weights if weight.part != "routed_experts"]

    def held(sharded_from: str, trained_only: bool) -> int:
        """Parameters per device whose weight (gradient, optimizer state) it holds."""
        sharded = SHARDINGS.index(layout.sharding) >= SHARDINGS.index(sharded_from)
        counted = 0
        for group, ranks in ((dense, layout.dense_shards), (experts, layout.expert_shards)):
            size = sum(local_size(weight, layout) for weight in group if weight.trained or not trained_only)
            counted += -(-size // ranks) if sharded else size
        return counted

    optimizer = layout.precision.optimizer * held("optimizer", True)
    return RankBytes(
        rank=rank,
        dense_parameters=sum(local_size(weight, layout) for weight in dense),
        expert_parameters=sum(local_size(weight, layout) for weight in experts),
        weights=layout.precision.weight * held("parameters", False),
        gradients=layout.precision.gradient * held("gradients", True),
        optimizer=0 if layout.swap_optimizer else optimizer,
        host_optimizer=optimizer if layout.swap_optimizer else 0,
    )
