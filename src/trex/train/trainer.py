"""The trainer: packed rows of tokens, repeatable bit for bit on a CPU, resumable to the same trajectory.

One process, or all ranks of torch.distributed together under a layout. Order of rows and learning rate are functions of
(config, step), so a checkpoint holds weights, optimizer state and step, and nothing random is left to save.
"""

import math
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from trex import parallel
from trex.checkpoint import training
from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.hf_pieces import load_pieces
from trex.checkpoint.steps import remove_all, step_folder
from trex.checkpoint.together import Together
from trex.checkpoint.training import TrainingState
from trex.data.tokens import IGNORE, Rows
from trex.device import Device, detect
from trex.model.layout import Layout
from trex.model.transformer import Transformer
from trex.parallel import ParallelModel
from trex.train.metrics import History, Log, Step
from trex.train.muon import HybridMuon, groups
from trex.train.objective import counts, scales
from trex.train.recipes import TrainConfig, TrainError, learning_rate

LOG = "steps.jsonl"


@dataclass(frozen=True)
class Run:
    """A finished run."""

    model: Transformer  # where ranks are many, of no use: `load_model` reads the trained one
    history: History
    checkpoint: Path | None  # the last one written


def train(
    model: Transformer,
    rows: Rows,
    config: TrainConfig,
    *,
    layout: Layout | None = None,
    weights: Path | None = None,
    held_out: Rows | None = None,
    folder: Path | None = None,
    documents: Mapping[str, Any] | None = None,
    resume: bool = False,
    device: Device | None = None,
) -> Run:
    """Train `model` in place and return it with the history of its losses.

    layout: over the ranks of torch.distributed, which all call this with the same arguments; None: one process.
    weights: a Hugging Face folder that a model of shapes only, built on the meta device, is filled from, each rank its
    own part.

    folder: gets `steps.jsonl` and the checkpoints `step-…`; None writes nothing. documents: JSON documents that go into
    every checkpoint, such as the tokenizer, beside "config" (the model's) and "trainer" (the run's). resume: go on from
    the last whole checkpoint in `folder`, if there is one, under whatever layout it was saved; the result is that of an
    undisturbed run. Without it a run begins anew and removes what an earlier one left there.
    device: by default the accelerator, else the CPU.
    Raises LayoutError where the layout does not fit model, recipe or ranks; TrainError where data, checkpoint and
    config do not belong together, and where a loss or gradient is not finite (the weights are then those before that
    step); CheckpointError where no checkpoint can be written, and while another process saves in `folder`.
    """
    _check(rows, held_out, config)
    device = device or detect()
    layout = laid_out(layout or Layout(), config)
    layout.check(model.config, seq_len=config.seq_len)
    ranks = Together(alone=layout.world_size == 1)
    trainer = {"config": _plain(config), "rows": rows.sha256}
    last = training.newest(folder) if resume and folder is not None else None
    shapes_only = model.embed.weight.is_meta
    mine = parallel.apply(
        model if shapes_only else model.to(device.torch), layout, parallel.meshes(layout, device.kind)
    )
    if shapes_only:
        mine.materialise(device.torch)
        if last is None:
            load_pieces(_known(weights), mine.pieces())
    if folder is not None and last is None:
        ranks.of_first(partial(remove_all, folder))
    optimizer = optimizer_of(mine, config)
    kept = {**(documents or {}), "config": asdict(model.config)}
    done = _restore(last, trainer, mine, optimizer) if last is not None else 0
    path = folder / LOG if folder and ranks.rank == 0 else None
    with Log(path, upto=done if last else None) as log:
        if last is None:
            log.append(Step(0, 0, held_out=_held_out(mine, held_out, config)))
        for step in _progress(range(done + 1, config.steps + 1), done, config.steps, ranks.rank):
            start, final = time.perf_counter(), step == config.steps
            index = row_order(len(rows), config, step)
            done_step = _step(mine, optimizer, rows, index, config, step)
            speed = done_step.tokens / (time.perf_counter() - start)
            measured = final or bool(config.eval_every and step % config.eval_every == 0)
            value = _held_out(mine, held_out, config) if measured else None
            tokens = (log.steps[-1].tokens if log.steps else 0) + done_step.tokens
            log.append(replace(done_step, tokens=tokens, tokens_per_s=speed, held_out=value))
            if folder is not None and (final or (config.save_every and step % config.save_every == 0)):
                log.sync()
                state = _state(mine, optimizer, {**kept, "trainer": {**trainer, "step": step}})
                last = training.save(step_folder(folder, step), state, keep=config.keep)
    return Run(model, History(tuple(log.steps)), last)


