"""`trex reproduce` and `trex publish` on small notebooks of the test's own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from trex import cli
from trex.labels import ResultError
from trex.launch import manifest, notebooks, profiles
from trex.launch.publish import compare, find_run, publish
from trex.launch.reproduce import _finished, content_key, reproduce
from trex.results import Record, load, record

GOOD = (
    "from trex.results import record\n"
    "r = record('01_a', 'numbers', {'n': n, 'seed': seed}, label='measured', seed=seed)"
)
FIGURE = (
    "import plotly.graph_objects as go\nfrom trex.results import record\n"
    "bars = go.Figure(go.Bar(x=[1], y=[2]))\n"
    "r = record('02_b', 'drawn', {'n': 1}, label='derived', source='arithmetic', figure=bars)"
)


def write(path: Path, parameters: str, *cells: str) -> None:
    first = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
    notebook = nbformat.v4.new_notebook(cells=[first, *map(nbformat.v4.new_code_cell, cells)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


@pytest.fixture
def chapters(tmp_path: Path) -> Path:
    folder = tmp_path / "notebooks"
    write(folder / "01_a" / "01_good.ipynb", "seed = 0\nn = 3", GOOD)
    write(folder / "02_b" / "01_bad.ipynb", "seed = 0", "x = 1", "raise ValueError('the reason')")
    write(folder / "02_b" / "02_figure.ipynb", "size = 1.5", FIGURE)
    return folder


def go(chapters: Path, runs: Path, overrides: dict | None = None, **options):
    known = notebooks.find(chapters)
    parameters = profiles.resolve({}, overrides or {}, known, known)
    return reproduce(known, parameters, profile="embedded", command="trex reproduce", runs=runs, **options)


@pytest.mark.slow
def test_a_failure_is_named_and_the_rest_still_runs_and_a_second_run_reuses(chapters: Path, tmp_path: Path) -> None:
    runs, results = tmp_path / "runs", tmp_path / "results"
    first = go(chapters, runs, {"n": "4"})
    assert [o.status for o in first.outcomes] == ["ok", "failed", "ok"]
    assert first.failed[0].error == {"cell": 3, "kind": "ValueError", "message": "the reason"}
    manifest = json.loads((first.folder / "manifest.json").read_text())
    assert [o["status"] for o in manifest["outcomes"]] == ["ok", "failed", "ok"]
    made = load("01_a", "numbers", first.folder / "records")
    assert made.values == {"n": 4, "seed": 0}
    assert made.provenance["command"] == "trex reproduce"

    second = go(chapters, runs, {"n": "4"})
    assert [o.status for o in second.outcomes] == ["reused", "failed", "reused"]
    assert load("01_a", "numbers", second.folder / "records").values == made.values
    assert (second.folder / "notebooks/01_a/01_good.ipynb").read_bytes() == (
        first.folder / "notebooks/01_a/01_good.ipynb"
    ).read_bytes()

    third = go(chapters, runs, {"n": "5"})  # another parameter: only the notebook that has it runs again
    assert [o.status for o in third.outcomes] == ["ok", "failed", "reused"]
    assert third.outcomes[2].reused_from == first.folder.name

    # publishing: new, then nothing, then the value that changed
    assert {c.kind for c in publish(first.folder, results, dry_run=True)} == {"new"} and not results.exists()
    assert [c.kind for c in publish(first.folder, results)] == ["new", "new"]
    before = {p: p.read_bytes() for p in results.rglob("*") if p.is_file()}
    assert [c.kind for c in publish(first.folder, results)] == ["same", "same"]
    assert {p: p.read_bytes() for p in results.rglob("*") if p.is_file()} == before
    changed, same = publish(third.folder, results)
    assert (changed.kind, changed.values, same.kind) == ("changed", ("n: 4 → 5",), "same")
    page = (results / "02_b" / "drawn.html").read_text()
    assert (
        "cdn.plot.ly" in page
        and "drawn.png" in page
        and "../plotly.min.js" not in page
        and not list(results.rglob("*.js"))
    )
    assert find_run("latest", runs) == third.folder.resolve()


@pytest.mark.slow
def test_fresh_runs_again_and_outputs_do_not_change_the_key(chapters: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (chapters / "02_b" / "01_bad.ipynb").unlink()
    key = content_key(chapters / "01_a" / "01_good.ipynb", {"n": 3}, "sources")
    first = go(chapters, runs)
    assert [o.status for o in go(chapters, runs, fresh=True).outcomes] == ["ok", "ok"]
    (chapters / "01_a" / "01_good.ipynb").write_bytes((first.folder / "notebooks/02_b/02_figure.ipynb").read_bytes())
    write(chapters / "01_a" / "01_good.ipynb", "seed = 0\nn = 3", GOOD)
    executed = notebooks.read(chapters / "01_a" / "01_good.ipynb")
    executed.cells[1]["outputs"] = [nbformat.v4.new_output("stream", text="hello")]
    nbformat.write(executed, chapters / "01_a" / "01_good.ipynb")
    assert content_key(chapters / "01_a" / "01_good.ipynb", {"n": 3}, "sources") == key
    assert content_key(chapters / "01_a" / "01_good.ipynb", {"n": 4}, "sources") != key
    assert content_key(chapters / "01_a" / "01_good.ipynb", {"n": 3}, "other sources") != key


def test_a_changed_input_is_another_key(chapters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, data = chapters / "01_a" / "01_good.ipynb", tmp_path / "data"
    data.mkdir()
    keys = [content_key(path, {"folder": str(data)}, "sources")]
    (data / "rows.jsonl").write_text("1")
    keys.append(content_key(path, {"folder": str(data)}, "sources"))
    (data / "rows.jsonl").write_text("12")
    keys.append(content_key(path, {"folder": str(data)}, "sources"))
    keys.append(content_key(path, {"folder": str(data / "rows.jsonl")}, "sources"))
    monkeypatch.setenv("TREX_BENCHMARKS", str(data))
    keys.append(content_key(path, {"folder": ""}, "sources"))
    (data / "rows.jsonl").write_text("123")
    keys.append(content_key(path, {"folder": ""}, "sources"))
    monkeypatch.setattr("trex.launch.reproduce.browser_found", lambda: None)
    keys.append(content_key(path, {"folder": ""}, "sources"))
    assert len(set(keys)) == len(keys)
    assert content_key(path, {"folder": ""}, "sources") == keys[-1]


def test_timings_alone_are_no_change(tmp_path: Path) -> None:
    def made(seconds: float, run: str) -> Record:
        values = {"n": 1, "part": {"timings": {"seconds": seconds}, "m": 2}}
        return record("01_a", "numbers", values, label="measured", run=tmp_path / run)

    made(1.0, "published")
    assert compare(made(2.0, "new"), tmp_path / "published" / "records").kind == "same"


@pytest.mark.slow
def test_a_file_lost_from_an_earlier_run_means_running_again(chapters: Path, tmp_path: Path) -> None:
    (chapters / "02_b" / "01_bad.ipynb").unlink()
    (chapters / "02_b" / "02_figure.ipynb").unlink()
    first = go(chapters, tmp_path / "runs")
    path = first.folder / "records" / "01_a" / "numbers.json"
    path.write_text(path.read_text().replace('"n": 3', '"n": 4'))  # altered
    second = go(chapters, tmp_path / "runs")
    assert second.outcomes[0].status == "ok"
    (second.folder / "records" / "01_a" / "numbers.json").unlink()  # lost
    assert go(chapters, tmp_path / "runs").outcomes[0].status == "ok"


def test_a_kernel_that_dies_is_a_failure_of_its_notebook_alone(tmp_path: Path) -> None:
    folder = tmp_path / "notebooks"
    write(folder / "01_a" / "01_dies.ipynb", "seed = 0", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    write(folder / "01_a" / "02_good.ipynb", "seed = 0\nn = 3", GOOD)
    run = go(folder, tmp_path / "runs")
    assert [o.status for o in run.outcomes] == ["failed", "ok"]
    assert "died" in run.failed[0].error["message"].lower()


@pytest.mark.parametrize(
    ("profile", "overrides", "message"),
    [
        ({}, {"bogus": "1"}, r"--set: unknown parameter 'bogus'; accepted: n, seed, size"),
        ({"all": {"bogus": 1}}, {}, r"unknown parameter 'bogus'"),
        ({"01_a/01_good": {"size": 1.0}}, {}, r"01_a/01_good: unknown parameter 'size'; accepted: n, seed"),
        ({"09_z/01_none": {}}, {}, r"names notebook '09_z/01_none'; accepted: all, 01_a/01_good"),
        ({}, {"n": "three"}, r"01_a/01_good: n='three' is a str; accepted: int"),
        ({"all": {"n": True}}, {}, r"n=True is a bool"),
    ],
)
def test_what_a_profile_may_not_say(chapters: Path, profile: dict, overrides: dict, message: str) -> None:
    known = notebooks.find(chapters)
    with pytest.raises(profiles.ProfileError, match=message):
        profiles.resolve(profile, overrides, known, known)


def test_order_of_precedence(chapters: Path) -> None:
    known = notebooks.find(chapters)
    profile = {"all": {"seed": 1, "n": 2}, "01_a/01_good": {"n": 7}}
    assert profiles.resolve(profile, {}, known, known)["01_a/01_good"] == {"seed": 1, "n": 7}
    assert profiles.resolve(profile, {"n": "9"}, known[:1], known)["01_a/01_good"] == {"seed": 1, "n": 9}
    assert profiles.resolve(profile, {"size": "2"}, known, known)["02_b/02_figure"] == {"size": 2}  # an int for a float


def test_chapters_are_chosen_by_number_name_or_notebook(chapters: Path) -> None:
    known = notebooks.find(chapters)
    names = lambda *asked: [notebooks.name(p) for p in profiles.select(asked, known)]  # noqa: E731
    assert names("02") == names("02_b") == ["02_b/01_bad", "02_b/02_figure"]
    assert names("02_b/02_figure", "01") == ["01_a/01_good", "02_b/02_figure"]
    with pytest.raises(profiles.ProfileError, match=r"chapter '07'; accepted: 01_a, 02_b"):
        names("07")


def test_assignments() -> None:
    pairs = ["a=1", "b=x y", "c=", "d=a=b", "e=[1, 2]"]
    assert profiles.assignments(pairs) == {"a": "1", "b": "x y", "c": "", "d": "a=b", "e": "[1, 2]"}
    for bad in ("a", "=1", "a b=1"):
        with pytest.raises(profiles.ProfileError, match="--set"):
            profiles.assignments([bad])


@pytest.mark.parametrize(
    ("default", "text", "value"),
    [
        ("'x'", "007", "007"),
        ("'x'", "yes", "yes"),
        ("'x'", "2024-01-01", "2024-01-01"),
        ("1", "-5", -5),
        ("1", "010", 10),
        ("1.0", "1e-3", 1e-3),
        ("1.0", "-.5", -0.5),
        ("True", "false", False),
        ("[1]", "[2, 3]", [2, 3]),
        ("1", "1.5", None),
        ("1", "null", None),
        ("1.0", "nan", None),
        ("[1]", "[2024-01-01]", None),
        ("[1]", "&a [*a]", None),
    ],
)
def test_an_override_is_read_as_its_parameters_type(tmp_path: Path, default: str, text: str, value: object) -> None:
    write(tmp_path / "01_a" / "01_n.ipynb", f"n = {default}", "n")
    known = notebooks.find(tmp_path)
    if value is None:
        with pytest.raises(profiles.ProfileError, match="n="):
            profiles.resolve({}, {"n": text}, known, known)
        return
    found = profiles.resolve({}, {"n": text}, known, known)["01_a/01_n"]["n"]
    assert (found, type(found)) == (value, type(value))


def test_a_broken_notebook_stops_only_itself(chapters: Path) -> None:
    (chapters / "02_b" / "03_broken.ipynb").write_text("no JSON")
    known = notebooks.find(chapters)
    assert profiles.resolve({"all": {"seed": 1}}, {}, known[:1], known)["01_a/01_good"]["seed"] == 1
    with pytest.raises(notebooks.NotebookError, match="03_broken"):
        profiles.resolve({}, {}, known, known)


def test_a_copy_is_no_notebook(chapters: Path) -> None:
    (chapters / "01_a" / "01_good-Copy1.ipynb").write_bytes((chapters / "01_a" / "01_good.ipynb").read_bytes())
    assert len(notebooks.find(chapters)) == 3


def test_a_notebook_that_ends_early_has_failed(tmp_path: Path) -> None:
    write(tmp_path / "notebooks" / "01_a" / "01_exit.ipynb", "seed = 0", "import sys; sys.exit(0)", "assert False")
    run = go(tmp_path / "notebooks", tmp_path / "runs")
    assert run.failed and run.failed[0].error["cell"] in (2, 3)


@pytest.mark.parametrize(
    "text", ["[]", "3", '"x"', '{"outcomes": null}', '{"outcomes": [{}]}', '{"outcomes": [1]}', "{", "[" * 100_000]
)
def test_a_foreign_manifest_is_passed_over_and_not_published(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "runs" / "99990101-000000-x"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(text)
    assert _finished(tmp_path / "runs") == {}
    with pytest.raises(ResultError, match="manifest"):
        publish(folder, tmp_path / "results")


@pytest.mark.parametrize("name", ["/etc/hostname", "../secret", "records/../../x"])
def test_a_manifest_with_files_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    outcome = {"notebook": "01_a/01_n", "status": "ok", "key": "k", "parameters": {}, "files": {name: "0" * 64}}
    (tmp_path / "manifest.json").write_text(json.dumps({"outcomes": [outcome]}))
    with pytest.raises(ResultError, match="is not below the run's folder"):
        manifest.read(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"chapter": "../evil"},
        {"chapter": "02_b"},
        {"files": ["../../manifest.json"]},
        {"files": ["/etc/hostname"]},
        {"values": [1, 2]},
        {"values": {"n": float("nan")}},
        {"provenance": None},
        {"label": "derived"},
        {"label": "guessed"},
    ],
)
def test_a_record_that_record_would_not_write_is_not_read(tmp_path: Path, change: dict) -> None:
    made = record("01_a", "numbers", {"n": 1}, label="measured", run=tmp_path)
    path = made.folder / "numbers.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ResultError, match=r"numbers\.json is not a record"):
        load("01_a", "numbers", tmp_path / "records")


@pytest.mark.parametrize(
    "text", ["[1]", "parameters: 3", "parameters: {a: 1}", "other: {}", "a: [", "parameters: {}\nx: 1"]
)
def test_a_profile_file_that_is_not_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(profiles.ProfileError, match="profile"):
        profiles.load(str(tmp_path / "p.yaml"))


def test_the_embedded_profile_is_the_committed_defaults() -> None:
    known = notebooks.find()
    profile = profiles.load("embedded")
    assert set(profile) == {"all"} | {notebooks.name(path) for path in known}
    for path in known:
        stated = {
            **{k: v for k, v in profile["all"].items() if k in notebooks.parameters(path)},
            **profile[notebooks.name(path)],
        }
        assert stated == notebooks.parameters(path), notebooks.name(path)


@pytest.mark.parametrize("profile", profiles.names())
def test_every_profile_fits_the_notebooks(profile: str) -> None:
    known = notebooks.find()
    assert set(profiles.resolve(profiles.load(profile), {}, known, known)) == {notebooks.name(path) for path in known}


def test_repeated_options_lose_nothing() -> None:
    assert cli.join_repeated(["reproduce", "--set", "a=1", "--fresh", "--set", "b=2", "c=3", "--chapter=01"]) == [
        "reproduce", "--fresh", "--set", "a=1", "b=2", "c=3", "--chapter", "01",
    ]  # fmt: skip


def trex(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from trex.cli import main; sys.exit(main())", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "--profile", "nope"], "profile 'nope'; accepted: ascend, embedded, gpu"),
        (["reproduce", "--chapter", "99"], "chapter '99'; accepted: 01_parallelism"),
        (["reproduce", "--set", "bogus=1"], "unknown parameter 'bogus'; accepted:"),
        (["publish", "no-such-run"], "run 'no-such-run'; there are:"),
        (["reproduce", "--bogus"], "--bogus"),
        (["bogus"], "bogus"),
    ],
)
def test_bad_arguments_exit_2_with_one_clear_error(arguments: list[str], message: str) -> None:
    done = trex(*arguments)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_publish_refuses_a_record_with_a_path_of_this_machine(chapters: Path, tmp_path: Path) -> None:
    write(chapters / "01_a" / "01_good.ipynb", "seed = 0", GOOD.replace("'n': n", "'n': '/home/someone/data'"))
    with pytest.raises(ResultError, match="/home/someone/data"):
        publish(go(chapters, tmp_path / "runs").folder, tmp_path / "results")
