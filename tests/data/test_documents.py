"""Documents: their programs run, their file is the same after any interruption, and changes are noticed."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from trex.data import families
from trex.data.documents import Document, generate, hashes, read_jsonl, resume_jsonl, verify, write_jsonl, write_up
from trex.data.plan import SEED_STRIDE, Plan
from trex.data.problem import DataError
from trex.data.rendering import MODES, literal

PLAN = Plan.of(12, seed=3, difficulty=(1, 2))


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return list(generate(12, seed=3, difficulty=(1, 2)))


@pytest.fixture(scope="module")
def whole(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file that an undisturbed run writes."""
    path = tmp_path_factory.mktemp("whole") / "documents.jsonl"
    assert write_jsonl(path, documents) == 12
    return path.read_bytes()


@pytest.mark.parametrize("name", families.names())
@pytest.mark.parametrize("mode", ["DT", "DPS"])
def test_the_program_alone_finds_the_recorded_answer(name: str, mode: str, tmp_path: Path) -> None:
    document = write_up(families.get(name).sample(7, 2), mode)
    (tmp_path / "program.py").write_text(document.program)
    if mode == "DPS":
        (tmp_path / "data.json").write_text(literal(document.data))
    done = subprocess.run(
        [sys.executable, "-I", "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("objective:") or " = " in line]
    assert float(lines[0].removeprefix("objective:")) == pytest.approx(document.objective, rel=1e-6)
    printed = {k: float(v) for k, v in (line.split(" = ") for line in lines[1:])}
    assert set(printed) <= {variable for variable, _ in families.get(name).variables(document.data)}
    assert families.get(name).objective(document.data, printed) == pytest.approx(document.objective, rel=1e-6)


def test_modes_share_everything_but_text_and_program() -> None:
    problem = families.get("transportation").sample(0, 1)
    rows = [asdict(write_up(problem, mode)) for mode in MODES]
    for key in ("data", "formulation", "objective", "values", "answer"):
        assert rows[0][key] == rows[1][key] == rows[2][key]
    assert len({row["problem"] for row in rows}) == 3
    assert rows[0]["program"] == rows[1]["program"] != rows[2]["program"]


def test_the_text_holds_all_parts(documents: list[Document]) -> None:
    for document in documents:
        parts = [document.problem, document.formulation, document.program, document.answer]
        parts += [literal(document.data)] if document.mode == "DPS" else []
        places = [document.text.index(part) for part in parts]
        assert places[0] == min(places) and places[3] == max(places)


def test_the_answer_states_the_recorded_numbers(documents: list[Document]) -> None:
    for document in documents:
        assert f"{document.objective:.6f}".rstrip("0").rstrip(".") in document.answer
        for name, value in document.values.items():
            if name.startswith(("ship", "make", "stock")):
                assert f"{value:.6f}".rstrip("0").rstrip(".") in document.answer


def test_rows_come_back_equal(documents: list[Document], whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_bytes(whole)
    assert list(read_jsonl(path)) == documents


def test_another_process_writes_the_same_bytes(whole: bytes, tmp_path: Path) -> None:
    """With another hash seed and the file written in one go; nothing that varies, such as seconds, is inside."""
    path = tmp_path / "documents.jsonl"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    subprocess.run([sys.executable, "-c", _script(path, PLAN.count)], env=environment, check=True, timeout=120)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("seed", range(8))
def test_a_file_cut_anywhere_is_completed_to_the_same_bytes(seed: int, whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    last_rows = whole[:-1].rfind(b"\n", 0, whole[:-1].rfind(b"\n"))
    path.write_bytes(whole[: random.Random(seed).randint(last_rows, len(whole) - 1)])
    before = path.read_bytes().count(b"\n")
    assert list(read_jsonl(path)) == list(map(Document.from_line, whole.decode().splitlines()[:before]))
    assert resume_jsonl(path, PLAN) == 12 - before
    assert path.read_bytes() == whole
    assert resume_jsonl(path, PLAN) == 0


def test_a_first_line_cut_short_leaves_an_empty_file(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_bytes(whole[:70_000].split(b"\n")[0])
    assert write_jsonl(path, []) == 0
    assert path.read_bytes() == b""


def test_rows_of_another_plan_are_not_continued(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_bytes(whole)
    with pytest.raises(DataError, match="row 1 is"):
        resume_jsonl(path, Plan.of(20, seed=4, difficulty=(1, 2)))
    with pytest.raises(DataError, match="more than the 5"):
        resume_jsonl(path, Plan.of(5, seed=3, difficulty=(1, 2)))
    assert path.read_bytes() == whole


@pytest.mark.parametrize("key", ["problem", "objective", "values", "data", "program", "answer"])
def test_a_changed_row_is_noticed(key: str, whole: bytes, tmp_path: Path) -> None:
    rows = whole.decode().splitlines()
    row = json.loads(rows[1])
    value = row[key]
    row[key] = value + 1 if key == "objective" else {**value, "extra": 1} if isinstance(value, dict) else value + " "
    path = tmp_path / "documents.jsonl"
    path.write_text("\n".join([rows[0], json.dumps(row), *rows[2:]]) + "\n")
    with pytest.raises(DataError, match=r"row 2: .*recorded hash"):
        list(read_jsonl(path))


@pytest.mark.parametrize("k", [0, 4, 8])  # three families, three modes
def test_a_change_with_recomputed_hashes_is_found(k: int, documents: list[Document]) -> None:
    document = documents[k]
    verify(document)
    number = next(re.finditer(r"\d+", document.answer))
    largest = max(document.values, key=document.values.__getitem__)
    changes = {
        "data": json.loads(re.sub(r"\d+(?=[,}])", "77", json.dumps(document.data), count=1)),
        "problem": document.problem.replace("cannot", "can"),
        "formulation": document.formulation.replace(r"\le", r"\ge"),
        "program": document.program.replace("<=", ">="),
        "objective": document.objective * 1.01,
        "values": {**document.values, largest: document.values[largest] / 2},
        "answer": document.answer[: number.start()] + "4711" + document.answer[number.end() :],
        "status": "time_limit",
    }
    for key, value in changes.items():
        assert value != getattr(document, key)
        content, statement = hashes({**asdict(document), key: value})
        provenance = {**document.provenance, "content_sha256": content, "statement_sha256": statement}
        changed = Document.from_line(replace(document, **{key: value, "provenance": provenance}).line)
        with pytest.raises(DataError, match=key if key not in ("objective", "values") else "is worth|breaks"):
            verify(changed)


def test_parts_of_a_wrong_kind_and_missing_provenance_are_named(documents: list[Document]) -> None:
    document = documents[0]
    for key, value in (("values", [1]), ("objective", "1"), ("answer", None), ("data", "{}")):
        with pytest.raises(DataError, match=f"{key} is"):
            Document.from_line(json.dumps({**asdict(document), key: value}))
    for key in ("family", "seed", "difficulty", "mode", "confirmed_by"):
        provenance = {k: v for k, v in document.provenance.items() if k != key}
        with pytest.raises(DataError, match=key):
            verify(replace(document, provenance=provenance))


@pytest.mark.parametrize("line", ["", "{}", "[]", "null", "{", '{"family": "knapsack"}', "\xff"])
def test_what_is_no_document_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_bytes(line.encode("latin-1") + b"\n")
    with pytest.raises(DataError, match="row 1"):
        list(read_jsonl(path))


def test_a_plan_uses_all_combinations_equally() -> None:
    plan = Plan.of(54, seed=1)
    items = [plan.item(k) for k in range(54)]
    combinations = [(item.family, item.mode, item.difficulty) for item in items]
    assert {combinations.count(c) for c in combinations} == {2} and len(set(combinations)) == 27
    assert [item.seed for item in items] == [SEED_STRIDE + k for k in range(54)]


@pytest.mark.parametrize(
    "bad",
    [
        {"count": -1}, {"count": SEED_STRIDE + 1}, {"seed": -1}, {"families": ["diet"]}, {"families": []},
        {"modes": ["DT", "DT"]}, {"modes": "TEX"}, {"difficulty": 9}, {"difficulty": ()},
    ],
)  # fmt: skip
def test_bad_arguments_are_named_before_any_work(bad: dict) -> None:
    with pytest.raises(DataError, match="accepted"):
        Plan.of(**{"count": 1, **bad})


@pytest.mark.slow
def test_killed_twenty_times_it_ends_in_the_same_file(tmp_path: Path) -> None:
    count, rng = 60, random.Random(0)
    straight, stopped = tmp_path / "straight.jsonl", tmp_path / "stopped.jsonl"
    subprocess.run([sys.executable, "-c", _script(straight, count)], check=True, timeout=300)
    for _ in range(20):
        process = subprocess.Popen([sys.executable, "-c", _script(stopped, count)])
        time.sleep(rng.uniform(1.0, 2.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([sys.executable, "-c", _script(stopped, count)], check=True, timeout=300)
    assert stopped.read_bytes() == straight.read_bytes()


def _script(path: Path, count: int) -> str:
    return (
        "from pathlib import Path\n"
        "from trex.data.documents import resume_jsonl\n"
        "from trex.data.plan import Plan\n"
        f"resume_jsonl(Path({str(path)!r}), Plan.of({count}, seed=3, difficulty=(1, 2)))\n"
    )
