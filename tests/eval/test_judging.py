"""Answers run, judged and summed up: cases with known values, references, kills, and fixed denominators."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import trex.paths
from trex.data.program import program
from trex.eval import benchmarks, judging, rows, runs, sets
from trex.eval.execute import Executing, execute
from trex.eval.generate import generate
from trex.eval.items import Item
from trex.eval.judge import Judging, judge_answer
from trex.eval.judging import judge_run
from trex.eval.plan import Plan
from trex.eval.recorded_answers import Recorded
from trex.eval.rows import EvaluationError
from trex.eval.summary import compare_folders, summarise, text
from trex.eval.workers import Died, Worker, judge_all, judging_work, longest_s
from trex.solver.sandbox import Limits, Sandbox

SHARED = Path(trex.paths.CHECKOUT).parent / "shared"
CASES = SHARED / "cases" / "or" / "solver_evaluator.json"
COUNT, SAMPLES = 12, 3


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


def cases() -> list:
    if not CASES.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason="shared cases are not here"))]
    return [pytest.param(case, id=case["id"]) for case in json.loads(CASES.read_text())["cases"]]


@pytest.mark.parametrize("case", cases())
def test_the_published_evaluators_mistakes_are_not_made(sandbox: Sandbox, case: dict, tmp_path: Path) -> None:
    files = {"data.json": json.dumps(case["data"])} if case.get("data") else {}
    item = Item("nl4opt/case", "nl4opt", "?", case.get("label", 1.0), files)
    found = judge_answer(item, case["completion"], sandbox, Limits(seconds=2))
    if isinstance(case["right"], bool):
        assert found.correct is case["right"], found
    else:  # "timeout and no process left", which the sandbox's own tests look for
        assert (found.correct, found.program) == (False, "timeout")
    assert not Path("pwned_outside").exists()


INFEASIBLE = """Minimize
 obj: x
Subject To
 low: x >= 5
 high: x <= 4
End
"""
RAISES = """```python
import pyomo.environ as pyo
m = pyo.ConcreteModel()
m.x = pyo.Var(within=pyo.NonNegativeReals)
m.o = pyo.Objective(expr=m.x)
m.low = pyo.Constraint(expr=m.x >= 5)
m.high = pyo.Constraint(expr=m.x <= 4)
pyo.SolverFactory("highs").solve(m)
```"""


def test_a_model_that_is_rightly_infeasible_is_right_though_pyomo_raises(sandbox: Sandbox) -> None:
    item = Item("b4o_orgeval/case", "b4o_orgeval", "?", None, reference=INFEASIBLE)
    found = judge_answer(item, RAISES, sandbox)
    assert (found.correct, found.program, found.structure) == (True, "error", "equal")
    other = judge_answer(replace(item, reference=INFEASIBLE.replace("4", "6")), RAISES, sandbox)
    assert (other.correct, other.failure) == (False, "infeasible or unbounded")
    by_value = judge_answer(Item("nl4opt/case", "nl4opt", "?", 5.0), RAISES, sandbox)
    assert (by_value.correct, by_value.failure) == (False, "infeasible or unbounded")
    crash = judge_answer(item, RAISES.replace("solve(m)\n", "solve(m, load_solutions=False)\n1 / 0\n"), sandbox)
    assert (crash.correct, crash.failure) == (False, "execution")


def wrong(code: str) -> str:
    """A family's program with the objective turned."""
    low, high = "sense=pyo.minimize", "sense=pyo.maximize"
    return code.replace(low, high) if low in code else code.replace(high, low)


