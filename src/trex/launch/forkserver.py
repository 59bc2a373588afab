"""A process that has torch loaded and forks from there: a new process then costs milliseconds, not the import of torch.

Unlike multiprocessing's fork server it never runs the caller's `__main__` again, so scripts need no guard; and it reaps
its children itself: it knows by which signal one died, and kills one with all its descendants, except those that
started a session or process group of their own. A child lives as long as its starter holds the child's socket, so none
outlives a killed or interrupted starter.
"""

import atexit
import contextlib
import ctypes
import importlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from multiprocessing.connection import wait

STATUS = struct.Struct("!i")  # exit code of a child, negative for a signal
READY, ABORT = b"r", b"a"
SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h


class ForkserverError(ValueError):
    """The server did not start, or died; the message holds what it wrote."""


class Child:
    """One forked process, as its starter sees it; `fileno()` becomes readable when the child has ended."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def fileno(self) -> int:
        """The file descriptor to wait for."""
        return self._channel.fileno()

    def abort(self) -> None:
        """Send SIGABRT, on which faulthandler writes where each thread is."""
        with contextlib.suppress(OSError):
            self._channel.send(ABORT)

    def kill(self) -> None:
        """Kill the child and its descendants, except those that started a session or process group of their own."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)

    def exit_code(self) -> int:
        """Wait for the end; the exit code, negative for a signal. Raises ForkserverError when the server died."""
        try:
            with self._channel as channel:
                answer = channel.recv(STATUS.size, socket.MSG_WAITALL)
        except OSError:
            answer = b""
        if len(answer) != STATUS.size:
            raise ForkserverError("the fork server died, and its children with it")
        return int(STATUS.unpack(answer)[0])


def ended(children: Iterable[Child], timeout_s: float) -> list[Child]:
    """Those of `children` that have ended; waits for the first, at most `timeout_s`."""
    by_fd = {child.fileno(): child for child in children}
    return [by_fd[fd] for fd in wait(list(by_fd), max(0.0, timeout_s)) if isinstance(fd, int)]


class Forkserver:
    """Starts the server on creation (the import of torch then runs in the background) and stops it at exit."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._control = ours
        self._lock = threading.Lock()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the server lives
        call = f"from trex.launch import forkserver; forkserver.main({theirs.fileno()})"
        program = f"import sys; sys.path[:] = {[os.fspath(p) for p in sys.path]!r}; {call}"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,  # Ctrl-C is for the starter, which then ends the children itself
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # forking is safe while there is one thread
            )
        atexit.register(self.close)

    def alive(self) -> bool:
        """Whether the server still runs."""
        return self._process.poll() is None

    def fork(self, target: str, arguments: Sequence[object], preload: Sequence[str] = ()) -> Child:
        """Run `target` ("module:function", returns the exit code) with JSON `arguments` in a forked process.

        preload: modules to import before the fork, once for all later children. Raises ForkserverError.
        """
        ours, theirs = socket.socketpair()
        order = json.dumps({"target": target, "arguments": arguments, "preload": preload}).encode()
        try:
            with theirs, self._lock:
                socket.send_fds(self._control, [order], [theirs.fileno()])
                answer = self._control.recv(1)
        except OSError:
            answer = b""
        except BaseException:  # interrupted between order and answer: the two sides no longer agree
            ours.close()
            self.close()
            raise
        if answer != READY:
            ours.close()
            raise ForkserverError(f"the fork server ended: {self.close()}")
        return Child(ours)

    def close(self) -> str:
        """End the server and with it all children; returns what it wrote, once."""
        atexit.unregister(self.close)
        self._control.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._log.closed:
            return ""
        with self._log:
            self._log.seek(0)
            return self._log.read().decode(errors="replace").strip()


def main(control_fd: int) -> None:
    """The server: fork on order, pass signals on, report exit codes; ends, with all children, when its starter does."""
    importlib.import_module("torch.distributed")
    wake, write = os.pipe()
    for fd in (wake, write):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, socket.socket] = {}
    with socket.socket(fileno=control_fd) as control:
        while True:
            channels = {channel.fileno(): pid for pid, channel in children.items()}
            ready = wait([wake, control.fileno(), *channels])
            if wake in ready:
                os.read(wake, 4096)
                _reap(children)
            for fd, pid in channels.items():
                if fd in ready and pid in children:
                    _pass_on(pid, children[pid])
            if control.fileno() in ready:
                order, fds, _, _ = socket.recv_fds(control, 65536, 1)
                if not order:
                    break
                channel = socket.socket(fileno=fds[0])
                children[_fork(json.loads(order), [control, channel, *children.values()], [wake, write])] = channel
                control.send(READY)
    for pid in children:
        _kill(pid)
        os.waitpid(pid, 0)


def _fork(order: dict[str, list[str]], sockets: list[socket.socket], pipes: list[int]) -> int:
    for name in order["preload"]:
        importlib.import_module(name)
    module, _, function = str(order["target"]).partition(":")
    server = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for owned in sockets:
            owned.close()
        for fd in pipes:
            os.close(fd)
        os.setsid()  # descendants share the group, unless they leave it, and are killed with it
        _die_with(server)
        code = getattr(importlib.import_module(module), function)(*order["arguments"])
    finally:
        os._exit(code)


def _die_with(parent: int) -> None:
    """Linux kills this process when its parent ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _reap(children: dict[int, socket.socket]) -> None:
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # descendants it left behind
            with children.pop(pid) as channel, contextlib.suppress(OSError):
                channel.send(STATUS.pack(os.waitstatus_to_exitcode(status)))


def _pass_on(pid: int, channel: socket.socket) -> None:
    """ABORT becomes SIGABRT, the end of the channel SIGKILL."""
    try:
        wish = channel.recv(1)
    except OSError:
        wish = b""
    if wish == ABORT:
        os.kill(pid, signal.SIGABRT)
    else:
        _kill(pid)


def _kill(pid: int) -> None:
    """Kill a child that was not reaped yet, and its group, which exists once the child has called setsid."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
