"""Training steps of this model and of transformers' DeepSeek-V4, interleaved; or one long row, for its memory.

    python bench/model.py --repeats 9                          # tokens per second, and ratios
    python bench/model.py --batch 1 --length 16384 --alone     # one step of this model alone: does it fit?

Same weights, tokens, optimizer (AdamW) and autocast (bfloat16) for all. transformers has neither MTP nor a loss of the
indexer; `ours` leaves them out as well, `ours, all losses` trains with them. Each line holds seconds, tokens per second
and the ratio to transformers as median with low and high, the losses of the first step, peak memory of the process, and
the provenance.
"""

import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from tqdm import tqdm

from trex import paths
from trex.checkpoint.names import to_transformers
from trex.device import Measurement, keep_freed_memory
from trex.files import write_atomic
from trex.kernels.cross_entropy.reference import IGNORE
from trex.model import count
from trex.model.config import ModelConfig
from trex.model.hf import to_hf
from trex.model.transformer import Transformer
from trex.results import provenance_block

Step = Callable[[], float]


@dataclass(frozen=True)
class Options:
    """One optimizer step of the nano configuration, as often as asked, on this machine's CPU."""

    output: Path = paths.runs() / "bench" / "model.jsonl"
    """JSONL file, written whole"""
    batch: int = 2
    """rows per step"""
    length: int = 1024
    """tokens per row"""
    repeats: int = 7
    """interleaved steps of each model, after one that is not counted"""
    alone: bool = False
    """this model alone, all losses, keeping only the streams between layers for the backward pass"""
    threads: int = 2
    seed: int = 0
    keep_memory: bool = True
    """keep freed memory (4 GiB from the start), as an accelerator's allocator does; without, page faults count"""


def main(options: Options) -> int:
    """Run the steps, write the lines, print a table."""
    torch.set_num_threads(options.threads)
    kept = options.keep_memory and keep_freed_memory(reserve_bytes=0 if options.alone else 2**32)
    config = ModelConfig.nano()
    generator = torch.Generator().manual_seed(options.seed)
    tokens = torch.randint(0, config.vocab_size, (options.batch, options.length), generator=generator)
    models: dict[str, Step] = {}
    if options.alone:
        models["ours, all losses"] = ours(config, tokens, options.seed, complete=True, recompute=True)
    else:
        models["ours"] = ours(config, tokens, options.seed, complete=False)
        models["ours, all losses"] = ours(config, tokens, options.seed, complete=True)
        for experts in ("eager", "grouped_mm"):
            models[f"transformers, {experts} experts"] = transformers(config, tokens, options.seed, experts)
    seconds: dict[str, list[float]] = {name: [] for name in models}
    losses: dict[str, float] = {}
    for repeat in tqdm(range(options.repeats + 1), disable=not sys.stderr.isatty()):
        for name, step in models.items():
            gc.collect()
            begin = time.perf_counter()
            loss = step()
            if repeat:
                seconds[name].append(time.perf_counter() - begin)
            else:
                losses[name] = loss
    parameters = {
        "config": config.name, "batch": options.batch, "length": options.length, "repeats": options.repeats,
        "threads": options.threads, "freed_memory_kept": kept, "autocast": "bfloat16", "optimizer": "AdamW",
    }  # fmt: skip
    provenance = provenance_block(seed=options.seed, parameters=parameters, label="measured")
    flop = count.flops(config, options.length).training * tokens.numel()
    rows = []
    for name, times in seconds.items():
        rates = [tokens.numel() / t for t in times]
        row = {
            "model": name, "seconds": _summary(times, "s"), "tokens_per_s": _summary(rates, "tokens/s"),
            "model_flop_per_s": flop / Measurement.of(times, "s").median, "first_loss": losses[name],
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }  # fmt: skip
        if name.startswith("ours"):
            row["ratio"] = {
                other: _summary([b / a for a, b in zip(times, theirs, strict=True)], "")
                for other, theirs in seconds.items()
                if other.startswith("transformers")
            }
        rows.append(row)
        shown = "".join(f"  {ratio['median']:.2f}x {other}" for other, ratio in row.get("ratio", {}).items())
        print(f"{name:32} {row['tokens_per_s']['median']:8.0f} tokens/s  first loss {losses[name]:.4f}{shown}")
    print(f"peak memory of the process {rows[0]['peak_memory_bytes'] / 2**30:.2f} GiB")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({**row, "provenance": provenance}, ensure_ascii=False) for row in rows]
    write_atomic(options.output, ("\n".join(lines) + "\n").encode())
    return 0


def ours(config: ModelConfig, tokens: torch.Tensor, seed: int, complete: bool, recompute: bool = False) -> Step:
    """A training step; complete: with the MTP block and the losses of MTP, indexer and balance."""
    model = Transformer(config, seed)
    left_out = () if complete else ("mtp.", ".indexer.")
    trained = [p for name, p in model.named_parameters() if not any(part in f".{name}" for part in left_out)]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    weights = {"lm": 1.0, "mtp": 0.3, "indexer": 1.0, "balance": 1e-4} if complete else {"lm": 1.0}
    indexer = "sparse" if complete else "frozen"
    targets = tokens.roll(-1, dims=1)
    targets[:, -1] = IGNORE

    def step() -> float:
        with torch.autocast("cpu", torch.bfloat16):
            output = model(tokens, targets=targets, mtp=complete, indexer=indexer, recompute=recompute)
            loss = torch.stack([w * output.losses[n] / output.counts[n] for n, w in weights.items()]).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(output.losses["lm"].detach() / output.counts["lm"])

    return step


def transformers(config: ModelConfig, tokens: torch.Tensor, seed: int, experts: str) -> Step:
    """A training step of transformers' model with the same weights, its experts computed as `experts` says."""
    from transformers import DeepseekV4ForCausalLM

    settings = to_hf(config)
    settings._experts_implementation = experts
    model = DeepseekV4ForCausalLM(settings)
    model.load_state_dict(to_transformers(Transformer(config, seed).state_dict()), strict=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> float:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return step


def _summary(samples: list[float], unit: str) -> dict[str, float | str]:
    m = Measurement.of(samples, unit)
    return {"median": m.median, "low": m.low, "high": m.high, "unit": unit}


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__)))
