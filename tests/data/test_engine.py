"""The engine: one set of bytes whatever interrupts it, refusals kept, and tampering found."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.data.test_documents import rehashed

from trex import cli
from trex.data import engine
from trex.data.decontamination import Benchmarks
from trex.data.documents import Document, read_jsonl
from trex.data.engine import DOCUMENTS, PLAN, REFUSALS, Here, Settings
from trex.data.gates import GATES
from trex.data.near_duplicates import signature, similarity
from trex.data.plan import Plan
from trex.data.problem import DataError
from trex.data.proving import Outcome, prove
from trex.data.statistics import distinct, funnel, refusals, statistics
from trex.data.verification import verify_folder
from trex.files import locked

FAMILIES = ("knapsack", "transportation", "production_planning")
SETTINGS = Settings(Plan.of(12, 5, FAMILIES, difficulty=(1, 2)))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder made by two processes, programs run."""
    folder = tmp_path_factory.mktemp("made") / "documents"
    engine.generate(folder, SETTINGS, processes=2)
    return folder


def copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for name, data in contents(folder).items():
        (to / name).write_bytes(data)
    return to


def test_documents_come_in_the_order_of_the_plan_with_all_gates_passed(made: Path) -> None:
    rows = list(read_jsonl(made / DOCUMENTS))
    assert len(rows) == 12
    for k, row in enumerate(rows):
        item = SETTINGS.plan.item(k)
        assert (row.family, row.mode, row.provenance["difficulty"]) == (item.family, item.mode, item.difficulty)
        assert {"program", "structure", "second solver", "text"} <= set(row.provenance["gates"])


def test_one_process_with_another_hash_seed_makes_the_same_bytes(made: Path, tmp_path: Path) -> None:
    words = ["--count", "12", "--seed", "5", "--families", *FAMILIES, "--difficulty", "1", "2", "--processes", "1"]
    command = [sys.executable, "-m", "trex", "data", "generate", "--out", str(tmp_path / "b"), *words]
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "7"}, check=True, timeout=300, capture_output=True)
    found = contents(tmp_path / "b")
    assert found.pop("README.md").startswith(b"---\n")
    assert found == contents(made)


@pytest.mark.parametrize("seed", range(4))
def test_files_cut_anywhere_are_completed_to_the_same_bytes(seed: int, made: Path, tmp_path: Path) -> None:
    """With refusals, whose last ones are of a document that is not there yet."""
    settings = Settings(Plan.of(30, 5, ["knapsack"], ["DPS"], 1), execute=False, near=0.3)
    whole, folder = tmp_path / "whole", tmp_path / "cut"
    engine.generate(whole, settings, pool=Here)
    expected = contents(whole)
    assert expected[REFUSALS]
    copied(whole, folder)
    rng = random.Random(seed)
    place = rng.randrange(len(expected[DOCUMENTS]))
    (folder / DOCUMENTS).write_bytes(expected[DOCUMENTS][:place])
    (folder / REFUSALS).write_bytes(expected[REFUSALS][: rng.randrange(len(expected[REFUSALS]))])
    lost = expected[DOCUMENTS][:place].count(b"\n")
    lines = expected[REFUSALS].splitlines(keepends=True)
    needed = b"".join(line for line in lines if json.loads(line)["document"] < lost)  # these are written first
    (folder / REFUSALS).write_bytes(max(needed, (folder / REFUSALS).read_bytes(), key=len))
    engine.generate(folder, settings, pool=Here)
    assert contents(folder) == expected


def test_a_folder_of_another_plan_is_not_continued(made: Path, tmp_path: Path) -> None:
    before = contents(made)
    for other, said in (
        (replace(SETTINGS, plan=replace(SETTINGS.plan, seed=6)), "seed is 5 there, 6 here"),
        (replace(SETTINGS, plan=replace(SETTINGS.plan, count=13)), "count is 12 there"),
        (replace(SETTINGS, near=0.5), "near is 0.9"),
    ):
        with pytest.raises(DataError, match=said):
            engine.generate(made, other)
    assert contents(made) == before
    folder = copied(made, tmp_path / "lost")
    (folder / PLAN).unlink()
    with pytest.raises(DataError, match=r"no plan\.json"):
        engine.generate(folder, SETTINGS)
    lines = before[DOCUMENTS].splitlines(keepends=True)
    folder = copied(made, tmp_path / "swapped")
    (folder / DOCUMENTS).write_bytes(b"".join([lines[1], lines[0], *lines[2:5]]))
    with pytest.raises(DataError, match="row 1 is not what the plan has"):
        engine.generate(folder, SETTINGS)


