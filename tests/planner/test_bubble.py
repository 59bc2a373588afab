"""Closed forms of bubble and activations against the simulation, on grids and random costs."""

import random

import pytest

from trex.model.layout import SCHEDULES
from trex.planner.bubble import bubble_seconds, peak_activations, published_dualpipe_v_bubble
from trex.planner.schedules import ScheduleError, schedule
from trex.planner.simulate import Costs, simulate


def run(name, p, m, v, forward, backward, weight, overlapped=None):
    return simulate(schedule(name, p, m, v), Costs.equal(p * v, forward, backward, weight, overlapped))


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved"])
def test_every_rank_idles_for_the_closed_form(name):
    rng = random.Random(name)
    compared = 0
    for p in range(1, 9):
        for m in range(1, 3 * p + 2):
            for v in (2, 3, 4) if name == "interleaved" else (1,):
                seconds = [rng.uniform(0.1, 3) for _ in range(3)]
                try:
                    timeline = run(name, p, m, v, *seconds)
                except ScheduleError:
                    continue
                if name != "interleaved" or m >= p:  # the textbook forms, written out once more
                    assert max(timeline.bubble_seconds) == pytest.approx((p - 1) * sum(seconds), abs=1e-9)
                keys = dict(zip(("forward", "backward", "weight"), seconds, strict=True))
                assert timeline.bubble_seconds == pytest.approx([bubble_seconds(name, p, m, v, **keys)] * p, abs=1e-9)
                compared += 1
    assert compared > 100


def test_zb_v_idles_only_before_and_after_when_its_three_operations_are_equal():
    for p in range(1, 9):
        for m in range(2 * p - 1, 4 * p + 1):
            timeline = run("zb-v", p, m, 2, 0.5, 0.5, 0.5)
            expected = bubble_seconds("zb-v", p, m, forward=0.5, backward=0.5, weight=0.5)
            assert expected == 0.5 * (p - 1)
            assert timeline.bubble_seconds == pytest.approx([expected] * p)
            assert timeline.inner_bubble_seconds == pytest.approx([0.0] * p)


def test_zb_v_has_no_closed_form_outside_that_domain():
    assert max(run("zb-v", 4, 6, 2, 1, 1, 1).inner_bubble_seconds) > 0.5  # one micro-batch too few
    assert max(run("zb-v", 4, 16, 2, 1, 1.2, 1).inner_bubble_seconds) > 0.1
    with pytest.raises(ScheduleError, match=r"known from 2 \* ranks - 1 = 7"):
        bubble_seconds("zb-v", 4, 6, forward=1, backward=1, weight=1)
    with pytest.raises(ScheduleError, match="known for F = B = W"):
        bubble_seconds("zb-v", 4, 16, forward=1, backward=1.2, weight=1)


def test_dualpipe_v_idles_most_on_the_last_rank_by_our_closed_form():
    rng = random.Random(5)
    for _ in range(400):
        p = rng.randint(1, 8)
        m = rng.randint(2 * p, 4 * p)
        f, b, w = (rng.choice([rng.uniform(0.1, 4), rng.randint(1, 3)]) for _ in range(3))
        pair = rng.uniform(max(f, b + w), f + b + w)
        idle = run("dualpipe-v", p, m, 2, f, b, w, pair).bubble_seconds
        expected = bubble_seconds("dualpipe-v", p, m, forward=f, backward=b, weight=w, overlapped=pair)
        assert max(idle) == pytest.approx(idle[-1], abs=1e-9)
        assert idle[-1] == pytest.approx(expected, abs=1e-9)


def test_the_published_dualpipe_v_bubble_is_exact_where_forward_equals_input_gradient_and_weight_is_no_longer():
    rng = random.Random(6)
    for _ in range(200):
        p = rng.randint(2, 8)
        f, b, w = (rng.randint(1, 5) for _ in range(3))
        pair = rng.uniform(max(f, b + w), f + b + w)
        published = published_dualpipe_v_bubble(p, forward=f, backward=b, weight=w, overlapped=pair)
        simulated = max(run("dualpipe-v", p, 2 * p + 1, 2, f, b, w, pair).bubble_seconds)
        if f == b >= w:
            assert simulated == pytest.approx(published, abs=1e-9)
        elif f > b or (f == b and w > b):
            assert simulated > published + 0.5
        elif w <= b:  # f < b
            assert published - f - 1e-9 <= simulated < published - 0.5


@pytest.mark.parametrize("name", SCHEDULES)
def test_peak_activations_equal_the_closed_form(name):
    compared = 0
    for p in range(1, 9):
        for m in range(1, 3 * p + 2):
            for v in (2, 3, 4) if name == "interleaved" else (None,):
                try:
                    expected = peak_activations(name, p, m, v)
                except ScheduleError:
                    continue
                orders = schedule(name, p, m, v)
                stages = len({part.stage for order in orders for step in order for part in step.parts})
                assert simulate(orders, Costs.equal(stages)).peak_activations() == expected
                compared += 1
    assert compared > 50


def test_published_activations_per_device():
    """DualPipe's table: PP for 1F1B, PP + 1 for DualPipeV on PP / 2 devices."""
    assert max(peak_activations("1f1b", 8, 32)) == 8
    assert peak_activations("dualpipe-v", 4, 32) == (9,) * 4
