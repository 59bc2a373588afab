"""Every weight of a DeepSeek-V4 model: official name, shape, part, how a token uses it and how it is split.

Counting and memory read this list. Equations: DeepSeek-V4 report (arXiv 2606.19348) §2; names: the released
checkpoints. The token-to-expert tables of the hash-routed layers are integers, not parameters, and are not
listed.
"""

from dataclasses import dataclass, replace
from math import prod

from trex.model.config import SPARSE, WINDOW, ModelConfig

PARTS = (
    "embedding", "query", "key_value", "output", "sinks", "compressor", "indexer", "hyper_connections", "router",
    "routed_experts", "shared_experts", "norms", "mtp_projections", "head",
)  # fmt: skip


@dataclass(frozen=True)
class Weight:
    """One weight, or the equal weights of all routed experts of a layer."""

    name: str  # as in the official checkpoint; `*` stands for the number of the expert
    shape: tuple[int, ...]  # of one copy
    part: str  # one of PARTS
    split: int | None = None  # dimension that tensor parallelism splits (experts: ETP); None where each rank holds all
    copies: int = 1  # experts in the layer
    used: int = 1  # copies that one token passes through
    products: int = 0  # vectors per token that a used copy multiplies; 0 for norms, biases and the embedding
    trained: bool = True  # by gradients; the router's selection bias is not

    @property
    def size(self) -> int:
        """Parameters, all copies."""
        return prod(self.shape) * self.copies

    @property
    def active(self) -> int:
        """Parameters that one token passes through."""
        return prod(self.shape) * self.used

    @property
    def flops(self) -> int:
        """Forward FLOPs per token of its matrix products; a multiply-add is two."""
        return 2 * self.active * self.products


def layer_weights(config: ModelConfig, layer: int) -> tuple[Weight, ...]:
    """Weights of one trunk layer."""
    weights = block_weights(config, config.compress_ratios[layer], hashed=layer < config.hash_layers)
    return _prefixed(f"layers.{layer}", weights)


def block_weights(config: ModelConfig, ratio: int, hashed: bool) -> tuple[Weight, ...]:
    """Weights of a block of attention (compression ratio 0, 4 or 128) and MoE (hash-routed or not)."""
    return (
        *_attention(config, ratio),
        *_moe(config, hashed),
        Weight("attn_norm.weight", (config.hidden_size,), "norms"),
        Weight("ffn_norm.weight", (config.hidden_size,), "norms"),
        *_hyper_connection(config, "hc_attn"),
        *_hyper_connection(config, "hc_ffn"),
    )


def embedding_weights(config: ModelConfig) -> tuple[Weight, ...]:
    """The token embedding; the MTP blocks share it."""
    return (Weight("embed.weight", (config.vocab_size, config.hidden_size), "embedding", split=0),)


def head_weights(config: ModelConfig) -> tuple[Weight, ...]:
    """Final collapse of the streams, final norm, and the untied head, which the MTP blocks share."""
    return (
        *_collapse(config),
        Weight("norm.weight", (config.hidden_size,), "norms"),
        Weight("head.weight", (config.vocab_size, config.hidden_size), "head", split=0, products=1),
    )


def mtp_weights(config: ModelConfig) -> tuple[Weight, ...]:
    """Weights of all MTP blocks: two projections with their norms, a window-attention block, collapse and norm.

    The projection of the hidden state multiplies every residual stream, that of the embedding one vector.
    """
    d = config.hidden_size
    one = (
        Weight("enorm.weight", (d,), "norms"),
        Weight("hnorm.weight", (d,), "norms"),
        Weight("e_proj.weight", (d, d), "mtp_projections", products=1),
        Weight("h_proj.weight", (d, d), "mtp_projections", products=config.hc_mult),
        *block_weights(config, WINDOW, hashed=False),
        *_collapse(config),
        Weight("norm.weight", (d,), "norms"),
    )
    return tuple(weight for depth in range(config.mtp_layers) for weight in _prefixed(f"mtp.{depth}", one))


