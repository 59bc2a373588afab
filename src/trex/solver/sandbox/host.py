"""The trusted side: starts the server in its confinement, hands it programs, and takes nothing it says on trust."""

import base64
import contextlib
import json
import math
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import IO, Any, Self

from trex.solver import wire
from trex.solver.model import Model, ModelError
from trex.solver.sandbox import confinement, frames, job
from trex.solver.sandbox.execution import (
    KEPT,
    LEVELS,
    LONGEST,
    Execution,
    Limits,
    SandboxError,
    accepted_files,
)

START_S = 60.0  # for the server's imports
GRACE_S = 20.0  # beyond a job's time, until a server that does not answer is ended
ANSWER = 2**24  # bytes
WORDS = 2000  # characters of a message
GUROBI = ("recorder", "gurobi", "")
PROBE = """
import os, socket
for path in ("/etc/passwd", "/proc/1/environ", "/proc/self/environ"):
    try:
        open(path).close()
    except OSError:
        continue
    raise SystemExit(f"{path} can be read")
for attempt in (lambda: socket.socket(), lambda: os.execv("/proc/self/exe", ["x"]), lambda: open("/planted", "w"),
                lambda: os.kill(os.getppid(), 0) if os.getppid() > 1 else os.kill(0x7FFFFFF0, 0)):
    try:
        attempt()
    except OSError:
        continue
    raise SystemExit("the confinement does not hold")
"""


class Sandbox:
    """A server that runs one program after the other, to be used in a `with` statement and by one thread at a time.

    level: one of LEVELS, or None for the strongest that works here. Level "none" confines nothing; it is taken only
    where `unsafe` is true and nothing else works, or where it is named. gurobi: what programs get when they import
    gurobipy: "recorder" (`trex.solver.recorder`), "gurobi" (the real one), or "" (nothing).
    Raises SandboxError for an unknown level, and where no level works, with the reasons.
    """

    def __init__(self, level: str | None = None, unsafe: bool = False, gurobi: str = "recorder") -> None:
        if level is not None and level not in LEVELS:
            raise SandboxError(f"level {level!r}; accepted: {', '.join(LEVELS)}")
        if gurobi not in GUROBI:
            raise SandboxError(f"gurobi = {gurobi!r}; accepted: {', '.join(map(repr, GUROBI))}")
        if level == "none" and not unsafe:
            raise SandboxError("level 'none' confines nothing; accepted: together with unsafe=True (--unsafe)")
        self._gurobi, self._number = gurobi, 0
        self._server: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        levels = (level,) if level else LEVELS if unsafe else LEVELS[:-1]
        reasons = []
        for name in levels:
            self.level = name
            try:
                self._start()
                self._probe()
                return
            except SandboxError as error:
                reasons.append(f"{name}: {error}")
                self.close()
        raise SandboxError(f"no sandbox works here ({'; '.join(reasons)}); --unsafe runs programs without one")

    def __enter__(self) -> Self:
        """The sandbox itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the server."""
        self.close()

    def close(self) -> None:
        """End the server and all that runs in it."""
        server, self._server = self._server, None
        if server is not None:
            assert server.stdin is not None and server.stdout is not None
            server.stdin.close()
            try:
                server.wait(timeout=2)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
            server.stdout.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def run(
        self,
        code: str,
        files: Mapping[str, str | bytes] | None = None,
        limits: Limits | None = None,
        keep: int = 1,
    ) -> Execution:
        """Run a program with files in its folder. What the program does never raises. keep: of its models, the last.

        Raises SandboxError for arguments that are not accepted, and where the server cannot be started again.
        """
        if not isinstance(code, str):
            raise SandboxError(f"code is a {type(code).__name__}; accepted: str")
        if not isinstance(keep, int) or not 1 <= keep <= KEPT:
            raise SandboxError(f"keep = {keep!r}; accepted: 1 to {KEPT}")
        limits = limits or Limits()
        if len(code) > LONGEST:
            return Execution("refused", None, None, "", 0.0, self.level, message=f"a program of {len(code)} characters")
        given = {name: base64.b64encode(data).decode() for name, data in accepted_files(files or {}).items()}
        self._number += 1
        parts = {"number": self._number, "code": code, "files": given, "limits": asdict(limits), "keep": keep}
        request = json.dumps(parts).encode()
        if self._server is None or self._server.poll() is not None:
            self._start()
        begin = time.monotonic()
        try:
            assert self._server is not None and self._server.stdin is not None
            frames.write(self._server.stdin.fileno(), request)
            answer = json.loads(self._read(limits.seconds + GRACE_S, ANSWER))
            if answer["number"] != self._number or len(answer["heads"]) > keep:
                raise ValueError("the answer is another program's")
            models = [self._read(GRACE_S, frames.HEAD.size + wire.LARGEST) for _ in answer["heads"]]
            return _execution(answer, models, self.level, limits)
        except BaseException as error:
            self._kill()  # an answer that was not read must not be taken for that of the next program
            if not isinstance(error, Exception):
                raise
            message = f"the sandbox's server was lost: {error or type(error).__name__}"
            return Execution("killed", None, None, "", time.monotonic() - begin, self.level, message=message)

    def _start(self) -> None:
        self.close()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the server
        try:
            self._server = confinement.start(self.level, self._gurobi, self._log.fileno())
            if self._read(START_S, 64) == b"ready":
                return
            reason = "it does not answer"
        except (OSError, ValueError) as error:
            reason = str(error)
        self._kill()
        self._log.seek(0)
        last = self._log.read()[-WORDS:].decode(errors="replace").strip().splitlines()[-1:]
        raise SandboxError(" ".join([*last, f"(the server did not start: {reason})"]))

    def _probe(self) -> None:
        """Raise SandboxError where a program that tries to get out is not stopped."""
        if self.level == "none":
            return
        found = self.run(PROBE, limits=Limits(seconds=20))
        if found.status != "ok":
            raise SandboxError(found.message or found.status)

    def _kill(self) -> None:
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()

    def _read(self, seconds: float, largest: int) -> bytes:
        """One message of the server, whose first byte must come within so many seconds."""
        assert self._server is not None and self._server.stdout is not None
        pipe = self._server.stdout.fileno()
        if not select.select([pipe], [], [], seconds)[0]:
            raise ValueError(f"no answer within {seconds:g} s")
        data = frames.read(pipe, largest)
        if data is None:
            raise ValueError("it ended")
        return data


