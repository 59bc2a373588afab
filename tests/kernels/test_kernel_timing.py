"""What is measured and how it is summarised; the benchmark's lines. No time is asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trex import paths
from trex.device import Measurement
from trex.kernels import cases, dispatch, ops, timing
from trex.kernels.accuracy import BOUNDS, errors, normwise
from trex.kernels.cases import DIRECTIONS, Case, gradients, work
from trex.kernels.traffic import eager_traffic


@pytest.mark.parametrize("operator", ["rms_norm", "limited_swiglu"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_bytes_are_those_of_the_tensors(operator: str, weighted: bool, dtype: str) -> None:
    case = Case(operator, dtype, tokens=6, channels=10, weighted=weighted)
    tensors = case.inputs()
    found = gradients(operator, tensors)
    size = {name: t.numel() * t.element_size() for name, t in {**tensors, **found}.items()}
    read = sum(size[name] for name in tensors if name != "g")
    written = sum(size[name] for name in found if name != "y")
    expected = {"forward": read + size["y"], "backward": read + size["g"] + written}
    expected["forward+backward"] = sum(expected.values())
    for direction in DIRECTIONS:
        assert Case(operator, dtype, 6, 10, direction, weighted).bytes_moved == expected[direction]


def test_clamps_bind_in_the_inputs() -> None:
    tensors = Case("limited_swiglu", tokens=200, channels=200).inputs()
    beyond = torch.cat([tensors["gate"] > 10, tensors["up"].abs() > 10]).double().mean().item()
    assert 0.1 < beyond < 0.25  # expected (0.106 + 0.211) / 2 for σ = 8


def test_inputs_repeat_with_their_seed() -> None:
    case = Case("rms_norm", tokens=5, channels=7, weighted=True)
    assert all(torch.equal(a, case.inputs(1)[name]) for name, a in case.inputs(1).items())
    assert not torch.equal(case.inputs(1)["x"], case.inputs(2)["x"])


@pytest.mark.parametrize("operator", ["rms_norm", "limited_swiglu"])
def test_timed_work_computes_the_operator(operator: str) -> None:
    case = Case(operator, "fp32", 6, 10, weighted=True)
    tensors = case.inputs()
    whole = gradients(operator, tensors)
    forward = work(case, tensors)()
    assert torch.equal(forward, whole["y"]) and forward.requires_grad
    backward = work(Case(operator, "fp32", 6, 10, "backward", True), tensors)()
    assert [t.tolist() for t in backward] == [t.tolist() for name, t in whole.items() if name != "y"]
    both = work(Case(operator, "fp32", 6, 10, "forward+backward", True), tensors)()
    assert all(torch.equal(both[name], whole[name]) for name in whole)


@pytest.mark.parametrize("operator", ["rms_norm", "limited_swiglu"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_errors_are_within_bounds_and_rounding_is_seen(backend: str, operator: str, dtype: str) -> None:
    found = errors(Case(operator, dtype, 33, 65, weighted=True), backend)
    assert set(found) == {"y", "dweight"} | ({"dx"} if operator == "rms_norm" else {"dgate", "dup"})
    assert 0 < max(found.values()) <= BOUNDS[dtype]


def test_errors_show_a_wrong_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    def unclamped(gate: torch.Tensor, up: torch.Tensor, limit: float, weight: object) -> torch.Tensor:
        return torch.nn.functional.silu(gate) * up

    changed = {**ops.OPERATORS, "limited_swiglu": {**ops.OPERATORS["limited_swiglu"], "cpu": unclamped}}
    monkeypatch.setattr(dispatch, "OPERATORS", changed)
    lenient = ops.Backend(("cpu",), ops.FLOATS, 0, lambda: None)
    monkeypatch.setattr(dispatch, "BACKENDS", {**ops.BACKENDS, "cpu": lenient})
    found = errors(Case("limited_swiglu", "fp32", 33, 65), "cpu")
    assert min(found.values()) > 0.1


def test_normwise() -> None:
    assert normwise(torch.tensor([3.0, 4.5]), torch.tensor([3.0, 4.0])) == pytest.approx(0.1)
    assert normwise(torch.zeros(0), torch.zeros(0)) == 0 and normwise(torch.zeros(2), torch.zeros(2)) == 0
    assert normwise(torch.ones(2), torch.zeros(2)) == float("inf")


def test_repeats_are_interleaved_and_ratios_are_of_one_repeat(
    compiled_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A made-up clock: eager takes 4, 6, 8 s per sample, compiled 1, 2, 4 s, the triad 1, 2, 4 s."""
    ticks = iter([4.0, 1.0, 1.0, 6.0, 2.0, 2.0, 8.0, 4.0, 4.0])
    monkeypatch.setattr("trex.device.Device.seconds", lambda device, task: next(ticks))
    monkeypatch.setattr(timing, "stream_triad", lambda device: (lambda: None, 1000))
    case = Case("rms_norm", "fp32", 4, 8)
    calls = timing.calls_per_sample(case)
    found = timing.compare(case, ("reference", "cpu"), repeats=3)
    assert found.seconds["reference"] == Measurement(6 / calls, 4 / calls, 8 / calls, "s", 3)
    assert found.speedup == {"cpu": Measurement(3.0, 2.0, 4.0, "×", 3)}
    assert found.bandwidth == Measurement(500.0, 250.0, 1000.0, "B/s", 3)
    moved = 2 * 4 * 8 * 4 * calls  # per sample; over seconds, over the bandwidth of the same repeat
    assert found.fraction["cpu"].median == pytest.approx(moved / 1000)
    assert found.fraction["reference"].high == pytest.approx(moved / 8 / 250)


