"""The order in which each rank of a pipeline runs its operations.

A pipeline of p ranks with v stages on each has S = p * v stages. Notation as in Zero Bubble (arXiv 2401.10241): F is
the forward of one micro-batch through one stage, B its gradient with respect to inputs, W its gradient with respect to
weights, BW both in one operation. DeepSeek writes B for what is BW here.

gpipe        all F, then all BW (arXiv 1811.06965)
1f1b         p - 1 - r forwards, then F and BW in turn (PipeDream-Flush, arXiv 2006.09503)
interleaved  1F1B over v stages per rank, p stages apart (arXiv 2104.04473)
zb-v         B and W apart; two stages per rank placed as a V: rank 0 has the first and the last (arXiv 2401.10241, §6)
dualpipe-v   the same V; F of one stage and BW of the other in one overlapped pair (DeepSeek-V3, arXiv 2412.19437)
"""

from collections import Counter, deque
from dataclasses import dataclass

from trex.model.layout import rank_of_stage, schedule_problem


class ScheduleError(ValueError):
    """A schedule that does not exist for these sizes, cannot run, or has no such cost or closed form."""


@dataclass(frozen=True)
class Operation:
    """One micro-batch through one stage. kind: F, B (input gradients), W (weight gradients) or BW (both)."""

    kind: str
    stage: int
    micro_batch: int

    @property
    def parts(self) -> tuple["Operation", ...]:
        """The operation itself; a pair has two."""
        return (self,)

    @property
    def label(self) -> str:
        """Kind and micro-batch, as in F3."""
        return f"{self.kind}{self.micro_batch}"

    def __str__(self) -> str:
        return f"{self.kind}(stage {self.stage}, micro-batch {self.micro_batch})"


@dataclass(frozen=True)
class Overlapped:
    """The forward of one micro-batch and the full backward of another, run together so that each hides the other's
    communication (F&B of DualPipe)."""

    forward: Operation
    backward: Operation

    @property
    def parts(self) -> tuple[Operation, ...]:
        """Forward, backward."""
        return (self.forward, self.backward)

    @property
    def label(self) -> str:
        """As in F3&BW1."""
        return f"{self.forward.label}&{self.backward.label}"

    def __str__(self) -> str:
        return f"{self.forward} & {self.backward}"


Order = list[Operation | Overlapped]  # what one rank runs, first to last


def schedule(name: str, ranks: int, micro_batches: int, stages_per_rank: int | None = None) -> list[Order]:
    """The order of operations of every rank.

    stages_per_rank: by default 1 for gpipe and 1f1b, 2 for the rest. Raises ScheduleError naming the value and what is
    accepted: gpipe and 1f1b have one stage per rank; interleaved at least two, with the micro-batches divisible into
    max(1, micro_batches // ranks) equal rounds; zb-v and dualpipe-v exactly two, and dualpipe-v as many micro-batches
    as stages.
    """
    stages_per_rank = checked(name, ranks, micro_batches, stages_per_rank)
    orders = []
    for rank, stages in enumerate(placement(name, ranks, stages_per_rank)):
        work = _Rank(stages)
        if name == "gpipe":
            work.repeat(micro_batches, "F0")
            work.repeat(micro_batches, "BW0")
        elif name == "1f1b":
            _one_forward_one_backward(work, ranks, micro_batches, rank)
        elif name == "interleaved":
            _interleaved(work, ranks, micro_batches, rank)
        elif name == "zb-v":
            _zb_v(work, ranks, micro_batches, rank)
        else:
            _dualpipe_v(work, ranks, micro_batches, rank)
        orders.append(work.order)
    return orders


def placement(name: str, ranks: int, stages_per_rank: int) -> list[tuple[int, ...]]:
    """Stages of every rank: r, r + p, r + 2p, …; for the V-shaped schedules r and 2p - 1 - r."""
    stages = range(ranks * stages_per_rank)
    return [tuple(s for s in stages if rank_of_stage(name, ranks, s) == rank) for rank in range(ranks)]


