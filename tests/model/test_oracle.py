"""The oracle is transformers' model, in float64 throughout, and its weights leave no part of the model unused."""

import math
from typing import Any

import pytest
import torch
from tests.model.oracle import hf_model, lifted, random_weights
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trex.checkpoint.names import from_transformers
from trex.model import count
from trex.model.config import ModelConfig

TINY = ModelConfig.tiny(swiglu_limit=0.5)  # low enough to clamp
TOKENS = torch.randint(0, TINY.vocab_size, (2, 300), generator=torch.Generator().manual_seed(1))


class Dtypes(TorchDispatchMode):
    """Dtypes of all tensors that operators return."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.seen |= {leaf.dtype for leaf in tree_leaves(result) if isinstance(leaf, Tensor)}
        return result


def frequencies(config: ModelConfig) -> dict[str, list[float]]:
    """Radians per position of each pair, in Python's floats: plain, and YaRN (arXiv 2309.00071) on the larger theta."""
    half, dim = range(config.rope_dim // 2), config.rope_dim
    plain = [config.rope_theta ** (-2 * k / dim) for k in half]
    base = [config.compress_rope_theta ** (-2 * k / dim) for k in half]

    def pair(turns: float) -> float:  # that turns so often in the original context
        return dim * math.log(config.yarn_original / (2 * math.pi * turns)) / (2 * math.log(config.compress_rope_theta))

    low = max(math.floor(pair(config.yarn_beta_fast)), 0)
    high = min(math.ceil(pair(config.yarn_beta_slow)), dim - 1)
    ramp = [min(max((k - low) / (high - low), 0), 1) for k in half]
    return {
        "main": plain,
        "compress": [f / config.yarn_factor * r + f * (1 - r) for f, r in zip(base, ramp, strict=True)],
    }


@pytest.mark.parametrize("config", [ModelConfig.flash(), TINY], ids=["flash", "tiny"])
def test_rotations_are_in_float64(config: ModelConfig) -> None:
    rotary = lifted().DeepseekV4RotaryEmbedding(config.to_hf())
    positions = [0, 1, 299, 1000]
    for kind, expected in frequencies(config).items():
        found = getattr(rotary, f"{kind}_inv_freq")
        assert found.dtype == torch.float64
        assert found.tolist() == pytest.approx(expected, rel=1e-14, abs=0)
        x = torch.zeros(1, dtype=torch.float64)
        cos, sin = rotary(x, torch.tensor([positions]), layer_type=kind)
        angles = [[position * frequency for frequency in expected] for position in positions]
        for values, function in ((cos, math.cos), (sin, math.sin)):
            right = torch.tensor([[function(angle) for angle in row] for row in angles], dtype=torch.float64)
            assert (values[0] - right).abs().max() < 1e-12


@torch.no_grad()
def test_float64_and_float32_agree() -> None:
    """The lifted model is the same model: what is left is float32's rounding."""
    state = random_weights(TINY, seed=2)
    exact = hf_model(TINY, state, torch.float64)(TOKENS).logits
    plain = hf_model(TINY, state, torch.float32)(TOKENS).logits
    assert exact.dtype == torch.float64 and plain.dtype == torch.float32
    assert 1e-9 < (exact - plain).abs().max() < 1e-4
    assert exact.std() > 0.3


@torch.no_grad()
def test_no_float32_is_left() -> None:
    model = hf_model(TINY, random_weights(TINY), torch.float64)
    with Dtypes() as returned:
        model(TOKENS)
    assert returned.seen == {torch.float64, torch.int64, torch.bool}


def test_every_weight_matters() -> None:
    """All gradients are there and none is zero, but the indexer's: top-k gives none. A change of it changes logits."""
    model = hf_model(TINY, random_weights(TINY), torch.float64)
    logits = model(TOKENS).logits
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten()).backward()
    without = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0}
    indexers = {name for name, _ in model.named_parameters() if ".indexer." in name}
    assert without == indexers != set()
    with torch.no_grad():
        for name in indexers:
            weight = model.get_parameter(name)
            before = weight.clone()
            weight.copy_(-before)
            assert (model(TOKENS).logits - logits).abs().max() > 1e-6, name
            weight.copy_(before)


def test_weights_are_complete_seeded_and_alive() -> None:
    state = random_weights(TINY, seed=3)
    tables = {name: table for name, table in state.items() if name.endswith("tid2eid")}
    assert set(tables) == {f"layers.{layer}.ffn.gate.tid2eid" for layer in range(3)}
    for table in tables.values():
        assert table.shape == (512, 2) and table.dtype == torch.int64
        assert set(table.flatten().tolist()) == set(range(8)) and (table[:, 0] != table[:, 1]).all()
    rest = {name: weight for name, weight in state.items() if name not in tables}
    assert sum(weight.numel() for weight in rest.values()) == count.parameters(TINY).total_with_mtp
    assert all(weight.dtype == torch.float32 and (weight != 0).all() for weight in rest.values())
    assert all(weight.unique().numel() > 1 for weight in rest.values() if weight.numel() > 1)
    again, other = random_weights(TINY, seed=3), random_weights(TINY, seed=4)
    assert all(
        torch.equal(weight, again[name]) and not torch.equal(weight, other[name]) for name, weight in state.items()
    )


def test_the_models_hold_the_weights_exactly() -> None:
    state = random_weights(TINY)
    for dtype in (torch.float32, torch.float64):
        held = from_transformers(hf_model(TINY, state, dtype).state_dict())
        assert held.keys() == {name for name in state if not name.startswith("mtp.")}
        assert all(torch.equal(held[name], state[name].to(held[name].dtype)) for name in held)


def test_a_dtype_without_oracle_is_refused() -> None:
    with pytest.raises(KeyError, match="bfloat16"):
        hf_model(TINY, {}, torch.bfloat16)
