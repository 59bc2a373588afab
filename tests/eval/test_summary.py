"""What a run's report says: intervals where all agree, what is not judged, failed answers, comparisons."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

from trex.eval import execute, judging, labels, runs, summary
from trex.eval.items import Item
from trex.eval.judge import Judgement
from trex.eval.plan import Plan, sha256, start
from trex.eval.rows import EvaluationError

RIGHT, WRONG, NONE, FAILED, ENDED = "right", "wrong", "not judged", "no answer", "judging ended"


def run(folder: Path, outcomes: Mapping[str, Sequence[str]], items: Sequence[Item] = ()) -> Path:
    """A run's folder in which samples of items have these outcomes."""
    items = items or [Item(name, "nl4opt", f"What is {name}?", 1.0, reference="x") for name in outcomes]
    prompts = {item.id: [{"role": "user", "content": item.question}] for item in items}
    samples = len(next(iter(outcomes.values())))
    plan = Plan.of(items, prompts, interface="pyomo", shots=0, samples=samples, model="m", prompt_version="1")
    runs.keep_items(folder, items, prompts)
    start(folder, plan)
    answers, executions, verdicts = [], [], []
    for item, sample in plan.keys:
        outcome, key = outcomes[item][sample], {"item": item, "sample": sample}
        answers.append({**key, "status": "error" if outcome == FAILED else "ok", "text": "", "error": ""})
        if outcome == FAILED:
            continue
        executed = {"how": "block", "program_sha256": sha256(item), "execution": None, "model": ""}
        executions.append({**key, "status": "ok", **executed})
        if outcome == NONE:
            continue
        good = outcome == RIGHT
        judgement = Judgement(
            correct=good, recorded=good, as_published=good, counted=True, optimum=1.0, solved="optimal", solver="HiGHS",
            structure="equal" if good else "different", difference="", right_value=good,
            failure="" if good else "discrete variables", evidence="" if good else "the optimum is the label then",
            basis="" if good else "values", program="ok", isolation="bubblewrap",
        )  # fmt: skip
        status = "error" if outcome == ENDED else "ok"
        verdicts.append({**key, **vars(judgement), "status": status, "execution_sha256": fingerprint(executions[-1])})
    for name, lines in (("answers", answers), (execute.EXECUTIONS, executions), (judging.VERDICTS, verdicts)):
        path = folder / (name if name.endswith("l") else f"{name}.jsonl")
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / judging.SETTINGS).write_text(json.dumps({"label_version": labels.latest()}))
    return folder


def fingerprint(row: dict[str, Any]) -> str:
    return execute.fingerprint(row)


def test_an_execution_is_known_by_all_but_the_time_it_took() -> None:
    row = {"item": "a", "sample": 1, "status": "ok", "model": "m", "execution": {"status": "ok", "seconds": 1.0}}
    assert fingerprint(row) == fingerprint({**row, "execution": {"status": "ok", "seconds": 2.0}, "item": "b"})
    for changed in ({"model": "n"}, {"execution": None}, {"execution": {"status": "timeout", "seconds": 1.0}}):
        assert fingerprint({**row, **changed}) != fingerprint(row)


@pytest.mark.parametrize(("share", "trials"), [(0.0, 12), (1.0, 12), (1 / 3, 7), (1.0, 1)])
def test_wilsons_bounds_are_the_shares_that_the_test_does_not_reject(share: float, trials: int) -> None:
    low, high = summary.wilson(share, trials)
    assert 0 <= low <= share <= high <= 1 and low < high
    z = NormalDist().inv_cdf(0.975)
    for bound in (low, high):
        if bound not in (0.0, 1.0):
            assert abs(bound - share) == pytest.approx(z * math.sqrt(bound * (1 - bound) / trials))


def test_equal_scores_have_an_interval_of_some_width(tmp_path: Path) -> None:
    found = summary.summarise(run(tmp_path, {f"i{k}": [RIGHT, WRONG] for k in range(10)}))
    scores = found["sets"]["nl4opt"]["scores"]["current"]
    assert scores["pass@2"] == {
        "estimate": 1.0, "low": pytest.approx(10 / (10 + 1.959964**2)), "high": 1.0, "clusters": 10, "method": "wilson",
    }  # fmt: skip
    assert scores["pass@1"]["low"] == pytest.approx(1 - scores["pass@1"]["high"]) and scores["pass@1"]["low"] < 0.3
    lines = summary.text(found)
    assert "100.00 [72.2, 100.0]*" in lines and "Wilson's interval" in lines
    assert "any of 2 100.00" in lines and "the reference:\n  nl4opt        different 10, equal 10" in lines
    mixed = summary.summarise(run(tmp_path / "b", {"a": [RIGHT], "b": [WRONG], "c": [WRONG]}))
    assert mixed["sets"]["nl4opt"]["scores"]["current"]["pass@1"]["method"] == "percentile"
    assert "Wilson" not in summary.text(mixed)


