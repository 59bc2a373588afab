"""What a step minimises: counts against the model's own and a count by hand, weights against a sum by hand."""

import dataclasses

import pytest
import torch

from trex.data.tokens import IGNORE, pack
from trex.model.config import SPARSE, WINDOW, ModelConfig
from trex.model.transformer import Transformer
from trex.train.objective import counts, scales, weights
from trex.train.recipes import embedded_cpt

MODEL = ModelConfig.tiny(num_layers=2, compress_ratios=(WINDOW, SPARSE), hash_layers=1, vocab_size=60, index_topk=2)
LENGTHS = [2, 3, 4, 5, 6, 10, 41, 17, 2]


@pytest.mark.parametrize("seq_len", [1, 3, 8, 20])
def test_counts_are_those_of_the_models_losses(seq_len: int) -> None:
    rows = pack([[0, *range(2, n), 1] for n in LENGTHS], seq_len)
    _, doc_ids, targets = rows.batch(torch.arange(len(rows)))
    targets[0, 0] = IGNORE  # positions that see and are seen, but do not train
    found = counts(doc_ids, targets)
    assert found == {
        name: int(count) for name, count in Transformer(MODEL)(rows.tokens, doc_ids, targets).counts.items()
    }


def test_counts_by_hand() -> None:
    """A document of n positions: n targets, n - 1 two ahead, n - 3 that see a block of four; padding has none."""
    rows = pack([list(range(9)), list(range(4)), list(range(6))], 20)
    assert counts(rows.doc_ids, rows.labels) == {"lm": 16, "mtp": 13, "indexer": 5 + 0 + 2, "balance": 16}


def test_the_objective_is_the_weighted_sum_of_means() -> None:
    config = dataclasses.replace(embedded_cpt(), mtp_weight=0.3, indexer_weight=2.0, balance_weight=0.5)
    tokens = {"lm": 4, "mtp": 3, "indexer": 2, "balance": 8}
    assert scales(tokens, config) == {"lm": 1 / 4, "mtp": 0.3 / 3, "indexer": 2.0 / 2, "balance": 0.5 / 8}
    assert scales({**tokens, "indexer": 0}, config).keys() == {"lm", "mtp", "balance"}
    assert weights(config) == {"lm": 1.0, "mtp": 0.3, "indexer": 2.0, "balance": 0.5}


def test_a_loss_of_weight_zero_takes_no_part() -> None:
    config = dataclasses.replace(embedded_cpt(), mtp_weight=0.0)
    assert scales({"lm": 2, "mtp": 1}, config) == {"lm": 1 / 2}
