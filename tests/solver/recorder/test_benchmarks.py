"""Programs of the shared benchmark folder: the recorder's model is Gurobi's and, but for known mismatches, the LP's."""

import importlib.util
import math

import pytest
from tests.solver.comparing import difference
from tests.solver.recorder.programs import record, references, run, seeds

from trex.solver import lp
from trex.solver.equivalence import compare
from trex.solver.gurobi_model import from_gurobi
from trex.solver.recorder import GurobiError

REFERENCES, SEEDS = references(), seeds()
# reference codes that do not build their own reference LP, and what tells them apart
MISMATCHES = {"32": "the optima differ", "144": "one model is optimal", "206": "", "380": "the optima differ"}
TWINS = {"33": "32", "207": "206", "145": "144", "381": "380"}
POWER = "public_seed_0d0f563312364b82"  # y = x^0.6
needs_folder = pytest.mark.skipif(not REFERENCES or not SEEDS, reason="the benchmark folder is not here")


def number(row):
    found = row["id"].rpartition("_")[2]
    return TWINS.get(found, found)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The recorder's model of every reference code."""
    models = []
    for row in REFERENCES:
        (model,) = record(row["code"], tmp_path_factory.mktemp("run"), {"data.json": row["data"]})
        models.append(model)
    return models


@needs_folder
def test_reference_codes_build_their_reference_models(built):
    different = {}
    for row, model in zip(REFERENCES, built, strict=True):
        verdict = compare(model.trex_model(), lp.read(row["lp"]))
        if verdict.kind != "equal":
            assert verdict.kind == "different" and verdict.witness.confirmed_by
            different[number(row)] = verdict.reason
    assert len(REFERENCES) == 144
    assert set(different) <= set(MISMATCHES)
    assert all(reason.startswith(MISMATCHES[name]) for name, reason in different.items())
    assert set(different) == {"32", "144", "380"}


@needs_folder
def test_reference_codes_equal_gurobi_s_models(built, tmp_path):
    gurobipy = pytest.importorskip("gurobipy")
    for row, model in zip(REFERENCES, built, strict=True):
        (theirs,) = run(row["code"], gurobipy, tmp_path, {"data.json": row["data"]})
        assert difference(from_gurobi(theirs), model.trex_model()) is None, row["id"]
        theirs.dispose()


@pytest.mark.slow
@needs_folder
def test_reference_codes_have_gurobi_s_optima(built, tmp_path):
    gurobipy = pytest.importorskip("gurobipy")
    optima = 0
    for row, model in zip(REFERENCES, built, strict=True):
        (theirs,) = run(row["code"], gurobipy, tmp_path, {"data.json": row["data"]})
        optima += same_outcome(theirs, model)
    assert optima == 101


@needs_folder
def test_seed_programs_equal_gurobi_s_models_and_optima(tmp_path):
    gurobipy = pytest.importorskip("gurobipy")
    pandas, equal, optima = importlib.util.find_spec("pandas") is not None, 0, 0
    for seed in SEEDS:
        if ("pandas" in seed["code"] and not pandas) or seed["id"] == POWER:
            continue
        (theirs,) = run(seed["code"], gurobipy, tmp_path, seed["files"])
        (ours,) = record(seed["code"], tmp_path, seed["files"])
        assert difference(from_gurobi(theirs), ours.trex_model()) is None, seed["id"]
        equal += 1
        optima += same_outcome(theirs, ours)
    assert (equal, optima) == ((99, 93) if pandas else (88, 84))


@needs_folder
def test_a_power_that_no_row_says_is_refused(tmp_path):
    (seed,) = (seed for seed in SEEDS if seed["id"] == POWER)
    with pytest.raises(GurobiError, match=r"addGenConstrPow with the exponent 0\.6: not represented; accepted: 1, 2"):
        record(seed["code"], tmp_path, seed["files"])


def same_outcome(theirs, ours):
    """Whether both are optimal; statuses and optima are equal, where Gurobi does not leave the status open."""
    for model in (theirs, ours):
        model.Params.OutputFlag = 0
        model.optimize()
    if theirs.Status == 4:
        assert ours.Status in (3, 5)
    else:
        assert ours.Status == theirs.Status
    if ours.Status == 2:
        assert math.isclose(ours.ObjVal, theirs.ObjVal, rel_tol=1e-6, abs_tol=1e-9)
    return ours.Status == 2
