"""The orders of operations against PyTorch's own, and the rules every order keeps."""

from collections import Counter

import pytest

from trex.model.layout import SCHEDULES
from trex.planner.schedules import Operation, Overlapped, ScheduleError, placement, schedule

TORCH = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved1F1B",
    "zb-v": "ZBVZeroBubble",
    "dualpipe-v": "DualPipeV",
}
KINDS = {"F": "F", "I": "B", "W": "W", "B": "BW"}  # PyTorch's names of the kinds: I for input gradients, B for both


def from_torch(name, ranks, micro_batches, stages_per_rank):
    """PyTorch's order, without idle slots and what is not computed; None where PyTorch has no such schedule."""
    visualizer = pytest.importorskip("torch.distributed.pipelining._schedule_visualizer")
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    try:
        schedules.get_schedule_class(TORCH[name])
    except ValueError:
        pytest.skip(f"this PyTorch has no {TORCH[name]}")
    try:
        ranks_actions = visualizer.get_schedule_ops(TORCH[name], ranks, micro_batches, stages_per_rank)
    except (ValueError, AssertionError):
        return None
    orders = [[converted(a) for a in actions if a is not None and computes(a)] for actions in ranks_actions]
    if name == "1f1b" and orders[-1][0].micro_batch == 1:
        # PyTorch numbers the forwards of the last rank from 1 in this listing (its runtime does not)
        orders[-1] = [Operation(o.kind, o.stage, o.micro_batch - (o.kind == "F")) for o in orders[-1]]
    return orders


def computes(action):
    return getattr(action, "sub_actions", None) is not None or action.computation_type.value in KINDS


def converted(action):
    if getattr(action, "sub_actions", None) is not None:
        return Overlapped(*map(converted, action.sub_actions))
    return Operation(KINDS[action.computation_type.value], action.stage_index, action.microbatch_index)


def ours(name, ranks, micro_batches, stages_per_rank):
    try:
        return schedule(name, ranks, micro_batches, stages_per_rank)
    except ScheduleError:
        return None


def agree(name, ranks, micro_batches, stages_per_rank):
    """Whether both have the schedule, after asserting that they agree on that and on every operation."""
    expected, found = (f(name, ranks, micro_batches, stages_per_rank) for f in (from_torch, ours))
    if name == "1f1b" and micro_batches < ranks:  # a good order that PyTorch's runtime refuses
        assert expected is None and found is not None
        return False
    assert found == expected, (name, ranks, micro_batches, stages_per_rank)
    return found is not None


def stages_of(name):
    return [1] if name in ("gpipe", "1f1b") else [2, 3, 4] if name == "interleaved" else [2, 3]


@pytest.mark.parametrize("name", SCHEDULES)
def test_order_equals_pytorch(name):
    sizes = [(2, 3), (2, 4), (3, 2), (3, 5), (3, 9), (4, 4), (4, 6), (4, 10), (5, 12), (6, 12), (8, 16), (8, 19)]
    compared = [agree(name, p, m, v) for p, m in sizes for v in stages_of(name)]
    assert sum(compared) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
def test_order_equals_pytorch_on_the_whole_grid(name):
    compared = [agree(name, p, m, v) for p in range(1, 9) for m in range(1, 34) for v in stages_of(name)]
    assert sum(compared) >= 100


def test_order_equals_pytorch_with_more_than_ten_stages_per_rank():
    assert agree("interleaved", 2, 4, 12)


CASES = [
    (name, p, m, v)
    for name in SCHEDULES
    for p in (1, 2, 3, 5, 8)
    for m in (1, 2, 5, 8, 16, 17)
    for v in stages_of(name)
    if ours(name, p, m, v) is not None
]


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_micro_batch_passes_every_stage_once(name):
    for _, p, m, v in (case for case in CASES if case[0] == name):
        orders = schedule(name, p, m, v)
        parts = [part for order in orders for step in order for part in step.parts]
        results = Counter((kind, part.stage, part.micro_batch) for part in parts for kind in part.kind)
        assert results == Counter({(k, s, i): 1 for k in "FBW" for s in range(p * v) for i in range(m)})
        assert {part.kind for part in parts} <= {"F", "B", "W", "BW"}
        for order, stages in zip(orders, placement(name, p, v), strict=True):
            assert {part.stage for step in order for part in step.parts} == set(stages)


def test_overlapped_pairs_are_a_forward_and_a_full_backward_of_the_two_stages_of_a_rank():
    orders = schedule("dualpipe-v", 4, 10)
    pairs = [(rank, step) for rank, order in enumerate(orders) for step in order if isinstance(step, Overlapped)]
    assert all((pair.forward.kind, pair.backward.kind) == ("F", "BW") for _, pair in pairs)
    assert all({pair.forward.stage, pair.backward.stage} == {rank, 7 - rank} for rank, pair in pairs)
    # 2m - 3p + r + 1 pairs on rank r, one fewer on the last, where the first is left apart
    assert Counter(rank for rank, _ in pairs) == {0: 9, 1: 10, 2: 11, 3: 11}


def test_stages_per_rank_defaults_to_what_the_schedule_needs():
    assert schedule("gpipe", 2, 3) == schedule("gpipe", 2, 3, 1)
    assert schedule("zb-v", 2, 3) == schedule("zb-v", 2, 3, 2)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("zbv", 4, 8), "schedule = 'zbv'; accepted: gpipe, 1f1b, interleaved, zb-v, dualpipe-v"),
        (("gpipe", 0, 8), "ranks = 0; accepted"),
        (("gpipe", 4, 0), "micro_batches = 0; accepted"),
        (("gpipe", 4, 2.0), "micro_batches = 2.0; accepted"),
        (("gpipe", True, 2), "ranks = True; accepted"),
        (("gpipe", 4, 8, 2), "stages per rank (vpp) = 2; accepted under gpipe: 1"),
        (("1f1b", 4, 8, 2), "stages per rank (vpp) = 2; accepted under 1f1b: 1"),
        (("interleaved", 4, 8, 1), "stages per rank (vpp) = 1; accepted under interleaved: from 2"),
        (("interleaved", 4, 9, 2), "micro-batches = 9 on 4 ranks; accepted under interleaved: multiples of 2"),
        (("zb-v", 4, 8, 1), "stages per rank (vpp) = 1; accepted under zb-v: 2"),
        (("dualpipe-v", 4, 8, 4), "stages per rank (vpp) = 4; accepted under dualpipe-v: 2"),
        (("dualpipe-v", 4, 7), "micro-batches = 7 on 4 ranks; accepted under dualpipe-v: from 2 x ranks = 8"),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(arguments, named):
    with pytest.raises(ScheduleError) as error:
        schedule(*arguments)
    assert named in str(error.value)
