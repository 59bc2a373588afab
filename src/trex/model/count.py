"""Parameters and FLOPs of a DeepSeek-V4 model, split by part, from its configuration alone.

FLOPs are those of matrix products, of attention over the visible entries, of the indexer's scores and of mixing the
residual streams; a multiply-add is two. Norms, rotations, softmax, activations, Sinkhorn iterations and the weighted
sums of the compressors are not counted: they cost a few operations per channel, the counted parts thousands.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from trex.model.config import SPARSE, WINDOW, ConfigError, ModelConfig
from trex.model.weights import PARTS, Weight, embedding_weights, head_weights, layer_weights, mtp_weights

OPERATIONS = ("window_attention", "compressed_attention", "indexer_scores", "stream_mixing")  # those without weights
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Parameters:
    """Parameters by part, of the model proper and of its MTP blocks; parts without any are left out."""

    parts: Mapping[str, int]
    mtp_parts: Mapping[str, int]
    active_parts: Mapping[str, int]  # of one token: k of E experts; the embedding table and MTP are not counted

    @property
    def active(self) -> int:
        """Parameters that one token meets in trunk and head."""
        return sum(self.active_parts.values())

    @property
    def total(self) -> int:
        """Without MTP."""
        return sum(self.parts.values())

    @property
    def mtp(self) -> int:
        """MTP blocks alone; embedding and head are shared with the model."""
        return sum(self.mtp_parts.values())

    @property
    def total_with_mtp(self) -> int:
        """What a released checkpoint holds."""
        return self.total + self.mtp


@dataclass(frozen=True)
class Flops:
    """Forward FLOPs per token, mean over a document, by part or operation; no MTP parts unless asked for."""

    seq_len: int
    parts: Mapping[str, float]
    mtp_parts: Mapping[str, float]

    @property
    def linear(self) -> float:
        """Products with weights, head excluded, without MTP."""
        return sum(value for name, value in self.parts.items() if name not in (*OPERATIONS, "head"))

    @property
    def mtp(self) -> float:
        """MTP blocks, each with its own pass through the head."""
        return sum(self.mtp_parts.values())

    @property
    def forward(self) -> float:
        """One forward pass, with MTP where it was asked for."""
        return sum(self.parts.values()) + self.mtp

    @property
    def training(self) -> float:
        """Forward and backward: three forwards. Recomputation is not counted.

        The indexer takes less: what it reads is detached, so its projections have no gradient of their inputs (two
        forwards), and none at all while it is frozen.
        """
        return 3 * self.forward


def parameters(config: ModelConfig) -> Parameters:
    """Exact counts. Selection biases of the router count, token-to-expert tables do not."""
    embedding = embedding_weights(config)
    model = [w for layer in range(config.num_layers) for w in layer_weights(config, layer)] + [*head_weights(config)]
    return Parameters(
        parts=_by_part((w.part, w.size) for w in (*embedding, *model)),
        mtp_parts=_by_part((w.part, w.size) for w in mtp_weights(config)),
        active_parts=_by_part((w.part, w.active) for w in model),
    )


def layer_parameters(config: ModelConfig, layer: int) -> Mapping[str, int]:
    """Parameters of one trunk layer by part."""
    return _by_part((w.part, w.size) for w in layer_weights(config, layer))


def flops(config: ModelConfig, seq_len: int, mtp: bool = False) -> Flops:
    """Forward FLOPs per token, mean over the positions of one document of `seq_len` tokens.

    Raises ConfigError for a length below 1. Source of the operations: DeepSeek-V4 report (arXiv 2606.19348) §2.
    """
    _check_length(seq_len)
    layers = [item for layer in range(config.num_layers) for item in layer_flops(config, layer, seq_len).items()]
    collapse = ("stream_mixing", 2.0 * config.hc_mult * config.hidden_size)
    block: list[tuple[str, float]] = []
    if mtp:  # each block: its own products, then a collapse and a pass through the shared head
        one = [*_operations(config, WINDOW, seq_len), collapse, ("head", 2.0 * config.vocab_size * config.hidden_size)]
        block = [*_linear(mtp_weights(config)), *((name, config.mtp_layers * value) for name, value in one)]
    return Flops(seq_len, _by_part([*layers, *_linear(head_weights(config)), collapse]), _by_part(block))


def layer_flops(config: ModelConfig, layer: int, seq_len: int) -> Mapping[str, float]:
    """Forward FLOPs per token of one trunk layer, mean over a document, by part or operation."""
    _check_length(seq_len)
    ratio = config.compress_ratios[layer]
    return _by_part([*_linear(layer_weights(config, layer)), *_operations(config, ratio, seq_len)])


def window_visible(seq_len: int, window: int) -> float:
    """Mean number of window keys that a token sees: min(t + 1, window) over t = 0 … seq_len - 1."""
    full = min(seq_len, window)
    return (full * (full + 1) // 2 + (seq_len - full) * window) / seq_len


def compressed_visible(seq_len: int, ratio: int, limit: int | None = None) -> float:
    """Mean number of compressed entries that a token sees: min(limit, floor((t + 1) / ratio)) over t.

    limit: the indexer's top-k; None where every visible entry is attended to.
    """
    blocks, rest = divmod(seq_len, ratio)
    if limit is not None and blocks > limit:  # from token ratio * limit on, the limit
        growing = ratio * limit
        return (ratio * limit * (limit - 1) // 2 + (seq_len - growing + 1) * limit) / seq_len
    return (ratio * blocks * (blocks - 1) // 2 + blocks * (rest + 1)) / seq_len


def _operations(config: ModelConfig, ratio: int, seq_len: int) -> Iterator[tuple[str, float]]:
    """What a block computes beside the products with its weights."""
    per_entry = 4 * config.num_heads * config.head_dim  # a score and a weighted value, in every head
    yield "window_attention", per_entry * window_visible(seq_len, config.window)
    if ratio != WINDOW:
        limit = config.index_topk if ratio == SPARSE else None
        yield "compressed_attention", per_entry * compressed_visible(seq_len, ratio, limit)
    if ratio == SPARSE:
        per_score = config.index_heads * (2 * config.index_dim + 2)  # every visible entry is scored: q.k, then w.ReLU
        yield "indexer_scores", per_score * compressed_visible(seq_len, ratio)
    n, d = config.hc_mult, config.hidden_size
    yield "stream_mixing", 2 * (2 * n * d + 2 * n * n * d + 2 * n * d)  # two per block: collapse, mix, expand


def _linear(weights: Iterable[Weight]) -> Iterator[tuple[str, float]]:
    return ((w.part, float(w.flops)) for w in weights)


def _by_part(items: Iterable[tuple[str, Number]]) -> Mapping[str, Number]:
    """Sums by part, in one order everywhere; parts that come to nothing are left out."""
    sums: dict[str, Number] = {}
    for part, value in items:
        sums[part] = sums.get(part, 0) + value
    return MappingProxyType({part: sums[part] for part in (*PARTS, *OPERATIONS) if sums.get(part)})


def _check_length(seq_len: int) -> None:
    if not isinstance(seq_len, int) or isinstance(seq_len, bool) or seq_len < 1:
        raise ConfigError(f"seq_len = {seq_len!r}; accepted: integers from 1")