def lying(change: Callable[[Outcome, int], Outcome]) -> Callable[[], Here]:
    """A pool whose outcomes of some jobs are changed."""

    class Lying(Here):
        def get(self) -> tuple[Any, Any]:
            key, outcome = super().get()
            return key, change(outcome, key)

    return Lying


def test_duplicates_and_texts_of_benchmarks_are_refused_and_kept(tmp_path: Path) -> None:
    settings = Settings(Plan.of(4, 5, ["knapsack"], ["DT"], 1), execute=False)
    first = prove(settings.plan.item(0), execute=False)
    seen = Counter[int]()

    def once(outcome: Outcome, key: int) -> Outcome:
        seen[key] += 1
        return first if key == 2 and seen[key] == 1 else outcome

    refused = engine.generate(tmp_path / "a", settings, pool=lying(once))
    rows = list(refusals(tmp_path / "a"))
    assert refused == {"duplicate": 1} and [(r["document"], r["attempt"], r["gate"]) for r in rows] == [
        (2, 0, "duplicate")
    ]
    assert rows[0]["data"] == json.loads(first.line)["data"]
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "set.jsonl").write_text(json.dumps({"question": Document.from_line(first.line).problem}) + "\n")
    known = Benchmarks.read(folder)
    refused = engine.generate(tmp_path / "b", replace(settings, benchmarks=known.sha256), known, pool=Here)
    rows = list(refusals(tmp_path / "b"))
    assert refused["benchmark"] >= 1 and rows[0]["reason"].startswith("13-gram: set.jsonl:1")


def test_a_family_of_which_nothing_passes_is_named(tmp_path: Path) -> None:
    def refuse(outcome: Outcome, key: int) -> Outcome:
        return Outcome(gate="trivial", reason="of no use", data={})

    with pytest.raises(DataError, match="100 instances of knapsack refused, the last: trivial: of no use"):
        engine.generate(tmp_path / "a", Settings(Plan.of(1, 0, ["knapsack"]), execute=False), pool=lying(refuse))


def test_verify_finds_nothing_in_what_was_made(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["trex", "data", "verify", str(made), "--processes", "2"])
    assert cli.main() == 0
    assert "12 documents, 0 faults" in capsys.readouterr().err


def test_verify_finds_what_a_tamperer_changed(made: Path, tmp_path: Path) -> None:
    rows = list(read_jsonl(made / DOCUMENTS))
    changed = {
        1: rehashed(rows[0], objective=rows[0].objective + 1),
        3: rehashed(rows[2], problem=rows[2].problem.replace(" the ", " a ", 1)),
        4: rehashed(rows[3], program=rows[3].program.replace("<=", ">=", 1)),
        6: rehashed(rows[5], values={name: value + 1 for name, value in rows[5].values.items()}),
    }
    lines = [(changed.get(k, row)).line for k, row in enumerate(rows, start=1)]
    lines[7], lines[8] = lines[8], lines[7]
    lines[10] = '{"family": "knapsack"}'
    folder = copied(made, tmp_path / "tampered")
    (folder / DOCUMENTS).write_text("\n".join(lines) + "\n")
    total, faults = verify_folder(folder, execute=False, processes=2)
    assert all(changed[k] != rows[k - 1] for k in changed)
    assert total == 12 and {fault.row for fault in faults} == {*changed, 8, 9, 11}


def verified(folder: Path) -> list[tuple[int, str]]:
    return [(fault.row, fault.reason) for fault in verify_folder(folder, execute=False, processes=1)[1]]


def test_without_a_plan_nothing_is_proved(made: Path, tmp_path: Path) -> None:
    folder = copied(made, tmp_path / "a")
    (folder / PLAN).unlink()
    lines = (folder / DOCUMENTS).read_bytes().splitlines(keepends=True)
    (folder / DOCUMENTS).write_bytes(b"".join([*lines[:3], lines[1]]))
    (first, said), (again, why) = verified(folder)
    assert first == 0 and "there is no plan.json" in said
    assert (again, why) == (4, "it is the document of row 2 again")