def test_what_is_not_judged_is_said_and_counts_as_wrong(tmp_path: Path) -> None:
    found = summary.summarise(run(tmp_path, {"a": [RIGHT, NONE], "b": [FAILED, ENDED]}))
    assert (found["unanswered"], found["unjudged"], found["judging_ended"], found["judged"]) == (1, 1, 1, 1)
    assert found["sets"]["nl4opt"]["scores"]["current"]["pass@1"]["estimate"] == 0.25
    lines = summary.text(found)
    assert (
        "NOT FULLY JUDGED: 1 answers" in lines and "1 samples have no answer" in lines and "tries them again" in lines
    )
    assert "NOT" not in summary.text(summary.summarise(run(tmp_path / "b", {"a": [RIGHT, WRONG]})))


def test_failed_answers_are_listed_with_evidence(tmp_path: Path) -> None:
    folder = run(tmp_path, {"a": [RIGHT, WRONG], "b": [WRONG, NONE]})
    failed = summary.failed_answers(folder, 5)
    assert [(row["item"], row["sample"]) for row in failed] == [("a", 1), ("b", 0)]
    assert summary.failed_answers(folder, 1) == failed[:1]
    lines = summary.failures_text(failed)
    assert "a, sample 1: discrete variables (by value)\n    the optimum is the" in lines
    assert summary.failures_text([]).startswith("no answer")
    with pytest.raises(EvaluationError, match="failures = 0"):
        summary.failed_answers(folder, 0)


def test_a_verdict_of_an_earlier_execution_counts_no_more(tmp_path: Path) -> None:
    folder = run(tmp_path, {"a": [RIGHT], "b": [RIGHT]})
    path = folder / execute.EXECUTIONS
    path.write_text(path.read_text().replace('"how": "block"', '"how": "script"', 1))
    found = summary.summarise(folder)
    assert (found["judged"], found["unjudged"]) == (1, 1)
    assert found["sets"]["nl4opt"]["scores"]["current"]["pass@1"]["estimate"] == 0.5


def test_only_runs_that_are_judged_are_compared(tmp_path: Path) -> None:
    whole = run(tmp_path / "a", {"a": [RIGHT, WRONG], "b": [WRONG, WRONG], "c": [WRONG, RIGHT]})
    other = run(tmp_path / "b", {"a": [RIGHT, RIGHT], "b": [FAILED, ENDED], "c": [RIGHT, WRONG]})
    found = summary.compare_folders(whole, other)
    assert found["nl4opt"]["estimate"] == pytest.approx(1 / 6) and found["nl4opt"]["items"] == 3
    lines = summary.comparison_text(found, "runs/a", "runs/b").splitlines()
    assert lines[0].startswith("runs/b less runs/a") and "3 items, pass@1 +16.7 points [+0.0, +50.0]" in lines[1]
    second = summary.compare_folders(whole, other, 2)["nl4opt"]
    assert (second["k"], second["estimate"], second["low"], second["method"]) == (2, 0.0, None, "none")
    assert "no interval" in summary.comparison_text({"nl4opt": second})
    with pytest.raises(EvaluationError, match="k = 3; accepted: 1 to 2"):
        summary.compare_folders(whole, other, 3)
    unjudged = run(tmp_path / "c", {"a": [RIGHT, NONE], "b": [NONE, WRONG], "c": [RIGHT, WRONG]})
    for pair in ((whole, unjudged), (unjudged, whole)):
        with pytest.raises(EvaluationError, match="c is not fully judged: 2 answers have no verdict; first: trex eval"):
            summary.compare_folders(*pair)
    lines = (other / "answers.jsonl").read_text().splitlines(keepends=True)
    (other / "answers.jsonl").write_text("".join(lines[:4]))
    with pytest.raises(EvaluationError, match="2 of 6 samples are not asked yet"):
        summary.compare_folders(whole, other)
    (whole / judging.SETTINGS).write_text('{"label_version": 0}')
    with pytest.raises(EvaluationError, match=r"version 0, .* by version \d+; judge one again: trex eval judge .*a --"):
        summary.compare_folders(whole, run(tmp_path / "d", {name: [RIGHT, RIGHT] for name in "abc"}))


def test_disputed_labels_are_told_in_words(tmp_path: Path) -> None:
    entry = {
        decision: next(d for d in labels.changelog() if d.decision == decision) for decision in ("changed", "confirmed")
    }
    disputed = [
        {
            "item": f"{d.set}/{d.row}",
            "recorded": d.recorded,
            "current": d.right,
            "decision": d.decision,
            "reason": d.reason,
        }
        for d in entry.values()
    ] + [{"item": "x/1", "recorded": 2.0, "current": None, "decision": "dropped", "reason": "No answer."}]
    found = {**summary.summarise(run(tmp_path, {"a": [RIGHT]})), "labels": disputed}
    lines = summary.text(found)
    changed = entry["changed"]
    assert f"{changed.set}/{changed.row}: {changed.recorded} as recorded, {changed.right} now." in lines
    assert "x/1: 2.0 as recorded, left out now. No answer." in lines
    confirmed = f"{entry['confirmed'].set}/{entry['confirmed'].row}"
    assert f"disputed, but right as recorded: {confirmed}" in lines and f"{confirmed}: " not in lines
