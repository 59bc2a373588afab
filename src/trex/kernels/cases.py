"""What is checked and measured: an operator at one shape, dtype and direction."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trex.kernels import ops

OPERATORS = ("rms_norm", "limited_swiglu")  # that have a case; `ops.OPERATORS` has all there are
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
        if self.operator not in OPERATORS:
            raise _no_case(self.operator)
        accepted = {"dtype": tuple(DTYPES), "direction": DIRECTIONS}
        for name, values in accepted.items():
            if getattr(self, name) not in values:
                raise ops.KernelError(f"case: {name} {getattr(self, name)!r}; accepted: {', '.join(values)}")

    @property
    def bytes_moved(self) -> int:
        """Bytes when each input is read once and each output written once: what no backend can undercut from memory.

        Forward reads the inputs and writes y. Backward reads the inputs and y's gradient and writes the gradients.
        """
        scales, weights = self._layout()
        matrix = self.tokens * self.channels * DTYPES[self.dtype].itemsize
        inputs = 4 * weights * self.weighted + matrix * len(scales)
        forward, backward = inputs + matrix, inputs + matrix + inputs
        return {"forward": forward, "backward": backward, "forward+backward": forward + backward}[self.direction]

    def inputs(self, seed: int = 0) -> dict[str, Tensor]:
        """Random inputs by name, and `g`, the gradient of the output. Clamps bind: about one in six lies beyond."""
        generator = torch.Generator().manual_seed(seed)

        def matrix(scale: float) -> Tensor:
            return (scale * torch.randn(self.tokens, self.channels, generator=generator)).to(DTYPES[self.dtype])

        scales, weights = self._layout()
        found = {name: matrix(scale) for name, scale in scales.items()}
        if self.weighted:
            found["weight"] = torch.rand(weights, generator=generator)
        return {**found, "g": matrix(1.0)}

    def _layout(self) -> tuple[dict[str, float], int]:
        """Standard deviation of each input of [tokens, channels], by name, and the number of weights."""
        if self.operator == "rms_norm":
            return {"x": 2.0}, self.channels
        return {"gate": 8.0, "up": 8.0}, self.tokens


def apply(operator: str, inputs: dict[str, Tensor]) -> Tensor:
    """Run the operator on named inputs. Raises KernelError for an operator without a case."""
    weight = inputs.get("weight")
    if operator == "rms_norm":
        return ops.rms_norm(inputs["x"], weight)
    if operator == "limited_swiglu":
        return ops.limited_swiglu(inputs["gate"], inputs["up"], LIMIT, weight)
    raise _no_case(operator)


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


def _no_case(operator: str) -> ops.KernelError:
    return ops.KernelError(
        f"operator {operator!r} has no case; accepted: {', '.join(OPERATORS)} "
        "(to add one, write its inputs, bytes and call in kernels/cases.py)"
    )
