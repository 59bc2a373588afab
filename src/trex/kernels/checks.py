"""What operators accept: floating tensors on one device, of shapes that fit one another; else one clear error."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


class KernelError(ValueError):
    """A call that an operator does not accept, or a backend that is unknown or cannot run here."""


def check_floating(operator: str, **tensors: Tensor | None) -> None:
    """Floating tensors of at least one dimension on one device, else KernelError."""
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    for name, tensor in given.items():
        if tensor.dtype not in DTYPES:
            accepted = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
            raise KernelError(f"{operator}: {name} is {tensor.dtype}; accepted: {accepted}")
    first = next(iter(given))
    if given[first].dim() == 0:
        raise KernelError(f"{operator}: {first} is a scalar; accepted: at least one dimension")
    devices = {name: str(tensor.device) for name, tensor in given.items()}
    if len(set(devices.values())) > 1:
        raise KernelError(f"{operator}: tensors on {devices}; accepted: one device")


def check_shapes(operator: str, expected: Mapping[str, tuple[Tensor, Sequence[int]]]) -> None:
    """Tensors by name, each with the shape it must have, else KernelError."""
    for name, (tensor, shape) in expected.items():
        if tensor.shape != tuple(shape):
            raise KernelError(
                f"{operator}: {name} {list(tensor.shape)}; accepted beside the other inputs: {list(shape)}"
            )
