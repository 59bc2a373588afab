"""A machine without compiler or Python headers: clear errors, automatic fall-back; caches shared by processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trex.kernels import compiler

WITHOUT = """
import torch
from trex.kernels import ops
x = torch.randn(1024, 1024)
assert ops.choose("rms_norm", x) == "reference"
torch.testing.assert_close(ops.rms_norm(x), torch.nn.functional.rms_norm(x, (1024,), None, 1e-6))
try:
    with ops.use("cpu"):
        ops.rms_norm(x)
except ops.KernelError as error:
    print(error)
"""

TOGETHER = """
import hashlib, torch
from trex.kernels import compiler, ops
assert compiler.missing() is None, compiler.missing()
x = torch.randn(64, 256, generator=torch.Generator().manual_seed(1)).requires_grad_()
with ops.use("cpu"):
    y = ops.rms_norm(x)
y.square().sum().backward()
print(hashlib.sha256(y.detach().numpy().tobytes() + x.grad.numpy().tobytes()).hexdigest())
"""


def start(code: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.strip()


def test_without_compiler_the_choice_falls_back_and_force_says_what_is_missing(tmp_path: Path) -> None:
    said = output(start(WITHOUT, CXX=str(tmp_path / "no-such-g++"), TREX_KERNELS=""))
    assert said.startswith("rms_norm: backend 'cpu' is not available; missing: a C++ compiler: ")
    assert "no-such-g++' is not found" in said


def test_without_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", sys.executable)  # any program will do: the headers are looked for next
    monkeypatch.setattr(compiler.sysconfig, "get_path", lambda name: str(tmp_path))
    found = compiler._tool_missing()
    assert found == "Python's C headers: Python.h is not found (Debian: apt install python3-dev)"
    (tmp_path / "Python.h").touch()
    assert compiler._tool_missing() is None


@pytest.mark.slow
def test_a_compiler_that_fails_is_reported(tmp_path: Path) -> None:
    said = output(start(WITHOUT, CXX="/bin/false", TORCHINDUCTOR_CACHE_DIR=str(tmp_path), TREX_KERNELS=""))
    assert "missing: a working torch.compile: " in said and "/bin/false" in said


@pytest.mark.slow
def test_two_processes_compile_into_one_empty_cache(compiled_backend: str, tmp_path: Path) -> None:
    both = [start(TOGETHER, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    first, second = (output(process) for process in both)
    assert len(first) == 64 and first == second
