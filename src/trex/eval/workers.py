"""Processes that judge answers: see `trex.solver.workers`."""

import math
from collections.abc import Iterator, Sequence

from trex.eval.items import Item
from trex.eval.judge import Judgement, Judging, judge
from trex.eval.rows import EvaluationError, Row
from trex.solver.workers import MEMORY, Died, Pool, Work, Worker, WorkerError

__all__ = ["Died", "Worker", "judge_all", "judging_work", "longest_s"]
LEAST = 4  # jobs per process, below which no further one is started for them
Job = tuple[Item, Row]


def longest_s(settings: Judging) -> int:
    """Seconds after which a process is killed that is still at one answer: solves and comparisons keep their own."""
    return min(math.ceil(2 * settings.solve_s + 2 * settings.compare_s + 60), 2**31 - 1)


def judging_work(settings: Judging, memory: int = MEMORY, longest: int = 0) -> Work:
    """What a judging process does with an item, an answer and the settings."""
    return Work(judge, longest or longest_s(settings), memory)


def judge_all(jobs: Sequence[Job], settings: Judging, count: int) -> Iterator[tuple[int, Judgement | Died]]:
    """Number and judgement of each job as they come, by up to `count` processes side by side.

    Raises EvaluationError where no process starts, and what `judge` raises.
    """
    if not jobs:
        return
    pool = Pool(judging_work(settings), max(1, min(count, len(jobs) // LEAST)))
    try:
        for number, job in enumerate(jobs):
            pool.put(number, *job, settings)
        for _ in jobs:
            yield pool.get()
    except WorkerError as error:
        raise EvaluationError(f"judging: {error}") from None
    finally:
        pool.close()
