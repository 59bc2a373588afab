"""The shared reference models and cases: every recorded optimum, and infeasible told from unbounded by both solvers."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import trex.paths
from trex.solver import highs, lp
from trex.solver.solve import solve, violation

SHARED = Path(trex.paths.CHECKOUT).parent / "shared"
BENCHMARKS = SHARED / "benchmarks"
CASES = SHARED / "cases" / "or" / "lp_reading_highs.json"
needs_models = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmark folder is not here")


def recorded():
    """(LP text, recorded optimum or None), each text once."""
    found = {}
    rows = map(json.loads, (BENCHMARKS / "b4o_feasible" / "problems.jsonl").read_text().splitlines())
    optima = {Path(row["reference_lp"]).stem: row["optimal_value"] for row in rows}
    orgeval = json.loads((BENCHMARKS / "b4o_orgeval" / "optimal_values.json").read_text())
    for folder, values in (("b4o_feasible", optima), ("b4o_orgeval", {k.split("_")[1]: v for k, v in orgeval.items()})):
        for path in sorted((BENCHMARKS / folder / "lp").glob("*.lp")):
            found.setdefault(path.read_text(), values.get(path.stem))
    return found


@needs_models
def test_every_recorded_optimum_and_status():
    statuses, solvers = Counter(), Counter()
    for text, value in recorded().items():
        model = lp.read(text)
        solution = solve(model)
        statuses[solution.status, value is not None] += 1
        if value is None:
            assert solution.status in ("infeasible", "unbounded")
            continue
        assert solution.status == "optimal", solution.message
        assert math.isclose(solution.objective, value, rel_tol=1e-6, abs_tol=1e-9)
        assert violation(model, np.array([solution.values[name] for name in model.variables])) is None
        solvers[solution.solver.split()[0]] += 1
    assert statuses == {("optimal", True): 99, ("infeasible", False): 38, ("unbounded", False): 6}
    assert solvers == {"HiGHS": 96, "SCIP": 3}


@pytest.mark.slow
@needs_models
def test_models_without_an_optimum_are_told_apart_by_a_second_solver():
    for text, value in recorded().items():
        if value is None:
            solution = solve(lp.read(text), time_s=20, check="second")
            assert solution.agreement.agrees is not False
            assert solution.status in ("infeasible", "unbounded")


@pytest.mark.slow
@needs_models
def test_exact_optima_of_linear_programs_equal_the_recorded_ones():
    exact = 0
    for text, value in recorded().items():
        model = lp.read(text)
        if value is None or model.beyond_linear or len(model.integers):
            continue
        solution = solve(model, check="exact")
        assert solution.exact is not None, solution.message
        assert math.isclose(solution.exact, value, rel_tol=1e-6, abs_tol=1e-9)
        exact += 1
    assert exact > 20


def cases():
    if not CASES.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason="shared cases are not here"))]
    return [pytest.param(case, id=case["id"]) for case in json.loads(CASES.read_text())["cases"]]


@pytest.mark.parametrize("case", cases())
def test_shared_case(case):
    right = case["right"]
    try:
        model = lp.read(case["lp"])
    except lp.LPError as error:
        assert right["status"].startswith("rejected") and error.line is not None
        return
    solution = solve(model)
    assert solution.status in right["status"]
    if "objective" in right:
        assert solution.objective == pytest.approx(right["objective"], abs=1e-6)
    if "variables" in right:
        assert len(model.variables) == right["variables"]


def test_what_highs_is_given_it_takes():
    """The sweep's split between the solvers is by what a model has, not by failures of HiGHS."""
    model = lp.read("min\n x\nst\n q: [ x^2 ] >= 4\nend\n")
    assert highs.refuses(model) == "HiGHS does not take quadratic rows"
    assert solve(model).objective == pytest.approx(2, rel=1e-6)
