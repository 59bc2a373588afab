"""The simulation against a longest path through the graph of dependencies, and against bounds of every schedule."""

import random
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import pytest

from trex.model.layout import SCHEDULES
from trex.planner.schedules import Operation, Overlapped, ScheduleError, placement, schedule
from trex.planner.simulate import Costs, simulate


def random_costs(rng, stages, pairs=True):
    """Unequal seconds for every stage and every hop."""
    seconds = [tuple(rng.uniform(0.1, 3.0) for _ in range(stages)) for _ in range(4)]
    send = tuple(rng.choice([0.0, rng.uniform(0.0, 1.0)]) for _ in range(stages - 1))
    return Costs(*seconds[:3], overlapped=seconds[3] if pairs else None, send=send)


def graph(orders, costs):
    """Edges (from, to, seconds on the way) between the steps, written down from the rules; None where a step needs what
    no step gives."""
    ranks = {part.stage: rank for rank, order in enumerate(orders) for step in order for part in step.parts}
    giver = {}
    for order in orders:
        for step in order:
            for part in step.parts:
                giver.update({(kind, part.stage, part.micro_batch): step for kind in part.kind})
    edges = [(a, b, 0.0) for order in orders for a, b in pairwise(order)]
    for order in orders:
        for step in order:
            for part in step.parts:
                s, m, last = part.stage, part.micro_batch, part.stage == len(costs.forward) - 1
                needs = {
                    "F": [("F", s - 1, m)] if s else [],
                    "W": [("B", s, m)],
                    "B": [("F", s, m)] + ([] if last else [("B", s + 1, m)]),
                }[part.kind[0]]
                for need in needs:
                    if need not in giver:
                        return None
                    between = min(s, need[1])
                    crosses = s != need[1] and ranks[s] != ranks[need[1]]
                    edges.append((giver[need], step, costs.send[between] if crosses else 0.0))
    return edges


def length(step, costs):
    if isinstance(step, Overlapped):
        both = length(step.forward, costs) + length(step.backward, costs)
        return both if costs.overlapped is None else costs.overlapped[step.forward.stage]
    seconds = {"F": costs.forward, "B": costs.backward, "W": costs.weight}
    return sum(seconds[kind][step.stage] for kind in step.kind)


def longest_path_ends(orders, costs):
    """End of every step: ends are raised along the edges until none changes. Raises CycleError if that never stops."""
    edges = graph(orders, costs)
    if edges is None:
        raise CycleError
    before = {step: set() for order in orders for step in order}
    for source, target, _ in edges:
        before[target].add(source)
    tuple(TopologicalSorter(before).static_order())
    ends = {step: length(step, costs) for order in orders for step in order}
    changed = True
    while changed:
        changed = False
        for source, target, way in edges:
            end = ends[source] + way + length(target, costs)
            if end > ends[target]:
                ends[target], changed = end, True
    return ends


def drawn(rng, name):
    """A legal size of a schedule."""
    while True:
        p, m, v = rng.randint(1, 5), rng.randint(1, 12), rng.randint(1, 4)
        try:
            return p, m, v, schedule(name, p, m, v)
        except ScheduleError:
            continue


@pytest.mark.parametrize("name", SCHEDULES)
def test_simulation_equals_longest_path(name):
    rng = random.Random(f"path {name}")
    for _ in range(25):
        p, _, v, orders = drawn(rng, name)
        costs = random_costs(rng, p * v, pairs=rng.random() < 0.7)
        expected = longest_path_ends(orders, costs)
        for spans in simulate(orders, costs).spans:
            for span in spans:
                assert span.end == pytest.approx(expected[span.step], rel=1e-12)
                assert span.end - span.start == pytest.approx(length(span.step, costs), rel=1e-9)


