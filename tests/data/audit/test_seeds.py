"""The public seeds: the audit names the same rows as an independent run of each program; and that run, put to the test.

The audit's verdicts on the seeds that are packaged fit the readings, and what an audit of the file finds.
"""

import copy
import json
import math
from collections import Counter
from pathlib import Path

import pyomo.environ as pyo
import pytest

import trex.paths
from trex.data.audit.independent import (
    SEEDS_REFUSED,
    Found,
    differences,
    optimum,
    parts,
    run_all,
    seeds_verdicts,
)
from trex.data.audit.readings import against, readings
from trex.data.audit.run import VERDICTS, Here, audit
from trex.data.problem import DataError

SEEDS = Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks" / "public_seeds.jsonl"
CODE = (
    "import gurobipy as gp\nm = gp.Model()\nx = m.addVar(ub={}, vtype='I')\nm.setObjective({}, gp.GRB.MAXIMIZE)\n"
    "m.addConstr(x >= {})\nm.optimize()\n"
)
ROWS = {
    "good": CODE.format(7, "2 * x", 1),
    "infeasible": CODE.format(7, "x", 8),
    "unbounded": CODE.format("gp.GRB.INFINITY", "x", 1),
    "zero point": CODE.format(0, "3 * x", 0),
    "zero optimum": CODE.format(7, "0 * x", 3),
    "quadratic": CODE.format(7, "-x * x", 2),
    "error": CODE.format("unknown", "x", 1),
    "no model": "print(1)\n",
}


def judged(path: Path, out: Path, **options) -> list[dict]:
    """The verdicts of an audit."""
    audit(path, out, **options)
    return [json.loads(line) for line in (out / VERDICTS).read_text().splitlines()]


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> tuple[list[dict], dict[str, Found]]:
    """Verdicts on ROWS, and what the independent run finds of them."""
    folder = tmp_path_factory.mktemp("small")
    path = folder / "rows.jsonl"
    lines = [
        {"id": name, "problem": "How much?", "answer": f"<python>\n{code}</python>"} for name, code in ROWS.items()
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return judged(path, folder / "out", pool=Here, seconds=20.0), run_all(path, 20.0)


def test_an_independent_run_finds_what_each_program_was_written_for(small):
    _, found = small
    assert [found[name].status for name in ("good", "infeasible", "unbounded")] == [2, 3, 5]
    assert [(found[n].value, found[n].away) for n in ("good", "zero point", "zero optimum")] == [
        (14, 1),
        (0, 0),
        (0, 1),
    ]
    assert found["quadratic"].value == -4 and {n for n, one in found.items() if one.beyond} == {"quadratic"}
    assert {name for name, one in found.items() if one.failed} == {"error", "no model"}
    assert "unknown" in found["error"].failed


def test_the_audit_of_rows_of_every_outcome_has_no_differences(small):
    assert differences(*small) == []


@pytest.mark.parametrize(
    ("name", "gate", "told"),
    [
        ("infeasible", "optimum", "infeasible models"),
        ("unbounded", "optimum", "unbounded models"),
        ("zero point", "trivial", "whose point is zero"),
        ("zero optimum", "trivial", "optimum or point is zero"),
        ("quadratic", "nonlinear", "not linear"),
        ("error", "execution", "programs that fail"),
    ],
)
def test_a_finding_that_is_lost_is_a_difference(small, name: str, gate: str, told: str):
    verdicts, found = copy.deepcopy(small)
    one = next(verdict for verdict in verdicts if verdict["id"] == name)
    one["findings"] = [finding for finding in one["findings"] if finding["gate"] != gate]
    said = differences(verdicts, found)
    assert said and told in said[-1] and f"the runs alone ['{name}']" in said[-1]


def test_another_optimum_a_row_too_few_and_a_finding_too_many_are_differences(small):
    verdicts, found = copy.deepcopy(small)
    verdicts[0]["objective"] = 14.1
    assert differences(verdicts, found) == ["optimum of good: 14.1 in the audit, 14.0 in the run"]
    verdicts[0]["objective"] = 14.0
    verdicts[0]["findings"] = [{"gate": "optimum", "kind": "infeasible", "severity": "refuse"}]
    assert differences(verdicts, found) == ["infeasible models: the audit alone names ['good'], the runs alone []"]
    assert differences(verdicts[1:], found)[0] == "rows: the audit alone names [], the runs alone ['good']"


def test_program_and_files_are_cut_out_of_a_row():
    problem = "Text.\n\n### `a.json`\n```json\n[1]\n```\nMore.\n```\nno file\n```\n### b.csv\n```\nx\ny\n```"
    code, files = parts({"id": "r", "problem": problem, "answer": "So:\n<python>\n```python\nx = 1\n```\n</python> y"})
    assert code.strip() == "x = 1"
    assert files == {"a.json": "[1]\n", "b.csv": "x\ny\n"}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"id": "a", "messages": []}', "row 'a': its keys are id, messages"),
        ('{"problem": "p", "answer": "a"}', "line 1"),
        ("[1]", "line 1: '\\[1\\]'"),
        ("{", "line 1: '{'"),
        ('{"id": "a", "problem": "p", "answer": "1"}\n{"id": "a"}', "line 2"),
    ],
)
def test_rows_of_another_shape_are_refused_by_line_or_id(tmp_path: Path, line: str, named: str):
    (tmp_path / "rows.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=named):
        run_all(tmp_path / "rows.jsonl")


def knapsack(domain, sense=pyo.maximize) -> pyo.ConcreteModel:
    """Worth 5, 4, 3 for weights 2, 3, 1 within 5: 8 and two thirds of 4 in parts, 9 in whole ones; 1 besides."""
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1, 2], domain=domain, bounds=(0, 1))
    m.room = pyo.Constraint(expr=2 * m.x[0] + 3 * m.x[1] + m.x[2] <= 5)
    m.worth = pyo.Objective(expr=5 * m.x[0] + 4 * m.x[1] + 3 * m.x[2] + 1, sense=sense)
    return m


