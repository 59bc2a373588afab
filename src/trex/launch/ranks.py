"""Run a function on several ranks of a process group on this machine, from a notebook cell, a script or a test.

Example:
    def total(rank, x):
        value = torch.tensor(x + rank)
        torch.distributed.all_reduce(value)
        return value

    ranks.run(total, 4, 10)  # [tensor(46), tensor(46), tensor(46), tensor(46)]
"""

import contextlib
import json
import linecache
import os
import signal
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import torch

from trex import device
from trex.launch.forkserver import Child, Forkserver, ForkserverError, ended
from trex.launch.worker import save

BACKENDS = tuple(device.BACKENDS.values())
# slow to import and harmless to share: loaded once by the fork server when the caller has them
PRELOAD = (
    "torch._dynamo",  # which every optimizer imports
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor",
)
GRACE_S = 0.3  # for other failures to arrive after the first: the cause may be among them
MAX_TIMEOUT_S = 1e6  # seconds, 11 days: what every wait below can still hold
ABORT_S = 3.0  # for a rank that ran out of time to write where it is
TAIL_LINES = 12  # of a rank's stderr in an error
_PICKLING = threading.Lock()  # what cloudpickle sends by value is a setting of the process


class RanksError(ValueError):
    """A rank failed, was killed, ran out of time, or could not be started; `rank` is the one to look at, or None."""

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__(message)
        self.rank = rank


