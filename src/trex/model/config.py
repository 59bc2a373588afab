"""The shape of a DeepSeek-V4 model: one frozen dataclass for counting, model, checkpoint and planner.

Source: the released `config.json` of Flash and Pro and the official `inference/model.py`; DeepSeek-V4 report (arXiv 2606.19348).
"""

from dataclasses import dataclass, replace
from typing import Any, Self

WINDOW, SPARSE, HEAVY = 0, 4, 128  # compression ratio of a layer: window only, CSA, HCA


class ConfigError(ValueError):
    """A model that cannot exist."""


@dataclass(frozen=True)
class ModelConfig:
    """DeepSeek-V4. Sizes are counts of channels, heads, experts or layers; defaults common to Flash and Pro."""

    name: str
    hidden_size: int
    num_layers: int
    num_heads: int
    q_lora_rank: int
    o_groups: int
    num_experts: int
    expert_size: int  # hidden channels of one expert
    route_scale: float
    index_topk: int
    compress_ratios: tuple[int, ...]  # one per layer: 0 window only, 4 CSA, 128 HCA; MTP blocks are always 0
    vocab_size: int = 129_280
    head_dim: int = 512
    rope_dim: int = 64  # trailing channels of a head that are rotated
    o_lora_rank: int = 1024
    experts_per_token: int = 6
    num_shared_experts: int = 1
    hash_layers: int = 3  # first layers, routed by token id
    index_heads: int = 64
    index_dim: int = 128
    window: int = 128
    hc_mult: int = 4  # residual streams of mHC
    sinkhorn_iters: int = 20
    mtp_layers: int = 1
    swiglu_limit: float = 10.0
    eps: float = 1e-6
    rope_theta: float = 1e4
    compress_rope_theta: float = 1.6e5  # with YaRN, for everything in compressed layers
    yarn_factor: float = 16.0
    yarn_original: int = 65_536
    yarn_beta_fast: float = 32.0
    yarn_beta_slow: float = 1.0

    @classmethod
    def flash(cls) -> Self:
        """DeepSeek-V4-Flash: 284 B parameters, 13 B active."""
        return cls(
            "DeepSeek-V4-Flash", hidden_size=4096, num_layers=43, num_heads=64, q_lora_rank=1024, o_groups=8,
            num_experts=256, expert_size=2048, route_scale=1.5, index_topk=512,
            compress_ratios=(WINDOW, WINDOW, *(SPARSE, HEAVY) * 20, SPARSE),
        )  # fmt: skip

    @classmethod
    def pro(cls) -> Self:
        """DeepSeek-V4-Pro: 1.6 T parameters, 49 B active."""
        return cls(
            "DeepSeek-V4-Pro", hidden_size=7168, num_layers=61, num_heads=128, q_lora_rank=1536, o_groups=16,
            num_experts=384, expert_size=3072, route_scale=2.5, index_topk=1024,
            compress_ratios=(HEAVY, HEAVY, *(SPARSE, HEAVY) * 29, SPARSE),
        )  # fmt: skip

    @classmethod
    def tiny(cls, **over: Any) -> Self:
        """Six layers with every layer kind, small enough to train on two CPU cores; `over` replaces any field."""
        base = cls(
            "tiny", hidden_size=64, num_layers=6, num_heads=4, q_lora_rank=24, o_groups=2, num_experts=8, expert_size=32,
            route_scale=1.5, index_topk=8, compress_ratios=(WINDOW, SPARSE, HEAVY, SPARSE, HEAVY, WINDOW),
            vocab_size=512, head_dim=32, rope_dim=8, o_lora_rank=16, experts_per_token=2, index_heads=16, index_dim=16,
            window=16,
        )  # fmt: skip
        return replace(base, **over)
