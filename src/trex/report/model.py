"""Figures of the model: its parameters and FLOPs by part, and what a device must hold of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from trex.labels import ResultError
from trex.model.count import Flops, Parameters
from trex.model.published_layouts import PublishedLayout
from trex.planner.memory import GIB, DeviceMemory, StaticBytes, static_bytes
from trex.report.figures import COLOURS

# parts and operations as drawn, bottom up; together they are all of them
GROUPS = {
    "routed experts": ("routed_experts",),
    "shared expert": ("shared_experts",),
    "attention projections": ("query", "key_value", "output", "sinks", "compressor", "indexer"),
    "embedding and head": ("embedding", "head"),
    "other": ("router", "hyper_connections", "norms", "mtp_projections", "stream_mixing"),
    "attention": ("window_attention", "compressed_attention"),
    "indexer scores": ("indexer_scores",),
}
COLOUR = dict(
    zip(GROUPS, (COLOURS[0], COLOURS[6], COLOURS[2], COLOURS[5], COLOURS[7], COLOURS[1], COLOURS[3]), strict=True)
)
STATES = {"weights": COLOURS[0], "gradients": COLOURS[2], "optimizer": COLOURS[1]}


def grouped(parts: Mapping[str, float]) -> dict[str, float]:
    """Sums by group of the figures, empty groups left out. Raises ResultError for a part that no group has."""
    group_of = {part: group for group, names in GROUPS.items() for part in names}
    sums = dict.fromkeys(GROUPS, 0.0)
    for part, value in parts.items():
        if part not in group_of:
            raise ResultError(f"part {part!r} belongs to no group; parts: {', '.join(group_of)}")
        sums[group_of[part]] += value
    return {group: value for group, value in sums.items() if value}


def parameter_values(counted: Parameters) -> dict[str, Any]:
    """What a record keeps of a count."""
    totals = {name: getattr(counted, name) for name in ("total", "mtp", "total_with_mtp", "active")}
    return {**totals, "parts": counted.parts, "active_parts": counted.active_parts}


def flops_values(costs: Sequence[Flops]) -> dict[str, Any]:
    """What a record keeps of FLOPs per token, by length: forward without MTP, MTP, training with MTP."""
    return {
        str(each.seq_len): {"forward": each.forward - each.mtp, "mtp": each.mtp, "training_with_mtp": each.training}
        for each in costs
    }


def flops_series(models: Mapping[str, Sequence[Flops]]) -> dict[str, list[Any]]:
    """Columns model, seq_len, part, flops_per_token (forward, without MTP)."""
    rows = [
        (name, each.seq_len, part, value)
        for name, costs in models.items()
        for each in costs
        for part, value in each.parts.items()
    ]
    columns = ("model", "seq_len", "part", "flops_per_token")
    return {column: [row[i] for row in rows] for i, column in enumerate(columns)}


def memory_values(found: PublishedLayout, device: DeviceMemory) -> dict[str, Any]:
    """What a record keeps of a layout: bytes on its fullest device, and what is left of it, also without the swap."""
    held = static_bytes(found.config, found.layout)
    resident = static_bytes(found.config, replace(found.layout, swap_optimizer=False))
    parts = {name: getattr(held.largest, name) for name in ("weights", "gradients", "optimizer", "host_optimizer")}
    margins = {"margin": held.margin(device), "margin_without_swap": resident.margin(device)}
    return {"dies": found.layout.world_size, **parts, **margins, "assumed": found.assumed, "source": found.source}


def stored_and_active(models: Mapping[str, Parameters]) -> go.Figure:
    """Share of every group in the parameters stored and in those one token meets, one pair of bars per model."""
    rows = {}
    for name, counted in models.items():
        rows[f"{name}, stored: {_count(counted.total)}"] = grouped(counted.parts)
        rows[f"{name}, active: {_count(counted.active)}"] = grouped(counted.active_parts)
    figure = go.Figure()
    for group in GROUPS:
        if not any(group in row for row in rows.values()):
            continue
        shares = [100 * row.get(group, 0) / sum(row.values()) for row in rows.values()]
        figure.add_bar(
            y=list(rows), x=shares, name=group, orientation="h", marker_color=COLOUR[group], textangle=0,
            text=[f"{share:.1f} %" if share >= 4 else "" for share in shares], textposition="inside",
            insidetextanchor="middle", hovertemplate="%{y}<br>" + group + ": %{x:.2f} %<extra></extra>",
        )  # fmt: skip
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=6)
    figure.update_xaxes(title="share of parameters (%)", range=[0, 100])
    figure.update_layout(
        barmode="stack", bargap=0.35, height=450, legend={"traceorder": "normal"}, margin={"l": 190, "t": 110}
    )
    return figure


def flops_per_token(models: Mapping[str, Sequence[Flops]]) -> go.Figure:
    """Forward GFLOP per token over the length of the document, stacked by group, one panel per model."""
    figure = make_subplots(cols=len(models), subplot_titles=list(models), horizontal_spacing=0.08)
    for column, counted in enumerate(models.values(), start=1):
        lengths = [_length(each.seq_len) for each in counted]
        stacks = [grouped(each.parts) for each in counted]
        for group in GROUPS:
            values = [stack.get(group, 0) / 1e9 for stack in stacks]
            if any(values):
                figure.add_bar(
                    x=lengths, y=values, name=group, legendgroup=group, showlegend=column == 1, row=1, col=column,
                    marker_color=COLOUR[group], hovertemplate=group + ": %{y:.2f} GFLOP<extra>%{x}</extra>",
                )  # fmt: skip
        totals = [sum(stack.values()) / 1e9 for stack in stacks]
        figure.add_scatter(
            x=lengths, y=totals, mode="text", text=[f"{total:.1f}" for total in totals], textposition="top center",
            showlegend=False, hoverinfo="skip", row=1, col=column,
        )  # fmt: skip
        figure.update_yaxes(range=[0, 1.12 * max(totals)], row=1, col=column)
    figure.update_xaxes(title="length of the document (tokens)")
    figure.update_yaxes(title_text="forward GFLOP per token", col=1)
    figure.update_layout(barmode="stack", height=480, margin={"t": 130}, legend={"traceorder": "normal", "y": 1.1})
    return figure


def static_memory(layouts: Mapping[str, tuple[StaticBytes, StaticBytes]], device: DeviceMemory) -> go.Figure:
    """GiB on the fullest device of every layout, and, as a mark, if no optimizer state were swapped to the host.

    layouts: static memory as published, and with the optimizer on the device.
    """
    figure = go.Figure()
    names = list(layouts)
    for part, colour in STATES.items():
        values = [getattr(held.largest, part) / GIB for held, _ in layouts.values()]
        figure.add_bar(
            y=names, x=values, name=part, orientation="h", marker_color=colour,
            hovertemplate="%{y}<br>" + part + ": %{x:.2f} GiB<extra></extra>",
        )  # fmt: skip
    resident = {name: without.largest.device / GIB for name, (_, without) in layouts.items()}
    swapped = [name for name, (held, _) in layouts.items() if held.largest.host_optimizer]
    figure.add_scatter(
        y=swapped, x=[resident[name] for name in swapped], mode="markers", name="total without optimizer swap",
        marker={"symbol": "diamond", "size": 10, "color": COLOURS[3], "line": {"color": "white", "width": 1}},
        hovertemplate="%{y}<br>without swap: %{x:.2f} GiB<extra></extra>",
    )  # fmt: skip
    figure.add_vline(x=device.allocatable / GIB, line={"color": "#222222", "dash": "dash"})
    figure.add_annotation(
        x=device.allocatable / GIB, y=1, yref="paper", yanchor="bottom", showarrow=False, font={"size": 11},
        text=f"allocatable: {device.allocatable / GIB:.1f} GiB",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", ticklabelstandoff=6)
    end = 1.1 * max(*resident.values(), device.total / GIB)
    figure.update_xaxes(title="GiB per die, without activations", range=[0, end])
    figure.update_layout(
        barmode="stack", bargap=0.35, height=150 + 38 * len(names) + 60, margin={"l": 205, "t": 100},
        legend={"traceorder": "normal", "y": 1.08},
    )  # fmt: skip
    return figure


def static_memory_by_rank(held: StaticBytes, device: DeviceMemory) -> go.Figure:
    """GiB per device of every pipeline rank; what the host holds is stacked on top, paler."""
    figure = go.Figure()
    ranks = [rank.rank for rank in held.ranks]
    drawn = {part: (part, colour) for part, colour in STATES.items()}
    drawn["host_optimizer"] = ("optimizer, in host memory", "#f2dcc3")
    for part, (name, colour) in drawn.items():
        values = [getattr(rank, part) / GIB for rank in held.ranks]
        if any(values):
            figure.add_bar(
                x=ranks, y=values, name=name, marker_color=colour,
                hovertemplate="rank %{x}<br>" + name + ": %{y:.2f} GiB<extra></extra>",
            )  # fmt: skip
    figure.add_hline(y=device.allocatable / GIB, line={"color": "#222222", "dash": "dash"})
    figure.add_annotation(
        x=1, xref="paper", xanchor="right", y=device.allocatable / GIB, yanchor="bottom", showarrow=False,
        text=f"allocatable: {device.allocatable / GIB:.1f} GiB", font={"size": 11},
    )  # fmt: skip
    figure.update_xaxes(title="pipeline rank", dtick=1)
    figure.update_yaxes(title="GiB per die, without activations", range=[0, 1.15 * device.total / GIB])
    figure.update_layout(barmode="stack", bargap=0.35, legend={"traceorder": "normal"})
    return figure


def _count(parameters: int) -> str:
    return f"{parameters / 1e12:.3f} T" if parameters >= 1e12 else f"{parameters / 1e9:.2f} B"


def _length(tokens: int) -> str:
    """4096 as 4K, 1048576 as 1M; other numbers as they are."""
    for size, letter in ((2**20, "M"), (2**10, "K")):
        if tokens % size == 0:
            return f"{tokens // size}{letter}"
    return f"{tokens:,}"
