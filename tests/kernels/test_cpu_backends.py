"""CPU backends of the model's operators against their definitions: values and gradients in float64, then bf16."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from trex.kernels import compiler, ops
from trex.kernels.attention import cpu as attention_cpu

pytestmark = pytest.mark.skipif(bool(compiler.missing()), reason=f"missing: {compiler.missing()}")
CPU_ONLY = [name for name, backends in ops.OPERATORS.items() if "cpu" in backends]


def draw(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    made = scale * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return made.requires_grad_()


def both(work: Callable[[], tuple[Tensor, ...]]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Results under the definition and under the CPU backends."""
    found = []
    for backend in ("reference", "cpu"):
        with ops.use(",".join(f"{name}={backend}" for name in CPU_ONLY)):
            found.append(work())
    return found[0], found[1]


def agree(work: Callable[[], tuple[Tensor, ...]], limit: float = 1e-12) -> None:
    for expected, actual in zip(*both(work), strict=True):
        assert expected.shape == actual.shape and expected.dtype == actual.dtype
        if expected.numel():
            assert (expected - actual).abs().max() <= limit * max(1.0, float(expected.detach().abs().max()))


def visibility(documents: list[int], rows: int, ratio: int) -> tuple[Tensor, Tensor, Tensor]:
    """start, offset and visible of rows that hold documents of these lengths."""
    start, offset, visible, place, blocks = [], [], [], 0, 0
    for length in documents:
        start += [place] * length
        offset += [blocks] * length
        visible += [(t + 1) // ratio for t in range(length)]
        place, blocks = place + length, blocks + length // ratio
    found = [torch.tensor(values).expand(rows, -1) for values in (start, offset, visible)]
    return found[0], found[1], found[2]


@pytest.mark.parametrize("gather_from", [0.1, 1e9])
@pytest.mark.parametrize(
    ("documents", "ratio", "top_k", "window"),
    [([300], 4, 8, 16), ([1], 4, None, 5), ([1, 3, 4, 127, 128, 1], 4, 20, 7), ([130, 140], 128, None, 200),
     ([2, 3, 2], 4, None, 4), ([257], 4, 100, 128)],
)  # fmt: skip
def test_attention(
    documents: list[int],
    ratio: int,
    top_k: int | None,
    window: int,
    gather_from: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attention_cpu, "GATHER_FROM", gather_from)
    monkeypatch.setattr(attention_cpu, "GATHERED", 2000)
    rows, heads, c, s = 2, 3, 8, sum(documents)
    start, offset, visible = visibility(documents, rows, ratio)
    n = sum(length // ratio for length in documents)
    q, kv, entries, sink = draw(rows, s, heads, c), draw(rows, s, c), draw(rows, n, c), draw(heads)
    selected = None
    if top_k is not None:
        index = draw(rows, s, 4, 8), draw(rows, n, 8), draw(rows, s, 4)
        selected = ops.select_entries(*index, offset, visible, top_k)

    def work() -> tuple[Tensor, ...]:
        out, mass = ops.shared_kv_attention(q, kv, entries, sink, window, start, offset, visible, selected)
        return out, mass, *torch.autograd.grad(out, (q, kv, entries, sink), draw(*out.shape, seed=1).detach())

    agree(work)


@pytest.mark.parametrize("documents", [[600], [5, 395, 200]])
def test_selection(documents: list[int]) -> None:
    rows, s = 2, sum(documents)
    n = sum(length // 4 for length in documents)
    _, offset, visible = visibility(documents, rows, 4)
    q, k, w = draw(rows, s, 16, 16), draw(rows, n, 16), draw(rows, s, 16)
    agree(lambda: (ops.select_entries(q, k, w, offset, visible, 20),))
    agree(lambda: (ops.select_entries(q, k, 0 * w, offset, visible, 20),))  # all scores equal


@pytest.mark.parametrize("lead", [(2, 5), (37,), (1, 1)])
def test_streams(lead: tuple[int, ...]) -> None:
    n, d = 4, 24
    x, fn = draw(*lead, n, d), draw((2 + n) * n, n * d, scale=0.2)
    base, scale = draw((2 + n) * n), draw(3)

    def work() -> tuple[Tensor, ...]:
        h, post, mix = ops.read_streams(x, fn, base, scale)
        written = ops.write_streams(torch.tanh(h), x, post, mix)
        gradient = draw(*written.shape, seed=2).detach()
        return written, h, post, mix, *torch.autograd.grad(written, (x, fn, base, scale), gradient)

    agree(work)


def test_streams_at_real_gradient_scales_stay_finite() -> None:
    """Compiled Sinkhorn is known to overflow in its backward pass; logits of ±300 and gradients of 1e4, float32."""
    x, fn = draw(64, 4, 32).float().detach().requires_grad_(), draw(24, 128, scale=30).float().detach().requires_grad_()
    base, scale = draw(24).float().detach().requires_grad_(), torch.ones(3, requires_grad=True)

    def work() -> tuple[Tensor, ...]:
        h, post, mix = ops.read_streams(x, fn, base, scale)
        loss = 1e4 * (h.sum() + post.sum() + (mix * torch.arange(16.0).view(4, 4)).sum())
        return torch.autograd.grad(loss, (x, fn, base, scale))

    for gradients in both(work):
        assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("tokens", [1, 255, 700])
def test_cross_entropy(tokens: int) -> None:
    hidden, weight = draw(tokens, 32), draw(301, 32)
    targets = torch.arange(tokens) * 7 % 301
    for dropped in (targets.masked_fill(torch.arange(tokens) % 5 == 0, -100), torch.full_like(targets, -100)):

        def work(goal: Tensor = dropped) -> tuple[Tensor, ...]:
            loss = ops.linear_cross_entropy(hidden, weight, goal)
            return loss, *torch.autograd.grad(0.37 * loss, (hidden, weight))

        agree(work)


class LargestLogits(TorchDispatchMode):
    """The most rows of `vocab` logits that any operation gives."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.vocab, self.rows = vocab, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for x in found if isinstance(found, tuple | list) else (found,):
            if isinstance(x, Tensor) and x.dim() == 2 and x.shape[1] == self.vocab:
                self.rows = max(self.rows, x.shape[0])
        return found


@pytest.mark.parametrize(("backend", "most"), [("reference", 1024), ("cpu", 256)])
def test_cross_entropy_never_holds_all_logits(backend: str, most: int) -> None:
    hidden, weight = draw(5000, 16), draw(997, 16)
    with ops.use(f"linear_cross_entropy={backend}"), LargestLogits(997) as seen:
        ops.linear_cross_entropy(hidden, weight, torch.arange(5000) % 997).backward()
    assert 0 < seen.rows <= most


def test_cross_entropy_refuses_a_target_that_is_none() -> None:
    for target in (-5, 301):
        with ops.use("linear_cross_entropy=cpu"), pytest.raises((IndexError, RuntimeError), match="out of bounds"):
            ops.linear_cross_entropy(draw(3, 32), draw(301, 32), torch.tensor([1, target, 2]))


def test_attention_of_transposed_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_cpu, "GATHER_FROM", 0.1)
    start, offset, visible = visibility([100], 2, 4)
    q, kv, entries, sink = draw(100, 2, 3, 8), draw(100, 2, 8), draw(25, 2, 8), draw(3)
    selected = ops.select_entries(draw(2, 100, 4, 8), draw(2, 25, 8), draw(2, 100, 4), offset, visible, 5)

    def work() -> tuple[Tensor, ...]:
        turned = (q.transpose(0, 1), kv.transpose(0, 1), entries.transpose(0, 1))
        out, mass = ops.shared_kv_attention(*turned, sink, 16, start, offset, visible, selected)
        return out, mass, *torch.autograd.grad(out.sin().sum(), (q, kv, entries, sink))

    agree(work)


def test_bfloat16_products_under_autocast() -> None:
    """Both within bf16 rounding of float64, in results and gradients."""
    start, offset, visible = visibility([300], 2, 4)
    selected = ops.select_entries(draw(2, 300, 4, 8), draw(2, 75, 8), draw(2, 300, 4), offset, visible, 20)
    exact = [draw(2, 300, 4, 32), draw(2, 300, 32), draw(2, 75, 32), draw(4)]
    weight, targets = draw(301, 32), torch.arange(600) % 301

    def loss(q: Tensor, kv: Tensor, entries: Tensor, sink: Tensor, head: Tensor) -> Tensor:
        out, _ = ops.shared_kv_attention(q, kv, entries, sink, 16, start, offset, visible, selected)
        return ops.linear_cross_entropy(out.mean(dim=2).flatten(0, 1).to(head.dtype), head, targets)

    leaves = [tensor.detach().requires_grad_() for tensor in (*exact, weight)]
    truth = (loss(*leaves), *torch.autograd.grad(loss(*leaves), leaves))

    def work() -> tuple[Tensor, ...]:
        rounded = [tensor.detach().float().requires_grad_() for tensor in (*exact, weight)]
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(*rounded)
        return value, *torch.autograd.grad(value, rounded)

    for found in both(work):
        for expected, actual in zip(truth, found, strict=True):
            assert actual.dtype == torch.float32
            assert (actual - expected).norm() <= 2e-2 * expected.norm()
