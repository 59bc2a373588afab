"""Tensor parallelism of the vocabulary: each rank has V / tp rows of the embedding and of the head.

    embedding       one all-reduce (with sequence parallelism: one reduce-scatter) of [B, S, d] per lookup
    cross-entropy   one all-gather of 3 numbers per token; no rank ever holds the logits of all words

Source: Megatron-LM (arXiv 1909.08053, §3).
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from trex.kernels.precision import no_autocast, product_dtype, wide
from trex.model.losses import IGNORE
from trex.model.transformer import Embedding
from trex.parallel.collectives import Axis, all_gather

TOKENS = 1024  # whose logits are held at a time


class VocabularyParallelEmbedding(Embedding):
    """Rows first … first + V / tp of the embedding. What it returns is this rank's part of the sum over ranks."""

    axis: Axis

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: [B, S] ids of the whole vocabulary. Returns [B, S, d], 0 for the words of other ranks."""
        rows = self.weight.shape[0]
        local = tokens - self.axis.rank * rows
        mine = (local >= 0) & (local < rows)
        return functional.embedding(local.where(mine, 0), self.weight) * mine.unsqueeze(-1)


def linear_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, axis: Axis) -> Tensor:
    """Cross-entropy of a head whose rows are split over ranks, summed over tokens; target -100 is none.

    hidden: [T, d], the same on all ranks, its gradient to be summed over them (see `collectives.copy`). weight:
    [V / tp, d]. targets: [T] int64 ids of the whole vocabulary. Returns a scalar, at least float32, on all ranks.
    """
    return _LinearCrossEntropy.apply(hidden, weight, targets, axis)


class _LinearCrossEntropy(Function):
    """The logits are computed twice and never held whole."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, axis: Axis) -> Tensor:
        known, dtype = targets != IGNORE, product_dtype(hidden)
        found = []
        with no_autocast(hidden):
            for states, place, mine in _chunks(hidden, weight, targets, axis):
                logits = wide(states.to(dtype) @ weight.to(dtype).T)
                most = logits.amax(dim=1)
                right = logits.gather(1, place.unsqueeze(1)).squeeze(1).where(mine, 0)
                found.append(torch.stack([most, (logits - most.unsqueeze(1)).exp().sum(dim=1), right]))
        most, sums, right = all_gather(torch.cat(found, dim=1).unsqueeze(0), axis).unbind(dim=1)
        top = most.amax(dim=0)
        log_sum = top + (sums * (most - top).exp()).sum(dim=0).log()
        ctx.axis, ctx.dtype = axis, dtype
        ctx.save_for_backward(hidden, weight, targets, log_sum)
        return ((log_sum - right.sum(dim=0)) * known).sum()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        hidden, weight, targets, log_sum = ctx.saved_tensors
        known = (targets != IGNORE).unsqueeze(1)
        rows = weight.to(ctx.dtype)
        to_hidden = torch.empty_like(hidden)
        to_weight = torch.zeros_like(weight, dtype=log_sum.dtype)
        begin = 0
        for states, place, mine in _chunks(hidden, weight, targets, ctx.axis):
            part = slice(begin, begin + len(states))
            states = states.to(ctx.dtype)
            slope = (wide(states @ rows.T) - log_sum[part].unsqueeze(1)).exp()
            slope.scatter_add_(1, place.unsqueeze(1), -mine.to(slope.dtype).unsqueeze(1))
            slope = (slope * known[part] * grads[0]).to(ctx.dtype)
            to_hidden[part] = slope @ rows
            to_weight += slope.T @ states
            begin += len(states)
        return to_hidden, to_weight.to(weight.dtype), None, None


def _chunks(hidden: Tensor, weight: Tensor, targets: Tensor, axis: Axis) -> Any:
    """Some tokens at a time: their states, the place of the target among this rank's words, and whether it is there."""
    local = targets - axis.rank * weight.shape[0]
    mine = (local >= 0) & (local < weight.shape[0])
    return zip(hidden.split(TOKENS), local.where(mine, 0).split(TOKENS), mine.split(TOKENS), strict=True)
