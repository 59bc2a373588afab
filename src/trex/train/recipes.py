"""Recipes: the constants of a training run, and the learning rate of each of its steps.

`published("flash_cpt")` is T-Rex's continual pre-training (CPT) of DeepSeek-V4-Flash, `published("flash_sft")` its
supervised fine-tuning (SFT), `embedded_cpt()` and `embedded_sft()` are their twins for two cores.
"""

import math
from dataclasses import dataclass, replace

from trex.model.attention import INDEXER_MODES
from trex.published import load

OPTIMIZERS = ("adamw", "muon")
PUBLISHED = ("flash_cpt", "flash_sft", "pro_cpt", "pro_sft")
PROGRESSIVE = {"code_only": "stage_one_lr", "clean_cot": "stage_two_lr"}  # stages of progressive SFT, in order


class TrainError(ValueError):
    """A recipe that cannot run, data that do not fit it, or training that went wrong."""


@dataclass(frozen=True)
class TrainConfig:
    """One run. Raises TrainError, naming field and value, for a recipe that cannot run.

    Defaults of the losses' weights and of the biases' speed are those of DeepSeek-V4's pre-training (arXiv 2606.19348),
    which lowers the weight of the MTP loss to .1 as the learning rate decays; for the indexer's loss it gives none.
    """

    steps: int  # optimizer steps
    global_batch: int  # rows per step
    micro_batch: int  # rows per forward pass; a divisor of global_batch
    seq_len: int  # positions per row
    peak_lr: float
    min_lr: float
    warmup_steps: int
    constant_steps: int = 0  # at the peak, between warm-up and decay (a warm-up-stable-decay schedule)
    optimizer: str = "adamw"  # or "muon" for the matrices: `trex.train.muon`
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01  # decoupled; on parameters of two and more dimensions, as Megatron does by default
    clip_norm: float = 1.0  # of the gradient, all parameters together
    mtp_weight: float = 0.3  # of the MTP loss; 0: the MTP block is neither run nor trained
    indexer_weight: float = 1.0  # of the indexer's loss, which reaches the indexers alone; 0: they are not trained
    balance_weight: float = 1e-4  # of the sequence balance loss
    bias_speed: float = 1e-3  # by which the selection biases move against the load after each step
    indexer: str = "sparse"  # or "warm-up", "frozen": see `Transformer.forward`
    recompute: bool = False  # keep only the streams between layers for the backward pass
    eval_every: int = 0  # steps between held-out losses; 0: only before the first and after the last step
    save_every: int = 0  # steps between checkpoints; 0: only after the last step
    keep: int = 2  # last checkpoints kept
    seed: int = 0  # of the order of rows

    def __post_init__(self) -> None:
        for name in ("steps", "global_batch", "micro_batch", "seq_len", "keep"):
            self._require(name, getattr(self, name) >= 1, "from 1")
        for name in ("eval_every", "save_every", "warmup_steps", "constant_steps", "seed"):
            self._require(name, getattr(self, name) >= 0, "from 0")
        for name in ("weight_decay", "mtp_weight", "indexer_weight", "balance_weight", "bias_speed"):
            self._require(name, 0 <= getattr(self, name) < math.inf, "from 0")
        for name in ("peak_lr", "eps", "clip_norm"):
            self._require(name, 0 < getattr(self, name) < math.inf, "above 0")
        self._require("global_batch", self.global_batch % self.micro_batch == 0, f"multiples of {self.micro_batch}")
        self._require("warmup_steps", self.warmup_steps < self.steps, f"below steps = {self.steps}")
        rest = self.steps - self.warmup_steps
        self._require("constant_steps", self.constant_steps < rest, f"below steps - warmup_steps = {rest}")
        self._require("optimizer", self.optimizer in OPTIMIZERS, ", ".join(OPTIMIZERS))
        self._require("min_lr", 0 <= self.min_lr <= self.peak_lr, f"0 to peak_lr = {self.peak_lr}")
        self._require("betas", all(0 <= beta < 1 for beta in self.betas), "0 to below 1")
        self._require("indexer", self.indexer in INDEXER_MODES, ", ".join(INDEXER_MODES))

    def _require(self, name: str, holds: bool, accepted: str) -> None:
        if not holds:
            raise TrainError(f"{name} = {getattr(self, name)!r}; accepted: {accepted}")


