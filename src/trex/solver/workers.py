"""Processes that work off jobs: each has its own memory limit and clock, and may die of a job without taking others.

They are interpreters of their own that never run the caller's `__main__` again, so that scripts need no guard. Jobs and
results are pickles over pipes. A process that dies before its first job, or whose function raises, is an error of the
run; one that dies at a job, or runs out of memory there, is told of that job.
"""

import gc
import importlib
import os
import pickle
import queue
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Literal, Protocol

MEMORY = 8 * 2**30  # bytes of address space of one process
START_S = 120.0  # for the interpreter and its imports
LENGTH = struct.Struct("!Q")
READY = "ready"
Answer = tuple[Literal["done", "memory", "raised"], Any]


class WorkerError(ValueError):
    """A process that does not start. Says what it wrote."""


class Died(Exception):
    """A process ended at a job, or the job takes more memory than a process has. Says how."""


@dataclass(frozen=True)
class Work:
    """What a process does: a function of a module, called with each job, and what it may use for one."""

    function: Callable[..., Any]
    longest_s: int  # for one job; then the process is killed
    memory: int = MEMORY  # bytes of address space

    @property
    def place(self) -> tuple[str, str]:
        """Module and name of the function."""
        return self.function.__module__, self.function.__qualname__


class Worker:
    """One process, which is started when it is first asked and again when it has died."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._closed = False

    def do(self, *job: Any) -> Any:
        """The function's value there. Raises Died, WorkerError where none starts, and what the function raises."""
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            _send(process.stdin, job)
            kind, value = self._answer()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise Died(f"it ended its process ({self._end()})") from None
        if kind == "memory":
            raise Died(f"it takes more than {self._work.memory / 2**30:.3g} GB")
        if kind == "raised":
            raise value
        return value

    def close(self) -> None:
        """End the process and what it started; it does not start again."""
        self._closed = True
        self._end()

    def _start(self) -> "subprocess.Popen[bytes]":
        program = (
            f"import sys; sys.path[:] = {list(map(os.fspath, sys.path))!r}; from trex.solver.workers import serve; "
        )
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process lives
        self._process = subprocess.Popen(
            [sys.executable, "-c", program + "serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # a group of its own, which is killed with it
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        if self._closed:
            self._end()
        try:
            _send(self._process.stdin, (self._work.place, self._work.longest_s, self._work.memory))
            ready, _, _ = select.select([self._process.stdout], [], [], START_S)
            if ready and self._answer() == READY:
                return self._process
        except (EOFError, OSError, ValueError):
            pass
        said = self._said()
        raise WorkerError(f"no process starts ({self._end()}){': ' if said else ''}{said}")

    def _answer(self) -> Any:
        assert self._process is not None and self._process.stdout is not None
        return _receive(self._process.stdout)

    def _said(self) -> str:
        """The last line that the process wrote to standard error."""
        if self._log is None or self._log.closed:
            return ""
        self._log.seek(0)
        return " ".join(self._log.read().decode(errors="replace").strip().splitlines()[-1:])[:300]

    def _end(self) -> str:
        """Kill the process with its group; how it had ended, in words."""
        process, self._process = self._process, None
        if process is None:
            return "ended"
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5 if not self._closed else 0)  # one that has just died is not yet known to have
        ended = process.poll()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, self._log):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        if ended is None:
            return "did not answer"
        return signal.Signals(-ended).name if ended < 0 else f"exit code {ended}"


class Pool:
    """Workers side by side. Jobs that are put in come out of `get` as they are done, each under its key."""

    def __init__(self, work: Work, count: int) -> None:
        self._todo: queue.SimpleQueue[tuple[Any, tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        self._workers = [Worker(work) for _ in range(count)]
        self._threads = [threading.Thread(target=self._serve, args=(w,), daemon=True) for w in self._workers]
        self._stop = threading.Event()
        for thread in self._threads:
            thread.start()

    def put(self, key: Any, *job: Any) -> None:
        """Add a job."""
        self._todo.put((key, job))

    def get(self) -> tuple[Any, Any]:
        """Key and value of the next job that is done; a `Died` as value where its process died.

        Waits for it. Raises WorkerError where no process starts, and what the function raises.
        """
        key, result = self._done.get()
        if isinstance(result, BaseException) and not isinstance(result, Died):
            raise result
        return key, result

    def close(self) -> None:
        """End all processes; jobs that were not done are lost."""
        self._stop.set()
        for _ in self._threads:
            self._todo.put(None)
        for worker in self._workers:
            worker.close()
        for thread in self._threads:
            thread.join()

    def _serve(self, worker: Worker) -> None:
        while (item := self._todo.get()) is not None and not self._stop.is_set():
            key, job = item
            try:
                self._done.put((key, worker.do(*job)))
            except BaseException as error:
                self._done.put((key, error))
                if not isinstance(error, Died):
                    return


class Jobs(Protocol):
    """Where jobs are done: a `Pool` of processes, `InProcess`, or machines elsewhere."""

    def put(self, key: Any, *job: Any) -> None:
        """Add a job."""

    def get(self) -> tuple[Any, Any]:
        """Key and value of the next job that is done."""

    def close(self) -> None:
        """End all processes."""


class InProcess:
    """Jobs done in this process, each when it is asked for, without limits."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._jobs: deque[tuple[Any, tuple[Any, ...]]] = deque()

    def put(self, key: Any, *job: Any) -> None:
        """Add a job."""
        self._jobs.append((key, job))

    def get(self) -> tuple[Any, Any]:
        """Do the next job."""
        key, job = self._jobs.popleft()
        return key, self._function(*job)

    def close(self) -> None:
        """Nothing is left to end."""


def serve() -> None:
    """In the process: do what comes over standard input until it ends, under limits; each job has an alarm.

    The alarm's default action ends the process, whatever library it is in.
    """
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no result
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    (module, name), longest, memory = jobs.get()
    function = getattr(importlib.import_module(module), name)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    gc.freeze()  # what was imported is not looked through again
    _send(output, READY)
    while True:
        job = jobs.get()
        signal.alarm(longest)
        answer: Answer
        try:
            answer = "done", function(*job)
        except MemoryError:
            answer = "memory", None
        except Exception as error:
            answer = "raised", _portable(error)
        signal.alarm(0)
        _send(output, answer)


def _listen(jobs: "queue.SimpleQueue[Any]") -> None:
    """Pass jobs on; whatever is at work ends when the starter has gone."""
    try:
        while True:
            jobs.put(_receive(sys.stdin.buffer))
    finally:
        os.killpg(os.getpgrp(), signal.SIGKILL)


def _portable(error: Exception) -> Exception:
    """The exception itself where a pickle holds it, else one that says the same."""
    try:
        return error if isinstance(pickle.loads(pickle.dumps(error)), type(error)) else WorkerError(repr(error))
    except Exception:
        return WorkerError(f"{type(error).__name__}: {error}")


def _send(stream: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value)
    stream.write(LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    """The next value. Raises EOFError where the other side has gone. Both sides are ours: pickles are safe."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    data = stream.read(LENGTH.unpack(head)[0])
    if len(data) < LENGTH.unpack(head)[0]:
        raise EOFError
    return pickle.loads(data)
