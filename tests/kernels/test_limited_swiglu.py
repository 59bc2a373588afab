"""Limited SwiGLU against closed forms in numpy's float64; clamps bind, and at a bound the gradient is the inner one."""

import numpy as np
import pytest
import torch
from torch import Tensor

from trex.kernels import ops
from trex.kernels.limited_swiglu import cpu, reference

BOUNDS = {torch.float32: 5e-6, torch.bfloat16: 1e-2}
RANDOM = np.random.default_rng(11)
SHAPES = [(0, 16), (4, 0), (1, 1), (1, 64), (5, 1), (2, 3, 65), (3, 512)] + [
    tuple(int(n) for n in RANDOM.integers(2, 400, size=2)) for _ in range(4)
]


def closed_form(gate: Tensor, up: Tensor, limit: float, weight: Tensor | None, g: Tensor) -> dict[str, np.ndarray]:
    """Value and gradients in float64, by hand, with silu(a) = a / (1 + e^−a)."""
    gate64, up64, g64 = (t.double().numpy() for t in (gate, up, g))
    w = np.ones(gate.shape[:-1]) if weight is None else weight.double().numpy()
    a, u = np.minimum(gate64, limit), np.clip(up64, -limit, limit)
    e = np.exp(-a)
    silu, slope = a / (1 + e), (1 + e + a * e) / (1 + e) ** 2
    dy = g64 * w[..., None]
    return {
        "y": silu * u * w[..., None],
        "dgate": dy * u * slope * (gate64 <= limit),
        "dup": dy * silu * (np.abs(up64) <= limit),
        "dweight": (g64 * silu * u).sum(-1),
    }


def normwise(found: Tensor, exact: np.ndarray) -> float:
    difference = np.linalg.norm(found.double().numpy() - exact)
    return float(difference / np.linalg.norm(exact)) if difference else 0.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", list(BOUNDS))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value_and_gradients_against_closed_form(
    backend: str, shape: tuple[int, ...], dtype: torch.dtype, weighted: bool
) -> None:
    generator = torch.Generator().manual_seed(sum(shape))
    gate, up = ((8 * torch.randn(shape, generator=generator)).to(dtype).requires_grad_() for _ in range(2))
    g = torch.randn(shape, generator=generator).to(dtype)
    weight = torch.rand(shape[:-1], generator=generator).requires_grad_() if weighted else None
    if gate.numel() > 1000:  # both clamps bind, on a share that no tolerance could hide
        assert (gate > 10).double().mean() > 0.05 and (up > 10).any() and (up < -10).any()
    with ops.use(backend):
        y = ops.limited_swiglu(gate, up, 10.0, weight)
    y.backward(g)
    exact = closed_form(gate.detach(), up.detach(), 10.0, None if weight is None else weight.detach(), g)
    found = {"y": y.detach(), "dgate": gate.grad, "dup": up.grad}
    assert all(t.dtype == dtype and t.shape == gate.shape for t in found.values())
    if weight is not None:
        assert weight.grad.dtype == torch.float32
        found["dweight"] = weight.grad
    assert max(normwise(tensor, exact[name]) for name, tensor in found.items()) <= BOUNDS[dtype]


def test_gradient_at_the_bound_is_that_of_the_inside(backend: str) -> None:
    """At gate = 10 and |up| = 10 the gradient passes; one float beyond it is zero."""
    limit, inf = torch.tensor(10.0), torch.tensor(torch.inf)
    beyond = torch.nextafter(limit, inf)
    gate = torch.stack([limit, beyond, limit, limit, limit, limit]).reshape(2, 3).requires_grad_()
    up = torch.stack([limit, limit, beyond, -limit, -beyond, limit]).reshape(2, 3).requires_grad_()
    with ops.use(backend):
        y = ops.limited_swiglu(gate, up, 10.0)
    y.sum().backward()
    silu = 10 / (1 + np.exp(-10))
    slope = (1 + np.exp(-10) + 10 * np.exp(-10)) / (1 + np.exp(-10)) ** 2
    np.testing.assert_allclose(y.detach().numpy(), [[10 * silu] * 3, [-10 * silu, -10 * silu, 10 * silu]], rtol=1e-6)
    np.testing.assert_allclose(up.grad.numpy(), [[silu, silu, 0], [silu, 0, silu]], rtol=1e-6)
    np.testing.assert_allclose(
        gate.grad.numpy(), [[10 * slope, 0, 10 * slope], [-10 * slope, -10 * slope, 10 * slope]], rtol=1e-6
    )


