"""Figures of the benchmarks chapter: reference models against the optima recorded for them."""

import math
import textwrap
from collections import Counter
from collections.abc import Sequence

import plotly.graph_objects as go

from trex.eval.references import RELATIVE, ReferenceCheck
from trex.report.figures import COLOURS

AGREES = "optimum equal to the record"
SMALLEST = 1e-17  # where an exact equality is drawn on a logarithmic axis


def outcomes(checks: Sequence[ReferenceCheck]) -> go.Figure:
    """Bars: rows that agree, by solver, then the others by reason; the number of distinct models beside each."""
    agree = [(f"{AGREES}, by {name}", group) for name, group in _by_solver([c for c in checks if c.agrees]).items()]
    reasons = Counter(check.reason for check in checks if not check.agrees).most_common()
    others = [(reason, [check for check in checks if check.reason == reason]) for reason, _ in reasons]
    groups = agree + others
    labels = [_wrapped(name) for name, _ in groups]
    rows = [len(group) for _, group in groups]
    models = [len({check.model for check in group}) for _, group in groups]
    figure = go.Figure(
        go.Bar(
            x=rows, y=labels, orientation="h", width=0.6,
            marker_color=[COLOURS[0]] * len(agree) + [COLOURS[1]] * len(others),
            text=[f"{r} rows of {m} model{'s' * (m > 1)}" for r, m in zip(rows, models, strict=True)],
            textposition="outside", cliponaxis=False, hovertemplate="%{y}: %{text}<extra></extra>",
        )
    )  # fmt: skip
    figure.update_xaxes(title="rows", range=[0, 1.3 * max(rows, default=1)])
    figure.update_yaxes(autorange="reversed", ticks="", automargin=True)
    figure.update_layout(height=200 + 70 * len(groups))
    return figure


def differences(checks: Sequence[ReferenceCheck]) -> go.Figure:
    """Points: relative difference from the record against the seconds of the solve, both logarithmic.

    One point per model, one trace per solver.
    """
    solved = list({check.model: check for check in checks if check.difference is not None}.values())
    figure = go.Figure()
    for colour, (name, group) in zip(COLOURS, _by_solver(solved).items(), strict=False):
        figure.add_scatter(
            x=[check.seconds for check in group],
            y=[max(check.difference or 0.0, SMALLEST) for check in group],
            text=[check.id for check in group], mode="markers", name=name, showlegend=True,
            marker=dict(size=9, color=colour, opacity=0.6, line=dict(width=0)),
            hovertemplate="%{text}<br>%{x:.3g} s<br>relative difference %{y:.2g}<extra>" + name + "</extra>",
        )  # fmt: skip
    exponents = range(-17, -3, 2)
    figure.update_yaxes(
        title="relative difference", type="log", range=[-17.6, -4.5],
        tickvals=[10.0**k for k in exponents], ticktext=["0", *(f"10<sup>{k}</sup>" for k in exponents[1:])],
    )  # fmt: skip
    figure.update_xaxes(title="solve time (s)", type="log", tickvals=[1e-4, 1e-3, 1e-2, 0.1, 1, 10])
    figure.add_hline(y=RELATIVE, line=dict(color=COLOURS[3], dash="dash"))
    figure.add_annotation(
        x=1, xref="paper", y=math.log10(RELATIVE), text=f"tolerance {RELATIVE:.0e}", showarrow=False,
        xanchor="right", yanchor="bottom", font=dict(color=COLOURS[3]),
    )  # fmt: skip
    return figure


def _by_solver(checks: Sequence[ReferenceCheck]) -> dict[str, list[ReferenceCheck]]:
    """The checks of every solver, by its name."""
    return {name: [c for c in checks if c.solver == name] for name in sorted({c.solver for c in checks})}


def _wrapped(text: str) -> str:
    """Text in short lines, for axis labels."""
    return "<br>".join(textwrap.wrap(text, 34)) + " "
