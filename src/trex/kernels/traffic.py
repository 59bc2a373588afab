"""Bytes that eager PyTorch moves for an operator: each step reads its inputs from memory and writes its outputs."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trex.kernels import ops
from trex.kernels.cases import Case, work


def eager_traffic(case: Case) -> tuple[int, int]:
    """Steps of the reference for this case, and the bytes they read and write together; counted on the meta device.

    Over `case.bytes_moved` this is the speed-up of perfect fusion where memory is the only limit and no cache holds
    what one step hands to the next.
    """
    with ops.use("reference"):
        run = work(case, {name: tensor.to("meta") for name, tensor in case.inputs().items()})
        with _Traffic() as counter:
            run()
    return counter.steps, counter.bytes


class _Traffic(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.steps, self.bytes = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        read = {_storage(t): _bytes(t) for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        written = {_storage(t): _bytes(t) for t in tree_leaves(result) if isinstance(t, Tensor)}
        if written.keys() - read.keys():  # else a view: nothing is moved
            self.steps += 1
            self.bytes += sum(read.values()) + sum(written.values())
        return result


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _bytes(tensor: Tensor) -> int:
    """Distinct bytes: an expanded tensor is as large as its storage."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
