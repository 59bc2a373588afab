"""The definitions of mHC, MoE and cross-entropy against the same mathematics in loops over Python's floats."""

import math
from collections.abc import Iterator
from functools import partial

import pytest
import torch
from tests.kernels.by_hand import dot, draw, near
from torch import Tensor
from torch.autograd import gradcheck

from trex.kernels import ops
from trex.kernels.cross_entropy import reference as cross_entropy
from trex.kernels.hyper_connections.reference import sinkhorn

IGNORE = -100
LEADS = [(2, 3), (5,), (), (0,), (3, 0)]


@pytest.fixture(autouse=True)
def _definitions() -> Iterator[None]:
    with ops.use("reference"):
        yield


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


# mHC


def sinkhorn_by_hand(logits: list[list[float]], iterations: int, eps: float) -> list[list[float]]:
    n = range(len(logits))
    k = []
    for row in logits:
        total = math.fsum(math.exp(x - max(row)) for x in row)
        k.append([math.exp(x - max(row)) / total + eps for x in row])
    for step in range(2 * iterations - 1):
        if step % 2 == 0:
            sums = [math.fsum(k[i][j] for i in n) + eps for j in n]
            k = [[k[i][j] / sums[j] for j in n] for i in n]
        else:
            sums = [math.fsum(k[i]) + eps for i in n]
            k = [[k[i][j] / sums[i] for j in n] for i in n]
    return k


def read_by_hand(x: Tensor, fn: Tensor, base: Tensor, scale: Tensor, iterations: int, eps: float) -> tuple:
    """x: [n, d], one token's streams."""
    n, u = len(x), x.flatten().tolist()
    rms = math.sqrt(dot(u, u) / len(u) + eps)
    m = [dot(row, u) / rms for row in fn.tolist()]
    s, b = scale.tolist(), base.tolist()
    pre = [sigmoid(m[i] * s[0] + b[i]) + eps for i in range(n)]
    post = [2 * sigmoid(m[n + i] * s[1] + b[n + i]) for i in range(n)]
    flat = [m[i] * s[2] + b[i] for i in range(2 * n, 2 * n + n * n)]
    mix = sinkhorn_by_hand([flat[i * n : i * n + n] for i in range(n)], iterations, eps)
    h = [math.fsum(pre[j] * x[j, i].item() for j in range(n)) for i in range(x.shape[1])]
    return h, post, mix


@pytest.mark.parametrize("lead", LEADS, ids=str)
@pytest.mark.parametrize(("n", "iterations", "eps"), [(4, 20, 1e-6), (2, 1, 1e-2), (1, 3, 1e-6)])
def test_streams(lead: tuple[int, ...], n: int, iterations: int, eps: float) -> None:
    """A token at a time: what is read, how it is written, and the streams afterwards."""
    d, rows = 5, n * (2 + n)
    x, fn, base, scale = draw(*lead, n, d), draw(rows, n * d), draw(rows), draw(3)
    h, post, mix = ops.read_streams(x, fn, base, scale, iterations, eps)
    assert (h.shape, post.shape, mix.shape) == ((*lead, d), (*lead, n), (*lead, n, n))
    y = draw(*lead, d, seed=1)
    written = ops.write_streams(y, x, post, mix)
    head = fn[:n], base[:n], scale[:1]
    collapsed = ops.collapse_streams(x, *head, eps)
    flat = [t.flatten(0, len(lead) - 1) if lead else t.unsqueeze(0) for t in (x, h, post, mix, y, written, collapsed)]
    for x1, h1, post1, mix1, y1, written1, collapsed1 in zip(*flat, strict=True):
        by_hand = read_by_hand(x1, fn, base, scale, iterations, eps)
        assert all(near(found, right) for found, right in zip((h1, post1, mix1), by_hand, strict=True))
        assert near(collapsed1, by_hand[0])
        _, p, k = by_hand
        streams, out = x1.tolist(), y1.tolist()
        after = [
            [p[i] * out[c] + math.fsum(k[j][i] * streams[j][c] for j in range(n)) for c in range(d)] for i in range(n)
        ]
        assert near(written1, after)
    gradients = torch.autograd.grad(written.sum() + collapsed.sum(), (x, fn, base, scale, y))
    assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("iterations", [1, 4])
