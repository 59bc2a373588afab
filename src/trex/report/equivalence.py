"""Figures of the chapter on structural equivalence: a model as a coloured graph, and verdicts side by side."""

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from trex.eval.equivalence_trials import SAME, Trial
from trex.report.figures import COLOURS
from trex.solver.equivalence import colour_rounds
from trex.solver.model import Model

VERDICTS = {"equal": COLOURS[0], "different": COLOURS[1], "unknown": COLOURS[2]}


def refinement(model: Model) -> go.Figure:
    """The graph of a model after each round of colour refinement: variables above, rows below, a colour per class."""
    rounds, edges, names = colour_rounds(model)
    columns = len(model.variables)
    titles = [f"{'start' if k == 0 else f'round {k}'}: {len(set(r))} classes" for k, r in enumerate(rounds)]
    figure = make_subplots(cols=len(rounds), rows=1, subplot_titles=titles, horizontal_spacing=0.04)
    others = len(names) - columns
    place = [(2 * j + 1.0) / (2 * columns) for j in range(columns)] + [
        (2 * k + 1.0) / (2 * others) for k in range(others)
    ]
    height = [1.0] * columns + [0.0] * others
    for number, colours in enumerate(rounds, start=1):
        lines: list[tuple[float | None, float | None]] = []
        for u, v in edges:
            lines += [(place[u], height[u]), (place[v], height[v]), (None, None)]
        figure.add_scatter(
            x=[x for x, _ in lines], y=[y for _, y in lines], mode="lines", hoverinfo="skip", showlegend=False,
            line=dict(color="#b8b8b8", width=1), row=1, col=number,
        )  # fmt: skip
        figure.add_scatter(
            x=place, y=height, mode="markers+text", text=names, showlegend=False, row=1, col=number,
            textposition=["top center"] * columns + ["bottom center"] * others, cliponaxis=False,
            marker=dict(
                size=16, color=[COLOURS[c % len(COLOURS)] for c in colours],
                symbol=["circle"] * columns + ["square"] * others, line=dict(color="white", width=1),
            ),
            hovertemplate="%{text}: class %{customdata}<extra></extra>", customdata=colours,
        )  # fmt: skip
    figure.update_xaxes(visible=False, range=[-0.05, 1.05])
    figure.update_yaxes(visible=False, range=[-0.35, 1.3])
    figure.update_layout(height=330)
    return figure


def verdicts(trials: Sequence[Trial]) -> go.Figure:
    """Bars per kind of change: how many comparisons end equal, different, unknown; ours, and as published."""
    kinds = [*SAME, *sorted({trial.change for trial in trials} - set(SAME))]
    figure = make_subplots(
        cols=2, rows=1, subplot_titles=("trex.solver.equivalence", "published checker"), shared_yaxes=True
    )
    for column, of in enumerate((lambda t: t.verdict, lambda t: t.published), start=1):
        for verdict, colour in VERDICTS.items():
            counts = [sum(t.change == kind and of(t) == verdict for t in trials) for kind in kinds]
            figure.add_bar(
                y=kinds, x=counts, orientation="h",
                name=verdict, legendgroup=verdict, showlegend=column == 1, marker_color=colour, row=1, col=column,
            )  # fmt: skip
    legend = dict(orientation="h", x=1, xanchor="right", y=1.12, yanchor="bottom")
    figure.update_layout(barmode="stack", height=160 + 36 * len(kinds), legend=legend, margin=dict(t=110))
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_xaxes(title="comparisons")
    return figure
