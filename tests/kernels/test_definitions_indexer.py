"""The definitions of the lightning indexer against the same mathematics in loops over Python's floats."""

import math
from collections.abc import Iterator

import pytest
import torch
from tests.kernels.by_hand import choose, dot, draw, near, places
from torch import Tensor
from torch.autograd import gradcheck

from trex.kernels import ops
from trex.kernels.indexer import reference as indexer

INF = math.inf


@pytest.fixture(autouse=True)
def _definitions() -> Iterator[None]:
    with ops.use("reference"):
        yield


def score_by_hand(q: Tensor, k: Tensor, w: Tensor) -> float:
    """q: [H, c]. k: [c]. w: [H]."""
    return math.fsum(
        weight * max(0.0, dot(query, k.tolist())) for weight, query in zip(w.tolist(), q.tolist(), strict=True)
    )


def test_index_scores() -> None:
    q, k, own, w = draw(2, 3, 4, 5), draw(2, 6, 5), draw(2, 3, 6, 5), draw(2, 3, 4)
    shared, each = ops.index_scores(q, k, w), ops.index_scores(q, own, w)
    expected = [[[score_by_hand(q[b, t], k[b, j], w[b, t]) for j in range(6)] for t in range(3)] for b in range(2)]
    assert near(shared, expected)
    expected = [[[score_by_hand(q[b, t], own[b, t, j], w[b, t]) for j in range(6)] for t in range(3)] for b in range(2)]
    assert near(each, expected)
    assert gradcheck(ops.index_scores, (q, k, w)) and gradcheck(ops.index_scores, (q, own, w))
    assert ops.index_scores(q, k[:, :0], w).shape == (2, 3, 0)


def best_by_hand(scores: list[float], k: int) -> list[int]:
    allowed = [j for j, score in enumerate(scores) if score != -INF]
    best = sorted(sorted(allowed, key=lambda j: (-scores[j], j))[:k])
    return best + [-1] * (min(k, len(scores)) - len(best))


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_top_entries(n: int, k: int) -> None:
    """With rows in which only some, one or none may be chosen, and with equal scores."""
    scores = draw(2, 6, n).detach()
    scores[0, :3] = scores[0, :3].round()
    for t in range(6):
        scores[1, t, t:] = -INF
    found = ops.top_entries(scores, k)
    assert found.dtype == torch.int64 and found.shape == (2, 6, min(k, n))
    assert found.tolist() == [[best_by_hand(row, k) for row in rows] for rows in scores.tolist()]


@pytest.mark.parametrize("top_k", [1, 2, 100])
def test_selection(top_k: int) -> None:
    _, offset, visible, n = places([[5, 1, 9, 4], [12, 2, 2, 3]], 2)
    q, k, w = draw(2, 19, 3, 4), draw(2, n, 4), draw(2, 19, 3)
    found = indexer.select_entries(q, k, w, offset, visible, top_k, chunk=5)
    assert torch.equal(found, ops.select_entries(q, k, w, offset, visible, top_k)) and not found.requires_grad
    for b in range(2):
        for t in range(19):
            first, end = int(offset[b, t]), int(offset[b, t] + visible[b, t])
            scores = [score_by_hand(q[b, t], k[b, j], w[b, t]) if first <= j < end else -INF for j in range(n)]
            assert found[b, t].tolist() == best_by_hand(scores, top_k)


def kl_by_hand(scores: list[float], mass: list[float]) -> float:
    total, top = math.fsum(mass), max(scores, default=0.0)
    norm = top + math.log(math.fsum(math.exp(s - top) for s in scores)) if scores else 0.0
    teacher = [m / total for m in mass]
    return math.fsum(p * (math.log(p) - (s - norm)) for p, s in zip(teacher, scores, strict=True) if p)


@pytest.mark.parametrize("chunk", [1, 5, 256])
@pytest.mark.parametrize("top_k", [None, 2])
def test_indexer_loss(top_k: int | None, chunk: int) -> None:
    """Documents of 1 token among them: a query that sees no entry has no loss, and gives no gradient."""
    _, offset, visible, n = places([[5, 1, 9, 4], [12, 2, 2, 3]], 2)
    q, k, w = draw(2, 19, 3, 4), draw(2, n, 4), draw(2, 19, 3)
    selected = choose(offset, visible, top_k, n)
    entry = torch.arange(n)
    seen = (entry >= offset.unsqueeze(-1)) & (entry < (offset + visible).unsqueeze(-1))
    seen = seen if selected is None else selected >= 0
    mass = (draw(*seen.shape).exp() * seen).detach().requires_grad_()
    found = indexer.indexer_loss(q, k, w, mass, offset, visible, selected, chunk=chunk)
    for b in range(2):
        for t in range(19):
            chosen = [j for j in range(seen.shape[-1]) if seen[b, t, j]]
            keys = [k[b, j if selected is None else int(selected[b, t, j])] for j in chosen]
            scores = [score_by_hand(q[b, t], key, w[b, t]) for key in keys]
            assert near(found[b, t], kl_by_hand(scores, [mass[b, t, j].item() for j in chosen]))
    assert (found[visible == 0] == 0).all() and (visible == 0).any()
    *gradients, to_mass = torch.autograd.grad(found.sum(), (q, k, w, mass), allow_unused=True)
    assert to_mass is None and all(g.isfinite().all() and g.count_nonzero() for g in gradients)
    assert (gradients[0][visible == 0] == 0).all()


@pytest.mark.parametrize("top_k", [None, 2])
def test_indexer_loss_gradients(top_k: int | None) -> None:
    _, offset, visible, n = places([[6, 1, 2]], 2)
    selected = choose(offset, visible, top_k, n)
    mass = draw(1, 9, n if selected is None else selected.shape[-1]).exp().detach()
    if selected is None:
        entry = torch.arange(n)
        mass = mass * ((entry >= offset.unsqueeze(-1)) & (entry < (offset + visible).unsqueeze(-1)))
    else:
        mass = mass * (selected >= 0)
    leaves = draw(1, 9, 2, 3), draw(1, n, 3), draw(1, 9, 2)
    assert gradcheck(lambda q, k, w: ops.indexer_loss(q, k, w, mass, offset, visible, selected), leaves)


def test_indexer_loss_is_zero_where_scores_say_what_attention_does() -> None:
    """q·k = log mass, and any multiple of the mass is the same teacher."""
    mass = torch.tensor([[[1.0, 2.0, 5.0]]], dtype=torch.float64)
    offset, visible = torch.zeros(1, 1, dtype=torch.int64), torch.full((1, 1), 3)
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    loss = ops.indexer_loss(one.unsqueeze(-1), mass.log().view(1, 3, 1), one, mass / 7, offset, visible)
    assert abs(loss.item()) < 1e-15


def test_indexer_loss_without_entries_or_without_mass() -> None:
    none = torch.zeros(1, 4, dtype=torch.int64)
    q, k, w = draw(1, 4, 2, 3), draw(1, 5, 3), draw(1, 4, 2)
    without = ops.indexer_loss(q, k[:, :0], w, torch.zeros(1, 4, 0, dtype=torch.float64), none, none)
    underflown = ops.indexer_loss(q, k, w, torch.zeros(1, 4, 5, dtype=torch.float64), none, none + 5)
    for loss in (without, underflown):
        assert loss.tolist() == [[0.0] * 4]
        assert all((g == 0).all() for g in torch.autograd.grad(loss.sum(), (q, k, w)))
