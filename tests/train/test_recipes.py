"""Recipes are the published ones, and the learning rate follows torch's own schedulers."""

import dataclasses

import pytest
import torch

from trex.train.recipes import TrainConfig, TrainError, embedded_cpt, learning_rate, published_cpt


def test_published_recipe() -> None:
    """The launch script of Flash CPT: 280 iterations of 128 sequences of 4,096 tokens, 3e-6 to 3e-7."""
    recipe = published_cpt()
    assert (recipe.steps, recipe.global_batch, recipe.micro_batch, recipe.seq_len) == (280, 128, 1, 4096)
    assert (recipe.peak_lr, recipe.min_lr, recipe.warmup_steps) == (3e-6, 3e-7, 10)
    assert (recipe.betas, recipe.weight_decay, recipe.clip_norm) == ((0.9, 0.999), 0.01, 1.0)
    assert (recipe.mtp_weight, recipe.balance_weight, recipe.recompute) == (0.3, 0.0, True)


def test_defaults_are_those_of_deepseek_v4() -> None:
    """Its report, arXiv 2606.19348: MTP .3 before the learning rate decays, balance loss 1e-4, bias speed .001."""
    recipe = TrainConfig(5, 1, 1, 8, peak_lr=3e-3, min_lr=3e-4, warmup_steps=0)
    assert (recipe.mtp_weight, recipe.balance_weight, recipe.bias_speed, recipe.indexer) == (0.3, 1e-4, 1e-3, "sparse")


def test_embedded_recipe_keeps_what_scale_does_not_force() -> None:
    small, full = embedded_cpt(seed=3), published_cpt()
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
    ],
)  # fmt: skip
def test_recipes_that_cannot_run_are_refused(name: str, value: object) -> None:
    config = dataclasses.replace(embedded_cpt(), micro_batch=2)
    with pytest.raises(TrainError, match="accepted"):
        dataclasses.replace(config, **{name: value})
