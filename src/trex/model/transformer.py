"""DeepSeek-V4 as a function of tokens.

The interface is the one that stays: `Transformer(config)(tokens, doc_ids=None) -> Output`. Behind it, for now, works
transformers' `DeepseekV4ForCausalLM`, whose logits agree with DeepSeek's own code. It lacks three things, which are
refused or absent rather than imitated: packed documents (`doc_ids` is an error: its compressors would mix neighbours),
the MTP block (`Output.mtp_logits` is None) and the indexer's KL loss (`Output.losses` is empty, and the indexer keeps
its initial weights, since top-k passes no gradient). Parameters carry transformers' names.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from trex.model.config import ConfigError, ModelConfig
from trex.model.hf import to_hf
from trex.model.initial import initialise


@dataclass(frozen=True)
class Output:
    """What one forward pass gives."""

    logits: Tensor  # [B, S, vocab]; logits[:, t] predicts token t + 1
    mtp_logits: Tensor | None = None  # [B, S, vocab]; predicts token t + 2
    losses: dict[str, Tensor] = field(default_factory=dict)  # auxiliary losses by name, scalars


class Transformer(nn.Module):
    """The model of `config`, on the CPU in float32, with initial weights drawn from `seed`.

    Built under `torch.device("meta")` it holds shapes only and draws nothing. The global random state is untouched.
    """

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        hf_config = to_hf(config)
        from transformers import DeepseekV4ForCausalLM

        with torch.random.fork_rng(devices=[]):
            built = DeepseekV4ForCausalLM(hf_config)
        self.model: nn.Module = built.model
        self.lm_head: nn.Module = built.lm_head
        if not self.lm_head.weight.is_meta:
            initialise(self, torch.Generator().manual_seed(seed), config.num_experts)

    def forward(self, tokens: Tensor, doc_ids: Tensor | None = None) -> Output:
        """Logits of `tokens`, [B, S] integers; positions count from the start of each row.

        Pad on the right: what follows a position never reaches it. Raises ConfigError for tokens that are not [B, S]
        integers below `vocab_size`, and for `doc_ids`.
        """
        self._check(tokens, doc_ids)
        hidden = self.model(input_ids=tokens, use_cache=False).last_hidden_state
        return Output(self.lm_head(hidden))

    def _check(self, tokens: Tensor, doc_ids: Tensor | None) -> None:
        if doc_ids is not None:
            raise ConfigError(
                "doc_ids were given, but this model cannot keep the documents of one row apart: its compressors mix "
                "neighbours; give each document a row of its own, padded on the right (trex.data.tokens.pack)"
            )
        if tokens.dim() != 2 or tokens.numel() == 0 or tokens.is_floating_point() or tokens.dtype == torch.bool:
            raise ConfigError(
                f"tokens are {tuple(tokens.shape)} {tokens.dtype}; accepted: [B, S] integers, B and S >= 1"
            )
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= self.config.vocab_size:
            bad = low if low < 0 else high
            raise ConfigError(f"token id {bad}; {self.config.name} accepts 0 to {self.config.vocab_size - 1}")


@torch.no_grad()
def greedy(model: Transformer, tokens: Tensor, new_tokens: int, stop: int | None = None) -> Tensor:
    """Extend `tokens` [1, S] by the likeliest next token, `new_tokens` times or until `stop`; ties go to the lowest id.

    Every step runs the whole sequence again (there are no caches yet), so it suits short samples. Returns [1, S + n].
    """
    for _ in range(new_tokens):
        best = model(tokens).logits[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, best], dim=1)
        if stop is not None and int(best) == stop:
            break
    return tokens