@pytest.mark.parametrize("limit", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck_of_the_reference(limit: float, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    gate, up = (torch.randn(4, 5, generator=generator, dtype=torch.float64) * limit * 1.5 for _ in range(2))
    assert min((gate - limit).abs().min(), (up.abs() - limit).abs().min()) > 1e-4  # no kink within the finite step
    assert (gate > limit).any() and (up.abs() > limit).any()
    weight = torch.rand(4, generator=generator, dtype=torch.float64, requires_grad=True) if weighted else None
    inputs = (gate.requires_grad_(), up.requires_grad_(), limit, weight)
    assert torch.autograd.gradcheck(reference.limited_swiglu, inputs)


def test_the_gate_is_not_clamped_below(backend: str) -> None:
    gate = torch.tensor([[-12.0, -30.0, -200.0, 0.0]] * 2)
    with ops.use(backend):
        y = ops.limited_swiglu(gate, torch.ones(2, 4), 10.0)
    expected = [-12 / (1 + np.exp(12)), -30 / (1 + np.exp(30)), 0.0, 0.0]
    np.testing.assert_allclose(y.numpy()[0], expected, rtol=1e-5, atol=1e-30)


def test_not_a_number_stays_visible(backend: str) -> None:
    gate = torch.ones(2, 4)
    gate[0, 1] = torch.nan
    with ops.use(backend):
        y = ops.limited_swiglu(gate, torch.ones(2, 4), 10.0)
    assert y.isnan().nonzero().tolist() == [[0, 1]]


def test_halves_of_one_projection_and_bits_that_repeat(compiled_backend: str) -> None:
    """gate and up as the two halves of one matrix product: rows with a stride, no copy."""
    joint = (8 * torch.randn(130, 2 * 96)).requires_grad_()
    weight, g = torch.rand(130, requires_grad=True), torch.randn(130, 96)
    runs = []
    for _ in range(2):
        gate, up = joint.chunk(2, dim=-1)
        y = cpu.limited_swiglu(gate, up, 10.0, weight)
        runs.append([y, *torch.autograd.grad(y, [joint, weight], g)])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    exact = closed_form(*joint.detach().chunk(2, dim=-1), 10.0, weight.detach(), g)
    y, djoint, dweight = (t.detach() for t in runs[0])
    assert normwise(y, exact["y"]) <= 5e-6 and normwise(dweight, exact["dweight"]) <= 5e-6
    assert normwise(djoint, np.concatenate([exact["dgate"], exact["dup"]], axis=-1)) <= 5e-6


def test_bad_arguments_are_named() -> None:
    gate = torch.ones(2, 8)
    with pytest.raises(ops.KernelError, match=r"up \[2, 7\] torch.float32; accepted: one shape and one dtype"):
        ops.limited_swiglu(gate, torch.ones(2, 7))
    with pytest.raises(ops.KernelError, match=r"up \[2, 8\] torch.bfloat16; accepted: one shape and one dtype"):
        ops.limited_swiglu(gate, gate.bfloat16())
    with pytest.raises(ops.KernelError, match=r"weight \[8\] for gate \[2, 8\]; accepted: \[2\] or None"):
        ops.limited_swiglu(gate, gate, weight=torch.ones(8))
    for limit in (0.0, -1.0, float("nan")):
        with pytest.raises(ops.KernelError, match=f"limit {limit}; accepted: a number above 0"):
            ops.limited_swiglu(gate, gate, limit)
