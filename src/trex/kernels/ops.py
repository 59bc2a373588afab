"""The operators, and the choice of the backend that runs each call.

    ops.rms_norm(x)                                   # the fast backend of x's device where it pays, else the reference
    with ops.use("reference"): …                      # one backend for every operator
    TREX_KERNELS=reference,rms_norm=cpu python …      # the same for a process, one operator apart

A new backend is a file in its operator's folder, an entry in OPERATORS, and one in BACKENDS unless it is there.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from trex.kernels import compiler
from trex.kernels.limited_swiglu import cpu as limited_swiglu_cpu
from trex.kernels.limited_swiglu import reference as limited_swiglu_reference
from trex.kernels.rms_norm import cpu as rms_norm_cpu
from trex.kernels.rms_norm import reference as rms_norm_reference

VARIABLE = "TREX_KERNELS"


class KernelError(ValueError):
    """A call that an operator does not accept, or a backend that is unknown or cannot run here."""


@dataclass(frozen=True)
class Backend:
    """Where a backend can run, and where the automatic choice takes it."""

    devices: tuple[str, ...]  # torch device types; () for every one
    dtypes: tuple[torch.dtype, ...]  # taken automatically for these; float64 is for proofs and stays with the reference
    elements: int  # taken automatically from this size of the first input on
    missing: Callable[[], str | None]  # what the machine lacks to run it

    def runs_on(self, x: Tensor) -> bool:
        """Whether it knows the tensor's device."""
        return not self.devices or x.device.type in self.devices

    def pays_for(self, x: Tensor) -> bool:
        """Whether the automatic choice takes it for this tensor, if it is available; never for subclasses."""
        return type(x) is Tensor and self.runs_on(x) and x.dtype in self.dtypes and x.numel() >= self.elements


FLOATS = (torch.bfloat16, torch.float16, torch.float32)
BACKENDS: Mapping[str, Backend] = {
    # below 2^20 elements a call takes well under 1 ms either way, and short runs never earn back the compilation
    "cpu": Backend(("cpu",), FLOATS, 2**20, compiler.missing),
    "reference": Backend((), (*FLOATS, torch.float64), 0, lambda: None),
}
# backends of each operator, the preferred first; the reference runs everywhere
OPERATORS: Mapping[str, Mapping[str, Callable[..., Tensor]]] = {
    "rms_norm": {"cpu": rms_norm_cpu.rms_norm, "reference": rms_norm_reference.rms_norm},
    "limited_swiglu": {
        "cpu": limited_swiglu_cpu.limited_swiglu,
        "reference": limited_swiglu_reference.limited_swiglu,
    },
}


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """weight · x / sqrt(mean(x²) + eps) over the last dimension; see `rms_norm/reference.py`.

    x: [..., D], bfloat16 to float64. weight: [D] or None. Returns [..., D] in x's dtype. Raises KernelError.
    """
    _check_floating("rms_norm", x=x, weight=weight)
    if weight is not None and weight.shape != x.shape[-1:]:
        raise KernelError(f"rms_norm: weight {_shape(weight)} for x {_shape(x)}; accepted: [{x.shape[-1]}] or None")
    return _run("rms_norm", x, weight, eps)


def limited_swiglu(gate: Tensor, up: Tensor, limit: float = 10.0, weight: Tensor | None = None) -> Tensor:
    """silu(min(gate, limit)) · clamp(up, ±limit) · weight; see `limited_swiglu/reference.py`.

    gate, up: [..., D] of one dtype, bfloat16 to float64. weight: [...], one per token, or None. Returns [..., D] in
    gate's dtype. Raises KernelError.
    """
    _check_floating("limited_swiglu", gate=gate, up=up, weight=weight)
    if up.shape != gate.shape or up.dtype != gate.dtype:
        raise KernelError(
            f"limited_swiglu: gate {_shape(gate)} {gate.dtype} and up {_shape(up)} {up.dtype}; "
            "accepted: one shape and one dtype"
        )
    if weight is not None and weight.shape != gate.shape[:-1]:
        raise KernelError(
            f"limited_swiglu: weight {_shape(weight)} for gate {_shape(gate)}; "
            f"accepted: {list(gate.shape[:-1])} or None"
        )
    if not limit > 0:
        raise KernelError(f"limited_swiglu: limit {limit}; accepted: a number above 0")
    return _run("limited_swiglu", gate, up, limit, weight)


def choose(operator: str, x: Tensor) -> str:
    """Name of the backend that would run `operator` with `x` as first input.

    Forced by `use` or TREX_KERNELS, else the first that pays and is available. Raises KernelError where the forced one
    is not an option; the message names what is missing.
    """
    backends = _backends(operator)
    if torch.compiler.is_compiling():
        return "reference"  # a caller's own torch.compile fuses the definition with what surrounds it
    forced = _parse(os.environ.get(VARIABLE, ""))
    name = forced.get(operator, forced.get("", ""))
    if not name:
        return next((b for b in backends if BACKENDS[b].pays_for(x) and BACKENDS[b].missing() is None), "reference")
    if name not in backends:
        raise KernelError(f"{operator} has no backend {name!r}; accepted: {', '.join(backends)}")
    if not BACKENDS[name].runs_on(x):
        raise KernelError(
            f"{operator}: backend {name!r} runs on {', '.join(BACKENDS[name].devices)}, not on {x.device.type}"
        )
    lacking = BACKENDS[name].missing()
    if lacking is not None:
        raise KernelError(f"{operator}: backend {name!r} is not available; missing: {lacking}")
    return name


@contextmanager
def use(choice: str) -> Iterator[None]:
    """Force backends inside the block: a backend's name, `operator=backend`, or several of these joined by commas.

    Sets TREX_KERNELS, so it holds for the whole process: backward threads and processes started inside see it too.
    Raises KernelError for an unknown name.
    """
    _parse(choice)
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = choice
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _run(operator: str, *args: Any) -> Tensor:
    return OPERATORS[operator][choose(operator, args[0])](*args)


def _backends(operator: str) -> Mapping[str, Callable[..., Tensor]]:
    if operator not in OPERATORS:
        raise KernelError(f"operator {operator!r}; accepted: {', '.join(OPERATORS)}")
    return OPERATORS[operator]


@cache
def _parse(choice: str) -> Mapping[str, str]:
    """Backend by operator, and for all others under the empty name."""
    found = {}
    for entry in filter(None, (part.strip() for part in choice.split(","))):
        operator, _, name = entry.rpartition("=")
        if name not in BACKENDS:
            raise KernelError(f"{VARIABLE}: backend {name!r}; accepted: {', '.join(BACKENDS)}")
        if operator:
            _backends(operator)
        found[operator] = name
    return found


def _check_floating(operator: str, **tensors: Tensor | None) -> None:
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    for name, tensor in given.items():
        if tensor.dtype not in BACKENDS["reference"].dtypes:
            accepted = ", ".join(str(dtype).removeprefix("torch.") for dtype in BACKENDS["reference"].dtypes)
            raise KernelError(f"{operator}: {name} is {tensor.dtype}; accepted: {accepted}")
    first = next(iter(given))
    if given[first].dim() == 0:
        raise KernelError(f"{operator}: {first} is a scalar; accepted: at least one dimension")
    devices = {name: str(tensor.device) for name, tensor in given.items()}
    if len(set(devices.values())) > 1:
        raise KernelError(f"{operator}: tensors on {devices}; accepted: one device")


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)
