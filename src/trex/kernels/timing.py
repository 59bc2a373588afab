"""Backends side by side: interleaved repeats, medians with spread, and the share of the memory bandwidth reached.

The repeats of all backends and of the bandwidth itself alternate, so that what else the machine does meets them alike.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trex.device import Device, Measurement, detect, stream_triad
from trex.kernels import ops
from trex.kernels.cases import Case, work

WARM_UP = 3  # calls before those that count: compilation, first use of memory


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
    """Time the backends on one case; each is warmed up first.

    Raises KernelError where a backend is not available. On the CPU, call `trex.device.keep_freed_memory` with
    a reserve before, or the pages of fresh tensors are measured more than the operators.
    """
    names, device = list(backends), detect("cpu")
    inputs = case.inputs(seed)
    calls = calls_per_sample(case)
    tasks = {}
    for name in names:
        with ops.use(name):
            tasks[name] = work(case, inputs)
            for _ in range(WARM_UP):
                tasks[name]()
    triad, triad_bytes = stream_triad(device)
    triad()
    samples: dict[str, list[float]] = {name: [] for name in names}
    stream = []
    for _ in range(repeats):
        for name in names:
            with ops.use(name):
                samples[name].append(_mean_seconds(device, tasks[name], calls))
        stream.append(triad_bytes / device.seconds(triad))
    first, moved = samples[names[0]], case.bytes_moved
    repeated = {name: list(zip(samples[name], first, stream, strict=True)) for name in names}
    return Timing(
        case,
        seconds={name: Measurement.of(samples[name], "s") for name in names},
        speedup={name: Measurement.of([base / s for s, base, _ in repeated[name]], "×") for name in names[1:]},
        bandwidth=Measurement.of(stream, "B/s"),
        fraction={name: Measurement.of([moved / s / rate for s, _, rate in repeated[name]], "1") for name in names},
    )


def calls_per_sample(case: Case) -> int:
    """How often one sample calls the operator: 4 million elements in all, at most 100 times."""
    return min(100, math.ceil(2**22 / (case.tokens * case.channels)))


def _mean_seconds(device: Device, task: Callable[[], Any], calls: int) -> float:
    def repeated() -> None:
        for _ in range(calls):
            task()

    return device.seconds(repeated) / calls
