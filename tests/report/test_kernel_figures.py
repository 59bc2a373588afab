"""Figures of the operators show the numbers they are given."""

import pytest

from trex.device import Measurement
from trex.kernels.cases import Case
from trex.kernels.timing import Timing
from trex.report.kernels import bandwidth_fractions, speedups

GAIN = Measurement(4.0, 3.0, 6.0, "×", 5)


def test_speedups_has_one_series_per_footing_and_skips_what_is_missing() -> None:
    figure = speedups({"a": 11.9}, {"a": 8.0, "b": 9.0}, {"b": GAIN}, "a CPU")
    bars = {trace.name: trace for trace in figure.data if trace.type == "bar"}
    published, modelled, measured = bars.values()
    assert "(published)" in published.name and "(modelled)" in modelled.name and "a CPU" in measured.name
    assert list(published.y) == [11.9] and list(modelled.y) == [8.0, 9.0] and list(measured.y) == [4.0]
    assert list(measured.error_y.array) == [2.0] and list(measured.error_y.arrayminus) == [1.0]
    assert round(modelled.x[0]) == round(published.x[0]) == 0 and round(measured.x[0]) == round(modelled.x[1]) == 1
    assert [list(trace.text) for trace in figure.data if trace.type == "scatter"] == [["11.9"], ["8", "9"], ["4"]]


def test_speedups_without_a_measurement() -> None:
    figure = speedups({"a": 11.9}, {"a": 8.0}, {}, "a CPU")
    assert [trace.name for trace in figure.data if trace.type == "bar"] == [
        "Ascend 910C, AuraKernel over its baseline (published)",
        "any memory-bound device, perfect fusion over eager (modelled)",
    ]


def test_fractions_are_percent_of_the_bandwidth() -> None:
    half, most = (Measurement(m, m - 0.1, m + 0.1, "1", 5) for m in (0.5, 0.9))
    timing = Timing(Case("rms_norm"), {}, {"cpu": GAIN}, GAIN, {"reference": half, "cpu": most})
    figure = bandwidth_fractions({"RMSNorm, forward": timing}, {"reference": "eager", "cpu": "compiled"})
    bars = {trace.name: trace.y[0] for trace in figure.data if trace.type == "bar"}
    assert bars == {"eager": pytest.approx(50), "compiled": pytest.approx(90)}