def run(
    code: str,
    files: Mapping[str, str | bytes] | None = None,
    limits: Limits | None = None,
    level: str | None = None,
    unsafe: bool = False,
    gurobi: str = "recorder",
) -> Execution:
    """Run one program in a sandbox of its own (see `Sandbox`), which takes a second to start."""
    with Sandbox(level, unsafe, gurobi) as sandbox:
        return sandbox.run(code, files, limits)


def _execution(answer: dict[str, Any], models: list[bytes], level: str, limits: Limits) -> Execution:
    """The server's answer, each part checked for its type."""
    status, message = _status(answer, limits)
    found = [_model(*sent) for sent in zip(answer["heads"], models, strict=True)]
    claims = [_finite(_json(claim, (int, float))) for claim in answer["claims"]]
    head, model, unread = found[-1] if found else ({}, None, "")
    if not found and answer["broken"]:
        unread = "the program wrote what is no message where its models go"
    how = head.get("how")
    return Execution(
        status=status,
        model=model,
        claimed=claims[-1] if claims else None,
        stdout=_plain(answer["stdout"]),
        seconds=float(answer["seconds"]),
        isolation=level,
        stderr=_plain(answer["stderr"]),
        message=_plain(message)[:WORDS],
        how=how if how in ("solved", "written", "built") else "",
        models=int(answer["models"]),
        unread=_plain(unread)[:WORDS],
        earlier=tuple((model, claim) for (_, model, _), claim in zip(found[:-1], claims[:-1], strict=True)),
    )


def _model(head: str, data: bytes) -> tuple[dict[str, Any], Model | None, str]:
    """What is told of a model, the model, and why there is none."""
    told = _json(head, dict) or {}
    try:
        return told, wire.loads(data) if data else None, str(told.get("unread", ""))
    except ModelError as error:
        return told, None, str(error)


def _status(answer: dict[str, Any], limits: Limits) -> tuple[str, str]:
    """Status and message; a limit goes before what the program says of itself."""
    said = str(_json(answer["message"], str) or "")[:WORDS]
    if answer["refused"]:
        return "refused", f"the confinement could not be made: {answer['refused']}"
    if answer["left"]:
        return "killed", str(answer["left"])
    passed = {
        "timeout": ("timeout", f"ended after {limits.seconds:g} s"),
        "memory": ("memory", f"ended at {limits.memory_mb} MB"),
        "output": ("output", f"ended at {limits.output_mb:g} MB of output"),
        "disk": ("killed", f"ended at {limits.disk_mb} MB or {limits.files} files"),
    }
    if answer["limit"] in passed:
        return passed[answer["limit"]]
    if answer["waited"] is None:
        return "killed", "its processes were ended from inside"
    code = os.waitstatus_to_exitcode(int(answer["waited"]))
    if code == 0:
        return "ok", ""
    if (code == job.MEMORY and said.startswith("MemoryError")) or "bad_alloc" in answer["stderr"][-WORDS:]:
        return "memory", said or "MemoryError"
    if code == -signal.SIGXCPU:
        return "timeout", "ended at its limit of processor time"
    if code < 0:
        return "killed", f"ended by signal {_signal(-code)}"
    return "error", said or f"exit status {code}"


def _signal(number: int) -> str:
    """Name of a signal; the real-time ones have none."""
    return signal.Signals(number).name if number in set(signal.Signals) else str(number)


def _plain(text: Any) -> str:
    """A text that any encoding takes."""
    return str(text).encode(errors="replace").decode()


def _finite(value: Any) -> float | None:
    """A finite number, or None."""
    try:
        return float(value) if value is not None and math.isfinite(value) else None
    except OverflowError:
        return None


def _json(text: Any, kind: type | tuple[type, ...]) -> Any:
    """The value of a text that the program may have written, or None where it is not of a kind."""
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
