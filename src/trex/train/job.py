"""A run as it is asked for in words: checked on every rank before work begins, then trained, by one rank or many."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trex.checkpoint.steps import newest_first
from trex.checkpoint.together import Together
from trex.device import Device
from trex.model.config import ModelConfig
from trex.model.layout import Layout
from trex.model.transformer import Transformer
from trex.parallel.apply import check
from trex.train import options
from trex.train.agreement import agree
from trex.train.corpus import Corpus, Source, load
from trex.train.recipes import TrainConfig, TrainError
from trex.train.start import DTYPES, Start, parameters_per_rank
from trex.train.trainer import LOG, Run, laid_out, train


@dataclass(frozen=True)
class Job:
    """What `trex train` is told; its options say what each is."""

    layout: str
    model: str
    recipe: str
    changes: tuple[str, ...]
    documents: int
    data: Path | None
    held_out: float
    folder: Path
    resume: bool
    seed: int
    dtype: str


@dataclass(frozen=True)
class Checked:
    """The same, read and found to fit together."""

    layout: Layout
    start: Start
    recipe: TrainConfig
    source: Source


def checked(job: Job, world: int) -> Checked:
    """Read everything that is asked for. Raises the ValueError of the room that refuses it first.

    world: ranks there are.
    """
    if job.dtype not in DTYPES:
        raise TrainError(f"dtype {job.dtype!r}; accepted: {', '.join(DTYPES)}")
    if job.seed < 0:
        raise TrainError(f"seed {job.seed}; accepted: from 0")
    start, recipe = Start(job.model), options.recipe(job.recipe, job.changes, job.seed)
    layout = laid_out(options.layout(job.layout), recipe)
    check(layout)
    layout.check(start.config(0), devices=world, seq_len=recipe.seq_len)
    if not job.resume and (newest_first(job.folder) or (job.folder / LOG).exists()):
        raise TrainError(f"{job.folder} holds a run; accepted: --resume to go on with it, or another --folder")
    tokenizer = start.tokenizer()
    source = Source(job.documents, job.data, job.seed, job.held_out, recipe.seq_len, tokenizer)
    return Checked(layout, start, recipe, source)


def carry_out(job: Job, ranks: Together, device: Device, timeout_s: float, say: Callable[[str], None]) -> Run:
    """Train as asked; all ranks together. say: is given lines for a person, on the first rank.

    timeout_s: of collectives. Raises AgreedError on all of many ranks for what any of them finds; alone, what the rooms
    raise.
    """
    asked = agree(ranks, lambda: checked(job, ranks.world))
    if ranks.rank:
        say = _nothing
    corpus = load(asked.source, job.folder, ranks, timeout_s)

    def begin() -> tuple[ModelConfig, Transformer]:
        config = asked.start.config(corpus.vocab_size)
        asked.layout.check(config, seq_len=asked.recipe.seq_len)
        return config, asked.start.model(config, job.seed, job.dtype)

    config, model = agree(ranks, begin)
    for line in _summary(asked, corpus, config, job.dtype):
        say(line)
    documents: dict[str, Any] = {} if corpus.tokenizer is None else {"tokenizer": corpus.tokenizer}

    def go() -> Run:
        return train(
            model, corpus.rows, asked.recipe, layout=asked.layout, held_out=corpus.held_out, folder=job.folder,
            weights=Path(job.model) if asked.start.weights else None, documents=documents, resume=job.resume,
            device=device,
        )  # fmt: skip

    run = agree(ranks, go)
    found = run.history.held_out()["held_out"]
    if found:
        say(f"held out    {found[-1]:.4f} nats per token, {found[0]:.4f} before training")
    say(f"checkpoint  {run.checkpoint}")
    say(f"export it   trex checkpoint export {run.checkpoint} {job.folder / 'export'}")
    return run


def _summary(asked: Checked, corpus: Corpus, config: ModelConfig, dtype: str) -> list[str]:
    rows, held, recipe = corpus.rows, corpus.held_out, asked.recipe
    each = parameters_per_rank(config, asked.layout)
    sizes = f"{min(each):,}" if min(each) == max(each) else f"{min(each):,} to {max(each):,}"
    lines = [
        f"layout      {options.described(asked.layout)}: ranks {asked.layout.world_size}",
        f"rows        {len(rows):,} of {rows.seq_len:,} positions, {rows.targets:,} targets, "
        f"{rows.padding:.1%} padding; held out {len(held) if held else 0:,}"
        + (f"; {corpus.left_out:,} dialogues left out: longer than a row" if corpus.left_out else ""),
        f"model       {config.name}, {dtype}, vocabulary {config.vocab_size:,}; parameters per rank {sizes}",
        f"recipe      {recipe.steps:,} steps of {recipe.global_batch:,} rows, {recipe.micro_batch:,} at a time; "
        f"learning rate up to {recipe.peak_lr:g}",
    ]
    return lines


def _nothing(line: str) -> None:
    """Say nothing."""
