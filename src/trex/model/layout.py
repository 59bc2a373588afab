"""How a model is laid out over devices: one frozen dataclass for the planner, the trainer and the exporters.

The dimensions are those of Megatron-LM. A pipeline rank has tp x cp x dp devices. The attention and all other dense
weights are split over tp and replicated over cp x dp; the routed experts of the same devices are split over ep, each
expert over etp, and replicated over what is left, tp x cp x dp / (ep x etp).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trex.model.config import SPARSE, ModelConfig

SHARDINGS = ("none", "optimizer", "gradients", "parameters")  # ZeRO 0, 1, 2, 3 (FSDP): what replicas do not repeat
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-v", "dualpipe-v")
V_SHAPED = ("zb-v", "dualpipe-v")  # two stages per rank; the first rank has the first stage and the last
RECOMPUTES = ("none", "selective", "full")  # nothing, attention and activations, or the whole block in the backward
DIMENSIONS = ("tp", "pp", "vpp", "ep", "etp", "cp", "dp", "dp_replicate", "micro_batch")


class LayoutError(ValueError):
    """A layout that cannot run."""


def schedule_problem(name: str, ranks: int, stages_per_rank: int, micro_batches: int | None) -> str | None:
    """What keeps a pipeline schedule from existing for these sizes, and what is accepted; None where it exists.

    Takes integers from 1. micro_batches: per step and replica; None where it is not known, and nothing asked of it.
    """
    if name not in SCHEDULES:
        return f"schedule = {name!r}; accepted: {', '.join(SCHEDULES)}"
    stages = f"stages per rank (vpp) = {stages_per_rank}; accepted under {name}:"
    if name in ("gpipe", "1f1b") and stages_per_rank != 1:
        return f"{stages} 1; more needs interleaved, {' or '.join(V_SHAPED)}"
    if name in V_SHAPED and stages_per_rank != 2:
        return f"{stages} 2 (placed as a V)"
    if name == "interleaved" and stages_per_rank < 2:
        return f"{stages} from 2 (one is 1f1b)"
    if micro_batches is None:
        return None
    counted = f"micro-batches = {micro_batches} on {ranks} ranks; accepted under {name}:"
    rounds = max(1, micro_batches // ranks)
    if name == "interleaved" and micro_batches % rounds:
        return f"{counted} multiples of {rounds}, the number of rounds micro-batches // ranks"
    if name == "dualpipe-v" and micro_batches < 2 * ranks:
        return f"{counted} from 2 x ranks = {2 * ranks}"
    return None


def rank_of_stage(name: str, ranks: int, stage: int) -> int:
    """Pipeline rank of a virtual stage: s mod p, or, for the V-shaped, s going up and 2p - 1 - s coming back."""
    return 2 * ranks - 1 - stage if name in V_SHAPED and stage >= ranks else stage % ranks


@dataclass(frozen=True)
class Precision:
    """Bytes per trained parameter. Defaults: BF16 training with FP32 accumulation, as Megatron-LM does it."""

    weight: int = 2  # BF16
    gradient: int = 4  # FP32, because the micro-batches of a step are summed in it
    optimizer: int = 12  # AdamW: FP32 master copy of the weight and two FP32 moments


# FSDP2 keeps FP32 shards, which are the master copy, and casts to BF16 when it gathers: AdamW adds its two moments
FP32_SHARDS = Precision(weight=4, gradient=4, optimizer=8)


@dataclass(frozen=True)
class Stage:
    """One virtual pipeline stage: what it computes and the pipeline rank it lives on."""

    index: int  # in the order of the model
    rank: int
    layers: tuple[int, ...]  # trunk layers; no-op layers are left out
    embedding: bool  # the first stage
    head: bool  # the last stage: final collapse and norm, head, MTP blocks
    embedding_copy: bool  # MTP needs the embedding, and the last stage is not where it lives


@dataclass(frozen=True)
class Layout:
    """Sizes of the parallel dimensions and the choices that go with them.

    Raises LayoutError, naming the value and what is accepted, for what no model could run under; `check` does the
    same for one model.
    """

    tp: int = 1  # tensor parallel ranks
    pp: int = 1  # pipeline ranks
    vpp: int = 1  # virtual stages on each pipeline rank
    ep: int = 1  # expert parallel ranks
    etp: int = 1  # ranks that split one expert
    cp: int = 1  # context parallel ranks: each has 1 / cp of every sequence
    dp: int = 1  # data parallel replicas: each has 1 / dp of the global batch
    dp_replicate: int = 1  # hybrid sharding (HSDP): so many groups of the dp ranks, within each of which is sharded
    micro_batch: int = 1  # sequences
    global_batch: int | None = None  # sequences; None where it is not needed
    sharding: str = "none"
    sequence_parallel: bool = False  # between TP regions, activations are split over tp along the sequence
    schedule: str = "1f1b"
    recompute: str = "none"
    swap_optimizer: bool = False  # optimizer states lie in host memory between steps
    noop_layers: tuple[int, ...] = ()  # positions, among layers and no-ops, that compute nothing: they even out stages
    stage_layers: tuple[int, ...] | None = None  # positions per virtual stage; None for equal stages
    precision: Precision = Precision()

    def __post_init__(self) -> None:
        for field in DIMENSIONS:
            self._require(field, _is_count(getattr(self, field)), "integers from 1")
        for field, accepted in (("sharding", SHARDINGS), ("recompute", RECOMPUTES)):
            self._require(field, getattr(self, field) in accepted, ", ".join(accepted))
        for field in ("sequence_parallel", "swap_optimizer"):
            self._require(field, isinstance(getattr(self, field), bool), "True, False")
        for field in ("weight", "gradient", "optimizer"):
            self._require("precision", _is_count(getattr(self.precision, field, None)), "bytes per parameter from 1")
        self._check_groups()
        self._check_positions()
        self._check_schedule()

    @property
    def world_size(self) -> int:
        """Devices."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def dense_dp(self) -> int:
        """Ranks that hold the same dense weights: their gradients are reduced over these."""
        return self.cp * self.dp

    @property
    def expert_dp(self) -> int:
        """Ranks that hold the same routed experts."""
        return self.tp * self.cp * self.dp // (self.ep * self.etp)

    @property
    def dense_shards(self) -> int:
        """Ranks over which dense weights (gradients, optimizer states) are sharded, where they are."""
        return self.dense_dp // self.dp_replicate

    @property
    def expert_shards(self) -> int:
        """The same for routed experts."""
        return self.expert_dp // self.dp_replicate

    @property
    def micro_batches(self) -> int:
        """Micro-batches per step and replica. Raises LayoutError without a global batch."""
        if self.global_batch is None:
            raise LayoutError("global_batch = None; accepted: a number of sequences, to count micro-batches")
        return self.global_batch // (self.micro_batch * self.dp)

    def stages(self, config: ModelConfig) -> tuple[Stage, ...]:
        """Virtual stages in the order of the model. Raises LayoutError where the layers do not fill them."""
        last = self.pp * self.vpp - 1
        layers = iter(self._positions(config))
        found = []
        for index, size in enumerate(self._sizes(config)):
            rank = rank_of_stage(self.schedule, self.pp, index)
            mine = tuple(layer for layer in (next(layers) for _ in range(size)) if layer is not None)
            if not mine:
                raise LayoutError(f"virtual stage {index} holds no layer; accepted: at least one that is no no-op")
            copy = index == last and config.mtp_layers > 0 and rank != 0
            found.append(Stage(index, rank, mine, index == 0, index == last, copy))
        return tuple(found)

    def check(self, config: ModelConfig, devices: int | None = None, seq_len: int | None = None) -> None:
        """Raise LayoutError where this model, number of devices or sequence length does not fit the layout."""
        for name, size in _split_sizes(config):
            self._divides("tp", self.tp, name, size)
        self._require("ep", self.ep <= config.num_experts, f"at most num_experts = {config.num_experts}")
        self._divides("ep", self.ep, "num_experts", config.num_experts)
        self._divides("etp", self.etp, "expert_size", config.expert_size)
        if devices is not None and devices != self.world_size:
            product = f"tp {self.tp} x pp {self.pp} x cp {self.cp} x dp {self.dp}"
            raise LayoutError(f"devices = {devices}; accepted: {self.world_size}, which is {product}")
        if seq_len is not None:
            if not _is_count(seq_len):
                raise LayoutError(f"seq_len = {seq_len!r}; accepted: integers from 1")
            self._divides("cp", self.cp, "seq_len", seq_len)
            # without sequence parallelism too: the experts see each token once, so the ranks share them out
            shared = "seq_len / cp (sequence_parallel)" if self.sequence_parallel else "seq_len / cp"
            self._divides("tp", self.tp, shared, seq_len // self.cp)
        self.stages(config)

    def _check_groups(self) -> None:
        ranks = self.tp * self.cp * self.dp
        if ranks % (self.ep * self.etp):
            raise LayoutError(
                f"ep = {self.ep}, etp = {self.etp}; accepted: ep x etp divides tp x cp x dp = {ranks}, "
                "the ranks that share the experts of a pipeline rank"
            )
        groups, alike = self.dp_replicate, ranks // (self.ep * self.etp)
        self._require("dp_replicate", self.dp % groups == 0, f"divisors of dp = {self.dp}")
        self._require("dp_replicate", alike % groups == 0, f"divisors of the {alike} ranks with the same experts")
        self._require("dp_replicate", groups == 1 or self.sharding != "none", "1 where sharding is none")
        self._require("sequence_parallel", not (self.sequence_parallel and self.tp == 1), "False where tp = 1")
        if self.global_batch is not None:
            self._require("global_batch", _is_count(self.global_batch), "integers from 1, or None")
            step = self.micro_batch * self.dp
            self._require("global_batch", self.global_batch % step == 0, f"multiples of micro_batch x dp = {step}")

    def _check_positions(self) -> None:
        noops = self.noop_layers
        known = isinstance(noops, tuple) and all(_is_count(position, 0) for position in noops)
        self._require("noop_layers", known, "a tuple of positions from 0")
        self._require("noop_layers", noops == tuple(sorted(set(noops))), "positions in rising order, each once")
        if self.stage_layers is not None:
            known = isinstance(self.stage_layers, tuple) and all(_is_count(size) for size in self.stage_layers)
            self._require("stage_layers", known, "None, or a tuple of positions per virtual stage, each from 1")
            number = self.pp * self.vpp
            self._require("stage_layers", len(self.stage_layers) == number, f"pp x vpp = {number} stages")

    def _check_schedule(self) -> None:
        count = None if self.global_batch is None else self.micro_batches
        problem = schedule_problem(self.schedule, self.pp, self.vpp, count)
        if problem is not None:
            raise LayoutError(problem)
        self._require("schedule", self.pp > 1 or self.schedule in ("gpipe", "1f1b"), "gpipe, 1f1b where pp = 1")

    def _sizes(self, config: ModelConfig) -> tuple[int, ...]:
        """Positions per virtual stage."""
        positions, number = config.num_layers + len(self.noop_layers), self.pp * self.vpp
        if self.stage_layers is not None:
            total = sum(self.stage_layers)
            accepted = f"a sum of {positions} (num_layers and no-op layers), not {total}"
            self._require("stage_layers", total == positions, accepted)
            return self.stage_layers
        if positions % number:
            short = number - positions % number
            raise LayoutError(
                f"pp = {self.pp}, vpp = {self.vpp}; accepted: pp x vpp divides {positions}, the layers and no-op "
                f"layers of {config.name}: add {short} to noop_layers, or give stage_layers"
            )
        return (positions // number,) * number

    def _positions(self, config: ModelConfig) -> Iterator[int | None]:
        """The trunk layer at every position; None for a no-op."""
        positions = config.num_layers + len(self.noop_layers)
        self._require("noop_layers", max(self.noop_layers, default=0) < positions, f"positions below {positions}")
        layer = iter(range(config.num_layers))
        return (None if position in self.noop_layers else next(layer) for position in range(positions))

    def _divides(self, field: str, size: int, name: str, whole: int) -> None:
        self._require(field, whole % size == 0, f"divisors of {name} = {whole}")

    def _require(self, field: str, holds: bool, accepted: str) -> None:
        if not holds:
            raise LayoutError(f"{field} = {getattr(self, field)!r}; accepted: {accepted}")


def _split_sizes(config: ModelConfig) -> Iterator[tuple[str, int]]:
    """What tensor parallelism splits."""
    yield "num_heads", config.num_heads
    yield "o_groups", config.o_groups
    yield "vocab_size", config.vocab_size
    if SPARSE in config.compress_ratios:
        yield "index_heads", config.index_heads
    if config.num_shared_experts:
        yield "shared expert channels", config.num_shared_experts * config.expert_size


def _is_count(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
