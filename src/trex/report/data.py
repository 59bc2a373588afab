"""Figures of the data chapter: how large the problems are and how long their documents."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from trex.data.documents import Document
from trex.data.rendering import MODES
from trex.report.figures import COLOURS

SYMBOLS = ("circle", "diamond", "x")  # difficulty 1, 2, 3


def columns(documents: Iterable[Document]) -> dict[str, list[Any]]:
    """One entry per document: family, mode, difficulty, variables, constraints, objective, characters of the text."""
    names = ("family", "mode", "difficulty", "variables", "constraints", "objective", "characters")
    table: dict[str, list[Any]] = {name: [] for name in names}
    for document in documents:
        row = (
            document.family,
            document.mode,
            document.provenance["difficulty"],
            document.provenance["variables"],
            document.provenance["constraints"],
            document.objective,
            len(document.text),
        )
        for name, value in zip(names, row, strict=True):
            table[name].append(value)
    return table


def summary(table: Mapping[str, Sequence[Any]]) -> str:
    """Markdown table: per family and mode, the number of documents and the median and range of what they measure."""
    measures = ("variables", "constraints", "objective", "characters")
    lines = [
        "| family | mode | documents | " + " | ".join(f"{name}: median (range)" for name in measures) + " |",
        "|---|---|---:|" + "---:|" * len(measures),
    ]
    pairs = sorted(set(zip(table["family"], table["mode"], strict=True)), key=lambda p: (p[0], MODES.index(p[1])))
    for family, mode in pairs:
        chosen = [k for k in range(len(table["mode"])) if (table["family"][k], table["mode"][k]) == (family, mode)]
        cells = []
        for name in measures:
            values = [table[name][k] for k in chosen]
            cells.append(f"{median(values):,.0f} ({min(values):,.0f}–{max(values):,.0f})")
        lines.append(f"| {_spoken(family)} | {mode} | {len(chosen)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def text_lengths(table: Mapping[str, Sequence[Any]]) -> go.Figure:
    """Characters of the whole text against number of variables: a panel per family, a colour per mode."""
    names = list(dict.fromkeys(table["family"]))
    figure = make_subplots(1, len(names), subplot_titles=[_spoken(name) for name in names], shared_yaxes=True)
    for panel, name in enumerate(names, start=1):
        for mode, colour in zip(MODES, COLOURS, strict=False):
            chosen = [k for k, found in enumerate(table["mode"]) if (table["family"][k], found) == (name, mode)]
            figure.add_scatter(
                x=[table["variables"][k] for k in chosen],
                y=[table["characters"][k] for k in chosen],
                name=mode,
                legendgroup=mode,
                showlegend=panel == 1,
                mode="markers",
                marker={"color": colour, "size": 7, "opacity": 0.8},
                row=1,
                col=panel,
            )
    figure.update_xaxes(title="variables", rangemode="tozero")
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title="characters of the whole text", col=1)
    figure.update_layout(legend={"y": 1.1})
    return figure


def sizes(table: Mapping[str, Sequence[Any]]) -> go.Figure:
    """Optimum against number of variables, both logarithmic: colour for the family, symbol for the difficulty."""
    figure = go.Figure()
    for family, colour in zip(dict.fromkeys(table["family"]), COLOURS, strict=False):
        chosen = [k for k, found in enumerate(table["family"]) if found == family]
        figure.add_scatter(
            x=[table["variables"][k] for k in chosen],
            y=[table["objective"][k] for k in chosen],
            name=_spoken(family),
            mode="markers",
            marker={"color": colour, "size": 8, "symbol": [SYMBOLS[table["difficulty"][k] - 1] for k in chosen]},
        )
    figure.update_xaxes(title="variables", type="log", tickvals=[5, 10, 20, 50, 100, 200])
    figure.update_yaxes(title="optimum, in the problem's own unit", type="log", dtick=1)
    return figure


def _spoken(family: str) -> str:
    return family.replace("_", " ")
