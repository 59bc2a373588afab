"""Eager against compiled operators, interleaved: one JSON line per case.

    python bench/kernels.py --repeats 9 --output kernels.jsonl

Each line holds the case, seconds per call, speed-up over eager (the reference), the memory bandwidth measured in the
same repeats and the fraction of it reached, all as median with low and high, and the provenance.
"""

import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro
from tqdm import tqdm

from trex import paths
from trex.device import Measurement, keep_freed_memory
from trex.files import write_atomic
from trex.kernels import compiler
from trex.kernels.cases import OPERATORS, Case
from trex.kernels.timing import compare
from trex.results import provenance_block

Direction = Literal["forward", "backward", "forward+backward"]


@dataclass(frozen=True)
class Options:
    """Measure the operators that have a case, eager and compiled, on this machine's CPU."""

    output: Path = paths.runs() / "bench" / "kernels.jsonl"
    """JSONL file, rewritten whole after each case."""
    repeats: int = 7
    """interleaved repeats per case"""
    shapes: Annotated[tuple[tuple[int, int], ...], tyro.conf.arg(metavar="TOKENS CHANNELS …")] = (
        (128, 512),
        (1024, 1024),
        (4096, 4096),
        (8192, 4096),
    )
    """pairs of tokens and channels"""
    dtypes: tuple[Literal["bf16", "fp32"], ...] = ("bf16", "fp32")
    directions: tuple[Direction, ...] = ("forward", "forward+backward")
    weighted: bool = False
    """with a weight per channel (RMSNorm) or per token (limited SwiGLU)"""
    threads: int = 2
    seed: int = 0
    keep_memory: bool = True
    """keep freed memory (4 GiB from the start), as an accelerator's allocator does; without, page faults count"""


def main(options: Options) -> int:
    """Run all cases; returns the exit code: 2 where torch.compile cannot run here."""
    lacking = compiler.missing()
    if lacking is not None:
        print(f"nothing measured: the compiled backend needs {lacking}", file=sys.stderr)
        return 2
    torch.set_num_threads(options.threads)
    kept = options.keep_memory and keep_freed_memory(reserve_bytes=2**32)
    parameters = {"repeats": options.repeats, "threads": options.threads, "freed_memory_kept": kept}
    provenance = provenance_block(seed=options.seed, parameters=parameters, label="measured")
    cases = [
        Case(operator, dtype, tokens, channels, direction, options.weighted)
        for operator, dtype, (tokens, channels), direction in itertools.product(
            OPERATORS, options.dtypes, options.shapes, options.directions
        )
    ]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for case in tqdm(cases, disable=not sys.stderr.isatty()):
        timing = compare(case, ("reference", "cpu"), options.repeats, options.seed)
        lines.append(json.dumps({**timing.row(), "provenance": provenance}, ensure_ascii=False))
        write_atomic(options.output, ("\n".join(lines) + "\n").encode())
        shape = f"{case.tokens}×{case.channels}"
        tqdm.write(
            f"{case.operator:15} {case.dtype} {shape:>10} {case.direction:17} "
            f"speed-up {_spread(timing.speedup['cpu'])}  bandwidth fraction {_spread(timing.fraction['cpu'])}"
        )
    print(f"{len(lines)} cases in {options.output}")
    return 0


def _spread(m: Measurement) -> str:
    return f"{m.median:5.2f} [{m.low:.2f}, {m.high:.2f}]"


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__)))