def test_verify_reads_the_last_row_to_its_end(made: Path, tmp_path: Path) -> None:
    folder = copied(made, tmp_path / "a")
    (folder / DOCUMENTS).write_bytes((folder / DOCUMENTS).read_bytes().removesuffix(b"\n"))
    assert verified(folder) == [(12, "it does not end with a line break")]


def test_verify_finds_settings_that_the_rows_do_not_have(made: Path, tmp_path: Path) -> None:
    folder = copied(made, tmp_path / "a")

    def stated(**changes: object) -> list[tuple[int, str]]:
        (folder / PLAN).write_text(json.dumps({**json.loads((made / PLAN).read_text()), **changes}))
        return verified(folder)

    assert stated() == []
    found = stated(execute=False)
    assert [row for row, _ in found] == list(range(1, 13))
    assert all(
        reason == "plan.json has execute false; its gates on programs are program, structure" for _, reason in found
    )
    for changes in (
        {"near": 0},
        {"near": 1.5},
        {"near": "0.9"},
        {"near": True},
        {"execute": 1},
        {"benchmarks": 3},
        {"plan": {}},
    ):
        with pytest.raises(DataError, match=r"plan\.json holds no plan"):
            stated(**changes)


def test_verify_finds_statements_nearer_than_the_plan_has_it(tmp_path: Path) -> None:
    engine.generate(tmp_path / "a", Settings(Plan.of(20, 5, ["knapsack"], ["DPS"], 1), execute=False), pool=Here)
    signs = [signature(document.statement) for document in read_jsonl(tmp_path / "a" / DOCUMENTS)]
    nearest, first, second = max((similarity(signs[i], signs[k]), i + 1, k + 1) for k in range(20) for i in range(k))
    assert 0.45 < nearest < 0.9  # so that bands find the pair
    plan = tmp_path / "a" / PLAN
    for near, expected in ((nearest, True), (nearest + 0.001, False)):
        plan.write_text(json.dumps({**json.loads(plan.read_text()), "near": near}))
        said = f"its statement is {nearest:.2f} like that of row {first}; plan.json has near {near}"
        assert verified(tmp_path / "a") == ([(second, said)] if expected else [])


def test_verify_finds_refusals_that_the_settings_do_not_lead_to(made: Path, tmp_path: Path) -> None:
    folder = copied(made, tmp_path / "a")
    row = {"document": 0, "attempt": 0, "gate": "benchmark", "reason": "13-gram: a:1"}
    (folder / REFUSALS).write_text(json.dumps(row) + "\n")
    assert verified(folder) == [
        (0, "refusals.jsonl, row 1: refused at the gate 'benchmark', but plan.json has no benchmarks")
    ]
    (folder / REFUSALS).write_text("[]\n")
    ((number, reason),) = verified(folder)
    assert number == 0 and "refusals.jsonl, row 1: it is a list" in reason


