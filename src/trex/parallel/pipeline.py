"""Pipeline parallelism: torch's engines run a stage's micro-batches in the order of the layout's schedule.

    gpipe, 1f1b, interleaved, zb-v      torch.distributed.pipelining; the order of operations is `planner.schedules`'

Per micro-batch and boundary between ranks: the streams [B, S or S / tp, n, d] forward, their gradient backward, between
the rank of stage i and that of i + 1. Under zb-v the first rank has the first stage and the last, and the turn of the V
is within the last rank. Stages need not be even (`Layout.stage_layers`, `noop_layers`).

The embedding lives on the first stage; the MTP block in the last one needs it too. Where that is another rank it has a
copy, and the gradients of both are summed over the two ranks after the backward pass.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import pipelining
from torch.distributed.pipelining import schedules

from trex.model.layout import LayoutError, rank_of_stage
from trex.parallel.meshes import Meshes
from trex.parallel.stage import Stage

ENGINES: dict[str, type[Any]] = {
    "gpipe": schedules.ScheduleGPipe,
    "1f1b": schedules.Schedule1F1B,
    "interleaved": schedules.ScheduleInterleaved1F1B,
    "zb-v": schedules.ScheduleZBVZeroBubble,
}


class Pipeline:
    """The stages of this rank, and the engine that runs them.

    Raises LayoutError for a schedule that no engine has, and for fewer micro-batches than it needs.
    """

    def __init__(self, stages: Sequence[Stage], indices: Sequence[int], meshes: Meshes, device: torch.device) -> None:
        layout = meshes.layout
        if layout.schedule not in ENGINES:
            raise LayoutError(f"schedule = {layout.schedule!r}; accepted in training: {', '.join(ENGINES)}")
        self.layout, self.meshes, self.device = layout, meshes, device
        self.stages, self.indices = list(stages), list(indices)
        self._built: tuple[tuple[int, ...], Any] | None = None

    def accumulate(self, tokens: Tensor, doc_ids: Tensor, targets: Tensor, micro_batches: int) -> None:
        """Forward and backward of all micro-batches.

        tokens, doc_ids, targets: [rows, S] of this rank's replica, cut into equal micro-batches.
        """
        engine = self._engine(tokens, micro_batches)
        inputs = (tokens,) if 0 in self.indices else ()
        engine.step(*inputs, target=targets, losses=[], tokens=tokens, doc_ids=doc_ids, targets=targets)

    @torch.no_grad()
    def evaluate(self, tokens: Tensor, doc_ids: Tensor, targets: Tensor, micro_batch: int) -> None:
        """Forward of all rows, `micro_batch` at a time, one stage after the other."""
        parts = [t.split(micro_batch) for t in (tokens, doc_ids, targets)]
        turned: list[Tensor] = []  # from one stage of this rank to its next
        sends = []
        for index, stage in zip(self.indices, self.stages, strict=True):
            before, after = (self._rank(i) if 0 <= i < self._count else None for i in (index - 1, index + 1))
            outs = []
            for number, (ids, docs, goals) in enumerate(zip(*parts, strict=True)):
                if index == 0:
                    x = ids
                elif before == self.meshes.pp.rank:
                    x = turned[number]
                else:
                    x = torch.empty(self._streams(ids), dtype=stage.dtype, device=self.device)
                    dist.recv(x, group=self.meshes.pp.group, group_src=before)
                outs.append(stage(x, ids, docs, goals))
                if after is not None and after != self.meshes.pp.rank:
                    work = dist.isend(outs[-1], group=self.meshes.pp.group, group_dst=after)
                    assert work is not None
                    sends.append((work, outs[-1]))
            turned = outs
        for work, _ in sends:
            work.wait()

    @property
    def _count(self) -> int:
        return self.layout.pp * self.layout.vpp

    def _rank(self, index: int) -> int:
        return rank_of_stage(self.layout.schedule, self.layout.pp, index)

    def _streams(self, tokens: Tensor) -> tuple[int, ...]:
        """Shape of what goes between stages."""
        config, (rows, length) = self.stages[0].config, tokens.shape
        split = self.layout.tp if self.layout.sequence_parallel else 1
        return (rows, length // split, config.hc_mult, config.hidden_size)

    def _engine(self, tokens: Tensor, micro_batches: int) -> Any:
        """The engine for this number and shape of micro-batches; another one takes its place, with its buffers."""
        key = (micro_batches, *tokens.shape)
        if self._built is None or self._built[0] != key:
            self._built = key, self._build(tokens[: len(tokens) // micro_batches], micro_batches)
        return self._built[1]

    def _build(self, tokens: Tensor, micro_batches: int) -> Any:
        made = []
        for index, stage in zip(self.indices, self.stages, strict=True):
            with torch.device("meta"):
                streams = torch.empty(self._streams(tokens), dtype=stage.dtype, requires_grad=True)
                share = torch.empty(1, dtype=stage.wide, requires_grad=True)
            made.append(
                pipelining.PipelineStage(
                    stage, index, self._count, self.device,
                    input_args=tokens.to("meta") if index == 0 else streams,
                    output_args=share if stage.last else streams,
                    group=self.meshes.pp.group,
                )
            )  # fmt: skip
        try:
            return ENGINES[self.layout.schedule](
                made if self.layout.vpp > 1 else made[0], micro_batches, loss_fn=_share, scale_grads=False
            )
        except ValueError as error:
            raise LayoutError(f"micro-batches = {micro_batches} under {self.layout.schedule}: {error}") from None


def _share(output: Tensor, target: Tensor) -> Tensor:
    """The last stage's output is already the micro-batch's share of the objective."""
    return output.sum()
