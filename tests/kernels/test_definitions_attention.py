"""The definitions of rotation, compressor and attention against the same mathematics in loops over Python's floats."""

import cmath
import math
from collections.abc import Iterator

import pytest
import torch
from tests.kernels.by_hand import choose, dot, draw, near, places
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn.functional import scaled_dot_product_attention

from trex.kernels import ops
from trex.kernels.attention import reference as attention


@pytest.fixture(autouse=True)
def _definitions() -> Iterator[None]:
    with ops.use("reference"):
        yield


# rotations


def turns(positions: int, pairs: int) -> tuple[Tensor, Tensor, list[list[float]]]:
    angles = [[0.7 * t / 3**k for k in range(pairs)] for t in range(positions)]
    table = torch.tensor(angles, dtype=torch.float64)
    return table.cos(), table.sin(), angles


@pytest.mark.parametrize("pairs", [1, 2, 4])
@pytest.mark.parametrize("inverse", [False, True])
def test_rope_multiplies_complex_numbers(pairs: int, inverse: bool) -> None:
    x = draw(2, 5, 3, 8)
    cos, sin, angles = turns(5, pairs)
    found = ops.rope(x, cos.unsqueeze(1), sin.unsqueeze(1), inverse)
    expected = x.tolist()
    for row in expected:
        for t, heads in enumerate(row):
            for head in heads:
                for k in range(pairs):
                    a = 8 - 2 * pairs + 2 * k
                    turned = complex(head[a], head[a + 1]) * cmath.exp((-1j if inverse else 1j) * angles[t][k])
                    head[a], head[a + 1] = turned.real, turned.imag
    assert near(found, expected)
    assert torch.equal(found[..., : 8 - 2 * pairs], x[..., : 8 - 2 * pairs])


def test_rope_backwards_undoes_it_and_scores_depend_on_distance() -> None:
    cos, sin, _ = turns(9, 4)
    x, q, k = draw(9, 8), draw(8), draw(8, seed=1)
    assert (ops.rope(ops.rope(x, cos, sin), cos, sin, inverse=True) - x).abs().max() < 1e-14
    scores = [ops.rope(q, cos[t + 3], sin[t + 3]) @ ops.rope(k, cos[t], sin[t]) for t in range(5)]
    assert max(scores) - min(scores) < 1e-13 and abs(scores[0] - q @ k) > 1e-3


def test_rope_gradients() -> None:
    cos, sin, _ = turns(4, 2)
    leaves = (draw(2, 4, 6), cos.requires_grad_(), sin.requires_grad_())
    for inverse in (False, True):
        assert gradcheck(lambda x, c, s, back=inverse: ops.rope(x, c, s, back), leaves)


# compressor


def compress_by_hand(values: Tensor, gates: Tensor, ape: Tensor, follows: Tensor, overlap: bool) -> list:
    b, n, m, width = values.shape
    c = width // 2 if overlap else width
    a, z, p = values.tolist(), gates.tolist(), ape.tolist()
    entries = []
    for row in range(b):
        for i in range(n):
            for channel in range(c):
                own = channel + c if overlap else channel
                slots = [(z[row][i][t][own] + p[t][own], a[row][i][t][own]) for t in range(m)]
                if overlap and follows[row][i]:
                    slots += [(z[row][i - 1][t][channel] + p[t][channel], a[row][i - 1][t][channel]) for t in range(m)]
                total = math.fsum(math.exp(gate) for gate, _ in slots)
                entries.append(math.fsum(math.exp(gate) * value for gate, value in slots) / total)
    return entries


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("blocks", [0, 1, 6])
def test_compressor(overlap: bool, blocks: int) -> None:
    values, gates, ape = draw(2, blocks, 3, 4), draw(2, blocks, 3, 4, seed=1, scale=2), draw(3, 4)
    first = torch.arange(blocks).gt(0).expand(2, -1)
    assert near(ops.compress(values, gates, ape, None, overlap), compress_by_hand(values, gates, ape, first, overlap))
    follows = torch.tensor([[False, True, False, False, True, True], [False, True, True, True, True, False]])
    follows = follows[:, :blocks]
    found = ops.compress(values, gates, ape, follows, overlap)
    assert near(found, compress_by_hand(values, gates, ape, follows, overlap))
    gradients = torch.autograd.grad(found.sum(), (values, gates, ape))
    assert all(g.isfinite().all() for g in gradients)  # also of the slots that a first block does not have


