"""Backends side by side: interleaved repeats, medians with spread, and the share of the memory bandwidth reached.

The repeats of all backends and of the bandwidth itself alternate, so that what else the machine does meets them alike.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trex.device import Device, Measurement, detect, memory_bandwidth
from trex.kernels import ops
from trex.kernels.cases import Case, work

ELEMENTS_PER_SAMPLE = (
    2**22
)  # small cases are called several times per sample, so that a sample outlasts the clock's grain


@dataclass(frozen=True)
class Timing:
    """One case measured. Mappings are by backend; `speedup` is over the first backend, repeat by repeat."""

    case: Case
    seconds: Mapping[str, Measurement]  # of one call
    speedup: Mapping[str, Measurement]
    bandwidth: Measurement  # of the stream triad, measured in the same repeats
    fraction: Mapping[str, Measurement]  # of that bandwidth, with the case's bytes moved once

    def row(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            **asdict(self.case),
            "bytes": self.case.bytes_moved,
            "seconds": {name: asdict(m) for name, m in self.seconds.items()},
            "speedup": {name: asdict(m) for name, m in self.speedup.items()},
            "bandwidth": asdict(self.bandwidth),
            "fraction": {name: asdict(m) for name, m in self.fraction.items()},
        }


def compare(case: Case, backends: Iterable[str] = ("reference", "cpu"), repeats: int = 5, seed: int = 0) -> Timing:
    """Time the backends on one case; each runs twice before it counts (compilation, first touch of memory).

    Raises KernelError where a backend is not available. On the CPU, call `trex.device.keep_freed_memory()` before, or
    the pages of fresh tensors are measured more than the operators.
    """
    names, device = list(backends), detect("cpu")
    inputs = case.inputs(seed)
    calls = math.ceil(ELEMENTS_PER_SAMPLE / (case.tokens * case.channels))
    tasks = {}
    for name in names:
        with ops.use(name):
            tasks[name] = work(case, inputs)
            for _ in range(2):
                tasks[name]()
    samples: dict[str, list[float]] = {name: [] for name in names}
    stream = []
    for _ in range(repeats):
        for name in names:
            with ops.use(name):
                samples[name].append(_mean_seconds(device, tasks[name], calls))
        stream.append(memory_bandwidth(device, repeats=1).median)
    moved = case.bytes_moved
    first = samples[names[0]]
    return Timing(
        case,
        {name: Measurement.of(samples[name], "s") for name in names},
        {name: Measurement.of([a / b for a, b in zip(first, samples[name], strict=True)], "×") for name in names[1:]},
        Measurement.of(stream, "B/s"),
        {
            name: Measurement.of([moved / s / b for s, b in zip(samples[name], stream, strict=True)], "1")
            for name in names
        },
    )


def _mean_seconds(device: Device, task: Any, calls: int) -> float:
    def repeated() -> None:
        for _ in range(calls):
            task()

    return device.seconds(repeated) / calls
