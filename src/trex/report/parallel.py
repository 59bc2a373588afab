"""Figures of parallel training: distance from one process, bytes sent, memory of each rank."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from trex.report.figures import COLOURS

BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parity(distances: Mapping[str, Mapping[str, Sequence[float]]], bounds: Mapping[str, float]) -> go.Figure:
    """Relative distance of every tensor from one process, a row per layout.

    distances: by precision, by layout, one value per tensor; 0 is drawn at the left edge. bounds: by precision, drawn
    as a line.
    """
    figure = go.Figure()
    least = min((v for rows in distances.values() for row in rows.values() for v in row if v > 0), default=1e-17)
    for colour, (precision, rows) in zip(COLOURS, distances.items(), strict=False):
        figure.add_scatter(
            x=[max(value, least / 3) for row in rows.values() for value in row],
            y=[name for name, row in rows.items() for _ in row],
            mode="markers", name=precision, marker=dict(color=colour, size=6, opacity=0.45, symbol="line-ns-open"),
        )  # fmt: skip
        if precision in bounds:
            figure.add_vline(x=bounds[precision], line=dict(color=colour, dash="dash", width=1))
    figure.update_xaxes(type="log", title="‖difference‖ / ‖gradient‖, one mark per tensor", exponentformat="power")
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(margin=dict(l=190), height=140 + 34 * len(next(iter(distances.values()), {})))
    return figure


def sent(rows: Mapping[str, Mapping[str, float]], unit: str = "KiB") -> go.Figure:
    """Bytes that one rank sends in a step, a bar per layout. rows: by layout, bytes by what they are for."""
    kinds = list(dict.fromkeys(kind for parts in rows.values() for kind in parts))
    figure = go.Figure()
    for number, kind in enumerate(kinds):
        figure.add_bar(
            y=list(rows), x=[parts.get(kind, 0) / BYTES[unit] for parts in rows.values()], name=kind, orientation="h",
            marker_color=COLOURS[number % len(COLOURS)],
        )  # fmt: skip
    return _stacked(figure, rows, f"{unit} sent by the first rank in one step")


def memory(rows: Mapping[str, Mapping[str, float]], modelled: Mapping[str, float], unit: str = "MiB") -> go.Figure:
    """Bytes that a rank holds between steps, a bar per rank, and what the planner's formula gives as a mark."""
    kinds = list(dict.fromkeys(kind for parts in rows.values() for kind in parts))
    figure = go.Figure()
    for colour, kind in zip(COLOURS, kinds, strict=False):
        figure.add_bar(
            y=list(rows), x=[parts.get(kind, 0) / BYTES[unit] for parts in rows.values()], name=kind, orientation="h",
            marker_color=colour,
        )  # fmt: skip
    figure.add_scatter(
        y=list(modelled), x=[value / BYTES[unit] for value in modelled.values()], mode="markers", name="modelled, all",
        marker=dict(symbol="line-ns-open", size=16, color="#222222", line=dict(width=2)),
    )  # fmt: skip
    return _stacked(figure, rows, f"{unit} on one rank")


def _stacked(figure: go.Figure, rows: Mapping[str, Mapping[str, float]], title: str) -> go.Figure:
    figure.update_layout(barmode="stack", margin=dict(l=190), height=180 + 30 * len(rows))
    figure.update_xaxes(title=title)
    figure.update_yaxes(autorange="reversed")
    return figure
