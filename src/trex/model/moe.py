"""Mixture of experts: routing by score or by token id, routed experts, a shared expert, and what balances the load.

Source: DeepSeek-V4 report (arXiv 2606.19348) §2.1; balancing: DeepSeek-V3 report (arXiv 2412.19437) §2.1.2.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trex.kernels import ops
from trex.model.config import ModelConfig
from trex.model.documents import Documents
from trex.model.layers import SwiGLU


@dataclass(frozen=True)
class Routing:
    """Where each token went, and what that says of the balance."""

    load: Tensor  # [E] int64: real tokens of each expert
    balance: Tensor | None  # scalar: sequence balance loss, summed over real tokens; None where a table routes


class Gate(nn.Module):
    """Scores of the experts, and their choice: by a fixed table over token ids in hash layers, else by score + bias.

    The bias is moved by the load (`shift_bias`), never by a gradient.
    """

    def __init__(self, config: ModelConfig, hashed: bool) -> None:
        super().__init__()
        self.k, self.scale = config.experts_per_token, config.route_scale
        self.weight = nn.Parameter(torch.empty(config.num_experts, config.hidden_size))
        self.bias: Tensor | None
        self.tid2eid: Tensor | None
        self.register_buffer("bias", None if hashed else torch.zeros(config.num_experts))
        table = torch.zeros(config.vocab_size, self.k, dtype=torch.int64) if hashed else None
        self.register_buffer("tid2eid", table)

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x: [T, d]. tokens: [T] ids. Returns weights [T, k], experts [T, k] int64 and scores [T, E]."""
        scores = ops.router_scores(x, self.weight)
        if self.tid2eid is not None:
            experts = self.tid2eid[tokens]
        else:
            assert self.bias is not None
            experts = ops.select_experts(scores.detach(), self.bias, self.k)
        return ops.routing_weights(scores, experts, self.scale), experts, scores

    @torch.no_grad()
    def shift_bias(self, load: Tensor, speed: float) -> None:
        """bias_e += speed · sign(mean load - load_e). load: [E], of one optimizer step, over all ranks."""
        if self.bias is not None:
            counts = load.to(self.bias.dtype)
            self.bias += speed * torch.sign(counts.mean() - counts)


class Experts(nn.Module):
    """The routed experts, their matrices stacked: w1 (gate) and w3 (up) [E, I, d], w2 (down) [E, d, I]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        e, i, d = config.num_experts, config.expert_size, config.hidden_size
        self.w1 = nn.Parameter(torch.empty(e, i, d))
        self.w2 = nn.Parameter(torch.empty(e, d, i))
        self.w3 = nn.Parameter(torch.empty(e, i, d))
        self.limit = config.swiglu_limit

    def forward(self, x: Tensor, weights: Tensor, experts: Tensor) -> tuple[Tensor, Tensor]:
        """x: [T, d]. weights, experts: [T, k]. Returns the weighted sum [T, d], at least float32, and the load [E]."""
        rows, order, counts = ops.permute(x, experts, self.w1.shape[0])
        out = self.of_rows(rows, weights.flatten()[order], counts)
        return ops.unpermute(out, order, len(x)), counts

    def of_rows(self, rows: Tensor, weights: Tensor, counts: Tensor) -> Tensor:
        """Each row through its expert, times its weight. rows: [R, d], grouped by expert. weights: [R]. counts: [E]."""
        gate, up = ops.grouped_matmul(rows, self.w1, counts), ops.grouped_matmul(rows, self.w3, counts)
        hidden = ops.limited_swiglu(gate, up, self.limit, weights)
        return ops.grouped_matmul(hidden, self.w2, counts)


class MoE(nn.Module):
    """Routed experts and a shared one. [B, S, d] to [B, S, d]."""

    def __init__(self, config: ModelConfig, hashed: bool) -> None:
        super().__init__()
        self.gate = Gate(config, hashed)
        self.experts = Experts(config)
        width = config.num_shared_experts * config.expert_size
        self.shared_experts = SwiGLU(config.hidden_size, width, config.swiglu_limit) if width else None

    def forward(self, x: Tensor, tokens: Tensor, documents: Documents) -> tuple[Tensor, Routing]:
        """x: [B, S, d], normed. tokens: [B, S] ids."""
        flat = x.flatten(0, 1)
        weights, experts, scores = self.gate(flat, tokens.flatten())
        routed, load = self.experts(flat, weights, experts)
        y = routed.view(x.shape)
        if self.shared_experts is not None:
            y = y + self.shared_experts(x)
        if not documents.padded:
            real_load = load
        else:
            real_load = experts[documents.real.flatten()].flatten().bincount(minlength=len(load))
        balance = None
        if self.gate.tid2eid is None:
            shape = (*x.shape[:2], -1)
            balance = balance_loss(scores.view(shape), experts.view(shape), documents)
        return y.to(x.dtype), Routing(real_load, balance)


def balance_loss(
    scores: Tensor, experts: Tensor, documents: Documents, total: Callable[[Tensor], Tensor] = lambda sums: sums
) -> Tensor:
    """Sequence balance loss Σ_e f_e·P_e of each document, times its tokens, summed: a scalar.

    f_e = E/(k·T)·(tokens of expert e), P_e = mean over the T tokens of score_e / Σ score: 1 in perfect balance.
    scores: [B, S, E]. experts: [B, S, k]. total: makes sums over documents [count, …] whole where others hold the rest
    of their tokens.
    """
    e, k = scores.shape[-1], experts.shape[-1]
    chosen = torch.zeros_like(scores).scatter_(-1, experts, 1.0)
    share = scores / scores.sum(dim=-1, keepdim=True)
    sums = total(documents.per_document(torch.cat([chosen, share, torch.ones_like(share[..., :1])], dim=-1)))
    count, share, tokens = sums.split([e, e, 1], dim=-1)
    return (e / k * count * share / tokens.clamp_min(1)).sum()
