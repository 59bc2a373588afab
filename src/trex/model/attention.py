"""Attention of DeepSeek-V4: low-rank queries, one shared key-value head, window, compressed entries, sinks.

Source: DeepSeek-V4 report (arXiv 2606.19348) §2.3 and the official `inference/model.py`.
"""

import torch
from torch import Tensor, nn

from trex.kernels import ops
from trex.model.compressor import Compressor
from trex.model.config import SPARSE, WINDOW, ConfigError, ModelConfig
from trex.model.documents import Documents
from trex.model.indexer import Indexer
from trex.model.layers import GroupedLinear, Linear, RMSNorm
from trex.model.rotary import Turns

INDEXER_MODES = ("frozen", "sparse", "warm-up")


class Attention(nn.Module):
    """Window attention (ratio 0), CSA (4) or HCA (128). [B, S, d] to [B, S, d]."""

    def __init__(self, config: ModelConfig, ratio: int) -> None:
        super().__init__()
        self.ratio, self.heads, self.size = ratio, config.num_heads, config.head_dim
        self.window, self.eps = config.window, config.eps
        width, rank = self.heads * self.size, config.o_groups * config.o_lora_rank
        self.wq_a = Linear(config.hidden_size, config.q_lora_rank)
        self.q_norm = RMSNorm(config.q_lora_rank, config.eps)
        self.wq_b = Linear(config.q_lora_rank, width)
        self.wkv = Linear(config.hidden_size, self.size)
        self.kv_norm = RMSNorm(self.size, config.eps)
        self.wo_a = GroupedLinear(width, rank, config.o_groups)
        self.wo_b = Linear(rank, config.hidden_size)
        self.attn_sink = nn.Parameter(torch.empty(self.heads))
        self.compressor = Compressor(config, ratio, self.size) if ratio != WINDOW else None
        self.indexer = Indexer(config) if ratio == SPARSE else None

    def forward(
        self, x: Tensor, documents: Documents, turns: Turns, indexer: str = "sparse"
    ) -> tuple[Tensor, Tensor | None]:
        """Attend within documents; returns the output and, in CSA unless frozen, the indexer's loss of each token.

        x: [B, S, d], normed. indexer: "sparse", "warm-up" (attend to all visible entries, and learn from all of them)
        or "frozen". The loss is [B, S].
        """
        qr = self.q_norm(self.wq_a(x))
        q, kv = self.queries(qr, turns.cos, turns.sin), self.keys(x, turns.cos, turns.sin)
        if self.compressor is None:
            none = torch.zeros_like(documents.start)
            no_entries = kv[:, :0]
            out, _ = ops.shared_kv_attention(
                q, kv, no_entries, self.attn_sink, self.window, documents.start, none, none
            )
            return self.output(out, turns.cos, turns.sin), None
        blocks = documents.blocks[self.ratio]
        entries = self.compressor(x, blocks, turns).to(kv.dtype)
        index = selected = None
        if self.indexer is not None:
            with torch.set_grad_enabled(torch.is_grad_enabled() and indexer != "frozen"):
                index = self.indexer(x, qr, blocks, turns)
            selected = None if indexer == "warm-up" else self.indexer.select(index, blocks)
        out, mass = ops.shared_kv_attention(
            q, kv, entries, self.attn_sink, self.window, documents.start, blocks.offset, blocks.visible, selected
        )
        loss = None
        if self.indexer is not None and index is not None and indexer != "frozen":
            loss = self.indexer.loss(index, blocks, mass, selected)
        return self.output(out, turns.cos, turns.sin), loss

    def queries(self, qr: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Queries [B, S, H, c] of low-rank queries [B, S, q_lora_rank]: up, norm of each head, rotation."""
        q = ops.rms_norm(self.wq_b(qr).unflatten(-1, (self.heads, self.size)), None, self.eps)
        return ops.rope(q, cos.unsqueeze(2), sin.unsqueeze(2))

    def keys(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """The shared key-value head [B, S, c]."""
        return ops.rope(self.kv_norm(self.wkv(x)), cos, sin)

    def output(self, out: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, S, H, c] to [B, S, d]: values carry their keys' rotation, so turn back, then project."""
        turned = ops.rope(out, cos.unsqueeze(2), sin.unsqueeze(2), inverse=True)
        return self.wo_b(self.wo_a(turned.flatten(-2)))


def check_indexer_mode(mode: str) -> None:
    """Raises ConfigError for what is no way to treat the indexer."""
    if mode not in INDEXER_MODES:
        raise ConfigError(f"indexer {mode!r}; accepted: {', '.join(INDEXER_MODES)}")
