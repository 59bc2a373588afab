"""Figures of the data chapter: how large the problems are, what the gates refuse, and what they notice."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import plotly.graph_objects as go

from trex.data import families
from trex.data.documents import Document
from trex.data.problem import DIFFICULTIES
from trex.data.trials import Trial
from trex.report.figures import COLOURS

MEASURES = ("variables", "constraints", "characters")


def columns(documents: Iterable[Document]) -> dict[str, list[Any]]:
    """One entry per document: family, area, mode, difficulty, variables, constraints, objective, characters."""
    names = ("family", "area", "mode", "difficulty", "variables", "constraints", "objective", "characters")
    table: dict[str, list[Any]] = {name: [] for name in names}
    for document in documents:
        origin = document.provenance
        row = (
            document.family, families.get(document.family).area, document.mode, origin["difficulty"],
            origin["variables"], origin["constraints"], document.objective, len(document.text),
        )  # fmt: skip
        for name, value in zip(names, row, strict=True):
            table[name].append(value)
    return table


def summary(table: Mapping[str, Sequence[Any]]) -> str:
    """Markdown table: per area, its families, the number of documents, and median and range of what they measure."""
    lines = [
        "| area | families | documents | " + " | ".join(f"{name}: median (range)" for name in MEASURES) + " |",
        "|---|---|---:|" + "---:|" * len(MEASURES),
    ]
    for area in sorted(set(table["area"])):
        chosen = [k for k, found in enumerate(table["area"]) if found == area]
        cells = []
        for name in MEASURES:
            values = [table[name][k] for k in chosen]
            cells.append(f"{median(values):,.0f} ({min(values):,.0f}–{max(values):,.0f})")
        named = ", ".join(sorted({_spoken(table["family"][k]) for k in chosen}))
        lines.append(f"| {area} | {named} | {len(chosen)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def sizes(variables: Mapping[str, Mapping[int, Sequence[int]]]) -> go.Figure:
    """Variables of every family by difficulty, logarithmic: family -> difficulty -> variables of some instances."""
    names = sorted(variables, key=lambda name: median(variables[name][max(DIFFICULTIES)]))
    figure = go.Figure()
    for level, colour in zip(DIFFICULTIES, COLOURS, strict=False):
        figure.add_scatter(
            x=[count for name in names for count in variables[name][level]],
            y=[_spoken(name) for name in names for _ in variables[name][level]],
            name=f"difficulty {level}",
            mode="markers",
            marker={"color": colour, "size": 6, "opacity": 0.8},
        )
    figure.update_xaxes(title="variables", type="log", tickvals=[5, 10, 20, 50, 100, 200, 500, 1000])
    figure.update_yaxes(tickfont={"size": 10}, dtick=1)
    figure.update_layout(height=160 + 17 * len(names), margin={"l": 220})
    return figure


def effects(found: Mapping[str, float], title: str) -> go.Figure:
    """By how much the optimum changes without each clause, in percent; named where none is left."""
    names = list(found)
    finite = [100 * value if value != float("inf") else 0.0 for value in found.values()]
    texts = ["no optimum is left" if value == float("inf") else f"{100 * value:.3g} %" for value in found.values()]
    figure = go.Figure(
        go.Bar(x=finite, y=[_spoken(name) for name in names], orientation="h", text=texts, marker_color=COLOURS[0])
    )
    figure.update_xaxes(title=title)
    return figure


def funnel(found: Mapping[str, tuple[int, int]]) -> go.Figure:
    """How many instances reach each gate, and how many it refuses."""
    gates = list(found)
    figure = go.Figure()
    passed = [reached - refused for reached, refused in found.values()]
    figure.add_bar(x=gates, y=passed, name="let through", marker_color=COLOURS[2])
    figure.add_bar(x=gates, y=[refused for _, refused in found.values()], name="refused", marker_color=COLOURS[3])
    figure.update_layout(barmode="stack")
    figure.update_yaxes(title="instances", rangemode="tozero")
    return figure


def noticed(trials: Sequence[Trial]) -> go.Figure:
    """Share of broken models that the optimum alone tells, and that the gates notice, by kind of breach."""
    kinds = sorted({trial.what for trial in trials})
    figure = go.Figure()
    for name, tells, colour in (
        ("by the optimum alone", lambda trial: trial.by_value, COLOURS[1]),
        ("by the gates", lambda trial: bool(trial.gate), COLOURS[2]),
    ):
        shares = []
        for kind in kinds:
            chosen = [bool(tells(trial)) for trial in trials if trial.what == kind]
            shares.append(100 * sum(chosen) / len(chosen))
        figure.add_bar(x=kinds, y=shares, name=name, marker_color=colour)
    figure.update_layout(barmode="group")
    figure.update_yaxes(title="noticed, percent", range=[0, 105])
    return figure


def _spoken(family: str) -> str:
    return family.replace("_", " ")
