"""What a rank sends between parts of the model in one step: activations, routed rows, and their gradients.

Per micro-batch of [B, S] tokens, by the file of `trex.parallel` that does it; "whole" is [B, S, d], "part" a tp-th:

    part                            forward (again where a layer is recomputed)     backward
    tensor: attention               enter; leave                                    transposed, see `_Region`
    tensor: indexer                 all-to-all of queries and weights of heads      the same, where it is trained
                                    all-gather of ids; reduce-scatter of mass
    expert: tokens                  enter; leave (with sequence parallelism for     transposed
                                    the shared expert alone)
    expert: counts                  all-to-all of E / ep integers per rank
    expert: rows                    all-to-all of rows out and, combined, back      the same
    expert: balance                 all-reduce of sums over documents
    vocabulary: embedding           leave                                           transposed
    vocabulary: cross-entropy       enter; all-gather of 3 numbers per token        transposed
    pipeline: streams               send and receive of n wholes (or parts)         the same
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from trex.model.config import SPARSE, WINDOW, ModelConfig
from trex.model.layout import Layout, Stage, rank_of_stage
from trex.planner.comm_work import Transfer, Work

INTEGER, SHORT = 8, 4  # bytes: int64, int32
SUMS = 3  # numbers per token that a cross-entropy exchanges


@dataclass(frozen=True)
class _Region:
    """`parallel.tensor.Region`, in bytes. times: that the forward runs."""

    layout: Layout
    whole: int

    @property
    def part(self) -> int:
        return self.whole // self.layout.tp

    def enter(self, name: str, times: int) -> Iterator[Transfer]:
        if self.layout.sequence_parallel:
            yield Transfer(name, "all-gather", "tp", times, times * self.part)
            yield Transfer(name, "reduce-scatter", "tp", 1, self.whole)
        elif self.layout.tp > 1:
            yield Transfer(name, "all-reduce", "tp", 1, self.whole)

    def leave(self, name: str, times: int) -> Iterator[Transfer]:
        if self.layout.sequence_parallel:
            yield Transfer(name, "reduce-scatter", "tp", times, times * self.whole)
            yield Transfer(name, "all-gather", "tp", 1, self.part)
        elif self.layout.tp > 1:
            yield Transfer(name, "all-reduce", "tp", times, times * self.whole)


def model_traffic(config: ModelConfig, layout: Layout, work: Work, stages: Iterable[Stage]) -> Iterator[Transfer]:
    """Of a rank that has these stages."""
    region = _Region(layout, work.rows * work.seq_len * config.hidden_size * work.size)
    times = 2 if work.recompute or layout.recompute == "full" else 1
    for stage in stages:
        for number in range(work.micro_batches):
            if stage.embedding:
                yield from region.leave("vocabulary: embedding", 1)
            for layer in stage.layers:
                ratio, hashed = config.compress_ratios[layer], layer < config.hash_layers
                yield from _attention(config, layout, work, region, ratio, number, times)
                yield from _moe(config, layout, work, region, hashed, f"layers.{layer}", number, times)
            if stage.head:
                yield from _cross_entropy(layout, work, region)
                for depth in range(config.mtp_layers if work.mtp else 0):
                    yield from region.leave("vocabulary: embedding", 1)
                    yield from _attention(config, layout, work, region, WINDOW, number, times)
                    yield from _moe(config, layout, work, region, False, f"mtp.{depth}", number, times)
                    yield from _cross_entropy(layout, work, region)
            yield from _streams(config, layout, region, stage)


def _attention(
    config: ModelConfig, layout: Layout, work: Work, region: _Region, ratio: int, number: int, times: int
) -> Iterator[Transfer]:
    yield from region.enter("tensor: attention", times)
    yield from region.leave("tensor: attention", times)
    if ratio != SPARSE or layout.tp == 1:
        return
    name, tokens, pack = "tensor: indexer", work.rows * work.seq_len, work.pack(number)
    passes = times + work.trains_indexer
    for each in (config.index_dim, 1):  # queries, weights
        held = tokens * config.index_heads * each * work.size // layout.tp
        yield Transfer(name, "all-to-all", "tp", passes, passes * held * (layout.tp - 1) // layout.tp)
    selects = work.indexer != "warm-up" and pack.most > config.index_topk
    if selects:
        ids = tokens // layout.tp * config.index_topk * SHORT
        yield Transfer(name, "all-gather", "tp", times, times * ids)
    if work.indexer != "frozen":
        mass = tokens * (config.index_topk if selects else pack.entries) * work.size
        yield Transfer(name, "reduce-scatter", "tp", times, times * mass)


def _moe(
    config: ModelConfig, layout: Layout, work: Work, region: _Region, hashed: bool, block: str, number: int, times: int
) -> Iterator[Transfer]:
    if config.num_shared_experts or not layout.sequence_parallel:
        yield from region.enter("expert: tokens", times)
        yield from region.leave("expert: tokens", times)
    ranks = layout.ep * layout.etp
    if ranks > 1:
        counts = (ranks - 1) * config.num_experts // layout.ep * INTEGER
        yield Transfer("expert: counts", "all-to-all", "experts", times, times * counts)
        rows = work.routed(config, layout, block, number)
        for name, width, there, back in (
            ("expert: dispatch", config.hidden_size, rows.sent, rows.received),
            ("expert: weights", 1, rows.sent, rows.received),
            ("expert: combine", config.hidden_size, rows.received, rows.sent),
        ):
            payload = (times * there + back) * width * work.size
            yield Transfer(name, "all-to-all", "experts", times + 1, _integer(payload))
    if layout.tp > 1 and not hashed:
        sums = work.pack(number).documents * (2 * config.num_experts + 1) * work.size  # counts, shares, tokens
        yield Transfer("expert: balance", "all-reduce", "tp", times, times * sums)


def _cross_entropy(layout: Layout, work: Work, region: _Region) -> Iterator[Transfer]:
    yield from region.enter("vocabulary: cross-entropy", 1)
    if layout.tp > 1:
        numbers = SUMS * work.rows * work.seq_len * work.size
        yield Transfer("vocabulary: cross-entropy", "all-gather", "tp", 1, numbers)


def _streams(config: ModelConfig, layout: Layout, region: _Region, stage: Stage) -> Iterator[Transfer]:
    """A neighbour on another rank is sent streams or their gradient, and sends the other."""
    streams = config.hc_mult * (region.part if layout.sequence_parallel else region.whole)
    for other in (stage.index - 1, stage.index + 1):
        if 0 <= other < layout.pp * layout.vpp and rank_of_stage(layout.schedule, layout.pp, other) != stage.rank:
            for operation in ("send", "receive"):
                yield Transfer("pipeline: streams", operation, "pp", 1, streams)


def _integer(value: int | Fraction) -> int | Fraction:
    return int(value) if value.denominator == 1 else value
