"""Reference models against recorded optima: all shared rows agree; those that need SCIP are listed by id."""

import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import trex.paths
from trex.eval import benchmarks, references
from trex.eval.references import DIFFERS, UNRECORDED, Reference, check_references, summary
from trex.report import benchmarks as figures
from trex.solver import highs

SHARED = Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks"
NOT_TAKEN = "HiGHS does not take quadratic rows"
ALONE = {  # Bench4Opt, both sets: what HiGHS by itself makes of the rows whose optimum SCIP proves
    "BENCH4OPT_32": "Solve error",
    "BENCH4OPT_33": "Solve error",
    "BENCH4OPT_56": NOT_TAKEN,
    "BENCH4OPT_57": NOT_TAKEN,
    "BENCH4OPT_364": "Optimal",  # not convex either, but the point at which HiGHS stops happens to be the best one
    "BENCH4OPT_365": "Optimal",
}

LINEAR = "max\n 3 x[0] + 2 x[1]\nst\n c: x[0] + x[1] <= 4\nbounds\n x[0] <= 3\nend\n"  # 11
INDEFINITE = """min
 x[0] + x[1] + [ x[0]^2 - 10 x[0]*x[1] + x[1]^2 ] / 2
st
 c: x[0] + x[1] <= 9
bounds
 x[0] <= 4
 x[1] <= 4
end
"""  # -56 at (4, 4), as the objective is at least s - s^2 with s = x[0] + x[1]; HiGHS stops at the origin
ROWS = (
    Reference("right", LINEAR, 11.0),
    Reference("twin", LINEAR, 11.00001),  # 9e-7 off, relative
    Reference("wrong", LINEAR, 11.0001),
    Reference("unknown", LINEAR, None),
    Reference("zero", "min\n x\nst\n c: x >= 0\nend\n", -0.0),
    Reference("curved", INDEFINITE, -56.0),
    Reference("square rows", "min\n x\nst\n c: [ x^2 ] >= 1\nend\n", 1.0),
    Reference("mixed", "min\n [ x^2 ]\nst\n c: x >= 0.5\ngenerals\n x\nend\n", 1.0),
    Reference("infeasible", "min\n x\nst\n c: x >= 2\n d: x <= 1\nend\n", 1.0),
    Reference("unbounded", "max\n x\nst\n c: x >= 2\nend\n", 1.0),
)


def test_every_row_agrees_or_has_its_reason():
    checks = check_references(ROWS)
    assert {check.id: check.reason for check in checks if not check.agrees} == {
        "wrong": DIFFERS, "unknown": UNRECORDED, "infeasible": "infeasible", "unbounded": "unbounded",
    }  # fmt: skip
    assert [check.reason for check in checks if check.agrees] == [""] * 6
    by_id = {check.id: check for check in checks}
    assert by_id["twin"].difference == pytest.approx(1e-5 / 11, rel=1e-3)
    assert by_id["zero"].difference == 0.0 and by_id["infeasible"].difference is None
    assert by_id["unbounded"].objective is None
    # x = 0.5 would be best without integrality, with 0.25
    optima = {"curved": -56.0, "square rows": 1.0, "mixed": 1.0, "unknown": 11.0, "wrong": 11.0}
    assert {id: by_id[id].objective for id in optima} == pytest.approx(optima, rel=1e-6)


def test_a_check_names_its_solver_and_what_highs_alone_claims_where_that_is_another():
    by_id = {check.id: check for check in check_references(ROWS)}
    by_scip = {id for id, check in by_id.items() if check.solver.startswith("SCIP ")}
    assert by_scip == {"curved", "square rows", "mixed"}
    assert {check.solver for id, check in by_id.items() if id not in by_scip} == {highs.NAME}
    assert {id for id, check in by_id.items() if check.highs_alone} == by_scip
    assert by_id["square rows"].highs_alone == NOT_TAKEN and by_id["curved"].highs_alone == "Optimal"
    assert by_id["curved"].claimed > -50, "HiGHS alone finds the true optimum: the example shows nothing"
    assert {id for id, check in by_id.items() if check.claimed is not None} == {"curved"}


def test_text_that_is_not_read_has_its_reason_and_no_solver():
    (check,) = check_references([Reference("cut", "min\n x\nst\n c: x >= 1\n", 1.0)])
    assert (check.status, check.solver, check.highs_alone, check.claimed) == ("not read", "", "", None)
    assert check.reason.startswith("expected a section or End; found end of text") and not check.agrees


