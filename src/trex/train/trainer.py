"""The trainer: AdamW on packed rows of tokens, repeatable bit for bit on a CPU, resumable to the same trajectory.

Order of rows and learning rate are functions of (config, step), so a checkpoint holds weights, optimizer state and
step, and nothing random is left to save.
"""

import math
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from trex.checkpoint import training
from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.steps import remove_all, step_folder
from trex.checkpoint.training import TrainingState
from trex.data.tokens import Rows
from trex.device import Device, detect
from trex.model.transformer import Transformer
from trex.train.metrics import History, Log, Step
from trex.train.objective import counts, objective
from trex.train.recipes import TrainConfig, TrainError, learning_rate

LOG = "steps.jsonl"


@dataclass(frozen=True)
class Run:
    """A finished run."""

    model: Transformer
    history: History
    checkpoint: Path | None  # the last one written


def train(
    model: Transformer,
    rows: Rows,
    config: TrainConfig,
    *,
    held_out: Rows | None = None,
    folder: Path | None = None,
    documents: Mapping[str, Any] | None = None,
    resume: bool = False,
    device: Device | None = None,
) -> Run:
    """Train `model` in place and return it with the history of its losses.

    folder: gets `steps.jsonl` and the checkpoints `step-…`; None writes nothing. documents: JSON documents that go into
    every checkpoint, such as the tokenizer, beside "config" (the model's) and "trainer" (the run's). resume: go on from
    the last whole checkpoint in `folder`, if there is one; the result is that of an undisturbed run. Without it a run
    begins anew and removes what an earlier one left there.
    device: by default the accelerator, else the CPU.
    Raises TrainError where data, checkpoint and config do not belong together, and where a loss or gradient is not
    finite (the weights are then those before that step); CheckpointError where no checkpoint can be written, and while
    another process saves in `folder`.
    """
    _check(rows, held_out, config)
    device = device or detect()
    trainer = {"config": _plain(config), "rows": rows.sha256}
    last = training.newest(folder) if resume and folder is not None else None
    if folder is not None and last is None:
        remove_all(folder)
    model.to(device.torch)
    optimizer = _optimizer(model, config)
    kept = {**(documents or {}), "config": asdict(model.config)}
    done = _restore(last, trainer, model, optimizer) if last is not None else 0
    with Log(folder / LOG if folder else None, upto=done if last else None) as log:
        if not log.steps:
            log.append(Step(0, 0, held_out=_held_out(model, held_out, config)))
        for step in _progress(range(done + 1, config.steps + 1), done, config.steps):
            start, final = time.perf_counter(), step == config.steps
            index = row_order(len(rows), config, step)
            done_step = _step(model, optimizer, rows, index, config, step)
            speed = done_step.tokens / (time.perf_counter() - start)
            measured = final or bool(config.eval_every and step % config.eval_every == 0)
            value = _held_out(model, held_out, config) if measured else None
            tokens = log.steps[-1].tokens + done_step.tokens
            log.append(replace(done_step, tokens=tokens, tokens_per_s=speed, held_out=value))
            if folder is not None and (final or (config.save_every and step % config.save_every == 0)):
                log.sync()
                state = TrainingState(model, optimizer, {**kept, "trainer": {**trainer, "step": step}})
                last = training.save(step_folder(folder, step), state, keep=config.keep)
    return Run(model, History(tuple(log.steps)), last)


@torch.no_grad()
def evaluate(model: Transformer, rows: Rows, micro_batch: int, indexer: str = "frozen") -> float:
    """Mean language-model loss over all targets of `rows`, in nats.

    indexer: "warm-up" attends to all visible entries, any other mode to those that the indexer selects. Raises
    TrainError where the loss is not finite.
    """
    total = 0.0
    for index in torch.arange(len(rows)).split(micro_batch):
        inputs, doc_ids, targets = _batch(model, rows, index)
        total += model(inputs, doc_ids, targets, mtp=False, indexer=indexer).losses["lm"].item()
    if not math.isfinite(total):
        raise TrainError(f"the loss over {len(rows)} rows is {total}")
    return total / rows.targets


