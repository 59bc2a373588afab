"""RMSNorm against closed forms in numpy's float64 and against torch's own operator."""

import numpy as np
import pytest
import torch
from torch import Tensor

from trex.kernels import ops
from trex.kernels.rms_norm import cpu, reference

BOUNDS = {torch.float32: 5e-6, torch.bfloat16: 1e-2}
RANDOM = np.random.default_rng(7)
SHAPES = [(0, 16), (4, 0), (1, 1), (1, 64), (5, 1), (48,), (2, 3, 65), (3, 512)] + [
    tuple(int(n) for n in RANDOM.integers(2, 400, size=2)) for _ in range(4)
]


def closed_form(x: Tensor, weight: Tensor | None, g: Tensor, eps: float) -> dict[str, np.ndarray]:
    """Value and gradients in float64, by hand: y_i = w_i x_i r, ∂y_i/∂x_j = w_i (r δ_ij − r³ x_i x_j / D)."""
    rows = (x.shape[:-1].numel(), x.shape[-1])
    x64, g64 = x.double().numpy().reshape(rows), g.double().numpy().reshape(rows)
    w = np.ones(x.shape[-1]) if weight is None else weight.double().numpy()
    r = 1 / np.sqrt((x64**2).sum(-1, keepdims=True) / max(x.shape[-1], 1) + eps)
    inner = (g64 * w * x64).sum(-1, keepdims=True)
    return {
        "y": w * x64 * r,
        "dx": r * g64 * w - r**3 * x64 * inner / max(x.shape[-1], 1),
        "dweight": (g64 * x64 * r).sum(0),
    }


def normwise(found: Tensor, exact: np.ndarray) -> float:
    difference = np.linalg.norm(found.double().numpy().reshape(exact.shape) - exact)
    return float(difference / np.linalg.norm(exact)) if difference else 0.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", list(BOUNDS))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value_and_gradients_against_closed_form(
    backend: str, shape: tuple[int, ...], dtype: torch.dtype, weighted: bool
) -> None:
    generator = torch.Generator().manual_seed(sum(shape))
    x = (3 * torch.randn(shape, generator=generator)).to(dtype).requires_grad_()
    g = torch.randn(shape, generator=generator).to(dtype)
    weight = torch.rand(shape[-1], generator=generator).requires_grad_() if weighted else None
    with ops.use(backend):
        y = ops.rms_norm(x, weight, eps=1e-5)
    y.backward(g)
    exact = closed_form(x.detach(), None if weight is None else weight.detach(), g, 1e-5)
    assert y.dtype == x.grad.dtype == dtype and y.shape == x.shape
    # with one channel dx is eps·r³·g, left over when two numbers 10⁵ times larger cancel: compare with those
    scale = 1.0 if shape[-1] > 1 else 1e-5
    assert normwise(y.detach(), exact["y"]) <= BOUNDS[dtype]
    assert normwise(x.grad, exact["dx"]) * scale <= BOUNDS[dtype]
    if weight is not None:
        assert weight.grad.dtype == torch.float32
        assert normwise(weight.grad, exact["dweight"]) <= BOUNDS[dtype]


@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_torch_in_float64(backend: str, weighted: bool) -> None:
    x = torch.randn(33, 77, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(77, dtype=torch.float64, requires_grad=True) if weighted else None
    g = torch.randn(33, 77, dtype=torch.float64)
    inputs = [x] if weight is None else [x, weight]
    expected = torch.nn.functional.rms_norm(x, (77,), weight, 1e-6)
    with ops.use(backend):
        found = ops.rms_norm(x, weight, 1e-6)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    for ours, theirs in zip(
        torch.autograd.grad(found, inputs, g), torch.autograd.grad(expected, inputs, g), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck_of_the_reference(weighted: bool) -> None:
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(5, dtype=torch.float64, requires_grad=True) if weighted else None
    assert torch.autograd.gradcheck(reference.rms_norm, (x, weight))
    assert torch.autograd.gradgradcheck(reference.rms_norm, (x, weight))


def test_small_values_are_not_lost_in_bfloat16(backend: str) -> None:
    """Squares of 1e-25 underflow float32, so eps decides; the mean of 4096 ones is exact only above bfloat16."""
    with ops.use(backend):
        tiny = ops.rms_norm(torch.full((2, 64), 1e-25, dtype=torch.bfloat16), eps=1e-6)
        ones = ops.rms_norm(torch.ones(2, 4096, dtype=torch.bfloat16), eps=0.0)
    assert torch.allclose(tiny.double(), torch.full((2, 64), 1e-22, dtype=torch.float64), rtol=1e-2)
    assert torch.equal(ones, torch.ones_like(ones))


def test_rows_with_a_stride_and_bits_that_repeat(compiled_backend: str) -> None:
    packed = torch.randn(130, 3 * 96)
    view = packed[:, 96:192].requires_grad_()
    weight, g = torch.rand(96, requires_grad=True), torch.randn(130, 96)
    runs = []
    for _ in range(2):
        y = cpu.rms_norm(view, weight)
        runs.append([y, *torch.autograd.grad(y, [view, weight], g)])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    exact = closed_form(view.detach(), weight.detach(), g, 1e-6)
    assert max(normwise(f.detach(), e) for f, e in zip(runs[0], exact.values(), strict=True)) <= 5e-6


def test_weight_gradient_keeps_its_precision_over_many_rows(compiled_backend: str) -> None:
    x, weight, g = torch.randn(40_000, 8), torch.ones(8, requires_grad=True), 1 + torch.randn(40_000, 8)
    (found,) = torch.autograd.grad(cpu.rms_norm(x.abs(), weight), weight, g)
    assert normwise(found, closed_form(x.abs(), weight.detach(), g, 1e-6)["dweight"]) <= 3e-7


def test_bad_arguments_are_named() -> None:
    x = torch.ones(2, 8)
    with pytest.raises(ops.KernelError, match=r"weight \[7\] for x \[2, 8\]; accepted: \[8\] or None"):
        ops.rms_norm(x, torch.ones(7))
    with pytest.raises(ops.KernelError, match=r"x is torch.int64; accepted: bfloat16, float16, float32, float64"):
        ops.rms_norm(x.long())
    with pytest.raises(ops.KernelError, match="x is a scalar"):
        ops.rms_norm(torch.tensor(1.0))
    with pytest.raises(ops.KernelError, match="accepted: one device"):
        ops.rms_norm(x, torch.ones(8, device="meta"))
