"""The server inside of the confinement: everything imported once, one process per job forked from it.

Takes requests on standard input and answers on standard output, one after the other. It gives every job pipes of its
own, so that nothing a program writes can be taken for an answer of the server.
"""

import base64
import contextlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

from trex.solver.sandbox import frames, job, processes, system
from trex.solver.sandbox.capture import forget_unused
from trex.solver.sandbox.folders import remove
from trex.solver.sandbox.watch import STATUS, Watch

REQUEST = 2**28  # bytes


def main() -> None:
    """Serve until standard input ends. Arguments: level, user of the jobs or "", gurobipy or "", readable paths."""
    level, user, gurobi, *readable = sys.argv[1:]
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # whatever a library prints is not an answer
    _import(gurobi)
    forget_unused()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    server = Server(level, int(user) if user else None, readable, processes.anonymous_bytes(os.getpid()))
    frames.write(replies, b"ready")
    while True:
        select.select([requests], [], [])
        handler = os.fork()  # one per request: what this process holds, later jobs can read
        if not handler:
            os._exit(server.handle(requests, replies))
        if os.waitpid(handler, 0)[1] != 0:
            return


def _import(gurobi: str) -> None:
    """What programs use, so that each job finds it in memory."""
    import multiprocessing.pool  # pyomo watches such imports, and some need /dev/shm
    import multiprocessing.synchronize  # noqa: F401

    import highspy
    import numpy  # noqa: F401
    import pyomo.environ as pyo
    import pyscipopt  # noqa: F401  # the recorder's second solver

    import trex.solver.solve  # noqa: F401

    with contextlib.suppress(ImportError):  # of the extra `eval`
        import pandas  # noqa: F401

    pyo.SolverFactory("highs").available()
    pyo.SolverFactory("appsi_highs").available()
    highspy.Highs()
    if gurobi == "gurobi":
        import gurobipy  # noqa: F401
    elif gurobi == "recorder":
        from trex.solver import recorder

        recorder.install()


class Server:
    """Runs one job at a time."""

    def __init__(self, level: str, user: int | None, readable: list[str], baseline: int) -> None:
        self.level, self.user, self.readable, self.baseline = level, user, readable, baseline

    def handle(self, requests: int, replies: int) -> int:
        """Take one request, run it and answer; 0, or 1 where no other follows."""
        try:
            data = frames.read(requests, REQUEST)
            if data is None:
                return 1
            request = json.loads(data)
            request["files"] = {name: base64.b64decode(content) for name, content in request["files"].items()}
            answer, models = self.run(request, (requests, replies))
            frames.write(replies, json.dumps({"number": request["number"], **answer}).encode())
            for model in models:
                frames.write(replies, model)
            return 0
        except BaseException:
            traceback.print_exc()  # into the host's log
            return 1

    def run(self, request: dict[str, Any], own: tuple[int, ...]) -> tuple[dict[str, Any], list[bytes]]:
        """What became of a program, and the bytes of its last models. own: descriptors that no job may have."""
        limits = request["limits"]
        folder = ""
        if self.level != "bubblewrap":
            folder = tempfile.mkdtemp(prefix="trex-job-")
            if self.user is not None:
                os.chown(folder, self.user, self.user)
        pipes = [os.pipe() for _ in range(4)]
        begin = time.monotonic()
        guard = os.fork()
        if not guard:
            try:
                self._guard(request, folder, [write for _, write in pipes], [*own, *(read for read, _ in pipes)])
            except BaseException as error:
                os.write(pipes[3][1], STATUS.pack(-1) + f"{type(error).__name__}: {error}".encode())
            finally:
                os._exit(0)
        for _, write in pipes:
            os.close(write)
        watch = Watch(guard, [read for read, _ in pipes], begin, limits, self.baseline, folder, request["keep"])
        try:
            watch.until_it_ends()
        finally:
            for read, _ in pipes:
                os.close(read)
            if folder:
                remove(folder)
        return watch.answer()

    def _guard(self, request: dict[str, Any], folder: str, writes: list[int], others: list[int]) -> None:
        """The process between server and program: it makes the confinement, and waits."""
        for descriptor in others:
            os.close(descriptor)
        status, limits = writes[3], request["limits"]
        output = (writes[0], writes[1], writes[2])
        if self.level == "bubblewrap":
            job.enter_namespaces(self.user, limits["disk_mb"] << 20, limits["files"])
            system.prctl(system.PDEATHSIG, signal.SIGKILL)
            first = _fork(status)
            if first:
                for descriptor in writes:
                    os.close(descriptor)
                os.waitpid(first, 0)
                return
            system.prctl(system.PDEATHSIG, signal.SIGKILL)
            folder = job.FOLDER
        else:
            os.setsid()  # not to be killed together with the server
            system.prctl(system.SET_CHILD_SUBREAPER, 1)
            signal.signal(signal.SIGTERM, lambda *_: _end_all(folder))
            system.prctl(system.PDEATHSIG, signal.SIGTERM)  # where the server is killed
            if self.user is None:  # the limit counts all processes of the user
                limits["processes"] += processes.tasks(os.getuid())
        program = os.fork() if self.level == "bubblewrap" else _fork(status)
        if not program:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if self.level != "bubblewrap" and self.user is not None:
                system.prctl(system.SET_KEEPCAPS, 1)
                os.setgroups([])
                os.setresgid(self.user, self.user, self.user)
                os.setresuid(self.user, self.user, self.user)
            job.run(request, folder, self.level, self.readable, (*output, status), own_user=self.user is not None)
        for descriptor in output:
            os.close(descriptor)
        while (done := os.waitpid(-1, 0))[0] != program:
            pass
        gone = self.level == "bubblewrap" or processes.kill_descendants(os.getpid())
        os.write(status, STATUS.pack(done[1]) + (b"" if gone else b"processes were left"))


def _fork(status: int) -> int:
    """Fork and write the child's number, which the child waits for: whatever it writes itself comes second."""
    told, tell = os.pipe()
    child = os.fork()
    if child:
        os.write(status, STATUS.pack(child))
    os.close(tell)
    if not child:
        os.read(told, 1)  # ends where the parent closes its end, or is gone
    os.close(told)
    return child


def _end_all(folder: str) -> None:
    """End all processes of a job, whose guard this is, and remove its folder."""
    processes.kill_descendants(os.getpid())
    remove(folder)
    os._exit(1)