def row_order(count: int, config: TrainConfig, step: int) -> Tensor:
    """Rows of a step, [global_batch]: consecutive pieces of one endless sequence of permutations, one per pass."""
    places = torch.arange((step - 1) * config.global_batch, step * config.global_batch)
    chosen = []
    for epoch in (places // count).unique().tolist():
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + epoch)
        chosen.append(torch.randperm(count, generator=generator)[places[places // count == epoch] % count])
    return torch.cat(chosen)


def _step(
    model: Transformer, optimizer: torch.optim.Optimizer, rows: Rows, index: Tensor, config: TrainConfig, step: int
) -> Step:
    """One optimizer step, then one of the selection biases; `tokens` of the result are the step's targets.

    Each micro-batch contributes its summed losses over the tokens of the whole step, so its size does not matter.
    """
    _, doc_ids, targets = rows.batch(index)
    tokens = counts(doc_ids, targets)
    means: dict[str, float] = {}
    total, loads = 0.0, torch.zeros((), dtype=torch.int64)
    for micro in index.split(config.micro_batch):
        output = model(
            *_batch(model, rows, micro),
            mtp=config.mtp_weight > 0,
            indexer=config.indexer,
            recompute=config.recompute,
        )
        share = objective(output.losses, tokens, config)
        share.backward()
        total += share.item()
        for name, loss in output.losses.items():
            means[name] = means.get(name, 0.0) + loss.item() / max(tokens[name], 1)
        loads = output.loads.cpu() + loads
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm))
    lr = learning_rate(config, step)
    if not (math.isfinite(total) and math.isfinite(norm)):
        optimizer.zero_grad()
        raise TrainError(
            f"step {step}: loss {total}, gradient norm {norm}, learning rate {lr:.3g}, rows {index.tolist()}; "
            f"the weights are those after step {step - 1}"
        )
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    optimizer.zero_grad()
    model.shift_biases(loads.to(next(model.parameters()).device), config.bias_speed)
    imbalance = (loads.amax(dim=1) / loads.double().mean(dim=1)).tolist()
    means["loss"] = means.pop("lm")
    return Step(step, tokens["lm"], grad_norm=norm, lr=lr, imbalance=tuple(imbalance), **means)


def _held_out(model: Transformer, rows: Rows | None, config: TrainConfig) -> float | None:
    if rows is None:
        return None
    return evaluate(model, rows, config.micro_batch, "warm-up" if config.indexer == "warm-up" else "frozen")


def _batch(model: Transformer, rows: Rows, index: Tensor) -> tuple[Tensor, ...]:
    """Inputs, documents and targets of some rows, where the model is."""
    device = next(model.parameters()).device
    return tuple(tensor.to(device) for tensor in rows.batch(index))


def _optimizer(model: Transformer, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW that decays parameters of two and more dimensions: the matrices, stacked experts, the embedding and the
    compressors' position biases, but no norm, sink, base or scale. Parameters without a gradient are left alone.
    """
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.peak_lr, betas=config.betas, eps=config.eps)


def _restore(path: Path, trainer: dict[str, Any], model: Transformer, optimizer: torch.optim.Optimizer) -> int:
    """Put a checkpoint's weights and optimizer state in place; returns its step. Raises TrainError for another run."""
    documents = training.read_documents(path)
    known = documents.get("trainer")
    if not isinstance(known, dict) or not isinstance(known.get("step"), int):
        raise TrainError(f"{path} holds no training state: it cannot be resumed")
    theirs = {**known.get("config", {}), "rows": known.get("rows")}
    ours = {**trainer["config"], "rows": trainer["rows"]}
    differing = [f"{name} {theirs.get(name)!r}, here {ours[name]!r}" for name in ours if theirs.get(name) != ours[name]]
    try:
        if (saved := training.model_config(documents)) != model.config:
            raise TrainError(f"{path} is of model {saved}; this run trains {model.config}")
        if differing:
            raise TrainError(f"{path} is of another run: {'; '.join(differing)}")
        training.load(path, TrainingState(model, optimizer))
    except CheckpointError as error:
        raise TrainError(f"{path} cannot be resumed: {error}") from None
    return int(known["step"])


def _check(rows: Rows, held_out: Rows | None, config: TrainConfig) -> None:
    for what, given in (("rows", rows), ("held-out rows", held_out)):
        if given is not None and given.seq_len != config.seq_len:
            raise TrainError(f"{what} have {given.seq_len} positions; the config's seq_len is {config.seq_len}")


def _plain(config: TrainConfig) -> dict[str, Any]:
    return {**asdict(config), "betas": list(config.betas)}


def _progress(steps: range, done: int, total: int) -> "tqdm[int]":
    return tqdm(steps, initial=done, total=total, unit="step", disable=not sys.stderr.isatty())
