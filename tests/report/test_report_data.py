"""The data chapter's columns against Pyomo's own counts, its tables and figures against what they show."""

import math

import pytest

from trex.data import families
from trex.data.documents import Document, generate
from trex.data.trials import Trial
from trex.report import data as figures


@pytest.fixture(scope="module")
def rows() -> list[Document]:
    three = ("knapsack", "production_planning", "transportation")
    return list(generate(18, seed=5, families=three, difficulty=(1, 2)))


def test_columns_count_as_pyomo_does(rows: list[Document]) -> None:
    table = figures.columns(rows)
    for k, row in enumerate(rows):
        model = families.get(row.family).model(row.data)
        assert table["variables"][k] == model.nvariables()
        assert table["constraints"][k] == model.nconstraints()
        assert table["characters"][k] == len(row.text)
        assert (table["family"][k], table["mode"][k]) == (row.family, row.mode)


def test_the_summary_covers_every_document(rows: list[Document]) -> None:
    table = figures.columns(rows)
    lines = figures.summary(table).splitlines()[2:]
    assert sum(int(line.split("|")[3]) for line in lines) == 18
    found = sorted(n for n, area in zip(table["variables"], table["area"], strict=True) if area == "packing")
    packing = next(line for line in lines if line.startswith("| packing |"))
    assert "knapsack" in packing and f"({found[0]:,.0f}–{found[-1]:,.0f})" in packing


def test_the_figures_show_every_number_once() -> None:
    found = {name: {level: [level * 10 + k for k in range(3)] for level in (1, 2, 3, 4)} for name in ("a_b", "c")}
    size = figures.sizes(found)
    shown = sorted(x for trace in size.data for x in trace.x)
    assert shown == sorted(n for counts in found.values() for level in counts.values() for n in level)
    assert {y for trace in size.data for y in trace.y} == {"a b", "c"}
    bars = figures.effects({"limit": 0.25, "balance": math.inf}, "change").data[0]
    assert list(bars.x) == [25.0, 0.0] and list(bars.text) == ["25 %", "no optimum is left"]
    gates = figures.funnel({"solver": (10, 2), "text": (8, 1)})
    assert [list(trace.y) for trace in gates.data] == [[8, 7], [2, 1]]
    trials = [Trial("a", "x", "dropped", "structure", told) for told in (True, False)]
    trials.append(Trial("a", "x", "sense", "", False))
    bars_ = figures.noticed(trials)
    assert [list(trace.y) for trace in bars_.data] == [[50.0, 0.0], [100.0, 0.0]]
