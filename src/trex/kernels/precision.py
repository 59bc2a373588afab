"""In which precision an operator computes: at least float32, and never below its input."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """`x` in float32, or as it is where it is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def no_autocast(x: Tensor) -> AbstractContextManager[None]:
    """Products inside keep the dtype of their inputs, whatever a caller's autocast says."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


def product_dtype(x: Tensor) -> torch.dtype:
    """The dtype in which a caller wants matrix products of `x`: autocast's where it is on, else that of `x`.

    Autocast leaves float64 alone, and so does this.
    """
    device = x.device.type
    known = torch.amp.is_autocast_available(device)  # not on the meta device
    if known and x.dtype != torch.float64 and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return x.dtype