def learning_rate(config: TrainConfig, step: int) -> float:
    """Learning rate of a step, counted from 1: linear warm-up to the peak, the peak, half a cosine down to `min_lr`.

    The peak is reached at step `warmup_steps` and left after `constant_steps` more, the minimum is at the last step.
    """
    if step <= config.warmup_steps:
        return config.peak_lr * step / config.warmup_steps
    first = config.warmup_steps + config.constant_steps
    progress = max(0, step - first) / (config.steps - first)
    return config.min_lr + (config.peak_lr - config.min_lr) * (1 + math.cos(math.pi * progress)) / 2


def published(name: str) -> TrainConfig:
    """T-Rex's recipe as its launch scripts have it: one of PUBLISHED; needs NPU nodes and the released weights.

    The scripts turn the balance loss off (load balancing "none", which leaves its coefficient .001 without effect) and
    the indexer's loss and the selection biases on. Not stated there, hence our defaults: eps, which parameters decay,
    the weight of the indexer's loss and the speed of the biases. Their forced round-robin routing (`--fix-router`) is
    for benchmarks and is no part of a recipe. Raises TrainError for another name.
    """
    if name not in PUBLISHED:
        raise TrainError(f"published recipe {name!r}; accepted: {', '.join(PUBLISHED)}")
    layout, optimizer = load("layouts")[name], load("optimizer")
    return TrainConfig(
        steps=int(layout["iterations"].value),
        global_batch=int(layout["global_batch"].value),
        micro_batch=int(layout["micro_batch"].value),
        seq_len=int(layout["sequence"].value),
        peak_lr=layout["learning_rate"].value,
        min_lr=layout["min_learning_rate"].value,
        warmup_steps=int(layout["warmup"].value),
        betas=(optimizer["adam_beta1"]["value"].value, optimizer["adam_beta2"]["value"].value),
        weight_decay=optimizer["weight_decay"]["value"].value,
        clip_norm=optimizer["gradient_clip"]["value"].value,
        mtp_weight=optimizer["mtp_loss_weight"]["value"].value,
        balance_weight=0.0,
        recompute=layout.attributes["recompute"] == "full",
    )


def progressive_sft(stage: str) -> TrainConfig:
    """A stage of T-Rex's progressive SFT: "code_only", then "clean_cot", each with its published learning rate.

    All else is not published: the SFT recipe of Flash, its ratio of peak to minimum included, for one pass over the
    samples that the cleaning exported. Raises TrainError for another stage.
    """
    if stage not in PROGRESSIVE:
        raise TrainError(f"stage {stage!r}; accepted: {', '.join(PROGRESSIVE)}")
    counts, base = load("data_counts"), published("flash_sft")
    samples = counts["clean_only_exported" if stage == "code_only" else "clean_cot_exported"]["value"].value
    peak = counts[PROGRESSIVE[stage]]["value"].value
    steps = math.ceil(samples / base.global_batch)
    warmup = round(base.warmup_steps * steps / base.steps)
    return replace(base, steps=steps, warmup_steps=warmup, peak_lr=peak, min_lr=peak * base.min_lr / base.peak_lr)


def embedded_cpt(seed: int = 0) -> TrainConfig:
    """The CPT recipe for two CPU cores and a tiny model that starts from random weights.

    Such a model needs a learning rate three orders of magnitude above that of one that continues from released weights,
    and its experts have to be balanced in 60 steps, so its selection biases move 20 times as fast and the balance loss
    is on. Betas, decay, clipping, warm-up, weight of the MTP loss and ratio of peak to minimum are the published ones.
    """
    return TrainConfig(
        steps=60, global_batch=2, micro_batch=2, seq_len=512, peak_lr=1e-2, min_lr=1e-3, warmup_steps=10, eval_every=20,
        bias_speed=0.02, seed=seed,
    )  # fmt: skip


def embedded_sft(seed: int = 0) -> TrainConfig:
    """The SFT recipe for two CPU cores and a tiny model that `embedded_cpt` has trained.

    Rows are twice as long as for CPT, the learning rate is lower and falls to a hundredth, as published.
    """
    return replace(
        embedded_cpt(seed), steps=60, seq_len=2048, peak_lr=5e-3, min_lr=5e-5, warmup_steps=5, global_batch=4,
    )  # fmt: skip
