"""Figures of pipeline schedules: who computes what when, bubbles against micro-batches, and seconds per rank."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from trex.planner.schedules import Operation
from trex.planner.simulate import Span, Timeline
from trex.report.figures import COLOURS, OPERATION_COLOURS

NAMES = {"F": "F forward", "B": "B input gradients", "W": "W weight gradients", "BW": "BW both gradients"}
LATER_STAGE = 0.62  # opacity of the stages of a rank after its first
LEGEND_ABOVE_PANELS = dict(y=1.16, yanchor="bottom")
LANE = 0.86  # height of a rank's lane; the two parts of a pair share it, forward above


def gantt(timelines: Mapping[str, Timeline], unit: str = "s", row_height: int = 34) -> go.Figure:
    """One panel per schedule, ranks down, time right, the micro-batch number in each cell, on one time axis.

    Panel titles give step and bubble. Cells of a rank's later stages are paler; a pair shows its forward above its
    backward.
    """
    titles = [
        f"{name}: step {timeline.step_seconds:.4g} {unit}, bubble {100 * timeline.bubble_fraction:.1f} %"
        for name, timeline in timelines.items()
    ]
    ranks = [len(timeline.spans) for timeline in timelines.values()]
    figure = make_subplots(
        rows=len(titles),
        shared_xaxes=True,
        subplot_titles=titles,
        row_heights=ranks,
        vertical_spacing=0.22 / len(titles),
    )
    legend: set[str] = set()
    for row, timeline in enumerate(timelines.values(), start=1):
        for trace in _lanes(timeline, unit, legend):
            figure.add_trace(trace, row=row, col=1)
        figure.update_yaxes(
            range=[len(timeline.spans) - 0.5, -0.5], tickvals=list(range(len(timeline.spans))), title_text="rank",
            showgrid=False, row=row, col=1,
        )  # fmt: skip
    end = max(timeline.step_seconds for timeline in timelines.values())
    figure.update_xaxes(range=[0, end * 1.005], showgrid=False)
    figure.update_xaxes(title_text=f"time ({unit})", row=len(titles), col=1)
    figure.update_annotations(x=0, xanchor="left", font_size=13)  # the panel titles
    drawn = sum(ranks) * row_height + 34 * len(titles)
    figure.update_layout(
        barmode="overlay", bargap=0, height=drawn + 190, width=_width(timelines.values(), end), margin=dict(t=100),
        legend=dict(x=0, xanchor="left", y=1 + 26 / drawn, yanchor="bottom"),
    )  # fmt: skip
    return figure


def bubble_curves(panels: Mapping[str, Mapping[str, tuple[Sequence[int], Sequence[float]]]]) -> go.Figure:
    """Bubble (share of all ranks' time) over micro-batches; panels by title, in each one curve per schedule."""
    figure = make_subplots(cols=len(panels), subplot_titles=list(panels), shared_yaxes=True, horizontal_spacing=0.04)
    for column, curves in enumerate(panels.values(), start=1):
        for colour, (name, (counts, bubbles)) in zip(COLOURS, curves.items(), strict=False):
            figure.add_scatter(
                x=list(counts), y=[100 * bubble for bubble in bubbles], mode="lines+markers", line=dict(color=colour),
                name=name, legendgroup=name, showlegend=column == 1, row=1, col=column,
            )  # fmt: skip
        figure.update_xaxes(title_text="micro-batches per step", type="log", tickvals=list(counts), row=1, col=column)
    figure.update_yaxes(title_text="bubble (% of the step)", rangemode="tozero", col=1)
    figure.update_annotations(font_size=13)
    figure.update_layout(legend=LEGEND_ABOVE_PANELS, margin=dict(t=100))
    return figure


def rank_seconds(timelines: Mapping[str, Timeline], unit: str = "s") -> go.Figure:
    """One panel per timeline: busy and idle time of every rank, stacked to the step."""
    titles = [f"{name}<br>step {timeline.step_seconds:,.0f} {unit}" for name, timeline in timelines.items()]
    figure = make_subplots(cols=len(titles), subplot_titles=titles, shared_yaxes=True, horizontal_spacing=0.03)
    for column, timeline in enumerate(timelines.values(), start=1):
        ranks = list(range(len(timeline.spans)))
        parts = (("busy", timeline.busy_seconds, OPERATION_COLOURS["F"]), ("idle", timeline.bubble_seconds, "#cfcfcf"))
        for name, seconds, colour in parts:
            figure.add_bar(
                x=ranks, y=list(seconds), name=name, legendgroup=name, showlegend=column == 1, marker_color=colour,
                row=1, col=column,
            )  # fmt: skip
        figure.update_xaxes(title_text="rank", tickvals=ranks, row=1, col=column)
    figure.update_yaxes(title_text=f"time ({unit})", col=1)
    figure.update_annotations(font_size=12)
    figure.update_layout(barmode="stack", bargap=0.25, legend=LEGEND_ABOVE_PANELS, margin=dict(t=110))
    return figure


def _width(timelines: Iterable[Timeline], end: float) -> float:
    """Pixels: 900, or up to 2000 where the narrowest cell would not hold its micro-batch number."""
    spans = [span for timeline in timelines for rank in timeline.spans for span in rank]
    digits = max(len(str(part.micro_batch)) for span in spans for part in span.step.parts)
    shortest = min(span.end - span.start for span in spans)
    return 100 + min(1900.0, max(800.0, (2 + 6 * digits) * end / shortest)) if shortest else 2000


def _lanes(timeline: Timeline, unit: str, legend: set[str]) -> list[go.Bar]:
    """One trace per kind, first and later stages apart; `legend` collects the kinds that already have an entry."""
    cells: dict[tuple[str, bool], list[tuple[int, Span, Operation]]] = {}
    for rank, spans in enumerate(timeline.spans):
        first = min(part.stage for span in spans for part in span.step.parts)
        for span in spans:
            for part in span.step.parts:
                cells.setdefault((part.kind, part.stage != first), []).append((rank, span, part))
    traces = []
    for kind in ("F", "BW", "B", "W"):
        for later in (False, True):
            if (kind, later) in cells:
                traces.append(_trace(kind, later, cells[kind, later], unit, show=kind not in legend))
                legend.add(kind)
    return traces


def _trace(kind: str, later: bool, cells: Sequence[tuple[int, Span, Operation]], unit: str, show: bool) -> go.Bar:
    places = np.array([_place(rank, span, part) for rank, span, part in cells])
    return go.Bar(
        orientation="h",
        base=np.array([span.start for _, span, _ in cells]),
        x=np.array([span.end - span.start for _, span, _ in cells]),
        y=places[:, 0],
        width=places[:, 1],
        customdata=np.array([(part.micro_batch, part.stage) for *_, part in cells]),
        texttemplate="%{customdata[0]}",
        hovertemplate=f"{NAMES[kind]}, micro-batch %{{customdata[0]}}, stage %{{customdata[1]}}<br>"
        f"from %{{base}}, %{{x}} {unit}<extra></extra>",
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        constraintext="none",
        textfont=dict(size=9, color="#111111" if later else "white"),
        marker=dict(
            color=OPERATION_COLOURS[kind], opacity=LATER_STAGE if later else 1.0, line=dict(color="white", width=0.7)
        ),
        name=NAMES[kind],
        legendgroup=kind,
        legendrank=1 + list(NAMES).index(kind),
        showlegend=show,
    )


def _place(rank: int, span: Span, part: Operation) -> tuple[float, float]:
    """Centre and height of a cell in its rank's lane."""
    parts = span.step.parts
    if len(parts) == 1:
        return float(rank), LANE
    return rank + (-LANE / 4 if part is parts[0] else LANE / 4), LANE / 2
