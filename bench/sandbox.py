"""Programs per second in sandboxes and in a plain subprocess each, in turn: JSON lines.

    python bench/sandbox.py --programs 400 --processes 2 --output sandbox.jsonl

The programs are those of the problem families' documents: Pyomo and HiGHS, with their data. Rounds of the four ways
alternate, so that the machine's other load falls on all of them: bubblewrap, Landlock, no confinement (one server that
forks, each), and a plain `python program.py` each. The servers' start is timed apart. One line per round and way, then
one per way over all rounds: programs per second of wall-clock time, seconds of one program (median, 95 %), what became
of them, and the provenance.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from trex import paths
from trex.data import families
from trex.data.program import program
from trex.files import write_atomic
from trex.results import provenance_block
from trex.solver.sandbox import LEVELS, Limits, Sandbox, SandboxError

SUBPROCESS = "subprocess"


@dataclass(frozen=True)
class Options:
    """Measure the sandbox on this machine's CPU."""

    output: Path = paths.runs() / "bench" / "sandbox.jsonl"
    """JSONL file, rewritten whole"""
    programs: int = 200
    """per round; a plain subprocess runs a tenth of them"""
    processes: int = 2
    """sandboxes, or subprocesses, side by side"""
    rounds: int = 3
    difficulty: int = 1
    seed: int = 0


def texts(count: int, difficulty: int, seed: int) -> list[str]:
    """Programs of the families in turn."""
    names = families.names()
    return [
        program(families.get(names[k % len(names)]).problem(seed + k, difficulty), "DP") for k in range(count)
    ]  # fmt: skip


def in_sandboxes(sandboxes: list[Sandbox], programs: list[str]) -> tuple[list[float], Counter[str]]:
    """Seconds of each program, and what became of them; a sandbox takes every n-th program."""

    def work(number: int) -> list[tuple[float, str]]:
        found = []
        for code in programs[number :: len(sandboxes)]:
            begin = time.perf_counter()
            execution = sandboxes[number].run(code, limits=Limits(seconds=60))
            model = "with a model" if execution.model is not None else "without a model"
            found.append((time.perf_counter() - begin, f"{execution.status} {model}"))
        return found

    with ThreadPoolExecutor(len(sandboxes)) as pool:
        done = [pair for part in pool.map(work, range(len(sandboxes))) for pair in part]
    return [seconds for seconds, _ in done], Counter(status for _, status in done)


def in_subprocesses(processes: int, programs: list[str]) -> tuple[list[float], Counter[str]]:
    """The same with one new interpreter per program."""

    def work(code: str) -> tuple[float, str]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "program.py")
            path.write_text(code)
            begin = time.perf_counter()
            done = subprocess.run([sys.executable, str(path)], cwd=folder, capture_output=True, timeout=120)
            return time.perf_counter() - begin, "ok" if done.returncode == 0 else "error"

    with ThreadPoolExecutor(processes) as pool:
        done = list(pool.map(work, programs))
    return [seconds for seconds, _ in done], Counter(status for _, status in done)


def main(options: Options) -> None:
    """Run the rounds, write the lines."""
    programs = texts(options.programs, options.difficulty, options.seed)
    ways: dict[str, list[Sandbox]] = {}
    lines: list[dict[str, Any]] = []
    for level in LEVELS:
        begin = time.perf_counter()
        try:
            ways[level] = [Sandbox(level, unsafe=True) for _ in range(options.processes)]
        except SandboxError as error:
            lines.append({"way": level, "missing": str(error)})
            continue
        lines.append({"way": level, "start_seconds": (time.perf_counter() - begin) / options.processes})
    rounds: dict[str, list[tuple[float, list[float], Counter[str]]]] = {}
    for number in range(options.rounds):
        for way in (*ways, SUBPROCESS):
            chosen = programs if way in ways else programs[: max(1, options.programs // 10)]
            begin = time.perf_counter()
            if way in ways:
                seconds, statuses = in_sandboxes(ways[way], chosen)
            else:
                seconds, statuses = in_subprocesses(options.processes, chosen)
            wall = time.perf_counter() - begin
            rounds.setdefault(way, []).append((wall, seconds, statuses))
            lines.append({"way": way, "round": number, "programs_per_second": len(chosen) / wall})
    for sandboxes in ways.values():
        for sandbox in sandboxes:
            sandbox.close()
    for way, found in rounds.items():
        every = [second for _, seconds, _ in found for second in seconds]
        lines.append(
            {
                "way": way,
                "programs": len(every),
                "programs_per_second": len(every) / sum(wall for wall, _, _ in found),
                "median_ms": 1e3 * float(np.median(every)),
                "p95_ms": 1e3 * float(np.quantile(every, 0.95)),
                "statuses": dict(sum((statuses for _, _, statuses in found), Counter())),
                "processes": options.processes,
                "difficulty": options.difficulty,
                "provenance": provenance_block(),
            }
        )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.output, "".join(json.dumps(line) + "\n" for line in lines).encode())
    for line in lines:
        if "programs" in line or "missing" in line:
            print(json.dumps({key: value for key, value in line.items() if key != "provenance"}))
    print(options.output)


if __name__ == "__main__":
    main(tyro.cli(Options))
