"""What is checked and measured: an operator at one shape, dtype and direction."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trex.kernels import ops

DIRECTIONS = ("forward", "backward", "forward+backward")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
LIMIT = 10.0  # clamp of limited SwiGLU


@dataclass(frozen=True)
class Case:
    """One operator on [tokens, channels]. `weighted`: per channel in RMSNorm, per token in limited SwiGLU."""

    operator: str
    dtype: str = "bf16"
    tokens: int = 4096
    channels: int = 4096
    direction: str = "forward"
    weighted: bool = False

    def __post_init__(self) -> None:
        accepted = {"operator": tuple(ops.OPERATORS), "dtype": tuple(DTYPES), "direction": DIRECTIONS}
        for name, values in accepted.items():
            if getattr(self, name) not in values:
                raise ops.KernelError(f"case: {name} {getattr(self, name)!r}; accepted: {', '.join(values)}")

    @property
    def bytes_moved(self) -> int:
        """Bytes when each input is read once and each output written once: what no backend can undercut from memory.

        Forward reads the inputs and writes y. Backward reads the inputs and y's gradient and writes the gradients.
        """
        weight = 4 * (self.channels if self.operator == "rms_norm" else self.tokens) * self.weighted
        matrix = self.tokens * self.channels * DTYPES[self.dtype].itemsize
        inputs = weight + matrix * (1 if self.operator == "rms_norm" else 2)
        forward, backward = inputs + matrix, inputs + matrix + inputs
        return {"forward": forward, "backward": backward, "forward+backward": forward + backward}[self.direction]

    def inputs(self, seed: int = 0) -> dict[str, Tensor]:
        """Random inputs by name, and `g`, the gradient of the output. Clamps bind: about one in six lies beyond."""
        generator = torch.Generator().manual_seed(seed)

        def matrix(scale: float) -> Tensor:
            return (scale * torch.randn(self.tokens, self.channels, generator=generator)).to(DTYPES[self.dtype])

        if self.operator == "rms_norm":
            found, weights = {"x": matrix(2.0)}, self.channels
        else:
            found, weights = {"gate": matrix(8.0), "up": matrix(8.0)}, self.tokens
        if self.weighted:
            found["weight"] = torch.rand(weights, generator=generator)
        return {**found, "g": matrix(1.0)}


def apply(operator: str, inputs: dict[str, Tensor]) -> Tensor:
    """Run the operator on named inputs."""
    weight = inputs.get("weight")
    if operator == "rms_norm":
        return ops.rms_norm(inputs["x"], weight)
    return ops.limited_swiglu(inputs["gate"], inputs["up"], LIMIT, weight)


def gradients(operator: str, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The output `y` and the gradient `d<name>` of every input, for the output's gradient `g`."""
    leaves = _leaves(inputs)
    y = apply(operator, leaves)
    found = torch.autograd.grad(y, list(leaves.values()), inputs["g"])
    return {"y": y.detach(), **{f"d{name}": gradient for name, gradient in zip(leaves, found, strict=True)}}


def work(case: Case, inputs: dict[str, Tensor]) -> Callable[[], Any]:
    """What is timed: one call of the case's direction, as in training (the forward pass keeps what backward needs)."""
    leaves = _leaves(inputs)
    if case.direction == "forward":
        return lambda: apply(case.operator, leaves)
    if case.direction == "forward+backward":
        return lambda: gradients(case.operator, inputs)
    y = apply(case.operator, leaves)
    return lambda: torch.autograd.grad(y, list(leaves.values()), inputs["g"], retain_graph=True)


def _leaves(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().requires_grad_() for name, tensor in inputs.items() if name != "g"}
