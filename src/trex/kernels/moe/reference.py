"""Mixture of experts, the definition.

Source: DeepSeek-V4 report (arXiv 2606.19348) §2.1 and the official `inference/model.py`; DeepSeek-V3 report
(arXiv 2412.19437) §2.1.2 for the selection bias.
"""

import torch
from torch import Tensor
from torch.nn.functional import linear, softplus

from trex.kernels.precision import no_autocast, product_dtype, wide

LEAST = 1e-20  # keeps 0/0 away where every score underflows


def router_scores(x: Tensor, weight: Tensor) -> Tensor:
    """sqrt(softplus(weight · x)), the affinity of each token to each expert.

    x: [T, d]. weight: [E, d]. Returns [T, E], at least float32, as is the product.
    """
    with no_autocast(x):
        u = wide(x)
        # where softplus underflows, the slope of the root would be infinite times zero
        return softplus(linear(u, weight.to(u.dtype))).clamp_min(torch.finfo(u.dtype).tiny).sqrt()


def select_experts(scores: Tensor, bias: Tensor, k: int) -> Tensor:
    """The k experts of the highest score + bias; the bias decides here and nowhere else. Returns [T, k] int64."""
    return (scores + bias).topk(k, dim=-1, sorted=False).indices


def routing_weights(scores: Tensor, experts: Tensor, scale: float) -> Tensor:
    """scale · s / Σ s over the chosen experts. scores: [T, E]. experts: [T, k] int64. Returns [T, k]."""
    chosen = scores.gather(-1, experts)
    return scale * chosen / (chosen.sum(dim=-1, keepdim=True) + LEAST)


def permute(x: Tensor, experts: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of `x` once per chosen expert, grouped by expert, by token within.

    x: [T, d]. experts: [T, k] int64. Returns rows [T·k, d]; order [T·k] int64, row i being choice order[i] of the
    flattened `experts`; counts [E] int64, rows of each expert.
    """
    order = experts.flatten().argsort(stable=True)
    counts = experts.flatten().bincount(minlength=num_experts)
    return x.index_select(0, order // experts.shape[1]), order, counts


def unpermute(rows: Tensor, order: Tensor, tokens: int) -> Tensor:
    """The inverse of `permute`: the sum of each token's rows. rows: [T·k, d]. Returns [T, d], at least float32."""
    back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    summed = wide(rows).index_select(0, back).view(tokens, len(rows) // max(1, tokens), rows.shape[-1])
    return summed.sum(dim=1)


def grouped_matmul(rows: Tensor, weight: Tensor, counts: Tensor) -> Tensor:
    """rows_e · weight_eᵀ for each group of rows. rows: [T, in], grouped. weight: [E, out, in]. counts: [E] int64.

    Returns [T, out] in the dtype of products; an expert without rows gets a gradient of zeros.
    """
    dtype = product_dtype(rows)
    with no_autocast(rows):  # all matrices are cast at once, so that their gradients are too
        pieces = zip(rows.to(dtype).split(counts.tolist()), weight.to(dtype).unbind(), strict=True)
        return torch.cat([linear(piece, matrix) for piece, matrix in pieces])
