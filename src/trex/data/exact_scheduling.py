"""Optima of small scheduling problems by dynamic programming and enumeration, in whole numbers."""

import itertools
from collections.abc import Mapping, Sequence

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


def flow_shop(times: Sequence[Sequence[int]], free: Sequence[int]) -> int:
    """Least sum of the times at which jobs are done in one sequence on all machines, from when each machine is free.

    times: [jobs][machines]. Dynamic programming over sets of jobs; of the vectors of times at which the machines are
    free again, with the sum so far, those that no other one beats are kept.
    """
    layers: dict[int, list[tuple[int, ...]]] = {0: [(*free, 0)]}
    for _ in times:
        after: dict[int, set[tuple[int, ...]]] = {}
        for done, vectors in layers.items():
            for j, row in enumerate(times):
                if not done >> j & 1:
                    after.setdefault(done | 1 << j, set()).update(_passed(vector, row) for vector in vectors)
        layers = {done: _unbeaten(vectors) for done, vectors in after.items()}
    return min(vector[-1] for vectors in layers.values() for vector in vectors)


def _passed(state: tuple[int, ...], times: Sequence[int]) -> tuple[int, ...]:
    ends, end = [], 0
    for open_from, time in zip(state[:-1], times, strict=True):
        end = max(end, open_from) + time
        ends.append(end)
    return (*ends, state[-1] + end)


def _unbeaten(vectors: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    kept: list[tuple[int, ...]] = []
    for vector in sorted(vectors):
        if not any(all(a <= b for a, b in zip(other, vector, strict=True)) for other in kept):
            kept.append(vector)
    return kept


def separated(costs: Sequence[Mapping[int, int]], gaps: Sequence[Sequence[int]]) -> int:
    """Least cost of giving everyone a whole time at least the gap after the one before it.

    costs: [members] of possible time to cost; gaps: [first][second], where those between neighbours imply all others.
    Dynamic programming over the set of those done, the last of them and its time. Raises DataError where no times fit.
    """
    layer = {(1 << j, j, t): cost for j, times in enumerate(costs) for t, cost in times.items()}
    for _ in costs[1:]:
        after: dict[tuple[int, int, int], int] = {}
        for (done, last, clock), so_far in layer.items():
            if any(max(times) < clock for j, times in enumerate(costs) if not done >> j & 1):
                continue  # someone left could not come any more
            for j, times in enumerate(costs):
                if not done >> j & 1:
                    for t, cost in times.items():
                        key = (done | 1 << j, j, t)
                        if t >= clock + gaps[last][j] and so_far + cost < after.get(key, so_far + cost + 1):
                            after[key] = so_far + cost
        layer = after
    if not layer:
        raise DataError("no times keep all separations")
    return min(layer.values())


def roster(
    price: Sequence[Sequence[Sequence[int]]],
    demand: Sequence[Sequence[int]],
    bans: set[tuple[int, int]],
    least: Sequence[int],
    most: Sequence[int],
) -> int:
    """Least total price of a roster, by dynamic programming over the days.

    price: [days][nurses][shifts]; demand: [days][shifts]; bans: pairs of shifts that no nurse may work on successive
    days; least, most: [nurses] of shifts over all days. Raises DataError where no roster fits.
    """
    shifts = range(len(demand[0]))
    # last shift and number of shifts of each nurse -> price
    states: dict[tuple[tuple[int | None, ...], tuple[int, ...]], int] = {((None,) * len(least), (0,) * len(least)): 0}
    for rates, needs in zip(price, demand, strict=True):
        days = [
            day
            for day in itertools.product((None, *shifts), repeat=len(least))
            if all(day.count(s) >= need for s, need in enumerate(needs))
        ]
        after: dict[tuple[tuple[int | None, ...], tuple[int, ...]], int] = {}
        for (last, counts), so_far in states.items():
            for day in days:
                worked = tuple(count + (s is not None) for count, s in zip(counts, day, strict=True))
                if any(w > limit for w, limit in zip(worked, most, strict=True)):
                    continue
                if any(pair in bans for pair in zip(last, day, strict=True)):
                    continue
                cost = so_far + sum(rates[n][s] for n, s in enumerate(day) if s is not None)
                if cost < after.get((day, worked), cost + 1):
                    after[day, worked] = cost
        states = after
    complete = [cost for (_, counts), cost in states.items() if all(c >= n for c, n in zip(counts, least, strict=True))]
    if not complete:
        raise DataError("no roster fits")
    return min(complete)
