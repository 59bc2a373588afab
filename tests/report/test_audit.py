"""Figure and tables of an audit show the numbers and sentences that they are given."""

import pytest

from trex.data.audit.findings import GATES
from trex.data.audit.readings import Reading
from trex.report import audit


def verdict(*findings: tuple[str, str]) -> dict:
    return {"findings": [{"gate": gate, "severity": severity} for gate, severity in findings]}


def test_a_row_counts_once_at_each_gate_and_as_refused_where_one_finding_refuses():
    counts = audit.by_gate([
        verdict(),
        verdict(("claim", "refuse"), ("claim", "note"), ("numbers", "note")),
        verdict(("claim", "refuse"), ("claim", "refuse")),
        verdict(("claim", "note"), ("claim", "note")),
    ])  # fmt: skip
    assert tuple(counts) == GATES
    assert counts["claim"] == {"refuse": 2, "note": 1} and counts["numbers"] == {"refuse": 0, "note": 1}
    assert sum(sum(row.values()) for row in counts.values()) == 4


def test_bars_hold_what_is_counted():
    refused, noted = audit.gates({"code": {"refuse": 3, "note": 0}, "claim": {"refuse": 1, "note": 2}}).data
    assert (list(refused.y), list(refused.x), list(noted.x)) == (["code", "claim"], [3, 1], [0, 2])
    assert list(refused.text) == ["3", "1"] and list(noted.text) == ["", "2"]


def test_the_cross_table_has_sums_and_leaves_out_verdicts_of_no_row():
    table = {
        "accepted": {"right": 7, "wrong": 2, "doubtful": 0},
        "refused": {"right": 1, "wrong": 3, "doubtful": 5},
        "unchecked": {"right": 0, "wrong": 0, "doubtful": 0},
    }
    assert audit.cross(table).splitlines()[2:] == [
        "| accepted | 7 | 2 | 0 | 9 |", "| refused | 1 | 3 | 5 | 9 |", "| rows | 8 | 5 | 5 | 18 |",
    ]  # fmt: skip


def test_reasons_come_in_the_order_asked_for_with_markup_as_text():
    read = [
        Reading("a", "wrong", "unit", "It costs $5 for x[r] * y | z_1.", "misses"),
        Reading("b", "wrong", "data", "Made up.", "misses"),
    ]
    assert audit.reasons(["b", "a"], read).splitlines()[2:] == [
        "| `b` | data | Made up. |",
        r"| `a` | unit | It costs \$5 for x\[r\] \* y \| z\_1. |",
    ]
    with pytest.raises(KeyError):
        audit.reasons(["c"], read)