def test_counts_of_rows_and_of_distinct_models():
    counts = summary(check_references(ROWS))
    assert (counts["rows"], counts["agree"], counts["models"]) == (10, 6, 7)
    assert counts["models_agree"] == 4, "the linear model has a row that disagrees"
    assert sum(counts["disagree_by_reason"].values()) == 4 and counts["disagree_by_reason"][DIFFERS] == 1
    by_solver = {name.split()[0]: count for name, count in counts["optima_by_solver"].items()}
    assert by_solver == {"HiGHS": 5, "SCIP": 3}, "rows without an optimum count for no solver"
    assert counts["highs_alone"] == {"right": 0, "wrong": 1, "none": 2}
    assert summary(()) == {
        "rows": 0, "agree": 0, "models": 0, "models_agree": 0, "disagree_by_reason": {}, "optima_by_solver": {},
        "highs_alone": {"right": 0, "wrong": 0, "none": 0}, "largest_relative_difference": None,
        "timings": {"solve_seconds": 0},
    }  # fmt: skip


def test_what_highs_alone_claims_is_compared_with_the_optimum_not_with_the_record():
    curved = next(check for check in check_references(ROWS) if check.id == "curved")
    claims = [replace(curved, recorded=0.0, claimed=claim) for claim in (-56.0, -56.00001, -55.9, 0.0, None)]
    assert summary(claims)["highs_alone"] == {"right": 2, "wrong": 2, "none": 1}


def test_the_hash_of_rows_changes_with_everything_that_was_read():
    rows = ROWS[:2]
    found = references.rows_read(rows, "b4o_feasible")
    text = f'[["right","{LINEAR}",11.0],["twin","{LINEAR}",11.00001]]'.replace("\n", "\\n")
    assert found == {"released": 344, "rows_sha256": hashlib.sha256(text.encode()).hexdigest()}
    changes = [{"id": "other"}, {"lp": LINEAR + "\n"}, {"recorded": 11.5}, {"recorded": None}]
    others = [(replace(rows[0], **change), rows[1]) for change in changes] + [rows[::-1], rows[:1]]
    assert len({references.rows_read(other, "b4o_feasible")["rows_sha256"] for other in (rows, *others)}) == 7


def test_columns_are_of_equal_length_and_figures_hold_every_row():
    checks = check_references(ROWS)
    assert {len(column) for column in references.table(checks).values()} == {len(ROWS)}
    bars = figures.outcomes(checks).data[0]
    assert sum(bars.x) == len(ROWS) and bars.x[:2] == (3, 3), "rows that agree, by HiGHS and by SCIP"
    traces = figures.differences(checks).data
    assert [trace.name.split()[0] for trace in traces] == ["HiGHS", "SCIP"]
    assert sum(len(trace.x) for trace in traces) == len({c.model for c in checks if c.difference is not None})
    assert figures.outcomes(()).data and not figures.differences(()).data


def test_family_models_written_to_lp_solve_to_the_recorded_objective():
    rows = references.family_references(9, seed=1)
    counts = summary(check_references(rows))
    assert counts["rows"] == counts["agree"] == counts["models"] == 9
    assert len({row.id.rsplit("_", 1)[0] for row in rows}) >= 3, "one row of every family"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the benchmark folder is not here")
def test_shared_feasible_rows():
    rows = benchmarks.read(SHARED).problems["b4o_feasible"]
    checks = check_references(references.references(rows))
    assert not [(check.id, check.reason) for check in checks if not check.agrees]
    assert {check.id: check.highs_alone for check in checks if check.solver != highs.NAME} == ALONE
    counts = summary(checks)
    assert (counts["rows"], counts["agree"], counts["models"], counts["models_agree"]) == (174, 174, 87, 87)
    assert counts["optima_by_solver"][highs.NAME] == 168 and counts["disagree_by_reason"] == {}
    assert counts["highs_alone"] == {"right": 2, "wrong": 0, "none": 4}
    assert counts["largest_relative_difference"] < 1e-9


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the benchmark folder is not here")
def test_shared_orgeval_rows():
    rows = benchmarks.read(SHARED).problems["b4o_orgeval"]
    checks = check_references(references.references(rows))
    assert not [(check.id, check.reason) for check in checks if not check.agrees and check.recorded is not None]
    assert {c.id: c.highs_alone for c in checks if c.recorded is not None and c.solver != highs.NAME} == ALONE
    statuses = Counter(check.status for check in checks if check.recorded is None)
    assert statuses == {"infeasible": 76, "unbounded": 12}  # every row without a record has no optimum
