"""CPU, CUDA and NPU behind one small interface: the only file that names a device API.

(The kernels' own `npu.py` and `triton.py` files are the exception.)
"""

import ctypes
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

KINDS = ("cpu", "cuda", "npu")
BACKENDS = {"cpu": "gloo", "cuda": "nccl", "npu": "hccl"}  # of torch.distributed, for tensors on each kind


class DeviceError(ValueError):
    """A device that this machine does not have."""


@dataclass(frozen=True)
class Measurement:
    """Median of repeats with the smallest and largest."""

    median: float
    low: float
    high: float
    unit: str
    repeats: int

    @classmethod
    def of(cls, samples: list[float], unit: str) -> "Measurement":
        """Summarise samples; raises ValueError for none."""
        if not samples:
            raise ValueError("no samples to summarise")
        return cls(statistics.median(samples), min(samples), max(samples), unit, len(samples))


@dataclass(frozen=True)
class Device:
    """One device: `kind` (cpu, cuda, npu), its index among its kind, and its marketed name."""

    kind: str
    index: int
    name: str

    @property
    def torch(self) -> torch.device:
        """The device as torch names it."""
        return torch.device("cpu") if self.kind == "cpu" else torch.device(self.kind, self.index)

    @property
    def backend(self) -> str:
        """The backend of torch.distributed for tensors on the device: gloo, nccl or hccl."""
        return BACKENDS[self.kind]

    def describe(self) -> str:
        """Kind, name and, for the CPU, threads: what a provenance block records."""
        if self.kind != "cpu":
            return f"{self.kind}: {self.name}"
        threads = torch.get_num_threads()
        return f"{self.kind}: {self.name}, {threads} thread{'s' if threads > 1 else ''}"

    def synchronize(self) -> None:
        """Wait for the work queued on the device; nothing to wait for on the CPU."""
        if self.kind != "cpu":
            torch.accelerator.synchronize(self.torch)

    def seconds(self, work: Callable[[], object]) -> float:
        """Wall-clock seconds of one call of `work`, queued work included."""
        self.synchronize()
        start = time.perf_counter()
        work()
        self.synchronize()
        return time.perf_counter() - start


def detect(prefer: str | None = None) -> Device:
    """The accelerator of this machine, else its CPU; `prefer` asks for one kind.

    Raises DeviceError when `prefer` is unknown or the machine has none of that kind.
    """
    if prefer is not None and prefer not in KINDS:
        raise DeviceError(f"device {prefer!r}; accepted: {', '.join(KINDS)}")
    if prefer == "cpu":
        return Device("cpu", 0, cpu_name())
    if prefer in (None, "npu"):
        _load_npu()
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if found is not None and found.type in KINDS and prefer in (None, found.type):
        index = torch.accelerator.current_device_index()
        return Device(found.type, index, getattr(torch, found.type).get_device_name(index))
    if prefer is not None:
        raise DeviceError(f"device {prefer!r} was asked for; this machine has {found.type if found else 'only a cpu'}")
    return Device("cpu", 0, cpu_name())


def of_rank(local_rank: int, prefer: str | None = None) -> Device:
    """The device of a node's process number `local_rank`, made current; all processes share the one CPU.

    Where a process sees one accelerator only, that one was given to it. Raises DeviceError as `detect` does, and when
    the node has fewer accelerators.
    """
    if local_rank < 0:
        raise DeviceError(f"local rank {local_rank}; accepted: from 0 on")
    found = detect(prefer)
    if found.kind == "cpu":
        return found
    count = torch.accelerator.device_count()
    index = 0 if count == 1 else local_rank
    if index >= count:
        raise DeviceError(f"local rank {local_rank} has no device of its own: {count} of kind {found.kind} here")
    torch.accelerator.set_device_index(index)
    return detect(found.kind)


def peak_matmul(
    dtype: torch.dtype = torch.bfloat16, device: Device | None = None, size: int | None = None, repeats: int = 5
) -> Measurement:
    """Rate of a square matrix product in FLOP/s, 2·size³ each: what the matrix units give to the best customer.

    dtype: of both factors and the product. size: 2048 on a CPU, 8192 on an accelerator unless given.
    """
    place = device or detect()
    n = size or (2048 if place.kind == "cpu" else 8192)
    left, right = (torch.randn(n, n, device=place.torch).to(dtype) for _ in range(2))
    product = torch.empty_like(left)
    return _rate(place, lambda: torch.mm(left, right, out=product), 2 * n**3, "FLOP/s", repeats)


def memory_bandwidth(device: Device | None = None, array_bytes: int | None = None, repeats: int = 5) -> Measurement:
    """Rate of the stream triad in B/s, counting both inputs read once and the output written once.

    A CPU also reads the output's cache lines before it writes them; that traffic is not counted.
    """
    place = device or detect()
    work, moved = stream_triad(place, array_bytes)
    return _rate(place, work, moved, "B/s", repeats)


def stream_triad(device: Device, array_bytes: int | None = None) -> tuple[Callable[[], torch.Tensor], int]:
    """The work c = a + 2·b in float32, ready to be timed, and the bytes it moves.

    array_bytes: of each of the three arrays, well beyond the caches: 128 MiB on a CPU, 1 GiB on an accelerator unless
    given. The work returns c.
    """
    n = (array_bytes or (2**27 if device.kind == "cpu" else 2**30)) // 4
    a, b, c = (torch.full((n,), value, device=device.torch) for value in (1.0, 2.0, 0.0))
    return lambda: torch.add(a, b, alpha=2.0, out=c), 3 * n * 4


def keep_freed_memory(reserve_bytes: int = 0) -> bool:
    """Let this process keep freed host memory for its next tensors, as accelerators' caching allocators do.

    glibc returns large blocks to the operating system, and every new tensor then pays for fresh, zeroed pages: more
    than for an elementwise operator itself. reserve_bytes: touched and freed at once, for a heap that need not grow
    later. Holds until the process ends. False where the C library has no `mallopt`.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return False
    trim_threshold, mmap_threshold = -1, -3  # parameter numbers of <malloc.h>
    kept = bool(mallopt(mmap_threshold, 2**30) and mallopt(trim_threshold, 2**31 - 1))
    block = 2**28  # bytes, below the threshold from which blocks are mapped on their own
    reserved = [torch.ones(block // 4) for _ in range(reserve_bytes // block)]
    reserved.clear()
    return kept


def _rate(device: Device, work: Callable[[], object], amount: float, unit: str, repeats: int) -> Measurement:
    """`amount` per second of `work`, which runs once before it is timed."""
    work()
    return Measurement.of([amount / device.seconds(work) for _ in range(repeats)], unit)


def cpu_name() -> str:
    """The processor's name as Linux gives it, else the machine type."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith(("model name", "Hardware"))]
    return names[0] if names else platform.machine()


def _load_npu() -> None:
    """Register Ascend NPUs with torch where torch_npu and CANN are installed."""
    try:
        import torch_npu  # noqa: F401
    except ImportError:  # not installed, or installed without CANN's libraries
        return
