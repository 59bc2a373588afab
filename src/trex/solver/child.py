"""A call in a child process with an address space of its own size, which cannot outlive its time."""

import importlib
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

MEGABYTE = 2**20
LARGEST = 2.0**62  # bytes
START_S = 60.0  # for the child's start and imports, and for a solver that looks at the clock rarely
DIED = {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGKILL}  # what an allocation that fails leads to
PROGRAM = "from trex.solver.child import answer; answer()"


def call(
    function: Callable[..., Any], arguments: tuple, memory_mb: float, seconds: float
) -> tuple[Any, tuple[str, str]]:
    """function(*arguments) with `memory_mb` megabytes beyond what the imports take, within so many seconds.

    Returns the result, or None and why there is none: a status and a message. The function is named by its module.
    """
    job = pickle.dumps((function.__module__, function.__name__, arguments, memory_mb))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PROGRAM]
    try:
        done = subprocess.run(command, input=job, capture_output=True, timeout=seconds + START_S, env=environment)
    except subprocess.TimeoutExpired:
        return None, ("time_limit", f"stopped after {seconds:g} s, without a point")
    if done.returncode == 0 and done.stdout:
        result = pickle.loads(done.stdout)  # our own child's
        if not isinstance(result, MemoryError):
            return result, ("", "")
    elif done.returncode not in DIED and b"MemoryError" not in done.stderr and b"bad_alloc" not in done.stderr:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return None, ("error", f"the solver's process ended with {done.returncode}: {' '.join(last)}")
    return None, ("memory_limit", f"stopped at {memory_mb:g} MB, without a point")


def answer() -> None:
    """In the child: read the job, limit the memory, call, and write the result to what was standard output."""
    output = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints is not the result
    module, name, arguments, memory_mb = pickle.loads(sys.stdin.buffer.read())
    function = getattr(importlib.import_module(module), name)
    import pyscipopt  # noqa: F401  # not to be counted

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limit = int(min(used + memory_mb * MEGABYTE, LARGEST))
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        result = function(*arguments)
    except MemoryError as error:
        result = MemoryError(str(error))
    with os.fdopen(output, "wb") as file_out:
        file_out.write(pickle.dumps(result))
