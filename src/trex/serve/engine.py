"""One thread owns the model and gives every running request a token in turn; answers go back to the event loop."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterator
from types import TracebackType
from typing import Self

from trex.model.generate import Token


class QueueFull(Exception):
    """As many requests wait as may."""


class Stopped(Exception):
    """The engine no longer runs."""


class Job:
    """One request: an iterator of tokens for the engine's thread, an asynchronous one for the event loop's."""

    def __init__(self, tokens: Iterator[Token], loop: asyncio.AbstractEventLoop) -> None:
        self._tokens, self._loop = tokens, loop
        self._queue: asyncio.Queue[Token | Exception | None] = asyncio.Queue()
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Want no more tokens. The engine drops the request before its next one."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether no more tokens are wanted."""
        return self._cancelled.is_set()

    def step(self) -> bool:
        """Generate and hand over one token, in the engine's thread. False where there will be no other."""
        if self.cancelled:
            if isinstance(self._tokens, Generator):
                self._tokens.close()
            return False
        item: Token | Exception | None
        try:
            item = next(self._tokens, None)
        except Exception as error:  # of this request alone: whatever it is must not end the thread
            item = error
        self.put(item)
        return isinstance(item, Token)

    def put(self, item: Token | Exception | None) -> None:
        """Hand over a token, the error that ends the request, or None at its end."""
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
        except RuntimeError:  # the event loop has closed
            self.cancel()

    async def tokens(self) -> AsyncGenerator[Token, None]:
        """The tokens as they come, in the event loop. Raises what generation raised."""
        while (item := await self._queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item


class Engine:
    """Runs jobs in one thread of its own, up to `max_running` in turn, while up to `max_waiting` wait."""

    def __init__(self, max_running: int, max_waiting: int) -> None:
        self._max_running, self._max_waiting = max_running, max_waiting
        self._waiting: deque[Job] = deque()
        self._running: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="trex-engine", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        self._thread.join()

    def stop(self) -> None:
        """Take no more requests and end those there are: their readers get Stopped at once, amid a token too.

        Any thread may call it, more than once.
        """
        with self._changed:
            for job in () if self._closing else (*self._running, *self._waiting):
                job.put(Stopped("the server is shutting down"))
            self._closing = True
            self._changed.notify()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def load(self) -> tuple[int, int]:
        """Number of requests that run and that wait."""
        with self._changed:
            return len(self._running), len(self._waiting)

    def submit(self, tokens: Iterator[Token]) -> Job:
        """Queue a request, in the event loop. Raises QueueFull or Stopped."""
        job = Job(tokens, asyncio.get_running_loop())
        with self._changed:
            if self._closing or not self.alive:
                raise Stopped("the server is shutting down")
            self._waiting = deque(waiting for waiting in self._waiting if not waiting.cancelled)
            if len(self._running) + len(self._waiting) >= self._max_running + self._max_waiting:
                raise QueueFull(f"{self._max_running} requests run and {self._max_waiting} wait; try again later")
            self._waiting.append(job)
            self._changed.notify()
        return job

    def _work(self) -> None:
        while self._admit():
            job = self._running[0]
            unfinished = job.step()
            with self._changed:
                self._running.popleft()
                if unfinished:
                    self._running.append(job)
        with self._changed:
            self._running.clear()
            self._waiting.clear()

    def _admit(self) -> bool:
        """Wait for work and let in what may run. False at the end."""
        with self._changed:
            while not (self._closing or self._running or self._waiting):
                self._changed.wait()
            while self._waiting and len(self._running) < self._max_running:
                self._running.append(self._waiting.popleft())
            return not self._closing
