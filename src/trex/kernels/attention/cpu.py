"""Shared-KV attention for the CPU: products over blocks that stay in cache, and a gradient that keeps no probabilities.

Forward saves the output o and ℓ = log(exp(sink) + Σ exp(s)), one number per query and head. With g the gradient of o:

    p = exp(s − ℓ)        δ = g·o               ds = p ⊙ (g·kᵀ − δ)
    dq = ds·k / √c        dk = dsᵀ·q / √c + pᵀ·g        dsink = −Σ exp(sink − ℓ)·δ

The entries of a chunk of queries are either all multiplied and masked, or, where they are many more than the selected,
gathered for each query.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trex.kernels.attention.reference import far_mask, near_mask
from trex.kernels.gather import flat_rows, gather_rows
from trex.kernels.precision import no_autocast, product_dtype

CHUNK = 128  # queries
GATHER_FROM = 4  # gather where the entries of a chunk are so many times the selected
GATHERED = 2**21  # elements of the keys gathered at a time


def shared_kv_attention(
    q: Tensor, kv: Tensor, entries: Tensor, sink: Tensor, window: int, start: Tensor, offset: Tensor, visible: Tensor,
    selected: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As `reference.shared_kv_attention`; differentiable once."""
    dtype = product_dtype(q)
    with no_autocast(q):
        q, kv, entries = q.to(dtype), kv.to(dtype), entries.to(dtype)
        out, mass = _Attention.apply(q, kv, entries, sink, window, start, offset, visible, selected)
    return out, mass


@dataclass(frozen=True)
class _Chunk:
    """Queries and the keys they meet: a stretch of the window's keys, and a stretch of entries or their own ones."""

    here: slice  # queries
    near: slice  # keys of the window
    far: slice  # entries; with a gather, all those from which the selected come
    hidden: Tensor  # [B or 1, Q, 1, keys] bool: what is not seen
    own: Tensor | None  # [B, Q, K] int64, with a gather


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, kv: Tensor, entries: Tensor, sink: Tensor, window: int, start: Tensor, offset: Tensor,
        visible: Tensor, selected: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        b, s, heads, _ = q.shape
        wide = torch.promote_types(q.dtype, torch.float32)
        out = torch.empty_like(q)
        norm = torch.empty(b, s, heads, dtype=wide, device=q.device)
        mass = torch.zeros(
            selected.shape if selected is not None else (b, s, entries.shape[1]), dtype=wide, device=q.device
        )
        sinks = sink.detach().to(wide)
        for chunk in _chunks(q, entries.shape[1], window, start, offset, visible, selected):
            near, far, p = _keys_and_logits(chunk, q, kv, entries)
            top = torch.maximum(p.amax(dim=-1), sinks)
            p = p.sub_(top.unsqueeze(-1)).exp_()
            total = p.sum(dim=-1) + torch.exp(sinks - top)
            norm[:, chunk.here] = top + total.log()
            p = p.div_(total.unsqueeze(-1))
            out[:, chunk.here] = _weighted(p, near, far, chunk)
            _add_mass(mass, p, chunk, selected)
        ctx.save_for_backward(q, kv, entries, sinks, out, norm, start, offset, visible, selected)
        ctx.window = window
        ctx.mark_non_differentiable(mass)
        return out, mass

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        q, kv, entries, sinks, out, norm, *seen = ctx.saved_tensors
        wide, scale = norm.dtype, q.shape[-1] ** -0.5
        dq = torch.empty_like(q)
        dkv, dentries = (torch.zeros(x.shape, dtype=wide, device=x.device) for x in (kv, entries))
        dsink = torch.zeros_like(sinks)
        for chunk in _chunks(q, entries.shape[1], ctx.window, *seen):
            here = chunk.here
            near, far, p = _keys_and_logits(chunk, q, kv, entries)
            p = p.sub_(norm[:, here].unsqueeze(-1)).exp_()
            g_here = g[:, here].to(q.dtype)
            delta = (g_here.to(wide) * out[:, here].to(wide)).sum(dim=-1)
            dsink -= (torch.exp(sinks - norm[:, here]) * delta).sum(dim=(0, 1))
            ds = _products(g_here, near, far, chunk).sub_(delta.unsqueeze(-1)).mul_(p).mul_(scale)
            dq[:, here] = _weighted(ds, near, far, chunk)
            p, ds = p.to(q.dtype), ds.to(q.dtype)
            w = near.shape[1]
            q_rows, g_rows = q[:, here].flatten(1, 2), g_here.flatten(1, 2)
            shared = ds[..., :w] if chunk.own is not None else ds
            shared_p = p[..., :w] if chunk.own is not None else p
            dkeys = shared.flatten(1, 2).transpose(1, 2) @ q_rows + shared_p.flatten(1, 2).transpose(1, 2) @ g_rows
            dkv[:, chunk.near] += dkeys[:, :w]
            if chunk.own is None:
                dentries[:, chunk.far] += dkeys[:, w:]
            else:
                own = ds[..., w:].transpose(2, 3) @ q[:, here] + p[..., w:].transpose(2, 3) @ g_here
                _scatter(dentries, chunk.own, own)
        return dq, dkv.to(kv.dtype), dentries.to(entries.dtype), dsink, None, None, None, None, None


