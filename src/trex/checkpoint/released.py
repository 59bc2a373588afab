"""What a released DeepSeek-V4 checkpoint holds: every tensor by its official name, its shape and how it is stored.

Linear layers are stored in FP8 (routed experts in FP4) with a scale per block beside them, named `.scale` in the place
of `.weight`. Sources: the released files of Flash and Pro; shapes from `trex.model.weights`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from trex.model.config import ModelConfig
from trex.model.weights import Weight, embedding_weights, head_weights, layer_weights, mtp_weights

KINDS = FP8, FP4, BF16, F32, I64 = "fp8", "fp4", "bf16", "f32", "i64"
EXPERT = re.compile(r"\.ffn\.experts\.(?:\*|\d+)\.w[123]\.weight$")
EIGHT = re.compile(r"\.(?:attn\.(?:wq_[ab]|wkv|wo_[ab]|indexer\.wq_b)|ffn\.shared_experts\.w[123]|[eh]_proj)\.weight$")
FULL = re.compile(r"\.(?:attn_sink|ape|ffn\.gate\.bias)$|(?:^|\.)hc_(?:attn|ffn|head)_(?:fn|base|scale)$")


@dataclass(frozen=True)
class Expected:
    """One tensor of the model, as released."""

    shape: tuple[int, ...]  # of the matrix, not of what is stored: two FP4 values share a byte
    kind: str  # one of KINDS
    part: str | None  # one of trex.model.weights.PARTS; None for token-to-expert tables, which are no parameters

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)


def expected(config: ModelConfig) -> dict[str, Expected]:
    """Every tensor of the released layout by official name, a routed expert's matrices each; scales are not listed.

    Order: embedding, layers from the first to the last, head, MTP blocks.
    """
    return {name: found for weight in _weights(config) for name, found in _copies(weight)}


def kind_of(name: str) -> str:
    """How the tensor of an official name is stored in the release with FP4 experts."""
    if EXPERT.search(name):
        return FP4
    if EIGHT.search(name):
        return FP8
    if name.endswith(".tid2eid"):
        return I64
    return F32 if FULL.search(name) else BF16


def scale_name(name: str) -> str:
    """Name of the scale beside a quantised weight: `….scale` for `….weight`."""
    return name.removesuffix("weight") + "scale"


def _weights(config: ModelConfig) -> Iterator[Weight | tuple[str, Expected]]:
    yield from embedding_weights(config)
    for layer in range(config.num_layers):
        yield from layer_weights(config, layer)
        if layer < config.hash_layers:
            table = Expected((config.vocab_size, config.experts_per_token), I64, None)
            yield f"layers.{layer}.ffn.gate.tid2eid", table
    yield from head_weights(config)
    yield from mtp_weights(config)


def _copies(weight: Weight | tuple[str, Expected]) -> Iterator[tuple[str, Expected]]:
    """The weight under its name, or once per expert."""
    if isinstance(weight, tuple):
        yield weight
        return
    found = Expected(weight.shape, kind_of(weight.name), weight.part)
    if "*" not in weight.name:
        yield weight.name, found
        return
    for expert in range(weight.copies):
        yield weight.name.replace("*", str(expert)), found
