"""The data chapter's columns against Pyomo's own counts, its table and its figures against the columns."""

import re

import pytest

from trex.data import families
from trex.data.documents import Document, generate
from trex.report import data as figures


@pytest.fixture(scope="module")
def rows() -> list[Document]:
    return list(generate(18, seed=5, difficulty=(1, 2)))


def test_columns_count_as_pyomo_does(rows: list[Document]) -> None:
    table = figures.columns(rows)
    for k, row in enumerate(rows):
        model = families.get(row.family).build(row.data)
        assert table["variables"][k] == model.nvariables()
        assert table["constraints"][k] == model.nconstraints()
        assert table["characters"][k] == len(row.text)
        assert (table["family"][k], table["mode"][k]) == (row.family, row.mode)


def test_the_summary_covers_every_document(rows: list[Document]) -> None:
    lines = figures.summary(figures.columns(rows)).splitlines()[2:]
    assert len(lines) == 9
    assert sum(int(line.split("|")[3]) for line in lines) == 18
    knapsack = [row for row in rows if (row.family, row.mode) == ("knapsack", "DT")]
    low, high = sorted(row.objective for row in knapsack)
    assert f"({low:,.0f}–{high:,.0f})" in next(line for line in lines if re.match(r"\| knapsack \| DT", line))


def test_each_figure_shows_every_document_once(rows: list[Document]) -> None:
    table = figures.columns(rows)
    for figure, key in ((figures.text_lengths(table), "characters"), (figures.sizes(table), "objective")):
        assert sorted(y for trace in figure.data for y in trace.y) == sorted(table[key])
        assert sorted(x for trace in figure.data for x in trace.x) == sorted(table["variables"])
        names = [trace.name for trace in figure.data if trace.showlegend is not False]
        assert len(names) == len(set(names)) == 3
