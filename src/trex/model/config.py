"""The shape of a DeepSeek-V4 model: one frozen dataclass for counting, model, checkpoint and planner.

Source: the released `config.json` of Flash and Pro and the official `inference/model.py`; DeepSeek-V4 report
(arXiv 2606.19348).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from sys import float_info
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from transformers import DeepseekV4Config

WINDOW, SPARSE, HEAVY = 0, 4, 128  # compression ratio of a layer: window only, CSA, HCA
COUNTS = (
    "hidden_size", "num_layers", "num_heads", "q_lora_rank", "o_groups", "num_experts", "expert_size", "index_topk",
    "vocab_size", "head_dim", "rope_dim", "o_lora_rank", "experts_per_token", "index_heads", "index_dim", "window",
    "hc_mult", "sinkhorn_iters", "yarn_original",
)  # fmt: skip
OPTIONAL_COUNTS = ("num_shared_experts", "hash_layers", "mtp_layers")  # zero is none
BOUNDS = {
    "route_scale": 0, "swiglu_limit": 0, "eps": 0, "yarn_beta_fast": 0, "yarn_beta_slow": 0,
    "rope_theta": 1, "compress_rope_theta": 1,
}  # fmt: skip


class ConfigError(ValueError):
    """A model that cannot exist."""


@dataclass(frozen=True)
class ModelConfig:
    """DeepSeek-V4. Sizes are counts of channels, heads, experts or layers; defaults common to Flash and Pro.

    Raises ConfigError, naming field, value and what is accepted, for a model that cannot exist.
    """

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

    def __post_init__(self) -> None:
        self._require("name", isinstance(self.name, str) and bool(self.name), "a non-empty string")
        for fields, least in ((COUNTS, 1), (OPTIONAL_COUNTS, 0)):
            for field in fields:
                self._require(field, _is_count(getattr(self, field), least), f"integers from {least}")
        for field, bound in BOUNDS.items():
            value = getattr(self, field)
            self._require(field, _is_number(value) and value > bound, f"finite numbers above {bound}")
        self._require("yarn_factor", _is_number(self.yarn_factor) and self.yarn_factor >= 1, "finite numbers from 1")
        self._check_layers()
        self._check_sizes()

    def _check_layers(self) -> None:
        ratios = (WINDOW, SPARSE, HEAVY)
        known = isinstance(self.compress_ratios, tuple) and all(_is_count(r, 0) for r in self.compress_ratios)
        known = known and set(self.compress_ratios) <= set(ratios)
        self._require("compress_ratios", known, f"a tuple of {', '.join(map(str, ratios))}")
        one_each = len(self.compress_ratios) == self.num_layers
        self._require("compress_ratios", one_each, f"num_layers = {self.num_layers} ratios, one per layer")
        self._require("hash_layers", self.hash_layers <= self.num_layers, f"at most num_layers = {self.num_layers}")

    def _check_sizes(self) -> None:
        heads, experts = self.num_heads, self.num_experts
        self._require("o_groups", heads % self.o_groups == 0, f"divisors of num_heads = {heads}")
        self._require("rope_dim", self.rope_dim % 2 == 0, "even numbers: channels rotate in pairs")
        self._require("rope_dim", self.rope_dim <= self.head_dim, f"at most head_dim = {self.head_dim}")
        self._require("rope_dim", self.rope_dim <= self.index_dim, f"at most index_dim = {self.index_dim}")
        self._require("experts_per_token", self.experts_per_token <= experts, f"at most num_experts = {experts}")
        slow = self.yarn_beta_slow
        self._require("yarn_beta_fast", self.yarn_beta_fast > slow, f"numbers above yarn_beta_slow = {slow}")

    def _require(self, field: str, holds: bool, accepted: str) -> None:
        if not holds:
            raise ConfigError(f"{field} = {getattr(self, field)!r}; accepted: {accepted}")

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
    def nano(cls, **over: Any) -> Self:
        """Four layers and 45 M parameters: what the benchmarks train on two CPU cores; `over` replaces any field."""
        base = cls(
            "nano", hidden_size=512, num_layers=4, num_heads=8, q_lora_rank=256, o_groups=2, num_experts=8,
            expert_size=512, route_scale=1.5, index_topk=128, compress_ratios=(WINDOW, SPARSE, HEAVY, SPARSE),
            vocab_size=8192, head_dim=128, rope_dim=32, o_lora_rank=256, experts_per_token=2, hash_layers=1,
            index_heads=16, index_dim=64,
        )  # fmt: skip
        return replace(base, **over)

    @classmethod
    def tiny(cls, **over: Any) -> Self:
        """Six layers with every layer kind, small enough to train on two CPU cores; `over` replaces any field."""
        base = cls(
            "tiny", hidden_size=64, num_layers=6, num_heads=4, q_lora_rank=24, o_groups=2, num_experts=8,
            expert_size=32, route_scale=1.5, index_topk=8,
            compress_ratios=(WINDOW, SPARSE, HEAVY, SPARSE, HEAVY, WINDOW),
            vocab_size=512, head_dim=32, rope_dim=8, o_lora_rank=16, experts_per_token=2, index_heads=16, index_dim=16,
            window=16,
        )  # fmt: skip
        return replace(base, **over)

    @classmethod
    def from_hf(
        cls, source: "str | PathLike[str] | Mapping[str, Any] | DeepseekV4Config", name: str = "DeepSeek-V4"
    ) -> Self:
        """The model of a Hugging Face `config.json`: its path, its folder, its content, or a transformers config.

        Reads the released files and what transformers writes. Raises ConfigError for a file that cannot be read, and,
        naming it, for a field that is missing, contradicts another, or asks for another architecture.
        """
        from trex.model import hf

        return cls(name=name, **hf.fields(source))

    def to_hf(self) -> "DeepseekV4Config":
        """The transformers config of the same model; see `trex.model.hf.to_hf`, and there for what is refused."""
        from trex.model import hf

        return hf.to_hf(self)


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max
