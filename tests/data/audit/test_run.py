"""The run and its command: order, resume to the same bytes, other settings, bad input, exit codes, what is written."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trex.commands.data_audit import audit as command
from trex.commands.errors import told
from trex.data.audit import run
from trex.data.audit.run import CARD, SETTINGS, SUMMARY, VERDICTS, Here, audit
from trex.data.problem import DataError
from trex.solver.workers import Died

FILES = (SETTINGS, VERDICTS, SUMMARY, CARD)
CODE = (
    "import gurobipy as gp\nm = gp.Model()\nx = m.addVar(ub={}, vtype='I')\nm.setObjective(x, gp.GRB.MAXIMIZE)\n"
    "m.addConstr(x >= {})\nm.optimize()\n"
)


def row(name: object, upper: object = 7, least: object = 0, **more: object) -> str:
    answer = f"```python\n{CODE.format(upper, least)}```"
    return json.dumps({"id": name, "problem": "How much of it?", "answer": answer, **more})


LINES = [
    row("a"),
    row("b", least=8),  # infeasible
    "{broken",
    row("c", label="7"),
    row("d", upper=0),  # trivial
    row("e", label="9"),  # another label
    row("é | <b>", upper="1e999"),  # unbounded
    json.dumps({"en_question": "How much?", "en_answer": "3.0"}),
    row("f", upper="unknown"),  # NameError
    row("g", upper=9),
]
EXPECTED = {
    "a": [], "b": ["optimum"], "line 3": ["schema"], "c": [], "d": ["trivial"], "e": ["claim"],
    "é | <b>": ["optimum"], "line 8": [], "f": ["execution"], "g": [],
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(LINES) + "\n")
    return path


def here(file: Path, folder: Path, **options):
    return audit(file, folder, pool=Here, seconds=10.0, **options)


def contents(folder: Path) -> list[bytes]:
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    return [(folder / name).read_bytes() for name in FILES]


def test_verdicts_and_summary(file: Path, tmp_path: Path):
    summary = here(file, tmp_path / "out")
    verdicts = [json.loads(line) for line in (tmp_path / "out" / VERDICTS).read_text().splitlines()]
    found = {v["id"]: [f["gate"] for f in v["findings"] if f["severity"] == "refuse"] for v in verdicts}
    assert found == EXPECTED and list(found) == list(EXPECTED)
    assert all((v["verdict"] == "refused") == bool(EXPECTED[v["id"]]) for v in verdicts)
    assert [v["id"] for v in verdicts if v["verdict"] == "unchecked"] == ["line 8"]
    assert (summary["rows"], summary["accepted"], summary["refused"], summary["unchecked"]) == (10, 3, 6, 1)
    assert summary["refused_by"] == {
        "schema": ["line 3"], "execution": ["f"], "optimum": ["b", "é | <b>"], "trivial": ["d"],
        "claim": ["e"],
    }  # fmt: skip
    assert [(p["id"], p["label"], p["value"]) for p in summary["proposed_labels"]] == [("e", "9", 7.0)]
    assert json.loads((tmp_path / "out" / SUMMARY).read_text()) == summary
    page = (tmp_path / "out" / CARD).read_text()
    assert "| optimum | infeasible | refuse | 1 |" in page and "é \\| \\<b\\>" in page and "| e | 9 | 7.0 |" in page


def test_cut_anywhere_and_resumed_it_ends_in_the_same_bytes(file: Path, tmp_path: Path):
    here(file, tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    ends = [k for k, byte in enumerate(whole[1], start=1) if byte == ord("\n")]
    for cut in (5, ends[2] + 30, ends[-2], ends[-1] - 1):
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        (folder / SETTINGS).write_bytes(whole[0])
        (folder / VERDICTS).write_bytes(whole[1][:cut])
        here(file, folder)
        assert contents(folder) == whole
    again = here(file, tmp_path / "whole")
    assert contents(tmp_path / "whole") == whole and again["rows"] == 10


def test_what_is_done_is_not_done_again(file: Path, tmp_path: Path):
    asked = []

    class Counting(Here):
        def put(self, key, *job):
            asked.append(key)
            super().put(key, *job)

    here(file, tmp_path / "out")
    lines = (tmp_path / "out" / VERDICTS).read_bytes().splitlines(keepends=True)
    (tmp_path / "out" / VERDICTS).write_bytes(b"".join(lines[:7]))
    audit(file, tmp_path / "out", seconds=10.0, pool=Counting)
    assert asked == [7, 8, 9]


def test_results_out_of_order_are_written_in_order(file: Path, tmp_path: Path):
    class Backwards(Here):
        def get(self):
            self._jobs.rotate(1)
            return super().get()

    here(file, tmp_path / "a")
    audit(file, tmp_path / "b", seconds=10.0, pool=Backwards)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_a_row_at_which_a_process_dies_is_refused(file: Path, tmp_path: Path):
    class Dying(Here):
        def get(self):
            key, found = super().get()
            return key, Died("it ended its process (SIGKILL)") if key == 3 else found

    summary = audit(file, tmp_path / "out", seconds=10.0, pool=Dying)
    assert summary["rows"] == 10 and "c" in summary["refused_by"]["execution"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"linear": True}, "linear is False there, True here"),
        ({"seconds": 11.0}, "seconds is 10.0 there, 11.0 here"),
        ({"other": True}, "sha256 is"),
    ],
)
def test_other_settings_are_an_error(file: Path, tmp_path: Path, change: dict, says: str):
    here(file, tmp_path / "out")
    before = contents(tmp_path / "out")
    if change.pop("other", False):
        file.write_text(file.read_text() + row("z") + "\n")
    with pytest.raises(DataError, match=says):
        audit(file, tmp_path / "out", **{"seconds": 10.0, "pool": Here, **change})
    assert contents(tmp_path / "out") == before


def test_a_folder_that_is_no_audit_is_an_error(file: Path, tmp_path: Path):
    here(file, tmp_path / "out")
    verdicts = tmp_path / "out" / VERDICTS
    lines = verdicts.read_text().splitlines()
    for planted, says in (
        ([lines[1], lines[0]], "row 1: it is not of the row"),
        (["[]"], "row 1"),
        ([lines[0], "{}"], "row 2"),
        ([lines[0].replace("accepted", "good")], "verdict 'good'; accepted"),
        ([*lines, lines[-1]], "row 11: it is not of the row"),
    ):
        verdicts.write_text("\n".join(planted) + "\n")
        with pytest.raises(DataError, match=says):
            here(file, tmp_path / "out")
    (tmp_path / "out" / SETTINGS).write_text("none")
    with pytest.raises(DataError, match="holds no settings"):
        here(file, tmp_path / "out")
    (tmp_path / "out" / SETTINGS).unlink()
    with pytest.raises(DataError, match=r"holds verdicts but no settings\.json"):
        here(file, tmp_path / "out")


@pytest.mark.parametrize("options", [{"seconds": 0.0}, {"seconds": float("nan")}, {"seconds": 1e9}, {"processes": -1}])
def test_settings_out_of_range(file: Path, tmp_path: Path, options: dict):
    with pytest.raises(DataError, match="accepted:"):
        audit(file, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_bad_input_is_told_in_one_line(tmp_path: Path):
    for name in ("missing.jsonl", "."):
        with pytest.raises(ValueError) as error:
            command(tmp_path / name, tmp_path / "out")
        line = told(error.value)
        assert line is not None and line.startswith("trex: ") and "\n" not in line
    assert not (tmp_path / "out").exists()


def start(file: Path, folder: Path, **options) -> subprocess.Popen:
    arguments = [sys.executable, "-m", "trex", "data", "audit", str(file), "--out", str(folder), "--seconds", "10"]
    return subprocess.Popen(
        [*arguments, "--processes", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def test_the_command_with_processes(file: Path, tmp_path: Path):
    process = start(file, tmp_path / "out")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "10 rows: 3 accepted, 6 refused, 1 unchecked; 1 labels proposed" in out
    here(file, tmp_path / "here")
    assert contents(tmp_path / "out") == contents(tmp_path / "here")
    wrong = start(tmp_path / "missing.jsonl", tmp_path / "none")
    out, err = wrong.communicate(timeout=240)
    assert (wrong.returncode, out) == (2, "") and err.startswith("trex: ") and "Traceback" not in err


@pytest.mark.slow
def test_killed_and_started_again_it_ends_in_the_same_bytes(file: Path, tmp_path: Path):
    file.write_text("\n".join(row(f"r{k}", upper=k + 1, label=str(k + 1 + k % 2)) for k in range(60)) + "\n")
    here(file, tmp_path / "whole")
    for _ in range(3):
        process = start(file, tmp_path / "out", start_new_session=True)
        verdicts, before = tmp_path / "out" / VERDICTS, 0
        before = verdicts.stat().st_size if verdicts.exists() else 0
        limit = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < limit:
            if verdicts.exists() and verdicts.stat().st_size > before + 2000:
                os.kill(process.pid, signal.SIGKILL)
                break
            time.sleep(0.01)
        process.communicate(timeout=120)
    process = start(file, tmp_path / "out")
    assert process.communicate(timeout=240) and process.returncode == 0
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_file_must_stay_as_it_is(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = iter(["a", "b"])
    monkeypatch.setattr(run, "_sha256", lambda path: next(found))
    with pytest.raises(DataError, match="has changed while it was read"):
        here(file, tmp_path / "out")
