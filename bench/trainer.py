"""Tokens per second of the trainer beside those of a bare loop over the same model, rows and optimizer, in turn.

    python bench/trainer.py                         # one line per optimizer
    python bench/trainer.py --rounds 8 --steps 20

The bare loop does what any loop must: forward, backward, clipping, optimizer. The trainer adds what it is for: counts
over the whole step, selection biases, the log, the guard against losses that are not finite. Held-out losses and
checkpoints are left out of both. A round is one run of each, in changing order; the ratio is that of their medians.
"""

import json
import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import tyro

from trex import parallel, paths
from trex.data.tokens import Rows, pack
from trex.device import detect
from trex.files import write_atomic
from trex.model.config import ModelConfig
from trex.model.layout import Layout
from trex.model.transformer import Transformer
from trex.results import provenance_block
from trex.train.objective import counts, scales
from trex.train.recipes import OPTIMIZERS, TrainConfig, embedded_cpt
from trex.train.trainer import laid_out, optimizer_of, row_order, train


@dataclass(frozen=True)
class Options:
    """One benchmark."""

    output: Path = paths.runs() / "bench" / "trainer.jsonl"
    """JSONL file, written whole"""
    rounds: int = 5
    steps: int = 12
    threads: int = 1


def rows(recipe: TrainConfig, vocabulary: int) -> Rows:
    """Random documents of about half a row, as many as a run needs."""
    draw = torch.Generator().manual_seed(0)
    count = 2 * recipe.steps * recipe.global_batch
    lengths = torch.randint(recipe.seq_len // 4, recipe.seq_len, (count,), generator=draw).tolist()
    return pack((torch.randint(2, vocabulary, (n,), generator=draw).tolist() for n in lengths), recipe.seq_len)


def bare(model: Transformer, data: Rows, recipe: TrainConfig) -> int:
    """Train in a plain loop; targets trained on."""
    layout = laid_out(Layout(), recipe)
    optimizer = optimizer_of(parallel.apply(model, layout, parallel.meshes(layout, "cpu")), recipe)
    trained = 0
    for step in range(1, recipe.steps + 1):
        inputs, doc_ids, targets = data.batch(row_order(len(data), recipe, step))
        tokens = counts(doc_ids, targets)
        shares = scales(tokens, recipe)
        out = model(inputs, doc_ids, targets, indexer=recipe.indexer)
        sum(shares[name] * out.losses[name] for name in shares).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        trained += tokens["lm"]
    return trained


def whole(model: Transformer, data: Rows, recipe: TrainConfig) -> int:
    """The same with the trainer."""
    return train(model, data, recipe, device=detect("cpu")).history.steps[-1].tokens


def main(options: Options) -> int:
    """Measure, write the lines, print them."""
    torch.set_num_threads(options.threads)
    lines = []
    for name in OPTIMIZERS:
        recipe = replace(embedded_cpt(), steps=options.steps, warmup_steps=1, eval_every=0, optimizer=name)
        config = ModelConfig.tiny(vocab_size=2048)
        data = rows(recipe, config.vocab_size)
        speeds: dict[str, list[float]] = {"trainer": [], "bare loop": []}
        for number in range(options.rounds + 1):
            order = [("trainer", whole), ("bare loop", bare)]
            for which, run in order if number % 2 else reversed(order):
                model = Transformer(config, seed=0)
                begin = time.perf_counter()
                tokens = run(model, data, recipe)
                if number:  # the first round warms up
                    speeds[which].append(tokens / (time.perf_counter() - begin))
        medians = {which: statistics.median(found) for which, found in speeds.items()}
        lines.append({
            "optimizer": name, "steps": recipe.steps, "rounds": options.rounds, "threads": options.threads,
            "tokens_per_s": {which: [round(value, 1) for value in found] for which, found in speeds.items()},
            "trainer_over_bare_loop": round(medians["trainer"] / medians["bare loop"], 4),
            "provenance": provenance_block(),
        })  # fmt: skip
        print(json.dumps({key: value for key, value in lines[-1].items() if key != "provenance"}))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.output, "".join(json.dumps(line) + "\n" for line in lines).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options)))
