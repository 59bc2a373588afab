"""Initial weights of a DeepSeek-V4 that trains from scratch: seeded, and nothing left at a value that cannot train.

DeepSeek publishes no initialisation beyond `initializer_range` .02 in its config, so these are our choices: matrices
and embeddings N(0, .02); RMSNorm weights 1; attention sinks, compressor position biases, mHC bases and the routers'
selection biases 0; the mHC gates .01 (the mHC paper, arXiv 2512.24880); hash routing by a seeded balanced table.
"""

import torch
from torch import Tensor, nn

from trex.model.config import ConfigError

STD = 0.02
HC_GATE = 0.01
ZERO = ("attn_sink", "ape", "bias", "base")
GATES = ("scale",)


@torch.no_grad()
def initialise(model: nn.Module, generator: torch.Generator, num_experts: int) -> None:
    """Set every parameter and persistent buffer of `model` in place, in the order of their names.

    generator: a CPU generator, the only source of randomness. Raises ConfigError for a name that has no rule.
    """
    for name, tensor in sorted(model.state_dict().items()):
        last = name.rsplit(".", 1)[-1]
        if last.startswith("hc_"):  # hc_attn_fn, hc_head_base, …
            last = last.rsplit("_", 1)[-1]
        if last == "tid2eid":
            table = balanced_table(tensor.shape[0], num_experts, tensor.shape[1], generator)
            tensor.copy_(table)
        elif last in ZERO:
            tensor.zero_()
        elif last in GATES:
            tensor.fill_(HC_GATE)
        elif tensor.dim() == 1 and last == "weight":
            tensor.fill_(1.0)  # RMSNorm
        elif tensor.dim() >= 2:
            tensor.copy_(STD * torch.randn(tensor.shape, generator=generator))
        else:
            raise ConfigError(f"no rule for the initial value of {name} {tuple(tensor.shape)}")


def balanced_table(vocab_size: int, num_experts: int, experts_per_token: int, generator: torch.Generator) -> Tensor:
    """Experts of every token id for hash routing: [vocab_size, experts_per_token] int64.

    The experts of one token differ, and over the vocabulary the loads differ by at most one. DeepSeek's own table is in
    its checkpoints only; the rule that made it is not published.
    """
    slots = vocab_size * experts_per_token
    flat = torch.empty(0, dtype=torch.int64)
    pieces = []
    filled = 0
    while filled < slots:
        piece = torch.randperm(num_experts, generator=generator)
        # a row begun with the end of the last permutation must not meet the same experts again
        open_row = flat[len(flat) - filled % experts_per_token :]
        clash = torch.isin(piece, open_row)
        flat = torch.cat([piece[~clash], piece[clash]])
        pieces.append(flat)
        filled += num_experts
    return torch.cat(pieces)[:slots].view(vocab_size, experts_per_token)
