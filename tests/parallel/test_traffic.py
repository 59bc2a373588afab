"""Bytes that the ranks of a parallel training step really send, and the formula of `trex.planner.comm`, exactly."""

from collections import Counter
from dataclasses import replace
from itertools import groupby

import pytest
import torch
import torch.distributed as dist

from trex import parallel
from trex.launch import ranks
from trex.model.config import HEAVY, SPARSE, WINDOW, ModelConfig
from trex.model.layout import Layout
from trex.model.transformer import Transformer
from trex.parallel.traffic import Key, Traffic, TrafficError, beside, ranks_of_axes
from trex.planner.comm import Count, Pack, Rows, Work, step_traffic

CONFIG = ModelConfig.tiny(
    num_layers=4, compress_ratios=(WINDOW, SPARSE, HEAVY, SPARSE), hidden_size=32, num_heads=8, head_dim=16, o_groups=4,
    hash_layers=2, index_topk=4, vocab_size=128, expert_size=16, window=8,
)  # fmt: skip
DEEP = replace(CONFIG, num_layers=8, compress_ratios=(WINDOW, SPARSE) * 4)
ROWS, LENGTH = 8, 48
V = {"pp": 2, "vpp": 2, "schedule": "zb-v"}
SP = {"sequence_parallel": True}


