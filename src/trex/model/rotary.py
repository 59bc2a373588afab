"""Rotary frequencies and the cosines and sines of positions.

Window layers turn by plain frequencies; layers with compressed entries turn everything by frequencies stretched with
YaRN (arXiv 2309.00071), without its scaling of the softmax. Source: official `inference/model.py` of DeepSeek-V4.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trex.model.config import WINDOW, ModelConfig
from trex.model.documents import Documents


def frequencies(config: ModelConfig, ratio: int) -> Tensor:
    """Angle per position of each pair of channels, [rope_dim / 2] float64, for a layer of that compression ratio."""
    r = config.rope_dim
    theta = config.rope_theta if ratio == WINDOW else config.compress_rope_theta
    plain = theta ** (-torch.arange(0, r, 2, dtype=torch.float64) / r)
    if ratio == WINDOW:
        return plain

    def pair(turns: float) -> float:
        """The pair that makes so many turns within the original context."""
        return r * math.log(config.yarn_original / (2 * math.pi * turns)) / (2 * math.log(theta))

    low = max(math.floor(pair(config.yarn_beta_fast)), 0)
    high = min(math.ceil(pair(config.yarn_beta_slow)), r - 1)
    width = max(high - low, 0.001)  # as the official code: no division by zero
    ramp = ((torch.arange(r // 2, dtype=torch.float64) - low) / width).clamp(0, 1)
    return plain / config.yarn_factor * ramp + plain * (1 - ramp)


@dataclass(frozen=True)
class Turns:
    """Cosines and sines of the positions of tokens, and of the first tokens of blocks, for one layer kind."""

    cos: Tensor  # [B or 1, S, rope_dim / 2]
    sin: Tensor
    block_cos: Tensor | None = None  # [B or 1, N, rope_dim / 2]
    block_sin: Tensor | None = None


def turns(config: ModelConfig, documents: Documents, ratio: int, dtype: torch.dtype) -> Turns:
    """The turns of one layer kind; angles are computed in float64, cosines and sines returned in `dtype`.

    The official code rounds frequencies and angles to float32, which at position 65,536 is up to 0.004 rad away.
    """
    frequency = frequencies(config, ratio).to(documents.position.device)

    def of(position: Tensor) -> tuple[Tensor, Tensor]:
        angle = position.unsqueeze(-1) * frequency
        return angle.cos().to(dtype), angle.sin().to(dtype)

    if ratio == WINDOW:
        return Turns(*of(documents.position))
    return Turns(*of(documents.position), *of(documents.blocks[ratio].position))
