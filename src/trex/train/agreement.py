"""Errors that all ranks of a job find together, so that one of them says it and all leave; and work of one rank."""

import threading
from collections.abc import Callable
from typing import TypeVar

from trex.checkpoint.together import Together

T = TypeVar("T")


class AgreedError(ValueError):
    """An error that every rank knows of; `__cause__` is the one that the first rank found."""


def agree(ranks: Together, work: Callable[[], T]) -> T:
    """What `work` gives on this rank, or AgreedError on all ranks where it raises a ValueError or OSError on any.

    Its own error instead where the other ranks do not come to compare, being elsewhere: then they wait for this one in
    vain, and it has to end. Alone, a rank raises what `work` raises.
    """
    if ranks.world == 1:
        return work()
    failure: Exception | None = None
    try:
        result = work()
    except (ValueError, OSError) as error:
        failure = error
    try:
        found = [error for error in ranks.gather(failure) if error is not None]
    except RuntimeError:  # of torch.distributed
        if failure is None:
            raise
        found = []
    if found:
        raise AgreedError(str(found[0])) from found[0]
    if failure is not None:
        raise failure
    return result


def of_first(ranks: Together, work: Callable[[], T], every_s: float) -> T:
    """What `work` gives on the first rank, on all ranks, however long it takes; AgreedError on all where it raises one.

    every_s: below the time-out of collectives; so often the first rank tells the others that it is still at work.
    """
    if ranks.world == 1:
        return work()
    results: list[T] = []
    failures: list[Exception] = []

    def keep() -> None:
        try:
            results.append(work())
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=keep, daemon=True) if ranks.rank == 0 else None
    if thread is not None:
        thread.start()

    def ended() -> bool:
        if thread is not None:
            thread.join(every_s)
        return thread is None or not thread.is_alive()

    while not ranks.of_first(ended):
        pass

    def outcome() -> T | None:
        if failures:
            raise failures[0]
        return results[0] if results else None

    agree(ranks, outcome)
    return ranks.of_first(lambda: results[0])