def test_programs_that_ran_are_claimed_by_rows_that_ran_them(tmp_path: Path) -> None:
    settings = Settings(Plan.of(2, 5, ["knapsack"], ["DT"], 1), execute=False)
    engine.generate(tmp_path / "a", settings, pool=Here)
    assert verified(tmp_path / "a") == []
    plan = tmp_path / "a" / PLAN
    plan.write_text(plan.read_text().replace('"execute": false', '"execute": true'))
    assert verified(tmp_path / "a") == [
        (k, "plan.json has execute true; its gates on programs are none") for k in (1, 2)
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"document": 0, "reason": "a"}', "it has no `gate`"),
        ('{"gate": "text", "reason": "a"}', "it has no `document`"),
        ('{"document": 0, "gate": "text"}', "it has no `reason`"),
        ('{"document": "0", "gate": "text", "reason": "a"}', "document is '0'"),
        ('{"document": true, "gate": "text", "reason": "a"}', "document is True"),
        ('{"document": 0, "gate": ["text"], "reason": "a"}', "gate is ['text']"),
        ('{"document": 0, "gate": "unheard of", "reason": "a"}', "gate 'unheard of'"),
        ("[1]", "it is a list, not an object"),
        ("null", "it is a NoneType, not an object"),
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_bad_refusal_is_named(line: str, said: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    folder = copied(made, tmp_path / "a")
    good = json.dumps({"document": 0, "attempt": 0, "gate": "text", "reason": "a"})
    (folder / REFUSALS).write_text(f"{good}\n{line}\n")
    before = contents(folder)
    generate = ["generate", "--out", str(folder), "--count", "12", "--seed", "5", "--families", *FAMILIES]
    for words in (["stats", str(folder)], [*generate, "--difficulty", "1", "2"]):
        monkeypatch.setattr(sys, "argv", ["trex", "data", *words])
        assert cli.main() == 2
        told = capsys.readouterr().err.strip().splitlines()
        assert len(told) == 1 and f"{folder / REFUSALS}, row 2: " in told[0] and said in told[0]
        assert contents(folder) == before


def test_statistics_name_a_row_without_its_origin(made: Path, tmp_path: Path) -> None:
    folder = copied(made, tmp_path / "a")
    lines = (folder / DOCUMENTS).read_text().splitlines()
    row = json.loads(lines[1])
    del row["provenance"]["gates"], row["provenance"]["model_fingerprint"]
    (folder / DOCUMENTS).write_text("\n".join([lines[0], json.dumps(row), *lines[2:]]) + "\n")
    with pytest.raises(DataError, match=r"documents\.jsonl, row 2: its provenance"):
        statistics(folder)
    with pytest.raises(DataError, match=r"documents\.jsonl, row 2 is not what the plan has"):
        engine.generate(folder, SETTINGS, pool=Here)


def test_two_runs_in_a_folder_are_told_of_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    (tmp_path / "a").mkdir()
    monkeypatch.setattr(sys, "argv", ["trex", "data", "generate", "--out", str(tmp_path / "a"), "--count", "1"])
    with locked(tmp_path / "a" / ".lock"):
        assert cli.main() == 2
    told = capsys.readouterr().err.strip()
    assert told == f"trex: {tmp_path / 'a'} is in use by another run; wait for it or stop it"


def test_the_funnel_adds_up(made: Path) -> None:
    found = statistics(made)
    assert found.documents == 12 and found.by["mode"] == {"DP": 4, "DPS": 4, "DT": 4}
    through = funnel({**dict.fromkeys(GATES, 12), "second solver": 10}, {"trivial": 3, "text": 1})
    assert list(through) == list(GATES)
    assert through["contract"] == (16, 0) and through["second solver"] == (14, 0)  # two instances have none
    assert through["trivial"] == (16, 3) and through["text"] == (13, 1) and through["benchmark"] == (12, 0)
    assert distinct(["a b c", "a b d"])[1] == pytest.approx(4 / 6) and distinct(["a b c", "a b d"])[2] == 3 / 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["generate", "--out", "x", "--seed", "1000000"], "seed 1000000; accepted: below 900,000"),
        (["generate", "--out", "x", "--families", "hanoi"], "family 'hanoi'; accepted, each once: "),
        (["generate", "--out", "x", "--near", "0"], "similarity of 0.0; accepted: above 0"),
        (["generate", "--out", "x", "--benchmarks", "nowhere"], "nowhere is no folder of benchmarks"),
        (["generate", "--out", "x", "--processes", "-4"], "processes -4; accepted: whole numbers from 0"),
        (["generate", "--out", "x", "--count", "0"], "count 0; accepted: from 1 to 10,000,000"),
        (["verify", "nowhere", "--processes", "-4"], "processes -4; accepted: whole numbers from 0"),
        (["verify", "nowhere"], "does not exist; accepted: a folder that"),
        (["stats", "nowhere"], "does not exist; accepted: a folder that"),
    ],
)
def test_bad_arguments_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["trex", "data", *words])
    assert cli.main() == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and said in lines[0] and list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_in_the_same_files(tmp_path: Path) -> None:
    words = ["--count", "40", "--seed", "3", "--difficulty", "1", "2", "--processes", "2"]

    def command(folder: Path) -> list[str]:
        return [sys.executable, "-m", "trex", "data", "generate", "--out", str(folder), *words]

    begin = time.monotonic()
    subprocess.run(command(tmp_path / "straight"), check=True, timeout=600, capture_output=True)
    longest, rng = time.monotonic() - begin, random.Random(0)
    kills = 0
    while kills < int(os.environ.get("TREX_KILLS", "6")):  # 20 for the whole trial
        process = subprocess.Popen(command(tmp_path / "stopped"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(0.2, 0.5) * longest)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    subprocess.run(command(tmp_path / "stopped"), check=True, timeout=600, capture_output=True)
    assert kills >= 3 and contents(tmp_path / "stopped") == contents(tmp_path / "straight")
