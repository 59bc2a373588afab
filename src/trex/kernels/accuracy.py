"""A backend against the definition in float64, on the same rounded inputs."""

from torch import Tensor

from trex.kernels import ops
from trex.kernels.cases import Case, gradients

BOUNDS = {"fp32": 5e-6, "bf16": 1e-2}  # largest normwise error of the output and of every gradient


def errors(case: Case, backend: str, seed: int = 0) -> dict[str, float]:
    """Normwise relative error ‖a − b‖ / ‖b‖ of the output `y` and of each gradient `d<input>`.

    b is the reference in float64 on the inputs as rounded to the case's dtype. Raises KernelError where the backend is
    not available.
    """
    inputs = case.inputs(seed)
    with ops.use(backend):
        found = gradients(case.operator, inputs)
    with ops.use("reference"):
        exact = gradients(case.operator, {name: tensor.double() for name, tensor in inputs.items()})
    return {name: normwise(found[name], exact[name]) for name in exact}


def normwise(found: Tensor, exact: Tensor) -> float:
    """‖found − exact‖ / ‖exact‖ in float64; of two zero tensors, and of two empty ones, 0."""
    difference, size = (found.double() - exact.double()).norm().item(), exact.double().norm().item()
    return 0.0 if difference == 0 else difference / size if size else float("inf")
