"""The compressor, the definition.

Source: DeepSeek-V4 report (arXiv 2606.19348) §2.3 and the official `inference/model.py`, whose channel order is kept.
"""

import torch
from torch import Tensor

from trex.kernels.precision import wide


def compress(
    values: Tensor, gates: Tensor, ape: Tensor, follows: Tensor | None = None, overlap: bool = False
) -> Tensor:
    """One entry per block of m tokens: C_i = Σ_t softmax_t(gates + ape) · values, channel by channel.

    overlap: the sum runs over 2m slots, the first half of the channels of the block before and the second half of the
    channels of the block itself; a block that follows none has m slots.

    values, gates: [B, N, m, e·c], e = 2 with overlap, else 1; N blocks, in order. ape: [m, e·c], the position biases.
    follows: [B, N] bool, whether block i - 1 comes right before block i in one document; None: all but the first do.
    Returns [B, N, c], at least float32.
    """
    a, z = wide(values), wide(gates) + ape
    if overlap:
        c = a.shape[-1] // 2
        if follows is None:
            follows = torch.arange(a.shape[1], device=a.device).gt(0).expand(a.shape[:2])
        alone = ~follows[..., None, None]
        before_a = _shifted(a[..., :c]).masked_fill(alone, 0)
        before_z = _shifted(z[..., :c]).masked_fill(alone, -torch.inf)
        a = torch.cat((before_a, a[..., c:]), dim=2)
        z = torch.cat((before_z, z[..., c:]), dim=2)
    return (z.softmax(dim=2) * a).sum(dim=2)


def _shifted(blocks: Tensor) -> Tensor:
    """Block i - 1 in the place of block i; the first place is the last block's, to be masked."""
    return blocks.roll(1, dims=1)
