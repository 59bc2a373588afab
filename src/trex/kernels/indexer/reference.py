"""The lightning indexer, the definition.

Source: DeepSeek-V4 report (arXiv 2606.19348) §2.3.1; loss: DeepSeek-V3.2 report (arXiv 2512.02556) §2.1.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from trex.kernels.gather import gather_rows
from trex.kernels.precision import no_autocast, product_dtype, wide


def index_scores(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    """I[t, j] = Σ_h w[t, h] · ReLU(q[t, h] · k[j]).

    q: [B, S, H, c]. k: [B, N, c], or [B, S, N, c] where every query has its own entries. w: [B, S, H], the scaling by
    c^-½ and H^-½ included. Returns [B, S, N], at least float32.
    """
    dtype = product_dtype(q)
    with no_autocast(q):
        keys = k.unsqueeze(1) if k.dim() == 3 else k
        products = torch.matmul(q.to(dtype), keys.to(dtype).transpose(-1, -2))
        return torch.matmul(wide(w).unsqueeze(-2), wide(products).relu()).squeeze(-2)


def top_entries(scores: Tensor, k: int) -> Tensor:
    """The k entries of the highest score, in rising order; of equal scores the earlier entries.

    scores: [..., N], -inf for entries that may not be chosen. Returns [..., min(k, N)] int64; -1, at the end, where
    fewer than k may be chosen.
    """
    n = scores.shape[-1]
    k = min(k, n)
    best, chosen = scores.topk(min(k + 1, n), dim=-1)
    chosen = chosen[..., :k]
    if k < n:  # topk promises no order among equals, so where the border runs between equals, choose once more
        equal = (best[..., k - 1] == best[..., k]) & (best[..., k] != -torch.inf)
        if equal.any():
            order = scores[equal].sort(dim=-1, descending=True, stable=True).indices
            chosen[equal] = order[:, :k]
    chosen = chosen.masked_fill(best[..., :k] == -torch.inf, n).sort(dim=-1).values
    return chosen.masked_fill(chosen == n, -1)


def indexer_kl(scores: Tensor, mass: Tensor) -> Tensor:
    """KL(p ‖ softmax(scores)) of each query over its entries, p the attention's mass on them, summed to one.

    scores: [..., N], -inf for entries that the query does not see. mass: [..., N], the softmax probabilities of the
    attention, with its full denominator, summed over heads; 0 where the query does not see the entry. No gradient
    reaches the mass. Returns [...], 0 for a query that sees no entry.
    """
    seen = scores != -torch.inf
    p = wide(mass.detach())
    p = p / p.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(p.dtype).tiny)
    # a query without entries: any finite row does, as its p is 0
    log_q = scores.masked_fill(~seen.any(dim=-1, keepdim=True), 0).log_softmax(dim=-1).masked_fill(~seen, 0)
    return (torch.xlogy(p, p) - p * log_q).sum(dim=-1)


@torch.no_grad()
def select_entries(
    q: Tensor, k: Tensor, w: Tensor, offset: Tensor, visible: Tensor, top_k: int, chunk: int = 256
) -> Tensor:
    """`top_entries` of `index_scores` among the entries that each query sees, for `chunk` queries at a time.

    q: [B, S, H, c]. k: [B, N, c]. w: [B, S, H]. offset, visible: [B or 1, S]; query t sees the entries from offset[t]
    on, visible[t] in number. Returns [B, S, min(top_k, N)] int64, see `top_entries`; no gradient.
    """
    pieces = zip(q.split(chunk, 1), w.split(chunk, 1), offset.split(chunk, 1), visible.split(chunk, 1), strict=True)
    return torch.cat(
        [top_entries(masked_scores(index_scores(qs, k, ws), o, v), top_k) for qs, ws, o, v in pieces], dim=1
    )


def indexer_loss(
    q: Tensor, k: Tensor, w: Tensor, mass: Tensor, offset: Tensor, visible: Tensor, selected: Tensor | None = None,
    chunk: int = 256,
) -> Tensor:  # fmt: skip
    """`indexer_kl` of each query, over the selected entries or, where none are given, over all that it sees.

    q, k, w, offset, visible: as in `select_entries`. mass: [B, S, K] beside selected [B, S, K], else [B, S, N]. The
    scores of `chunk` queries exist at a time, and again in the backward pass. Returns [B, S].
    """

    def piece(qs: Tensor, ws: Tensor, ms: Tensor, o: Tensor, v: Tensor, chosen: Tensor | None) -> Tensor:
        if chosen is None:
            return indexer_kl(masked_scores(index_scores(qs, k, ws), o, v), ms)
        scores = index_scores(qs, gather_rows(k, chosen.clamp_min(0)), ws)
        return indexer_kl(scores.masked_fill(chosen < 0, -torch.inf), ms)

    whole = (q, w, mass, offset, visible)
    pieces = list(zip(*(tensor.split(chunk, 1) for tensor in whole), strict=True))
    chosen = selected.split(chunk, 1) if selected is not None else [None] * len(pieces)
    return torch.cat(
        [checkpoint(piece, *tensors, c, use_reentrant=False) for tensors, c in zip(pieces, chosen, strict=True)], dim=1
    )


def masked_scores(scores: Tensor, offset: Tensor, visible: Tensor) -> Tensor:
    """-inf for entries that a query does not see. scores: [B, S, N]. offset, visible: [B or 1, S]."""
    entry = torch.arange(scores.shape[-1], device=scores.device)
    first = offset.unsqueeze(-1)
    return scores.masked_fill((entry < first) | (entry >= first + visible.unsqueeze(-1)), -torch.inf)
