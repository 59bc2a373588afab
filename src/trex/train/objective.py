"""What a step minimises: the model's losses, each a mean over the tokens that it is defined on, weighted by the recipe.

    lm + mtp_weight · mtp + indexer_weight · indexer + balance_weight · balance

The means are over the whole step, so that it does not matter how its rows are split into micro-batches.
"""

from collections.abc import Mapping

from torch import Tensor

from trex.data.tokens import IGNORE
from trex.model.config import SPARSE
from trex.model.documents import Documents
from trex.model.losses import mtp_targets
from trex.train.recipes import TrainConfig


def weights(config: TrainConfig) -> dict[str, float]:
    """Weight of each loss, by the names of `Output.losses`."""
    return {
        "lm": 1.0,
        "mtp": config.mtp_weight,
        "indexer": config.indexer_weight,
        "balance": config.balance_weight,
    }


def counts(doc_ids: Tensor, targets: Tensor) -> dict[str, int]:
    """Tokens that each loss is defined on, known before any forward pass; equal to the sums of `Output.counts`.

    lm: those with a target; mtp: those whose next token in the document has one; indexer: those that see a compressed
    entry; balance: all but padding. doc_ids, targets: [B, S], as for the model.
    """
    documents = Documents.packed(doc_ids, {SPARSE})
    defined = {
        "lm": targets != IGNORE,
        "mtp": mtp_targets(targets, documents) != IGNORE,
        "indexer": documents.real & (documents.blocks[SPARSE].visible > 0),
        "balance": documents.real,
    }
    return {name: int(where.sum()) for name, where in defined.items()}


def objective(losses: Mapping[str, Tensor], tokens: Mapping[str, int], config: TrainConfig) -> Tensor:
    """The share of a micro-batch in the objective of its step: a scalar.

    losses: sums over the micro-batch, `Output.losses`. tokens: `counts` of the whole step. A loss of weight 0 takes no
    part, so that what it alone would train has no gradient.
    """
    terms = [
        weight * losses[name] / tokens[name]
        for name, weight in weights(config).items()
        if name in losses and weight > 0 and tokens[name]
    ]
    return sum(terms[1:], terms[0])