def batch(step):
    """Rows of several documents of uneven length, some padded: tokens, document ids, targets."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(CONFIG.vocab_size, (ROWS, LENGTH), generator=generator)
    documents = torch.zeros(ROWS, LENGTH, dtype=torch.int64)
    for row in range(ROWS):
        for cut in torch.randint(1, LENGTH, (row % 3,), generator=generator).tolist():
            documents[row, cut:] += 1
        if row % 4 == 1:
            documents[row, LENGTH - 5 - row :] = -1
    return tokens, documents, tokens.roll(-1, dims=1).where(documents >= 0, -100)


def pack(doc_ids):
    """Sizes that follow from a micro-batch's documents, by going through its rows."""
    documents = entries = most = 0
    for row in doc_ids.tolist():
        lengths = [(number, len(list(run))) for number, run in groupby(row)]
        documents += len(lengths)
        blocks = [length // 4 for number, length in lengths if number >= 0]
        entries, most = max(entries, sum(blocks)), max(most, *blocks)
    return Pack(documents, entries, most)


def watch(mine, seen):
    """Collect in `seen` the experts that this rank's tokens choose, at the gates' output: by block, of each forward."""

    def add(name, experts):
        seen.setdefault(name, []).append(torch.bincount(experts.flatten(), minlength=CONFIG.num_experts).tolist())

    for stage in mine.stages:
        for name, block in stage.blocks().items():
            block.ffn.gate.register_forward_hook(lambda gate, args, out, name=name: add(name, out[1]))


def routing(seen, meshes, layout, micro_batches):
    """Rows of each block and micro-batch; where layers are recomputed, of all micro-batches in the first."""
    passes = 2 if layout.recompute == "full" else 1
    everywhere = [None] * meshes.world.size
    dist.all_gather_object(everywhere, seen)
    together = [everywhere[rank] for rank in ranks_of_axes(meshes).get("experts", (meshes.rank,))]
    found = {}
    for name in seen:
        assert all(len(each[name]) == passes * micro_batches for each in together)
        for number in range(micro_batches):
            if passes == 1:
                counts = [each[name][number] for each in together]
            else:
                totals = [[sum(column) // passes for column in zip(*each[name], strict=True)] for each in together]
                counts = totals if number == 0 else [[0] * CONFIG.num_experts] * len(together)
            found[name, number] = Rows.routed(counts, meshes.experts.rank, layout)
    return found


def measure(layout, micro_batches, mtp=True, indexer="sparse", config=CONFIG):
    """Of this rank, the second step: measured traffic, transfers by formula, and meshes."""
    meshes = parallel.meshes(layout)
    mine = parallel.apply(Transformer(config, seed=3).double(), layout, meshes)
    optimizer = torch.optim.SGD(mine.parameters().values(), lr=1e-3, foreach=False)
    scales = {"lm": 1e-3, "mtp": 1e-4 * mtp, "indexer": 1e-3, "balance": 1e-5}
    seen = {}

    def step(number):
        part = [t.chunk(meshes.dp.size)[meshes.dp.rank] for t in batch(number)]
        mine.accumulate(*part, micro_batches, scales, indexer=indexer)
        mine.clip(0.5)
        optimizer.step()
        optimizer.zero_grad()
        mine.loads()
        return part[1]

    step(0)
    watch(mine, seen)
    with Traffic() as traffic:
        documents = step(1)
    work = Work(
        LENGTH, len(documents) // micro_batches, micro_batches, torch.float64.itemsize, mtp, indexer,
        packs=tuple(pack(docs) for docs in documents.chunk(micro_batches)),
        routing=routing(seen, meshes, layout, micro_batches),
    )  # fmt: skip
    shard_rank = meshes.dense.get_local_rank("shard") if meshes.dense is not None else 0
    return traffic, step_traffic(config, layout, work, meshes.pp.rank, shard_rank), meshes


def check(rank, cases):
    """Rows of measurement beside formula of each case."""
    return [beside(*measure(*case)) for case in cases]


def differences(world, cases):
    """Where measurement and formula differ, on any rank; each case has more than nothing to send."""
    found = []
    for rank, rows_of_cases in enumerate(ranks.run(check, world, cases)):
        for (layout, *_), rows in zip(cases, rows_of_cases, strict=True):
            assert sum(row.sent for row in rows) > 0, layout
            found += [(layout, rank, row) for row in rows if not row.equal]
    return found


FAST = {
    2: [(Layout(tp=2, ep=2, **SP), 2)],
    4: [(Layout(dp=2, tp=2, sharding="parameters"), 2), (Layout(pp=2, dp=2, ep=2, sharding="optimizer"), 2)],
}
SLOW = {
    2: [
        (Layout(tp=2), 4),
        (Layout(dp=2), 2),
        (Layout(dp=2, ep=2), 4),
        (Layout(tp=2, etp=2, **SP), 2),
        (Layout(dp=2, sharding="optimizer"), 2),
        (Layout(dp=2, sharding="gradients"), 4),
        (Layout(dp=2, sharding="parameters", recompute="full"), 2),
        (Layout(tp=2, sharding="gradients", recompute="full", **SP), 2),
        (Layout(pp=2, schedule="gpipe"), 2),
        (Layout(pp=2, vpp=2, schedule="interleaved"), 4),
        (Layout(**V), 4),
        (Layout(tp=2), 2, False, "frozen"),
        (Layout(tp=2, **SP), 2, True, "warm-up"),
    ],
    4: [
        (Layout(tp=4, **SP), 2),
        (Layout(dp=4, ep=2, etp=2), 2),
        (Layout(dp=4, dp_replicate=2, sharding="parameters"), 2),
        (Layout(dp=4, ep=2, dp_replicate=2, sharding="gradients"), 2),
        (Layout(dp=4, dp_replicate=4, sharding="optimizer"), 2),
        (Layout(dp=4, ep=2, sharding="parameters", recompute="full"), 2),
        (Layout(pp=2, vpp=2, schedule="interleaved", dp=2, sharding="parameters"), 4),
        (Layout(pp=2, vpp=4, schedule="interleaved", dp=2, sharding="optimizer"), 4, True, "sparse", DEEP),
        (Layout(pp=4, noop_layers=(3,), stage_layers=(1, 1, 1, 2)), 4),
        (Layout(**V, dp=2, sharding="gradients"), 4, False),
        (Layout(**V, tp=2, ep=2, **SP), 4),
    ],
    8: [
        (Layout(pp=2, tp=2, dp=2, ep=2), 4),
        (Layout(dp=8, ep=4, sharding="optimizer"), 1),
        (Layout(dp=4, tp=2, ep=2, etp=2, dp_replicate=2, sharding="parameters", **SP), 2),
        (Layout(**V, tp=2, dp=2, ep=4, sharding="gradients", **SP), 4),
    ],
}


@pytest.mark.parametrize("world", FAST)
def test_bytes_are_the_formula_on_some_layouts(world):
    assert differences(world, FAST[world]) == []


@pytest.mark.slow
@pytest.mark.parametrize("world", SLOW)
def test_bytes_are_the_formula_on_the_grid_of_layouts(world):
    assert differences(world, SLOW[world]) == []


def unnoticed(rank, case):
    """Transfers of the formula that could be left out, or called once more or less, and the comparison still hold."""
    traffic, transfers, meshes = measure(*case)
    assert all(row.equal for row in beside(traffic, transfers, meshes))
    assert len(transfers) > 10
    missed = []
    for place, each in enumerate(transfers):
        payload = each.payload // each.calls
        for wrong in (
            [],
            [replace(each, calls=each.calls + 1, payload=each.payload + payload)],
            [replace(each, payload=each.payload - 1)],
        ):
            rows = beside(traffic, [*transfers[:place], *wrong, *transfers[place + 1 :]], meshes)
            if each.axis in ranks_of_axes(meshes) and all(row.equal for row in rows):
                missed.append((each, wrong))
    return missed


def test_a_formula_that_is_off_by_one_call_or_one_byte_is_noticed():
    assert ranks.run(unnoticed, 2, (Layout(tp=2, ep=2), 1)) == [[], []]


def by_hand(rank):
    """One of each operation, of sizes known here; some asynchronous, one in a backward pass."""
    world = dist.get_world_size()

    class Summed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            dist.all_reduce(grad)
            return grad

    x, parts = torch.ones(6), torch.ones(6 * world)
    pair = dist.new_group([0, 1])
    with Traffic() as traffic:
        dist.all_reduce(x)
        dist.all_reduce(x.double(), async_op=True).wait()
        Summed.apply(x.requires_grad_()).sum().backward()
        dist.all_gather_into_tensor(parts, x.detach())
        dist.reduce_scatter_tensor(torch.empty(6), parts, async_op=True).wait()
        dist.all_to_all_single(torch.empty(6 * world), parts)
        # to rank r, r + 1 rows of 2 numbers
        sends, receives = [r + 1 for r in range(world)], [rank + 1] * world
        dist.all_to_all_single(torch.empty(sum(receives), 2), torch.ones(sum(sends), 2), receives, sends)
        if rank < 2:
            for work in dist.batch_isend_irecv(
                [
                    dist.P2POp(dist.isend, torch.ones(5), group=pair, group_peer=1 - rank),
                    dist.P2POp(dist.irecv, torch.ones(5), group=pair, group_peer=1 - rank),
                ]
            ):
                work.wait()
        dist.barrier()
    with Traffic() as refusing:
        try:
            dist.broadcast(x.detach(), src=0)
        except TrafficError as error:
            message = str(error)
    dist.all_reduce(torch.ones(1))  # outside, and after an error: not counted
    return traffic.counts, refusing.counts, message


def test_every_operation_is_counted_forward_backward_and_asynchronous():
    everyone = (0, 1, 2)
    for rank, (counts, refused, message) in enumerate(ranks.run(by_hand, 3)):
        assert counts == {
            Key("all-reduce", everyone): Count(3, 24 + 48 + 24),
            Key("all-gather", everyone): Count(1, 24),
            Key("reduce-scatter", everyone): Count(1, 72),
            Key("all-to-all", everyone): Count(2, 48 + 8 * (6 - rank - 1)),
            **({Key(op, (0, 1)): Count(1, 20) for op in ("send", "receive")} if rank < 2 else {}),
        }
        assert refused == {}
        assert message.startswith("c10d::broadcast_ is not counted; counted: ")


def profiled(rank, layout):
    """Calls by operator of torch's c10d library, of one step as PyTorch's profiler sees them and of one as counted."""
    meshes = parallel.meshes(layout)
    config = replace(CONFIG, num_layers=1, compress_ratios=(SPARSE,), hash_layers=0, mtp_layers=0)
    mine = parallel.apply(Transformer(config, seed=3), layout, meshes)
    part = [t.chunk(meshes.dp.size)[meshes.dp.rank] for t in batch(0)]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        mine.accumulate(*part, 1, {"lm": 1e-3, "indexer": 1e-3, "balance": 1e-5})
    for parameter in mine.parameters().values():
        parameter.grad = None
    with Traffic() as traffic:
        mine.accumulate(*part, 1, {"lm": 1e-3, "indexer": 1e-3, "balance": 1e-5})
    seen = Counter(event.name for event in profile.events() if event.name.startswith("c10d::"))
    return seen, sum(count.calls for count in traffic.counts.values())


def test_calls_are_those_that_the_profiler_sees():
    """It records operators below PyTorch's dispatch to Python, of all threads that run this step."""
    for seen, counted in ranks.run(profiled, 2, Layout(dp=2, ep=2, sharding="parameters")):
        assert {"c10d::alltoall_base_", "c10d::allreduce_", "c10d::_allgather_base_"} <= seen.keys()
        assert seen.total() == counted
