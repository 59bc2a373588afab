"""RMSNorm for the CPU: the definition and its gradient, each compiled into one pass over rows.

With r = (mean(x²) + eps)^-½, n = r·x and h = weight·g for the output's gradient g:

    y = weight·n        dx = r·(h − n·mean(h·n))        dweight = Σ_rows g·n

Only x and r are kept between the two passes.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trex.kernels.compiler import compiled
from trex.kernels.rms_norm import reference


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """As `reference.rms_norm`; differentiable once."""
    rows = x.reshape(x.shape[:-1].numel(), x.shape[-1])
    if min(rows.shape) < 2:  # nothing to vectorise, and sizes 0 and 1 would each be compiled anew
        return reference.rms_norm(x, weight, eps)
    return _RMSNorm.apply(rows, weight, eps).reshape(x.shape)


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        x, weight = x.detach(), None if weight is None else weight.detach()
        y, r = _forward(x, weight, eps)
        ctx.save_for_backward(x, weight, r)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor | None, None]:
        x, weight, r = ctx.saved_tensors
        dx = _input_gradient(g, x, weight, r)
        return dx, _weight_gradient(g, x, r).to(weight.dtype) if ctx.needs_input_grad[1] else None, None


@compiled
def _forward(x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    r = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    y = wide * r if weight is None else wide * r * weight.to(r.dtype)
    return y.to(x.dtype), r


@compiled
def _input_gradient(g: Tensor, x: Tensor, weight: Tensor | None, r: Tensor) -> Tensor:
    n = x.to(r.dtype) * r
    h = g.to(r.dtype) if weight is None else g.to(r.dtype) * weight.to(r.dtype)
    return (r * (h - n * (h * n).mean(dim=-1, keepdim=True))).to(x.dtype)


@compiled
def _weight_gradient(g: Tensor, x: Tensor, r: Tensor) -> Tensor:
    # one long sum per channel: in float64, as the error of a running float32 sum grows with the number of rows
    return (g.to(r.dtype) * (x.to(r.dtype) * r)).sum(dim=0, dtype=torch.float64)
