"""Partial interleaved RoPE, the definition."""

import torch
from torch import Tensor

from trex.kernels.precision import wide


def rope(x: Tensor, cos: Tensor, sin: Tensor, inverse: bool = False) -> Tensor:
    """Rotate the pairs (2k, 2k + 1) of the trailing R channels by the angle whose cosine and sine are given.

    x: [..., D], any floating dtype. cos, sin: [..., R / 2], R <= D, leading dimensions broadcast against those of x.
    inverse: rotate back. Returns x's shape and dtype; computed in at least float32.
    Source: official `inference/model.py` of DeepSeek-V4 (`apply_rotary_emb`).
    """
    rotated = 2 * cos.shape[-1]
    kept, tail = x.split([x.shape[-1] - rotated, rotated], dim=-1)
    even, odd = wide(tail).unflatten(-1, (-1, 2)).unbind(-1)
    sin = -sin if inverse else sin
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
    return torch.cat((kept, turned.to(x.dtype)), dim=-1)
