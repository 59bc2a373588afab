"""mHC for the CPU: the streams are read and written once per pass, and of the coefficients nothing is kept.

The coefficients of a token are 2n + n² numbers; their gradient, 20 Sinkhorn iterations included, is found by computing
them again from m = fn·u / rms(u). With g the gradient of what is read and r = 1 / rms(u):

    dz = dm·r       dfn = dzᵀ·u        du = dz·fn − r²·mean(dm·m)·u + pre ⊗ g
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trex.kernels.compiler import compiled
from trex.kernels.hyper_connections.reference import coefficients
from trex.kernels.precision import no_autocast, wide


def read_streams(
    x: Tensor, fn: Tensor, base: Tensor, scale: Tensor, iterations: int = 20, eps: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """As `reference.read_streams`; differentiable once."""
    n, d = x.shape[-2:]
    h, post, mix = _Read.apply(x.reshape(-1, n, d), fn, base, scale, iterations, eps)
    lead = x.shape[:-2]
    return h.view(*lead, d), post.view(*lead, n), mix.view(*lead, n, n)


def write_streams(y: Tensor, x: Tensor, post: Tensor, mix: Tensor) -> Tensor:
    """As `reference.write_streams`; differentiable once."""
    n, d = x.shape[-2:]
    rows = (y.reshape(-1, d), x.reshape(-1, n, d), post.reshape(-1, n), mix.reshape(-1, n, n))
    return _Write.apply(*rows).view(x.shape)


def sinkhorn(logits: Tensor, iterations: int, eps: float) -> Tensor:
    """As `reference.sinkhorn`; differentiable once. logits: [T, n, n]."""
    return _Sinkhorn.apply(logits, iterations, eps)


class _Sinkhorn(torch.autograd.Function):
    """Division by sums d = Σ a + eps has the gradient da = (dk − Σ dk·k) / d, which no large number enters."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, iterations: int, eps: float) -> Tensor:
        by_place = logits.detach().permute(1, 2, 0).contiguous()  # [n, n, T]: one vector of tokens per place
        ctx.save_for_backward(by_place)
        ctx.iterations, ctx.eps = iterations, eps
        *_, (_, _, k, _) = _steps(by_place, iterations, eps)
        return k.permute(2, 0, 1).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        (by_place,) = ctx.saved_tensors
        g = g.permute(1, 2, 0).contiguous()
        first, *others = _steps(by_place, ctx.iterations, ctx.eps)
        for step in reversed(others):
            g = _step_input(g, *step)
        _, _, k, divisor = first
        g = (g - (g * k).sum(dim=0, keepdim=True)) / divisor
        p = by_place.softmax(dim=1)
        return (p * (g - (g * p).sum(dim=1, keepdim=True))).permute(2, 0, 1), None, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, fn: Tensor, base: Tensor, scale: Tensor, iterations: int, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        with no_autocast(x):
            u = wide(x).flatten(1)
            r = torch.rsqrt(_mean_square(u) + eps)
            m = torch.nn.functional.linear(u, fn.to(u.dtype)) * r
            pre, post, mix = coefficients(m, base, scale, x.shape[1], iterations, eps, sinkhorn)
            h = _weighted_sum(x, pre)
        ctx.save_for_backward(x, fn, base, scale, m, r)
        ctx.iterations, ctx.eps = iterations, eps
        return h, post, mix

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor, dpost: Tensor, dmix: Tensor) -> tuple[Tensor | None, ...]:
        x, fn, base, scale, m, r = ctx.saved_tensors
        n = x.shape[1]
        with no_autocast(x):
            dpre = _stream_products(x, g)
            with torch.enable_grad():
                leaves = (m.detach().requires_grad_(), base.detach().requires_grad_(), scale.detach().requires_grad_())
                found = coefficients(*leaves, n, ctx.iterations, ctx.eps, sinkhorn)
            dm, dbase, dscale = torch.autograd.grad(found, leaves, (dpre, dpost, dmix))
            dz = dm * r
            u = wide(x).flatten(1)
            dfn = dz.t() @ u
            norm = -r.square() * (dm * m).sum(dim=-1, keepdim=True) / u.shape[1]
            dx = _input_gradient((dz @ fn.to(u.dtype)).view(x.shape), x, norm, found[0].detach(), g)
        return dx, dfn.to(fn.dtype), dbase, dscale, None, None


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, post: Tensor, mix: Tensor) -> Tensor:
        ctx.save_for_backward(y, x, post, mix)
        return _written(y.detach(), x.detach(), post.detach(), mix.detach())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, ...]:
        y, x, post, mix = ctx.saved_tensors
        dy, dx = _written_inputs(g, y, x, post, mix)
        return dy, dx, *_written_coefficients(g, y, x, post, mix)


