"""Run a schedule in time: every operation starts when its rank is free and what it needs has arrived.

Rules. F(s, m) needs F(s-1, m); B(s, m) and BW(s, m) need F(s, m) and the input gradient of stage s+1; W(s, m) needs
B(s, m). BW takes B + W seconds and hands its input gradient on at its end. An overlapped pair starts when both parts
can, takes its own seconds, and both results leave at its end. What crosses to another rank arrives `send` seconds
later; sending occupies neither rank, and transfers do not slow each other down.
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from trex.planner.schedules import Operation, Order, Overlapped, ScheduleError


@dataclass(frozen=True)
class Costs:
    """Seconds of one micro-batch, one entry per stage.

    forward, backward (input gradients, with any recomputation), weight. overlapped: seconds of the pair whose forward
    is on that stage; None where nothing is hidden (the sum of both parts). send: seconds from stage s to s + 1 and from
    s + 1 to s, S - 1 entries; not paid between stages of one rank; None where sending takes no time. Raises
    ScheduleError for unequal lengths and for negative or infinite seconds.
    """

    forward: tuple[float, ...]
    backward: tuple[float, ...]
    weight: tuple[float, ...]
    overlapped: tuple[float, ...] | None = None
    send: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        stages = len(self.forward)
        lengths = {"forward": stages, "backward": stages, "weight": stages, "overlapped": stages, "send": stages - 1}
        for name, length in lengths.items():
            seconds = getattr(self, name)
            if seconds is None:
                continue
            if len(seconds) != length:
                raise ScheduleError(f"costs: {len(seconds)} entries of {name}; accepted: {length} for {stages} stages")
            for value in seconds:
                if not (math.isfinite(value) and value >= 0):
                    raise ScheduleError(f"costs: {name} = {value!r} s; accepted: finite, not negative")

    @classmethod
    def proportional(
        cls,
        loads: Sequence[float],
        forward: float,
        backward: float,
        weight: float,
        overlapped: float | None = None,
        send: float = 0.0,
    ) -> Self:
        """Stage s costs `loads[s]` times the given seconds. A pair's seconds are scaled by its forward's load."""
        pair = None if overlapped is None else tuple(overlapped * load for load in loads)
        f, b, w = (tuple(seconds * load for load in loads) for seconds in (forward, backward, weight))
        return cls(f, b, w, overlapped=pair, send=(send,) * (len(loads) - 1))

    @classmethod
    def equal(
        cls,
        stages: int,
        forward: float = 1.0,
        backward: float = 1.0,
        weight: float = 1.0,
        overlapped: float | None = None,
        send: float = 0.0,
    ) -> Self:
        """The same seconds for every stage."""
        return cls.proportional((1.0,) * stages, forward, backward, weight, overlapped, send)

    def seconds(self, step: Operation | Overlapped) -> float:
        """Seconds of one operation or pair."""
        if isinstance(step, Overlapped):
            if self.overlapped is not None:
                return self.overlapped[step.forward.stage]
            return self.seconds(step.forward) + self.seconds(step.backward)
        stage = step.stage
        if step.kind == "F":
            return self.forward[stage]
        if step.kind == "W":
            return self.weight[stage]
        return self.backward[stage] + (self.weight[stage] if step.kind == "BW" else 0.0)


@dataclass(frozen=True)
class Span:
    """One operation or pair in time, seconds from the start of the step."""

    step: Operation | Overlapped
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """A simulated step: the spans of every rank in the order in which they ran."""

    spans: tuple[tuple[Span, ...], ...]

    @property
    def step_seconds(self) -> float:
        """From the first start to the last end."""
        return max(rank[-1].end for rank in self.spans if rank)

    @property
    def busy_seconds(self) -> tuple[float, ...]:
        """Seconds in which each rank computes."""
        return tuple(math.fsum(span.end - span.start for span in rank) for rank in self.spans)

    @property
    def bubble_seconds(self) -> tuple[float, ...]:
        """Seconds of the step in which each rank is idle."""
        return tuple(self.step_seconds - busy for busy in self.busy_seconds)

    @property
    def bubble_fractions(self) -> tuple[float, ...]:
        """Idle share of the step, per rank."""
        return tuple(idle / self.step_seconds for idle in self.bubble_seconds)

    @property
    def bubble_fraction(self) -> float:
        """Idle share of all ranks' seconds."""
        return math.fsum(self.bubble_fractions) / len(self.spans)

    @property
    def inner_bubble_seconds(self) -> tuple[float, ...]:
        """Idle seconds between each rank's first and last operation: the bubble where the optimizer's step does not
        wait for other ranks, which is how Zero Bubble counts it."""
        pairs = zip(self.spans, self.busy_seconds, strict=True)
        return tuple(rank[-1].end - rank[0].start - busy if rank else 0.0 for rank, busy in pairs)

    def peak_activations(self, sizes: Sequence[float] | None = None) -> tuple[float, ...]:
        """Most activations that each rank holds at once, in activations of one micro-batch of one stage.

        Held from the start of F to the end of BW or W. sizes: one weight per stage (bytes, layers); by default 1.
        """
        return tuple(_peak(rank, sizes) for rank in self.spans)


