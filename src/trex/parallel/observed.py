"""The work of one step as it was: documents and routing seen by a rank, from which the formula of what is sent follows.

observed = Observed(mine)                       # before the step
with Traffic() as traffic: …                    # the step: accumulate, clip, loads
rows = beside(traffic, observed.transfers(doc_ids, micro_batches), mine.meshes)
"""

from typing import Any

import torch.distributed as dist
from torch import Tensor

from trex.model.config import SPARSE
from trex.model.documents import Documents
from trex.parallel.apply import ParallelModel
from trex.parallel.traffic import ranks_of_axes
from trex.planner.comm import Pack, Rows, Transfer, Work, step_traffic


class Observed:
    """Sees the experts that this rank's tokens choose, in every forward pass from now on."""

    def __init__(self, mine: ParallelModel) -> None:
        self.mine = mine
        self._chosen: dict[str, list[list[int]]] = {}
        self._hooks = [
            block.ffn.gate.register_forward_hook(self._see(name))
            for stage in mine.stages
            for name, block in stage.blocks().items()
        ]

    def transfers(self, doc_ids: Tensor, micro_batches: int, indexer: str = "sparse") -> list[Transfer]:
        """What this rank has to send by formula in the one step that was seen; all ranks call it together.

        doc_ids: [rows, S] of this replica. Layers must not have been recomputed, as the gates then ran twice.
        """
        for hook in self._hooks:
            hook.remove()
        mine, meshes = self.mine, self.mine.meshes
        parts = doc_ids.chunk(micro_batches)
        first = mine.stages[0]
        work = Work(
            doc_ids.shape[1], len(parts[0]), micro_batches, first.dtype.itemsize, first.ahead, indexer,
            packs=tuple(map(_pack, parts)), routing=self._routing(micro_batches),
            indexer_loss=bool(first.scales.get("indexer")),
        )  # fmt: skip
        shard_rank = meshes.dense.get_local_rank("shard") if meshes.dense is not None else 0
        return step_traffic(mine.config, mine.layout, work, meshes.pp.rank, shard_rank)

    def _see(self, name: str) -> Any:
        def hook(gate: Any, inputs: Any, output: tuple[Tensor, Tensor, Tensor]) -> None:
            counts = output[1].flatten().bincount(minlength=self.mine.config.num_experts)
            self._chosen.setdefault(name, []).append(counts.tolist())

        return hook

    def _routing(self, micro_batches: int) -> dict[tuple[str, int], Rows]:
        everywhere: list[dict[str, list[list[int]]]] = [{} for _ in range(self.mine.meshes.world.size)]
        dist.all_gather_object(everywhere, self._chosen)
        experts = ranks_of_axes(self.mine.meshes).get("experts", (self.mine.meshes.rank,))
        return {
            (name, number): Rows.routed(
                [everywhere[rank][name][number] for rank in experts], self.mine.meshes.experts.rank, self.mine.layout
            )
            for name in self._chosen
            for number in range(micro_batches)
        }


def _pack(doc_ids: Tensor) -> Pack:
    """Sizes that follow from the documents of a micro-batch."""
    documents = Documents.packed(doc_ids, {SPARSE})
    return Pack(documents.count, len(documents.blocks[SPARSE]), documents.blocks[SPARSE].most)
