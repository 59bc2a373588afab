"""What a step minimises: the model's losses, each a mean over the tokens that it is defined on, weighted by the recipe.

    lm + mtp_weight · mtp + indexer_weight · indexer + balance_weight · balance

The means are over the whole step, so that it does not matter how its rows are split into micro-batches.
"""

from collections.abc import Mapping

from torch import Tensor

from trex.model import losses
from trex.model.config import SPARSE
from trex.model.documents import Documents
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
    """Tokens that each loss is defined on, known before any forward pass. doc_ids, targets: [B, S], as for the model.

    Of the losses that a model has, they are the sums of `Output.counts` over the micro-batches.
    """
    found = losses.counts(Documents.packed(doc_ids, {SPARSE}), targets)
    return {name: int(count) for name, count in found.items()}


def objective(sums: Mapping[str, Tensor], tokens: Mapping[str, int], config: TrainConfig) -> Tensor:
    """The share of a micro-batch in the objective of its step: a scalar.

    sums: over the micro-batch, `Output.losses`. tokens: `counts` of the whole step. A loss of weight 0 takes no
    part, so that what it alone would train has no gradient.
    """
    terms = [
        weight * sums[name] / tokens[name]
        for name, weight in weights(config).items()
        if name in sums and weight > 0 and tokens[name]
    ]
    return sum(terms[1:], terms[0])
