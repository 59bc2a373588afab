"""The indexer's selection for the CPU: products on the matrix units, ReLU and weighted sum in one pass over them."""

import torch
from torch import Tensor

from trex.kernels.compiler import compiled
from trex.kernels.indexer.reference import masked_scores, top_entries
from trex.kernels.precision import no_autocast, product_dtype, wide

PRODUCTS = 2**22  # elements at a time: 8 MiB in bfloat16


@torch.no_grad()
def select_entries(q: Tensor, k: Tensor, w: Tensor, offset: Tensor, visible: Tensor, top_k: int) -> Tensor:
    """As `reference.select_entries`; entries that no query of a chunk sees are not scored."""
    dtype, n = product_dtype(q), k.shape[1]
    b, s, heads, _ = q.shape
    chosen = torch.full((b, s, min(top_k, n)), -1, dtype=torch.int64, device=q.device)
    chunk = max(1, PRODUCTS // max(1, b * heads * n))
    with no_autocast(q):
        q, k, w = q.to(dtype), k.to(dtype), wide(w)
        for begin in range(0, s, chunk):
            here = slice(begin, begin + chunk)
            low = int(offset[:, here].amin())
            high = max(low, int((offset[:, here] + visible[:, here]).amax()))
            queries, keys = q[:, here], k[:, low:high]
            products = (queries.flatten(1, 2) @ keys.transpose(1, 2)).unflatten(1, queries.shape[1:3])
            scores = masked_scores(_weighted_relu(products, w[:, here]), offset[:, here] - low, visible[:, here])
            best = top_entries(scores, top_k)
            chosen[:, here, : best.shape[-1]] = torch.where(best < 0, -1, best + low)
    return chosen


@compiled
def _weighted_relu(products: Tensor, w: Tensor) -> Tensor:
    return (products.to(w.dtype).relu() * w.unsqueeze(-1)).sum(dim=2)
