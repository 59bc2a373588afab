"""The paper's tables as text and its two headline figures, redrawn to scale, from the published numbers."""

from collections.abc import Iterable, Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from trex.published import Row, Table
from trex.report.figures import COLOURS, styled
from trex.report.text import align

PALE, BLUE, ORANGE, GREY = "#b9cbdc", COLOURS[0], COLOURS[1], "#9aa5b1"
BENCHMARKS = {
    "nl4opt": "NL4OPT",
    "optibench": "OptiBench",
    "b4o_feasible": "B4O-Feasible",
    "b4o_orgeval": "B4O-ORGEval",
}
SIZE = {"width": 1000, "height": 450, "margin": {"t": 95, "b": 115}}


def text_table(rows: Iterable[Row], columns: Mapping[str, str]) -> str:
    """Rows as aligned text: their names, then each column by its format (`.2f`), the unit and a `*` if derived behind.

    What is not public shows as `–`, what a row does not have as nothing.
    """
    cells = [["", *(column.replace("_", " ") for column in columns)]]
    for row in rows:
        cells.append([row.name])
        for column, form in columns.items():
            number = row.numbers.get(column)
            mark = "*" if number and number.label == "derived" else ""
            value = f"{number.value:{form}} {number.unit}".rstrip() if number else "–" if column in row.missing else ""
            cells[-1].append(value + mark)
    return align(cells)


def mfu_ladder(ladder: Table) -> go.Figure:
    """MFU (published) after each optimization, the gain in orange, beside the step time (derived) that follows."""
    names = [row.name.replace(" ", "<br>", 1) for row in ladder]
    mfu = [row["mfu"].value for row in ladder]
    before = [mfu[0], *mfu[:-1]]
    gains = [now - last for now, last in zip(mfu, before, strict=True)]
    steps = [row["step_s"].value for row in ladder]
    titles = ("MFU  <i>(published)</i>", "step time  <i>(derived)</i>")
    figure = make_subplots(1, 2, column_widths=[0.54, 0.46], horizontal_spacing=0.1, subplot_titles=titles)
    figure.add_bar(x=names, y=before, marker_color=[BLUE, *[PALE] * (len(mfu) - 1)], width=0.62, row=1, col=1)
    figure.add_bar(x=names, y=gains, marker_color=ORANGE, width=0.62, row=1, col=1)
    for name, top, gain in zip(names, mfu, gains, strict=True):
        text = f"<b>{top:.2f} %</b>" + (f"<br><span style='color:{ORANGE}'>+{gain:.2f}</span>" if gain else "")
        figure.add_annotation(x=name, y=top, text=text, showarrow=False, yanchor="bottom", row=1, col=1)
    hatched = {"color": "white", "line": {"color": BLUE, "width": 1.5}, "pattern": {"shape": "/", "fgcolor": BLUE}}
    figure.add_bar(
        x=names, y=steps, marker=hatched, width=0.62, row=1, col=2,
        text=[f"{step:.1f} s" for step in steps], textposition="outside",
    )  # fmt: skip
    figure.update_xaxes(tickangle=0, tickfont_size=11)
    figure.update_yaxes(title_text="MFU, %", range=[0, 42], row=1, col=1)
    figure.update_yaxes(title_text="step time, s", range=[0, 90], row=1, col=2)
    figure.update_layout(barmode="stack", showlegend=False, **SIZE)
    title = f"DeepSeek-V4-Pro training on Ascend 910C: {mfu[-1] / mfu[0]:.2f} × the MFU of the open recipe"
    note = (
        "MFU: figure 1 of arXiv 2607.20145, its definition not stated.<br>"
        "Step time: 40.76 s of communication are 52.2 % of the baseline's kernel time; the same work at every step."
    )
    return _lower(styled(figure, title, label="published + derived", note=note))


def or_scores(scores: Table) -> go.Figure:
    """Zero-shot Pass@1 of Flash, of SFT alone and of T-Rex by benchmark, beside all published averages."""
    flash = scores.where(family="Flash")
    colours = dict(zip((row.id for row in flash), (GREY, BLUE, ORANGE), strict=True))
    figure = make_subplots(
        1, 2, column_widths=[0.6, 0.4], horizontal_spacing=0.16, subplot_titles=("by benchmark", "average of the four")
    )  # fmt: skip
    for row in flash:
        values = [row[benchmark].value for benchmark in BENCHMARKS]
        figure.add_bar(
            name=row.name, x=list(BENCHMARKS.values()), y=values, marker_color=colours[row.id], row=1, col=1,
            text=[f"{value:.2f}" for value in values], textposition="outside", textfont_size=11,
        )  # fmt: skip
    ranked = sorted([*flash, *scores.where(family="other")], key=lambda row: row["average"].value)
    averages = [row["average"].value for row in ranked]
    figure.add_bar(
        orientation="h", x=averages, y=[row.name for row in ranked], showlegend=False, cliponaxis=False, row=1, col=2,
        marker_color=[colours.get(row.id, PALE) for row in ranked], text=[f"{value:.2f}" for value in averages],
        textposition="outside",
    )  # fmt: skip
    figure.update_yaxes(title_text="Pass@1, %", range=[0, 100], row=1, col=1)
    figure.update_xaxes(title_text="Pass@1, %", range=[0, 90], dtick=20, row=1, col=2)
    figure.update_layout(barmode="group", bargap=0.16, bargroupgap=0.04, **SIZE)
    figure.update_layout(legend={"y": 1.09, "x": 0.0, "xanchor": "left"})
    title = "Operations-research benchmarks: DeepSeek-V4-Flash before and after T-Rex"
    note = (
        "zero-shot Pass@1, reported by the authors: project page of arXiv 2607.20145 and its figure 1.<br>"
        "Of the other models only the averages are public."
    )
    return _lower(styled(figure, title, label="published", note=note))


def _lower(figure: go.Figure) -> go.Figure:
    """Move the caption below two-line tick labels and axis names."""
    figure.layout.annotations[-1].yshift = -66
    return figure
