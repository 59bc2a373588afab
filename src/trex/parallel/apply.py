"""A layout applied to a model: `parallel.apply(model, layout, meshes)` gives what this rank trains.

layout = Layout(tp=2, dp=2, sharding="parameters")  # on 4 ranks of torch.distributed
mine = parallel.apply(Transformer(config), layout, parallel.meshes(layout))
optimizer = torch.optim.AdamW(mine.parameters().values())
# rows of this replica, [rows, S] each; scales: the weight of each loss over its tokens in the whole step
mine.accumulate(tokens, doc_ids, targets, micro_batches, {"lm": 1 / all_targets})
norm = mine.clip(1.0)
optimizer.step()
optimizer.zero_grad()
state = TrainingState(mine.module, optimizer, {"config": asdict(config)}, pieces=mine.pieces())
training.save(Path("run/step-00000001"), state)  # of `trex.checkpoint`, with all ranks
"""

from collections.abc import Mapping
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from trex.model.block import Block
from trex.model.layout import Layout, LayoutError
from trex.model.pieces import Piece, local
from trex.model.sharding import gradient_is_partial
from trex.model.transformer import Transformer
from trex.parallel import data
from trex.parallel.expert import split_moe
from trex.parallel.meshes import Meshes
from trex.parallel.pipeline import Pipeline
from trex.parallel.stage import Stage
from trex.parallel.tensor import Region, cut, split_attention, splits_of
from trex.parallel.vocabulary import VocabularyParallelEmbedding

EXPERTS = ".ffn.experts."
EMBEDDING = "embed.weight"
LOSSES = ("lm", "mtp", "indexer", "balance")


def check(layout: Layout) -> None:
    """Raise LayoutError for what the planner knows and training does not yet do."""
    for field, accepted in (("cp", 1), ("swap_optimizer", False)):
        if getattr(layout, field) != accepted:
            raise LayoutError(f"{field} = {getattr(layout, field)!r}; accepted in training: {accepted!r}")
    if layout.recompute == "selective":
        raise LayoutError("recompute = 'selective'; accepted in training: none, full")
    if layout.schedule == "1f1b" and layout.global_batch is not None and layout.micro_batches < layout.pp:
        raise LayoutError(f"micro-batches = {layout.micro_batches} under 1f1b; accepted: from pp = {layout.pp}")
    _check_recompute(layout.schedule, layout.recompute == "full")


def _check_recompute(schedule: str, recompute: bool) -> None:
    if recompute and schedule == "zb-v":  # the engine starts a backward pass of its own for each group of weights
        raise LayoutError("recompute = 'full' under zb-v; accepted: none, as each layer would be recomputed many times")


