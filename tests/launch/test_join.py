"""A job that joins, and jobs of which one rank raises, is killed or stands still: they end, and nothing is left."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from trex.launch.cluster import ALONE, Place, detect, torchrun_arguments
from trex.launch.join import JoinError, join

INHERITED = ("RANK", "WORLD", "MASTER", "SLURM", "VC_", "MA_", "TORCHELASTIC", "GROUP", "NNODES", "NPROC")
TIMEOUT_S = 10  # of the group
END_S = 60  # within which a job has to end after the fault: the group's 10 s, torchrun's 30 s before SIGKILL, and room
START_S = 120  # generous: several processes load torch on a busy machine

WORK = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
from trex.launch import cluster
from trex.launch.join import join

home = pathlib.Path(os.environ["JOB_HOME"])
place = cluster.detect()
with join(place, "gloo", float(os.environ["JOB_TIMEOUT_S"])):
    value = torch.tensor(float(place.rank))
    dist.all_reduce(value)
    (home / f"sum.{place.rank}").write_text(f"{value.item()} {dist.get_world_size()} {place.source}")
    if os.environ["JOB_WHAT"] == "part":
        time.sleep(place.rank / 2)  # ranks reach the end at different times
        print("done", place.rank)
        sys.exit(0)
    (home / f"pid.{place.rank}").write_text(str(os.getpid()))
    for step in range(10**9):
        if os.environ["JOB_WHAT"] == f"raise {place.rank}" and step == 3:
            raise ValueError("the data of rank ends here")
        if os.environ["JOB_WHAT"] == "receive" and place.rank:
            dist.recv(value, src=0)
        elif os.environ["JOB_WHAT"] == "receive":
            for other in range(1, place.world_size):
                dist.send(value, dst=other)
        else:
            dist.all_reduce(torch.ones(1000))
        time.sleep(0.01)
"""


