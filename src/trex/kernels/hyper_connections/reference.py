"""mHC, the definition. n residual streams of d channels; K is the n x n mixing matrix, nearly doubly stochastic.

Source: DeepSeek-V4 report (arXiv 2606.19348) eq. 1-8 and the official `inference/model.py`, which wins where they
differ: K starts as a softmax, and the last of its normalisations is over columns.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear

from trex.kernels.precision import no_autocast, wide


def read_streams(
    x: Tensor, fn: Tensor, base: Tensor, scale: Tensor, iterations: int = 20, eps: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """What a sub-layer reads from the streams, and the coefficients with which `write_streams` writes back.

    With m = fn·u / rms(u) for u = all streams of a token as one vector, split into n, n and n² numbers:

        pre  = sigmoid(m₁·scale₁ + base₁) + eps          h = Σ_j pre_j·x_j
        post = 2·sigmoid(m₂·scale₂ + base₂)
        K    = sinkhorn(softmax of the rows of m₃·scale₃ + base₃)

    x: [..., n, d]. fn: [(2 + n)·n, n·d]. base: [(2 + n)·n]. scale: [3]. iterations: of Sinkhorn. Returns h [..., d] in
    x's dtype, post [..., n] and K [..., n, n], both at least float32, in which all is computed.
    """
    pre, post, mix = coefficients(_projected(x, fn, eps), base, scale, x.shape[-2], iterations, eps)
    return _collapse(x, pre), post, mix


def write_streams(y: Tensor, x: Tensor, post: Tensor, mix: Tensor) -> Tensor:
    """x'_k = post_k·y + Σ_j K[j, k]·x_j.

    y: [..., d], the sub-layer's output. x: [..., n, d], the streams before it. post: [..., n]. mix: K, [..., n, n].
    Returns the new streams in x's dtype; computed in at least float32.
    """
    with no_autocast(x):
        mixed = torch.matmul(mix.transpose(-1, -2), x.to(mix.dtype))
        return (post.unsqueeze(-1) * y.to(post.dtype).unsqueeze(-2) + mixed).to(x.dtype)


def collapse_streams(x: Tensor, fn: Tensor, base: Tensor, scale: Tensor, eps: float = 1e-6) -> Tensor:
    """One vector from the streams, before a head: Σ_j pre_j·x_j as in `read_streams`.

    x: [..., n, d]. fn: [n, n·d]. base: [n]. scale: [1]. Returns [..., d] in x's dtype.
    """
    return _collapse(x, torch.sigmoid(_projected(x, fn, eps) * scale + base) + eps)


def sinkhorn(logits: Tensor, iterations: int = 20, eps: float = 1e-6) -> Tensor:
    """Softmax of the rows plus eps, then columns, and `iterations` - 1 times rows and columns, divided by their sums.

    logits: [..., n, n]. Each divisor is a sum plus eps. Returns the same shape; its columns sum to one.
    """
    k = logits.softmax(dim=-1) + eps
    k = k / (k.sum(dim=-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        k = k / (k.sum(dim=-1, keepdim=True) + eps)
        k = k / (k.sum(dim=-2, keepdim=True) + eps)
    return k


def coefficients(
    m: Tensor, base: Tensor, scale: Tensor, n: int, iterations: int, eps: float,
    normalise: Callable[[Tensor, int, float], Tensor] = sinkhorn,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """pre [..., n], post [..., n] and K [..., n, n] from m [..., (2 + n)·n], see `read_streams`; K by `normalise`."""
    sizes = [n, n, n * n]
    m_pre, m_post, m_mix = m.split(sizes, dim=-1)
    b_pre, b_post, b_mix = base.split(sizes)
    pre = torch.sigmoid(m_pre * scale[0] + b_pre) + eps
    post = 2 * torch.sigmoid(m_post * scale[1] + b_post)
    return pre, post, normalise((m_mix * scale[2] + b_mix).unflatten(-1, (n, n)), iterations, eps)


def _projected(x: Tensor, fn: Tensor, eps: float) -> Tensor:
    """fn·u / rms(u), [..., rows of fn]; the division commutes with the product, so u / rms(u) is never written."""
    u = wide(x).flatten(-2)
    with no_autocast(x):
        return linear(u, fn.to(u.dtype)) * torch.rsqrt(u.square().mean(dim=-1, keepdim=True) + eps)


def _collapse(x: Tensor, pre: Tensor) -> Tensor:
    with no_autocast(x):
        return torch.matmul(pre.unsqueeze(-2), x.to(pre.dtype)).squeeze(-2).to(x.dtype)
