"""The lightning indexer: cheap scores that decide which compressed entries a query of CSA attends to.

The language-model loss never reaches it, as what it gives is a choice; and its own loss reaches nothing else, as what
it reads is detached.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from trex.kernels import ops
from trex.model.compressor import Compressor
from trex.model.config import SPARSE, ModelConfig
from trex.model.documents import Blocks
from trex.model.layers import Linear
from trex.model.rotary import Turns


@dataclass(frozen=True)
class Index:
    """What scores are made of: I[t, j] = Σ_h w[t, h]·ReLU(q[t, h]·k[j])."""

    q: Tensor  # [B, S, heads, c]
    k: Tensor  # [B, N, c]
    w: Tensor  # [B, S, heads], scaled


class Indexer(nn.Module):
    """Queries from the low-rank queries of the attention, keys from a compressor of its own (report §2.3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.size, self.top_k = config.index_heads, config.index_dim, config.index_topk
        self.scale = (self.size * self.heads) ** -0.5
        self.wq_b = Linear(config.q_lora_rank, self.heads * self.size)
        self.weights_proj = Linear(config.hidden_size, self.heads)
        self.compressor = Compressor(config, SPARSE, self.size)

    def forward(self, x: Tensor, qr: Tensor, blocks: Blocks, turns: Turns) -> Index:
        """x: [B, S, d]. qr: [B, S, q_lora_rank]. Both are detached."""
        x, qr = x.detach(), qr.detach()
        q, w = self.queries(x, qr, turns.cos, turns.sin)
        return Index(q, self.compressor(x, blocks, turns), w)

    def queries(self, x: Tensor, qr: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Queries [B, S, heads, c] and their weights [B, S, heads]."""
        q = self.wq_b(qr).unflatten(-1, (self.heads, self.size))
        return ops.rope(q, cos.unsqueeze(2), sin.unsqueeze(2)), self.weights_proj(x) * self.scale

    def select(self, index: Index, blocks: Blocks) -> Tensor | None:
        """The entries each query attends to, [B, S, top_k], -1 for none; None where no query sees more than top_k."""
        if blocks.most <= self.top_k:
            return None
        return ops.select_entries(index.q, index.k, index.w, blocks.offset, blocks.visible, self.top_k)

    def loss(self, index: Index, blocks: Blocks, mass: Tensor, selected: Tensor | None) -> Tensor:
        """KL divergence of each query's scores from the attention's mass, [B, S]."""
        return ops.indexer_loss(index.q, index.k, index.w, mass, blocks.offset, blocks.visible, selected)
