"""What a step minimises: the model's losses, each a mean over the tokens that it is defined on, weighted by the recipe.

    lm + mtp_weight · mtp + indexer_weight · indexer + balance_weight · balance

The means are over the whole step, so that it does not matter how its rows are split into micro-batches and over ranks.
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


def scales(tokens: Mapping[str, int], config: TrainConfig) -> dict[str, float]:
    """What each loss, summed over tokens, is multiplied with in the objective; a loss of weight 0 takes no part.

    tokens: `counts` of the whole step. What a loss that takes no part alone would train has no gradient.
    """
    found = weights(config)
    return {name: found[name] / count for name, count in tokens.items() if found[name] > 0 and count}
