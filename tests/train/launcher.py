"""Jobs of several ranks under torchrun's agent, forked from one process that has loaded torch: starting takes tenths of
a second, where torchrun's ranks each import torch. The agent, its monitoring and its 30 s of grace are torchrun's.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

START_S = 600  # generous: torch is loaded on a busy machine


@dataclass
class Job:
    """An agent and its ranks. stdout, stderr, code, pid.<rank> are files of `home`."""

    home: Path
    agent: int

    def pid(self, rank: int, within_s: float = START_S) -> int:
        """The process of a rank, once it has begun."""
        path, limit = self.home / f"pid.{rank}", time.monotonic() + within_s
        while not (path.exists() and path.read_text()):
            assert time.monotonic() < limit and not self.ended(), self.text("stderr")
            time.sleep(0.02)
        return int(path.read_text())

    def ended(self) -> bool:
        return (self.home / "code").exists() and _state(self.agent) in "ZX"

    def wait(self, within_s: float) -> int:
        """The agent's exit code. Raises TimeoutError where it has not ended."""
        limit = time.monotonic() + within_s
        while not self.ended():
            if time.monotonic() > limit:
                raise TimeoutError(f"{self.home}: {self.text('stderr')}")
            time.sleep(0.02)
        return int((self.home / "code").read_text())

    def processes(self) -> list[int]:
        """Live processes of the agent's session, itself included."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                state, _, _, session = path.joinpath("stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(session) == self.agent and state not in "ZX":
                found.append(int(path.name))
        return found

    def text(self, name: str) -> str:
        return (self.home / name).read_text(errors="replace")


@dataclass
class Launcher:
    """The process that forks agents; call `close` in the end."""

    jobs: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._lock = threading.Lock()
        assert self._answer() == "ready"

    def train(self, home: Path, world: int, *words: object) -> Job:
        """`trex train …` on `world` ranks."""
        home.mkdir(parents=True)
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps([str(home), world, ["train", *map(str, words)]]) + "\n")
            self._process.stdin.flush()
            job = Job(home, int(self._answer()))
            self.jobs.append(job)
        return job

    def close(self) -> None:
        """End everything that still runs."""
        for job in self.jobs:
            for pid in job.processes():
                os.kill(pid, signal.SIGKILL)
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def _serve() -> None:
    import torch.distributed.launcher.api  # noqa: F401

    import trex.cli
    import trex.launch.join
    import trex.train.job  # noqa: F401
    from trex.data.tokens import Tokenizer

    Tokenizer.fit(["what follows has its file loaded"])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # agents need not be waited for
    print("ready", flush=True)
    for line in sys.stdin:
        home, world, words = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _agent(Path(home), world, words)
        print(pid, flush=True)


def _agent(home: Path, world: int, words: list[str]) -> None:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, name in enumerate((Path(os.devnull), home / "stdout", home / "stderr")):
        handle = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(handle, number)
        os.close(handle)
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=world, run_id=home.name, max_restarts=0, monitor_interval=0.1,
        rdzv_backend="c10d", rdzv_endpoint="localhost:0", start_method="fork",
    )  # fmt: skip
    code = 0
    try:
        elastic_launch(config, _rank)(str(home), words)
    except ChildFailedError:
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 3
    (home / "part").write_text(str(code))
    (home / "part").rename(home / "code")
    sys.stderr.flush()
    os._exit(code)


def _rank(home: str, words: list[str]) -> None:
    from trex import cli

    part = Path(home, f"part.{os.environ['RANK']}")
    part.write_text(str(os.getpid()))
    part.rename(Path(home, f"pid.{os.environ['RANK']}"))
    sys.argv = ["trex", *words]
    code = cli.main()
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        os._exit(code)


if __name__ == "__main__":
    _serve()
