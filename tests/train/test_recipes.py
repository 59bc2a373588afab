"""Recipes are the published ones, and the learning rate follows torch's own schedulers."""

import dataclasses

import pytest
import torch

from trex.train.recipes import (
    TrainConfig,
    TrainError,
    embedded_cpt,
    embedded_sft,
    learning_rate,
    progressive_sft,
    published,
)


def test_published_recipe() -> None:
    """The launch script of Flash CPT: 280 iterations of 128 sequences of 4,096 tokens, 3e-6 to 3e-7."""
    recipe = published("flash_cpt")
    assert (recipe.steps, recipe.global_batch, recipe.micro_batch, recipe.seq_len) == (280, 128, 1, 4096)
    assert (recipe.peak_lr, recipe.min_lr, recipe.warmup_steps) == (3e-6, 3e-7, 10)
    assert (recipe.betas, recipe.weight_decay, recipe.clip_norm) == ((0.9, 0.999), 0.01, 1.0)
    assert (recipe.mtp_weight, recipe.balance_weight, recipe.recompute) == (0.3, 0.0, True)


def test_published_recipes_of_fine_tuning_and_of_pro() -> None:
    """As the launch scripts have them."""
    rows = {"flash_sft": (250, 128, 8192, 5e-6, 5e-8, 22), "pro_cpt": (45, 256, 4096, 1e-6, 1e-7, 5),
            "pro_sft": (2000, 1024, 4096, 1e-5, 1e-7, 500)}  # fmt: skip
    for name, expected in rows.items():
        r = published(name)
        assert (r.steps, r.global_batch, r.seq_len, r.peak_lr, r.min_lr, r.warmup_steps) == expected
    with pytest.raises(TrainError, match="'flash'; accepted: flash_cpt, flash_sft"):
        published("flash")


def test_progressive_stages_are_one_pass_over_what_was_exported() -> None:
    """Stage I: 8,731 rows of code alone at 5e-7; stage II: 8,881 of Clean-CoT at 1e-6; 128 rows a step."""
    first, second = progressive_sft("code_only"), progressive_sft("clean_cot")
    assert (first.steps, first.peak_lr, second.steps, second.peak_lr) == (69, 5e-7, 70, 1e-6)
    assert first.min_lr == pytest.approx(5e-9) and (first.seq_len, first.global_batch) == (8192, 128)
    with pytest.raises(TrainError, match="code_only, clean_cot"):
        progressive_sft("cot")


def test_the_embedded_twin_of_fine_tuning_keeps_the_ratio_of_learning_rates() -> None:
    small, full = embedded_sft(seed=3), published("flash_sft")
    assert small.peak_lr / small.min_lr == pytest.approx(full.peak_lr / full.min_lr)
    assert small.seq_len / embedded_cpt().seq_len > 1 and small.seed == 3


def test_the_peak_is_held_for_the_constant_steps() -> None:
    config = TrainConfig(20, 1, 1, 8, peak_lr=3e-3, min_lr=3e-4, warmup_steps=4, constant_steps=6)
    rates = [learning_rate(config, step) for step in range(1, 21)]
    assert rates[3:10] == [3e-3] * 7 and rates[10] < 3e-3 and rates[19] == pytest.approx(3e-4)
    shorter = dataclasses.replace(config, steps=10, warmup_steps=0, constant_steps=0)
    assert rates[10:] == pytest.approx([learning_rate(shorter, step) for step in range(1, 11)])


def test_defaults_are_those_of_deepseek_v4() -> None:
    """Its report, arXiv 2606.19348: MTP .3 before the learning rate decays, balance loss 1e-4, bias speed .001."""
    recipe = TrainConfig(5, 1, 1, 8, peak_lr=3e-3, min_lr=3e-4, warmup_steps=0)
    assert (recipe.mtp_weight, recipe.balance_weight, recipe.bias_speed, recipe.indexer) == (0.3, 1e-4, 1e-3, "sparse")


def test_embedded_recipe_keeps_what_scale_does_not_force() -> None:
    small, full = embedded_cpt(seed=3), published("flash_cpt")
    for name in ("betas", "weight_decay", "clip_norm", "warmup_steps", "eps", "mtp_weight", "indexer_weight"):
        assert getattr(small, name) == getattr(full, name)
    assert small.peak_lr / small.min_lr == pytest.approx(full.peak_lr / full.min_lr)
    assert small.seed == 3


@pytest.mark.parametrize(("steps", "warmup"), [(280, 10), (60, 10), (7, 1), (5, 0)])
def test_learning_rate_is_torchs_warm_up_and_cosine(steps: int, warmup: int) -> None:
    config = TrainConfig(steps, 1, 1, 8, peak_lr=3e-3, min_lr=3e-4, warmup_steps=warmup)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=config.peak_lr)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - warmup, eta_min=config.min_lr)
    rates = [config.peak_lr * k / warmup for k in range(1, warmup + 1)]
    for _ in range(steps - warmup):
        optimizer.step()
        cosine.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert [learning_rate(config, step) for step in range(1, steps + 1)] == pytest.approx(rates, rel=1e-9)
    assert learning_rate(config, steps) == pytest.approx(config.min_lr)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0), ("global_batch", 3), ("micro_batch", 0), ("seq_len", 0), ("peak_lr", 0.0), ("min_lr", 1.0),
        ("peak_lr", float("nan")), ("min_lr", -1e-9), ("warmup_steps", 60), ("betas", (0.9, 1.0)),
        ("weight_decay", -0.1), ("clip_norm", 0.0), ("keep", 0), ("eval_every", -1), ("mtp_weight", -0.1),
        ("indexer_weight", float("inf")), ("balance_weight", float("nan")), ("bias_speed", -1e-3), ("indexer", "dense"),
        ("constant_steps", -1), ("constant_steps", 50), ("optimizer", "sgd"),
    ],
)  # fmt: skip
def test_recipes_that_cannot_run_are_refused(name: str, value: object) -> None:
    config = dataclasses.replace(embedded_cpt(), micro_batch=2)
    with pytest.raises(TrainError, match="accepted"):
        dataclasses.replace(config, **{name: value})