def family_run(folder: Path, sample_text: dict[int, str] | None = None) -> Plan:
    """A run over family problems: of three samples the first is right, the second turned, the third no program."""
    items = sets.family_items(COUNT, 0)
    lines = []
    for item in items:
        code = program(*sets.problem_of(item))
        for sample, answer in enumerate((f"```python\n{code}```", f"```python\n{wrong(code)}```", "I do not know.")):
            lines.append({"item": item.id, "sample": sample, "text": (sample_text or {}).get(sample, answer)})
    path = folder.with_suffix(".answers")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorded = Recorded.read(path)
    prompts = {item.id: [{"role": "user", "content": item.question}] for item in items}
    asked = Plan.of(
        items, prompts, interface="pyomo", shots=0, samples=SAMPLES, model="recorded",
        recorded_sha256=recorded.sha256, prompt_version="test",
    )  # fmt: skip
    runs.keep_items(folder, items)
    generate(asked, prompts, folder, recorded)
    return asked


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    family_run(folder)
    assert execute(folder) == judge_run(folder) == COUNT * SAMPLES
    return folder


def test_a_run_from_answers_to_table(finished: Path) -> None:
    found = summarise(finished, (1, 2, 3))
    assert (found["asked"], found["answered"], found["executed"], found["judged"]) == (COUNT * SAMPLES,) * 4
    scores = found["sets"]["families"]["scores"]
    for way in ("current", "recorded", "as published"):
        assert scores[way]["pass@1"]["estimate"] == pytest.approx(1 / 3)
        assert scores[way]["pass@2"]["estimate"] == pytest.approx(2 / 3)  # 1 - C(2,2)/C(3,2)
        assert scores[way]["pass@3"]["estimate"] == 1.0
    failures = found["sets"]["families"]["failures"]
    assert sum(failures.values()) == 2 * COUNT and failures["protocol, interface or data"] == COUNT
    assert found["sets"]["families"]["structures"]["equal"] == COUNT
    assert "33.33" in text(found) and json.loads(json.dumps(found, allow_nan=False)) == found
    assert execute(finished) == judge_run(finished) == 0  # nothing is left to do


def test_other_settings_judge_again_and_other_limits_are_refused(finished: Path) -> None:
    before = summarise(finished)
    assert judge_run(finished, Judging(label_version=0)) == COUNT * SAMPLES
    assert summarise(finished)["sets"] == before["sets"]  # families' labels are not disputed
    assert judge_run(finished) == COUNT * SAMPLES
    with pytest.raises(EvaluationError, match="limits"):
        execute(finished, Executing(Limits(seconds=7)))


def test_missing_answers_count_as_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    family_run(folder)
    found = summarise(folder)
    assert found["sets"]["families"]["scores"]["current"]["pass@1"] == {
        "estimate": 0.0, "low": 0.0, "high": pytest.approx(0.242494), "clusters": COUNT, "method": "wilson",
    }  # fmt: skip
    assert found["sets"]["families"]["failures"] == {"not judged": COUNT * SAMPLES}


def test_two_runs_are_compared_item_by_item(finished: Path, tmp_path: Path) -> None:
    other = tmp_path / "run"
    family_run(other, {0: "no program"})
    execute(other)
    judge_run(other)
    found = compare_folders(finished, other)["families"]
    assert found["estimate"] == pytest.approx(-1 / 3) and found["p_value"] < 0.01
    assert (found["low"], found["high"], found["method"]) == (None, None, "none")  # all items differ by the same


