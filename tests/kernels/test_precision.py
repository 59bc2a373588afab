"""In which dtype each operator computes and answers: half precision, float32, float64, under a caller's autocast."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from trex.kernels import ops

HALF = (torch.bfloat16, torch.float16)
S = 6
START = torch.zeros(1, S, dtype=torch.int64)
VISIBLE = torch.arange(1, S + 1).div(2, rounding_mode="floor").unsqueeze(0)
SEEN = torch.ones(1, S, 5, dtype=torch.bool)
EXPERTS = torch.tensor([[0, 2], [1, 2], [2, 3], [0, 3], [3, 1], [2, 0]])
ORDER = EXPERTS.flatten().argsort(stable=True)


@dataclass(frozen=True)
class Call:
    """An operator on floating inputs of these shapes. gives: of each result, whether its dtype is the `input`'s, that
    of `product`s, or `wide`: at least float32. products: whether any are computed in the caller's dtype."""

    run: Callable[..., Tensor | tuple[Tensor, ...]]
    shapes: tuple[tuple[int, ...], ...]
    gives: tuple[str, ...]
    products: bool = False


CALLS = {
    "rms_norm": Call(ops.rms_norm, ((S, 8), (8,)), ("input",)),
    "limited_swiglu": Call(lambda a, u, w: ops.limited_swiglu(a, u, 1.0, w), ((S, 8), (S, 8), (S,)), ("input",)),
    "rope": Call(ops.rope, ((2, S, 8), (S, 2), (S, 2)), ("input",)),
    "read_streams": Call(ops.read_streams, ((S, 4, 8), (24, 32), (24,), (3,)), ("input", "wide", "wide")),
    "write_streams": Call(ops.write_streams, ((S, 8), (S, 4, 8), (S, 4), (S, 4, 4)), ("input",)),
    "collapse_streams": Call(ops.collapse_streams, ((S, 4, 8), (4, 32), (4,), (1,)), ("input",)),
    "compress": Call(
        lambda values, gates, ape: ops.compress(values, gates, ape, None, True),
        ((2, 3, 4, 8), (2, 3, 4, 8), (4, 8)), ("wide",),
    ),
    "attend": Call(
        lambda q, keys, sink: ops.attend(q, keys, SEEN, sink),
        ((2, S, 3, 8), (2, 5, 8), (3,)), ("product", "wide"), products=True,
    ),
    "shared_kv_attention": Call(
        lambda q, kv, entries, sink: ops.shared_kv_attention(q, kv, entries, sink, 3, START, START, VISIBLE),
        ((2, S, 3, 8), (2, S, 8), (2, 3, 8), (3,)), ("product", "wide"), products=True,
    ),
    "index_scores": Call(ops.index_scores, ((2, S, 3, 8), (2, 5, 8), (2, S, 3)), ("wide",), products=True),
    "indexer_loss": Call(
        lambda q, k, w, mass: ops.indexer_loss(q, k, w, mass.abs(), START, VISIBLE),
        ((2, S, 3, 8), (2, 3, 8), (2, S, 3), (2, S, 3)), ("wide",), products=True,
    ),
    "router_scores": Call(ops.router_scores, ((S, 8), (5, 8)), ("wide",)),
    "routing_weights": Call(lambda scores: ops.routing_weights(scores.abs(), EXPERTS, 1.5), ((S, 4),), ("input",)),
    "permute": Call(lambda x: ops.permute(x, EXPERTS, 4)[0], ((S, 8),), ("input",)),
    "unpermute": Call(lambda rows: ops.unpermute(rows, ORDER, S), ((2 * S, 8),), ("wide",)),
    "grouped_matmul": Call(
        lambda rows, weight: ops.grouped_matmul(rows, weight, torch.tensor([2, 0, 7, 3])),
        ((2 * S, 8), (4, 5, 8)), ("product",), products=True,
    ),
    "linear_cross_entropy": Call(
        lambda hidden, weight: ops.linear_cross_entropy(hidden, weight, torch.arange(S)),
        ((S, 8), (11, 8)), ("wide",), products=True,
    ),
}  # fmt: skip
CHOICES = {"top_entries", "select_entries", "select_experts"}  # give places, not values


@pytest.fixture(autouse=True)
def _definitions() -> Iterator[None]:
    with ops.use("reference"):
        yield


def results(name: str, dtype: torch.dtype, compute: torch.dtype | None = None) -> tuple[Tensor, ...]:
    """The operator on inputs rounded to `dtype`, given in `compute`."""
    draw, call = torch.Generator().manual_seed(3), CALLS[name]
    inputs = [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in call.shapes]
    found = call.run(*(x.to(dtype).to(compute or dtype) for x in inputs))
    return found if isinstance(found, tuple) else (found,)


def test_every_operator_is_here() -> None:
    assert set(CALLS) | CHOICES == set(ops.OPERATORS)


@pytest.mark.parametrize("dtype", [*HALF, torch.float32])
@pytest.mark.parametrize("name", list(CALLS))
def test_dtypes_and_accuracy(name: str, dtype: torch.dtype) -> None:
    """Against float64 on the same rounded inputs: in half precision nothing but products and the result is rounded."""
    call = CALLS[name]
    for found, exact, gives in zip(results(name, dtype), results(name, dtype, torch.float64), call.gives, strict=True):
        assert exact.dtype == torch.float64
        assert found.dtype == (torch.float32 if gives == "wide" else dtype)
        rounded = dtype in HALF and (gives != "wide" or call.products)
        assert (found - exact).norm() <= (2 * torch.finfo(dtype).eps if rounded else 1e-6) * exact.norm()
        if gives == "wide":  # and was not in half precision on its way
            assert dtype not in HALF or not torch.equal(found, found.to(dtype).float())


@pytest.mark.parametrize("name", list(CALLS))
def test_under_autocast(name: str) -> None:
    """Products follow autocast, everything else stays in float32; float64 is left alone."""
    call, plain, exact = CALLS[name], results(name, torch.float32), results(name, torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        cast, left = results(name, torch.float32), results(name, torch.float64)
    for found, before, gives in zip(cast, plain, call.gives, strict=True):
        assert found.dtype == (torch.bfloat16 if gives == "product" else torch.float32)
        if call.products:
            assert 0 < (found - before).norm() <= 2e-2 * before.norm()
        else:
            assert torch.equal(found, before)
    assert all(a.dtype == torch.float64 and torch.equal(a, b) for a, b in zip(left, exact, strict=True))


@pytest.mark.parametrize("name", list(CALLS))
def test_gradients_have_the_dtype_of_their_inputs(name: str) -> None:
    """With float32 parameters under autocast, as in training; and with everything in bfloat16."""
    call = CALLS[name]
    for dtype, autocast in ((torch.float32, True), (torch.bfloat16, False)):
        draw = torch.Generator().manual_seed(3)
        leaves = [torch.randn(shape, generator=draw).to(dtype).requires_grad_() for shape in call.shapes]
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            found = call.run(*leaves)
        loss = sum(x.float().sum() for x in (found if isinstance(found, tuple) else (found,)) if x.requires_grad)
        assert isinstance(loss, Tensor)
        loss.backward()
        teacher = name == "indexer_loss"  # its mass gets no gradient
        for leaf in leaves[:-1] if teacher else leaves:
            assert leaf.grad is not None and leaf.grad.dtype == dtype and leaf.grad.isfinite().all()
        assert not teacher or leaves[-1].grad is None
