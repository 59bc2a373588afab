"""Benchmark folders: typed rows, and errors that name file and line."""

import json
from pathlib import Path

import pytest

import trex.paths
from trex.eval import benchmarks

SHARED = Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks"


def write_folder(folder: Path, name: str = "b4o_feasible", **over) -> Path:
    """A folder with one problem set of one row and one set of two questions."""
    row = {
        "id": "one", "problem": "Least x.", "data_file": "data/1.json", "reference_lp": "lp/1.lp",
        "reference_code": "pass", "optimal_value": 2.0, **over,
    }  # fmt: skip
    for part in ("data", "lp"):
        (folder / name / part).mkdir(parents=True)
    (folder / name / "data" / "1.json").write_text("{}")
    (folder / name / "lp" / "1.lp").write_text("min\n x\nst\n c: x >= 2\nend\n")
    (folder / name / "problems.jsonl").write_text(json.dumps(row) + "\n")
    questions = [{"id": "a", "question": "How many?", "answer": "3000.0"}, {"id": "b", "question": "Two?", "answer": 2}]
    (folder / "nl4opt.jsonl").write_text("\n".join(map(json.dumps, questions)) + "\n\n")
    return folder


def test_rows_are_typed_and_missing_sets_named(tmp_path):
    found = benchmarks.read(write_folder(tmp_path))
    assert found.found == ("nl4opt", "b4o_feasible") and found.missing == ("optibench", "b4o_orgeval")
    assert [question.answer for question in found.questions["nl4opt"]] == [3000.0, 2.0]
    (row,) = found.problems["b4o_feasible"]
    assert (row.id, row.optimal_value) == ("one", 2.0)
    assert row.reference_lp.read_text().startswith("min")


@pytest.mark.parametrize("empty", [None, ""])
def test_optimal_values_beside_the_rows_fill_the_empty_ones(tmp_path, empty):
    folder = write_folder(tmp_path, "b4o_orgeval", optimal_value=empty)
    assert benchmarks.read(folder).problems["b4o_orgeval"][0].optimal_value is None
    values = folder / "b4o_orgeval" / "optimal_values.json"
    values.write_text('{"one": 0.0}')
    assert benchmarks.read(folder).problems["b4o_orgeval"][0].optimal_value == 0.0
    for bad in ('{"two": 1.0}', '{"one": "x"}', '["one"]', "{", '{"one": NaN}'):
        values.write_text(bad)
        with pytest.raises(benchmarks.BenchmarkError, match=r"optimal_values\.json"):
            benchmarks.read(folder)


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"id": ""}, "'id' is ''"),
        ({"problem": 3}, "'problem' is 3"),
        ({"optimal_value": "many"}, "'optimal_value' is 'many'"),
        ({"optimal_value": True}, "'optimal_value' is True"),
        ({"optimal_value": float("nan")}, "'optimal_value' is nan"),
        ({"optimal_value": 10**400}, "'optimal_value' is 1000"),
        ({"reference_lp": "lp/2.lp"}, r"'reference_lp' is 'lp/2\.lp'"),
        ({"reference_lp": "../nl4opt.jsonl"}, "'reference_lp'"),
        ({"data_file": "/etc/hostname"}, "'data_file'"),
        ({"reference_code": None}, "'reference_code' is None"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, over, message):
    with pytest.raises(benchmarks.BenchmarkError, match=rf"problems\.jsonl:1: {message}"):
        benchmarks.read(write_folder(tmp_path, **over))


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"id": "c"}', '{"id": "a", "question": "again", "answer": 1}', "[" * 9999]
)
def test_a_bad_question_is_named_by_file_and_line(tmp_path, line):
    folder = write_folder(tmp_path)
    with (folder / "nl4opt.jsonl").open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(benchmarks.BenchmarkError, match=r"nl4opt\.jsonl:4: "):
        benchmarks.read(folder)


def test_text_that_is_not_utf8_is_named(tmp_path):
    (write_folder(tmp_path) / "nl4opt.jsonl").write_bytes(b"\xff\n")
    with pytest.raises(benchmarks.BenchmarkError, match=r"nl4opt\.jsonl is not UTF-8"):
        benchmarks.read(tmp_path)


def test_only_the_argument_and_the_variable_name_a_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("TREX_BENCHMARKS", raising=False)
    assert benchmarks.locate() is None
    monkeypatch.setenv("TREX_BENCHMARKS", str(tmp_path))
    assert benchmarks.locate() == tmp_path
    (tmp_path / "b").mkdir()
    assert benchmarks.locate(tmp_path / "b") == tmp_path / "b"
    with pytest.raises(benchmarks.BenchmarkError, match="nowhere"):
        benchmarks.locate("nowhere")
    monkeypatch.setenv("TREX_BENCHMARKS", "elsewhere")
    with pytest.raises(benchmarks.BenchmarkError, match=r"\$TREX_BENCHMARKS = 'elsewhere'"):
        benchmarks.locate()
    with pytest.raises(benchmarks.BenchmarkError, match=r"holds none of nl4opt\.jsonl"):
        benchmarks.read(tmp_path / "b")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the benchmark folder is not here")
def test_the_shared_folder_is_read_whole():
    found = benchmarks.read(SHARED)
    assert found.missing == ()
    counts = {name: len(rows) for name, rows in {**found.questions, **found.problems}.items()}
    assert counts == {"nl4opt": 145, "optibench": 300, "b4o_feasible": 174, "b4o_orgeval": 198}
    assert all(row.optimal_value is not None for row in found.problems["b4o_feasible"])
    assert sum(row.optimal_value is not None for row in found.problems["b4o_orgeval"]) == 110