def simulate(orders: Sequence[Order], costs: Costs) -> Timeline:
    """Start and end of every operation.

    Raises ScheduleError where the orders cannot finish, naming what each stuck rank waits for; for an operation that
    appears twice; and for stages that have no costs, no rank or two ranks.
    """
    rank_of = _ranks_of_stages(orders, len(costs.forward))
    clock = [0.0] * len(orders)
    spans: list[list[Span]] = [[] for _ in orders]
    finished: dict[Result, float] = {}
    waiting: dict[Result, list[int]] = defaultdict(list)
    runnable = deque(range(len(orders)))
    while runnable:
        rank = runnable.popleft()
        while len(spans[rank]) < len(orders[rank]):
            step = orders[rank][len(spans[rank])]
            start = clock[rank]
            needs = list(_needs(step, len(rank_of)))
            missing = next((need for need, _ in needs if need not in finished), None)
            if missing is not None:
                waiting[missing].append(rank)
                break
            for need, stage in needs:
                start = max(start, finished[need] + _delay(need[1], stage, rank_of, costs))
            clock[rank] = start + costs.seconds(step)
            spans[rank].append(Span(step, start, clock[rank]))
            for part in step.parts:
                for result in _results(part):
                    if result in finished:
                        raise ScheduleError(f"rank {rank}: {step} repeats {_describe(result)}")
                    finished[result] = clock[rank]
                    runnable.extend(waiting.pop(result, ()))
    if waiting:
        stuck = [
            f"rank {rank} at {orders[rank][len(spans[rank])]} waits for {_describe(need)}"
            for need, ranks in waiting.items()
            for rank in ranks
        ]
        raise ScheduleError("the orders cannot finish: " + "; ".join(sorted(stuck)))
    return Timeline(tuple(tuple(rank) for rank in spans))


Result = tuple[str, int, int]  # what an operation produces: F, B (by B and by BW) or W; stage; micro-batch


def _results(operation: Operation) -> Iterator[Result]:
    """BW produces both gradients."""
    for kind in operation.kind:
        yield kind, operation.stage, operation.micro_batch


def _needs(step: Operation | Overlapped, stages: int) -> Iterator[tuple[Result, int]]:
    """What must be there before the step starts, and the stage that needs it."""
    for part in step.parts:
        stage, micro_batch = part.stage, part.micro_batch
        if part.kind == "F":
            if stage > 0:
                yield ("F", stage - 1, micro_batch), stage
        elif part.kind == "W":
            yield ("B", stage, micro_batch), stage
        else:
            yield ("F", stage, micro_batch), stage
            if stage < stages - 1:
                yield ("B", stage + 1, micro_batch), stage


def _delay(source: int, target: int, rank_of: Sequence[int], costs: Costs) -> float:
    """Seconds on the way between two stages."""
    if costs.send is None or rank_of[source] == rank_of[target]:
        return 0.0
    return costs.send[min(source, target)]


def _ranks_of_stages(orders: Sequence[Order], stages: int) -> list[int]:
    """The rank of every stage, read from the orders."""
    found: dict[int, int] = {}
    for rank, order in enumerate(orders):
        for part in (part for step in order for part in step.parts):
            if found.setdefault(part.stage, rank) != rank:
                raise ScheduleError(
                    f"stage {part.stage} runs on ranks {found[part.stage]} and {rank}; accepted: one rank"
                )
    if sorted(found) != list(range(stages)):
        raise ScheduleError(f"costs for {stages} stages, orders of stages {sorted(found)}; accepted: the same stages")
    return [found[stage] for stage in range(stages)]


def _describe(result: Result) -> str:
    return str(Operation(*result))


def _peak(rank: Sequence[Span], sizes: Sequence[float] | None) -> float:
    """The order alone decides: a rank runs one operation at a time."""
    held = peak = 0.0
    for span in rank:
        parts = span.step.parts
        held += sum(_size(part, sizes) for part in parts if part.kind == "F")
        peak = max(peak, held)
        held -= sum(_size(part, sizes) for part in parts if "W" in part.kind)
    return peak


def _size(operation: Operation, sizes: Sequence[float] | None) -> float:
    return 1.0 if sizes is None else sizes[operation.stage]
