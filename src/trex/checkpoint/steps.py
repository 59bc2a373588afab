"""The checkpoints of a run, folders `step-<number>` side by side: put in place whole, the last few kept.

Every change is a rename, so a process may be killed at any moment. What it can leave, and what becomes of that:
`.step-….partial` (unfinished) and `.step-….removed` (on its way out) are removed by the next save; `step-….old` is the
checkpoint that was about to be replaced: it counts as one until its successor is there.
"""

import os
import re
import shutil
from pathlib import Path

from trex.checkpoint.errors import CheckpointError
from trex.files import sync

STEP = re.compile(r"step-(\d+)")
ASIDE = re.compile(r"(step-\d+)\.old")
LEFTOVER = re.compile(r"\.step-\d+(?:\.old)?\.(?:partial|removed)")


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


def refuse_name(folder: Path) -> None:
    """Raise CheckpointError for a name that is no step's."""
    if not STEP.fullmatch(folder.name):
        raise CheckpointError(f"{folder.name!r} names no training checkpoint; accepted: step-<number>")


def begin(folder: Path) -> Path:
    """An empty folder beside `folder` to fill; removes what interrupted saves left."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    tidy(folder.parent)
    temporary = unfinished(folder)
    temporary.mkdir()
    return temporary


def unfinished(folder: Path) -> Path:
    """Where `folder` is written before it takes its name."""
    return folder.with_name(f".{folder.name}.partial")


def put(folder: Path, keep: int | None) -> None:
    """Give what `begin` made, filled and each file of it on the disk, its name; then all but the last `keep` go."""
    aside = folder.with_name(f"{folder.name}.old")
    sync(unfinished(folder))
    if folder.exists():
        os.rename(folder, aside)
    try:
        os.rename(unfinished(folder), folder)
    except BaseException:
        if aside.exists():
            os.rename(aside, folder)
        raise
    sync(folder.parent)
    tidy(folder.parent)
    if keep is not None:
        remove_old(folder.parent, keep, spare=folder)


def remove_old(parent: Path, keep: int, spare: Path | None = None) -> None:
    """Remove all checkpoints but those of the `keep` highest steps and `spare`."""
    tidy(parent)
    for path in newest_first(parent)[keep:]:
        if path != spare:
            _remove(path)


def tidy(parent: Path) -> None:
    """Remove what interrupted saves left, and give a checkpoint that was never replaced its name back."""
    for path in sorted(parent.iterdir()) if parent.is_dir() else ():
        if LEFTOVER.fullmatch(path.name):
            shutil.rmtree(path)
        elif match := ASIDE.fullmatch(path.name):
            successor = path.with_name(match[1])
            if successor.exists():
                _remove(path)
            else:
                os.rename(path, successor)


def _remove(path: Path) -> None:
    """Out of sight first, so that no half-removed folder passes for a checkpoint."""
    hidden = path.with_name(f".{path.name}.removed")
    os.rename(path, hidden)
    shutil.rmtree(hidden)
