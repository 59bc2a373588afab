"""Limited SwiGLU for the CPU: the definition and its gradient, each compiled into one pass.

With a = min(gate, limit), u = clamp(up, −limit, limit), s = σ(a), w the weight and g the output's gradient:

    y = a·s·u·w         dgate = g·w·u·s·(1 + a·(1 − s))  where gate ≤ limit, else 0
                        dup = g·w·a·s                    where |up| ≤ limit, else 0
                        dweight = Σ_channels g·a·s·u

Only the inputs are kept between the two passes.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trex.kernels.compiler import compiled
from trex.kernels.limited_swiglu import reference


def limited_swiglu(gate: Tensor, up: Tensor, limit: float = 10.0, weight: Tensor | None = None) -> Tensor:
    """As `reference.limited_swiglu`; differentiable once."""
    rows = gate.reshape(gate.shape[:-1].numel(), gate.shape[-1])
    if min(rows.shape) < 2:  # nothing to vectorise, and sizes 0 and 1 would each be compiled anew
        return reference.limited_swiglu(gate, up, limit, weight)
    column = None if weight is None else weight.reshape(-1, 1)
    return _LimitedSwiGLU.apply(rows, up.reshape(rows.shape), limit, column).reshape(gate.shape)


class _LimitedSwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, limit: float, weight: Tensor | None) -> Tensor:
        gate, up, weight = gate.detach(), up.detach(), None if weight is None else weight.detach()
        ctx.save_for_backward(gate, up, weight)
        ctx.limit = limit
        return _forward(gate, up, limit, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None, Tensor | None]:
        gate, up, weight = ctx.saved_tensors
        dgate, dup, dweight = _gradients(g, gate, up, ctx.limit, weight)
        return dgate, dup, None, dweight


@compiled
def _forward(gate: Tensor, up: Tensor, limit: float, weight: Tensor | None) -> Tensor:
    wide = torch.promote_types(gate.dtype, torch.float32)
    a, u = gate.to(wide).clamp(max=limit), up.to(wide).clamp(-limit, limit)
    y = a * torch.sigmoid(a) * u
    return (y if weight is None else y * weight.to(wide)).to(gate.dtype)


@compiled
def _gradients(
    g: Tensor, gate: Tensor, up: Tensor, limit: float, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    wide = torch.promote_types(gate.dtype, torch.float32)
    g, gate_wide, up_wide = g.to(wide), gate.to(wide), up.to(wide)
    a, u = gate_wide.clamp(max=limit), up_wide.clamp(-limit, limit)
    s = torch.sigmoid(a)
    dy = g if weight is None else g * weight.to(wide)
    dgate = torch.where(gate_wide <= limit, dy * u * s * (1 + a * (1 - s)), 0.0).to(gate.dtype)
    dup = torch.where(up_wide.abs() <= limit, dy * a * s, 0.0).to(up.dtype)
    dweight = None if weight is None else (g * a * s * u).sum(dim=-1, keepdim=True).to(weight.dtype)
    return dgate, dup, dweight
