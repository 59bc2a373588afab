"""Our model is transformers': the same logits and gradients on the same weights, in float32 and to rounding in float64.

What transformers lacks (MTP, the losses, packed documents) is in test_naive.py and test_packing.py.
"""

import pytest
import torch
from tests.model.comparing import draw, gradients, lively, random_tokens, unequal
from tests.model.oracle import hf_model, random_weights
from torch import Tensor
from torch.nn.functional import cross_entropy

from trex.checkpoint.names import from_transformers
from trex.model.config import ModelConfig

# window, CSA and HCA layers, each with hash and with top-k routing; clamps that bind; top-k that binds from S = 36 on
TINY = ModelConfig.tiny(swiglu_limit=0.5)
# HCA first, as in Pro; unlike tiny: all sizes, all entries selected, a window beyond the sequence, an eps that shows
OTHER = ModelConfig.tiny(
    hidden_size=48, num_layers=4, compress_ratios=(128, 128, 4, 128), hash_layers=1, num_heads=6, o_groups=3,
    head_dim=24, rope_dim=12, q_lora_rank=20, o_lora_rank=10, num_experts=12, experts_per_token=3, expert_size=20,
    route_scale=2.5, index_topk=1000, index_heads=18, index_dim=20, window=600, hc_mult=3, sinkhorn_iters=3, eps=1e-3,
    swiglu_limit=0.4, rope_theta=500.0, compress_rope_theta=3000.0, yarn_factor=4.0, yarn_original=512, vocab_size=300,
)  # fmt: skip
# With these seeds no choice hangs on float32's rounding: in float64 the last entry or expert chosen is at least 1e-5
# ahead of the first one that is not.
CASES = [(TINY, 300, 4), (TINY, 513, 5), (OTHER, 300, 1), (TINY, 513, 4), (TINY, 300, 5), (OTHER, 513, 2)]
IDS = [f"{'tiny' if config is TINY else 'other'}-{length}-{seed}" for config, length, seed in CASES]
LATER = [pytest.param(*case, id=name, marks=pytest.mark.slow) for case, name in zip(CASES[3:], IDS[3:], strict=True)]


def batch(config: ModelConfig, length: int, seed: int) -> Tensor:
    return random_tokens(config, 600 // length, length, seed + 10)


def test_cases_are_what_they_claim() -> None:
    kinds = {(ratio, layer < TINY.hash_layers) for layer, ratio in enumerate(TINY.compress_ratios)}
    assert kinds == {(ratio, hashed) for ratio in (0, 4, 128) for hashed in (False, True)}
    assert TINY.index_topk < 300 // 4 and OTHER.index_topk > 513 // 4 and OTHER.window > 513
    assert min(TINY.index_heads, OTHER.index_heads) >= 16  # fewer would tie, and transformers breaks ties by chance


@pytest.mark.parametrize(("config", "length", "seed"), CASES, ids=IDS)
@torch.no_grad()
def test_float32(config: ModelConfig, length: int, seed: int) -> None:
    tokens, state = batch(config, length, seed), random_weights(config, seed)
    theirs = hf_model(config, state, torch.float32)(tokens).logits
    ours = lively(config, seed, torch.float32)(tokens).logits
    assert ours is not None and ours.dtype == torch.float32 and ours.shape == theirs.shape
    assert theirs.std() > 0.3
    assert (ours - theirs).abs().max() <= 1e-4


@pytest.mark.parametrize(("config", "length", "seed"), [*CASES[:3], *LATER], ids=[*IDS[:3], *[None] * 3])
def test_float64(config: ModelConfig, length: int, seed: int) -> None:
    """Logits, and gradients of a random projection of them and of next-token cross-entropy.

    In both models the loss reaches everything but the indexers, as what they give is a choice; in ours MTP apart.
    """
    tokens, state = batch(config, length, seed), random_weights(config, seed)
    model, oracle = lively(config, seed), hf_model(config, state, torch.float64)
    ours, theirs = model(tokens, mtp=False).logits, oracle(tokens).logits
    assert ours is not None and ours.dtype == torch.float64
    assert (ours - theirs).abs().max() <= 1e-9

    projection = torch.randn(theirs.shape, generator=draw(seed), dtype=torch.float64)
    names = {name for name, _ in model.named_parameters()}
    indexers = {name for name in names if ".indexer." in name}
    ahead = {name for name in names if name.startswith("mtp.")}
    assert len(indexers) == 6 * config.compress_ratios.count(4) and ahead
    for loss in (
        lambda logits: (logits * projection).sum(),
        lambda logits: cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()),
    ):
        found = gradients(loss(ours), model, retain_graph=True)
        expected = from_transformers(gradients(loss(theirs), oracle, retain_graph=True))
        assert names - expected.keys() == indexers | ahead
        assert names - found.keys() == indexers | ahead
        assert all(gradient.any() for gradient in expected.values())
        assert unequal(found, expected, 1e-8) == {}
