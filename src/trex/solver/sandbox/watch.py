"""Watches one job: reads what it writes, ends it where it passes a limit, and says what became of it."""

import os
import select
import signal
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from trex.solver.sandbox import frames, processes
from trex.solver.sandbox.capture import CLAIM, MESSAGE, MODEL
from trex.solver.sandbox.folders import usage
from trex.solver.sandbox.job import REFUSED
from trex.solver.wire import LARGEST

KEPT = 2**15  # bytes of an output's begin, and of its end
TICK_S = 0.03  # between looks at memory and disk
STATUS = struct.Struct("<i")  # from the guard: a process, then what waitpid said of the program
HEAD = 2**16  # bytes of a message that is no model, and of what is told about a model
FRAME = LARGEST + HEAD  # bytes of a message from a job


@dataclass
class _Output:
    """Begin and end of what a program wrote, and how much it was."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    size: int = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = KEPT - len(self.head)
        self.head += data[:room]
        self.tail = (self.tail + data[max(room, 0) :])[-KEPT:]

    def text(self) -> str:
        left = self.size - len(self.head) - len(self.tail)
        gap = f"\n... {left} bytes left out ...\n".encode() if left else b""
        return bytes(self.head + gap + self.tail).decode(errors="replace")


@dataclass
class _Channel:
    """The last messages of each kind that came over a job's own pipe; anything else than messages ends it."""

    kept: deque[dict[bytes, bytes]]  # the last models, each with the claim that came after it
    message: bytes = b""
    models: int = 0
    broken: bool = False
    waiting: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes) -> None:
        if self.broken:
            return
        self.waiting += data
        while len(self.waiting) >= frames.HEAD.size:
            (length,) = frames.HEAD.unpack_from(self.waiting)
            if not 1 <= length <= FRAME:
                self.broken = True
                return
            end = frames.HEAD.size + length
            if len(self.waiting) < end:
                return
            message = bytes(self.waiting[frames.HEAD.size : end])
            del self.waiting[:end]
            if message[:1] not in (MODEL, CLAIM, MESSAGE) or (message[:1] != MODEL and length > HEAD):
                self.broken = True
                return
            kind, text = message[:1], message[1:]
            self.models += kind == MODEL
            if kind == MESSAGE:
                self.message = text
            elif kind == MODEL:
                self.kept.append({MODEL: text})
            elif self.kept:
                self.kept[-1][CLAIM] = text


class Watch:
    """Reads what a job writes, and ends it where it passes a limit."""

    def __init__(
        self, guard: int, reads: list[int], begin: float, limits: dict[str, Any], baseline: int, folder: str,
        keep: int,
    ) -> None:  # fmt: skip
        self.guard, self.begin, self.limits, self.baseline, self.folder = guard, begin, limits, baseline, folder
        self.out, self.err, self.state = _Output(), _Output(), bytearray()
        self.channel = _Channel(deque(maxlen=keep))
        self.sinks = dict(zip(reads, (self.out.add, self.err.add, self.channel.add, self.state.extend), strict=True))
        self.limit = ""  # that the job passed
        self.seconds = 0.0

    def until_it_ends(self) -> None:
        """Read and check until the guard is gone."""
        watched = os.pidfd_open(self.guard)
        try:
            poll = select.poll()
            for descriptor in (*self.sinks, watched):
                poll.register(descriptor, select.POLLIN)
            over = self.begin + self.limits["seconds"]
            look = self.begin + TICK_S
            ended = False
            while not ended:
                now = time.monotonic()
                events = poll.poll(max(0.0, min(over, look) - now if not self.limit else 1.0) * 1000)
                for descriptor, _ in events:
                    if descriptor == watched:
                        ended = True
                    elif not self._take(descriptor):
                        poll.unregister(descriptor)
                now = time.monotonic()
                if not self.limit and not ended:
                    if now >= over:
                        self._end("timeout")
                    elif self.out.size + self.err.size > self.limits["output_mb"] * 2**20:
                        self._end("output")
                    elif now >= look:
                        look = now + TICK_S
                        self._look()
            os.waitpid(self.guard, 0)
            self.seconds = time.monotonic() - self.begin
            self._drain()
        finally:
            os.close(watched)

    def _take(self, descriptor: int) -> bool:
        data = os.read(descriptor, 1 << 18)
        self.sinks[descriptor](data)
        return bool(data)

    def _drain(self) -> None:
        """What is still in the pipes of a job that is gone."""
        for descriptor in self.sinks:
            os.set_blocking(descriptor, False)
            try:
                while self._take(descriptor):
                    pass
            except BlockingIOError:
                continue

    def _look(self) -> None:
        """Memory of all the job's processes together, and its folder where no file system limits it."""
        first = STATUS.unpack_from(self.state)[0] if len(self.state) >= STATUS.size else 0
        if first <= 0:
            return
        every = processes.descendants(self.guard) - {self.guard}
        sizes = (processes.anonymous_bytes(process) - self.baseline for process in every)
        if sum(size for size in sizes if size > 0) > self.limits["memory_mb"] << 20:
            self._end("memory")
        elif self.folder:
            size, count = usage(self.folder)
            size += sum(map(processes.unlinked_bytes, every))
            if size > self.limits["disk_mb"] << 20 or count > self.limits["files"]:
                self._end("disk")

    def _end(self, limit: str) -> None:
        self.limit = limit
        first = STATUS.unpack_from(self.state)[0] if len(self.state) >= STATUS.size else self.guard
        try:
            os.kill(first if first > 0 else self.guard, signal.SIGKILL)
        except ProcessLookupError:
            return

    def answer(self) -> tuple[dict[str, Any], list[bytes]]:
        """What became of the job, and the bytes of its last models; none of one that could not be sent."""
        first = STATUS.unpack_from(self.state)[0] if len(self.state) >= STATUS.size else -1
        parted = [kept[MODEL].partition(b"\n") for kept in self.channel.kept]
        refused = bytes(self.state[STATUS.size :]).decode(errors="replace") if first < 0 else ""
        waited, rest = None, b""
        if first > 0 and self.state[STATUS.size :].startswith(REFUSED):  # from the program's process, before it began
            refused = bytes(self.state[STATUS.size + len(REFUSED) : -STATUS.size]).decode(errors="replace")
        elif first > 0 and len(self.state) >= 2 * STATUS.size:
            waited = STATUS.unpack_from(self.state, STATUS.size)[0]
            rest = bytes(self.state[2 * STATUS.size :])
        return {
            "limit": self.limit,
            "refused": refused or ("the job's guard ended" if first < 0 and not self.limit else ""),
            "waited": waited,
            "left": rest.decode(errors="replace"),
            "stdout": self.out.text(),
            "stderr": self.err.text(),
            "message": self.channel.message.decode(errors="replace"),
            "claims": [kept.get(CLAIM, b"").decode(errors="replace") for kept in self.channel.kept],
            "heads": [head[:HEAD].decode(errors="replace") for head, _, _ in parted],
            "models": self.channel.models,
            "broken": self.channel.broken,
            "seconds": self.seconds,
        }, [model for _, _, model in parted]