def _chunks(
    q: Tensor, n: int, window: int, start: Tensor, offset: Tensor, visible: Tensor, selected: Tensor | None
) -> Iterator[_Chunk]:
    s = q.shape[1]
    k = selected.shape[-1] if selected is not None else n
    low = [int(o.amin()) for o in offset.split(CHUNK, 1)]
    high = [int(e.amax()) for e in (offset + visible).split(CHUNK, 1)]
    for number, begin in enumerate(range(0, s, CHUNK)):
        end = min(begin + CHUNK, s)
        width = max(0, high[number] - low[number])
        gather = selected is not None and width > GATHER_FROM * k
        step = max(1, min(CHUNK, GATHERED // (q.shape[0] * k * q.shape[-1]))) if gather else CHUNK
        for b in range(begin, end, step):
            e = min(b + step, end)
            first = max(0, b - window + 1)
            near = near_mask(start[:, b:e], b, first, window)
            if gather and selected is not None:
                far, own = selected[:, b:e] >= 0, selected[:, b:e].clamp_min(0)
            else:
                chosen = selected[:, b:e] if selected is not None else None
                far, own = far_mask(offset[:, b:e], visible[:, b:e], low[number], width, chosen), None
            shape = (max(len(near), len(far)), -1, -1)
            hidden = torch.cat((near.expand(shape), far.expand(shape)), dim=-1).logical_not_().unsqueeze(2)
            yield _Chunk(slice(b, e), slice(first, e), slice(low[number], low[number] + width), hidden, own)


def _keys_and_logits(chunk: _Chunk, q: Tensor, kv: Tensor, entries: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keys of the window [B, W, c], entries [B, n, c] or gathered [B, Q, K, c], and the scaled, masked logits."""
    near = kv[:, chunk.near]
    far = entries[:, chunk.far] if chunk.own is None else gather_rows(entries, chunk.own)
    logits = _products(q[:, chunk.here], near, far, chunk).mul_(q.shape[-1] ** -0.5)
    return near, far, logits.masked_fill_(chunk.hidden, -torch.inf)


def _products(x: Tensor, near: Tensor, far: Tensor, chunk: _Chunk) -> Tensor:
    """x·kᵀ with every key, [B, Q, H, keys], at least float32. x: [B, Q, H, c]."""
    wide = torch.promote_types(x.dtype, torch.float32)
    rows = x.flatten(1, 2)
    if chunk.own is None:
        keys = torch.cat((near, far), dim=1) if far.shape[1] else near
        return (rows @ keys.transpose(1, 2)).unflatten(1, x.shape[1:3]).to(wide)
    shared = (rows @ near.transpose(1, 2)).unflatten(1, x.shape[1:3])
    return torch.cat((shared, x @ far.transpose(2, 3)), dim=-1).to(wide)


def _weighted(p: Tensor, near: Tensor, far: Tensor, chunk: _Chunk) -> Tensor:
    """Σ p·k over every key, [B, Q, H, c]. p: [B, Q, H, keys]."""
    p = p.to(near.dtype)
    if chunk.own is None:
        keys = torch.cat((near, far), dim=1) if far.shape[1] else near
        return (p.flatten(1, 2) @ keys).unflatten(1, p.shape[1:3])
    w = near.shape[1]
    shared = (p[..., :w].flatten(1, 2) @ near).unflatten(1, p.shape[1:3])
    return shared + p[..., w:] @ far


def _add_mass(mass: Tensor, p: Tensor, chunk: _Chunk, selected: Tensor | None) -> None:
    w = chunk.near.stop - chunk.near.start
    of_entries = p[..., w:].sum(dim=2)
    if selected is None:
        mass[:, chunk.here, chunk.far] = of_entries
    elif chunk.own is not None:
        mass[:, chunk.here] = of_entries
    elif of_entries.shape[-1]:
        chosen = selected[:, chunk.here]
        place = (chosen - chunk.far.start).clamp_min(0)
        mass[:, chunk.here] = of_entries.gather(-1, place).masked_fill(chosen < 0, 0)


def _scatter(dentries: Tensor, own: Tensor, gradient: Tensor) -> None:
    b, n, c = dentries.shape
    dentries.view(b * n, c).index_add_(0, flat_rows(own, n), gradient.to(dentries.dtype).view(-1, c))