def test_random_orders_finish_exactly_where_the_graph_has_no_cycle():
    rng = random.Random(3)
    finished = stuck = 0
    while finished < 40 or stuck < 40:
        p, _, v, orders = drawn(rng, rng.choice(SCHEDULES))
        for order in orders:
            for _ in range(rng.randint(0, 3)):
                i = rng.randrange(len(order))
                j = min(len(order) - 1, i + rng.randint(1, 3))
                order[i], order[j] = order[j], order[i]
        costs = random_costs(rng, p * v)
        try:
            expected = longest_path_ends(orders, costs)
        except CycleError:
            stuck += 1
            with pytest.raises(ScheduleError, match="cannot finish"):
                simulate(orders, costs)
        else:
            finished += 1
            step = simulate(orders, costs).step_seconds
            assert step == pytest.approx(max(expected.values()), rel=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_rules_hold_and_bounds_are_kept_with_random_costs(name):
    rng = random.Random(f"rules {name}")
    for _ in range(25):
        p, m, v, orders = drawn(rng, name)
        costs = random_costs(rng, p * v)
        timeline = simulate(orders, costs)
        done = {}
        for spans, order in zip(timeline.spans, orders, strict=True):
            assert [span.step for span in spans] == order
            assert all(a.end <= b.start for a, b in pairwise(spans))  # one step at a time
            for span in spans:
                for part in span.step.parts:
                    done.update({(kind, part.stage, part.micro_batch): span for kind in part.kind})
        assert len(done) == 3 * m * p * v
        for (kind, stage, micro_batch), span in done.items():
            if kind == "F" and stage > 0:
                assert span.start >= done["F", stage - 1, micro_batch].end
            if kind == "B":
                assert span.start >= done["F", stage, micro_batch].end
                assert stage == p * v - 1 or span.start >= done["B", stage + 1, micro_batch].end
            if kind == "W" and "B" not in [part.kind[0] for part in span.step.parts]:
                assert span.start >= done["B", stage, micro_batch].end
        step = timeline.step_seconds
        assert step >= max(timeline.busy_seconds) - 1e-9
        if name != "dualpipe-v":  # one micro-batch forwards and back through all stages
            chain = sum(costs.forward) + sum(costs.backward) + 2 * crossings(costs.send, placement(name, p, v))
            assert step >= chain - 1e-9
        assert timeline.bubble_fraction == pytest.approx(1 - sum(timeline.busy_seconds) / (p * step))
        assert all(0 <= inner <= idle + 1e-9 for inner, idle in inner_and_whole(timeline))


def crossings(send, stages_of_ranks):
    rank_of = {stage: rank for rank, stages in enumerate(stages_of_ranks) for stage in stages}
    return sum(seconds for stage, seconds in enumerate(send) if rank_of[stage] != rank_of[stage + 1])


def inner_and_whole(timeline):
    inner = [0.0 if abs(x) < 1e-9 else x for x in timeline.inner_bubble_seconds]
    return zip(inner, timeline.bubble_seconds, strict=True)


def test_sending_delays_gpipe_by_both_ways_through_the_pipeline():
    for p, m in ((1, 3), (2, 1), (4, 8), (8, 5)):
        costs = Costs.equal(p, 2.0, 3.0, 1.5, send=0.25)
        step = simulate(schedule("gpipe", p, m), costs).step_seconds
        assert step == pytest.approx((m + p - 1) * 6.5 + 2 * (p - 1) * 0.25)


def test_the_turn_of_the_v_is_not_sent():
    costs = Costs.equal(2, send=5.0)
    assert simulate(schedule("zb-v", 1, 4), costs).step_seconds == 4 * 6


def test_the_slowest_stage_sets_the_pace():
    loads = (1.0, 1.0, 3.0, 1.0)
    steps = [simulate(schedule("1f1b", 4, m), Costs.proportional(loads, 1, 1, 1)).step_seconds for m in (16, 17)]
    assert steps[1] - steps[0] == pytest.approx(9.0)


def test_a_pair_takes_the_seconds_given_or_the_sum():
    pair = Overlapped(Operation("F", 0, 1), Operation("BW", 1, 0))
    assert Costs.equal(2, 1, 2, 3).seconds(pair) == 6
    assert Costs.equal(2, 1, 2, 3, overlapped=4.5).seconds(pair) == 4.5


def test_activations_are_held_from_forward_to_weight_gradient():
    f, b, w = (Operation(kind, 0, 0) for kind in "FBW")
    f1, bw1 = Operation("F", 0, 1), Operation("BW", 0, 1)
    assert simulate([[f, b, w, f1, bw1]], Costs.equal(1)).peak_activations() == (1,)
    assert simulate([[f, b, f1, w, bw1]], Costs.equal(1)).peak_activations() == (2,)
    pair = Overlapped(f1, Operation("BW", 0, 0))
    assert simulate([[f, pair, bw1]], Costs.equal(1)).peak_activations([2.5]) == (5.0,)


def test_a_deadlock_names_every_rank_and_what_it_waits_for():
    orders = schedule("1f1b", 2, 2)
    orders[0].reverse()
    with pytest.raises(ScheduleError) as error:
        simulate(orders, Costs.equal(2))
    text = str(error.value)
    assert "rank 0 at BW(stage 0, micro-batch 1) waits for F(stage 0, micro-batch 1)" in text
    assert "rank 1 at F(stage 1, micro-batch 0) waits for F(stage 0, micro-batch 0)" in text


def test_orders_and_costs_that_do_not_fit_are_refused():
    orders = schedule("gpipe", 2, 2)
    with pytest.raises(ScheduleError, match="costs for 3 stages, orders of stages"):
        simulate(orders, Costs.equal(3))
    with pytest.raises(ScheduleError, match="stage 0 runs on ranks 0 and 1"):
        simulate([orders[0], orders[0]], Costs.equal(1))
    with pytest.raises(ScheduleError, match="repeats F"):
        simulate([[Operation("F", 0, 0), Operation("F", 0, 0)]], Costs.equal(1))
    with pytest.raises(ScheduleError, match="1 entries of weight; accepted: 2"):
        Costs((1.0, 1.0), (1.0, 1.0), (1.0,))
    with pytest.raises(ScheduleError, match=r"forward = -1\.0 s"):
        Costs.equal(2, forward=-1.0)
    with pytest.raises(ScheduleError, match="send = inf s"):
        Costs.equal(2, send=float("inf"))
