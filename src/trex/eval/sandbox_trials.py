"""The sandbox tried: hostile programs, forged results, models in every place, and what a job costs."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trex.data import families
from trex.data.program import program
from trex.solver.sandbox import Limits, Sandbox
from trex.solver.sandbox.attacks import ATTACKS, FORGERIES, PROGRAMS, listener
from trex.solver.solve import solve

LIMITS = Limits(seconds=30, memory_mb=2048, disk_mb=16, files=500, processes=40)
FILES = {"data.json": '{"u": 4}'}  # what some of PROGRAMS read


@dataclass(frozen=True)
class Trial:
    """One program in the sandbox. `optimum` is that of its model, solved outside; `held`: it got what it should."""

    group: str
    name: str
    status: str
    message: str
    optimum: float | None
    claimed: float | None
    how: str
    held: bool
    seconds: float


def attack_trials(sandbox: Sandbox) -> tuple[Trial, ...]:
    """Run every hostile program, with a listener on the host's loopback that must see no connection."""
    found = []
    with listener() as (port, seen):
        for attack in ATTACKS:
            limits = replace(LIMITS, seconds=1 if "timeout" in attack.status else 60)
            trial = _run(sandbox, attack.group, attack.name, attack.program(port, __file__), limits)
            found.append(replace(trial, held=trial.status in attack.status and not seen))
    return tuple(found)


def forgery_trials(sandbox: Sandbox, forged: float = 42.0) -> tuple[Trial, ...]:
    """Run every program that says `forged` of a result which no model has."""
    trials = (_run(sandbox, "forged results", name, code, LIMITS) for name, code in FORGERIES.items())
    return tuple(replace(trial, held=trial.optimum != forged) for trial in trials)


def model_trials(sandbox: Sandbox, optimum: float = 12.0) -> tuple[Trial, ...]:
    """Run every program that holds the same model in another place."""
    trials = (_run(sandbox, "models", name, code, LIMITS) for name, code in PROGRAMS.items())
    return tuple(replace(trial, held=trial.status == "ok" and trial.optimum == optimum) for trial in trials)


def job_seconds(sandbox: Sandbox, count: int, plain: int, seed: int) -> dict[str, list[float]]:
    """Seconds of `count` family programs in the sandbox and of the first `plain` in a new interpreter each, in turn."""
    names = families.names()
    texts = [program(families.get(names[k % len(names)]).problem(seed + k, 1), "DP") for k in range(count)]
    inside, outside = f"sandbox ({sandbox.level})", "python program.py"
    found: dict[str, list[float]] = {inside: [], outside: []}
    for number, text in enumerate(texts):
        begin = time.perf_counter()
        if sandbox.run(text).status != "ok":
            raise RuntimeError(f"a family's program failed: {text[:200]}")
        found[inside].append(time.perf_counter() - begin)
        if number < plain:
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "program.py").write_text(text)
                begin = time.perf_counter()
                subprocess.run([sys.executable, "program.py"], cwd=folder, check=True, capture_output=True)
                found[outside].append(time.perf_counter() - begin)
    return found


def table(trials: Sequence[Trial]) -> dict[str, list[Any]]:
    """The trials as columns, for `trex.results.record(series=…)`; without the seconds, which no two runs share."""
    names = ("group", "name", "status", "optimum", "how", "held")
    return {name: [getattr(trial, name) for trial in trials] for name in names}


def _run(sandbox: Sandbox, group: str, name: str, code: str, limits: Limits) -> Trial:
    begin = time.perf_counter()
    done = sandbox.run(code, FILES, limits)
    seconds = time.perf_counter() - begin
    optimum = solve(done.model, 10).objective if done.model is not None else None
    return Trial(group, name, done.status, done.message, optimum, done.claimed, done.how, False, seconds)
