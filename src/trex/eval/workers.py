"""Processes that judge: each has its own memory limit and clock, and may die of an answer without taking others along.

They are interpreters of their own that never run the caller's `__main__` again, so that scripts need no guard. Jobs and
results are pickles over pipes. A process that dies before its first job, or whose `judge` raises, is an error of the
run; one that dies at an answer, or runs out of memory there, is told of that answer.
"""

import math
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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, Literal

from trex.eval.items import Item
from trex.eval.judge import Judgement, Judging, judge
from trex.eval.rows import EvaluationError, Row

MEMORY = 8 * 2**30  # bytes of address space of one process
START_S = 120.0  # for the interpreter and its imports
LEAST = 4  # jobs per process, below which no further one is started for them
LENGTH = struct.Struct("!Q")
READY = "ready"
Job = tuple[Item, Row]
Answer = tuple[Literal["judged", "memory", "raised"], Any]


class Died(Exception):
    """A process ended at an answer, or the answer takes more memory than a process has. Says how."""


def longest_s(settings: Judging) -> int:
    """Seconds after which a process is killed that is still at one answer: solves and comparisons keep their own."""
    return min(math.ceil(2 * settings.solve_s + 2 * settings.compare_s + 60), 2**31 - 1)


class Worker:
    """One process, which is started when it is first asked and again when it has died."""

    def __init__(self, settings: Judging, memory: int = MEMORY, longest: int = 0) -> None:
        self._job = (settings, memory, longest or longest_s(settings))
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._closed = False

    def judge(self, item: Item, row: Row) -> Judgement:
        """Judge an answer there. Raises Died, EvaluationError where no process starts, and what `judge` raises."""
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            _send(process.stdin, (item, row))
            answer = self._answer()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise Died(f"judging it ended its process ({self._end()})") from None
        kind, value = answer
        if kind == "memory":
            raise Died(f"judging it takes more than {self._job[1] / 2**30:.3g} GB")
        if kind == "raised":
            raise value
        return value

    def close(self) -> None:
        """End the process and what it started; it does not start again."""
        self._closed = True
        self._end()

    def _start(self) -> "subprocess.Popen[bytes]":
        program = f"import sys; sys.path[:] = {list(map(os.fspath, sys.path))!r}; from trex.eval.workers import serve; "
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
            _send(self._process.stdin, self._job)
            ready, _, _ = select.select([self._process.stdout], [], [], START_S)
            if ready and self._answer() == READY:
                return self._process
        except (EOFError, OSError, ValueError):
            pass
        said = self._said()
        raise EvaluationError(f"no judging process starts ({self._end()}){': ' if said else ''}{said}")

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


def judge_all(jobs: Sequence[Job], settings: Judging, count: int) -> Iterator[tuple[int, Judgement | Died]]:
    """Number and judgement of each job as they come, by up to `count` processes side by side.

    Raises EvaluationError where no process starts, and what `judge` raises.
    """
    workers = [Worker(settings) for _ in range(max(1, min(count, len(jobs) // LEAST)))] if jobs else []
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Judgement | BaseException]] = queue.SimpleQueue()
    stop = threading.Event()
    for number in range(len(jobs)):
        todo.put(number)

    def work(worker: Worker) -> None:
        while not stop.is_set():
            try:
                number = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((number, worker.judge(*jobs[number])))
            except BaseException as error:
                done.put((number, error))
                if not isinstance(error, Died):
                    return

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        for _ in jobs:
            number, result = done.get()
            if isinstance(result, BaseException) and not isinstance(result, Died):
                raise result
            yield number, result
    finally:
        stop.set()
        for worker in workers:
            worker.close()
        for thread in threads:
            thread.join()


def serve() -> None:
    """In the process: judge what comes over standard input until it ends, under limits; each job has an alarm.

    The alarm's default action ends the process, whatever library it is in.
    """
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no result
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    settings, memory, longest = jobs.get()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    _send(output, READY)
    while True:
        item, row = jobs.get()
        signal.alarm(longest)
        answer: Answer
        try:
            answer = "judged", judge(item, row, settings)
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
        return error if isinstance(pickle.loads(pickle.dumps(error)), type(error)) else EvaluationError(repr(error))
    except Exception:
        return EvaluationError(f"{type(error).__name__}: {error}")


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