def test_one_row_of_follows_serves_all() -> None:
    values, gates, ape = draw(3, 4, 2, 6), draw(3, 4, 2, 6, seed=1), draw(2, 6)
    one = torch.tensor([[False, True, False, True]])
    shared = ops.compress(values, gates, ape, one, overlap=True)
    assert torch.equal(shared, ops.compress(values, gates, ape, one.expand(3, -1), overlap=True))


@pytest.mark.parametrize("overlap", [False, True])
def test_compressor_gradients(overlap: bool) -> None:
    leaves = (draw(2, 3, 2, 4), draw(2, 3, 2, 4, seed=1), draw(2, 4))
    follows = torch.tensor([[False, True, True], [False, False, True]])
    assert gradcheck(lambda a, z, p: ops.compress(a, z, p, follows, overlap), leaves)


def test_compressor_with_gates_that_overflow_exp() -> None:
    gates = torch.tensor([3e4, 0.0]).view(1, 1, 2, 1).requires_grad_()
    entry = ops.compress(torch.tensor([5.0, 7.0]).view(1, 1, 2, 1), gates, torch.zeros(2, 1))
    entry.sum().backward()
    assert entry.item() == 5 and gates.grad is not None and gates.grad.eq(0).all()


# attention


def softmax_with_sink(logits: list[float], sink: float) -> list[float]:
    top = max([*logits, sink])
    total = math.fsum(math.exp(s - top) for s in [*logits, sink])
    return [math.exp(s - top) / total for s in logits]


def attend_by_hand(q: list[float], keys: list[list[float]], sink: float) -> tuple[list[float], list[float]]:
    p = softmax_with_sink([dot(q, key) / math.sqrt(len(q)) for key in keys], sink)
    return [math.fsum(w * key[i] for w, key in zip(p, keys, strict=True)) for i in range(len(q))], p


@pytest.mark.parametrize("shared_mask", [True, False])
def test_attend(shared_mask: bool) -> None:
    q, keys, sink = draw(2, 4, 3, 6, scale=2), draw(2, 5, 6), draw(3)
    seen = torch.rand(1 if shared_mask else 2, 4, 5, generator=torch.Generator().manual_seed(0)) < 0.5
    seen[..., 1] = True
    found, p = ops.attend(q, keys, seen, sink)
    for b in range(2):
        for t in range(4):
            visible = [j for j in range(5) if seen[0 if shared_mask else b, t, j]]
            for h in range(3):
                out, mass = attend_by_hand(q[b, t, h].tolist(), [keys[b, j].tolist() for j in visible], sink[h].item())
                assert near(found[b, t, h], out) and near(p[b, t, h, visible], mass)
                assert p[b, t, h].count_nonzero() == len(visible)
    assert gradcheck(lambda *leaves: ops.attend(leaves[0], leaves[1], seen, leaves[2]), (q, keys, sink))


def test_attend_without_sink_is_torch_attention() -> None:
    """A sink of -10⁹ takes nothing; the share that a sink of 0 takes is one over the partition sum."""
    q, keys = draw(1, 4, 3, 6), draw(1, 5, 6)
    seen = torch.ones(1, 4, 5, dtype=torch.bool)
    heads = q.transpose(1, 2), keys.unsqueeze(1).expand(-1, 3, -1, -1)
    expected = scaled_dot_product_attention(heads[0], heads[1], heads[1]).transpose(1, 2)
    assert (ops.attend(q, keys, seen, torch.full((3,), -1e9))[0] - expected).abs().max() < 1e-14
    out, p = ops.attend(q, keys, seen, torch.zeros(3))
    kept = p.sum(dim=-1, keepdim=True)
    assert (out / kept - expected).abs().max() < 1e-14
    logits = torch.einsum("bqhc,bkc->bqhk", q, keys) / 6**0.5
    assert (1 - kept - 1 / (1 + logits.exp().sum(-1, keepdim=True))).abs().max() < 1e-14