def run(
    fn: Callable[..., Any], world: int, *args: Any, timeout_s: float = 300, backend: str = "gloo", threads: int = 1
) -> list[Any]:
    """Call `fn(rank, *args)` on `world` ranks with torch.distributed initialised; return the results, by rank.

    Each rank is a fresh process with `threads` torch threads; they talk over the loopback interface. `fn` may be a
    function of a notebook cell or a closure; arguments and results are pickled, tensors arrive on the CPU. What the
    ranks print is shown in the order of ranks when all have ended; what they write to stderr is shown only when one
    fails. The first call of a process takes seconds (torch is loaded once for all later ranks), the next ones tenths
    of a second.

    Raises RanksError when a rank raises (with its traceback; the other ranks are ended), is killed by a signal, or has
    not finished `timeout_s` seconds after the start (with where it was); when `fn`, an argument or a result cannot be
    pickled, or `sys.path` cannot be sent; for a bad `world`, `timeout_s`, `backend` or `threads`. No process is left
    behind, whatever the outcome, Ctrl-C included, except those that started a session or process group of their own.
    """
    _check(fn, world, timeout_s, backend, threads)
    with tempfile.TemporaryDirectory(prefix="trex-ranks-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        settings = {"world": world, "timeout_s": timeout_s, "backend": backend, "threads": threads}
        _write_job(folder, fn, args, settings)
        codes = _execute(folder, world, timeout_s)
        for rank in range(world):
            _show_output(folder, rank)
        _raise_failure(folder, world, codes, timeout_s)
        return [_load_result(folder, rank) for rank in range(world)]


def _check(fn: Callable[..., Any], world: int, timeout_s: float, backend: str, threads: int) -> None:
    if not callable(fn):
        raise RanksError(f"fn is a {type(fn).__name__}: a function fn(rank, *args) is accepted")
    for name, value in (("world", world), ("threads", threads)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise RanksError(f"{name} {value!r}; accepted: whole numbers from 1 on")
    number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not number or not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise RanksError(f"timeout_s {timeout_s!r}; accepted: seconds above 0, at most {MAX_TIMEOUT_S:.0f}")
    if backend not in BACKENDS:
        raise RanksError(f"backend {backend!r}; accepted: {', '.join(BACKENDS)}")


@cache
def _server(pid: int) -> Forkserver:
    """The one fork server of process `pid`; a forked copy of this process starts its own."""
    return Forkserver()


def _live_server() -> Forkserver:
    if not _server(os.getpid()).alive():
        _server.cache_clear()
    return _server(os.getpid())


def _write_job(folder: Path, fn: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> None:
    """What every rank reads: settings and surroundings as JSON, `fn` and `args` pickled."""
    cells = {name: entry[2] for name, entry in linecache.cache.items() if len(entry) == 4 and not os.path.exists(name)}
    try:
        path = [os.fspath(entry) for entry in sys.path]
        surroundings = {"environ": dict(os.environ), "folder": os.getcwd(), "path": path}
        job = {**settings, **surroundings, "sources": cells}  # sources: so that a rank's traceback shows lines of cells
        (folder / "job.json").write_text(json.dumps(job))
    except (TypeError, ValueError, OSError) as error:
        raise RanksError(f"the environment, folder or sys.path cannot be sent to ranks: {_line(error)}") from None
    try:
        with _by_value(fn):
            save((fn, args), folder / "call.pt")
    except Exception as error:
        raise RanksError(f"the function or its arguments cannot be sent to ranks: {_line(error)}") from None


@contextlib.contextmanager
def _by_value(fn: Callable[..., Any]) -> Iterator[None]:
    """Functions of installed packages travel by name, others (cells, scripts, tests) by value: no rank imports them."""
    inner = fn.func if isinstance(fn, partial) else fn
    module = sys.modules.get(getattr(inner, "__module__", None) or "__main__")
    with _PICKLING:
        if module is None or _installed(module) or module.__name__ in cloudpickle.list_registry_pickle_by_value():
            yield
            return
        cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def _installed(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    folders = [sysconfig.get_path(key) for key in ("stdlib", "purelib", "platlib")] + [Path(__file__).parents[1]]
    return file is None or any(Path(file).is_relative_to(folder) for folder in folders)


def _execute(folder: Path, world: int, timeout_s: float) -> dict[int, int]:
    """Start all ranks; wait until all have ended, one has failed, or time is up. Exit codes of those that ended."""
    preload = [name for name in PRELOAD if name in sys.modules]
    running: dict[Child, int] = {}
    codes: dict[int, int] = {}
    server = _live_server()
    try:
        for rank in range(world):
            running[server.fork("trex.launch.worker:work", [str(folder), rank], preload)] = rank
        _collect(folder, running, codes, time.monotonic() + timeout_s)
        if all(_finished(folder, rank) for rank in codes):
            _abort(folder, running)
    except ForkserverError as error:
        server.close()  # so that the next run finds it dead and starts another
        raise RanksError(str(error)) from None
    finally:
        for child in running:
            child.kill()
        for child in running:
            with contextlib.suppress(ForkserverError):
                child.exit_code()
    return codes


def _collect(folder: Path, running: dict[Child, int], codes: dict[int, int], deadline: float) -> None:
    """Move ranks that end from `running` to `codes`, until the deadline or shortly after the first failure."""
    while running:
        ready = ended(running, deadline - time.monotonic())
        if not ready:
            return
        for child in ready:
            codes[running[child]] = child.exit_code()
            del running[child]
        if not all(_finished(folder, rank) for rank in codes):
            deadline = min(deadline, time.monotonic() + GRACE_S)


def _finished(folder: Path, rank: int) -> bool:
    return (folder / f"result.{rank}").exists() and not (folder / f"error.{rank}").exists()


def _abort(folder: Path, running: dict[Child, int]) -> None:
    """Have the ranks that ran out of time write where they are, to their stderr."""
    late = [child for child, rank in running.items() if not _finished(folder, rank)]
    for child in late:
        child.abort()
    deadline = time.monotonic() + ABORT_S
    while late and (ready := ended(late, deadline - time.monotonic())):
        for child in ready:
            child.exit_code()
            late.remove(child)
            del running[child]


def _show_output(folder: Path, rank: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / f"stdout.{rank}").read_text(errors="replace").splitlines():
            print(f"[rank {rank}] {line}")


def _raise_failure(folder: Path, world: int, codes: dict[int, int], timeout_s: float) -> None:
    """Raise RanksError for the rank that failed first, naming the others that failed with it."""
    raised = sorted(json.loads(path.read_text()) for path in folder.glob("error.*"))  # [time, rank, traceback]
    # ranks that were killed or left come first: that the others lose their connection to them is the consequence
    told = {rank for _, rank, _ in raised}
    found = {}
    for rank, code in sorted(codes.items(), key=lambda item: item[1] >= 0):
        if code < 0:
            found[rank] = f"was killed by {_signal(-code)}" + _stderr(folder, rank)
        elif rank not in told and not _finished(folder, rank):
            found[rank] = f"ended with exit code {code} and no result" + _stderr(folder, rank)
    found |= {rank: f"failed:\n{text}" for _, rank, text in raised}
    if found:
        (rank, text), *others = found.items()
        then = "".join(f"\nthen rank {other}: {more.rstrip().splitlines()[-1]}" for other, more in others)
        raise RanksError(f"rank {rank} of {world} {text}{then}", rank)
    late = [rank for rank in range(world) if not _finished(folder, rank)]
    if late:
        names = ", ".join(map(str, late))
        places = "".join(f"\nrank {rank} was here{_stderr(folder, rank)}" for rank in late)
        raise RanksError(f"not finished after {timeout_s:g} s: rank {names} of {world}{places}", late[0])


def _signal(number: int) -> str:
    name = {member.value: member.name for member in signal.Signals}.get(number, f"signal {number}")
    return f"{name} (from outside, or by the system when memory ran out)" if name == "SIGKILL" else name


def _stderr(folder: Path, rank: int) -> str:
    """The last lines of a rank's stderr; of stacks that faulthandler wrote, the innermost calls of the main thread."""
    path = folder / f"stderr.{rank}"
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    stacks = [index for index, line in enumerate(lines) if "(most recent call first)" in line]
    if stacks:
        lines = list(takewhile(lambda line: line and "trex/launch/worker.py" not in line, lines[stacks[-1] :]))
        lines = lines[:TAIL_LINES]
    return ":\n" + "\n".join(lines[-TAIL_LINES:]) if lines else ""


def _load_result(folder: Path, rank: int) -> Any:
    try:
        return torch.load(folder / f"result.{rank}", map_location="cpu", weights_only=False)
    except Exception as error:
        raise RanksError(f"the result of rank {rank} cannot be read by its caller: {_line(error)}", rank) from None


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
