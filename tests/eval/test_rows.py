"""Rows of a run: whole after any cut, one writer, one end per key."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trex.eval import rows
from trex.eval.rows import EvaluationError, finished, latest, read, writer

ROWS = [
    {"item": "a/1", "sample": 0, "status": "error", "text": ""},
    {"item": "a/1", "sample": 1, "status": "ok", "text": "line\nbreak \u2028 é \ud800 \x00"},
    {"item": "a/1", "sample": 0, "status": "ok", "text": "later"},
    {"item": "b/1", "sample": 0, "status": "ok", "text": "{}"},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


def test_rows_come_back_as_they_were(path: Path) -> None:
    with writer(path) as out:
        out.append(ROWS[0])
        assert read(path) == ROWS[:1]  # on the disk as soon as append returns
        out.append(*ROWS[1:])
        assert out.missing([("a/1", 0), ("c/1", 0), ("b/1", 0), ("b/1", 1)]) == [("c/1", 0), ("b/1", 1)]
    assert read(path) == ROWS
    assert latest(read(path)) == {("a/1", 0): ROWS[2], ("a/1", 1): ROWS[1], ("b/1", 0): ROWS[3]}
    assert [finished(row) for row in ROWS] == [False, True, True, True]
    assert os.listdir(path.parent) == [path.name]


def test_a_missing_file_has_no_rows(path: Path) -> None:
    assert read(path) == [] and not path.exists()


def test_a_file_cut_anywhere_goes_on_from_its_whole_rows(path: Path) -> None:
    with writer(path) as out:
        out.append(*ROWS)
    data = path.read_bytes()
    for end in range(len(data) + 1):
        path.write_bytes(data[:end])
        whole = data[:end].count(b"\n")
        assert read(path) == ROWS[:whole]
        with writer(path) as out:
            out.append(*ROWS[whole:])
        assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "no JSON"),
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"item": "a", "sample": ' + b"9" * 5000 + b"}", "no JSON"),
        (b"[1]", "no JSON object"),
        (b'{"sample": 0}', "'item' is None"),
        (b'{"item": "", "sample": 0}', "'item' is ''"),
        (b'{"item": "a"}', "'sample' is None"),
        (b'{"item": "a", "sample": true}', "'sample' is True"),
        (b'{"item": "a", "sample": -1}', "'sample' is -1"),
        (b'{"item": "a", "sample": 1.0}', "'sample' is 1.0"),
    ],
)
def test_a_bad_row_is_named_with_file_and_line(path: Path, line: bytes, said: str) -> None:
    path.write_bytes(b'{"item": "a", "sample": 0}\n' + line + b"\n")
    with pytest.raises(EvaluationError, match=r"answers\.jsonl, line 2: ") as caught:
        read(path)
    assert said in str(caught.value) and len(str(caught.value)) < 400 + len(str(path))
    before = path.read_bytes()
    with pytest.raises(EvaluationError, match="line 2"), writer(path):
        pass
    assert path.read_bytes() == before


def test_a_finished_key_takes_no_other_row(path: Path) -> None:
    with writer(path) as out:
        out.append(ROWS[1])
        for refused in ([ROWS[1]], [{**ROWS[1], "status": "error"}], [ROWS[3], ROWS[3]]):
            with pytest.raises(EvaluationError, match="is finished"):
                out.append(*refused)
    assert read(path) == [ROWS[1]]


def test_what_is_no_json_is_not_begun(path: Path) -> None:
    with writer(path) as out:
        for bad in (float("nan"), {1, 2}, b"bytes"):
            with pytest.raises(EvaluationError, match="item 'x', sample 0"):
                out.append(ROWS[0], {"item": "x", "sample": 0, "value": bad})
        out.append(ROWS[1])
    assert read(path) == [ROWS[1]]


def test_a_row_that_the_disk_refuses_leaves_no_half(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writer(path) as out:
        out.append(ROWS[0])
        with monkeypatch.context() as patch:
            patch.setattr(rows.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(OSError, match="No space"):
                out.append(ROWS[1])
        assert ("a/1", 1) not in out.latest
        out.append(ROWS[3])
    assert read(path) == [ROWS[0], ROWS[3]]


def test_a_second_writer_is_turned_away_until_the_first_one_dies(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from trex.eval.rows import writer\n"
        "with writer(Path(sys.argv[1])) as out:\n"
        "    out.append({'item': 'x', 'sample': 0, 'status': 'ok'}); print('ready', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=-1, stdout=-1)
    try:
        assert other.stdout is not None and other.stdout.readline() == b"ready\n"
        with pytest.raises(EvaluationError, match="being written by another process"), writer(path):
            pass
    finally:
        other.kill()
        other.communicate()
    with writer(path) as out:
        out.append(ROWS[0])
    assert [json.loads(line)["item"] for line in path.read_text().splitlines()] == ["x", "a/1"]
