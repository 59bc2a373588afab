"""Cross-entropy of a linear head for the CPU: loss and gradient of a few tokens at a time, in one go.

The gradient of the logits, softmax − one-hot, is known in the forward pass, up to the factor of the loss's own
gradient; it is multiplied into the gradients of hidden states and weight there, so no product is computed twice.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trex.kernels.cross_entropy.reference import IGNORE
from trex.kernels.precision import no_autocast, product_dtype, wide

CHUNK = 256  # tokens


def linear_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """As `reference.linear_cross_entropy`; differentiable once."""
    dtype = product_dtype(hidden)
    with no_autocast(hidden):
        loss: Tensor = _CrossEntropy.apply(hidden, weight, targets, dtype, torch.is_grad_enabled())
    return loss


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, dtype: torch.dtype, training: bool
    ) -> Tensor:
        need_hidden, need_weight = (training and needed for needed in ctx.needs_input_grad[:2])
        matrix = weight.to(dtype)
        total = wide(hidden.new_zeros(()))
        dhidden = torch.empty_like(hidden) if need_hidden else None
        dweight = torch.zeros_like(weight, dtype=total.dtype) if need_weight else None
        for begin in range(0, len(hidden), CHUNK):
            here = slice(begin, begin + CHUNK)
            h, kept = hidden[here].to(dtype), (targets[here] != IGNORE).unsqueeze(-1)
            place = targets[here].masked_fill(targets[here] == IGNORE, 0).unsqueeze(-1)
            p = wide(h @ matrix.t())
            p.sub_(p.amax(dim=-1, keepdim=True))
            own = p.gather(-1, place)
            norm = p.exp_().sum(dim=-1, keepdim=True)
            total += ((norm.log() - own) * kept).sum()
            if not (need_hidden or need_weight):
                continue
            p.mul_(kept / norm).scatter_add_(-1, place, -kept.to(p.dtype))
            dlogits = p.to(dtype)
            if dhidden is not None:
                dhidden[here] = dlogits @ matrix
            if dweight is not None:
                dweight += dlogits.t() @ h
        ctx.save_for_backward(dhidden, None if dweight is None else dweight.to(weight.dtype))
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        dhidden, dweight = ctx.saved_tensors
        scaled = [None if gradient is None else gradient * g.to(gradient.dtype) for gradient in (dhidden, dweight)]
        return scaled[0], scaled[1], None, None, None
