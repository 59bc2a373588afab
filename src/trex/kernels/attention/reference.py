"""Shared-KV attention, the definition: one softmax over window, compressed entries and sink; a key is also its value.

Source: DeepSeek-V4 report (arXiv 2606.19348) §2.3 and the official `inference/model.py`.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from trex.kernels.precision import no_autocast, product_dtype, wide


def attend(q: Tensor, keys: Tensor, seen: Tensor, sink: Tensor) -> tuple[Tensor, Tensor]:
    """p = exp(q·k / √c) / (exp(sink) + Σ exp(q·k / √c)) over the keys seen, and Σ p·k.

    q: [B, Q, H, c]. keys: [B, K, c], shared by the heads. seen: [B or 1, Q, K] bool, at least one key for each query.
    sink: [H], logits without a value. Returns the output [B, Q, H, c] in the dtype of products, and the probabilities
    [B, Q, H, K], at least float32, as is the softmax.
    """
    dtype, heads = product_dtype(q), q.shape[1:3]
    with no_autocast(q):
        keys = keys.to(dtype)
        logits = wide(q.to(dtype).flatten(1, 2) @ keys.transpose(1, 2)).unflatten(1, heads) * q.shape[-1] ** -0.5
        logits = logits.masked_fill(~seen.unsqueeze(2), -torch.inf)
        total = torch.logaddexp(logits.logsumexp(dim=-1), sink.to(logits.dtype))
        p = torch.exp(logits - total.unsqueeze(-1))
        return (p.to(dtype).flatten(1, 2) @ keys).unflatten(1, heads), p


def shared_kv_attention(
    q: Tensor, kv: Tensor, entries: Tensor, sink: Tensor, window: int, start: Tensor, offset: Tensor, visible: Tensor,
    selected: Tensor | None = None, chunk: int = 128,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`attend` of a whole sequence to itself, `chunk` queries at a time; they are computed again in the backward pass.

    Query t sees the tokens of its document among the last `window` up to t itself, and the compressed entries from
    offset[t] on, visible[t] in number, of those the selected ones where a selection is given.

    q: [B, S, H, c]. kv: [B, S, c]. entries: [B, N, c]. sink: [H]. start, offset, visible: [B or 1, S] int64; start[t]
    is the place of the first token of t's document. selected: [B, S, K] int64, each entry once, -1 for none.
    Returns the output [B, S, H, c] in the dtype of products, and the probabilities of the entries summed over heads,
    without gradient: [B, S, K] for the selected, else [B, S, N].
    """
    s, n = q.shape[1], entries.shape[1]
    ends = range(0, s, chunk)
    low = torch.stack([o.amin() for o in offset.split(chunk, 1)]).tolist()
    high = torch.stack([e.amax() for e in (offset + visible).split(chunk, 1)]).tolist()

    def piece(queries: Tensor, keys: Tensor, seen: Tensor, width: int) -> tuple[Tensor, Tensor]:
        out, p = attend(queries, keys, seen, sink)
        return out, p[..., p.shape[-1] - width :].sum(dim=2).detach()

    outputs, masses = [], []
    for begin, lowest, highest in zip(ends, low, high, strict=True):
        end, first = min(begin + chunk, s), max(0, begin - window + 1)
        here, width = slice(begin, end), max(0, highest - lowest)
        near = near_mask(start[:, here], begin, first, window)
        far = far_mask(
            offset[:, here], visible[:, here], lowest, width, selected[:, here] if selected is not None else None
        )
        shape = (max(len(near), len(far)), -1, -1)
        keys = torch.cat((kv[:, first:end], entries[:, lowest : lowest + width].to(kv.dtype)), dim=1)
        seen = torch.cat((near.expand(shape), far.expand(shape)), dim=-1)
        out, mass = checkpoint(piece, q[:, here], keys, seen, width, use_reentrant=False)
        outputs.append(out)
        masses.append(_spread(mass, lowest, n, selected[:, here] if selected is not None else None))
    return torch.cat(outputs, dim=1), torch.cat(masses, dim=1)


def near_mask(start: Tensor, begin: int, first: int, window: int) -> Tensor:
    """Which tokens from `first` on the queries from `begin` on see: [B or 1, Q, K] bool."""
    t = torch.arange(begin, begin + start.shape[1], device=start.device).unsqueeze(-1)
    key = torch.arange(first, begin + start.shape[1], device=start.device)
    return (key <= t) & (key > t - window) & (key >= start.unsqueeze(-1))


def far_mask(offset: Tensor, visible: Tensor, lowest: int, width: int, selected: Tensor | None) -> Tensor:
    """Which of `width` entries from `lowest` on the queries see: [B or 1, Q, width] bool."""
    entry = torch.arange(lowest, lowest + width, device=offset.device)
    first = offset.unsqueeze(-1)
    seen = (entry >= first) & (entry < first + visible.unsqueeze(-1))
    if selected is None:
        return seen
    place = torch.where(selected < 0, width, selected - lowest)  # the place after the last is for none
    chosen = torch.zeros(*selected.shape[:2], width + 1, dtype=torch.bool, device=selected.device)
    return seen & chosen.scatter_(-1, place, True)[..., :width]


def _spread(mass: Tensor, lowest: int, n: int, selected: Tensor | None) -> Tensor:
    """The mass of all n entries, or of the selected, from that of the entries from `lowest` on."""
    if selected is None:
        return torch.nn.functional.pad(mass, (lowest, n - lowest - mass.shape[-1]))
    if not mass.shape[-1]:
        return mass.new_zeros(selected.shape)
    return mass.gather(-1, (selected - lowest).clamp_min(0)).masked_fill(selected < 0, 0)
