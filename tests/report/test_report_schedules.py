"""The figures show the timelines they are given."""

import pytest

from trex.model.layout import SCHEDULES
from trex.planner.schedules import schedule
from trex.planner.simulate import Costs, simulate
from trex.report.schedules import bubble_curves, gantt, rank_seconds


def timelines():
    stages = {name: 4 if name in ("gpipe", "1f1b") else 8 for name in SCHEDULES}
    return {name: simulate(schedule(name, 4, 8), Costs.equal(count)) for name, count in stages.items()}


def cells(figure):
    """(panel, rank, micro-batch, stage, start, length) of every bar, and the height it has."""
    for trace in figure.data:
        columns = zip(trace.y, trace.customdata, trace.base, trace.x, trace.width, strict=True)
        for y, (micro_batch, stage), start, length, height in columns:
            yield (trace.xaxis or "x", round(y), int(micro_batch), int(stage), start, length, trace.legendgroup), height


def test_gantt_has_a_cell_for_every_operation_where_the_simulation_puts_it():
    drawn = dict(cells(gantt(timelines())))
    expected = {}
    for panel, timeline in enumerate(timelines().values(), start=1):
        axis = "x" if panel == 1 else f"x{panel}"
        for rank, spans in enumerate(timeline.spans):
            for span in spans:
                for part in span.step.parts:
                    key = (axis, rank, part.micro_batch, part.stage, span.start, span.end - span.start, part.kind)
                    expected[key] = len(span.step.parts)
    assert set(drawn) == set(expected)
    assert all(drawn[key] * parts == pytest.approx(0.86) for key, parts in expected.items())


def test_gantt_titles_state_step_and_bubble_and_each_kind_has_one_legend_entry():
    figure = gantt(timelines(), unit="F")
    titles = [annotation.text for annotation in figure.layout.annotations]
    assert "1f1b: step 33 F, bubble 27.3 %" in titles  # 3(m + p - 1); 3(p - 1) of it idle
    assert "zb-v: step 51 F, bubble 5.9 %" in titles
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert len(shown) == len(set(shown)) == 4


def test_a_gantt_grows_until_its_shortest_cell_holds_two_digits():
    wide = gantt({"zb-v": simulate(schedule("zb-v", 8, 16), Costs.equal(16))})
    assert wide.layout.width == 100 + 14 * 103
    assert gantt({"1f1b": timelines()["1f1b"]}).layout.width == 900


def test_curves_and_bars_hold_the_numbers_given():
    figure = bubble_curves({"a": {"1f1b": ((4, 8), (0.3, 0.2))}, "b": {"1f1b": ((4, 8), (0.1, 0.05))}})
    assert [tuple(trace.y) for trace in figure.data] == [(30.0, 20.0), (10.0, 5.0)]
    for (busy, idle), timeline in zip(pairs(rank_seconds(timelines()).data), timelines().values(), strict=True):
        assert [a + b for a, b in zip(busy.y, idle.y, strict=True)] == pytest.approx([timeline.step_seconds] * 4)
        assert tuple(busy.y) == timeline.busy_seconds


def pairs(items):
    return zip(items[::2], items[1::2], strict=True)
