"""The headline figures show the published numbers, to scale, with their labels."""

from typing import Any

import pytest

from trex.published import load
from trex.report import paper


def bars(figure: Any) -> list[Any]:
    return [trace for trace in figure.data if trace.type == "bar"]


def words(figure: Any) -> str:
    return " ".join(annotation.text for annotation in figure.layout.annotations)


def test_ladder_bars_add_up_to_the_published_mfu() -> None:
    figure = paper.mfu_ladder(load("mfu_ladder"))
    before, gain, steps = bars(figure)
    assert [b + g for b, g in zip(before.y, gain.y, strict=True)] == pytest.approx([11.67, 25.80, 27.00, 34.22])
    assert [round(step, 1) for step in steps.y] == [78.1, 35.3, 33.7, 26.6]
    assert "2.93 ×" in figure.layout.title.text
    for text in ("published + derived", "11.67 %", "25.80 %", "27.00 %", "34.22 %", "+14.13", "+1.20", "+7.22"):
        assert text in words(figure)


def test_score_bars_are_the_published_scores() -> None:
    figure = paper.or_scores(load("or_scores"))
    base, sft, trex, averages = bars(figure)
    assert list(base.y) == [84.08, 63.33, 60.47, 34.26]
    assert list(sft.y) == [86.93, 64.17, 65.93, 48.73]
    assert list(trex.y) == [89.52, 67.12, 71.22, 59.39]
    assert dict(zip(averages.y, averages.x, strict=True)) == {
        "GLM-5.2": 56.60, "DeepSeek-V4-Flash": 60.54, "Mimo-v2.5-Pro": 62.51, "Kimi-K2.6": 64.59, "Flash + SFT": 66.44,
        "Gemini-3-Flash": 66.82, "GPT-5.4-Mini": 67.83, "SLAI T-Rex": 71.81,
    }  # fmt: skip
    assert list(averages.x) == sorted(averages.x)
    assert "<b>published</b>" in words(figure)


def test_axes_begin_at_zero_so_that_bars_are_to_scale() -> None:
    for figure in (paper.mfu_ladder(load("mfu_ladder")), paper.or_scores(load("or_scores"))):
        ranges = [axis.range for axis in (*figure.select_yaxes(), *figure.select_xaxes()) if axis.range]
        assert len(ranges) == 2 and all(low == 0 for low, _ in ranges)


def test_text_table_marks_derived_and_missing_numbers() -> None:
    text = paper.text_table(load("mfu_ladder"), {"mfu": ".2f", "step_s": ".1f"})
    assert text.splitlines()[0].split() == ["mfu", "step", "s"]
    assert text.splitlines()[4] == "Kernel optimization      34.22 %  26.6 s*"
    other = paper.text_table(load("or_scores").where(family="other")[:1], {"nl4opt": ".2f", "average": ".2f"})
    assert other.splitlines()[1].split() == ["GPT-5.4-Mini", "–", "67.83", "%"]
