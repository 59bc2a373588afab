"""Figures of judged answers: scores with intervals, failures, confusion of classes, attacks, and what a job costs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from trex.report.figures import COLOURS


def scores(summary: Mapping[str, Any], k: int = 1) -> go.Figure:
    """Points: pass@k of every set with its interval, by each way of counting."""
    figure = go.Figure()
    ways = list(next(iter(summary["sets"].values()))["scores"])
    for colour, way in zip(COLOURS, ways, strict=False):
        found = {
            name: part["scores"][way][f"pass@{k}"]
            for name, part in summary["sets"].items()
            if f"pass@{k}" in part["scores"][way]
        }
        values = [100 * value["estimate"] for value in found.values()]
        figure.add_scatter(
            x=values, y=list(found), mode="markers", orientation="h", name=way, marker=dict(size=10, color=colour),
            error_x=dict(
                type="data", symmetric=False, color=colour,
                array=[100 * v["high"] - x for v, x in zip(found.values(), values, strict=True)],
                arrayminus=[x - 100 * v["low"] for v, x in zip(found.values(), values, strict=True)],
            ),
            hovertemplate="%{y}: %{x:.2f} %<extra>" + way + "</extra>",
        )  # fmt: skip
    figure.update_xaxes(title=f"pass@{k} (%)", range=[0, 103])
    figure.update_yaxes(autorange="reversed", ticks="", automargin=True)
    figure.update_layout(height=220 + 60 * len(summary["sets"]), scattermode="group", scattergap=0.6)
    return figure


def failures(counts: Mapping[str, int]) -> go.Figure:
    """Bars: answers by class of failure."""
    names = list(counts)
    figure = go.Figure(
        go.Bar(
            x=[counts[name] for name in names], y=names, orientation="h", width=0.6, marker_color=COLOURS[1],
            text=[counts[name] for name in names], textposition="outside", cliponaxis=False,
        )
    )  # fmt: skip
    figure.update_xaxes(title="answers", range=[0, 1.15 * max(counts.values(), default=1)])
    figure.update_yaxes(autorange="reversed", ticks="", automargin=True)
    figure.update_layout(height=180 + 36 * max(1, len(names)))
    return figure


def confusion(pairs: Sequence[tuple[str, str]], classes: Sequence[str]) -> go.Figure:
    """Heat map: the class that was planted in an answer against the one that was found, counts in the cells."""
    counts = Counter(pairs)
    rows = [name for name in classes if any(planted == name for planted, _ in pairs)]
    columns = [name for name in classes if any(found == name for _, found in pairs)]
    cells = [[counts[row, column] for column in columns] for row in rows]
    figure = go.Figure(
        go.Heatmap(
            z=cells, x=columns, y=rows, text=[[str(c or "") for c in row] for row in cells], texttemplate="%{text}",
            colorscale=[[0, "white"], [1, COLOURS[0]]], showscale=False, xgap=1, ygap=1,
            hovertemplate="planted: %{y}<br>found: %{x}<br>%{z}<extra></extra>",
        )
    )  # fmt: skip
    wrapped = [name.replace(" or ", " or_").replace(" ", "<br>").replace("or_", "or ") for name in columns]
    figure.update_xaxes(
        title="found (rows: planted)",
        side="top",
        tickangle=0,
        tickfont_size=11,
        tickvals=columns,
        ticktext=wrapped,
        automargin=True,
    )
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_layout(height=300 + 34 * len(rows), margin_t=150)
    return figure


def attacks(outcomes: Sequence[tuple[str, str]]) -> go.Figure:
    """Bars: (group, what became of it) of hostile programs, one bar per group."""
    groups = list(dict.fromkeys(group for group, _ in outcomes))
    states = list(dict.fromkeys(state for _, state in outcomes))
    counts = Counter(outcomes)
    figure = go.Figure()
    for colour, state in zip(COLOURS * 2, states, strict=False):
        figure.add_bar(
            x=[counts[group, state] for group in groups], y=groups, name=state, orientation="h", marker_color=colour,
            hovertemplate="%{y}: %{x}<extra>" + state + "</extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack", height=200 + 40 * len(groups))
    figure.update_xaxes(title="hostile programs")
    figure.update_yaxes(autorange="reversed", ticks="", automargin=True)
    return figure


def job_seconds(seconds: Mapping[str, Sequence[float]]) -> go.Figure:
    """Boxes: milliseconds from handing a program over to having its result, by way of running it."""
    figure = go.Figure()
    for colour, (way, values) in zip(COLOURS, seconds.items(), strict=False):
        figure.add_box(
            x=[1e3 * value for value in values], name=way, marker_color=colour, boxpoints="all", jitter=0.4,
            pointpos=0, orientation="h", showlegend=False,
        )  # fmt: skip
    ticks = [10, 20, 50, 100, 200, 500, 1000, 2000]
    figure.update_xaxes(
        title="milliseconds per program", type="log", tickvals=ticks, ticktext=[f"{t:,}" for t in ticks]
    )
    figure.update_yaxes(autorange="reversed", ticks="", automargin=True)
    figure.update_layout(height=200 + 60 * len(seconds))
    return figure
