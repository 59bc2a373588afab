"""One program, in a process of its own: confined first, then run, its models sent out."""

import atexit
import contextlib
import io
import json
import linecache
import os
import resource
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Mapping
from typing import Any, NoReturn

from trex.solver.sandbox import frames, landlock, seccomp, system
from trex.solver.sandbox.capture import MESSAGE, Capture

FOLDER = "/job"  # of the program, in a temporary file system of its own
SHARED = "/dev/shm"  # for the locks of multiprocessing
SHARED_BYTES = 2**24
NAME = "program.py"
FAILED, MEMORY = 1, 66  # exit statuses
REFUSED = b"refused "  # begins what is told of a confinement that failed
READ_ALL = 1 << 2  # the capability to read what other users own: Landlock decides what is there to be read
REPORT = 4  # descriptor, until the program begins
ERRORS = 500  # characters of an exception's text


def enter_namespaces(uid: int | None, disk: int, files: int) -> None:
    """Own users, processes, mounts, network and interprocess communication, and a folder of `disk` bytes in memory.

    The next child is the first process of the new process namespace; when it ends, all of them do. Raises OSError.
    """
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        system.prctl(system.SET_DUMPABLE, 1)  # changing the user took away its own files in /proc
    user, group = os.getuid(), os.getgid()
    flags = system.NEWUSER | system.NEWPID | system.NEWNS | system.NEWIPC | system.NEWNET | system.NEWUTS
    system.unshare(flags)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as stream:
            stream.write(text)
    system.make_private()
    secure = system.MS_NOSUID | system.MS_NODEV | system.MS_NOEXEC
    system.mount("tmpfs", FOLDER, secure, f"size={disk},nr_inodes={files},mode=700")
    system.mount("tmpfs", SHARED, secure, f"size={min(disk, SHARED_BYTES)},nr_inodes=64,mode=700")
    system.mount("tmpfs", "/proc", secure | system.MS_RDONLY, "size=0,nr_inodes=1,mode=555")


def run(
    request: Mapping[str, Any], folder: str, level: str, readable: list[str], output: tuple[int, ...], own_user: bool
) -> NoReturn:
    """Confine this process, run the program, and exit with its status.

    output: descriptors of stdout, stderr, the models, and one for saying why the confinement failed, which is closed
    before the program begins. own_user: the process runs as a user that nobody else is. The folder exists.
    """
    status = FAILED
    try:
        try:
            _prepare(request, folder, level, readable, output, own_user)
        except BaseException as error:
            message = f"{type(error).__name__}: {error}".encode(errors="replace")[:ERRORS]
            for descriptor in (REPORT, output[3]):
                with contextlib.suppress(OSError):
                    os.write(descriptor, REFUSED + message)
                    break
            os._exit(FAILED)
        os.close(REPORT)
        status = _execute(request["code"], folder, Capture(lambda data: frames.write(3, data)))
    except MemoryError:
        status = MEMORY
    finally:
        os._exit(status)


def _prepare(
    request: Mapping[str, Any], folder: str, level: str, readable: list[str], output: tuple[int, ...], own_user: bool
) -> None:
    limits = request["limits"]
    os.setsid()  # a signal to its process group reaches nobody else
    os.chdir(folder)
    for name, content in request["files"].items():
        if os.path.dirname(name):
            os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "wb") as stream:
            stream.write(content)
    if NAME not in request["files"]:
        with open(NAME, "w", encoding="utf-8", errors="surrogatepass") as program:
            program.write(request["code"])
    _descriptors(output)
    memory, disk = limits["memory_mb"] << 20, limits["disk_mb"] << 20
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, disk),
        (resource.RLIMIT_CPU, int(limits["seconds"] * 2) + 1),
        (resource.RLIMIT_NOFILE, limits["descriptors"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (least, least))
    system.keep_capabilities(READ_ALL if level == "landlock" and os.getuid() else 0)
    if level == "landlock":
        landlock.restrict([*readable, "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"], [folder, "/dev/null"])
    if level != "none":
        seccomp.install(own_namespace=level == "bubblewrap", own_user=own_user)
    tempfile.tempdir = folder
    os.environ.clear()
    os.environ.update(HOME=folder, TMPDIR=folder, LANG="C.UTF-8", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


def _descriptors(output: tuple[int, ...]) -> None:
    """Nothing on 0, the outputs on 1, 2 and 3, the report on 4, no other descriptor."""
    high = [os.dup(descriptor) for descriptor in output]
    high = [_above(descriptor) for descriptor in high]
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for place, descriptor in enumerate(high, start=1):
        os.dup2(descriptor, place)
    os.closerange(REPORT + 1, 1 << 20)


def _above(descriptor: int) -> int:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)


def _execute(code: str, folder: str, capture: Capture) -> int:
    """Run the program as `__main__`; returns its exit status."""
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = io.TextIOWrapper(
        os.fdopen(1, "wb", 8192, closefd=False), "utf-8", "backslashreplace", write_through=False
    )
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", 0, closefd=False), "utf-8", "backslashreplace", write_through=True)
    path = f"{folder}/{NAME}"
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"], sys.argv, sys.path[:0] = main, [path], [folder]
    linecache.cache[path] = len(code), None, code.splitlines(keepends=True), path
    capture.install()
    status = 0
    try:
        exec(compile(code, path, "exec"), main.__dict__)
    except SystemExit as stop:
        status = int(bool(stop.code))
        if status:
            _tell(f"SystemExit: {stop.code}")
    except BaseException as error:
        status = MEMORY if isinstance(error, MemoryError) else FAILED
        _tell(_text(error))
        _show(error)
    for owner, name in (
        (threading, "_shutdown"),
        (atexit, "_run_exitfuncs"),
        (capture, "finish"),
        (sys.stdout, "flush"),
    ):
        with contextlib.suppress(Exception):  # as an interpreter ends: threads, then exit handlers
            getattr(owner, name)()
    return status


def _text(error: BaseException) -> str:
    """Name and text of an exception; an exception is the program's own and may fail to say anything."""
    try:
        where = ""
        if not isinstance(error, SyntaxError):
            lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith("/" + NAME)]
            where = f" (line {lines[-1]})" if lines else ""
        return f"{type(error).__name__}: {str(error)[:ERRORS]}{where}"
    except BaseException:
        return f"{type(error).__name__}: "


def _tell(message: str) -> None:
    with contextlib.suppress(OSError):
        frames.write(3, MESSAGE + json.dumps(message).encode())


def _show(error: BaseException) -> None:
    """The traceback on standard error, without this module's own lines."""
    with contextlib.suppress(BaseException):
        own = error.__traceback__.tb_next if error.__traceback__ else None
        sys.stderr.write("".join(traceback.format_exception(type(error), error, own)))
