"""Exports take the place of earlier exports and of nothing else; what is refused is left as it was."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trex import cli
from trex.commands.data_export import export

Write = Callable[..., Path]
RECIPE = "{name: a, seq_len: 16, sources: [{name: or, path: PATH, weight: 1}]}"


@pytest.fixture
def made(write: Write, tmp_path: Path) -> Path:
    """A folder with texts, a recipe and both exports of it."""
    (tmp_path / "texts").mkdir()
    write("or", 12).rename(tmp_path / "texts" / "or.jsonl")
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("PATH", "texts/or.jsonl"))
    export(tmp_path / "recipe.yaml", tmp_path / "rows")
    export(tmp_path / "recipe.yaml", tmp_path / "pairs", "megatron")
    return tmp_path


def snapshot(folder: Path) -> dict[str, object]:
    """Everything below a folder: bytes of files, targets of links."""
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        found[name] = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def refused(folder: Path, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said of a refusal, in one line, with nothing changed."""
    before = snapshot(folder)
    capsys.readouterr()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["trex", "data", "export", *words, "--replace"])
    assert cli.main() == 2
    assert snapshot(folder) == before
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


@pytest.mark.parametrize("name", ["rows", "pairs"])
@pytest.mark.parametrize("form", ["parquet", "megatron"])
def test_an_earlier_export_is_replaced(name: str, form: str, made: Path) -> None:
    names = sorted(path.name for path in made.iterdir())
    (made / name / "README.md").unlink(missing_ok=True)  # what is there is enough
    export(made / "recipe.yaml", made / name, "megatron" if form == "megatron" else "parquet", replace=True)
    other = "rows" if form == "parquet" else "pairs"
    assert (made / name / ("mixture.json" if form == "parquet" else "megatron.json")).is_file()
    if name != other:
        assert snapshot(made / name) == snapshot(made / other)
    assert sorted(path.name for path in made.iterdir()) == names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["recipe.yaml", "recipe.yaml"], "recipe.yaml is a file"),
        (["recipe.yaml", "texts/or.jsonl"], "or.jsonl is a file"),
        (["recipe.yaml", "."], ". holds recipe.yaml, which is read"),
        (["recipe.yaml", "texts"], "texts holds texts/or.jsonl, which is read"),
        (["recipe.yaml", "others"], "others is no earlier export: it has no mixture.json or megatron.json"),
        (["recipe.yaml", "empty"], "empty is no earlier export"),
        (["recipe.yaml", "link"], "link is a link"),
        (["recipe.yaml", "dangling"], "dangling is a link"),
        (["rows", "rows", "--format", "megatron"], "rows is rows, which is read"),
        (["rows", "rows/data", "--format", "megatron"], "rows/data lies in rows, which is read"),
        (["whole.yaml", "rows"], "rows lies in ., which is read"),
        (["whole.yaml", "texts"], "texts lies in ., which is read"),
        (["inside.yaml", "rows"], "rows holds rows/data, which is read"),
        (["around.yaml", "rows"], "rows is link, which is read"),
        (["tokenizer.yaml", "rows"], "rows is rows, which is read"),
    ],
)
def test_what_is_read_or_no_export_is_left_alone(
    words: list[str], said: str, made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (made / "others").mkdir()
    (made / "others" / "thesis.txt").write_text("years of work")
    (made / "empty").mkdir()
    (made / "link").symlink_to("rows")
    (made / "dangling").symlink_to("nowhere")
    for name, path in (("whole", "."), ("inside", "rows/data"), ("around", "link")):
        (made / f"{name}.yaml").write_text(RECIPE.replace("PATH", path))
    (made / "tokenizer.yaml").write_text(
        RECIPE.replace("PATH", "texts/or.jsonl").replace("{name: a", "{tokenizer: rows, name: a")
    )
    assert said in refused(made, words, monkeypatch, capsys).replace("/./", "/")


def test_a_folder_of_documents_is_not_replaced_by_its_mixture(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "texts is texts, which is read" in refused(made, ["texts", "texts"], monkeypatch, capsys)


@pytest.mark.parametrize("name", ["rows", "pairs"])
@pytest.mark.parametrize("kind", ["file", "hidden", "folder", "deep", "link"])
def test_an_export_with_something_else_in_it_is_left_alone(
    name: str, kind: str, made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind == "deep":
        (made / name / "data").mkdir(exist_ok=True)
    place = {"file": "notes.md", "hidden": ".git", "folder": "runs", "deep": "data/mine.parquet", "link": "other"}[kind]
    if kind == "folder":
        (made / name / place).mkdir()
    elif kind == "link":
        (made / name / place).symlink_to(made / "texts")
    else:
        (made / name / place).write_text("mine")
    if name == "pairs" and kind == "deep":
        place = "data"
    said = refused(made, ["recipe.yaml", name], monkeypatch, capsys)
    assert f"{name} holds {place}, which no export wrote there" in said


@pytest.mark.parametrize(("name", "stated"), [("rows", "mixture.json"), ("pairs", "megatron.json")])
@pytest.mark.parametrize("body", ["{}", "[]", "{", json.dumps({"tokenizer": {"file": "thesis"}, "splits": []})])
def test_a_manifest_that_is_none_makes_no_export(
    name: str, stated: str, body: str, made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (made / name / stated).write_text(body)
    assert stated in refused(made, ["recipe.yaml", name], monkeypatch, capsys)
