"""The checkpoints of a run, folders `step-<number>` side by side: put in place whole, the last few kept.

Every change is a rename, so a process may be killed at any moment. What it can leave, and what becomes of that:
`.step-….partial` (unfinished) and `.step-….removed` (on its way out) are removed by the next save; `step-….old` is the
checkpoint that was about to be replaced: it counts as one until its successor is there. One process at a time changes
a run's folder: it holds a lock on `.lock`. Of a checkpoint that is a symbolic link only the link is moved or removed.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from trex.checkpoint.errors import CheckpointError
from trex.files import locked, sync

STEP = re.compile(r"step-(\d+)")
ASIDE = re.compile(r"(step-\d+)\.old")
LEFTOVER = re.compile(r"\.step-\d+(?:\.old)?\.(?:partial|removed)")
LOCK = ".lock"


def step_folder(parent: Path, step: int) -> Path:
    """The folder of a step."""
    return parent / f"step-{step:08d}"


def newest_first(parent: Path) -> list[Path]:
    """All checkpoints of a run, whole or damaged, by step; one that is being replaced comes after its successor."""
    found = []
    for path in parent.iterdir() if parent.is_dir() else ():
        name = path.name.removesuffix(".old")
        if (match := STEP.fullmatch(name)) and path.is_dir():
            found.append((int(match[1]), name == path.name, path))
    return [path for *_, path in sorted(found, reverse=True)]


def identity(folder: Path) -> tuple[int, int] | None:
    """What tells a folder from one that takes its name later; None where there is none."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def refuse_name(folder: Path) -> None:
    """Raise CheckpointError for a name that is no step's."""
    if not STEP.fullmatch(folder.name):
        raise CheckpointError(f"{folder.name!r} names no training checkpoint; accepted: step-<number>")


@contextmanager
def saving(folder: Path) -> Iterator[Path]:
    """An empty folder beside `folder` to fill and `put`, which goes if the block raises; no other process saves then.

    What interrupted saves left is removed. Raises CheckpointError where another process is saving.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent):
        _tidy(folder.parent)
        temporary = unfinished(folder)
        try:
            temporary.mkdir()
            yield temporary
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def unfinished(folder: Path) -> Path:
    """Where `folder` is written before it takes its name."""
    return folder.with_name(f".{folder.name}.partial")


def put(folder: Path, keep: int | None) -> None:
    """Within `saving`: give the folder, each file of it on the disk, its name; then all but the last `keep` go."""
    aside = folder.with_name(f"{folder.name}.old")
    sync(unfinished(folder))
    if folder.is_dir():
        os.rename(folder, aside)
    elif os.path.lexists(folder):  # a file or a link to nothing
        os.unlink(folder)
    try:
        os.rename(unfinished(folder), folder)
    except BaseException:
        if aside.is_dir():
            os.rename(aside, folder)
        raise
    sync(folder.parent)
    _tidy(folder.parent)
    for path in newest_first(folder.parent)[keep:] if keep is not None else ():
        if path != folder:
            _remove(path)


def remove_all(parent: Path) -> None:
    """Remove all checkpoints and leftovers. Raises CheckpointError where another process is saving."""
    if parent.is_dir():
        with _locked(parent):
            _tidy(parent)
            for path in newest_first(parent):
                _remove(path)


@contextmanager
def _locked(parent: Path) -> Iterator[None]:
    """The lock of a run's folder. Raises CheckpointError where another process holds it."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(parent / LOCK))
        except BlockingIOError:
            raise CheckpointError(f"another process is saving a checkpoint in {parent}") from None
        yield


def _tidy(parent: Path) -> None:
    """Remove what interrupted saves left, and give a checkpoint that was never replaced its name back."""
    for path in sorted(parent.iterdir()):
        if LEFTOVER.fullmatch(path.name):
            _delete(path)
        elif match := ASIDE.fullmatch(path.name):
            successor = path.with_name(match[1])
            if successor.is_dir() or (path.is_file() and not path.is_symlink()):
                _remove(path)
            elif not os.path.lexists(successor):
                os.rename(path, successor)


def _remove(path: Path) -> None:
    """Out of sight first, so that no half-removed folder passes for a checkpoint."""
    hidden = path.with_name(f".{path.name}.removed")
    os.rename(path, hidden)
    _delete(hidden)


def _delete(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        os.unlink(path)
    else:
        shutil.rmtree(path)
