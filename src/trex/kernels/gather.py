"""Rows of a tensor picked by each query for itself."""

import torch
from torch import Tensor


def flat_rows(index: Tensor, n: int) -> Tensor:
    """Places in a [B, n, c] tensor flattened to [B·n, c], of `index` [B, Q, K]. Returns [B·Q·K]."""
    b = index.shape[0]
    return (index + torch.arange(b, device=index.device).mul(n).view(-1, 1, 1)).flatten()


def gather_rows(x: Tensor, index: Tensor) -> Tensor:
    """x[b, index[b, q, k]]. x: [B, N, c]. index: [B, Q, K] int64, from 0. Returns [B, Q, K, c]."""
    b, n, c = x.shape
    return x.reshape(b * n, c).index_select(0, flat_rows(index, n)).view(*index.shape, c)
