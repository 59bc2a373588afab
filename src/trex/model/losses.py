"""On which tokens each loss is defined; a document's last token has no next one."""

import torch
from torch import Tensor

from trex.kernels.cross_entropy.reference import IGNORE
from trex.model.config import SPARSE
from trex.model.documents import Documents

__all__ = ["IGNORE", "counts", "mtp_targets", "next_tokens"]


def next_tokens(tokens: Tensor, documents: Documents) -> tuple[Tensor, Tensor]:
    """The token after each one in its document, and whether there is one; [B, S] each. tokens: [B, S]."""
    exists = torch.zeros_like(documents.real)
    exists[:, :-1] = documents.number[:, 1:] == documents.number[:, :-1]
    return torch.where(exists, tokens.roll(-1, dims=1), 0), exists


def mtp_targets(targets: Tensor, documents: Documents) -> Tensor:
    """What the MTP block is to predict at t: the target of t + 1, if that is in the same document. [B, S] to [B, S]."""
    following, exists = next_tokens(targets, documents)
    return torch.where(exists, following, IGNORE)


def counts(documents: Documents, targets: Tensor | None = None) -> dict[str, Tensor]:
    """Tokens that each loss is summed over, scalars by the names of `Output.losses`. targets: [B, S].

    lm: those with a target; mtp: those whose next token in the document has one; indexer: those that see a compressed
    entry; balance: all but padding.
    """
    defined = {"balance": documents.real}
    if SPARSE in documents.blocks:
        defined["indexer"] = documents.real & (documents.blocks[SPARSE].visible > 0)
    if targets is not None:
        defined["lm"] = targets != IGNORE
        defined["mtp"] = mtp_targets(targets, documents) != IGNORE
    return {name: where.sum() for name, where in defined.items()}