def test_changed_items_are_noticed(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    family_run(folder)
    path = folder / runs.ITEMS
    path.write_text(path.read_text().replace('"answer": ', '"answer": 1', 1))
    with pytest.raises(EvaluationError, match="has been changed"):
        execute(folder)
    with pytest.raises(EvaluationError, match="is no run"):
        summarise(tmp_path)
    with pytest.raises(EvaluationError, match="k = 9; accepted: 1 to 3"):
        summarise(finished, (9,))


def row_that(function: Callable[..., object], *arguments: object) -> dict:
    """A row of an execution that calls a function of the standard library when it is judged."""
    return defaultdict(partial(function, *arguments))


def test_an_answer_that_ends_its_process_or_takes_too_long_is_told_apart() -> None:
    item, right = Item("nl4opt/case", "nl4opt", "?", 1.0), {"how": "", "execution": None, "model": ""}
    worker, settings = Worker(judging_work(Judging(), memory=2**31, longest=1)), Judging()
    try:
        for row, said in (
            (row_that(os._exit, 3), "ended its process .exit code 3"),
            (row_that(os.abort), "ended its process .SIGABRT"),
            (row_that(time.sleep, 60), "ended its process .SIGALRM"),
            (row_that(bytearray, 2**40), "takes more than 2 GB"),
        ):
            with pytest.raises(Died, match=said):
                worker.do(item, row, settings)
            assert worker.do(item, right, settings).failure == "protocol, interface or data"
        with pytest.raises(ValueError, match="invalid literal"):
            worker.do(item, row_that(int, "x"), settings)
    finally:
        worker.close()
    jobs = [(item, row_that(os._exit, 3) if number == 5 else right) for number in range(12)]
    found = dict(judge_all(jobs, Judging(), 2))
    assert sorted(found) == list(range(12)) and [n for n in found if isinstance(found[n], Died)] == [5]
    assert longest_s(Judging(30.0, 3.0)) == 126


def test_where_no_judging_process_starts_nothing_is_written(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "verdicts.jsonl").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", shutil.which("false"))
        with pytest.raises(EvaluationError, match=r"judging: no process starts \(exit code 1\)"):
            judge_run(folder)
    assert rows.read(folder / "verdicts.jsonl") == [] and summarise(folder)["unjudged"] == COUNT * SAMPLES


def test_an_answer_whose_judging_died_is_judged_again(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "verdicts.jsonl").unlink()

    def first_dies(jobs: list, settings: Judging, count: int) -> Iterator[tuple]:
        yield from ((n, Died("it died") if n == 0 else found) for n, found in judge_all(jobs, settings, count))

    with monkeypatch.context() as patch:
        patch.setattr(judging, "judge_all", first_dies)
        judge_run(folder)
    found = summarise(folder)
    assert found["judging_ended"] > 0 and found["judged"] + found["judging_ended"] == COUNT * SAMPLES
    assert found["sets"]["families"]["failures"]["judging ended its process"] == found["judging_ended"]
    assert judge_run(folder) == found["judging_ended"] and summarise(folder) == summarise(finished)


def test_verdicts_belong_to_executions_and_these_to_answers_and_settings(finished: Path, tmp_path: Path) -> None:
    folder, said = tmp_path / "run", []
    shutil.copytree(finished, folder)
    path = folder / "executions.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0] |= {"how": "no block", "execution": None, "model": ""}
    lines[1]["execution"] = lines[1]["execution"] and {**lines[1]["execution"], "seconds": 9.0}  # tells nothing else
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert (summarise(folder)["judged"], summarise(folder)["unjudged"]) == (COUNT * SAMPLES - 1, 1)
    assert judge_run(folder, say=said.append) == 1 and "1 verdicts of programs that have been run again" in said[0]
    assert judge_run(folder, say=said.append) == 0 and len(said) == 1
    (folder / "executions.json").unlink()
    with pytest.raises(EvaluationError, match=r"executions\.json is missing.*; put it back, or delete executions"):
        execute(folder)
    shutil.copy(finished / "executions.json", folder)
    answers = folder / "answers.jsonl"
    answers.write_text(answers.read_text().replace("I do not know.", "I do not know!", 1))
    assert execute(folder) == 1
    (folder / "verdicts.json").unlink()
    assert judge_run(folder) == COUNT * SAMPLES


STEPS = """
import sys
import threading
from pathlib import Path
from trex.eval.execute import Executing, execute
from trex.eval.judging import judge_run
folder = Path(sys.argv[1])
execute(folder, Executing(workers=1))
judge_run(folder, workers=1)
"""  # a plain script, without a guard


def killed_and_resumed(folder: Path, kills: int, longest_s: float) -> None:
    """Run the steps, killed with all that they started at moments spread over their time, then to the end."""
    script = folder.with_suffix(".py")
    script.write_text(STEPS)
    for number in range(kills):
        work = subprocess.Popen([sys.executable, str(script), str(folder)], start_new_session=True)
        time.sleep(0.8 + longest_s * number / kills)
        os.killpg(work.pid, signal.SIGKILL)
        work.wait()
    subprocess.run([sys.executable, str(script), str(folder)], check=True, timeout=300)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_killed_run_ends_in_the_same_table(finished: Path, tmp_path: Path, kills: int) -> None:
    folder = tmp_path / "run"
    family_run(folder)
    killed_and_resumed(folder, kills, 4.0)
    assert summarise(folder) == summarise(finished)
    for name in ("executions.jsonl", "verdicts.jsonl"):
        keys = [rows.key(row) for row in rows.read(folder / name)]
        assert len(keys) == len(set(keys)) == COUNT * SAMPLES


FOLDER = SHARED / "benchmarks"
KNOWN = {  # reference programs that are not their reference model, with what shows it
    "b4o_feasible/BENCH4OPT_380": "30 is recorded, the program's optimum is 0.14448",
    "b4o_feasible/BENCH4OPT_381": "the same",
    "b4o_orgeval/BENCH4OPT_32": "the program's data are its twin's",
    "b4o_orgeval/BENCH4OPT_144": "the reference model is unbounded, the program's is not",
    "b4o_orgeval/BENCH4OPT_145": "the same",
    "b4o_orgeval/BENCH4OPT_380": "30 is recorded, the program's optimum is 0.14448",
    "b4o_orgeval/BENCH4OPT_381": "the same",
}


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER.is_dir(), reason="the benchmarks are not here")
def test_all_reference_programs_in_the_sandbox_are_right(tmp_path: Path) -> None:
    """Recorder, sandbox and judge over every reference program: the reference's model and optimum but for KNOWN."""
    items = sets.items(benchmarks.read(FOLDER), ("b4o_feasible", "b4o_orgeval"))
    path = tmp_path / "answers"
    answers = ({"item": i.id, "sample": 0, "text": f"```python\n{i.reference_code}\n```"} for i in items)
    path.write_text("".join(json.dumps(row) + "\n" for row in answers))
    recorded, folder = Recorded.read(path), tmp_path / "run"
    prompts = {item.id: [{"role": "user", "content": item.question}] for item in items}
    asked = Plan.of(
        items, prompts, interface="gurobipy", shots=0, samples=1, model="reference", recorded_sha256=recorded.sha256,
        prompt_version="test",
    )  # fmt: skip
    runs.keep_items(folder, items)
    generate(asked, prompts, folder, recorded)
    execute(folder)
    judge_run(folder, Judging(label_version=0))
    verdicts = {row["item"]: row for row in rows.read(folder / "verdicts.jsonl")}
    assert len(verdicts) == len(items) == 372
    assert {item for item, row in verdicts.items() if not row["recorded"]} == set(KNOWN)
    assert {item for item, row in verdicts.items() if row["structure"] != "equal"} == set(KNOWN)
    assert all(row["difference"] for item, row in verdicts.items() if item in KNOWN)
    published = [item for item, row in verdicts.items() if row["recorded"] and not row["as_published"]]
    assert len(published) == 6  # the absolute tolerance fails 4; the published checker fails 2 against themselves


def test_programs_are_found_in_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's parser fails at random where several threads use it (python/cpython issue 106905)."""
    from trex.data import extraction

    threads, real = set(), extraction.program

    def watched(text: str) -> extraction.Program:
        threads.add(threading.get_ident())
        return real(text)

    monkeypatch.setattr(extraction, "program", watched)
    folder = tmp_path / "run"
    family_run(folder)
    assert execute(folder, Executing(workers=2)) == COUNT * SAMPLES
    assert threads == {threading.get_ident()}
