"""How the server is started at each level: what of the machine it sees, and as whom its jobs run."""

import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import trex
from trex.solver.sandbox.execution import SandboxError
from trex.solver.sandbox.job import FOLDER, SHARED

PROGRAM = "from trex.solver.sandbox.server import main; main()"
INSTALLED = ("site-packages", "dist-packages")
PARTS = ("__init__.py", "files.py", "paths.py", "solver")  # of trex, that the server needs; labels are not among them
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
SETTINGS = ("/etc/ld.so.cache", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
USER = 0x60000000  # of the jobs, where the evaluator is root: numbers from here on nobody has
ENVIRONMENT = {
    "LANG": "C.UTF-8", "PATH": "/nowhere", "HOME": FOLDER, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONNOUSERSITE": "1",
}  # fmt: skip


def command(level: str, gurobi: str) -> list[str]:
    """The server's command line at a level. Where the evaluator is root, its jobs run as a user that nobody is.

    Raises SandboxError where bubblewrap is asked for and not installed.
    """
    user = str(USER + secrets.randbelow(2**28)) if os.geteuid() == 0 and level != "none" else ""
    python = [sys.executable, "-s", "-c", PROGRAM, level, user, gurobi, *readable()]
    if level != "bubblewrap":
        return python
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxError("bwrap is not installed")
    return [bwrap, *_view(), *_privileges(), "--", *python]


def environment() -> dict[str, str]:
    """All that the server finds in its environment."""
    return {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(_packages())}


def start(level: str, gurobi: str, log: int) -> subprocess.Popen[bytes]:
    """Start the server with pipes to its standard input and output, and its standard error on `log`."""
    return subprocess.Popen(
        command(level, gurobi), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment(),
        cwd="/", start_new_session=True, bufsize=0,
    )  # fmt: skip


def readable() -> list[str]:
    """Paths that the interpreter and its packages need."""
    found = [*_interpreter(), *LIBRARIES, *SETTINGS]
    for folder in _packages():
        if folder != str(_trex().parent):
            found.append(folder)
        elif folder.endswith(INSTALLED):
            found += (entry.path for entry in os.scandir(folder) if entry.path != str(_trex()))
    found += (str(_trex() / part) for part in PARTS)
    return list(dict.fromkeys(path for path in found if os.path.exists(path)))


def _interpreter() -> Iterator[str]:
    """The interpreter itself, its virtual environment's configuration, its standard library and shared libraries."""
    yield sys.executable
    yield os.path.realpath(sys.executable)
    yield os.path.join(sys.prefix, "pyvenv.cfg")
    yield sysconfig.get_path("stdlib")
    library = sysconfig.get_config_var("LIBDIR")
    shared = sysconfig.get_config_var("LDLIBRARY")
    for folder in (library, os.path.join(sys.base_prefix, "lib")):
        if folder and shared:
            yield os.path.join(folder, shared)
            yield os.path.join(folder, f"{shared}.1.0")


def _packages() -> list[str]:
    """Folders of installed packages, and the one that holds trex."""
    installed = [path for path in sys.path if path.endswith(INSTALLED) and os.path.isdir(path)]
    return list(dict.fromkeys([*installed, str(_trex().parent)]))


def _trex() -> Path:
    return Path(trex.__file__).resolve().parent


def _view() -> Iterator[str]:
    """What of the file system is there: to be read only, and of trex no more than the solver."""
    shown = readable()
    parents = {str(parent) for path in (*shown, *DEVICES) for parent in Path(path).parents}
    for parent in sorted(parents - {"/", *LIBRARIES}):  # bubblewrap would make them for its own user only
        if not any(parent == path or parent.startswith(f"{path}/") for path in shown):
            yield from ("--perms", "0755", "--dir", parent)
    for path in shown:
        if os.path.islink(path) and path in LIBRARIES:
            yield from ("--symlink", os.readlink(path), path)
        else:
            yield from ("--ro-bind", os.path.realpath(path), path)
    for path in DEVICES:
        yield from ("--dev-bind", path, path)
    yield from ("--proc", "/proc", "--perms", "0755", "--dir", FOLDER, "--tmpfs", SHARED)
    usual = tempfile.gettempdir()
    taken = {*shown, *parents, "/proc", FOLDER}
    if os.path.dirname(usual) == "/" and usual not in taken:  # who writes there writes into the job's folder
        yield from ("--symlink", FOLDER, usual)
    yield from ("--remount-ro", "/")


def _privileges() -> Iterator[str]:
    """New namespaces; root keeps what it needs to give the jobs a user of their own, and nothing else."""
    yield from ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--chdir", "/")
    if os.geteuid() == 0:
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_KILL"):
            yield from ("--cap-add", capability)
    else:
        yield "--unshare-user"