def test_streams_gradients(iterations: int) -> None:
    n, d = 2, 3
    x, fn, base, scale = draw(2, n, d), draw(8, n * d), draw(8), draw(3)
    assert gradcheck(lambda x, fn, b, s: ops.read_streams(x, fn, b, s, iterations), (x, fn, base, scale))
    assert gradcheck(ops.write_streams, (draw(2, d), x, draw(2, n), draw(2, n, n)))
    assert gradcheck(ops.collapse_streams, (x, draw(n, n * d), draw(n), draw(1)))


def test_streams_that_change_nothing() -> None:
    """post = 0 and mix = 1 leave the streams; a permutation exchanges them: stream k takes from row K[:, k]."""
    x, y = draw(3, 2, 4), draw(3, 4)
    zero, same = torch.zeros(3, 2).double(), torch.eye(2).double().expand(3, 2, 2)
    assert torch.equal(ops.write_streams(y, x, zero, same), x)
    first_to_both = torch.tensor([[1.0, 1.0], [0.0, 0.0]]).double().expand(3, 2, 2)
    assert torch.equal(ops.write_streams(y, x, zero, first_to_both), x[:, :1].expand(-1, 2, -1))


def test_reading_does_not_depend_on_the_size_of_the_streams() -> None:
    """The coefficients see streams of mean square 1; what is read grows with them."""
    x, fn, base, scale = draw(6, 4, 5), draw(24, 20), draw(24), draw(3)
    small, large = (ops.read_streams(factor * x, fn, base, scale, 20, 1e-12) for factor in (1, 1000))
    assert (small[1] - large[1]).abs().max() < 1e-10 and (small[2] - large[2]).abs().max() < 1e-10
    assert (1000 * small[0] - large[0]).abs().max() < 1e-7


