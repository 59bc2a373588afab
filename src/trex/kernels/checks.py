"""What operators accept: tensors on one device, of dtypes and shapes that fit one another; else one clear error."""

from collections.abc import Iterator

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
    _check_devices(operator, given)


def check_dtype(operator: str, dtype: torch.dtype, **tensors: Tensor | None) -> None:
    """Tensors of just this dtype, for places, counts and masks; else KernelError."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dtype != dtype:
            raise KernelError(f"{operator}: {name} is {tensor.dtype}; accepted: {str(dtype).removeprefix('torch.')}")


def check_shapes(operator: str, **tensors: tuple[Tensor | None, str]) -> dict[str, int]:
    """Tensors on one device, each with the shape it must have; returns the sizes by name. Raises KernelError.

    A shape is written as in the operators' documentation, "B S c": a name has one size in all tensors, the first of
    which decides it; "B|1" accepts 1 as well, a number is itself, and "..." in front stands for any dimensions, the
    same in all tensors.
    """
    given = {name: (tensor, shape) for name, (tensor, shape) in tensors.items() if tensor is not None}
    sizes: dict[str, int] = {}
    lead: tuple[int, ...] | None = None
    for name, (tensor, shape) in given.items():
        dims, found = shape.split(), tuple(tensor.shape)
        if dims[0] == "...":
            dims = dims[1:]
            before = found[: max(0, len(found) - len(dims))]
            lead = before if lead is None else lead
            dims = [*map(str, lead), *dims]
        if len(found) != len(dims) or not all(_fits(dim, size, sizes) for dim, size in zip(dims, found, strict=True)):
            raise KernelError(f"{operator}: {name} {list(found)}; accepted: [{', '.join(_shown(dims, sizes))}]")
    _check_devices(operator, {name: tensor for name, (tensor, _) in given.items()})
    return sizes


def _fits(dim: str, size: int, sizes: dict[str, int]) -> bool:
    """Whether a dimension may have this size; a name that is new gets it."""
    name, _, other = dim.partition("|")
    expected = int(name) if name.isdecimal() else sizes.setdefault(name, size)
    return size == expected or (bool(other) and size == int(other))


def _shown(dims: list[str], sizes: dict[str, int]) -> Iterator[str]:
    for dim in dims:
        name, _, other = dim.partition("|")
        known = f"{name} = {sizes[name]}" if name in sizes else name
        yield f"{known} or {other}" if other else known


def _check_devices(operator: str, tensors: dict[str, Tensor]) -> None:
    devices = {name: str(tensor.device) for name, tensor in tensors.items()}
    if len(set(devices.values())) > 1:
        raise KernelError(f"{operator}: tensors on {devices}; accepted: one device")
