"""What an operator does not accept is one clear error that names operator, tensor and what is accepted."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from trex.kernels import ops
from trex.kernels.checks import KernelError, check_shapes

B, S, N, H, C = 2, 3, 5, 2, 4
X, KEYS = torch.ones(B, S, C), torch.ones(B, N, C)
Q, W, SINK, SEEN = torch.ones(B, S, H, C), torch.ones(B, S, H), torch.ones(H), torch.ones(1, S, N, dtype=torch.bool)
AT = torch.zeros(1, S, dtype=torch.int64)
BLOCKS, APE = torch.ones(B, S, 4, 6), torch.ones(4, 6)
STREAMS, FN, BASE, SCALE = torch.ones(B, S, 4, 8), torch.ones(24, 32), torch.ones(24), torch.ones(3)
ROWS, WEIGHTS, COUNTS = torch.ones(6, 8), torch.ones(3, 5, 8), torch.tensor([2, 0, 4])
SCORES, CHOSEN = torch.ones(6, 3), torch.zeros(6, 2, dtype=torch.int64)

# operator → what is wrong, and what is said
ERRORS: dict[str, list[tuple[Callable[[], object], str]]] = {
    "rms_norm": [
        (lambda: ops.rms_norm(X.long()), "x is torch.int64; accepted: bfloat16, float16, float32, float64"),
        (lambda: ops.rms_norm(X, SINK), "weight [2] for x [2, 3, 4]; accepted: [4] or None"),
    ],
    "limited_swiglu": [
        (lambda: ops.limited_swiglu(X, KEYS), "gate [2, 3, 4] torch.float32 and up [2, 5, 4] torch.float32; accepted:"),
        (lambda: ops.limited_swiglu(X, X, 1.0, SINK), "weight [2] for gate [2, 3, 4]; accepted: [2, 3] or None"),
    ],
    "rope": [
        (lambda: ops.rope(X.long(), X[0, :, :2], X[0, :, :2]), "x is torch.int64; accepted: bfloat16"),
        (lambda: ops.rope(X, X, X), "cos [2, 3, 4] and sin [2, 3, 4] for x [2, 3, 4]; accepted: one shape"),
        (lambda: ops.rope(X, X[0, :, :2], X[0, :, :1]), "cos [3, 2] and sin [3, 1] for x [2, 3, 4]; accepted: one"),
        (lambda: ops.rope(X, X[0, :2, :2], X[0, :2, :2]), "cos [2, 2] and sin [2, 2] for x [2, 3, 4]; accepted: one"),
        (lambda: ops.rope(X, X[..., :0], X[..., :0]), "cos [2, 3, 0] and sin [2, 3, 0] for x [2, 3, 4]; accepted: one"),
        (lambda: ops.rope(X, Q[..., :2], Q[..., :2]), "cos [2, 3, 2, 2] and sin [2, 3, 2, 2] for x [2, 3, 4]"),
    ],
    "read_streams": [
        (lambda: ops.read_streams(BASE, FN, BASE, SCALE), "x [24]; accepted: [n, d]"),
        (lambda: ops.read_streams(STREAMS.int(), FN, BASE, SCALE), "x is torch.int32; accepted: bfloat16"),
        (lambda: ops.read_streams(STREAMS, FN.t(), BASE, SCALE), "fn [32, 24]; accepted: [24, 32]"),
        (lambda: ops.read_streams(STREAMS, FN, FN, SCALE), "base [24, 32]; accepted: [24]"),
        (lambda: ops.read_streams(STREAMS, FN, BASE, SINK), "scale [2]; accepted: [3]"),
        (lambda: ops.read_streams(STREAMS, FN, BASE, SCALE, 0), "iterations 0; accepted: from 1"),
    ],
    "write_streams": [
        (lambda: ops.write_streams(STREAMS, STREAMS, W, W), "y [2, 3, 4, 8]; accepted: [2, 3, d = 8]"),
        (lambda: ops.write_streams(STREAMS[:, :, 0], STREAMS, W, W), "post [2, 3, 2]; accepted: [2, 3, n = 4]"),
        (lambda: ops.write_streams(STREAMS[:, :, 0], STREAMS, X, W), "mix [2, 3, 2]; accepted: [2, 3, n = 4, n = 4]"),
    ],
    "collapse_streams": [
        (lambda: ops.collapse_streams(STREAMS, FN, BASE, SCALE), "fn [24, 32]; accepted: [4, 32]"),
        (lambda: ops.collapse_streams(STREAMS, FN[:4], BASE, SCALE), "base [24]; accepted: [4]"),
        (lambda: ops.collapse_streams(STREAMS, FN[:4], BASE[:4], SCALE), "scale [3]; accepted: [1]"),
    ],
    "compress": [
        (lambda: ops.compress(X, X, APE), "values [2, 3, 4]; accepted: [B, N, m, w]"),
        (lambda: ops.compress(BLOCKS, BLOCKS[:, :2], APE), "gates [2, 2, 4, 6]; accepted: [B = 2, N = 3, m ="),
        (lambda: ops.compress(BLOCKS, BLOCKS, APE[:3]), "ape [3, 6]; accepted: [m = 4, w = 6]"),
        (lambda: ops.compress(BLOCKS, BLOCKS, APE, AT), "follows is torch.int64; accepted: bool"),
        (lambda: ops.compress(BLOCKS, BLOCKS, APE, SEEN[0]), "follows [3, 5]; accepted: [B = 2 or 1, N = 3]"),
        (
            lambda: ops.compress(BLOCKS[..., :5], BLOCKS[..., :5], APE[:, :5], None, True),
            "values with 5 channels; accepted with overlap: an even number",
        ),
    ],
    "attend": [
        (lambda: ops.attend(X, KEYS, SEEN, SINK), "q [2, 3, 4]; accepted: [B, Q, H, c]"),
        (lambda: ops.attend(Q, KEYS[..., :3], SEEN, SINK), "keys [2, 5, 3]; accepted: [B = 2, K = 5, c = 4]"),
        (lambda: ops.attend(Q, KEYS.int(), SEEN, SINK), "keys is torch.int32; accepted: bfloat16"),
        (lambda: ops.attend(Q, KEYS, SEEN.float(), SINK), "seen is torch.float32; accepted: bool"),
        (lambda: ops.attend(Q, KEYS, SEEN.expand(3, -1, -1), SINK), "seen [3, 3, 5]; accepted: [B = 2 or 1, Q ="),
        (lambda: ops.attend(Q, KEYS, SEEN, SINK[:1]), "sink [1]; accepted: [H = 2]"),
        (lambda: ops.attend(Q, KEYS, SEEN.to("meta"), SINK), "tensors on {'q': 'cpu', 'keys': 'cpu', 'seen': 'meta'"),
    ],
    "shared_kv_attention": [
        (lambda: attention(kv=KEYS), "kv [2, 5, 4]; accepted: [B = 2, S = 3, c = 4]"),
        (lambda: attention(entries=KEYS[:1]), "entries [1, 5, 4]; accepted: [B = 2, N, c = 4]"),
        (lambda: attention(sink=SCALE), "sink [3]; accepted: [H = 2]"),
        (lambda: attention(window=0), "window 0; accepted: from 1"),
        (lambda: attention(start=AT.float()), "start is torch.float32; accepted: int64"),
        (lambda: attention(offset=AT[:, :2]), "offset [1, 2]; accepted: [B = 2 or 1, S = 3]"),
        (lambda: attention(visible=AT[0]), "visible [3]; accepted: [B = 2 or 1, S = 3]"),
        (lambda: attention(selected=AT), "selected [1, 3]; accepted: [B = 2, S = 3, K]"),
    ],
    "index_scores": [
        (lambda: ops.index_scores(Q, KEYS[:1], W), "k [1, 5, 4]; accepted: [B = 2, N, c = 4]"),
        (lambda: ops.index_scores(Q, Q[:, :2], W), "k [2, 2, 2, 4]; accepted: [B = 2, S = 3, N, c = 4]"),
        (lambda: ops.index_scores(Q, KEYS, W[..., :1]), "w [2, 3, 1]; accepted: [B = 2, S = 3, H = 2]"),
    ],
    "top_entries": [
        (lambda: ops.top_entries(AT, 2), "scores is torch.int64; accepted: bfloat16"),
        (lambda: ops.top_entries(SINK[0], 2), "scores is a scalar; accepted: at least one dimension"),
        (lambda: ops.top_entries(X, 0), "k 0; accepted: from 1"),
    ],
    "select_entries": [
        (lambda: ops.select_entries(Q, Q, W, AT, AT, 2), "k [2, 3, 2, 4]; accepted: [B = 2, N, c = 4]"),
        (lambda: ops.select_entries(Q, KEYS, W, AT.int(), AT, 2), "offset is torch.int32; accepted: int64"),
        (lambda: ops.select_entries(Q, KEYS, W, AT, AT[:, :2], 2), "visible [1, 2]; accepted: [B = 2 or 1, S = 3]"),
        (lambda: ops.select_entries(Q, KEYS, W, AT, AT, -1), "top_k -1; accepted: from 1"),
    ],
    "indexer_loss": [
        (lambda: ops.indexer_loss(Q, KEYS, W, X, AT, AT), "mass [2, 3, 4]; accepted: [B = 2, S = 3, N = 5]"),
        (lambda: ops.indexer_loss(Q, KEYS, W, X, AT, AT, X), "selected is torch.float32; accepted: int64"),
        (lambda: ops.indexer_loss(Q, KEYS, W, X, AT, AT, W.long()), "mass [2, 3, 4]; accepted: [B = 2, S = 3, K = 2]"),
        (lambda: ops.indexer_loss(Q, KEYS, W.to("meta"), X, AT, AT), "tensors on {'q': 'cpu', 'k': 'cpu', 'w': 'meta'"),
    ],
    "router_scores": [
        (lambda: ops.router_scores(X, FN), "x [2, 3, 4]; accepted: [T, d]"),
        (lambda: ops.router_scores(ROWS, FN), "weight [24, 32]; accepted: [E = 24, d = 8]"),
    ],
    "select_experts": [
        (lambda: ops.select_experts(SCORES, SINK, 1), "bias [2]; accepted: [E = 3]"),
        (lambda: ops.select_experts(SCORES, SCALE, 4), "k 4; accepted: from 1 to the number of experts, 3"),
        (lambda: ops.select_experts(SCORES, SCALE, 0), "k 0; accepted: from 1 to the number of experts, 3"),
    ],
    "routing_weights": [
        (lambda: ops.routing_weights(SCORES, SCORES, 1.0), "experts is torch.float32; accepted: int64"),
        (lambda: ops.routing_weights(SCORES, CHOSEN[:5], 1.0), "experts [5, 2]; accepted: [T = 6, k]"),
    ],
    "permute": [
        (lambda: ops.permute(ROWS, CHOSEN[:5], 3), "experts [5, 2]; accepted: [T = 6, k]"),
        (lambda: ops.permute(ROWS, CHOSEN.int(), 3), "experts is torch.int32; accepted: int64"),
        (lambda: ops.permute(ROWS, CHOSEN, 0), "num_experts 0; accepted: from 1"),
    ],
    "unpermute": [
        (lambda: ops.unpermute(ROWS, AT[0], 3), "order [3]; accepted: [T = 6]"),
        (lambda: ops.unpermute(ROWS, CHOSEN[:, 0].int(), 3), "order is torch.int32; accepted: int64"),
        (lambda: ops.unpermute(ROWS, CHOSEN[:, 0], 4), "6 rows for tokens 4; accepted: a multiple"),
        (lambda: ops.unpermute(ROWS, CHOSEN[:, 0], 0), "6 rows for tokens 0; accepted: a multiple"),
    ],
    "grouped_matmul": [
        (lambda: ops.grouped_matmul(ROWS, FN, COUNTS), "weight [24, 32]; accepted: [E, out, in = 8]"),
        (lambda: ops.grouped_matmul(ROWS, WEIGHTS, COUNTS[:2]), "counts [2]; accepted: [E = 3]"),
        (lambda: ops.grouped_matmul(ROWS, WEIGHTS, SCALE), "counts is torch.float32; accepted: int64"),
    ],
    "linear_cross_entropy": [
        (lambda: ops.linear_cross_entropy(X, FN, AT[0]), "hidden [2, 3, 4]; accepted: [T, d]"),
        (lambda: ops.linear_cross_entropy(ROWS, FN, AT[0]), "weight [24, 32]; accepted: [V = 24, d = 8]"),
        (lambda: ops.linear_cross_entropy(ROWS, FN[:, :8], AT[0]), "targets [3]; accepted: [T = 6]"),
        (lambda: ops.linear_cross_entropy(ROWS, FN[:, :8], CHOSEN[:, 0].int()), "targets is torch.int32"),
    ],
}  # fmt: skip


def attention(**other: Any) -> object:
    accepted: dict[str, Any] = dict(q=Q, kv=X, entries=KEYS, sink=SINK, window=4, start=AT, offset=AT, visible=AT)
    return ops.shared_kv_attention(**{**accepted, **other})


def test_every_operator_is_here() -> None:
    assert set(ERRORS) == set(ops.OPERATORS)


@pytest.mark.parametrize("operator", list(ERRORS))
def test_what_does_not_fit_is_named(operator: str) -> None:
    for call, said in ERRORS[operator]:
        with pytest.raises(KernelError, match=re.escape(f"{operator}: {said}")):
            call()


def test_what_fits_is_accepted() -> None:
    assert attention() is not None  # the call that others are one change away from
    assert check_shapes("any", x=(Q, "B S H c"), w=(W, "B S H"), gone=(None, "B"), at=(AT, "B|1 S")) == {
        "B": 2, "S": 3, "H": 2, "c": 4,
    }  # fmt: skip
    assert check_shapes("any", x=(X, "... d"), y=(X[..., 0], "..."), z=(Q, "... 2 d")) == {"d": 4}


@pytest.mark.parametrize(
    ("shape", "accepted"),
    [("B S 5", "[B = 2, S = 3, 5]"), ("S S c", "[S = 2, S = 2, c]"), ("x", "[x]"), ("... a b c d", "[a, b, c, d]")],
)
def test_shapes_are_shown_with_what_is_known(shape: str, accepted: str, x: Tensor = X) -> None:
    with pytest.raises(KernelError, match=re.escape(f"any: x [2, 3, 4]; accepted: {accepted}")):
        check_shapes("any", x=(x, shape))
