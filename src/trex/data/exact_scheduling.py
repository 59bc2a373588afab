"""Optima of small scheduling problems by dynamic programming and enumeration, in whole numbers."""

from collections.abc import Sequence

from trex.data.problem import DataError


def parallel_machines(times: Sequence[Sequence[int | None]], ready: Sequence[int], slots: Sequence[int]) -> int:
    """Least time at which the last machine is free, by dynamic programming over all machines' loads and free slots.

    times: [jobs][machines], None where the machine cannot do the job. Raises DataError where no plan exists.
    """
    states = {(tuple(ready), tuple(slots))}
    for row in times:
        after = set()
        for load, free in states:
            for i, time in enumerate(row):
                if time is not None and free[i]:
                    after.add((_with(load, i, time), _with(free, i, -1)))
        states = after
    if not states:
        raise DataError("no plan gives every job to a machine that can do it")
    return min(max(load) for load, _ in states)


def _with(vector: tuple[int, ...], place: int, added: int) -> tuple[int, ...]:
    return (*vector[:place], vector[place] + added, *vector[place + 1 :])


def job_shop(routes: Sequence[Sequence[tuple[object, int]]], release: Sequence[int], deadline: Sequence[int]) -> int:
    """Least time at which all jobs are done, by enumeration of the active schedules that keep the deadlines.

    routes: [jobs][steps] of machine and duration. Raises DataError where no schedule keeps all deadlines.
    Source: Giffler and Thompson, Algorithms for solving production-scheduling problems, 1960.
    """
    best = max(deadline) + 1

    def extend(done: tuple[int, ...], end: tuple[int, ...], free: dict[object, int]) -> None:
        nonlocal best
        for j, route in enumerate(routes):
            least = end[j] + sum(time for _, time in route[done[j] :])
            if least > deadline[j] or least >= best:
                return
        waiting = {j: route[done[j]] for j, route in enumerate(routes) if done[j] < len(route)}
        if not waiting:
            best = max(end)
            return
        start = {j: max(end[j], free.get(machine, 0)) for j, (machine, _) in waiting.items()}
        soonest = min(waiting, key=lambda j: start[j] + waiting[j][1])
        bound = start[soonest] + waiting[soonest][1]
        for j, (machine, time) in waiting.items():  # one of those that could start before it ends comes next there
            if machine == waiting[soonest][0] and start[j] < bound:
                ended = start[j] + time
                extend(_with(done, j, 1), (*end[:j], ended, *end[j + 1 :]), {**free, machine: ended})

    extend((0,) * len(routes), tuple(release), {})
    if best > max(deadline):
        raise DataError("no schedule keeps all deadlines")
    return best
