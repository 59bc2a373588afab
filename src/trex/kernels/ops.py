"""The operators. Each checks its inputs and runs on the backend that `dispatch` chooses.

    ops.rms_norm(x)                                   # the fast backend of x's device where it pays, else the reference
    with ops.use("reference"): …                      # one backend for every operator
    TREX_KERNELS=reference,rms_norm=cpu python …      # the same for a process, one operator apart

What an operator computes is written in its folder's `reference.py`.
"""

import torch
from torch import Tensor

from trex.kernels.checks import check_dtype, check_floating, check_shapes
from trex.kernels.dispatch import BACKENDS, FLOATS, OPERATORS, VARIABLE, Backend, KernelError, choose, run, use

__all__ = ["BACKENDS", "FLOATS", "OPERATORS", "VARIABLE", "Backend", "KernelError", "choose", "use"]


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """weight · x / sqrt(mean(x²) + eps) over the last dimension; see `rms_norm/reference.py`.

    x: [..., D], bfloat16 to float64. weight: [D] or None. Returns [..., D] in x's dtype. Raises KernelError.
    """
    check_floating("rms_norm", x=x, weight=weight)
    if weight is not None and weight.shape != x.shape[-1:]:
        raise KernelError(
            f"rms_norm: weight {list(weight.shape)} for x {list(x.shape)}; accepted: [{x.shape[-1]}] or None"
        )
    return run("rms_norm", x, weight, eps)


def limited_swiglu(gate: Tensor, up: Tensor, limit: float = 10.0, weight: Tensor | None = None) -> Tensor:
    """silu(min(gate, limit)) · clamp(up, ±limit) · weight; see `limited_swiglu/reference.py`.

    gate, up: [..., D] of one dtype, bfloat16 to float64. weight: [...], one per token, or None. Returns [..., D] in
    gate's dtype. Raises KernelError.
    """
    check_floating("limited_swiglu", gate=gate, up=up, weight=weight)
    if up.shape != gate.shape or up.dtype != gate.dtype:
        raise KernelError(
            f"limited_swiglu: gate {list(gate.shape)} {gate.dtype} and up {list(up.shape)} {up.dtype}; "
            "accepted: one shape and one dtype"
        )
    if weight is not None and weight.shape != gate.shape[:-1]:
        raise KernelError(
            f"limited_swiglu: weight {list(weight.shape)} for gate {list(gate.shape)}; "
            f"accepted: {list(gate.shape[:-1])} or None"
        )
    if not limit > 0:
        raise KernelError(f"limited_swiglu: limit {limit}; accepted: a number above 0")
    return run("limited_swiglu", gate, up, limit, weight)


def rope(x: Tensor, cos: Tensor, sin: Tensor, inverse: bool = False) -> Tensor:
    """Rotate the trailing channels of `x` in interleaved pairs, or back; see `rope/reference.py`.

    x: [..., D]. cos, sin: [..., R / 2] with 1 <= R / 2 <= D / 2, the other dimensions those of x or 1. Returns x's
    shape and dtype. Raises KernelError.
    """
    check_floating("rope", x=x, cos=cos, sin=sin)
    dims = zip(cos.shape[-2::-1], x.shape[-2::-1], strict=False)
    fits = cos.shape == sin.shape and 0 < cos.dim() <= x.dim() and all(a in (1, b) for a, b in dims)
    if not fits or not 1 <= cos.shape[-1] <= x.shape[-1] // 2:
        raise KernelError(
            f"rope: cos {list(cos.shape)} and sin {list(sin.shape)} for x {list(x.shape)}; accepted: one shape, "
            f"which broadcasts against x, of 1 to {x.shape[-1] // 2} pairs"
        )
    return run("rope", x, cos, sin, inverse)


