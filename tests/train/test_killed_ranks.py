"""Runs of which a rank is killed or stopped at random end in time, leave no process, and resume to the same bits.

How long a job may take to end after the fault: the ranks' time-out, 2 s for a rank that lost the others before it says
so, and, where a rank stands still, the 30 s that torchrun gives it between SIGTERM and SIGKILL.
"""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.launcher import Launcher

from trex.checkpoint.training import load_model

WORLD, STEPS = 4, 5
LAYOUT = "tp=2,dp=2,ep=2,sharding=parameters"
TIMEOUT_S = 8
END_S = TIMEOUT_S + 2 + 30 + 40  # 40 s for a busy machine
WHOLE_S = 600  # of an undisturbed run, generous
ROUNDS = int(os.environ.get("TREX_KILL_ROUNDS", "4"))  # 20 for the whole trial
AT_ONCE = 4  # while torchrun waits for a rank that stands still, the machine is idle


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    made = Launcher()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """Options of all runs but --folder and --timeout-s."""
    data = tmp_path_factory.mktemp("data") / "texts.jsonl"
    texts = [f"maximise {k} x + {k % 7} y subject to x + y <= {k * 3}, " * (1 + k % 3) for k in range(24)]
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    recipe = f"steps={STEPS} warmup_steps=0 eval_every=2 save_every=1 seq_len=64 micro_batch=1".split()
    return ["--data", data, "--layout", LAYOUT, "--set", *recipe]


@pytest.fixture(scope="module")
def undisturbed(launcher: Launcher, words: list[object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    job = launcher.train(folder / "job", WORLD, *words, "--folder", folder / "run", "--timeout-s", WHOLE_S)
    assert job.wait(WHOLE_S) == 0, job.text("stderr")
    return folder / "run"


def steps(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "steps.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "tokens_per_s"} for line in lines]


def disturb(seed: int, launcher: Launcher, words: list[object], undisturbed: Path, folder: Path) -> float:
    """One round; returns the seconds from the fault to the end of the job."""
    draw = random.Random(seed)
    victim, with_signal = draw.randrange(WORLD), (signal.SIGKILL, signal.SIGSTOP)[seed % 2]
    lines, delay_s = draw.randrange(STEPS), draw.uniform(0, 0.3)
    told = f"seed {seed}: rank {victim}, {with_signal.name} {delay_s:.2f} s after {lines} lines of the log"
    run = folder / "run"
    job = launcher.train(folder / "job", WORLD, *words, "--folder", run, "--timeout-s", TIMEOUT_S)
    pids = [job.pid(rank) for rank in range(WORLD)]
    limit, log = time.monotonic() + WHOLE_S, run / "steps.jsonl"
    while not job.ended() and (log.read_bytes().count(b"\n") if log.exists() else 0) < lines:
        assert time.monotonic() < limit, told
        time.sleep(0.01)
    time.sleep(delay_s)
    assert not job.ended(), f"{told}: the job ended before\n{job.text('stderr')}"
    os.kill(pids[victim], with_signal)
    start = time.monotonic()
    assert job.wait(END_S) == 1, told
    took = time.monotonic() - start
    assert job.processes() == [], told
    again = launcher.train(folder / "again", WORLD, *words, "--folder", run, "--timeout-s", WHOLE_S, "--resume")
    assert again.wait(WHOLE_S) == 0, f"{told}\n{again.text('stderr')}"
    assert again.processes() == [], told
    assert steps(run) == steps(undisturbed), told
    last = f"step-{STEPS:08d}"
    found, expected = load_model(run / last).state_dict(), load_model(undisturbed / last).state_dict()
    assert found.keys() == expected.keys(), told
    assert all(torch.equal(found[name], expected[name]) for name in expected), told
    print(f"{told}: ended after {took:.1f} s")
    return took


@pytest.mark.slow
def test_a_killed_rank_ends_the_run_which_resumes(
    launcher: Launcher, words: list[object], undisturbed: Path, tmp_path: Path
) -> None:
    disturb(0, launcher, words, undisturbed, tmp_path / "0")


@pytest.mark.slow
def test_ranks_killed_and_stopped_at_random(
    launcher: Launcher, words: list[object], undisturbed: Path, tmp_path: Path
) -> None:
    def one(seed: int) -> float:
        return disturb(seed, launcher, words, undisturbed, tmp_path / str(seed))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        taken = list(pool.map(one, range(ROUNDS)))
    assert len(taken) == ROUNDS
