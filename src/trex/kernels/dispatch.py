"""Which backend runs each call of an operator.

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
from trex.kernels.attention import cpu as attention_cpu
from trex.kernels.attention import reference as attention
from trex.kernels.checks import DTYPES, KernelError
from trex.kernels.compressor import reference as compressor
from trex.kernels.cross_entropy import cpu as cross_entropy_cpu
from trex.kernels.cross_entropy import reference as cross_entropy
from trex.kernels.hyper_connections import cpu as hyper_connections_cpu
from trex.kernels.hyper_connections import reference as hyper_connections
from trex.kernels.indexer import cpu as indexer_cpu
from trex.kernels.indexer import reference as indexer
from trex.kernels.limited_swiglu import cpu as limited_swiglu_cpu
from trex.kernels.limited_swiglu import reference as limited_swiglu_reference
from trex.kernels.moe import reference as moe
from trex.kernels.rms_norm import cpu as rms_norm_cpu
from trex.kernels.rms_norm import reference as rms_norm_reference
from trex.kernels.rope import reference as rope

VARIABLE = "TREX_KERNELS"


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
    "reference": Backend((), DTYPES, 0, lambda: None),
}
# backends of each operator, the preferred first; the reference runs everywhere
OPERATORS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "rms_norm": {"cpu": rms_norm_cpu.rms_norm, "reference": rms_norm_reference.rms_norm},
    "limited_swiglu": {
        "cpu": limited_swiglu_cpu.limited_swiglu,
        "reference": limited_swiglu_reference.limited_swiglu,
    },
    "rope": {"reference": rope.rope},
    "read_streams": {"cpu": hyper_connections_cpu.read_streams, "reference": hyper_connections.read_streams},
    "write_streams": {"cpu": hyper_connections_cpu.write_streams, "reference": hyper_connections.write_streams},
    "collapse_streams": {"reference": hyper_connections.collapse_streams},
    "compress": {"reference": compressor.compress},
    "attend": {"reference": attention.attend},
    "shared_kv_attention": {
        "cpu": attention_cpu.shared_kv_attention,
        "reference": attention.shared_kv_attention,
    },
    "index_scores": {"reference": indexer.index_scores},
    "top_entries": {"reference": indexer.top_entries},
    "select_entries": {"cpu": indexer_cpu.select_entries, "reference": indexer.select_entries},
    "indexer_loss": {"reference": indexer.indexer_loss},
    "router_scores": {"reference": moe.router_scores},
    "select_experts": {"reference": moe.select_experts},
    "routing_weights": {"reference": moe.routing_weights},
    "permute": {"reference": moe.permute},
    "unpermute": {"reference": moe.unpermute},
    "grouped_matmul": {"reference": moe.grouped_matmul},
    "linear_cross_entropy": {
        "cpu": cross_entropy_cpu.linear_cross_entropy,
        "reference": cross_entropy.linear_cross_entropy,
    },
}


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

    Sets TREX_KERNELS, so it holds for the whole process: backward threads and processes started inside see it too. A
    forward pass that recomputes needs its backward pass inside as well.
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


def run(operator: str, *args: Any) -> Any:
    """Call the operator's chosen backend; the choice looks at the first argument. Raises KernelError."""
    return OPERATORS[operator][choose(operator, args[0])](*args)


def _backends(operator: str) -> Mapping[str, Callable[..., Any]]:
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
