"""One layer: attention, then MoE, each reading from and writing to the residual streams through mHC."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from trex.kernels import ops
from trex.model.attention import Attention
from trex.model.config import WINDOW, ModelConfig
from trex.model.documents import Documents
from trex.model.layers import Linear, RMSNorm
from trex.model.moe import MoE, Routing
from trex.model.rotary import Turns


@dataclass(frozen=True)
class Report:
    """What a layer tells besides its output. Losses are sums over real tokens."""

    routing: Routing
    indexer: Tensor | None  # scalar: the indexer's loss; None without indexer, or frozen


class Block(nn.Module):
    """mHC(attention), then mHC(MoE). Streams [B, S, n, d] to streams."""

    def __init__(self, config: ModelConfig, ratio: int, hashed: bool) -> None:
        super().__init__()
        n, d = config.hc_mult, config.hidden_size
        self.ratio, self.sinkhorn_iters, self.eps = ratio, config.sinkhorn_iters, config.eps
        self.attn = Attention(config, ratio)
        self.ffn = MoE(config, hashed)
        self.attn_norm = RMSNorm(d, config.eps)
        self.ffn_norm = RMSNorm(d, config.eps)
        self.hc_attn_fn = nn.Parameter(torch.empty((2 + n) * n, n * d))
        self.hc_attn_base = nn.Parameter(torch.empty((2 + n) * n))
        self.hc_attn_scale = nn.Parameter(torch.empty(3))
        self.hc_ffn_fn = nn.Parameter(torch.empty((2 + n) * n, n * d))
        self.hc_ffn_base = nn.Parameter(torch.empty((2 + n) * n))
        self.hc_ffn_scale = nn.Parameter(torch.empty(3))

    def forward(
        self, streams: Tensor, tokens: Tensor, documents: Documents, turns: Turns, indexer: str = "sparse"
    ) -> tuple[Tensor, Report]:
        """streams: [B, S, n, d]. tokens: [B, S] ids, for hash routing. indexer: see `Attention`."""
        x, post, mix = self.read_attention(streams)
        y, kl = self.attn(x, documents, turns, indexer)
        streams = ops.write_streams(y, streams, post, mix)
        x, post, mix = self.read_ffn(streams)
        y, routing = self.ffn(x, tokens, documents)
        streams = ops.write_streams(y, streams, post, mix)
        return streams, Report(routing, None if kl is None else (kl * documents.real).sum())

    def read_attention(self, streams: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The attention's normed input, and the coefficients with which its output is written."""
        h, post, mix = ops.read_streams(
            streams, self.hc_attn_fn, self.hc_attn_base, self.hc_attn_scale, self.sinkhorn_iters, self.eps
        )
        return self.attn_norm(h), post, mix

    def read_ffn(self, streams: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same for the MoE."""
        h, post, mix = ops.read_streams(
            streams, self.hc_ffn_fn, self.hc_ffn_base, self.hc_ffn_scale, self.sinkhorn_iters, self.eps
        )
        return self.ffn_norm(h), post, mix


class MTPBlock(Block):
    """Multi-token prediction: a window-attention block that reads the trunk's streams and the next token's embedding.

    At position t it predicts token t + 2 (report §2.4; DeepSeek-V3 report, arXiv 2412.19437, §2.2).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, WINDOW, hashed=False)
        n, d = config.hc_mult, config.hidden_size
        self.enorm = RMSNorm(d, config.eps)
        self.hnorm = RMSNorm(d, config.eps)
        self.e_proj = Linear(d, d)
        self.h_proj = Linear(d, d)
        self.norm = RMSNorm(d, config.eps)
        self.hc_head_fn = nn.Parameter(torch.empty(n, n * d))
        self.hc_head_base = nn.Parameter(torch.empty(n))
        self.hc_head_scale = nn.Parameter(torch.empty(1))

    def predict(
        self, streams: Tensor, embedded: Tensor, following: Tensor, documents: Documents, turns: Turns,
        indexer: str = "sparse", recompute: bool = False,
    ) -> tuple[Tensor, Report]:  # fmt: skip
        """What the shared head reads, [B, S, d]: merge, block, collapse.

        streams, embedded: as in `merge`. following: [B, S], ids of the next tokens. The rest: as in `Block`, and
        whether the backward pass computes the block again.
        """
        arguments = (self.merge(streams, embedded), following, documents, turns, indexer)
        streams, report = checkpoint(self.run, *arguments, use_reentrant=False) if recompute else self.run(*arguments)
        return self.collapse(streams), report

    def run(self, *arguments: Any) -> tuple[Tensor, Report]:
        """The block itself, as a module with its hooks."""
        return cast(tuple[Tensor, Report], self(*arguments))

    def merge(self, streams: Tensor, embedded: Tensor) -> Tensor:
        """The block's input streams. streams: [B, S, n, d], of the trunk. embedded: [B, S, d], of the next tokens."""
        merged = self.e_proj(self.enorm(embedded)).unsqueeze(2) + self.h_proj(self.hnorm(streams))
        return merged.to(streams.dtype)  # under autocast, products are narrower than streams

    def collapse(self, streams: Tensor) -> Tensor:
        """What the shared head reads, [B, S, d]."""
        return self.norm(
            ops.collapse_streams(streams, self.hc_head_fn, self.hc_head_base, self.hc_head_scale, self.eps)
        )
