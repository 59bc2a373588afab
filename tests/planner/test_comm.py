"""Bytes sent in a step, against values worked out by hand and laws of the literature."""

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from trex.model import sharding
from trex.model.config import SPARSE, WINDOW, ModelConfig
from trex.model.layout import Layout, LayoutError
from trex.planner.comm import Count, Pack, Rows, Transfer, Work, bytes_sent, sent, step_traffic, summed
from trex.planner.memory import static_bytes

CONFIG = ModelConfig.tiny()  # d 64, 6 layers, 8 experts of which 2, vocabulary 512
B, S, D, M = 2, 128, 64, 3
WORK = Work(seq_len=S, rows=B, micro_batches=M, size=2)
WHOLE = B * S * D * 2


def found(transfers, part, operation=None):
    """Calls and payload of a part of the step."""
    chosen = [t for t in transfers if t.part == part and operation in (None, t.operation)]
    return Count(sum(t.calls for t in chosen), sum(t.payload for t in chosen))


def by_ring(operation, payload, n):
    """Bytes of every rank of a ring: each sends to the next what it passes on, part by part."""
    part = payload if operation == "all-gather" else Fraction(payload, n)
    rounds = {"all-gather": n - 1, "reduce-scatter": n - 1, "all-reduce": 2 * (n - 1)}[operation]
    return sum(part for _ in range(rounds))


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_what_a_collective_sends(n):
    for operation in ("all-gather", "reduce-scatter", "all-reduce"):
        assert sent(operation, 24, n) == by_ring(operation, 24, n)
    assert (sent("all-to-all", 7, n), sent("send", 7, n), sent("receive", 7, n)) == (7, 7, 0)
    with pytest.raises(ValueError, match="operation 'broadcast'; accepted: all-gather"):
        sent("broadcast", 1, n)


def test_one_process_sends_nothing():
    assert step_traffic(CONFIG, Layout(), WORK) == []


