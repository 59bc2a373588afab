"""`trex solve` and `trex compare` as a user types them: what is printed, exit codes, one-line errors."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trex import cli
from trex.solver import lp

MODEL = "Maximize\n obj: 3 x[0] + 2 y + 1\nSubject To\n c1: x[0] + y <= 4\n c2: 3 x[0] + y <= 6\nEnd\n"  # 10 at (1, 3)
Run = Callable[..., int]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def command(*words: object) -> int:
        monkeypatch.setattr(sys, "argv", ["trex", *map(str, words)])
        return cli.main()

    return command


@pytest.fixture
def models(tmp_path: Path) -> Path:
    texts = {
        "a": MODEL,
        "renamed": MODEL.replace("x[0]", "u").replace("c2: 3 u + y <= 6", "c2: - 6 u - 2 y >= -12"),
        "other": MODEL.replace("<= 6", "<= 7"),
        "infeasible": MODEL.replace("<= 6", "<= -1"),
        "infeasible2": MODEL.replace("<= 6", "<= -2"),
        "broken": MODEL.replace("<= 4", "<= <= 4"),
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.lp").write_text(text)
    lp.write(lp.read(MODEL), tmp_path / "a.mps.gz")
    return tmp_path


def test_solve_prints_the_optimum(run: Run, models: Path, capsys: pytest.CaptureFixture) -> None:
    assert run("solve", models / "a.lp") == 0
    out, err = capsys.readouterr()
    assert "optimal" in out and "10.0" in out and "x[0] = 1" in out and err == ""


def test_solve_as_json_with_an_exact_value(run: Run, models: Path, capsys: pytest.CaptureFixture) -> None:
    assert run("solve", models / "a.mps.gz", "--check", "exact", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["status"], found["objective"], found["exact"]) == ("optimal", 10.0, "10")
    assert found["values"] == {"x[0]": 1.0, "y": 3.0}


def test_solve_with_a_second_solver_and_a_memory_limit(run: Run, models: Path, capsys: pytest.CaptureFixture) -> None:
    assert run("solve", models / "infeasible.lp", "--check", "second", "--memory-mb", 2000) == 0
    out = capsys.readouterr().out
    assert "infeasible" in out and "SCIP" in out and "agrees" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("solve", "broken.lp"), "broken.lp, line 4, column"),
        (("solve", "missing.lp"), "missing.lp"),
        (("solve", "a.lp", "--time-s", "0"), "time_s = 0"),
        (("compare", "a.lp", "broken.lp"), "broken.lp, line 4, column"),
        (("compare", "a.lp", "a.lp", "--time-s", "-1"), "time_s = -1"),
    ],
)
def test_errors_are_one_line_and_exit_2(
    run: Run, models: Path, capsys: pytest.CaptureFixture, words: tuple[str, ...], said: str
) -> None:
    assert run(*(models / word if word.endswith(".lp") else word for word in words)) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("trex: ") and err.count("\n") == 1 and said in err


@pytest.mark.parametrize(
    ("other", "code", "said"),
    [("renamed", 0, "x[0] = u"), ("other", 1, "witness: optimum"), ("a", 0, "equal")],
)
def test_compare(run: Run, models: Path, capsys: pytest.CaptureFixture, other: str, code: int, said: str) -> None:
    assert run("compare", models / "a.lp", models / f"{other}.lp") == code
    assert said in capsys.readouterr().out


def test_compare_exits_3_where_nothing_was_shown(run: Run, models: Path, capsys: pytest.CaptureFixture) -> None:
    assert run("compare", models / "infeasible.lp", models / "infeasible2.lp", "--json") == 3
    assert json.loads(capsys.readouterr().out)["kind"] == "unknown"


def test_compare_as_published(run: Run, models: Path, capsys: pytest.CaptureFixture) -> None:
    assert run("compare", models / "a.lp", models / "renamed.lp", "--mode", "as-published") == 1
    assert run("compare", models / "a.lp", models / "a.lp", "--mode", "as-published") == 0
    assert "also calls models equal that are not" in capsys.readouterr().err


def test_names_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    (tmp_path / "a.lp").write_text(MODEL.replace("y", "größe"), encoding="utf-8")
    command = [sys.executable, "-m", "trex", "solve", str(tmp_path / "a.lp")]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False)
    assert done.returncode == 0 and b"gr\\xf6\\xdfe = 3" in done.stdout
