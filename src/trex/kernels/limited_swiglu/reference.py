"""Limited SwiGLU, the definition."""

import torch
from torch import Tensor
from torch.nn.functional import silu


def limited_swiglu(gate: Tensor, up: Tensor, limit: float = 10.0, weight: Tensor | None = None) -> Tensor:
    """y = silu(min(gate, limit)) · clamp(up, −limit, limit) · weight.

    gate, up: [..., D] of one floating dtype. weight: [...], one per token (the routing weight of an expert), or None.
    Returns [..., D] in gate's dtype; computed in float32, or float64 where gate is float64. At a bound the gradient is
    that of the inside: it passes where gate ≤ limit and |up| ≤ limit, and is zero beyond.
    Source: official `inference/model.py` of DeepSeek-V4, where limit is 10.
    """
    wide = torch.promote_types(gate.dtype, torch.float32)
    y = silu(gate.to(wide).clamp(max=limit)) * up.to(wide).clamp(-limit, limit)
    if weight is not None:
        y = y * weight.to(wide).unsqueeze(-1)
    return y.to(gate.dtype)
