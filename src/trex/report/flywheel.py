"""Figures of the flywheel: what was made of which kind, what the gates refuse, and which planted faults they catch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from trex.data.flywheel.bucket import STYLES, TASKS
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.trials import Caught
from trex.data.problem import DIFFICULTIES
from trex.data.rendering import MODES
from trex.report.figures import COLOURS


def buckets(rows: Sequence[Dialogue]) -> go.Figure:
    """Dialogues of each task and style by mode and difficulty."""
    counted = Counter((f"{r.bucket.task}, {r.bucket.style}", f"{r.bucket.mode} {r.bucket.difficulty}") for r in rows)
    kinds = [f"{task}, {style}" for task in TASKS for style in STYLES]
    kinds = [kind for kind in kinds if any(kind == other for other, _ in counted)]
    columns = [f"{mode} {level}" for mode in MODES for level in DIFFICULTIES]
    values = [[counted[kind, column] for column in columns] for kind in kinds]
    figure = go.Figure(
        go.Heatmap(z=values, x=columns, y=kinds, text=values, texttemplate="%{text}", colorscale="Blues")
    )
    figure.update_traces(showscale=False)
    figure.update_xaxes(title="mode and difficulty")
    figure.update_layout(margin={"l": 260}, height=420)
    return figure


def funnel(gates: Mapping[str, Mapping[str, int]]) -> go.Figure:
    """Attempts that each gate refused, of those that reached it, in the order of the gates."""
    names = list(gates)
    figure = go.Figure()
    passed = [gates[name]["reached"] - gates[name]["refused"] for name in names]
    figure.add_bar(x=names, y=passed, name="let through", marker_color=COLOURS[2])
    figure.add_bar(x=names, y=[gates[name]["refused"] for name in names], name="refused", marker_color=COLOURS[3])
    figure.update_layout(barmode="stack")
    figure.update_yaxes(title="attempts", rangemode="tozero")
    return figure


def caught(rows: Sequence[Caught]) -> go.Figure:
    """Share of planted faults that a gate refused, by kind, with counts."""
    shown = [row for row in rows if row.planted][::-1]
    figure = go.Figure(
        go.Bar(
            x=[100 * row.caught / row.planted for row in shown],
            y=[row.kind for row in shown],
            orientation="h",
            text=[f"{row.caught} of {row.planted}" for row in shown],
            marker_color=COLOURS[2],
        )
    )
    figure.update_xaxes(title="caught, percent", range=[0, 105])
    figure.update_layout(margin={"l": 240}, height=480)
    return figure


def table(rows: Sequence[Caught]) -> str:
    """Markdown table of the kinds: planted, caught, and by which gates."""
    lines = ["| fault | planted | caught | by |", "|---|---:|---:|---|"]
    for row in rows:
        gates = ", ".join(f"{gate} {count}" for gate, count in row.gates)
        lines.append(f"| {row.kind} | {row.planted} | {row.caught} | {gates} |")
    return "\n".join(lines)


def cleaning(published: Mapping[str, Any], ours: Mapping[str, int]) -> str:
    """Markdown table: dialogues given to the cleaner, let through by the reviewer, exported; published beside ours."""
    lines = ["| | published: Clean-only | published: Clean-CoT | measured here |", "|---|---:|---:|---:|"]
    for name, key in (("given", "input"), ("let through by the reviewer", "reviewed"), ("exported", "exported")):
        cells = [f"{published[f'{kind}_{key}']:,.0f}" for kind in ("clean_only", "clean_cot")]
        lines.append(f"| {name} | {' | '.join(cells)} | {ours[key]:,} |")
    return "\n".join(lines)