def test_tensor_parallelism_by_hand():
    """Megatron-LM: a sub-layer is one all-reduce forward and one backward (arXiv 1909.08053, §3)."""
    plain = step_traffic(CONFIG, Layout(tp=2), WORK)
    layers = 7  # with the MTP block
    for part in ("tensor: attention", "expert: tokens"):
        assert found(plain, part) == Count(2 * layers * M, 2 * layers * M * WHOLE)
    # trunk and MTP block: embedding forward; hidden states backward, 3 numbers per token forward
    assert found(plain, "vocabulary: embedding") == Count(2 * M, 2 * M * WHOLE)
    assert found(plain, "vocabulary: cross-entropy", "all-reduce") == Count(2 * M, 2 * M * WHOLE)
    assert found(plain, "vocabulary: cross-entropy", "all-gather") == Count(2 * M, 2 * M * 3 * B * S * 2)
    # two CSA layers, heads 16 of 16: half of q and w to the other rank and back; ids of 64 of 128 tokens; mass
    held = B * S * 16 * (16 + 1) * 2 // 2
    assert found(plain, "tensor: indexer", "all-to-all") == Count(2 * 2 * 2 * M, 2 * 2 * M * held // 2)
    assert found(plain, "tensor: indexer", "all-gather") == Count(2 * M, 2 * M * B * 64 * 8 * 4)
    assert found(plain, "tensor: indexer", "reduce-scatter") == Count(2 * M, 2 * M * B * S * 8 * 2)
    scored = layers - CONFIG.hash_layers
    assert found(plain, "expert: balance") == Count(scored * M, scored * M * B * (8 + 8 + 1) * 2)


def test_sequence_parallelism_sends_the_same_bytes():
    """An all-reduce is a reduce-scatter and an all-gather (arXiv 2205.05198, §4.2.2)."""
    config = replace(CONFIG, o_groups=4)
    for tp in (2, 4):
        plain, split = (
            step_traffic(config, Layout(tp=tp, sequence_parallel=sequence), WORK) for sequence in (False, True)
        )
        for part in ("tensor: attention", "expert: tokens"):
            sums = [
                sum(sent(t.operation, t.payload, tp) for t in transfers if t.part == part)
                for transfers in (plain, split)
            ]
            assert sums[0] == sums[1]


def test_recomputation_repeats_the_forward_part_of_layers():
    """Enter and leave: without sequence parallelism one all-reduce forward, one backward: 3 for 2."""
    for layout in (Layout(tp=2), Layout(tp=2, sequence_parallel=True)):
        once, again = (step_traffic(CONFIG, layout, replace(WORK, recompute=value)) for value in (False, True))
        for part in ("tensor: attention", "expert: tokens"):
            first, second = (sum(sent(t.operation, t.payload, 2) for t in x if t.part == part) for x in (once, again))
            assert second * 2 == first * 3
        assert found(once, "vocabulary: embedding") == found(again, "vocabulary: embedding")
        assert again == step_traffic(CONFIG, replace(layout, recompute="full"), WORK)


def test_expert_parallelism_by_hand():
    """Perfect balance: of each token's k rows, (n - 1) / n leave; four times: dispatch and combine, there and back."""
    transfers = step_traffic(CONFIG, Layout(dp=4, ep=4), WORK)
    rows = Fraction(B * S * 2 * 3, 4)
    for part, width in (("expert: dispatch", D), ("expert: combine", D), ("expert: weights", 1)):
        assert found(transfers, part) == Count(2 * 7 * M, 2 * 7 * M * rows * width * 2)
    assert found(transfers, "expert: counts") == Count(7 * M, 7 * M * 3 * 2 * 8)


def test_rows_by_routing():
    """Against moving every row; sent over ranks is received over ranks, and equal choices are the expectation."""
    draw = random.Random(0)
    for ep, etp in ((1, 2), (2, 1), (2, 2), (4, 1)):
        layout = Layout(dp=ep * etp, ep=ep, etp=etp)
        counts = [[draw.randrange(5) for _ in range(8)] for _ in range(ep * etp)]
        moved = Counter()
        for source, chosen in enumerate(counts):
            for expert, number in enumerate(chosen):
                for holder in range(ep * etp):
                    if holder // etp == expert // (8 // ep):
                        moved[source, holder] += number
        for rank in range(ep * etp):
            rows = Rows.routed(counts, rank, layout)
            assert rows.sent == sum(n for (a, b), n in moved.items() if a == rank != b)
            assert rows.received == sum(n for (a, b), n in moved.items() if b == rank != a)
            assert Rows.routed([[3] * 8] * (ep * etp), rank, layout) == Rows.balanced(24, layout)


def test_a_given_routing_is_what_is_sent():
    config = replace(CONFIG, num_layers=1, compress_ratios=(WINDOW,), hash_layers=0, mtp_layers=0)
    work = Work(S, B, 2, 4, routing={("layers.0", 0): Rows(5, 3), ("layers.0", 1): Rows(0, 11)})
    transfers = step_traffic(config, Layout(dp=2, ep=2), work)
    assert found(transfers, "expert: dispatch") == Count(4, (5 + 3 + 0 + 11) * D * 4)
    with pytest.raises(LayoutError, match=r"routing has nothing of layers\.0 in micro-batch 1"):
        step_traffic(config, Layout(dp=2, ep=2), replace(work, routing={("layers.0", 0): Rows(5, 3)}))


def trained(config, layout):
    """Trained parameters of one device, from the planner's memory."""
    found = static_bytes(config, layout).ranks[0]
    return found.gradients // layout.precision.gradient


def test_zero_stages():
    """ZeRO (arXiv 1910.02054, §7): 2Ψ for data parallelism and stages 1 and 2, 3Ψ for stage 3, times (n - 1) / n.

    FSDP2's padding and what stays whole are half a percent of this model.
    """
    n = 2
    whole = trained(CONFIG, Layout(dp=n)) * 2
    of_the_rest = 512 * 64 * 2 * 2  # embedding and head are gathered once, as they stay from forward to backward
    one = replace(WORK, micro_batches=1)
    for sharding_, times in (("none", 2), ("optimizer", 2), ("gradients", 2), ("parameters", 3)):
        transfers = step_traffic(CONFIG, Layout(dp=n, sharding=sharding_), one)
        total = sum(sum(bytes_sent([t], Layout(dp=n)).values()) for t in transfers if t.part.startswith("data"))
        saved = of_the_rest if sharding_ == "parameters" else 0
        expected = (times * whole - saved) * Fraction(n - 1, n)
        assert total == pytest.approx(float(expected), rel=5e-3)
        if sharding_ == "none":
            assert total == expected
    many = {s: step_traffic(CONFIG, Layout(dp=n, sharding=s), WORK) for s in ("optimizer", "gradients", "parameters")}
    calls = {s: (found(t, "data: weights").calls, found(t, "data: gradients").calls) for s, t in many.items()}
    groups = 7 * 2 + 1  # experts and the rest of 7 blocks; the rest of the model
    assert calls == {
        "optimizer": (groups, groups),
        "gradients": (groups, M * groups),
        "parameters": (M * (7 * 2 * 2 + 1), M * groups),
    }


def test_shards_are_padded_and_the_last_rank_may_have_less():
    """The rest of the model over 3 ranks: 512 rows of 64 as 171, the norm's 64 as 22, 4 x 256 of mHC as 2 rows."""
    config = replace(CONFIG, mtp_layers=0)
    layout = Layout(dp=3, tp=2, sequence_parallel=True, sharding="optimizer")
    held = [step_traffic(config, layout, WORK, shard_rank=rank) for rank in range(3)]
    gathered = [found(transfers, "data: weights") for transfers in held]
    assert gathered[0] == gathered[1] == gathered[2]  # padded alike
    partial = [found(transfers, "tensor: partial").payload for transfers in held]
    assert partial[0] == partial[1] > partial[2]


def test_hybrid_sharding_sums_shards_over_replicas():
    layout = Layout(dp=4, dp_replicate=2, sharding="gradients")
    transfers = step_traffic(CONFIG, layout, WORK)
    scattered = found(transfers, "data: gradients", "reduce-scatter")
    assert found(transfers, "data: gradients", "all-reduce") == Count(scattered.calls // M, scattered.payload // 2 // M)


def test_pipeline_by_hand():
    """Streams of 4 wholes per boundary and micro-batch, one way forward and the other backward."""
    layout = Layout(pp=3, tp=2, sequence_parallel=True)
    for rank, neighbours in ((0, 1), (1, 2), (2, 1)):
        transfers = step_traffic(CONFIG, layout, WORK, rank)
        for operation in ("send", "receive"):
            assert found(transfers, "pipeline: streams", operation) == Count(neighbours * M, neighbours * M * 2 * WHOLE)
        copies = found(transfers, "pipeline: embedding")
        assert copies == (Count() if rank == 1 else Count(1, 256 * D * 2))
    layout = Layout(pp=2, vpp=2, schedule="zb-v", noop_layers=(1, 3))
    sends = [found(step_traffic(CONFIG, layout, WORK, rank), "pipeline: streams", "send").calls for rank in (0, 1)]
    assert sends == [2 * M, 2 * M]  # stages 0 | 1 2 | 3: nothing at the turn
    assert not found(step_traffic(CONFIG, layout, WORK, 0), "pipeline: embedding").calls


def test_engines_of_many_stages_gather_weights_again():
    """Three stages of a rank are held at a time: with four, those that come back are gathered again."""
    config = replace(CONFIG, num_layers=12, compress_ratios=(WINDOW,) * 12)

    def gathers(vpp):
        layout = Layout(pp=2, vpp=vpp, schedule="interleaved", dp=2, sharding="optimizer")
        return found(step_traffic(config, layout, replace(WORK, micro_batches=4), 0), "data: weights").calls

    blocks = 6 * 2 + 1  # experts and the rest of 6 layers, the embedding
    assert gathers(2) == gathers(3) == blocks
    assert gathers(6) > 2 * blocks


def test_sums_at_the_end_of_a_step():
    """Four losses and which there are, the norm, and the loads of 7 blocks and 8 experts, in numbers of 8 bytes."""
    transfers = step_traffic(CONFIG, Layout(dp=2), WORK)
    sums = {t.part: (t.operation, t.axis, t.calls, t.payload) for t in transfers if t.part.startswith("apply")}
    assert sums == {
        "apply: losses": ("all-reduce", "world", 1, 64),
        "apply: norm": ("all-reduce", "world", 1, 8),
        "apply: loads": ("all-reduce", "world", 1, 7 * 8 * 8),
    }


def test_untrained_losses_send_less():
    layout = Layout(tp=2, dp=2, sharding="parameters")
    full, no_mtp, frozen = (
        step_traffic(CONFIG, layout, work) for work in (WORK, replace(WORK, mtp=False), replace(WORK, indexer="frozen"))
    )
    assert found(no_mtp, "vocabulary: embedding") == Count(M, M * WHOLE)
    assert found(no_mtp, "data: weights").calls == found(full, "data: weights").calls - 2 * 2 * M
    assert found(frozen, "tensor: indexer", "reduce-scatter") == Count()
    assert found(frozen, "data: weights") == found(full, "data: weights")
    assert found(frozen, "data: gradients").payload < found(full, "data: gradients").payload


def test_packs_decide_what_the_indexer_exchanges():
    """No query sees more than top_k = 8 entries: nothing is chosen, and the mass is that of all 20 entries."""
    config = replace(CONFIG, num_layers=1, compress_ratios=(SPARSE,), hash_layers=0, mtp_layers=0)
    work = Work(S, B, 1, 4, packs=(Pack(documents=9, entries=20, most=8),))
    transfers = step_traffic(config, Layout(tp=2), work)
    assert found(transfers, "tensor: indexer", "all-gather") == Count()
    assert found(transfers, "tensor: indexer", "reduce-scatter") == Count(1, B * S * 20 * 4)
    longer = step_traffic(config, Layout(tp=2), replace(work, packs=(Pack(9, 20, 9),)))
    assert found(longer, "tensor: indexer", "all-gather").calls == 1


def test_buckets(monkeypatch):
    monkeypatch.setattr(sharding, "BUCKET", 10)
    for sizes, ends in (([], []), ([4, 6], [2]), ([4, 7, 3], [1, 3]), ([20, 1, 10, 1], [1, 2, 3, 4])):
        places = sharding.buckets(sizes)
        assert [place.stop for place in places] == ends
        assert [size for place in places for size in sizes[place]] == sizes


def test_equal_parts_are_summed():
    one = Transfer("a", "send", "pp", 1, 3)
    assert summed([one, replace(one, part="b"), one]) == [replace(one, calls=2, payload=6), replace(one, part="b")]


@pytest.mark.parametrize("arguments, message", [
    (dict(layout=Layout(cp=2)), "cp = 2; accepted: 1"),
    (dict(layout=Layout(recompute="selective")), "recompute = 'selective'; accepted: none, full"),
    (dict(layout=Layout(pp=3, vpp=2, schedule="zb-v", recompute="full")), "recompute = 'full' under zb-v"),
    (dict(layout=Layout(tp=2), pipeline_rank=1), "pipeline_rank = 1; accepted: 0 to 0"),
    (dict(layout=Layout(dp=4, dp_replicate=2, sharding="optimizer"), shard_rank=2), "shard_rank = 2; accepted: 0 to 1"),
    (dict(layout=Layout(tp=3)), "tp = 3; accepted: divisors of"),
])  # fmt: skip
def test_what_has_no_formula_is_refused(arguments, message):
    with pytest.raises(LayoutError, match=message):
        step_traffic(CONFIG, work=WORK, **arguments)


@pytest.mark.parametrize("wrong", [
    dict(seq_len=0), dict(rows=True), dict(micro_batches=1.5), dict(indexer="dense"), dict(packs=(Pack(1, 1, 1),)),
])  # fmt: skip
def test_work_that_cannot_be_is_refused(wrong):
    with pytest.raises(LayoutError, match=r"accepted: "):
        replace(WORK, **wrong)
