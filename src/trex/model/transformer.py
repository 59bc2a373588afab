"""DeepSeek-V4 as a function of tokens, in plain PyTorch that reads like its report (arXiv 2606.19348).

Parameters carry the names of the official checkpoint, the routed experts' matrices stacked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from trex.kernels import ops
from trex.model.attention import check_indexer_mode
from trex.model.block import Block, MTPBlock, Report
from trex.model.config import WINDOW, ConfigError, ModelConfig
from trex.model.documents import Documents
from trex.model.initial import initialise
from trex.model.layers import Linear, RMSNorm
from trex.model.losses import IGNORE, counts, mtp_targets, next_tokens
from trex.model.rotary import Turns, turns


@dataclass(frozen=True)
class Output:
    """What one forward pass gives.

    Each loss is a sum over tokens, and `counts` says over how many, so that micro-batches, packs and ranks add up:
    "lm" and "mtp" (nats; where targets are given), "indexer" and "balance" (summed over layers).
    """

    logits: Tensor | None  # [B, S, vocab], logits[:, t] predicts token t + 1; None where targets are given
    mtp_logits: Tensor | None = None  # [B, S, vocab], predicts token t + 2; undefined at the last token of a document
    losses: dict[str, Tensor] = field(default_factory=dict)  # scalars
    counts: dict[str, Tensor] = field(default_factory=dict)  # scalars, int64
    loads: Tensor | None = None  # [layers, the MTP block last, E] int64: real tokens of each expert


class Embedding(nn.Embedding):
    """Token embedding; its initial values are left to `trex.model.initial`."""

    def reset_parameters(self) -> None:
        """Draw nothing."""


class Transformer(nn.Module):
    """The model of `config`, in float32, with initial weights drawn from `seed`.

    Built under `torch.device("meta")` it holds shapes only and draws nothing. The global random state is untouched.
    """

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        super().__init__()
        if config.mtp_layers > 1:
            raise ConfigError(f"mtp_layers = {config.mtp_layers!r}; the model is written for 0 or 1")
        self.config = config
        n, d = config.hc_mult, config.hidden_size
        self.embed = Embedding(config.vocab_size, d)
        self.layers = nn.ModuleList(
            Block(config, ratio, hashed=layer < config.hash_layers)
            for layer, ratio in enumerate(config.compress_ratios)
        )
        self.hc_head_fn = nn.Parameter(torch.empty(n, n * d))
        self.hc_head_base = nn.Parameter(torch.empty(n))
        self.hc_head_scale = nn.Parameter(torch.empty(1))
        self.norm = RMSNorm(d, config.eps)
        self.head = Linear(d, config.vocab_size)
        self.mtp = nn.ModuleList(MTPBlock(config) for _ in range(config.mtp_layers))
        if not self.head.weight.is_meta:
            initialise(self, torch.Generator().manual_seed(seed), config.num_experts)

    def forward(
        self, tokens: Tensor, doc_ids: Tensor | None = None, targets: Tensor | None = None, *,
        mtp: bool = True, indexer: str = "sparse", recompute: bool = False,
    ) -> Output:  # fmt: skip
        """Logits, or losses where targets are given.

        tokens, doc_ids: [B, S] int32 or int64. A run of equal ids is a document, which sees nothing of the others and
        whose positions begin at 0; negative ids are padding. None: each row is one document. targets: [B, S] int64, the
        token after each, -100 for none, as at padding; the logits are then never held. mtp: whether to run the MTP
        block. indexer: "sparse" (its loss over the selected entries), "warm-up" (CSA attends to all visible entries,
        the loss is over all of them) or "frozen" (no loss, no gradient). recompute: keep only the streams between
        layers for the backward pass and compute the rest again.
        Raises ConfigError for tokens, doc_ids, targets or a mode that are not as above.
        """
        self._check(tokens, doc_ids, targets)
        check_indexer_mode(indexer)
        documents, turn = self.surroundings(tokens, doc_ids)
        streams = self.embed(tokens).unsqueeze(2).expand(-1, -1, self.config.hc_mult, -1)
        reports = []
        for layer, ratio in zip(self.layers, self.config.compress_ratios, strict=True):
            arguments = (streams, tokens, documents, turn[ratio], indexer)
            streams, report = checkpoint(layer, *arguments, use_reentrant=False) if recompute else layer(*arguments)
            reports.append(report)
        hidden = self.collapse(streams)
        ahead = None
        if mtp and len(self.mtp):
            ahead, report = self._ahead(streams, tokens, documents, turn[WINDOW], indexer, recompute)
            reports.append(report)
        return self._output(hidden, ahead, targets, documents, reports)

    def surroundings(self, tokens: Tensor, doc_ids: Tensor | None) -> tuple[Documents, dict[int, Turns]]:
        """Documents of the rows and the turns of each layer kind."""
        return surroundings(self.config, tokens, doc_ids, torch.promote_types(self.embed.weight.dtype, torch.float32))

    def collapse(self, streams: Tensor) -> Tensor:
        """What the head reads. streams: [B, S, n, d]. Returns [B, S, d]."""
        return self.norm(
            ops.collapse_streams(streams, self.hc_head_fn, self.hc_head_base, self.hc_head_scale, self.config.eps)
        )

    @torch.no_grad()
    def shift_biases(self, loads: Tensor, speed: float = 1e-3) -> None:
        """Move each selection bias against the load, after an optimizer step (DeepSeek-V3 report §2.1.2).

        loads: [layers, E], `Output.loads` summed over the micro-batches and ranks of the step. speed: .001 in
        DeepSeek-V4's training. Raises ConfigError for loads of another shape.
        """
        blocks: Sequence[nn.Module] = [*self.layers, *self.mtp]
        experts = self.config.num_experts
        if loads.dim() != 2 or loads.shape[0] not in (len(self.layers), len(blocks)) or loads.shape[1] != experts:
            raise ConfigError(
                f"loads {list(loads.shape)}; accepted: {experts} experts in one row per layer, {len(blocks)} with MTP"
            )
        for block, load in zip(blocks, loads, strict=False):
            assert isinstance(block, Block)
            block.ffn.gate.shift_bias(load, speed)

    def _ahead(
        self, streams: Tensor, tokens: Tensor, documents: Documents, turn: Turns, indexer: str, recompute: bool
    ) -> tuple[Tensor, Report]:
        block = self.mtp[0]
        assert isinstance(block, MTPBlock)
        following, exists = next_tokens(tokens, documents)
        embedded = self.embed(following) * exists.unsqueeze(-1)
        return block.predict(streams, embedded, following, documents, turn, indexer, recompute)

    def _output(
        self, hidden: Tensor, ahead: Tensor | None, targets: Tensor | None, documents: Documents, reports: list[Report]
    ) -> Output:
        losses = {}
        if targets is not None:
            goals = {"lm": (hidden, targets)}
            if ahead is not None:
                goals["mtp"] = (ahead, mtp_targets(targets, documents))
            for name, (states, goal) in goals.items():
                losses[name] = ops.linear_cross_entropy(states.flatten(0, 1), self.head.weight, goal.flatten())
        by_layer = {"indexer": [r.indexer for r in reports], "balance": [r.routing.balance for r in reports]}
        for name, values in by_layer.items():
            found = [value for value in values if value is not None]
            if found:
                losses[name] = torch.stack(found).sum()
        defined = counts(documents, targets)
        return Output(
            logits=self.head(hidden) if targets is None else None,
            mtp_logits=self.head(ahead) if targets is None and ahead is not None else None,
            losses=losses,
            counts={name: defined[name] for name in losses},
            loads=torch.stack([r.routing.load for r in reports]),
        )

    def _check(self, tokens: Tensor, doc_ids: Tensor | None, targets: Tensor | None) -> None:
        integers = (torch.int32, torch.int64)
        if tokens.dim() != 2 or tokens.numel() == 0 or tokens.dtype not in integers:
            raise ConfigError(
                f"tokens are {tuple(tokens.shape)} {tokens.dtype}; accepted: [B, S] int32 or int64, B and S >= 1"
            )
        for name, given, dtypes in (("doc_ids", doc_ids, integers), ("targets", targets, integers[1:])):
            if given is not None and (given.shape != tokens.shape or given.dtype not in dtypes):
                accepted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
                raise ConfigError(
                    f"{name} are {tuple(given.shape)} {given.dtype}; accepted: {accepted} {tuple(tokens.shape)}"
                )
        size = self.config.vocab_size
        for name, given, least in (("token id", tokens, 0), ("target", targets, IGNORE)):
            if given is None:
                continue
            wrong = (given < 0) & (given != least) | (given >= size)
            if wrong.any():
                also = f", or {IGNORE} for none" if least == IGNORE else ""
                raise ConfigError(f"{name} {int(given[wrong][0])}; {self.config.name} accepts 0 to {size - 1}{also}")


def surroundings(
    config: ModelConfig, tokens: Tensor, doc_ids: Tensor | None, dtype: torch.dtype
) -> tuple[Documents, dict[int, Turns]]:
    """Documents of the rows, and the turns of each layer kind in `dtype`. tokens, doc_ids: as for `Transformer`."""
    ratios = {*config.compress_ratios, WINDOW}
    documents = Documents.single(tokens, ratios) if doc_ids is None else Documents.packed(doc_ids, ratios)
    return documents, {ratio: turns(config, documents, ratio, dtype) for ratio in ratios}