@pytest.mark.parametrize("scale", [0.1, 1, 10, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sinkhorn_at_every_scale(scale: float, dtype: torch.dtype) -> None:
    """Columns sum to one but for eps, rows nearly where logits are moderate; gradients are finite and right."""
    logits = draw(50, 4, 4, scale=scale).detach().to(dtype).requires_grad_()
    k = sinkhorn(logits)
    assert k.dtype == dtype and (k > 0).all()
    assert (k.sum(dim=-2) - 1).abs().max() < 3e-6
    if scale <= 1:
        assert (k.sum(dim=-1) - 1).abs().max() < 1e-4
    assert near(k.double(), [sinkhorn_by_hand(matrix, 20, 1e-6) for matrix in logits.tolist()], 1e-5)
    weights = draw(50, 4, 4, seed=1).detach()
    (found,) = torch.autograd.grad((k * weights).sum() * 1e4, logits)
    exact = logits.detach().double().requires_grad_()
    (right,) = torch.autograd.grad((sinkhorn(exact) * weights).sum() * 1e4, exact)
    assert found.isfinite().all()
    assert (found - right).norm() <= (1e-9 if dtype == torch.float64 else 1e-3) * right.norm() + 1e-3


def test_sinkhorn_gradients_and_limits() -> None:
    logits = draw(2, 3, 3, scale=3)
    for iterations in (1, 2, 20):
        assert gradcheck(partial(sinkhorn, iterations=iterations), (logits,))
    for eps in (1e-6, 1e-12):
        uniform = sinkhorn(torch.zeros(4, 4, dtype=torch.float64), eps=eps)
        assert (uniform - 0.25).abs().max() < 2 * eps
    one_to_one = sinkhorn(1e3 * torch.eye(4)[[2, 0, 3, 1]])
    assert (one_to_one - torch.eye(4)[[2, 0, 3, 1]]).abs().max() < 1e-5


# mixture of experts


def test_router_scores() -> None:
    x, weight = draw(6, 5), draw(4, 5)
    expected = [[math.sqrt(math.log1p(math.exp(dot(w, row)))) for w in weight.tolist()] for row in x.tolist()]
    assert near(ops.router_scores(x, weight), expected)
    assert gradcheck(ops.router_scores, (x, weight))
    assert ops.router_scores(x[:0], weight).shape == (0, 4)


def test_router_scores_far_from_zero() -> None:
    """√x for large logits, √(eˣ) for small ones down to underflow, with a gradient everywhere."""
    x = torch.tensor([1e4, 100.0, 0.0, -50.0, -80.0, -200.0, -1e4]).unsqueeze(1).requires_grad_()
    scores = ops.router_scores(x, torch.ones(1, 1))
    right = [100.0, 10.0, math.sqrt(math.log(2)), math.exp(-25), math.exp(-40)]
    assert scores.flatten().tolist()[:5] == pytest.approx(right, rel=1e-5)
    assert (scores[5:] < 1e-18).all()
    scores.sum().backward()
    slopes = [1 / 200, 1 / 20, 0.25 / math.sqrt(math.log(2)), math.exp(-25) / 2, math.exp(-40) / 2]
    assert x.grad is not None and x.grad.flatten().tolist()[:5] == pytest.approx(slopes, rel=1e-5)
    assert x.grad[5:].isfinite().all() and (x.grad[5:].abs() < 1e-18).all()


@pytest.mark.parametrize("k", [1, 3, 7])
def test_experts_are_the_best_by_score_and_bias(k: int) -> None:
    scores, bias = draw(9, 7).detach().exp(), draw(7).detach()
    found = ops.select_experts(scores, bias, k)
    assert found.dtype == torch.int64
    for chosen, row in zip(found.tolist(), scores.tolist(), strict=True):
        biased = [score + b for score, b in zip(row, bias.tolist(), strict=True)]
        best = sorted(range(7), key=biased.__getitem__, reverse=True)[:k]
        assert sorted(chosen) == sorted(best)
    assert ops.select_experts(scores[:0], bias, k).shape == (0, k)


def test_routing_weights() -> None:
    """Shares of the chosen, times the scale; order and repeats of experts do not matter to the others."""
    scores = draw(6, 5).detach().exp().requires_grad_()
    experts = torch.tensor([[0, 3], [4, 1], [2, 3], [1, 0], [3, 4], [2, 0]])
    found = ops.routing_weights(scores, experts, 2.5)
    expected = []
    for row, chosen in zip(scores.tolist(), experts.tolist(), strict=True):
        expected += [2.5 * row[e] / math.fsum(row[other] for other in chosen) for e in chosen]
    assert near(found, expected)
    assert (found.sum(dim=-1) - 2.5).abs().max() < 1e-14
    assert gradcheck(lambda s: ops.routing_weights(s, experts, 2.5), (scores,))
    assert ops.routing_weights(scores[:0], experts[:0], 1.0).shape == (0, 2)


def test_routing_weights_of_scores_that_underflow() -> None:
    scores = torch.zeros(2, 4, requires_grad=True)
    found = ops.routing_weights(scores, torch.tensor([[0, 1], [2, 3]]), 1.5)
    found.sum().backward()
    assert found.eq(0).all() and scores.grad is not None and scores.grad.isfinite().all()


ROUTES = {
    "some experts idle": torch.tensor([[0, 3], [3, 1], [0, 5], [5, 3], [1, 0]]),
    "one expert takes all": torch.full((4, 1), 2),
    "every expert": torch.arange(6).view(1, 6),
    "no tokens": torch.zeros(0, 2, dtype=torch.int64),
}


@pytest.mark.parametrize("name", list(ROUTES))
def test_permutation(name: str) -> None:
    experts = ROUTES[name]
    tokens, k = experts.shape
    x = draw(tokens, 3)
    rows, order, counts = ops.permute(x, experts, 6)
    grouped = [(e, t, i) for e in range(6) for t in range(tokens) for i in range(k) if experts[t, i] == e]
    assert order.tolist() == [t * k + i for _, t, i in grouped]
    assert counts.tolist() == [sum(e == expert for e, _, _ in grouped) for expert in range(6)]
    assert torch.equal(rows, x[[t for _, t, _ in grouped]]) and rows.shape == (tokens * k, 3)
    other = draw(tokens * k, 3, seed=1)
    back = ops.unpermute(other, order, tokens)
    assert back.shape == (tokens, 3)
    for t in range(tokens):
        mine = [other[i].tolist() for i, (_, token, _) in enumerate(grouped) if token == t]
        assert near(back[t], [math.fsum(column) for column in zip(*mine, strict=True)])
    assert (ops.unpermute(rows, order, tokens) - k * x).abs().sum() < 1e-13
    if tokens:
        assert gradcheck(lambda rows: ops.unpermute(rows, order, tokens), (other,))
        assert gradcheck(lambda x: ops.permute(x, experts, 6)[0], (x,))


@pytest.mark.parametrize("sizes", [[2, 0, 3, 1], [0, 0, 6, 0], [0, 0, 0, 0]])
def test_grouped_matmul(sizes: list[int]) -> None:
    counts = torch.tensor(sizes)
    rows, weight = draw(sum(sizes), 3), draw(4, 2, 3)
    found = ops.grouped_matmul(rows, weight, counts)
    expert = [e for e, size in enumerate(sizes) for _ in range(size)]
    expected = [[dot(w, row) for w in weight[e].tolist()] for e, row in zip(expert, rows.tolist(), strict=True)]
    assert found.shape == (sum(sizes), 2) and near(found, expected)
    drows, dweight = torch.autograd.grad(found.sum(), (rows, weight))
    assert drows.shape == rows.shape
    assert [bool(g.count_nonzero()) for g in dweight] == [size > 0 for size in sizes]
    if sum(sizes):
        assert gradcheck(lambda a, b: ops.grouped_matmul(a, b, counts), (rows, weight))


def test_the_operators_together_are_a_sum_over_experts() -> None:
    """A MoE layer by the operators, and by the sum of its definition over tokens and their experts."""
    x, gate, bias = draw(7, 4), draw(5, 4), draw(5)
    w1, w3, w2 = draw(5, 3, 4), draw(5, 3, 4, seed=1), draw(5, 4, 3)
    scores = ops.router_scores(x, gate)
    experts = ops.select_experts(scores, bias, 2)
    weights = ops.routing_weights(scores, experts, 1.5)
    rows, order, counts = ops.permute(x, experts, 5)
    hidden = ops.limited_swiglu(
        ops.grouped_matmul(rows, w1, counts), ops.grouped_matmul(rows, w3, counts), 0.5, weights.flatten()[order]
    )
    found = ops.unpermute(ops.grouped_matmul(hidden, w2, counts), order, 7)
    for t in range(7):
        total = torch.zeros(4, dtype=torch.float64)
        for i, e in enumerate(experts[t].tolist()):
            a, u = (w1[e] @ x[t]).clamp(max=0.5), (w3[e] @ x[t]).clamp(-0.5, 0.5)
            total += weights[t, i] * (w2[e] @ (a * torch.sigmoid(a) * u))
        assert (found[t] - total).abs().max() < 1e-13


# cross-entropy


def cross_entropy_by_hand(hidden: Tensor, weight: Tensor, targets: list[int]) -> float:
    total = []
    for h, goal in zip(hidden.tolist(), targets, strict=True):
        if goal != IGNORE:
            logits = [dot(row, h) for row in weight.tolist()]
            top = max(logits)
            total.append(top + math.log(math.fsum(math.exp(x - top) for x in logits)) - logits[goal])
    return math.fsum(total)


@pytest.mark.parametrize("chunk", [1, 4, 1024])
@pytest.mark.parametrize("targets", [[3, 0, 6, -100, 2, -100, -100, -100, 5], [-100] * 5, [4], []], ids=str)
def test_cross_entropy(targets: list[int], chunk: int) -> None:
    """Value by hand; gradient by its closed form, (softmax - one-hot) per counted token."""
    hidden, weight = draw(len(targets), 3, scale=3), draw(7, 3)
    goals = torch.tensor(targets, dtype=torch.int64)
    loss = cross_entropy.linear_cross_entropy(hidden, weight, goals, chunk=chunk)
    assert near(loss, cross_entropy_by_hand(hidden, weight, targets))
    slopes = torch.zeros(len(targets), 7, dtype=torch.float64)
    for t, goal in enumerate(targets):
        if goal != IGNORE:
            e = (weight @ hidden[t]).exp()
            slopes[t] = e / e.sum()
            slopes[t, goal] -= 1
    slopes = slopes.detach()
    dhidden, dweight = torch.autograd.grad(loss, (hidden, weight), allow_unused=not targets)
    if targets:
        assert (dhidden - slopes @ weight).abs().max() < 1e-13 and (dweight - slopes.t() @ hidden).abs().max() < 1e-12
        assert gradcheck(lambda h, w: ops.linear_cross_entropy(h, w, goals), (hidden, weight))


def test_cross_entropy_of_large_logits_and_of_a_head_that_knows_nothing() -> None:
    hidden = torch.tensor([[1e4], [-1e4]]).requires_grad_()
    loss = ops.linear_cross_entropy(hidden, torch.tensor([[1.0], [0.0]]), torch.tensor([1, 1]))
    assert loss.item() == 1e4
    (gradient,) = torch.autograd.grad(loss, hidden)
    assert gradient.tolist() == [[1.0], [0.0]]
    even = ops.linear_cross_entropy(hidden, torch.zeros(9, 1), torch.tensor([4, IGNORE]))
    assert even.item() == pytest.approx(math.log(9))