def read_streams(
    x: Tensor, fn: Tensor, base: Tensor, scale: Tensor, iterations: int = 20, eps: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """What a sub-layer reads from the residual streams, [..., d], and how `write_streams` writes, [..., n] and
    [..., n, n]; see `hyper_connections/reference.py`.

    x: [..., n, d]. fn: [(2 + n)·n, n·d]. base: [(2 + n)·n]. scale: [3]. Raises KernelError.
    """
    check_floating("read_streams", x=x, fn=fn, base=base, scale=scale)
    sizes = check_shapes("read_streams", x=(x, "... n d"))
    n, rows = sizes["n"], sizes["n"] * (2 + sizes["n"])
    check_shapes("read_streams", fn=(fn, f"{rows} {n * sizes['d']}"), base=(base, f"{rows}"), scale=(scale, "3"))
    _check_least("read_streams", iterations=iterations)
    return run("read_streams", x, fn, base, scale, iterations, eps)


def write_streams(y: Tensor, x: Tensor, post: Tensor, mix: Tensor) -> Tensor:
    """The streams after a sub-layer: x'_k = post_k·y + Σ_j mix[j, k]·x_j; see `hyper_connections/reference.py`.

    y: [..., d]. x: [..., n, d]. post: [..., n]. mix: [..., n, n]. Returns x's shape and dtype. Raises KernelError.
    """
    check_floating("write_streams", y=y, x=x, post=post, mix=mix)
    check_shapes("write_streams", x=(x, "... n d"), y=(y, "... d"), post=(post, "... n"), mix=(mix, "... n n"))
    return run("write_streams", y, x, post, mix)


def collapse_streams(x: Tensor, fn: Tensor, base: Tensor, scale: Tensor, eps: float = 1e-6) -> Tensor:
    """One vector from the streams before a head; see `hyper_connections/reference.py`.

    x: [..., n, d]. fn: [n, n·d]. base: [n]. scale: [1]. Returns [..., d] in x's dtype. Raises KernelError.
    """
    check_floating("collapse_streams", x=x, fn=fn, base=base, scale=scale)
    sizes = check_shapes("collapse_streams", x=(x, "... n d"))
    n = sizes["n"]
    check_shapes("collapse_streams", fn=(fn, f"{n} {n * sizes['d']}"), base=(base, f"{n}"), scale=(scale, "1"))
    return run("collapse_streams", x, fn, base, scale, eps)


def compress(
    values: Tensor, gates: Tensor, ape: Tensor, follows: Tensor | None = None, overlap: bool = False
) -> Tensor:
    """One entry per block of tokens; see `compressor/reference.py`.

    values, gates: [B, N, m, e·c], e = 2 with overlap, else 1. ape: [m, e·c]. follows: [B or 1, N] bool or None.
    Returns [B, N, c], at least float32. Raises KernelError.
    """
    check_floating("compress", values=values, gates=gates, ape=ape)
    check_dtype("compress", torch.bool, follows=follows)
    shapes = {"values": (values, "B N m w"), "gates": (gates, "B N m w"), "ape": (ape, "m w")}
    width = check_shapes("compress", **shapes, follows=(follows, "B|1 N"))["w"]
    if overlap and width % 2:
        raise KernelError(f"compress: values with {width} channels; accepted with overlap: an even number")
    return run("compress", values, gates, ape, follows, overlap)


def attend(q: Tensor, keys: Tensor, seen: Tensor, sink: Tensor) -> tuple[Tensor, Tensor]:
    """Attention over the keys seen and a sink: output and probabilities; see `attention/reference.py`.

    q: [B, Q, H, c]. keys: [B, K, c]. seen: [B or 1, Q, K] bool. sink: [H]. Returns [B, Q, H, c] and [B, Q, H, K].
    Raises KernelError.
    """
    check_floating("attend", q=q, keys=keys, sink=sink)
    check_dtype("attend", torch.bool, seen=seen)
    check_shapes("attend", q=(q, "B Q H c"), keys=(keys, "B K c"), seen=(seen, "B|1 Q K"), sink=(sink, "H"))
    return run("attend", q, keys, seen, sink)


def shared_kv_attention(
    q: Tensor, kv: Tensor, entries: Tensor, sink: Tensor, window: int, start: Tensor, offset: Tensor, visible: Tensor,
    selected: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention of a sequence to the window and to compressed entries; see `attention/reference.py`.

    q: [B, S, H, c]. kv: [B, S, c]. entries: [B, N, c]. sink: [H]. start, offset, visible: [B or 1, S] int64. selected:
    [B, S, K] int64 or None. Returns the output [B, S, H, c] and the entries' probabilities summed over heads, without
    gradient, [B, S, K] or [B, S, N]. Raises KernelError.
    """
    check_floating("shared_kv_attention", q=q, kv=kv, entries=entries, sink=sink)
    check_dtype("shared_kv_attention", torch.int64, start=start, offset=offset, visible=visible, selected=selected)
    check_shapes(
        "shared_kv_attention", q=(q, "B S H c"), kv=(kv, "B S c"), entries=(entries, "B N c"), sink=(sink, "H"),
        start=(start, "B|1 S"), offset=(offset, "B|1 S"), visible=(visible, "B|1 S"), selected=(selected, "B S K"),
    )  # fmt: skip
    _check_least("shared_kv_attention", window=window)
    return run("shared_kv_attention", q, kv, entries, sink, window, start, offset, visible, selected)


def index_scores(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    """Scores of the lightning indexer, Σ_h w_h·ReLU(q_h·k); see `indexer/reference.py`.

    q: [B, S, H, c]. k: [B, N, c] or [B, S, N, c]. w: [B, S, H]. Returns [B, S, N]. Raises KernelError.
    """
    check_floating("index_scores", q=q, k=k, w=w)
    check_shapes("index_scores", q=(q, "B S H c"), k=(k, "B N c" if k.dim() == 3 else "B S N c"), w=(w, "B S H"))
    return run("index_scores", q, k, w)


def top_entries(scores: Tensor, k: int) -> Tensor:
    """The k best entries in rising order, of equals the earlier; -1 for none; see `indexer/reference.py`.

    scores: [..., N], -inf for what may not be chosen. Returns [..., min(k, N)] int64. Raises KernelError.
    """
    check_floating("top_entries", scores=scores)
    _check_least("top_entries", k=k)
    return run("top_entries", scores, k)


def select_entries(q: Tensor, k: Tensor, w: Tensor, offset: Tensor, visible: Tensor, top_k: int) -> Tensor:
    """The entries that the lightning indexer selects for each query; see `indexer/reference.py`.

    q: [B, S, H, c]. k: [B, N, c]. w: [B, S, H]. offset, visible: [B or 1, S] int64. Returns [B, S, min(top_k, N)]
    int64, without gradient. Raises KernelError.
    """
    check_floating("select_entries", q=q, k=k, w=w)
    _check_index("select_entries", q, k, w, offset, visible)
    _check_least("select_entries", top_k=top_k)
    return run("select_entries", q, k, w, offset, visible, top_k)


def indexer_loss(
    q: Tensor, k: Tensor, w: Tensor, mass: Tensor, offset: Tensor, visible: Tensor, selected: Tensor | None = None
) -> Tensor:
    """KL divergence of the indexer's scores from the attention's mass; see `indexer/reference.py`.

    q, k, w, offset, visible: as in `select_entries`. mass: [B, S, K] beside selected [B, S, K], else [B, S, N].
    Returns [B, S], at least float32. Raises KernelError.
    """
    check_floating("indexer_loss", q=q, k=k, w=w, mass=mass)
    check_dtype("indexer_loss", torch.int64, selected=selected)
    each = "B S N" if selected is None else "B S K"
    _check_index("indexer_loss", q, k, w, offset, visible, selected=(selected, each), mass=(mass, each))
    return run("indexer_loss", q, k, w, mass, offset, visible, selected)


def router_scores(x: Tensor, weight: Tensor) -> Tensor:
    """sqrt(softplus(weight · x)), the affinities of tokens to experts; see `moe/reference.py`.

    x: [T, d]. weight: [E, d]. Returns [T, E], at least float32. Raises KernelError.
    """
    check_floating("router_scores", x=x, weight=weight)
    check_shapes("router_scores", x=(x, "T d"), weight=(weight, "E d"))
    return run("router_scores", x, weight)


def select_experts(scores: Tensor, bias: Tensor, k: int) -> Tensor:
    """The k experts of the highest score + bias; see `moe/reference.py`.

    scores: [T, E]. bias: [E]. Returns [T, k] int64. Raises KernelError.
    """
    check_floating("select_experts", scores=scores, bias=bias)
    experts = check_shapes("select_experts", scores=(scores, "T E"), bias=(bias, "E"))["E"]
    if not 1 <= k <= experts:
        raise KernelError(f"select_experts: k {k}; accepted: from 1 to the number of experts, {experts}")
    return run("select_experts", scores, bias, k)


def routing_weights(scores: Tensor, experts: Tensor, scale: float) -> Tensor:
    """The chosen experts' scores, normalised to `scale`; see `moe/reference.py`.

    scores: [T, E]. experts: [T, k] int64. Returns [T, k]. Raises KernelError.
    """
    check_floating("routing_weights", scores=scores)
    check_dtype("routing_weights", torch.int64, experts=experts)
    check_shapes("routing_weights", scores=(scores, "T E"), experts=(experts, "T k"))
    return run("routing_weights", scores, experts, scale)


def permute(x: Tensor, experts: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of `x` grouped by expert, their order and counts; see `moe/reference.py`.

    x: [T, d]. experts: [T, k] int64. Returns [T·k, d], [T·k] int64 and [E] int64. Raises KernelError.
    """
    check_floating("permute", x=x)
    check_dtype("permute", torch.int64, experts=experts)
    check_shapes("permute", x=(x, "T d"), experts=(experts, "T k"))
    _check_least("permute", num_experts=num_experts)
    return run("permute", x, experts, num_experts)


def unpermute(rows: Tensor, order: Tensor, tokens: int) -> Tensor:
    """The sum of each token's rows, back in the order of tokens; see `moe/reference.py`.

    rows: [T·k, d]. order: [T·k] int64. Returns [T, d], at least float32. Raises KernelError.
    """
    check_floating("unpermute", rows=rows)
    check_dtype("unpermute", torch.int64, order=order)
    count = check_shapes("unpermute", rows=(rows, "T d"), order=(order, "T"))["T"]
    if count % tokens if tokens else count:
        raise KernelError(f"unpermute: {count} rows for tokens {tokens}; accepted: a multiple")
    return run("unpermute", rows, order, tokens)


def grouped_matmul(rows: Tensor, weight: Tensor, counts: Tensor) -> Tensor:
    """The product of each group of rows with its own matrix; see `moe/reference.py`.

    rows: [T, in]. weight: [E, out, in]. counts: [E] int64, summing to T. Returns [T, out]. Raises KernelError.
    """
    check_floating("grouped_matmul", rows=rows, weight=weight)
    check_dtype("grouped_matmul", torch.int64, counts=counts)
    check_shapes("grouped_matmul", rows=(rows, "T in"), weight=(weight, "E out in"), counts=(counts, "E"))
    return run("grouped_matmul", rows, weight, counts)


def linear_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of a linear head, summed over tokens; target -100 is none; see `cross_entropy/reference.py`.

    hidden: [T, d]. weight: [V, d]. targets: [T] int64. Returns a scalar, at least float32. Raises KernelError.
    """
    check_floating("linear_cross_entropy", hidden=hidden, weight=weight)
    check_dtype("linear_cross_entropy", torch.int64, targets=targets)
    check_shapes("linear_cross_entropy", hidden=(hidden, "T d"), weight=(weight, "V d"), targets=(targets, "T"))
    return run("linear_cross_entropy", hidden, weight, targets)


def _check_index(
    operator: str, q: Tensor, k: Tensor, w: Tensor, offset: Tensor, visible: Tensor,
    **more: tuple[Tensor | None, str],
) -> None:  # fmt: skip
    check_dtype(operator, torch.int64, offset=offset, visible=visible)
    places = {"offset": (offset, "B|1 S"), "visible": (visible, "B|1 S")}
    check_shapes(operator, q=(q, "B S H c"), k=(k, "B N c"), w=(w, "B S H"), **places, **more)


def _check_least(operator: str, **counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise KernelError(f"{operator}: {name} {count}; accepted: from 1")