def _steps(logits: Tensor, iterations: int, eps: float) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Rows divided and their divisors, columns divided and theirs, of each iteration; the first has columns only."""
    k = logits.softmax(dim=1) + eps
    divisor = k.sum(dim=0, keepdim=True) + eps
    before, k = k, k / divisor
    yield before, torch.ones_like(divisor), k, divisor
    for _ in range(iterations - 1):
        step = _step(k, eps)
        yield step
        k = step[2]


@compiled
def _step(k: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    row = k.sum(dim=1, keepdim=True) + eps
    by_row = k / row
    column = by_row.sum(dim=0, keepdim=True) + eps
    return by_row, row, by_row / column, column


@compiled
def _step_input(g: Tensor, by_row: Tensor, row: Tensor, by_column: Tensor, column: Tensor) -> Tensor:
    g = (g - (g * by_column).sum(dim=0, keepdim=True)) / column
    return (g - (g * by_row).sum(dim=1, keepdim=True)) / row


@compiled
def _mean_square(u: Tensor) -> Tensor:
    return u.square().mean(dim=-1, keepdim=True)


@compiled
def _weighted_sum(x: Tensor, pre: Tensor) -> Tensor:
    return (pre.unsqueeze(-1) * x.to(pre.dtype)).sum(dim=1).to(x.dtype)


@compiled
def _stream_products(x: Tensor, g: Tensor) -> Tensor:
    accurate = torch.promote_types(x.dtype, torch.float32)
    return (x.to(accurate) * g.to(accurate).unsqueeze(1)).sum(dim=-1)


@compiled
def _input_gradient(projected: Tensor, x: Tensor, norm: Tensor, pre: Tensor, g: Tensor) -> Tensor:
    direct = pre.unsqueeze(-1) * g.to(pre.dtype).unsqueeze(1)
    return (projected + norm.unsqueeze(-1) * x.to(pre.dtype) + direct).to(x.dtype)


@compiled
def _written(y: Tensor, x: Tensor, post: Tensor, mix: Tensor) -> Tensor:
    mixed = (mix.unsqueeze(-1) * x.to(mix.dtype).unsqueeze(2)).sum(dim=1)
    return (post.unsqueeze(-1) * y.to(post.dtype).unsqueeze(1) + mixed).to(x.dtype)


@compiled
def _written_inputs(g: Tensor, y: Tensor, x: Tensor, post: Tensor, mix: Tensor) -> tuple[Tensor, Tensor]:
    accurate = g.to(mix.dtype)
    dy = (post.unsqueeze(-1) * accurate).sum(dim=1)
    dx = (mix.unsqueeze(-1) * accurate.unsqueeze(1)).sum(dim=2)
    return dy.to(y.dtype), dx.to(x.dtype)


@compiled
def _written_coefficients(g: Tensor, y: Tensor, x: Tensor, post: Tensor, mix: Tensor) -> tuple[Tensor, Tensor]:
    accurate = g.to(mix.dtype)
    dpost = (accurate * y.to(post.dtype).unsqueeze(1)).sum(dim=-1)
    dmix = (x.to(mix.dtype).unsqueeze(2) * accurate.unsqueeze(1)).sum(dim=-1)
    return dpost, dmix
