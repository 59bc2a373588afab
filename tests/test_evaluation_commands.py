"""`trex eval` as a user types it: what is run and printed, and one-line errors before anything is written."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")

from trex import cli
from trex.eval.execute import SETTINGS
from trex.eval.recorded import family_programs

COUNT = 2
Run = Callable[..., int]


@pytest.fixture
def trex(monkeypatch: pytest.MonkeyPatch) -> Run:
    def command(*words: object) -> int:
        monkeypatch.setattr(sys, "argv", ["trex", "eval", *map(str, words)])
        return cli.main()

    return command


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two answers to each of our problems, the first right, and one to a problem that is not asked."""
    _, texts = family_programs(COUNT)
    rows = [{"item": item, "sample": 0, "text": text} for (item, _), text in texts.items()]
    rows += [{**row, "sample": 1, "text": "I do not know."} for row in rows]
    path = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "item": "nl4opt/0"}]))
    return path


def test_a_run_with_examples_from_answers_to_report(
    trex: Run, answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folder = tmp_path / "run"
    words = ("run", folder, "--answers", answers, "--families", COUNT, "--shots", 2)
    assert trex(*words, "--seconds", 20, "--memory-mb", 3000) == 0
    out, err = capsys.readouterr()
    assert "1 of 5 recorded answers are not used: 1 of items that are not asked (the first: nl4opt/0, sample 0)" in err
    assert (
        f"{2 * COUNT} answers, 0 failed" in out and f"of 4 in all, {COUNT} programs run, {COUNT} hold no program" in out
    )
    assert "2 samples per item" in out and "50.00" in out and "100.00" in out
    limits = json.loads((folder / SETTINGS).read_text())["limits"]
    assert (limits["seconds"], limits["memory_mb"]) == (20.0, 3000)
    asked = [json.loads(line) for line in (folder / "prompts.jsonl").read_text().splitlines()]
    assert len(asked) == COUNT and [m["role"] for m in asked[0]["messages"]] == [
        "system", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    assert trex("report", folder, "--failures", 1) == 0
    assert "sample 1: protocol, interface or data\n    no program" in capsys.readouterr().out
    assert trex("judge", folder, "--labels", 0) == 0
    assert "4 verdicts of other settings are discarded (label_version = " in capsys.readouterr().err
    assert trex("report", folder, "--against", folder, "--k", 2) == 0
    assert f"{folder} less {folder}" in capsys.readouterr().out
    assert trex("report", folder, "--against", folder, "--k", 1, 2) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no source of answers: give one of --endpoint, --answers, --checkpoint"),
        (("--endpoint", "http://127.0.0.1:1/v1", "--answers", "x"), "--endpoint and --answers are given"),
        (("--endpoint", "http://127.0.0.1:1/v1"), "--endpoint needs --model NAME"),
        (
            ("--endpoint", "http://127.0.0.1:1/v1", "--model", "m", "--api-key-variable", "TREX_NO_SUCH_KEY"),
            "$TREX_NO_SUCH_KEY is not set",
        ),
        (("--answers", "EMPTY"), "there are no recorded answers"),
        (("--answers", "FOREIGN"), "1 of 1 recorded answers are not used"),
        (("--sets", "nl4opt,optibench"), "b4o_feasible, b4o_orgeval, families; separate several with spaces"),
        (("--families", "0"), "families = 0; accepted: a whole number of problems from 1"),
        (
            ("--items", "families/none"),
            "items = families/none: not among the problems of families; accepted: ids such as families/",
        ),
        (("--limit", "0"), "limit = 0"),
    ],
)
def test_what_a_run_does_not_accept(
    trex: Run, tmp_path: Path, capsys: pytest.CaptureFixture, words: tuple[str, ...], said: str
) -> None:
    places = {"EMPTY": tmp_path / "empty", "FOREIGN": tmp_path / "foreign"}
    places["EMPTY"].write_text("")
    places["FOREIGN"].write_text('{"item": "x/1", "sample": 0, "text": ""}\n')
    folder = tmp_path / "run"
    assert trex("run", folder, "--families", 2, *(places.get(word, word) for word in words)) == 2
    out, err = capsys.readouterr()
    assert said in err and err.count("\n") == 1 and out == "" and not folder.exists()


def test_chosen_items_alone_are_asked(trex: Run, answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    chosen = json.loads(answers.read_text().splitlines()[1])["item"]
    words = ("--answers", answers, "--families", COUNT, "--items", chosen, "--samples", 1, "--ask-only")
    assert trex("run", tmp_path / "run", *words) == 0
    assert json.loads((tmp_path / "run" / "plan.json").read_text())["items"] == [chosen]
    assert trex("run", tmp_path / "run", "--answers", answers, "--families", COUNT) == 2
    assert "has 1 items, not 2; the first that differs is number 1: " in capsys.readouterr().err


def test_a_folder_that_is_a_file(trex: Run, answers: Path, capsys: pytest.CaptureFixture) -> None:
    for folder in (answers, answers / "run"):
        assert trex("run", folder, "--answers", answers, "--families", COUNT) == 2
        assert capsys.readouterr().err == f"trex: {folder} is a file, or below one; accepted: a folder, or a new one\n"
