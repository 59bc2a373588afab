"""Our model, MTP block and losses included, is what the equations say when they are written as loops over tokens.

`naive.py` was written from the equations, not from our code or transformers', so that a mistake that those two share
would show. Both in float64, values and gradients.
"""

import pytest
import torch
from tests.model.comparing import draw, gradients, lively, random_tokens, unequal
from tests.model.naive import Naive, Result
from torch import Tensor

from trex.model.config import ModelConfig
from trex.model.transformer import Output, Transformer

TINY = dict(swiglu_limit=0.5, sinkhorn_iters=4, eps=1e-3)  # clamps bind, and a missing eps shows
TWO = ModelConfig.tiny(num_layers=2, compress_ratios=(128, 4), hash_layers=1, **TINY)  # and the MTP block, window only
ONE = ModelConfig.tiny(num_layers=1, compress_ratios=(4,), hash_layers=0, **TINY)
TIED = ModelConfig.tiny(num_layers=2, compress_ratios=(4, 4), hash_layers=0, index_heads=2, index_topk=4, **TINY)


def run(config: ModelConfig, length: int, mode: str = "sparse") -> tuple[Transformer, Tensor, Result, Output]:
    model, tokens = lively(config, seed=3), random_tokens(config, 1, length, 8)
    weights = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    return model, tokens, Naive(config, weights, mode == "warm-up").run(tokens[0].tolist()), model(tokens, indexer=mode)


@pytest.mark.parametrize(
    ("config", "length", "mode"),
    [
        (TWO, 130, "sparse"),  # one HCA entry, seen by its last tokens; 32 CSA entries, of which 8 are selected
        (ONE, 41, "warm-up"),
        pytest.param(ModelConfig.tiny(**TINY), 261, "sparse", marks=pytest.mark.slow),
        pytest.param(ModelConfig.tiny(**TINY), 150, "warm-up", marks=pytest.mark.slow),
    ],
)
def test_all_of_the_model(config: ModelConfig, length: int, mode: str) -> None:
    """Logits, MTP logits, indexer and balance loss, loads; and the gradient of their sum in every parameter."""
    model, _, naive, ours = run(config, length, mode)
    assert ours.logits is not None and ours.mtp_logits is not None and ours.loads is not None
    assert (ours.logits[0] - naive.logits).abs().max() <= 1e-12
    assert (ours.mtp_logits[0, :-1] - naive.mtp_logits).abs().max() <= 1e-12  # the last token has no next one
    for loss in ("indexer", "balance"):
        assert ours.losses[loss].item() == pytest.approx(getattr(naive, loss).item(), rel=1e-12)
    assert naive.indexer > 1
    assert ours.loads.tolist() == naive.loads
    assert {name: int(count) for name, count in ours.counts.items()} == {"indexer": length - 3, "balance": length}

    a, b = (torch.randn(x.shape, generator=draw(5), dtype=torch.float64) for x in (naive.logits, naive.mtp_logits))
    expected = (naive.logits * a).sum() + (naive.mtp_logits * b).sum() + naive.indexer + naive.balance
    found = (ours.logits[0] * a).sum() + (ours.mtp_logits[0, :-1] * b).sum() + sum(ours.losses.values())
    right = gradients(expected, model)
    assert right.keys() == dict(model.named_parameters()).keys() and all(gradient.any() for gradient in right.values())
    assert unequal(gradients(found, model), right, 1e-10) == {}


@torch.no_grad()
def test_ties_between_index_scores() -> None:
    """Two index heads: a quarter of the scores is exactly 0, where both ReLUs are off, and a fifth of the choices falls
    among them.

    The loops sort by score and then by position.
    """
    model, tokens, naive, ours = run(TIED, 120)
    assert ours.logits is not None
    assert (ours.logits[0] - naive.logits).abs().max() <= 1e-12
    shorter = model(tokens[:, :90]).logits
    assert shorter is not None and (shorter - ours.logits[:, :90]).abs().max() <= 1e-12
