"""Devices and their measured peaks: counted by hand, by torch's FLOP counter and against numpy; no time is asserted."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from trex.device import (
    BACKENDS,
    KINDS,
    Device,
    DeviceError,
    Measurement,
    cpu_name,
    detect,
    memory_bandwidth,
    of_rank,
    peak_matmul,
    stream_triad,
)

CPU = detect("cpu")


class OneSecond(Device):
    """A CPU on which every piece of work takes one second, so that a rate is the amount of work."""

    def seconds(self, work: object) -> float:
        work()  # type: ignore[operator]
        return 1.0


def test_measurement_summarises_samples() -> None:
    found = Measurement.of([3.0, 1.0, 2.0, 10.0], "s")
    assert found == Measurement(median=2.5, low=1.0, high=10.0, unit="s", repeats=4)
    with pytest.raises(ValueError, match="no samples"):
        Measurement.of([], "s")


def test_cpu_is_always_there_and_unknown_kinds_are_named() -> None:
    assert (CPU.kind, CPU.torch) == ("cpu", torch.device("cpu"))
    assert CPU.name == cpu_name() and f"{torch.get_num_threads()} thread" in CPU.describe()
    with pytest.raises(DeviceError, match=r"'tpu'; accepted: cpu, cuda, npu"):
        detect("tpu")


@pytest.mark.skipif(torch.accelerator.is_available(), reason="has an accelerator")
def test_an_absent_accelerator_is_an_error() -> None:
    with pytest.raises(DeviceError, match="'cuda' was asked for; this machine has only a cpu"):
        detect("cuda")


def test_every_kind_has_its_backend() -> None:
    assert set(BACKENDS) == set(KINDS)
    assert [Device(kind, 0, "test").backend for kind in ("cpu", "cuda", "npu")] == ["gloo", "nccl", "hccl"]
    assert torch.distributed.is_backend_available(CPU.backend)


def test_ranks_share_the_cpu() -> None:
    assert of_rank(0, "cpu") == of_rank(7, "cpu") == CPU
    with pytest.raises(DeviceError, match="local rank -1"):
        of_rank(-1, "cpu")


class Accelerators:
    """What `torch.accelerator` says on a machine with `count` cards."""

    def __init__(self, count: int) -> None:
        self.count, self.current = count, 0

    def is_available(self) -> bool:
        return True

    def current_accelerator(self) -> torch.device:
        return torch.device("cuda")

    def device_count(self) -> int:
        return self.count

    def current_device_index(self) -> int:
        return self.current

    def set_device_index(self, index: int) -> None:
        self.current = index


def test_ranks_take_a_device_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"card {index}")
    monkeypatch.setattr(torch, "accelerator", eight := Accelerators(8))
    assert [of_rank(rank) for rank in (0, 7, 3)] == [Device("cuda", n, f"card {n}") for n in (0, 7, 3)]
    assert eight.current == 3
    with pytest.raises(DeviceError, match="local rank 8 has no device of its own: 8 of kind cuda here"):
        of_rank(8)
    # a launcher that shows each process its own device only
    monkeypatch.setattr(torch, "accelerator", Accelerators(1))
    assert of_rank(5) == Device("cuda", 0, "card 0")


def test_seconds_is_the_wall_clock() -> None:
    start = time.perf_counter()
    inner = CPU.seconds(lambda: time.sleep(0.05))
    assert 0.05 <= inner <= time.perf_counter() - start


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_matmul_flops_are_those_torch_counts(dtype: torch.dtype) -> None:
    with FlopCounterMode(display=False) as counter:
        found = peak_matmul(dtype, OneSecond("cpu", 0, "test"), size=96, repeats=3)
    products = 4  # one before the three that are timed
    assert found == Measurement(2 * 96**3, 2 * 96**3, 2 * 96**3, "FLOP/s", 3)
    assert counter.get_total_flops() == products * found.median


def test_bandwidth_counts_two_reads_and_a_write() -> None:
    found = memory_bandwidth(OneSecond("cpu", 0, "test"), array_bytes=4096, repeats=2)
    assert found == Measurement(3 * 4096, 3 * 4096, 3 * 4096, "B/s", 2)


def test_triad_computes_what_it_says() -> None:
    work, moved = stream_triad(CPU, array_bytes=4000)
    assert moved == 12_000 and torch.equal(work(), torch.full((1000,), 5.0))


def test_peaks_are_possible() -> None:
    """Positive, ordered, and below 8192 FLOP per core and cycle at 6 GHz, or 1 TB/s per core."""
    cores = os.cpu_count() or 1
    for found, bound in (
        (peak_matmul(torch.float32, CPU, size=512, repeats=3), 8192 * 6e9 * cores),
        (memory_bandwidth(CPU, array_bytes=2**25, repeats=3), 1e12 * cores),
    ):
        assert 0 < found.low <= found.median <= found.high < bound


def test_matmul_rate_is_of_numpys_order() -> None:
    """The best of several repeats of each, taken in turns, within a factor of 20: a wrong unit or count is 1000 off."""
    a = np.ones((512, 512), np.float32)
    ours, theirs = [], []
    for _ in range(6):
        ours.append(peak_matmul(torch.float32, CPU, size=512, repeats=2).high)
        theirs.append(2 * 512**3 / CPU.seconds(lambda: a @ a))
    assert 1 / 20 < max(ours) / max(theirs) < 20


KEEP = """
import resource, sys, torch
from trex.device import keep_freed_memory
kept = keep_freed_memory(reserve_bytes=2**28) if "keep" in sys.argv else False
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(16):
    torch.ones(2**24)
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="page faults are counted as Linux does")
def test_kept_memory_is_not_mapped_anew() -> None:
    """16 tensors of 64 MiB, one after the other: without, fresh pages for each; with, those of the reserve."""

    def run(*argv: str) -> tuple[int, int]:
        done = subprocess.run([sys.executable, "-c", KEEP, *argv], capture_output=True, text=True, check=True)
        kept, faults = map(int, done.stdout.split())
        return kept, faults

    (_, without), (kept, with_it) = run(), run("keep")
    if not kept:
        pytest.skip("no mallopt in this C library")
    assert with_it < without / 2
