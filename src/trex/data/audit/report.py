"""What a run found, counted: for the terminal, as JSON and as a page."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from trex.data.audit.findings import GATES, REFUSE, SEVERITIES
from trex.data.audit.verdicts import VERDICTS

SHOWN = 200  # ids that a page lists per gate; all are in summary.json


class Tally:
    """Verdicts counted one by one."""

    def __init__(self) -> None:
        self._verdicts: Counter[str] = Counter()
        self._kinds: dict[tuple[str, str, str], int] = Counter()
        self._refused: dict[str, list[str]] = defaultdict(list)
        self._proposed: list[dict[str, Any]] = []

    def add(self, verdict: Mapping[str, Any]) -> None:
        """Count one verdict. Raises KeyError, ValueError or TypeError for what is none."""
        if verdict["verdict"] not in VERDICTS:
            raise ValueError(f"verdict {verdict['verdict']!r}; accepted: {', '.join(VERDICTS)}")
        found = [(f["gate"], f["kind"], f["severity"]) for f in verdict["findings"]]
        for gate, kind, severity in found:
            if gate not in GATES or severity not in SEVERITIES or not isinstance(kind, str):
                raise ValueError(f"a finding of gate {gate!r}, {severity!r}; accepted: {', '.join(GATES)}")
        self._verdicts[verdict["verdict"]] += 1
        for gate, kind, severity in dict.fromkeys(found):
            self._kinds[gate, kind, severity] += 1
        for gate in dict.fromkeys(gate for gate, _, severity in found if severity == REFUSE):
            self._refused[gate].append(verdict["id"])
        if verdict["proposed_label"]:
            self._proposed.append({"id": verdict["id"], "label": verdict["label"], **dict(verdict["proposed_label"])})

    def summary(self) -> dict[str, Any]:
        """Counts of rows by verdict, gate and kind; the ids that each gate refused; labels that are proposed."""
        ordered = sorted(self._kinds.items(), key=lambda item: (GATES.index(item[0][0]), item[0][2] != REFUSE, item[0]))
        return {
            "rows": self._verdicts.total(),
            **{name: self._verdicts[name] for name in VERDICTS},
            "findings": [
                {"gate": gate, "kind": kind, "severity": severity, "rows": count}
                for (gate, kind, severity), count in ordered
            ],
            "refused_by": {gate: self._refused[gate] for gate in GATES if gate in self._refused},
            "proposed_labels": self._proposed,
        }


def text(summary: Mapping[str, Any]) -> str:
    """The summary in lines: a row may be counted at several gates."""
    lines = [f"{'gate':<12} {'kind':<22} {'severity':<8} {'rows':>7}"]
    lines += [f"{f['gate']:<12} {f['kind']:<22.22} {f['severity']:<8} {f['rows']:>7}" for f in summary["findings"]]
    lines.append(f"{summary['rows']} rows: {_counts(summary)}; {len(summary['proposed_labels'])} labels proposed")
    return "\n".join(lines)


def card(settings: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """The page of a folder."""
    lines = [
        f"# Audit of {_cell(settings['file'])}",
        "",
        f"{summary['rows']} rows: {_counts(summary)}. SHA-256 of the file: "
        f"`{settings['sha256']}`. Linear programs only: {'yes' if settings['linear'] else 'no'}; "
        f"{settings['seconds']:g} s for a program and for each solver.",
        "",
        "Every program ran confined, once; its model was solved by HiGHS and SCIP. `refuse` refuses a row, `note` does "
        "not. A row may be counted at several gates. Evidence for each is in verdicts.jsonl.",
        "",
        "| gate | kind | severity | rows |",
        "|---|---|---|---:|",
        *(f"| {f['gate']} | {_cell(f['kind'])} | {f['severity']} | {f['rows']} |" for f in summary["findings"]),
    ]
    if summary["refused_by"]:
        lines += ["", "## Refused", ""]
    for gate, names in summary["refused_by"].items():
        more = f" and {len(names) - SHOWN} more (summary.json)" if len(names) > SHOWN else ""
        lines.append(f"- {gate} ({len(names)}): {', '.join(map(_cell, names[:SHOWN]))}{more}")
    if summary["proposed_labels"]:
        lines += ["", "## Proposed labels", "", "| id | label | proposed | reason |", "|---|---:|---:|---|"]
    for row in summary["proposed_labels"]:
        lines.append(f"| {_cell(row['id'])} | {_cell(str(row['label']))} | {row['value']!r} | {_cell(row['reason'])} |")
    return "\n".join(lines) + "\n"


def _counts(summary: Mapping[str, Any]) -> str:
    return ", ".join(f"{summary[name]} {name}" for name in VERDICTS)


def _cell(text: str) -> str:
    """A text of the file in a cell of a table, as one line without markup."""
    shown = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "\\|`*[]<>" else letter for letter in shown[:120])
