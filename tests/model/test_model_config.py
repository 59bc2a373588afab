"""Models that can exist, and a ConfigError that names field and value for those that cannot."""

from dataclasses import FrozenInstanceError, replace

import pytest

from trex.model.config import HEAVY, SPARSE, WINDOW, ConfigError, ModelConfig


def test_released_models_have_the_published_layer_kinds():
    """DeepSeek-V4 report: Flash has 2 window, 21 CSA and 20 HCA layers; Pro none, 30 and 31."""
    kinds = {
        c.name: [c.compress_ratios.count(r) for r in (WINDOW, SPARSE, HEAVY)]
        for c in (ModelConfig.flash(), ModelConfig.pro())
    }
    assert kinds == {"DeepSeek-V4-Flash": [2, 21, 20], "DeepSeek-V4-Pro": [0, 30, 31]}


def test_tiny_has_every_layer_kind_under_both_routings():
    tiny = ModelConfig.tiny()
    assert {SPARSE, HEAVY, WINDOW} == set(tiny.compress_ratios) == set(tiny.compress_ratios[tiny.hash_layers :])


def test_frozen_and_hashable():
    with pytest.raises(FrozenInstanceError):
        ModelConfig.tiny().window = 3  # type: ignore[misc]
    assert len({ModelConfig.tiny(), ModelConfig.tiny(), ModelConfig.flash()}) == 2


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [
        ("name", "", "a non-empty string"),
        ("hidden_size", 0, "integers from 1"),
        ("hidden_size", 64.0, "integers from 1"),
        ("num_heads", True, "integers from 1"),
        ("vocab_size", "512", "integers from 1"),
        ("window", -1, "integers from 1"),
        ("mtp_layers", -1, "integers from 0"),
        ("hash_layers", 7, "at most num_layers = 6"),
        ("num_layers", 5, "num_layers = 5 ratios"),
        ("compress_ratios", (0, 4, 128, 4, 128), "num_layers = 6 ratios"),
        ("compress_ratios", [0, 4, 128, 4, 128, 0], "a tuple of 0, 4, 128"),
        ("compress_ratios", (0, 4, 128, 4, 128, 8), "a tuple of 0, 4, 128"),
        ("compress_ratios", 4, "a tuple of 0, 4, 128"),
        ("o_groups", 3, "divisors of num_heads = 4"),
        ("rope_dim", 7, "even numbers"),
        ("rope_dim", 34, "at most head_dim = 32"),
        ("rope_dim", 18, "at most index_dim = 16"),
        ("experts_per_token", 9, "at most num_experts = 8"),
        ("route_scale", 0.0, "finite numbers above 0"),
        ("swiglu_limit", float("inf"), "finite numbers above 0"),
        ("eps", float("nan"), "finite numbers above 0"),
        ("rope_theta", 1.0, "finite numbers above 1"),
        ("yarn_factor", 0.5, "finite numbers from 1"),
        ("yarn_beta_fast", 1.0, "numbers above yarn_beta_slow = 1.0"),
    ],
)
def test_a_model_that_cannot_exist_is_refused_by_name(field, value, accepted):
    shown = "compress_ratios" if field == "num_layers" else f"{field} = {value!r}"
    with pytest.raises(ConfigError) as caught:
        replace(ModelConfig.tiny(), **{field: value})
    assert shown in str(caught.value)
    assert f"accepted: {accepted}" in str(caught.value)


def test_boundaries_are_accepted():
    assert ModelConfig.tiny(hash_layers=0, mtp_layers=0, num_shared_experts=0, rope_dim=16, yarn_factor=1)
    assert ModelConfig.tiny(experts_per_token=8, hash_layers=6, o_groups=4)
