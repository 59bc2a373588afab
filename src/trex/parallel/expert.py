"""Expert parallelism: each rank has E / ep of a layer's routed experts, and of each expert 1 / etp of its channels.

Each of the dp x tp ranks of a pipeline rank routes tokens of its own (of tokens that tp ranks share each takes a part).
A row, one choice of one token, goes to the etp ranks that hold its expert, and their parts of the result come back and
are added. No row is dropped. Per layer and rank, forward, the backward mirrors it:

    counts       all-to-all of E / ep integers to each rank
    dispatch     all-to-all of rows [d] and of their weights, sizes as routed
    combine      all-to-all of rows [d]
    tp           enters and leaves as an attention does (`tensor`); where tp ranks share tokens, the sum that leaves
                 also brings the routed experts' results of each rank's tokens to the others

Dispatch overlaps with the shared expert's first projections, combine with its last. The loads that move the selection
biases are summed over ranks after the step (`ParallelModel.loads`). Hash-routed layers differ in the gate only.
"""

from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from trex.kernels import ops
from trex.model.documents import Documents
from trex.model.moe import MoE, Routing, balance_loss
from trex.parallel import collectives
from trex.parallel.collectives import Axis
from trex.parallel.tensor import SEQUENCE, Region


class ExpertParallelMoE(MoE):
    """Some of the experts; the shared expert's channels are split over tp."""

    region: Region
    axis: Axis  # ep x etp
    etp: int

    def forward(self, x: Tensor, tokens: Tensor, documents: Documents) -> tuple[Tensor, Routing]:
        """As in `MoE`, of the streams between sub-layers; the load is that of this rank's tokens."""
        region, places = self.region, self.region.places(tokens.shape[SEQUENCE])
        mine = documents.part(places)
        shared = self.shared_experts is not None
        whole = region.enter(x) if shared or not region.sequence_parallel else x
        own = x if region.sequence_parallel else whole[:, places]
        flat = own.flatten(0, 1)
        weights, experts, scores = self.gate(flat, tokens[:, places].flatten())
        routed, part = self._routed(flat, weights, experts, whole if shared else None)
        y = routed.view(own.shape)
        if region.sequence_parallel:
            y = y if part is None else y + region.leave(part)
        else:  # a rank's tokens are its part of the sum over ranks
            after = tokens.shape[SEQUENCE] - places.stop
            y = functional.pad(y, (0, 0, places.start, after))
            y = region.leave((y if part is None else y + part).to(x.dtype))
        load = experts[mine.real.flatten()].flatten().bincount(minlength=scores.shape[-1])
        balance = None
        if self.gate.tid2eid is None:
            shape = (*own.shape[:2], -1)
            balance = balance_loss(
                scores.view(shape), experts.view(shape), mine, lambda sums: collectives.reduce(sums, region.axis)
            )
        return y.to(x.dtype), Routing(load, balance)

    def _routed(self, flat: Tensor, weights: Tensor, experts: Tensor, x: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The routed experts' sum over own tokens [T, d], and the shared expert's part of [B, S, d] of x, if any."""
        shared = self.shared_experts
        number = self.gate.weight.shape[0]
        rows, order, counts = ops.permute(flat, experts, number)
        chosen = weights.flatten()[order]
        if self.axis.size == 1:
            out = self.experts.of_rows(rows, chosen, counts)
            y = ops.unpermute(out, order, len(flat))
            return y, None if shared is None or x is None else shared(x)
        received = self._counts(counts)
        blocks = counts.view(self.axis.size // self.etp, -1).sum(dim=1)
        copies = _copies(blocks, self.etp)
        sends = blocks.repeat_interleave(self.etp).tolist()
        receives = received.sum(dim=1).tolist()
        if copies is not None:
            rows, chosen = rows.index_select(0, copies), chosen.index_select(0, copies)
        finish_rows = collectives.begin(rows, self.axis, sends, receives)
        finish_chosen = collectives.begin(chosen, self.axis, sends, receives)
        hidden = None if shared is None or x is None else shared.hidden(x)
        rows, chosen = finish_rows(), finish_chosen()
        # from (source, expert) to (expert, source)
        local = torch.arange(received.shape[1], device=rows.device).expand_as(received)
        grouped = local.flatten().repeat_interleave(received.flatten()).argsort(stable=True)
        out = self.experts.of_rows(rows.index_select(0, grouped), chosen[grouped], received.sum(dim=0))
        back = torch.empty_like(grouped).scatter_(0, grouped, torch.arange(len(grouped), device=grouped.device))
        finish_out = collectives.begin(out.index_select(0, back), self.axis, receives, sends)
        y_shared = None if hidden is None or shared is None else shared.w2(hidden)
        out = finish_out()
        if copies is not None:
            wide = torch.promote_types(out.dtype, torch.float32)
            total = out.new_zeros(len(order), out.shape[1], dtype=wide)
            out = total.index_add(0, copies, out.to(wide))
        return ops.unpermute(out, order, len(flat)), y_shared

    def _counts(self, counts: Tensor) -> Tensor:
        """Rows that each rank has for each of this rank's experts, [ranks, E / ep]."""
        sent = counts.view(self.axis.size // self.etp, 1, -1).expand(-1, self.etp, -1)
        sent = sent.reshape(self.axis.size, -1).contiguous()
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=self.axis.group)
        return received


def split_moe(moe: MoE, region: Region, axis: Axis, etp: int) -> None:
    """Make a layer's MoE one that shares its experts with other ranks, in place; its weights have been cut."""
    moe.__class__ = ExpertParallelMoE
    split = cast(ExpertParallelMoE, moe)
    split.region, split.axis, split.etp = region, axis, etp


def _copies(blocks: Tensor, etp: int) -> Tensor | None:
    """Row of each row that is sent: each block of rows once per rank that shares its experts; None for one rank."""
    if etp == 1:
        return None
    rows = torch.arange(int(blocks.sum()), device=blocks.device)
    return torch.cat([block.repeat(etp) for block in rows.split(blocks.tolist())])
