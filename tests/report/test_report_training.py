"""The loss curve shows the data it is given."""

import pytest

from trex.report.training import auxiliary_losses, load_imbalance, loss_curve, recipe_table, running_average
from trex.train.recipes import embedded_cpt, published


def test_running_average_by_hand() -> None:
    assert running_average([4.0, 2.0, 1.0], 0.5) == pytest.approx([4.0, (4 + 2 * 2) / 3, (4 + 2 * 2 + 4 * 1) / 7])
    assert running_average([3.0] * 5, 0.9) == pytest.approx([3.0] * 5)
    assert running_average([4.0, 2.0], 0.0) == [4.0, 2.0]


def test_loss_curve_holds_every_point_and_reference() -> None:
    figure = loss_curve(
        {"tokens": [10, 20], "loss": [3.0, 2.0]}, {"tokens": [0, 20], "held_out": [3.5, 2.5]}, {"uniform": 4.0}
    )
    raw, average, held = figure.data
    assert (list(raw.x), list(raw.y)) == ([10, 20], [3.0, 2.0])
    assert list(average.x) == [10, 20]
    assert (list(held.x), list(held.y)) == ([0, 20], [3.5, 2.5])
    assert [shape.y0 for shape in figure.layout.shapes] == [4.0]
    assert figure.layout.annotations[0].text == "uniform 4.00"
    assert figure.layout.xaxis.title.text == "tokens trained on" and "nats" in figure.layout.yaxis.title.text


def test_auxiliary_losses_hold_every_step_in_their_own_panel() -> None:
    columns = {"tokens": [10, 20], "loss": [3.0, 2.0], "mtp": [3.5, 2.5], "indexer": [0.2, 0.1], "balance": [3.0, 3.2]}
    figure = auxiliary_losses(columns, smoothing=0.5)
    raw, averages = figure.data[::2], figure.data[1::2]
    for trace, average, name in zip(raw, averages, ("loss", "mtp", "indexer", "balance"), strict=True):
        assert (list(trace.x), list(trace.y)) == ([10, 20], columns[name])
        assert list(average.y) == pytest.approx(running_average(columns[name], 0.5))
    assert [trace.xaxis for trace in raw] == ["x", "x", "x2", "x3"]


def test_load_imbalance_holds_every_layer_between_its_bounds() -> None:
    figure = load_imbalance([10, 20], {"layer 0": [1.5, 2.0], "MTP": [3.0, 1.0]}, worst=4.0, smoothing=0.0)
    assert {trace.name: list(trace.y) for trace in figure.data} == {"layer 0": [1.5, 2.0], "MTP": [3.0, 1.0]}
    assert [shape.y0 for shape in figure.layout.shapes] == [1.0, 4.0]


def test_recipe_table_shows_both() -> None:
    lines = recipe_table({"published": published("flash_cpt"), "here": embedded_cpt()}).splitlines()
    assert lines[0].split() == ["published", "here"] and len({len(line) for line in lines}) == 1
    assert next(line for line in lines if line.startswith("peak")).split()[-2:] == ["3e-06", "0.01"]
    assert next(line for line in lines if "balance" in line).split()[-2:] == ["0", "0.0001"]
    assert lines[-1].split()[-2:] == ["146,800,640", "61,440"]
