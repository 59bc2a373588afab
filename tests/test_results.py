"""Records: what is written is what is read, labelled and with provenance; everything else is refused by name."""

import json
import math
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pytest
import torch

from trex import paths, results
from trex.files import write_atomic
from trex.labels import LABELS, ResultError
from trex.results import load, record


def test_a_record_returns_as_it_was_written(tmp_path: Path) -> None:
    values = {
        "step_s": 0.1 + 0.2,
        "layers": 43,
        "fits": True,
        "note": "ηp — 2⁵",
        "none": None,
        "nested": {"list": [1, 2.5, {"deep": "x"}], "tuple": (1, 2)},
    }
    written = record("01_parallelism", "memory", values, label="modelled", run=tmp_path, seed=3)
    read = load("01_parallelism", "memory", tmp_path / "records")
    assert read == written
    assert read.values == {**values, "nested": {"list": [1, 2.5, {"deep": "x"}], "tuple": [1, 2]}}
    assert read.label == "modelled" and read.provenance["seed"] == 3


def test_numpy_and_torch_scalars_become_numbers(tmp_path: Path) -> None:
    values = {
        "float32": np.float32(0.25), "int64": np.int64(2**40), "bool": np.bool_(True), "zero_dim": np.array(7),
        "tensor": torch.tensor(0.5, dtype=torch.bfloat16), "parameter": torch.nn.Parameter(torch.tensor(2.0)),
        "path": Path("a") / "b",
    }  # fmt: skip
    record("c", "n", values, label="measured", run=tmp_path)
    read = load("c", "n", tmp_path / "records").values
    assert read == {
        "float32": 0.25, "int64": 2**40, "bool": True, "zero_dim": 7, "tensor": 0.5, "parameter": 2.0, "path": "a/b",
    }  # fmt: skip
    assert type(read["bool"]) is bool and type(read["int64"]) is int


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"label": None}, r"record c/n: label None; accepted: published, derived, modelled, measured"),
        ({"label": "guessed"}, r"label 'guessed'; accepted: published, derived"),
        ({"label": "published"}, r"a published number needs source="),
        ({"label": "derived", "source": ""}, r"a derived number needs source="),
        ({"chapter": "../up"}, r"chapter '../up': letters, digits"),
        ({"name": "a/b"}, r"name 'a/b'"),
        ({"name": ""}, r"name ''"),
        ({"name": ".hidden"}, r"name '.hidden'"),
        ({"values": [1]}, r"record c/n: values are a list; a mapping is accepted"),
        ({"values": {"x": math.nan}}, r"c/n.x is nan: only finite numbers"),
        ({"values": {"x": [1, {"y": -math.inf}]}}, r"c/n.x\[1\].y is -inf"),
        ({"values": {"x": np.float64("nan")}}, r"c/n.x is nan"),
        ({"values": {"x": np.arange(3)}}, r"c/n.x is a ndarray"),
        ({"values": {"x": {1, 2}}}, r"c/n.x is a set"),
        ({"values": {"x": 1j}}, r"c/n.x is a complex"),
        ({"values": {1: "a", "1": "b"}}, r"c/n has keys that are the same as text: 1, '1'"),
        ({"parameters": {"f": print}}, r"provenance.parameters.f is a builtin_function"),
        ({"series": {"a": [1, 2], "b": [1]}}, r"n: a series is a table of equal-length columns"),
        ({"series": 5}, r"n: a series is a table of equal-length columns"),
    ],
)
def test_what_cannot_be_recorded_is_refused_by_name(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    good: dict[str, Any] = {"chapter": "c", "name": "n", "values": {"x": 1}, "label": "measured", "run": tmp_path}
    with pytest.raises(ResultError, match=told):
        record(**{**good, **change})
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize("label", LABELS)
def test_every_label_is_recorded(label: str, tmp_path: Path) -> None:
    record("c", label, {"x": 1}, label=label, source="table 2", run=tmp_path)
    assert load("c", label, tmp_path / "records").label == label


def test_series_return_bit_for_bit(tmp_path: Path) -> None:
    columns = {"step": list(range(100)), "loss": np.random.default_rng(0).normal(size=100), "kind": ["F", "B"] * 50}
    record("c", "n", {}, label="measured", series=columns, run=tmp_path)
    table = load("c", "n", tmp_path / "records").series()
    assert table.column_names == ["step", "loss", "kind"]
    assert table["loss"].to_numpy().tobytes() == columns["loss"].tobytes()
    assert table["step"].to_pylist() == columns["step"] and table["kind"].to_pylist() == columns["kind"]
    other = record("c", "table", {}, label="measured", series=table, run=tmp_path)
    assert other.series().equals(table) and isinstance(other.series(), pa.Table)


def test_a_missing_or_broken_series_is_told(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="record c/n has no series"):
        record("c", "n", {}, label="measured", run=tmp_path).series()
    found = record("c", "s", {}, label="measured", series={"a": [1]}, run=tmp_path)
    (tmp_path / "records" / "c" / "s.parquet").write_bytes(b"no parquet")
    with pytest.raises(ResultError, match="the series of record c/s cannot be read"):
        found.series()
    (tmp_path / "records" / "c" / "s.parquet").unlink()
    with pytest.raises(ResultError, match="the series of record c/s cannot be read"):
        found.series()


def test_a_figure_lies_beside_its_record(tmp_path: Path) -> None:
    found = record("c", "n", {}, label="measured", figure=go.Figure(go.Bar(x=[1], y=[2])), run=tmp_path)
    assert set(found.files) <= {"n.html", "n.png"} and "n.html" in found.files
    assert all((tmp_path / "records" / "c" / name).stat().st_size > 1000 for name in found.files)


def test_provenance_says_where_a_number_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREX_COMMAND", "trex reproduce --chapter 01")
    before = datetime.now(UTC) - timedelta(seconds=1)
    found = record("c", "n", {}, label="measured", parameters={"layers": 4}, seed=1, device="npu: 910C", run=tmp_path)
    block = found.provenance
    assert set(block) >= {"commit", "dirty", "command", "parameters", "seed", "device", "versions", "time"}
    assert block["command"] == "trex reproduce --chapter 01" and block["device"] == "npu: 910C"
    assert block["parameters"] == {"layers": 4} and block["seed"] == 1
    assert before <= datetime.fromisoformat(block["time"]) <= datetime.now(UTC)
    assert block["versions"]["torch"] == torch.__version__ and block["versions"]["numpy"] == np.__version__
    plain = record("c", "m", {}, label="measured", run=tmp_path).provenance
    assert plain["device"].startswith("cpu: ") and plain["seed"] is None


def test_the_commit_is_gits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    commit = results.commit.__wrapped__
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit() == {"commit": None, "dirty": None}
    git("init", "--quiet")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "file").write_text("a")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    assert commit() == {"commit": git("rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "README").write_text("what decides no result")
    assert commit()["dirty"] is False
    (tmp_path / "src" / "new").write_text("b")  # not yet added
    assert commit()["dirty"] is True
    (tmp_path / "src" / "new").unlink()
    (tmp_path / "src" / "file").write_text("b")
    assert commit()["dirty"] is True


def test_records_go_to_the_current_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREX_RUN", str(tmp_path / "run"))
    record("c", "n", {"x": 1}, label="measured")
    assert json.loads((tmp_path / "run" / "records" / "c" / "n.json").read_text())["values"] == {"x": 1}


def test_a_missing_record_names_those_there_are(tmp_path: Path) -> None:
    record("c", "here", {}, label="measured", run=tmp_path)
    with pytest.raises(ResultError, match=r"no record 'there' in .*; there are: here"):
        load("c", "there", tmp_path / "records")
    with pytest.raises(ResultError, match="there are: none"):
        load("nowhere", "n", tmp_path / "records")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is not a record"),
        (b"\xff\xfe\x00", "is not a record"),
        (b"[]", "is not a record"),
        (b"{}", "is not a record"),
        (b'{"files": []}', "is not a record"),
        (b'{"files": [], "chapter": "c", "name": "n", "label": "x", "values": {}, "provenance": {}}', "label 'x'"),
        (
            b'{"files": [], "more": 1, "chapter": "c", "name": "n", "label": "x", "values": {}, "provenance": {}}',
            "more",
        ),
    ],
)
def test_what_is_no_record_is_refused(content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "n.json").write_bytes(content)
    with pytest.raises(ResultError, match=told):
        load("c", "n", tmp_path)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupted_write_leaves_the_old_file(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "file"
    write_atomic(path, b"old")
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"] and path.read_bytes() == b"old"


def test_a_written_file_is_readable_by_all(tmp_path: Path) -> None:
    write_atomic(tmp_path / "file", b"x")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def committed() -> list[Path]:
    return sorted(paths.results().glob("*/*.json"))


@pytest.mark.parametrize("path", committed(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_committed_records_are_whole(path: Path) -> None:
    found = load(path.parent.name, path.stem)
    assert (found.chapter, found.name) == (path.parent.name, path.stem)
    assert all((path.parent / name).is_file() for name in found.files)
    assert found.provenance["commit"] and found.provenance["command"]
    assert found.label not in ("published", "derived") or found.provenance["source"]