@dataclass
class Job:
    """Launchers of one job on this machine, whose processes are known by a variable in their environment."""

    home: Path
    what: str
    agents: list[subprocess.Popen[str]] = field(default_factory=list)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def start(self, *command: str, **more: str) -> None:
        environ = {name: value for name, value in os.environ.items() if not any(part in name for part in INHERITED)}
        environ |= {"JOB_HOME": str(self.home), "JOB_WHAT": self.what, "JOB_TIMEOUT_S": str(TIMEOUT_S)}
        environ |= {"JOB_MARK": self.mark, "OMP_NUM_THREADS": "1", **more}
        script = self.home / "work.py"
        script.write_text(WORK)
        names = [self.home / f"{name}.{len(self.agents)}" for name in ("stdout", "stderr")]
        with names[0].open("w") as out, names[1].open("w") as err:
            process = subprocess.Popen(
                [sys.executable, *command, str(script)], env=environ, stdout=out, stderr=err, text=True
            )
        self.agents.append(process)

    def torchrun(self, place: Place, processes: int) -> None:
        self.start("-m", "torch.distributed.run", *torchrun_arguments(place, processes))

    def pid(self, rank: int) -> int:
        """The process of a rank, once it is well inside its loop."""
        limit = time.monotonic() + START_S
        path = self.home / f"pid.{rank}"
        while not (path.exists() and path.read_text()):
            assert time.monotonic() < limit and all(agent.poll() is None for agent in self.agents), self.text("stderr")
            time.sleep(0.05)
        time.sleep(0.3)
        return int(path.read_text())

    def codes(self, within_s: float) -> list[int]:
        """Exit codes of the launchers; raises TimeoutExpired where one has not ended."""
        limit = time.monotonic() + within_s
        return [agent.wait(max(0.1, limit - time.monotonic())) for agent in self.agents]

    def text(self, name: str) -> str:
        return "".join((self.home / f"{name}.{n}").read_text() for n in range(len(self.agents)))

    def processes(self) -> list[int]:
        """All live processes that carry the job's mark."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                alive = path.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
                if alive and self.mark.encode() in path.joinpath("environ").read_bytes():
                    found.append(int(path.name))
            except OSError:
                continue
        return found


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    made = Job(tmp_path, request.param)
    try:
        yield made
    finally:
        for pid in made.processes():
            os.kill(pid, signal.SIGKILL)
        for agent in made.agents:
            agent.wait()


def nodes(port: int) -> list[Place]:
    """Two nodes, both on this machine."""
    told = {"NNODES": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [detect({**told, "NODE_RANK": str(node)}) for node in (0, 1)]


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_one_rank_joins_leaves_and_joins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    for _ in range(2):
        with join(ALONE, "gloo", 30):
            assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
            value = torch.tensor([3.0])
            dist.all_reduce(value)
            assert value.item() == 3
            with pytest.raises(JoinError, match="joined a group already"), join(ALONE, "gloo", 30):
                pass
        assert not dist.is_initialized()


def test_one_rank_raises_as_usual_and_leaves_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    with pytest.raises(KeyError, match="gone"), join(ALONE, "gloo", 30):
        raise KeyError("gone")
    assert not dist.is_initialized()
    told = json.loads((tmp_path / "error.json").read_text())["message"]
    assert told["message"] == "KeyError: 'gone'" and 'raise KeyError("gone")' in told["extraInfo"]["py_callstack"]


def test_groups_that_the_body_makes_have_the_time_out_too() -> None:
    def limits() -> list[float]:
        groups = [dist.new_group([0]), dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))["b"].get_group()]
        return [g._get_backend(torch.device("cpu")).options._timeout.total_seconds() for g in groups]

    with join(ALONE, "gloo", 30):
        assert limits() == [30, 30]
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    assert min(limits()) >= 600  # torch's own again
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("backend", "timeout_s", "message"),
    [
        ("mpi", 30, "backend 'mpi'; accepted: gloo"),
        ("", 30, "backend ''"),
        ("cpu:gloo,tpu:gloo", 30, "backend 'cpu:gloo,tpu:gloo'"),
        ("gloo", 0, "timeout_s 0; accepted"),
        ("gloo", float("nan"), "timeout_s nan"),
        ("gloo", True, "timeout_s True"),
        ("gloo", "60", "timeout_s '60'"),
        ("gloo", 1e7, "at most 1000000"),
    ],
)
def test_what_is_not_accepted(backend: str, timeout_s: float, message: str) -> None:
    with pytest.raises(JoinError, match=message), join(ALONE, backend, timeout_s):
        pass
    assert not dist.is_initialized()


@pytest.mark.parametrize("job", ["raise 1"], indirect=True)
def test_a_rank_that_raises_ends_the_job_with_its_traceback(job: Job) -> None:
    job.torchrun(ALONE, 2)
    assert job.codes(START_S) == [1]
    errors = job.text("stderr")
    assert re.search(r"^\[rank 1\] ValueError: the data of rank ends here$", errors, re.MULTILINE)
    assert re.search(r'^\[rank 1\]   File ".*work\.py", line \d+, in <module>$', errors, re.MULTILINE)
    # torchrun says whose failure came first, with the same traceback; those that lost rank 1 are not to blame
    blamed = errors.partition("Root Cause (first observed failure)")[2]
    assert "rank      : 1 (local_rank: 1)" in blamed and "ValueError: the data of rank ends here" in blamed
    assert job.text("stdout") == "" and job.processes() == []


@pytest.mark.slow
@pytest.mark.parametrize("job", ["all-reduce", "receive"], indirect=True)
@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("with_signal", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_rank_that_dies_or_stands_still_ends_the_job(job: Job, victim: int, with_signal: signal.Signals) -> None:
    job.torchrun(ALONE, 3)
    pid = [job.pid(rank) for rank in range(3)][victim]
    assert len(job.processes()) == 1 + 3
    os.kill(pid, with_signal)
    assert job.codes(END_S) == [1]
    errors = job.text("stderr")
    if with_signal == signal.SIGKILL:
        assert f"Signal 9 (SIGKILL) received by PID {pid}" in errors
    else:
        assert re.search(r"^\[rank \d\] .*Timed out waiting \d+ms", errors, re.MULTILINE), errors
    assert job.processes() == []


@pytest.mark.slow
@pytest.mark.parametrize("job", ["all-reduce"], indirect=True)
@pytest.mark.parametrize("victim", [0, 3])
@pytest.mark.parametrize("with_signal", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_both_nodes_end(job: Job, victim: int, with_signal: signal.Signals, free_port: int) -> None:
    for place in nodes(free_port):
        job.torchrun(place, 2)
    pid = [job.pid(rank) for rank in range(4)][victim]
    assert len(job.processes()) == 2 + 4
    os.kill(pid, with_signal)
    assert job.codes(END_S) == [1, 1]
    assert job.processes() == []


@pytest.mark.slow
@pytest.mark.parametrize("job", ["part"], indirect=True)
def test_ranks_part_together(job: Job, free_port: int) -> None:
    for place in nodes(free_port):
        job.torchrun(place, 2)
    assert job.codes(START_S) == [0, 0]
    assert sorted(job.text("stdout").splitlines()) == [f"done {rank}" for rank in range(4)]
    for rank in range(4):
        assert (job.home / f"sum.{rank}").read_text() == "6.0 4 torchrun"


@pytest.mark.slow
@pytest.mark.parametrize("job", ["part"], indirect=True)
def test_plain_variables_join_without_torchrun(job: Job, free_port: int) -> None:
    for rank in range(3):
        job.start(RANK=str(rank), WORLD_SIZE="3", MASTER_ADDR="localhost", MASTER_PORT=str(free_port))
    assert job.codes(START_S) == [0, 0, 0]
    for rank in range(3):
        assert (job.home / f"sum.{rank}").read_text() == "3.0 3 variables"


@pytest.mark.slow
@pytest.mark.parametrize("job", ["part"], indirect=True)
def test_ranks_that_do_not_come_are_waited_for_no_longer_than_the_time_out(job: Job, free_port: int) -> None:
    for rank in range(2):
        job.start(RANK=str(rank), WORLD_SIZE="3", MASTER_ADDR="localhost", MASTER_PORT=str(free_port))
    assert job.codes(START_S) == [1, 1]
    told = rf"\[rank 0\] .*JoinError: rank 0 of 3 \(variables\) did not find the others at localhost:{free_port}: "
    assert re.search(told, job.text("stderr"))
