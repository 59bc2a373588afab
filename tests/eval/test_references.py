"""Reference models against recorded optima: every disagreement of the shared rows is listed here by id."""

import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import trex.paths
from trex.eval import benchmarks, references
from trex.eval.references import DIFFERS, UNRECORDED, Reference, check_references, summary
from trex.report import benchmarks as figures
from trex.solver.solve import MIXED_QUADRATIC, NOT_CONVEX

SHARED = Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks"
QUADRATIC_ROWS = "quadratic constraints are not supported by HiGHS"
DISAGREE = {  # Bench4Opt, both sets: the rows whose models HiGHS does not decide
    "BENCH4OPT_32": NOT_CONVEX,
    "BENCH4OPT_33": NOT_CONVEX,
    "BENCH4OPT_56": QUADRATIC_ROWS,
    "BENCH4OPT_57": QUADRATIC_ROWS,
    "BENCH4OPT_364": NOT_CONVEX,
    "BENCH4OPT_365": NOT_CONVEX,
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
"""  # -56 at (4, 4); HiGHS stops at the origin
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
    assert {check.id: check.reason for check in checks} == {
        "right": "", "twin": "", "wrong": DIFFERS, "unknown": UNRECORDED, "zero": "", "curved": NOT_CONVEX,
        "square rows": QUADRATIC_ROWS, "mixed": MIXED_QUADRATIC, "infeasible": "infeasible", "unbounded": "unbounded",
    }  # fmt: skip
    assert [check.id for check in checks if check.agrees] == ["right", "twin", "zero"]
    by_id = {check.id: check for check in checks}
    assert by_id["twin"].difference == pytest.approx(1e-5 / 11, rel=1e-3)
    assert by_id["zero"].difference == 0.0 and by_id["curved"].difference is None
    assert by_id["curved"].claimed != pytest.approx(-56), (
        "HiGHS alone finds the true optimum: the example shows nothing"
    )


def test_counts_of_rows_and_of_distinct_models():
    counts = summary(check_references(ROWS))
    assert (counts["rows"], counts["agree"], counts["models"]) == (10, 3, 7)
    assert counts["models_agree"] == 1, "the linear model has a row that disagrees"
    assert sum(counts["disagree_by_reason"].values()) == 7 and counts["disagree_by_reason"][DIFFERS] == 1
    assert summary(()) == {
        "rows": 0, "agree": 0, "models": 0, "models_agree": 0, "disagree_by_reason": {}, "claims_equal": 0,
        "largest_relative_difference": None, "timings": {"solve_seconds": 0},
    }  # fmt: skip


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
    assert sum(figures.outcomes(checks).data[0].x) == len(ROWS)
    assert len(figures.differences(checks).data[0].x) == len({c.model for c in checks if c.difference is not None})


def test_family_models_written_to_lp_solve_to_the_recorded_objective():
    rows = references.family_references(9, seed=1)
    counts = summary(check_references(rows))
    assert counts["rows"] == counts["agree"] == counts["models"] == 9
    assert len({row.id.rsplit("_", 1)[0] for row in rows}) >= 3, "one row of every family"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the benchmark folder is not here")
def test_shared_feasible_rows():
    rows = benchmarks.read(SHARED).problems["b4o_feasible"]
    checks = check_references(references.references(rows))
    assert {check.id: check.reason for check in checks if not check.agrees} == DISAGREE
    # 364 and 365 are indefinite too, but the point at which HiGHS stops happens to be the best one
    equal = {c.id for c in checks if c.claimed is not None and c.claimed == pytest.approx(c.recorded, rel=1e-6)}
    assert equal == {"BENCH4OPT_364", "BENCH4OPT_365"}
    counts = summary(checks)
    assert (counts["rows"], counts["agree"], counts["models"], counts["models_agree"]) == (174, 168, 87, 84)
    assert counts["claims_equal"] == 2 and counts["largest_relative_difference"] < 1e-9


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the benchmark folder is not here")
def test_shared_orgeval_rows():
    rows = benchmarks.read(SHARED).problems["b4o_orgeval"]
    checks = check_references(references.references(rows))
    assert {c.id: c.reason for c in checks if not c.agrees and c.recorded is not None} == DISAGREE
    statuses = Counter(check.status for check in checks if check.recorded is None)
    assert statuses == {"infeasible": 76, "unbounded": 12}  # every row without a record has no optimum
