"""Shapes are those that modules returned, and the figure shows each once per layer kind."""

import math

import pytest
import torch
from torch import nn

from trex.labels import ResultError
from trex.model.config import ModelConfig
from trex.model.transformer import Transformer
from trex.report import architecture

KINDS = {"window": 0, "CSA": 1, "HCA": 2}
ROWS = torch.arange(2 * 130).view(2, 130)


@pytest.fixture(scope="module")
def model() -> Transformer:
    return Transformer(ModelConfig.tiny())


def test_what_modules_return_is_found_in_the_order_of_their_return():
    model = nn.Sequential(nn.Linear(3, 5), nn.Sequential(nn.Linear(5, 2), nn.Flatten(0)))
    found = architecture.returned(model, torch.zeros(4, 3))
    assert found == {"0": ((4, 5),), "1.0": ((4, 2),), "1.1": (), "1": (), "": ()}
    assert list(found) == ["0", "1.0", "1.1", "1", ""]
    assert not any(module._forward_hooks for module in model.modules())


def test_hooks_are_gone_after_an_error():
    model = nn.Sequential(nn.Linear(3, 5))
    with pytest.raises(RuntimeError):
        architecture.returned(model, torch.zeros(4, 7))
    assert not any(module._forward_hooks for module in model.modules())


def test_sub_layers_by_kind(model):
    shapes = architecture.returned(model, ROWS)
    inside = architecture.by_kind(shapes, KINDS)
    assert shapes[""] == ((2, 130, 512), (2, 130, 512), (7, 8))
    assert list(inside)[-1] == "block" and set(inside["block"].values()) == {((2, 130, 4, 64),)}
    assert inside["attn.compressor"] == {"CSA": ((2, 32, 32),), "HCA": ((2, 1, 32),)}
    assert inside["attn.indexer"] == {"CSA": ((2, 130, 16, 16), (2, 32, 16), (2, 130, 16))}
    linear = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear) and n.startswith("layers.1.")}
    for name, module in linear.items():  # the last dimension is the weight's first
        (shape,) = inside[name.removeprefix("layers.1.")]["CSA"]
        assert shape == (2, 130, module.weight.shape[0])
    with pytest.raises(ResultError, match=r"layer 9 \(none\) returned nothing"):
        architecture.by_kind(shapes, {"none": 9})


def test_table_has_a_cell_for_every_kind(model):
    inside = architecture.by_kind(architecture.returned(model, ROWS), KINDS)
    rows = architecture.table(inside, list(KINDS))
    assert rows[0] == ["sub-layer", "window", "CSA", "HCA"] and {len(row) for row in rows} == {4}
    assert ["attn.compressor", "-", "2×32×32", "2×1×32"] in rows
    assert ["attn.indexer.compressor", "-", "2×32×16", "-"] in rows


def test_bars_are_numbers_per_token(model):
    inside = architecture.by_kind(architecture.returned(model, ROWS), KINDS)
    figure = architecture.widths(inside, list(KINDS), ROWS.numel())
    drawn = {}
    for trace in figure.data:
        kind = list(KINDS)[int(trace.xaxis.removeprefix("x") or 1) - 1]
        for name, value in zip(trace.y, trace.x, strict=True):
            assert (kind, name) not in drawn
            drawn[kind, name] = value
    expected = {
        (kind, name): round(math.prod(shapes[0]) / ROWS.numel(), 2)
        for name, row in inside.items()
        for kind, shapes in row.items()
    }
    assert drawn == expected
    assert {trace.name for trace in figure.data} == set(architecture.ROOMS)
    rooms = {trace.name: set(trace.y) for trace in figure.data if trace.xaxis == "x2"}
    assert "attn.indexer.compressor" in rooms["indexer"] and "attn_norm" in rooms["residual streams"]