def checked(name: str, ranks: int, micro_batches: int, stages_per_rank: int | None) -> int:
    """Stages per rank. Raises ScheduleError for a schedule that does not exist, as `schedule` does."""
    stages = (1 if name in ("gpipe", "1f1b") else 2) if stages_per_rank is None else stages_per_rank
    for what, value in (("ranks", ranks), ("micro_batches", micro_batches), ("stages_per_rank", stages)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ScheduleError(f"{what} = {value!r}; accepted: integers from 1")
    problem = schedule_problem(name, ranks, stages, micro_batches)
    if problem is not None:
        raise ScheduleError(problem)
    return stages


class _Rank:
    """Collects the order of one rank. Micro-batches of a stage are taken in turn, for F, for B or BW, and for W.

    Written "F0": the next forward of the rank's first stage; "BW1" and so on likewise; "F0&BW1": a pair; "W": the
    oldest B that still lacks its W.
    """

    def __init__(self, stages: tuple[int, ...]) -> None:
        self.stages = stages
        self.order: Order = []
        self._taken: Counter[tuple[str, int]] = Counter()
        self._without_weights: deque[Operation] = deque()

    def repeat(self, times: int, *words: str) -> None:
        """Append the operations of `words`, `times` times over."""
        for _ in range(times):
            for word in words:
                forward, pair, backward = word.partition("&")
                first = self._take(forward)
                self.order.append(Overlapped(first, self._take(backward)) if pair else first)

    def _take(self, word: str) -> Operation:
        if word == "W":
            oldest = self._without_weights.popleft()
            return Operation("W", oldest.stage, oldest.micro_batch)
        kind = word.rstrip("0123456789")
        stage = self.stages[int(word[len(kind) :])]
        counted = "B" if kind == "BW" else kind
        operation = Operation(kind, stage, self._taken[counted, stage])
        self._taken[counted, stage] += 1
        if kind == "B":
            self._without_weights.append(operation)
        return operation


def _one_forward_one_backward(work: _Rank, ranks: int, micro_batches: int, rank: int) -> None:
    warm_up = min(ranks - 1 - rank, micro_batches)
    work.repeat(warm_up, "F0")
    work.repeat(micro_batches - warm_up, "F0", "BW0")
    work.repeat(warm_up, "BW0")


def _interleaved(work: _Rank, ranks: int, micro_batches: int, rank: int) -> None:
    """A round is a group of about p micro-batches that passes all stages of the rank before the next round enters."""
    stages = len(work.stages)
    in_round = micro_batches // max(1, micro_batches // ranks)
    total = micro_batches * stages
    chunks = [(index // in_round) % stages for index in range(total)]
    forwards = [f"F{chunk}" for chunk in chunks]
    backwards = [f"BW{stages - 1 - chunk}" for chunk in chunks]
    warm_up = min((stages - 1) * in_round + 2 * (ranks - 1 - rank), total)
    steady = total - warm_up
    work.repeat(1, *forwards[:warm_up])
    for forward, backward in zip(forwards[warm_up:], backwards[:steady], strict=True):
        work.repeat(1, forward, backward)
    work.repeat(1, *backwards[steady:])


def _zb_v(work: _Rank, ranks: int, micro_batches: int, rank: int) -> None:
    """Handcrafted for F = B = W. With fewer micro-batches than fill the pipeline, the order is that of a full one with
    the surplus micro-batches left out."""
    filled = max(micro_batches, 2 * ranks - 1)
    below = ranks - 1 - rank  # ranks between this one and the turn of the V
    work.repeat(2 * below + 1, "F0")
    work.repeat(rank, "F1", "F0")
    work.repeat(below + 1, "F1", "B1", "W1")
    work.repeat(filled - 2 * ranks + rank + 1, "F0", "B0", "W0", "F1", "B1", "W1")
    work.repeat(below, "B0", "W0", "F1", "B1", "W1")
    work.repeat(rank, "B0", "B1")
    work.repeat(below + 1, "B0", "W0")
    work.repeat(rank, "W1")
    work.repeat(rank, "W0")
    work.order = [step for step in work.order if all(part.micro_batch < micro_batches for part in step.parts)]


def _dualpipe_v(work: _Rank, ranks: int, micro_batches: int, rank: int) -> None:
    """The numbered parts are those of DeepSeek's implementation. On the last rank the first
    pair is not overlapped, so that its forward runs while the gradient for its backward is on the way."""
    below = ranks - 1 - rank
    main = micro_batches - 2 * ranks + rank + 1
    work.repeat(2 * below, "F0")  # 1
    work.repeat(rank + 1, "F0", "F1")  # 2
    work.repeat(below, "B1", "W", "F1")  # 3
    if below == 0:
        work.repeat(1, "F0", "BW1", "F1&BW0")
        main -= 1
    work.repeat(main, "F0&BW1", "F1&BW0")  # 4
    work.repeat(below, "BW1", "F1&BW0")  # 5
    backwards = ["BW"] * (rank + 1) + ["B"] * (rank + 1)
    work.repeat(1, *(f"{kind}{(index + 1) % 2}" for index, kind in enumerate(backwards)))  # 6
    work.repeat(below, "W", "B0")  # 7
    work.repeat(rank + 1, "W")  # 8