def test_small_cases_are_called_more_often() -> None:
    assert [timing.calls_per_sample(Case("rms_norm", tokens=n, channels=1024)) for n in (1, 1024, 8192)] == [100, 4, 1]


def test_unknown_case_is_named() -> None:
    with pytest.raises(ops.KernelError, match=r"dtype 'fp8'; accepted: fp32, bf16"):
        Case("rms_norm", dtype="fp8")


def test_operator_without_a_case_is_named() -> None:
    """`rope` is an operator, `softmax` is none: neither has a case, and both are told which have."""
    accepted = r"accepted: rms_norm, limited_swiglu \(.* in kernels/cases\.py\)"
    for operator in ("rope", "softmax"):
        with pytest.raises(ops.KernelError, match=f"operator '{operator}' has no case; {accepted}"):
            Case(operator)
        with pytest.raises(ops.KernelError, match=f"operator '{operator}' has no case; {accepted}"):
            cases.apply(operator, {"gate": torch.ones(2, 2), "up": torch.ones(2, 2)})


def test_every_operator_that_has_a_case_can_be_run() -> None:
    assert set(cases.OPERATORS) <= set(ops.OPERATORS)
    for operator in cases.OPERATORS:
        assert errors(Case(operator, "fp32", 3, 5), "reference")["y"] <= BOUNDS["fp32"]


@pytest.mark.slow
def test_benchmark_writes_one_line_per_case(compiled_backend: str, tmp_path: Path) -> None:
    output = tmp_path / "deep" / "kernels.jsonl"
    arguments = [
        "--repeats",
        "2",
        "--shapes",
        "8",
        "16",
        "--dtypes",
        "fp32",
        "--directions",
        "forward",
        "--no-keep-memory",
    ]
    done = subprocess.run(
        [sys.executable, "bench/kernels.py", "--output", str(output), *arguments],
        cwd=paths.CHECKOUT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["operator"] for line in lines] == list(cases.OPERATORS) == ["rms_norm", "limited_swiglu"]
    for line in lines:
        assert (line["tokens"], line["channels"], line["dtype"], line["direction"]) == (8, 16, "fp32", "forward")
        assert set(line["seconds"]) == {"reference", "cpu"} and set(line["speedup"]) == {"cpu"}
        for m in (*line["seconds"].values(), *line["fraction"].values(), line["speedup"]["cpu"], line["bandwidth"]):
            assert m["repeats"] == 2 and 0 < m["low"] <= m["median"] <= m["high"]
        assert line["provenance"]["label"] == "measured" and line["provenance"]["parameters"]["repeats"] == 2


def test_eager_traffic_is_that_of_the_steps_counted_by_hand() -> None:
    """Bytes per element in bfloat16, plus those of one float32 per row, for the steps the reference writes down."""
    rows, channels = 6, 10
    # to 2+4, square 4+4, mean 4, times r 4+4, to 4+2; per row: mean 4, + eps 4+4, rsqrt 4+4, r 4
    norm = rows * channels * (6 + 8 + 4 + 8 + 6) + rows * (4 + 8 + 8 + 4)
    assert eager_traffic(Case("rms_norm", "bf16", rows, channels)) == (7, norm)
    # twice to 2+4, twice clamp 4+4, silu 4+4, product 8+4, to 4+2
    swiglu = rows * channels * (12 + 16 + 8 + 12 + 6)
    assert eager_traffic(Case("limited_swiglu", "bf16", rows, channels)) == (7, swiglu)
    # times the weight: one more product, whose other factor is one float32 per row
    assert eager_traffic(Case("limited_swiglu", "bf16", rows, channels, weighted=True)) == (
        8,
        swiglu + rows * channels * 8 + rows * 4,
    )
