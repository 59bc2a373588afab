"""torchrun on this node, or on several "nodes" of one machine: what a notebook that papermill runs on a node calls.

Example, on every node of a job (the node's rank is in its environment):
    nodes.torchrun([cluster.detect()], ["-m", "trex", "train", "--layout", "tp=2,dp=2"], timeout_s=3600)

With several places on one machine the same is rehearsed: one torchrun for each, as each node would start it.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from trex.launch.cluster import Place, torchrun_arguments

TAIL_LINES = 120  # of a failed node's output; torchrun's own report takes half of it
POLL_S = 0.1
GRACE_S = 40.0  # for torchrun to end its own ranks: it waits 30 s from SIGTERM to SIGKILL


class NodesError(ValueError):
    """A torchrun that failed or did not end in time; the message has the end of its output."""


def torchrun(
    places: Sequence[Place],
    command: Sequence[str],
    *,
    timeout_s: float,
    processes_per_node: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[str]:
    """Run `command` under one torchrun per place; returns what each wrote, standard output and error together.

    command: torchrun's program and its arguments, "-m" for a module. processes_per_node: by default the devices of each
    node. environ: added to this process's. What torchrun itself would read (MASTER_ADDR, …) is given as arguments.
    Raises NodesError when one fails, or they have not ended after `timeout_s` seconds; none is left running. Raises
    ClusterError where a place has no node, or the number of processes is not known.
    """
    surroundings = {**os.environ, **(environ or {})}
    with tempfile.TemporaryDirectory(prefix="trex-nodes-") as folder:
        logs = [Path(folder) / f"node.{number}" for number in range(len(places))]
        running: list[subprocess.Popen[bytes]] = []
        try:
            for place, log in zip(places, logs, strict=True):
                arguments = [*torchrun_arguments(place, processes_per_node), *command]
                with log.open("wb") as stream:
                    running.append(
                        subprocess.Popen(
                            [sys.executable, "-m", "torch.distributed.run", *arguments], stdin=subprocess.DEVNULL,
                            stdout=stream, stderr=subprocess.STDOUT, env=surroundings, start_new_session=True,
                        )
                    )  # fmt: skip
            _wait(running, logs, time.monotonic() + timeout_s, timeout_s)
        finally:
            _end(running)
        return [log.read_text(errors="replace") for log in logs]


def _wait(running: Sequence[subprocess.Popen[bytes]], logs: Sequence[Path], deadline: float, timeout_s: float) -> None:
    while True:
        codes = [process.poll() for process in running]
        for number, code in enumerate(codes):
            if code:
                raise NodesError(f"torchrun of node {number} ended with {code}:\n{_tail(logs[number])}")
        if all(code == 0 for code in codes):
            return
        if time.monotonic() > deadline:
            late = next(number for number, code in enumerate(codes) if code is None)
            raise NodesError(f"torchrun of node {late} has not ended after {timeout_s:g} s:\n{_tail(logs[late])}")
        time.sleep(POLL_S)


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """torchrun ends its ranks when it is told to end; what does not listen is killed with all it started."""
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
