"""What a program may use, and what is known after it ran."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from trex.solver.model import Model

STATUSES = ("ok", "error", "timeout", "memory", "output", "killed", "refused")
LEVELS = ("bubblewrap", "landlock", "none")
FILES = 1000  # that a program may be given
SIZE = 2**26  # bytes of them together
MOST = {
    "seconds": 7 * 86400, "memory_mb": 2**22, "output_mb": 2**12, "disk_mb": 2**20, "files": 2**24,
    "processes": 2**16, "descriptors": 2**16,
}  # fmt: skip
LONGEST = 2**20  # characters of a program
KEPT = 16  # models that are sent back, at most


class SandboxError(ValueError):
    """A sandbox that cannot be had, or a job that is not accepted. Names the value and what is accepted."""


@dataclass(frozen=True)
class Limits:
    """What one program may use; beyond it the program is ended, with all that it started."""

    seconds: float = 30.0  # wall-clock time
    memory_mb: int = 4096  # of address space per process, and of memory for all processes together
    output_mb: float = 16.0  # on stdout and stderr together
    disk_mb: int = 64  # in its own folder, which is in memory where bubblewrap runs
    files: int = 1024  # in its own folder
    processes: int = 64  # with threads
    descriptors: int = 256

    def __post_init__(self) -> None:
        """Raise SandboxError for a limit that is not a positive number."""
        for name, value in asdict(self).items():
            whole = name not in ("seconds", "output_mb")
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise SandboxError(f"{name} = {value!r}; a {'whole ' if whole else ''}number is accepted")
            if not 0 < value <= MOST[name]:
                raise SandboxError(f"{name} = {value!r}; a positive number up to {MOST[name]:,} is accepted")


@dataclass(frozen=True)
class Execution:
    """What is known after a program ran. All but `status`, `seconds` and `isolation` is the program's own word.

    `model` is to be solved again before its optimum counts; `claimed` is what the program's solver called the
    optimum, for comparison only. Where the program solved several models, it is the last.
    """

    status: str  # one of STATUSES: "ok" where the program ended by itself with exit status 0
    model: Model | None
    claimed: float | None
    stdout: str  # begin and end of it, where it is long
    seconds: float
    isolation: str  # one of LEVELS
    stderr: str = ""
    message: str = ""  # of the exception that ended the program, or the limit that did
    how: str = ""  # "solved", "written" or "built": what the program did with the model
    models: int = 0  # how many the program solved, or wrote or built where it solved none
    unread: str = ""  # why the last model could not be represented
    earlier: tuple[tuple[Model | None, float | None], ...] = ()  # models before the last, as many as asked, and claims

    @property
    def error(self) -> str:
        """The name of the exception that ended the program, "" where none did."""
        return self.message.partition(":")[0].strip() if self.status == "error" else ""


def accepted_files(files: Mapping[str, str | bytes]) -> dict[str, bytes]:
    """Files by name, as bytes. Raises SandboxError for names outside of the program's folder, and for too many."""
    if len(files) > FILES:
        raise SandboxError(f"{len(files)} files; accepted: up to {FILES}")
    found: dict[str, bytes] = {}
    for name, content in files.items():
        if not isinstance(name, str) or not _inside(name):
            raise SandboxError(f"file name {name!r:.200}; accepted: a path inside of the program's folder")
        path = PurePosixPath(name)
        if not isinstance(content, str | bytes):
            raise SandboxError(f"file {name!r} is a {type(content).__name__}; accepted: str, bytes")
        found[str(path)] = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    for name in found:
        if clash := next((str(p) for p in PurePosixPath(name).parents if str(p) in found), None):
            raise SandboxError(f"{clash!r} is a file and the folder of {name!r}; accepted: one of them")
    if (size := sum(map(len, found.values()))) > SIZE:
        raise SandboxError(f"files of {size} bytes; accepted: up to {SIZE}")
    return found


def _inside(name: str) -> bool:
    """Whether a name is a path below the folder that holds it, of a length and letters that file systems take."""
    path = PurePosixPath(name)
    try:
        lengths = [len(part.encode()) for part in path.parts]
    except UnicodeEncodeError:
        return False
    outside = not lengths or path.is_absolute() or ".." in path.parts or "\0" in name
    return not outside and max(lengths) <= 255 and len(lengths) <= 20 and sum(lengths) <= 1000


def record(execution: Execution) -> dict[str, Any]:
    """The execution as what JSON can hold, without the models."""
    return {name: value for name, value in vars(execution).items() if name not in ("model", "earlier")}
