"""Models read, solved and rechecked per second, in processes of one thread each: JSON lines.

    python bench/solver.py --models 2000 --processes 2 --output solver.jsonl

The models are those of the problem families, written to LP format, and the reference models of the benchmarks where
`--benchmarks` names their folder; fewer texts than models are taken in turn. Making the texts is not timed. One line
per process, then one for all: models per second of wall-clock time, seconds in reading and in solving (recheck
included), seconds of the recheck alone measured once more, statuses, and the provenance.
"""

import json
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from trex import paths
from trex.data import families
from trex.files import write_atomic
from trex.results import provenance_block
from trex.solver import lp
from trex.solver.solve import solve, violation


@dataclass(frozen=True)
class Options:
    """Measure reading, solving and rechecking on this machine's CPU."""

    output: Path = paths.runs() / "bench" / "solver.jsonl"
    """JSONL file, rewritten whole"""
    models: int = 2000
    processes: int = 2
    texts: int = 400
    """different models of the families"""
    difficulties: tuple[int, ...] = (1, 2)
    """of the families' instances; the reference models have 15 variables in the median, these too"""
    benchmarks: Path | None = None
    """a folder below which `lp/*.lp` are read too"""
    time_s: float = 60.0
    """limit of one model"""
    seed: int = 0


def family_texts(count: int, difficulties: tuple[int, ...], seed: int) -> list[str]:
    """Models of the families in turn, as LP text."""
    texts = []
    names = families.names()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.lp")
        for number in range(count):
            family = families.get(names[number % len(names)])
            problem = family.problem(seed + number, difficulties[number // len(names) % len(difficulties)])
            family.model(problem.data).write(str(path), io_options={"symbolic_solver_labels": True})
            texts.append(path.read_text())
    return texts


def measure(texts: list[str], time_s: float) -> dict[str, Any]:
    """Read, solve and recheck every text; the recheck is timed a second time, outside of the wall-clock time."""
    reading = solving = again = 0.0
    statuses: Counter[str] = Counter()
    slowest = 0.0
    points = []
    sizes = []
    begin = time.perf_counter()
    for text in texts:
        start = time.perf_counter()
        model = lp.read(text)
        reading += time.perf_counter() - start
        solution = solve(model, time_s)
        solving += solution.seconds
        slowest = max(slowest, solution.seconds)
        statuses[solution.status] += 1
        sizes.append(len(model.variables))
        if solution.values:
            points.append((model, np.array([solution.values[name] for name in model.variables])))
    wall = time.perf_counter() - begin
    for model, point in points:
        start = time.perf_counter()
        if violation(model, point) is not None:
            statuses["broken"] += 1
        again += time.perf_counter() - start
    return {
        "models": len(texts),
        "wall_s": wall,
        "read_s": reading,
        "solve_s": solving,
        "recheck_s": again,
        "slowest_s": slowest,
        "variables_quartiles": np.percentile(sizes, [25, 50, 75]).tolist(),
        "statuses": dict(statuses),
    }


def main(options: Options) -> int:
    """Run the processes; returns the exit code: 1 where a model ended in an error or a point broke its model."""
    texts = family_texts(options.texts, options.difficulties, options.seed)
    if options.benchmarks is not None:
        texts += [path.read_text() for path in sorted(options.benchmarks.glob("**/lp/*.lp"))]
    chosen = [texts[number % len(texts)] for number in range(options.models)]
    random.Random(options.seed).shuffle(chosen)
    shares = [chosen[k :: options.processes] for k in range(options.processes)]
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(measure, [texts[:1]] * options.processes, [options.time_s] * options.processes))  # imports
        begin = time.perf_counter()
        parts = list(pool.map(measure, shares, [options.time_s] * options.processes))
        whole = time.perf_counter() - begin
    statuses = sum((Counter(part["statuses"]) for part in parts), Counter())
    longest = max(part["wall_s"] for part in parts)
    total = {
        "models": options.models,
        "different": len(texts),
        "processes": options.processes,
        "models_per_second": options.models / longest,
        "wall_s": longest,
        "with_second_recheck_s": whole,
        **{name: sum(part[name] for part in parts) for name in ("read_s", "solve_s", "recheck_s")},
        "slowest_s": max(part["slowest_s"] for part in parts),
        "statuses": dict(statuses),
    }
    parameters = {"models": options.models, "processes": options.processes, "texts": options.texts}
    provenance = provenance_block(seed=options.seed, parameters=parameters, label="measured")
    lines = [json.dumps({"process": number, **part}) for number, part in enumerate(parts)]
    lines.append(json.dumps({**total, "provenance": provenance}, ensure_ascii=False))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.output, ("\n".join(lines) + "\n").encode())
    print(
        f"{total['models_per_second']:.0f} models per second ({options.models} in {longest:.1f} s, "
        f"{options.processes} processes): read {total['read_s']:.1f} s, solve {total['solve_s']:.1f} s, of it recheck "
        f"{total['recheck_s']:.1f} s; {dict(statuses)}; {options.output}"
    )
    return 1 if statuses["error"] or statuses["broken"] else 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__)))
