"""RMSNorm, the definition."""

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """y = weight · x / sqrt(mean(x²) + eps), the mean over the last dimension.

    x: [..., D], any floating dtype. weight: [D] or None (DeepSeek-V4's queries have none). Returns [..., D] in x's
    dtype; computed in float32, or float64 where x is float64. Source: official `inference/model.py` of DeepSeek-V4.
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    y = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    if weight is not None:
        y = y * weight.to(y.dtype)
    return y.to(x.dtype)
