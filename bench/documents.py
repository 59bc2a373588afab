"""Documents per second of the engine, or dialogues of the flywheel, and the memory of its processes over the run.

    python bench/documents.py                                  # 10,000 documents of difficulty 3
    python bench/documents.py --count 1000 --difficulty 1 2 3 4
    python bench/documents.py --dialogues --difficulty 1 2 3 4  # of the embedded author, over all buckets

Programs are executed. One line: documents per second in all and in each tenth of the run, and the largest resident
memory of each tenth, of the engine and all its processes together (a page that several share counts for each of them).
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from tqdm import tqdm

from trex import paths
from trex.files import write_atomic
from trex.results import provenance_block

TICK_S = 2.0
TENTHS = 10


@dataclass(frozen=True)
class Options:
    """One run of `trex data generate`, or of `trex data flywheel`, on this machine."""

    output: Path = paths.runs() / "bench" / "documents.jsonl"
    """JSONL file, written whole"""
    dialogues: bool = False
    """`trex data flywheel` with the embedded author"""
    count: int = 10_000
    difficulty: tuple[int, ...] = (3,)
    seed: int = 0
    processes: int = 0
    """side by side; one per core for 0"""
    folder: Path = Path(tempfile.gettempdir())
    """where the documents are written, and removed again"""


def main(options: Options) -> int:
    """Run, write the line, print it."""
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="trex-bench-") as name:
        out = Path(name) / "documents"
        what, lines = ("flywheel", "candidates.jsonl") if options.dialogues else ("generate", "documents.jsonl")
        command = [
            *(sys.executable, "-m", "trex", "data", what, *(() if options.dialogues else ("--out",)), str(out)),
            *("--count", str(options.count), "--seed", str(options.seed), "--processes", str(options.processes)),
            *("--difficulty", *map(str, options.difficulty)),
        ]
        begin = time.perf_counter()
        samples: list[tuple[float, int, int]] = []  # seconds, documents, bytes
        seen = done = 0
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as engine, tqdm(total=options.count) as bar:
            while engine.poll() is None:
                time.sleep(TICK_S)
                seen, new = _lines(out / lines, seen)
                done += new
                samples.append((time.perf_counter() - begin, done, _resident(engine.pid)))
                bar.update(new)
        seconds = time.perf_counter() - begin
        if engine.returncode:
            return engine.returncode
        refused = done - options.count if options.dialogues else _lines(out / "refusals.jsonl")[1]
    row = {
        "count": options.count, "difficulty": options.difficulty, "seed": options.seed, "seconds": round(seconds, 1),
        "documents_per_s": round(options.count / seconds, 2), "refused": refused, **_tenths(samples, options.count),
        "provenance": provenance_block(),
    }  # fmt: skip
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.output, (json.dumps(row) + "\n").encode())
    print(json.dumps({key: value for key, value in row.items() if key != "provenance"}, indent=1))
    return 0


def _tenths(samples: list[tuple[float, int, int]], count: int) -> dict[str, list[float] | list[int]]:
    """Rate and largest memory of each tenth of the documents."""
    rates: list[float] = []
    memory: list[int] = []
    for tenth in range(TENTHS):
        part = [s for s in samples if tenth * count <= TENTHS * s[1] <= (tenth + 1) * count]
        if len(part) > 1 and part[-1][0] > part[0][0]:
            rates.append(round((part[-1][1] - part[0][1]) / (part[-1][0] - part[0][0]), 2))
            memory.append(round(max(s[2] for s in part) / 2**20))
    return {"rate_of_each_tenth": rates, "resident_mb_of_each_tenth": memory}


def _lines(path: Path, begin: int = 0) -> tuple[int, int]:
    """Where a file that grows ends now, and how many lines ended since `begin`."""
    if not path.exists():
        return begin, 0
    with path.open("rb") as stream:
        stream.seek(begin)
        data = stream.read()
    return begin + len(data), data.count(b"\n")


def _resident(process: int) -> int:
    """Bytes of a process and all its descendants; what ends meanwhile counts for nothing."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        lists = Path(f"/proc/{process}/task").glob("*/children")
        children = [child for children in lists for child in children.read_text().split()]
    except (OSError, IndexError, ValueError):
        return 0
    return pages * 4096 + sum(_resident(int(child)) for child in children)


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options)))