class ParallelModel:
    """The stages of this rank, and what is summed over ranks at the end of a step.

    `accumulate`, `evaluate`, `clip`, `shift_biases` are called by all ranks together.
    """

    def __init__(self, model: Transformer, layout: Layout, meshes: Meshes) -> None:
        self.config, self.layout, self.meshes = model.config, layout, meshes
        self.device = model.embed.weight.device
        region = Region(meshes.tp, layout.sequence_parallel)
        parts = [part for part in layout.stages(model.config) if part.rank == meshes.pp.rank]
        splits = splits_of(model.config, meshes)
        self._shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
        self._offsets = cut(model, lambda name: splits.get(name, []))
        self._split = splits.keys()
        if layout.tp > 1:
            model.embed.__class__ = VocabularyParallelEmbedding
            model.embed.axis = meshes.tp  # type: ignore[assignment]
            model.embed.num_embeddings //= layout.tp
        for block in cast(list[Block], [*model.layers, *model.mtp]):
            if layout.tp > 1:
                split_attention(block.attn, region)
            if layout.tp > 1 or meshes.experts.size > 1 or meshes.expert is not None:
                split_moe(block.ffn, region, meshes.experts, layout.etp)
        self.stages = [Stage(model, part, region) for part in parts]
        self.module: nn.Module = model if meshes.world.size == 1 else nn.ModuleList(self.stages)
        twice = [p for n, p in model.named_parameters() if n == EMBEDDING and self._embeddings() > 1]
        for stage in self.stages:
            if meshes.dense is not None or meshes.expert is not None:
                data.shard(stage, meshes, twice)
        self._pipeline = (
            Pipeline(self.stages, [part.index for part in parts], meshes, self.device) if layout.pp > 1 else None
        )

    def parameters(self) -> dict[str, nn.Parameter]:
        """This rank's parameters by their names in the model; of FSDP, its shards."""
        return {name: parameter for stage in self.stages for name, parameter in stage.named_parameters()}

    def materialise(self, device: torch.device) -> None:
        """Give a model that was built on the meta device memory for this rank's part, without values.

        Parameters are new objects afterwards: take `parameters()` and `pieces()` then.
        """
        for stage in self.stages:
            stage.to_empty(device=device)
        if self.meshes.world.size == 1:  # the model and its only stage share modules, and these parameters
            for name, parameter in self.stages[0].named_parameters(recurse=False):
                setattr(self.module, name, parameter)
        self.device = device
        if self._pipeline is not None:
            self._pipeline.device = device

    def pieces(self) -> dict[str, Piece]:
        """This rank's blocks of the model's tensors, buffers included, by name."""
        found = {}
        for name, parameter in self.parameters().items():
            inner = data.shard_offset(parameter) if isinstance(parameter, DTensor) else (0,) * parameter.dim()
            offset = [outer + more for outer, more in zip(self._offsets[name], inner, strict=True)]
            found[name] = Piece(parameter, self._shapes[name], tuple(offset))
        for stage in self.stages:
            for name, buffer in stage.named_buffers():
                found[name] = Piece(buffer, tuple(buffer.shape), (0,) * buffer.dim())
        return found

    def accumulate(
        self, tokens: Tensor, doc_ids: Tensor, targets: Tensor, micro_batches: int, scales: Mapping[str, float], *,
        indexer: str = "sparse", recompute: bool = False,
    ) -> dict[str, float]:  # fmt: skip
        """Forward and backward of the rows of this replica [rows, S]; leaves whole gradients on every rank.

        scales: of "lm", "mtp", "indexer" and "balance", the weight over the loss's tokens in the whole step; a loss of
        weight 0 is not trained, nor the MTP block run if it is its loss. Returns each loss summed over all tokens of
        the step. Raises LayoutError where the rows are no multiple of the micro-batches or their length none of tp,
        where gradients of an earlier call are there, for another loss, and for recomputation under zb-v.
        """
        self._check_length(tokens)
        recompute = recompute or self.layout.recompute == "full"
        _check_recompute(self.layout.schedule, recompute)
        unknown = sorted(scales.keys() - set(LOSSES))
        if unknown:
            raise LayoutError(f"scales of {', '.join(unknown)}; accepted: {', '.join(LOSSES)}")
        if any(parameter.grad is not None for parameter in self.parameters().values()):
            raise LayoutError("there are gradients of an earlier call; accepted: none, after optimizer.zero_grad()")
        if len(tokens) % micro_batches:
            raise LayoutError(
                f"micro-batches = {micro_batches}; accepted: divisors of this replica's {len(tokens)} rows"
            )
        self._prepare(scales, indexer, recompute)
        if self._pipeline is not None:
            self._pipeline.accumulate(tokens, doc_ids, targets, micro_batches)
        else:
            parts = [t.chunk(micro_batches) for t in (tokens, doc_ids, targets)]
            for number, (ids, docs, goals) in enumerate(zip(*parts, strict=True), start=1):
                data.before_micro_batch(self.stages[0], self.layout.sharding, number == micro_batches)
                self.stages[0](ids, ids, docs, goals).backward()
        self._sum_gradients()
        return self._losses()

    @torch.no_grad()
    def evaluate(
        self, tokens: Tensor, doc_ids: Tensor, targets: Tensor, micro_batch: int, indexer: str = "frozen"
    ) -> dict[str, float]:
        """Each loss but the MTP block's, summed over the rows of all replicas [rows, S], `micro_batch` rows at a time.

        All replicas give as many rows.
        """
        self._check_length(tokens)
        self._prepare({}, indexer, False)
        if self._pipeline is not None:
            self._pipeline.evaluate(tokens, doc_ids, targets, micro_batch)
        else:
            for ids, docs, goals in zip(*(t.split(micro_batch) for t in (tokens, doc_ids, targets)), strict=True):
                self.stages[0](ids, ids, docs, goals)
        for stage in self.stages:
            data.reshard(stage)
        return self._losses()

    def loads(self) -> Tensor:
        """Real tokens of each expert in the last step, over all ranks: [layers, the MTP block last if run, E] int64."""
        names = [f"layers.{layer}" for layer in range(self.config.num_layers)]
        names += [f"mtp.{depth}" for depth in range(self.config.mtp_layers if self.stages[0].ahead else 0)]
        total = torch.zeros(len(names), self.config.num_experts, dtype=torch.int64, device=self.device)
        for stage in self.stages:
            for name, load in stage.found.loads.items():
                total[names.index(name)] += load
        if self.meshes.world.size > 1:
            dist.all_reduce(total, group=self.meshes.world.group)
        return total

    def shift_biases(self, loads: Tensor, speed: float) -> None:
        """Move the selection biases against `loads()`, after an optimizer step."""
        for stage in self.stages:
            for name, block in stage.blocks().items():
                kind, number = name.split(".")
                row = int(number) + (self.config.num_layers if kind == "mtp" else 0)
                if row < len(loads):
                    block.ffn.gate.shift_bias(loads[row], speed)

    def gradients(self) -> dict[str, Tensor]:
        """This rank's shards of the gradients, as plain tensors, by name."""
        return {n: local(p.grad) for n, p in self.parameters().items() if p.grad is not None}

    def owned(self, name: str) -> bool:
        """Whether this rank's block is the one that counts among equal ones."""
        meshes, sharded = self.meshes, isinstance(self.parameters()[name], DTensor)
        if EXPERTS in name:
            replicas, shards = meshes.expert_dp, meshes.expert
        else:
            replicas, shards = meshes.dp, meshes.dense
        if not sharded and replicas.rank > 0:
            return False
        if sharded and shards is not None and shards.ndim == 2 and shards.get_local_rank("replica") > 0:
            return False
        if EXPERTS not in name and name not in self._split and meshes.tp.rank > 0:
            return False
        return not (name == EMBEDDING and meshes.ends.rank > 0)

    @torch.no_grad()
    def norm(self) -> Tensor:
        """Norm of the whole model's gradient, a scalar."""
        found = self.gradients()
        if self.meshes.world.size == 1:
            return torch.nn.utils.get_total_norm(list(found.values()))
        squares = [g.double().square().sum() for name, g in found.items() if self.owned(name)]
        total = torch.stack(squares).sum() if squares else torch.zeros((), dtype=torch.float64, device=self.device)
        dist.all_reduce(total, group=self.meshes.world.group)
        return total.sqrt()

    @torch.no_grad()
    def clip(self, most: float) -> float:
        """Scale all gradients so that their norm is at most `most`; returns the norm before."""
        norm = self.norm()
        factor = torch.clamp(most / (norm + 1e-6), max=1.0)
        for gradient in self.gradients().values():
            gradient.mul_(factor)
        return float(norm)

    def _check_length(self, tokens: Tensor) -> None:
        if tokens.shape[1] % self.layout.tp:
            raise LayoutError(f"rows of {tokens.shape[1]} positions; accepted: multiples of tp = {self.layout.tp}")

    def _prepare(self, scales: Mapping[str, float], indexer: str, recompute: bool) -> None:
        for stage in self.stages:
            stage.found.losses.clear()
            stage.found.loads.clear()
            stage.scales, stage.indexer, stage.recompute = scales, indexer, recompute
            stage.ahead = bool(scales.get("mtp"))

    def _sum_gradients(self) -> None:
        """What FSDP2 has not summed: whole weights over replicas, parts over tp, the embedding over its copies."""
        meshes, found = self.meshes, self.parameters()
        if meshes.ends.size > 1 and self.config.mtp_layers and EMBEDDING in found and found[EMBEDDING].grad is None:
            found[EMBEDDING].grad = torch.zeros_like(found[EMBEDDING])  # the MTP block was not run: copies stay equal
        plain = {n: p.grad for n, p in found.items() if p.grad is not None and not isinstance(p, DTensor)}
        data.sum_over((g for n, g in plain.items() if EXPERTS in n), meshes.expert_dp)
        data.sum_over((g for n, g in plain.items() if EXPERTS not in n), meshes.dp)
        gradients = self.gradients()
        partial = [
            g for n, g in gradients.items()
            if EXPERTS not in n and n not in self._split and gradient_is_partial(n, self.layout)
        ]  # fmt: skip
        data.sum_over(partial, meshes.tp)
        if self.config.mtp_layers:
            data.sum_over((g for n, g in gradients.items() if n == EMBEDDING), meshes.ends)

    def _losses(self) -> dict[str, float]:
        names = LOSSES
        sums = torch.zeros(2, len(names), dtype=torch.float64)
        for stage in self.stages:
            for name, value in stage.found.losses.items():
                # what all tp ranks have alike counts once; of the indexer's loss each has a part
                if name == "indexer" or self.meshes.tp.rank == 0:
                    sums[0, names.index(name)] += value.double().cpu()
                sums[1, names.index(name)] = 1
        if self.meshes.world.size > 1:
            sums = sums.to(self.device)
            dist.all_reduce(sums, group=self.meshes.world.group)
        return {name: float(value) for name, value, known in zip(names, *sums, strict=True) if known}

    def _embeddings(self) -> int:
        return sum(hasattr(stage, "embed") for stage in self.stages)


def apply(model: Transformer, layout: Layout, meshes: Meshes) -> ParallelModel:
    """What this rank trains of `model`, whose modules it takes over: the model is of no other use where ranks are many.

    Raises LayoutError where the layout does not fit the model or asks for what training does not do.
    """
    check(layout)
    layout.check(model.config)
    if meshes.layout != layout:
        raise LayoutError(f"meshes of {meshes.layout}; accepted: those of the layout, {layout}")
    return ParallelModel(model, layout, meshes)
