"""The Chrome trace says what the simulation says."""

import json
import random
from itertools import pairwise

import pytest

from trex.model.layout import SCHEDULES
from trex.planner.schedules import schedule
from trex.planner.simulate import Costs, simulate
from trex.planner.trace import chrome_trace, write_chrome_trace


@pytest.fixture(params=SCHEDULES)
def timeline(request):
    rng = random.Random(request.param)
    orders = schedule(request.param, 4, 8)
    stages = 4 if request.param in ("gpipe", "1f1b") else 8
    seconds = [tuple(rng.uniform(1e-3, 5e-3) for _ in range(stages)) for _ in range(3)]
    return simulate(orders, Costs(*seconds))


def test_the_file_parses_and_no_rank_overlaps_itself(timeline, tmp_path):
    path = write_chrome_trace(timeline, "a schedule", tmp_path / "traces" / "a.json")
    body = json.loads(path.read_text())
    assert body == chrome_trace(timeline, "a schedule")
    events = [event for event in body["traceEvents"] if event["ph"] == "X"]
    assert len(events) == sum(map(len, timeline.spans))
    for rank, spans in enumerate(timeline.spans):
        lane = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] == rank)
        assert len(lane) == len(spans)
        assert all(end <= start + 1e-6 for (_, end), (start, _) in pairwise(lane))
        assert sum(end - start for start, end in lane) == pytest.approx(timeline.busy_seconds[rank] * 1e6)
    assert max(e["ts"] + e["dur"] for e in events) == pytest.approx(timeline.step_seconds * 1e6)


def test_process_and_threads_are_named(timeline):
    named = [e for e in chrome_trace(timeline, "a schedule")["traceEvents"] if e["ph"] == "M"]
    assert [e["args"]["name"] for e in named if e["name"] == "process_name"] == ["a schedule"]
    threads = {e["tid"]: e["args"]["name"] for e in named if e["name"] == "thread_name"}
    assert threads == {rank: f"rank {rank}" for rank in range(4)}


def test_each_event_names_its_micro_batches():
    events = chrome_trace(simulate(schedule("dualpipe-v", 2, 4), Costs.equal(4)), "x")["traceEvents"]
    pair = next(e for e in events if e.get("cat") == "overlapped")
    assert pair["name"] == "F3&BW1"
    assert pair["args"] == {"F": {"stage": 0, "micro_batch": 3}, "BW": {"stage": 3, "micro_batch": 1}}