def test_a_pyomo_model_has_the_optimum_that_is_known_by_hand():
    assert optimum(knapsack(pyo.Binary)) == ("optimal", pytest.approx(10))  # the first two, and the constant
    status, value = optimum(knapsack(pyo.NonNegativeReals))
    assert status == "optimal" and math.isclose(value, 1 + 5 + 3 + 4 * 2 / 3)
    assert optimum(knapsack(pyo.Binary, pyo.minimize)) == ("optimal", pytest.approx(1))
    broken = knapsack(pyo.Binary)
    broken.more = pyo.Constraint(expr=broken.x[0] + broken.x[1] + broken.x[2] >= 3)
    assert optimum(broken) == ("infeasible", None)


def test_the_packaged_verdicts_fit_what_the_readings_say_of_the_audit():
    verdicts = {row["id"]: row["verdict"] for row in seeds_verdicts()}
    assert list(verdicts) == [one.id for one in readings()]
    refused = [name for names in SEEDS_REFUSED.values() for name in names]
    assert Counter(verdicts.values()) == {"accepted": 89, "refused": 11} and len(set(refused)) == 11
    for one in readings():
        if one.audit == "misses" or (one.reading, one.audit) == ("right", "agrees"):
            assert verdicts[one.id] == "accepted", one
        if one.audit == "too strict" or one.kind == "infeasible":
            assert verdicts[one.id] == "refused", one
    assert against(seeds_verdicts())["unread"] == []


@pytest.mark.slow
@pytest.mark.skipif(not SEEDS.is_file(), reason="the public seeds are not here")
def test_the_audit_names_the_rows_that_an_independent_run_names(tmp_path: Path):
    found = run_all(SEEDS)
    verdicts = judged(SEEDS, tmp_path / "out", processes=2, seconds=60.0)
    assert [verdict["id"] for verdict in verdicts] == list(found)
    assert differences(verdicts, found) == []
    assert len(found) == 100 and sum(one.status == 3 for one in found.values()) > 0
    assert any(one.away == 0 for one in found.values())
    by_gate = {
        gate: tuple(
            verdict["id"]
            for verdict in verdicts
            if any((f["gate"], f["severity"]) == (gate, "refuse") for f in verdict["findings"])
        )
        for gate in SEEDS_REFUSED
    }
    assert by_gate == SEEDS_REFUSED
    assert [{key: verdict[key] for key in ("id", "verdict")} for verdict in verdicts] == seeds_verdicts()
