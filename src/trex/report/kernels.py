"""Figures of the operators: measured speed-ups beside published ones, and the share of the memory bandwidth reached."""

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from trex.device import Measurement
from trex.kernels.timing import Timing
from trex.report.figures import COLOURS

Value = float | Measurement  # a measurement is drawn with its low and high
PUBLISHED, MEASURED, MODELLED, EAGER = COLOURS[1], COLOURS[0], COLOURS[4], COLOURS[5]
ABOVE = dict(y=1.03, x=0, xanchor="left")


def speedups(
    published: Mapping[str, Value], modelled: Mapping[str, Value], measured: Mapping[str, Value], device: str
) -> go.Figure:
    """Speed-ups by operator, three bars each: published on the 910C, of perfect fusion, and measured on `device`.

    Measured bars are medians with low and high as whiskers. An operator may lack a bar.
    """
    names = list(dict.fromkeys([*published, *modelled, *measured]))
    series: dict[str, tuple[Mapping[str, Value], str]] = {
        "Ascend 910C, AuraKernel over its baseline (published)": (published, PUBLISHED),
        "any memory-bound device, perfect fusion over eager (modelled)": (modelled, MODELLED),
        f"{device}, compiled over eager (measured)": (measured, MEASURED),
    }
    figure = _grouped(names, {legend: part for legend, part in series.items() if part[0]})
    spans = [_span(value) for values, _ in series.values() for value in values.values()]
    bottom, top = 0.9 * min(1.0, *(low for low, *_ in spans)), 1.3 * max(high for *_, high in spans)
    figure.update_yaxes(
        title_text="speed-up over the baseline (×, log)", type="log", range=[math.log10(bottom), math.log10(top)],
        tickvals=[0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500],
    )  # fmt: skip
    figure.add_hline(y=1, line=dict(color="#444444", width=1))
    figure.update_layout(height=520, margin=dict(t=125, b=110), legend=dict(ABOVE, orientation="v"))
    return figure


def bandwidth_fractions(timings: Mapping[str, Timing], names: Mapping[str, str]) -> go.Figure:
    """Share of the stream bandwidth by case, one bar per backend; `names` gives each backend's legend entry."""
    series: dict[str, tuple[Mapping[str, Value], str]] = {
        legend: ({case: _percent(timing.fraction[backend]) for case, timing in timings.items()}, colour)
        for (backend, legend), colour in zip(names.items(), (EAGER, MEASURED), strict=False)
    }
    figure = _grouped(list(timings), series)
    figure.add_hline(y=100, line=dict(color="#444444", dash="dot", width=1))
    figure.update_yaxes(
        title_text="share of the stream bandwidth (%)", range=[0, max(112, figure.layout.yaxis.range[1])]
    )
    figure.update_layout(legend=ABOVE, margin=dict(t=95, b=100), height=440)
    return figure


def _grouped(names: Sequence[str], series: Mapping[str, tuple[Mapping[str, Value], str]]) -> go.Figure:
    """Bars in groups by name, one series (values, colour) per legend entry, each value written above its whisker."""
    figure, width = go.Figure(), 0.8 / len(series)
    for place, (legend, (values, colour)) in enumerate(series.items()):
        present = [name for name in names if name in values]
        spans = [_span(values[name]) for name in present]
        at = [names.index(name) + (place - (len(series) - 1) / 2) * width for name in present]
        figure.add_bar(x=at, y=[middle for _, middle, _ in spans], width=width, name=legend, marker_color=colour)
        if any(isinstance(values[name], Measurement) for name in present):
            figure.data[-1].error_y = dict(
                type="data", symmetric=False, color="#333333", thickness=1.2,
                array=[high - middle for _, middle, high in spans],
                arrayminus=[middle - low for low, middle, _ in spans],
            )  # fmt: skip
        figure.add_scatter(
            x=at, y=[high for *_, high in spans], text=[f"{middle:.3g}" for _, middle, _ in spans], mode="text",
            textposition="top center", textfont=dict(size=12, color=colour), showlegend=False, hoverinfo="skip",
        )  # fmt: skip
    labels = [name.replace(", ", ",<br>") for name in names]
    top = max(_span(value)[2] for values, _ in series.values() for value in values.values())
    figure.update_xaxes(tickvals=list(range(len(names))), ticktext=labels, range=[-0.55, len(names) - 0.45])
    figure.update_yaxes(range=[0, 1.12 * top])
    return figure


def _span(value: Value) -> tuple[float, float, float]:
    return (value.low, value.median, value.high) if isinstance(value, Measurement) else (value, value, value)


def _percent(m: Measurement) -> Measurement:
    return Measurement(100 * m.median, 100 * m.low, 100 * m.high, "%", m.repeats)