def test_attend_at_large_logits() -> None:
    q = torch.tensor([[[[3e3, 0.0]], [[-3e3, 0.0]]]]).requires_grad_()
    keys = torch.tensor([[[2.0, 1.0], [0.0, 5.0]]]).requires_grad_()
    sink = torch.zeros(1, requires_grad=True)
    out, p = ops.attend(q, keys, torch.ones(1, 2, 2, dtype=torch.bool), sink)
    assert p.flatten().tolist() == [1, 0, 0, 0.5] and out[0, :, 0].tolist() == [[2, 1], [0, 2.5]]
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), (q, keys, sink)))


# attention of a sequence

# documents of each row; the compressed entries of a document are its complete blocks of `ratio` tokens
SEQUENCES = {
    "one token": ([[1]], 2, None, 4),
    "window beyond the sequence": ([[9]], 4, None, 100),
    "no entries": ([[3, 2, 3], [1, 1, 6]], 4, None, 4),
    "documents": ([[5, 1, 9, 4], [12, 2, 2, 3]], 2, None, 3),
    "selected": ([[5, 1, 9, 4], [12, 2, 2, 3]], 2, 2, 3),
    "selection of all": ([[17]], 2, 8, 1),
    "a late block": ([[16, 3]], 16, None, 2),
}


@pytest.mark.parametrize("chunk", [1, 5, 128])
@pytest.mark.parametrize("name", list(SEQUENCES))
def test_attention_of_a_sequence(name: str, chunk: int) -> None:
    rows, ratio, top_k, window = SEQUENCES[name]
    start, offset, visible, n = places(rows, ratio)
    b, s = start.shape
    q, kv, entries, sink = draw(b, s, 2, 4), draw(b, s, 4), draw(b, n, 4), draw(2)
    selected = choose(offset, visible, top_k, n)
    found, mass = attention.shared_kv_attention(
        q, kv, entries, sink, window, start, offset, visible, selected, chunk=chunk
    )
    for row in range(b):
        for t in range(s):
            keys = [kv[row, i].tolist() for i in range(max(int(start[row, t]), t - window + 1), t + 1)]
            first = int(offset[row, t])
            chosen = list(range(first, first + int(visible[row, t])))
            if selected is not None:
                chosen = [j for j in selected[row, t].tolist() if j >= 0]
            by_head = [
                attend_by_hand(q[row, t, h].tolist(), keys + [entries[row, j].tolist() for j in chosen], sink[h].item())
                for h in range(2)
            ]
            assert near(found[row, t], [out for out, _ in by_head])
            of_entries = [math.fsum(p[len(keys) + i] for _, p in by_head) for i in range(len(chosen))]
            expected = [0.0] * mass.shape[-1]
            for i, j in enumerate(chosen):
                expected[i if selected is not None else j] = of_entries[i]
            assert near(mass[row, t], expected)
    assert not mass.requires_grad


@pytest.mark.parametrize("name", ["documents", "selected", "no entries"])
def test_attention_of_a_sequence_gradients(name: str) -> None:
    rows, ratio, top_k, window = SEQUENCES[name]
    start, offset, visible, n = places(rows, ratio)
    b, s = start.shape
    leaves = draw(b, s, 1, 2), draw(b, s, 2), draw(b, n, 2), draw(1)
    selected = choose(offset, visible, top_k, n)

    def run(q: Tensor, kv: Tensor, entries: Tensor, sink: Tensor) -> Tensor:
        out, _ = attention.shared_kv_attention(q, kv, entries, sink, window, start, offset, visible, selected, chunk=5)
        return out

    assert gradcheck(run, leaves)


def test_rows_alike_share_their_places() -> None:
    start, offset, visible, n = places([[7, 4]], 2)
    q, kv, entries, sink = draw(3, 11, 2, 4), draw(3, 11, 4), draw(3, n, 4), draw(2)
    shared = ops.shared_kv_attention(q, kv, entries, sink, 3, start, offset, visible)
    each = (places_.expand(3, -1) for places_ in (start, offset, visible))
    assert all(
        torch.equal(a, b) for a, b in zip(shared, ops.shared_kv_attention(q, kv, entries, sink, 3, *each), strict=True)
    )