def laid_out(layout: Layout, config: TrainConfig) -> Layout:
    """The layout with what the recipe says of batches and recomputation. Raises LayoutError where they do not fit."""
    recompute = "full" if config.recompute else layout.recompute
    return replace(layout, micro_batch=config.micro_batch, global_batch=config.global_batch, recompute=recompute)


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
    model: ParallelModel, optimizer: torch.optim.Optimizer, rows: Rows, index: Tensor, config: TrainConfig, step: int
) -> Step:
    """One optimizer step, then one of the selection biases; `tokens` of the result are the step's targets.

    Each micro-batch contributes its summed losses over the tokens of the whole step, so its size does not matter.
    """
    whole = _cut(rows, index, model.layout.tp)
    tokens = counts(*whole[1:])
    shares = scales(tokens, config)
    dp = model.meshes.dp
    inputs, doc_ids, targets = (tensor.chunk(dp.size)[dp.rank].to(model.device) for tensor in whole)
    sums = model.accumulate(inputs, doc_ids, targets, model.layout.micro_batches, shares, indexer=config.indexer)
    total = sum(shares.get(name, 0.0) * value for name, value in sums.items())
    norm = model.clip(config.clip_norm)
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
    loads = model.loads()
    model.shift_biases(loads, config.bias_speed)
    loads = loads.cpu()
    imbalance = (loads.amax(dim=1) / loads.double().mean(dim=1)).tolist()
    means = {name: value / max(tokens[name], 1) for name, value in sums.items()}
    means["loss"] = means.pop("lm")
    return Step(step, tokens["lm"], grad_norm=norm, lr=lr, imbalance=tuple(imbalance), **means)


def _held_out(model: ParallelModel, rows: Rows | None, config: TrainConfig) -> float | None:
    """Mean loss over all targets of `rows`; all replicas take as many, where none are left some without targets."""
    if rows is None:
        return None
    dp = model.meshes.dp
    count = -(-len(rows) // (dp.size * config.micro_batch)) * config.micro_batch if dp.size > 1 else len(rows)
    places = torch.arange(dp.rank * count, (dp.rank + 1) * count)
    inputs, doc_ids, targets = _cut(rows, places.clamp_max(len(rows) - 1), model.layout.tp)
    targets[places >= len(rows)] = IGNORE
    inputs, doc_ids, targets = (tensor.to(model.device) for tensor in (inputs, doc_ids, targets))
    mode = "warm-up" if config.indexer == "warm-up" else "frozen"
    total = model.evaluate(inputs, doc_ids, targets, config.micro_batch, mode)["lm"]
    if not math.isfinite(total):
        raise TrainError(f"the loss over {len(rows)} rows is {total}")
    return total / rows.targets


def _batch(model: Transformer, rows: Rows, index: Tensor) -> tuple[Tensor, ...]:
    """Inputs, documents and targets of some rows, where the model is."""
    device = next(model.parameters()).device
    return tuple(tensor.to(device) for tensor in rows.batch(index))


def _cut(rows: Rows, index: Tensor, multiple: int) -> tuple[Tensor, Tensor, Tensor]:
    """`Rows.batch`, as long as the fullest of the rows and a multiple, which divides the length of a whole row."""
    length = -(-rows.batch(index)[0].shape[1] // multiple) * multiple
    return rows.tokens[index, :length], rows.doc_ids[index, :length], rows.labels[index, :length]


def _state(model: ParallelModel, optimizer: torch.optim.Optimizer, documents: Mapping[str, Any]) -> TrainingState:
    pieces = model.pieces() if model.meshes.world.size > 1 else None
    return TrainingState(model.module, optimizer, documents, pieces=pieces)


def optimizer_of(model: ParallelModel, config: TrainConfig) -> torch.optim.Optimizer:
    """AdamW that decays parameters of two and more dimensions: the matrices, stacked experts, the embedding and the
    compressors' position biases, but no norm, sink, base or scale. Parameters without a gradient are left alone.

    Or Muon for the matrices: see `muon.groups`. Raises TrainError for Muon where ranks have parts of matrices.
    """
    if config.optimizer == "muon":
        layout = model.layout
        if layout.tp > 1 or layout.etp > 1 or layout.sharding == "parameters":
            raise TrainError(
                f"optimizer muon with tp = {layout.tp}, etp = {layout.etp}, sharding = {layout.sharding}; "
                "accepted: layouts that leave matrices whole, or adamw"
            )
        return HybridMuon(groups(model.parameters().items(), config, model.config), lr=config.peak_lr)
    parameters = list(model.parameters().values())
    decays = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(decays, lr=config.peak_lr, betas=config.betas, eps=config.eps)


def _restore(path: Path, trainer: dict[str, Any], model: ParallelModel, optimizer: torch.optim.Optimizer) -> int:
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
        training.load(path, _state(model, optimizer, {}))
    except CheckpointError as error:
        raise TrainError(f"{path} cannot be resumed: {error}") from None
    return int(known["step"])


def _known(weights: Path | None) -> Path:
    if weights is None:
        raise TrainError("the model has shapes only and weights is None; accepted: a folder of weights")
    return weights


def _check(rows: Rows, held_out: Rows | None, config: TrainConfig) -> None:
    for what, given in (("rows", rows), ("held-out rows", held_out)):
        if given is not None and given.seq_len != config.seq_len:
            raise TrainError(f"{what} have {given.seq_len} positions; the config's seq_len is {config.seq_len}")


def _plain(config: TrainConfig) -> dict[str, Any]:
    return {**asdict(config), "betas": list(config.betas)}


def _progress(steps: range, done: int, total: int, rank: int) -> "tqdm[int]":
    return tqdm(steps, initial=done, total=total, unit="step", disable=rank > 0 or not sys.stderr.isatty())
