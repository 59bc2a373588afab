"""An audit's verdicts by gate as a figure, and what a reader says of the rows as tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from trex.data.audit.findings import GATES, NOTE, REFUSE
from trex.data.audit.readings import READINGS, Reading
from trex.report.figures import COLOURS

MARKUP = frozenset("\\`*_[]<>|$~")


def by_gate(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Gate -> severity -> rows, of verdicts as verdicts.jsonl has them: refused there, or only noted."""
    counts = {gate: {REFUSE: 0, NOTE: 0} for gate in GATES}
    for verdict in verdicts:
        for gate in {finding["gate"] for finding in verdict["findings"]}:
            said = {finding["severity"] for finding in verdict["findings"] if finding["gate"] == gate}
            counts[gate][REFUSE if REFUSE in said else NOTE] += 1
    return counts


def gates(counts: Mapping[str, Mapping[str, int]]) -> go.Figure:
    """Bars: rows that each gate refuses, and rows of which it only notes something; a row may be at several gates."""
    figure = go.Figure()
    names = list(counts)
    for severity, told, colour in ((REFUSE, "refused", COLOURS[3]), (NOTE, "noted only", COLOURS[5])):
        values = [counts[name][severity] for name in names]
        figure.add_bar(
            x=values, y=names, name=told, orientation="h", marker_color=colour,
            text=[str(value or "") for value in values], hovertemplate="%{y}: %{x}<extra>" + told + "</extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack", height=220 + 26 * len(names))
    figure.update_xaxes(title="rows", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", ticks="", automargin=True)
    return figure


def cross(table: Mapping[str, Mapping[str, int]]) -> str:
    """Markdown: the audit's verdict -> reading -> rows, with sums; verdicts that no row has are left out."""
    lines = [f"| | {' | '.join(f'read as {name}' for name in READINGS)} | rows |", "|---|" + "---:|" * 4]
    for verdict, row in table.items():
        if any(row.values()):
            lines.append(_numbers(verdict, [row[name] for name in READINGS]))
    lines.append(_numbers("rows", [sum(row[name] for row in table.values()) for name in READINGS]))
    return "\n".join(lines)


def reasons(names: Sequence[str], read: Iterable[Reading]) -> str:
    """Markdown: id, kind and reason of the readings of some rows. Raises KeyError for an id without a reading."""
    by_id = {one.id: one for one in read}
    lines = ["| row | kind | what is wrong |", "|---|---|---|"]
    for one in (by_id[name] for name in names):
        lines.append(f"| `{one.id}` | {one.kind} | {_plain(one.reason)} |")
    return "\n".join(lines)


def _numbers(name: str, values: Sequence[int]) -> str:
    return f"| {name} | {' | '.join(map(str, values))} | {sum(values)} |"


def _plain(text: str) -> str:
    """A sentence in a cell, nothing of it read as markup or formula."""
    return "".join(f"\\{letter}" if letter in MARKUP else letter for letter in text)
