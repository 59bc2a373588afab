"""Dequantising a released checkpoint against copying it: speed, and the memory of the process.

    python bench/checkpoint.py --repeats 3                # 3 GiB of FP8 and FP4, to BF16

Interleaved: the conversion runs in a process of its own, then the folder that it wrote is copied and fsynced. Both
rates are bytes written per second; each line holds them and their ratio as median with low and
high, and the provenance.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from tqdm import tqdm

from trex import paths
from trex.checkpoint.synthetic import write_released
from trex.device import Measurement
from trex.files import sync, write_atomic
from trex.model.config import ModelConfig
from trex.results import provenance_block

CONVERT = """
import resource, sys, time
from pathlib import Path
from trex.checkpoint.convert import convert
begin = time.perf_counter()
convert(Path(sys.argv[1]), Path(sys.argv[2]), precision="bf16", workers=int(sys.argv[3]))
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@dataclass(frozen=True)
class Options:
    """One conversion, as often as asked, on this machine's disk."""

    output: Path = paths.runs() / "bench" / "checkpoint.jsonl"
    """JSONL file, written whole"""
    gib: float = 3.0
    """size of the source, about"""
    repeats: int = 3
    workers: int = 2
    folder: Path = Path(tempfile.gettempdir())
    """where the checkpoints are written, and removed again"""


def main(options: Options) -> int:
    """Run, write the lines, print a table."""
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="trex-bench-") as name:
        folder = Path(name)
        source = write_released(folder / "source", _config(options.gib))
        seconds: dict[str, list[float]] = {"convert": [], "copy": []}
        memory, written = 0, 0
        for _ in tqdm(range(options.repeats), disable=not sys.stderr.isatty()):
            taken, peak = _converted(source, folder / "target", options.workers)
            seconds["convert"].append(taken)
            memory = max(memory, peak)
            written = _size(folder / "target")
            seconds["copy"].append(_copied(folder / "target", folder / "copy"))
            shutil.rmtree(folder / "target")
            shutil.rmtree(folder / "copy")
        read = _size(source)
    parameters = {"read_bytes": read, "written_bytes": written, "repeats": options.repeats, "workers": options.workers}
    provenance = provenance_block(seed=0, parameters=parameters, label="measured")
    ratio = [copy / convert for convert, copy in zip(seconds["convert"], seconds["copy"], strict=True)]
    rows = [
        {
            "task": task, "seconds": _summary(times, "s"),
            "written_bytes_per_s": _summary([written / t for t in times], "B/s"),
            **({"ratio_to_copy": _summary(ratio, "1"), "peak_memory_bytes": memory} if task == "convert" else {}),
            **parameters, "provenance": provenance,
        }
        for task, times in seconds.items()
    ]  # fmt: skip
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.output, "".join(json.dumps(row) + "\n" for row in rows).encode())
    for row in rows:
        print(row["task"], row["seconds"], row["written_bytes_per_s"], row.get("ratio_to_copy", ""))
    print(f"{read / 2**30:.2f} GiB read, {written / 2**30:.2f} GiB written, peak memory {memory / 2**20:.0f} MiB")
    return 0


def _config(gib: float) -> ModelConfig:
    """Mostly routed experts, as the released models."""
    per_layer = 64 * 3 * 1024 * 2048 * 17 / 32 / 2**30  # GiB
    layers = max(2, round((gib - 0.3) / per_layer))
    return ModelConfig.nano(
        hidden_size=2048, num_layers=layers, num_experts=64, expert_size=1024, vocab_size=32_768,
        compress_ratios=tuple((4, 128)[layer % 2] for layer in range(layers)), mtp_layers=1,
    )  # fmt: skip


def _converted(source: Path, target: Path, workers: int) -> tuple[float, int]:
    command = [sys.executable, "-c", CONVERT, str(source), str(target), str(workers)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    taken, peak = done.stdout.split()
    return float(taken), int(peak)


def _copied(source: Path, target: Path) -> float:
    for path in source.iterdir():  # so that the copy reads from memory what fits there
        with path.open("rb", buffering=0) as stream:
            while stream.read(1 << 24):
                pass
    begin = time.perf_counter()
    shutil.copytree(source, target)
    for path in target.iterdir():
        sync(path)
    return time.perf_counter() - begin


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _summary(values: list[float], unit: str) -> dict[str, float]:
    found = Measurement.of(values, unit)
    return {"median": found.median, "low": found.low, "high": found.high}


if __name__ == "__main__":
    raise SystemExit(main(tyro.cli(Options, description=__doc__)))
