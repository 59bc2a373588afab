"""The compressor: one entry per block of tokens, normalised and turned to the position of the block's first token."""

from typing import cast

import torch
from torch import Tensor, nn

from trex.kernels import ops
from trex.model.config import SPARSE, ModelConfig
from trex.model.documents import Blocks
from trex.model.layers import Linear, RMSNorm
from trex.model.rotary import Turns


class Compressor(nn.Module):
    """Entries of `size` channels, of blocks of `ratio` tokens; those of ratio 4 overlap (report §2.3.1, eq. 9-12)."""

    def __init__(self, config: ModelConfig, ratio: int, size: int) -> None:
        super().__init__()
        self.ratio, self.overlap = ratio, ratio == SPARSE
        width = 2 * size if self.overlap else size
        self.wkv = Linear(config.hidden_size, width)
        self.wgate = Linear(config.hidden_size, width)
        self.ape = nn.Parameter(torch.empty(ratio, width))
        self.norm = RMSNorm(size, config.eps)

    def forward(self, x: Tensor, blocks: Blocks, turns: Turns) -> Tensor:
        """x: [B, S, d]. Returns [B, N, size], at least float32."""
        values, gates = self.wkv(x), self.wgate(x)
        entries = ops.compress(blocks.gather(values), blocks.gather(gates), self.ape, blocks.follows, self.overlap)
        return self.finish(entries, cast(Tensor, turns.block_cos), cast(Tensor, turns.block_sin))

    def finish(self, entries: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Norm and rotation of raw entries [B, N, size]; cos, sin: [B or 1, N, R / 2]."""
        return ops.rope(self.norm(entries), cos, sin)
