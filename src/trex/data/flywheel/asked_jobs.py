"""Attempts by an author that is asked: a loop in a thread asks, processes run and judge, each outcome comes once."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from trex.data.endpoint import EndpointError
from trex.data.extraction import program
from trex.data.flywheel.asked import MOST_REPAIRS, Asked, Refusal, with_optimum
from trex.data.flywheel.asking import Asking
from trex.data.flywheel.bucket import CLEAN_COT, FORMULATE
from trex.data.flywheel.dialogue import Cleaning, Dialogue, Message
from trex.data.flywheel.embedded import Attempt, Parent
from trex.data.flywheel.gates_on_form import code
from trex.data.flywheel.looking import look
from trex.data.flywheel.making import Made, finish
from trex.data.flywheel.recombine import recombine, representation
from trex.data.flywheel.representation import Origin, Representation
from trex.data.flywheel.reviewing import proposed, review
from trex.data.flywheel.safety import safety
from trex.data.gates import Refused
from trex.data.problem import DataError
from trex.data.rendering import render
from trex.solver.sandbox.execution import SandboxError
from trex.solver.workers import Died, Work, Worker

LONGEST_S = 600  # for one dialogue in a process


@dataclass(frozen=True)
class Author:
    """How dialogues are asked for. repairs: requests again for each step; reviewed: cleaner and reviewer are asked.

    apart: a review by an endpoint that had a hand in the dialogue is a refusal, for two endpoints and more. Raises
    DataError for repairs out of range.
    """

    repairs: int = 2
    reviewed: bool = True
    apart: bool = False

    def __post_init__(self) -> None:
        """Check ranges."""
        if not 0 <= self.repairs <= MOST_REPAIRS:
            raise DataError(f"repairs {self.repairs}; accepted: whole numbers from 0 to {MOST_REPAIRS}")


def settled(line: str) -> Made:
    """A dialogue with the optimum that its program has: what the author could not know. Programs run confined."""
    row = Dialogue.from_line(line)
    try:
        code(row)
        safety(row)
        facts = look(row)
        if facts.audited.optimum is None:
            run = facts.audited.execution
            raise Refused("execution", (run.message or run.unread or "no optimum") if run else "nothing was run")
    except Refused as error:
        return Made(line, gate=error.gate, reason=error.reason)
    return Made(with_optimum(row, facts.optimum).line)


def finished(line: str) -> Made:
    """A dialogue through cleaner, reviewer and gates."""
    return finish(Dialogue.from_line(line))


def work(name: str, line: str) -> Made:
    """What the processes do, by name. A dialogue that trips a gate up is refused, since the run is to go on."""
    try:
        return {"settle": settled, "finish": finished}[name](line)
    except (MemoryError, OSError, SandboxError):  # of the machine, not of the dialogue
        raise
    except Exception as error:
        return Made(line, gate="execution", reason=f"it cannot be judged: {type(error).__name__}: {error}"[:300])


class AskedJobs:
    """Jobs of a run; `get` raises what ends it, a spent budget or no endpoint, when nothing is under way any more.

    What is under way then has been paid for: its answers are in the cache before the run ends.
    """

    def __init__(
        self, asking: Callable[[], AbstractAsyncContextManager[Asking]], author: Author, ahead: int, processes: int
    ) -> None:
        self.ahead = ahead
        self._asking, self._author = asking, author
        self._workers: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._all = [Worker(Work(work, LONGEST_S)) for _ in range(processes)]
        for worker in self._all:
            self._workers.put(worker)
        self._done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop's thread alone touches it
        self._open = 0  # attempts that were put in and did not come out
        self._fault: BaseException | None = None
        self._closed = self._answered = False
        ready: Future[Asking] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        try:
            self._asked = ready.result()
        except BaseException:
            self.close()
            raise

    def put(self, key: int, attempt: Attempt) -> None:
        """Add an attempt, which is not begun where the run is about to end."""
        self._open += 1
        if self._fault is not None:
            self._done.put((key, self._fault))
        else:
            self._loop.call_soon_threadsafe(self._begin, key, attempt)

    def get(self) -> tuple[int, Any]:
        """The next that is done."""
        while self._fault is None or self._open:
            key, found = self._done.get()
            if key < 0:
                raise found
            self._open -= 1
            if not isinstance(found, BaseException):
                return key, found
            self._fault = self._fault or found
        raise self._fault

    def close(self) -> None:
        """Stop asking, and end the processes; answers that came are in the cache."""
        self._closed = True
        self._loop.call_soon_threadsafe(self._stop.set)
        for worker in self._all:
            worker.close()
        self._thread.join()
        self._loop.close()

    def _run(self, ready: "Future[Asking]") -> None:
        async def serve() -> None:
            try:
                async with self._asking() as asking:
                    ready.set_result(asking)
                    await self._stop.wait()
                    for task in self._tasks:
                        task.cancel()
                    await asyncio.gather(*self._tasks, return_exceptions=True)  # each settles what it has reserved
            except BaseException as error:
                if ready.done():
                    self._done.put((-1, error))
                else:
                    ready.set_exception(error)
            await self._loop.shutdown_default_executor()

        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(serve())

    def _begin(self, key: int, attempt: Attempt) -> None:
        task = self._loop.create_task(self._one(key, attempt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _one(self, key: int, attempt: Attempt) -> None:
        try:
            self._done.put((key, await self._made(key, attempt)))
        except Exception as error:
            self._done.put((key, error))

    async def _made(self, key: int, attempt: Attempt) -> Made:
        found, problem = begun(attempt.parent)
        author = Asked(self._asked, self._author.repairs)
        row = await author.write(attempt, found, problem, key)
        self._answered = self._answered or isinstance(row, Dialogue) or bool(row.replies)
        if isinstance(row, Refusal) and not self._answered:  # a server that is not there is no reason to refuse rows
            raise EndpointError(f"nothing was answered so far: {row.reason}")
        if isinstance(row, Refusal):
            return Made(gate="author", reason=f"{row.stage}: {row.reason}")
        made = await self._do("settle", row.line)
        if made.gate:
            return made
        row = made.row
        if row.bucket.style == CLEAN_COT and self._author.reviewed:
            cleaned = await self._cleaned(row, key, author.wrote)
            if isinstance(cleaned, Made):
                return cleaned
            row = cleaned
        return await self._do("finish", row.line)

    async def _cleaned(self, row: Dialogue, key: int, wrote: frozenset[str]) -> Dialogue | Made:
        """The dialogue with the answer that a cleaner proposes and a reviewer of another endpoint accepts."""
        found = await proposed(self._asked, row, key, self._author.repairs)
        if isinstance(found, Refusal):
            return Made(row.line, gate="cleaner", reason=found.reason)
        proposal, cleaners = found
        said = await review(self._asked, row, proposal, key, wrote | cleaners if self._author.apart else ())
        changed = "the program was changed" if row.program.strip() not in proposal else "the program was kept"
        source = row.program if row.bucket.task == FORMULATE else program(proposal).code
        messages = (*row.messages[:-1], Message("assistant", proposal))
        cleaning = Cleaning(row.author, row.answer, (changed, "the explanation became a checklist"), (said,))
        cleaned = replace(row, messages=messages, program=source, cleaning=cleaning)
        if not said.accepted:
            return Made(cleaned.line, gate="reviewer", reason="; ".join(said.reasons[:3]))
        return cleaned

    async def _do(self, name: str, line: str) -> Made:
        return await asyncio.to_thread(self._in_process, name, line)

    def _in_process(self, name: str, line: str) -> Made:
        worker = self._workers.get()
        try:
            if self._closed:  # no process is started any more
                raise Died("the run has ended")
            return worker.do(name, line)
        except Died as error:
            return Made(line, gate="execution", reason=str(error))
        finally:
            self._workers.put(worker)


def begun(parent: Parent) -> tuple[Representation, str]:
    """Representation and text of a parent; of an embedded seed, those of its family's first instance."""
    if parent.representation:
        return Representation.of(parent.representation), parent.problem
    found = recombine(Origin(parent.bucket.structure, 0, parent.bucket.difficulty, parent.changes))
    text = render(found.problem, parent.bucket.mode, found.family)
    return replace(representation(found, text.distractors), origin=None), text.problem