def _attention(config: ModelConfig, ratio: int) -> tuple[Weight, ...]:
    """Low-rank queries, one shared key-value head, grouped low-rank output, sinks; compressor and indexer by ratio."""
    d, width = config.hidden_size, config.num_heads * config.head_dim
    rank = config.o_groups * config.o_lora_rank
    weights = [
        Weight("attn.wq_a.weight", (config.q_lora_rank, d), "query", products=1),
        Weight("attn.q_norm.weight", (config.q_lora_rank,), "norms"),
        Weight("attn.wq_b.weight", (width, config.q_lora_rank), "query", split=0, products=1),
        Weight("attn.wkv.weight", (config.head_dim, d), "key_value", products=1),
        Weight("attn.kv_norm.weight", (config.head_dim,), "norms"),
        Weight("attn.wo_a.weight", (rank, width // config.o_groups), "output", split=0, products=1),
        Weight("attn.wo_b.weight", (d, rank), "output", split=1, products=1),
        Weight("attn.attn_sink", (config.num_heads,), "sinks", split=0),
    ]
    if ratio != WINDOW:
        weights += _compressor(config, "attn.compressor", "compressor", ratio, config.head_dim)
    if ratio == SPARSE:
        queries = (config.index_heads * config.index_dim, config.q_lora_rank)
        weights += [
            Weight("attn.indexer.wq_b.weight", queries, "indexer", split=0, products=1),
            Weight("attn.indexer.weights_proj.weight", (config.index_heads, d), "indexer", split=0, products=1),
            *_compressor(config, "attn.indexer.compressor", "indexer", ratio, config.index_dim),
        ]
    return tuple(weights)


def _compressor(config: ModelConfig, name: str, part: str, ratio: int, size: int) -> tuple[Weight, ...]:
    """Values, gates and position biases, twice as wide where blocks overlap (ratio 4), and the norm of an entry."""
    width = 2 * size if ratio == SPARSE else size
    return (
        Weight(f"{name}.wkv.weight", (width, config.hidden_size), part, products=1),
        Weight(f"{name}.wgate.weight", (width, config.hidden_size), part, products=1),
        Weight(f"{name}.ape", (ratio, width), part),
        Weight(f"{name}.norm.weight", (size,), part),
    )


def _moe(config: ModelConfig, hashed: bool) -> tuple[Weight, ...]:
    """Router, E routed experts of which a token takes k, and shared experts as one wide expert."""
    experts, d = config.num_experts, config.hidden_size
    weights = [Weight("ffn.gate.weight", (experts, d), "router", products=1)]
    if not hashed:
        weights.append(Weight("ffn.gate.bias", (experts,), "router", trained=False))
    weights += _swiglu("ffn.experts.*", "routed_experts", d, config.expert_size, experts, config.experts_per_token)
    if config.num_shared_experts:
        width = config.num_shared_experts * config.expert_size
        weights += _swiglu("ffn.shared_experts", "shared_experts", d, width)
    return tuple(weights)


def _swiglu(name: str, part: str, d: int, width: int, copies: int = 1, used: int = 1) -> list[Weight]:
    """Gate w1, up w3 and down w2, split over the hidden channels."""
    shapes = (("w1", (width, d), 0), ("w3", (width, d), 0), ("w2", (d, width), 1))
    return [Weight(f"{name}.{w}.weight", shape, part, split, copies, used, products=1) for w, shape, split in shapes]


def _hyper_connection(config: ModelConfig, name: str) -> tuple[Weight, ...]:
    """From n streams of d channels: n pre, n post and n x n mixing coefficients, their biases and three scales."""
    n = config.hc_mult
    return (
        Weight(f"{name}_fn", ((2 + n) * n, n * config.hidden_size), "hyper_connections", products=1),
        Weight(f"{name}_base", ((2 + n) * n,), "hyper_connections"),
        Weight(f"{name}_scale", (3,), "hyper_connections"),
    )


def _collapse(config: ModelConfig) -> tuple[Weight, ...]:
    """The pre coefficients alone, before a head."""
    n = config.hc_mult
    return (
        Weight("hc_head_fn", (n, n * config.hidden_size), "hyper_connections", products=1),
        Weight("hc_head_base", (n,), "hyper_connections"),
        Weight("hc_head_scale", (1,), "hyper_connections"),
    )


def _prefixed(prefix: str, weights: tuple[Weight, ...]) -> tuple[Weight, ...]:
    return tuple(replace(weight, name=f"{prefix}.{weight.name}") for weight in weights)
