"""torch.compile for the CPU backends, and what a machine lacks to run it.

Inductor writes C++ that includes Python.h, so it needs a C++ compiler and Python's headers. Compiled code is cached in
Inductor's own folder, shared safely by processes that run at once.
"""

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`function` through torch.compile, for every size at once; the compiler is loaded by the first call."""

    @cache
    def build() -> Callable[P, R]:
        return torch.compile(function, dynamic=True)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return build()(*args, **kwargs)

    return call


@cache
def missing() -> str | None:
    """What torch.compile lacks on this machine, as a phrase; None where it works. Found once per process."""
    return _tool_missing() or _trial()


def _tool_missing() -> str | None:
    compiler = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")  # Inductor's own rule
    if shutil.which(compiler) is None:
        return f"a C++ compiler: {compiler!r} is not found (Debian: apt install g++; or name one in CXX)"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "Python's C headers: Python.h is not found (Debian: apt install python3-dev)"  # recorded: no path
    return None


def _trial() -> str | None:
    try:
        compiled(torch.sin)(torch.zeros(8))
    except Exception as error:  # whatever stops torch.compile (loader, OpenMP, cache folder): the reference still works
        return f"a working torch.compile: {str(error).strip().splitlines()[0]}"
    return None
