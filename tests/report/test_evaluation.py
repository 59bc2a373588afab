"""Figures of judged answers show the numbers that they are given."""

import pytest

from trex.report import evaluation


def value(estimate: float) -> dict:
    return {"pass@1": {"estimate": estimate, "low": estimate - 0.1, "high": estimate + 0.05}, "items": 7}


def test_scores_have_a_point_and_an_interval_for_each_way_of_counting() -> None:
    summary = {
        "sets": {"a": {"scores": {"current": value(0.5), "recorded": value(0.4)}},
                 "b": {"scores": {"current": {"items": 0}, "recorded": value(0.2)}}}
    }  # fmt: skip
    current, recorded = evaluation.scores(summary).data
    assert (current.name, list(current.x), list(current.y)) == ("current", [50.0], ["a"])
    assert (list(recorded.x), list(recorded.y)) == ([40.0, 20.0], ["a", "b"])
    assert list(recorded.error_x.arrayminus) == pytest.approx([10.0, 10.0])
    assert list(recorded.error_x.array) == pytest.approx([5.0, 5.0])


def test_confusion_counts_pairs_and_leaves_out_classes_that_do_not_occur() -> None:
    pairs = [("x", "x"), ("x", "x"), ("y", "x"), ("y", "z")]
    (cells,) = evaluation.confusion(pairs, ("w", "x", "y", "z")).data
    assert (list(cells.y), list(cells.x)) == (["x", "y"], ["x", "z"])
    assert [list(row) for row in cells.z] == [[2, 0], [1, 1]]


def test_bars_and_boxes_hold_what_they_count() -> None:
    (bars,) = evaluation.failures({"execution": 3, "structural": 1}).data
    assert (list(bars.y), list(bars.x)) == (["execution", "structural"], [3, 1])
    ok, error = evaluation.attacks([("files", "ok"), ("files", "ok"), ("share", "error")]).data
    assert (list(ok.x), list(error.x), list(ok.y)) == ([2, 0], [0, 1], ["files", "share"])
    (box,) = evaluation.job_seconds({"sandbox": [0.03, 0.05]}).data
    assert list(box.x) == [30.0, 50.0]
