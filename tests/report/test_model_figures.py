"""Figures of the model show every part once, and the totals they are built from."""

from collections import Counter
from dataclasses import replace

import pytest

from trex.labels import ResultError
from trex.model.config import ModelConfig
from trex.model.count import OPERATIONS, flops, parameters
from trex.model.published_layouts import published_layouts
from trex.model.weights import PARTS
from trex.planner.memory import GIB, ascend_910c_die, static_bytes
from trex.report import model as figures


def stacked(figure, axis: str) -> Counter:
    """Sum of the bars by category."""
    sums: Counter = Counter()
    for trace in figure.data:
        if trace.type == "bar":
            horizontal = trace.orientation == "h"
            values, names = (trace.x, trace.y) if horizontal else (trace.y, trace.x)
            for name, value in zip(names, values, strict=True):
                sums[(trace[f"{axis}axis"] or axis, name)] += value
    return sums


def test_groups_hold_every_part_and_operation_once():
    held = [name for names in figures.GROUPS.values() for name in names]
    assert sorted(held) == sorted((*PARTS, *OPERATIONS))


def test_a_part_without_a_group_is_refused():
    with pytest.raises(ResultError, match="'adapter' belongs to no group; parts: routed_experts"):
        figures.grouped({"head": 1.0, "adapter": 2.0})


def test_shares_add_up():
    config = ModelConfig.flash()
    figure = figures.stored_and_active({"Flash": parameters(config)})
    sums = stacked(figure, "y")
    assert list(sums.values()) == [pytest.approx(100), pytest.approx(100)]
    assert [name for _, name in sums] == ["Flash, stored: 284.33 B", "Flash, active: 13.27 B"]
    routed = next(trace for trace in figure.data if trace.name == "routed experts")
    assert routed.x[1] == pytest.approx(100 * 43 * 6 * 3 * 4096 * 2048 / parameters(config).active)


def test_bars_of_flops_are_the_forward_pass():
    configs = {"Flash": ModelConfig.flash(), "Pro": ModelConfig.pro()}
    counted = {name: [flops(config, length) for length in (4096, 2**20)] for name, config in configs.items()}
    sums = stacked(figures.flops_per_token(counted), "x")
    expected = [each.forward / 1e9 for flop in counted.values() for each in flop]
    assert list(sums.values()) == pytest.approx(expected)
    assert [name for _, name in sums] == ["4K", "1M"] * 2


def test_bars_of_memory_are_the_fullest_die_and_the_host_comes_on_top():
    found = published_layouts()[0]
    held = static_bytes(found.config, found.layout)
    resident = static_bytes(found.config, replace(found.layout, swap_optimizer=False))
    figure = figures.static_memory({"Pro": (held, resident)}, ascend_910c_die())
    assert list(stacked(figure, "y").values()) == [pytest.approx(held.largest.device / GIB)]
    assert next(t for t in figure.data if t.type == "scatter").x == (pytest.approx(resident.largest.device / GIB),)
    by_rank = stacked(figures.static_memory_by_rank(held, ascend_910c_die()), "x")
    expected = [(rank.device + rank.host_optimizer) / GIB for rank in held.ranks]
    assert list(by_rank.values()) == pytest.approx(expected)
