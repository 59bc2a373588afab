"""Items of the benchmark sets and of held-out family problems."""

import json
import math
from pathlib import Path

import pytest

import trex.paths
from trex.data import families
from trex.data.documents import generate
from trex.data.plan import ATTEMPTS, MOST, SEED_STRIDE, Plan
from trex.data.problem import DataError
from trex.eval import benchmarks, sets
from trex.eval.benchmarks import BenchmarkError
from trex.eval.rows import EvaluationError
from trex.solver import lp
from trex.solver.equivalence import compare
from trex.solver.solve import solve

SHARED = Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks"
LP = "min\n x\nst\n c: x >= {}\nend\n"


@pytest.fixture
def folder(tmp_path):
    """Two sets, of two questions and of two rows with a data file."""
    rows = [{"id": str(k), "question": f"Question {k}?", "answer": k} for k in (2, 1)]
    (tmp_path / "optibench.jsonl").write_text("\n".join(map(json.dumps, rows)))
    below = tmp_path / "b4o_orgeval"
    below.mkdir()
    rows = []
    for k in (0, 1):
        (below / f"{k}.json").write_text(json.dumps({"u": k}))
        (below / f"{k}.lp").write_text(LP.format(k))
        rows.append(
            {"id": f"r{k}", "problem": f"Row {k}", "data_file": f"{k}.json", "reference_lp": f"{k}.lp",
             "reference_code": f"print({k})", "optimal_value": k or None}
        )  # fmt: skip
    (below / "problems.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return benchmarks.read(tmp_path)


def test_items_have_what_the_rows_have_in_a_fixed_order(folder):
    found = sets.items(folder, ("b4o_orgeval", "optibench"))
    assert [item.id for item in found] == ["optibench/2", "optibench/1", "b4o_orgeval/r0", "b4o_orgeval/r1"]
    row = found[3]
    assert (row.set, row.question, row.answer, row.reference_code) == ("b4o_orgeval", "Row 1", 1.0, "print(1)")
    assert row.files == {"data.json": '{"u": 1}'} and row.reference == LP.format(1)
    assert found[2].answer is None and found[0].files == {} and found[0].answer == 2.0
    assert sets.items(folder, "optibench") == found[:2]


def test_a_choice_of_sets_changes_no_cluster(folder):
    every = {item.id: item.cluster for item in sets.items(folder, folder.found)}
    assert all(every[item.id] == item.cluster for item in sets.items(folder, ["b4o_orgeval"]))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["mamo"], "'mamo'; accepted: nl4opt, optibench, b4o_feasible, b4o_orgeval"),
        (["optibench", "nl4opt"], "lacks 'nl4opt'; accepted: optibench, b4o_orgeval"),
        ([], "no set is named"),
    ],
)
def test_sets_that_are_not_there_are_named(folder, asked, message):
    with pytest.raises(BenchmarkError, match=message):
        sets.items(folder, asked)


def test_files_that_are_not_text_are_named(folder):
    (folder.folder / "b4o_orgeval" / "1.lp").write_bytes(b"\xff\xfe")
    with pytest.raises(BenchmarkError, match=r"r1: .*1\.lp cannot be read"):
        sets.items(folder, ["optibench"])


@pytest.mark.skipif(not SHARED.is_dir(), reason="the benchmark folder is not here")
def test_the_folder_gives_every_row_once():
    found = benchmarks.read(SHARED)
    items = sets.items(found, found.found)
    assert len({item.id for item in items}) == len(items)
    rows = {name: len(found.questions.get(name, ()) or found.problems.get(name, ())) for name in found.found}
    assert {name: sum(item.set == name for item in items) for name in found.found} == rows
    assert all(item.cluster for item in items)


@pytest.fixture(scope="module")
def own():
    return sets.family_items(len(families.names()) + 4, seed=1)


def test_family_items_have_the_optimum_of_their_reference(own):
    for item in own:
        solution = solve(lp.read(item.reference))
        assert solution.status == "optimal" and math.isclose(solution.objective, item.answer, rel_tol=1e-6), item.id
        if item.files:
            data = json.loads(item.files["data.json"])
            second = families.get(item.family).reformulated(data).trex_model()
            assert math.isclose(solve(second).objective, item.answer, rel_tol=1e-6), item.id
    assert sets.family_items(len(own), seed=1) == own


def test_family_items_cover_families_and_modes_and_read_files_in_mode_dps(own):
    assert {item.family for item in own} == set(families.names())
    modes = [item.id.split("/")[1].removeprefix(item.family + "_").split("_")[0] for item in own]
    assert set(modes) == {"DP", "DT", "DPS"}
    assert [bool(item.files) for item in own] == [mode == "DPS" for mode in modes]
    assert len({item.id for item in own}) == len({item.cluster for item in own}) == len(own)


def test_no_plan_of_a_training_seed_shares_an_instance(own):
    """The largest instance seed of the last training plan is below every held-out one."""
    last = Plan.of(MOST, sets.HELD_OUT - 1).item(MOST - 1, ATTEMPTS - 1).seed
    seeds = [int(item.id.rsplit("_", 1)[1]) for item in sets.family_items(3, seed=0)]
    assert last < min(seeds) and min(seeds) == sets.HELD_OUT * SEED_STRIDE
    texts = {document.problem for document in generate(30)}
    assert texts.isdisjoint(item.question for item in own)
    first = own[0]
    assert compare(first.reference, own[len(families.names())].reference).kind == "different"


@pytest.mark.parametrize("count", [0, -1, True, 1.5])
def test_a_count_of_none_is_refused(count):
    with pytest.raises(EvaluationError, match=rf"families = {count}; accepted: a whole number of problems from 1"):
        sets.family_items(count)


def test_a_negative_seed_is_refused():
    with pytest.raises(DataError, match="seed -1"):
        sets.family_items(1, seed=-1)
