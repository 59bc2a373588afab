"""The manifest of a run: what became of each notebook, and the files that it wrote."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from trex.files import write_atomic
from trex.labels import ResultError

DONE = ("ok", "reused")


@dataclass(frozen=True)
class Outcome:
    """What became of one notebook; `error` names cell, kind and message."""

    notebook: str
    status: str  # ok | reused | failed
    key: str
    parameters: dict[str, Any]
    seconds: float = 0.0
    files: dict[str, str] = field(default_factory=dict)  # name below the run's folder → SHA-256
    error: dict[str, Any] | None = None
    reused_from: str | None = None


@dataclass(frozen=True)
class Run:
    """A run's folder and its outcomes so far."""

    folder: Path
    profile: str
    provenance: dict[str, Any]
    outcomes: tuple[Outcome, ...] = field(default=())

    @property
    def failed(self) -> list[Outcome]:
        """Notebooks that failed."""
        return [outcome for outcome in self.outcomes if outcome.status == "failed"]

    def save(self) -> None:
        """Write `manifest.json`."""
        body = {**asdict(self), "folder": self.folder.name}
        write_atomic(self.folder / "manifest.json", json.dumps(body, indent=1, ensure_ascii=False).encode() + b"\n")


def read(folder: Path) -> list[Outcome]:
    """The outcomes in a run's `manifest.json`. Raises ResultError where it is not one."""
    try:
        found = json.loads((folder / "manifest.json").read_text())["outcomes"]
        outcomes = [Outcome(**outcome) for outcome in found]
        for outcome in outcomes:
            _check(outcome)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ResultError(f"{folder / 'manifest.json'} is not the manifest of a run: {error}") from None
    return outcomes


def sha256(path: Path) -> str:
    """Hash of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _check(outcome: Outcome) -> None:
    if not all(isinstance(text, str) for text in (outcome.notebook, outcome.status, outcome.key)):
        raise ValueError("notebook, status and key are text")
    for name, digest in outcome.files.items():
        if not isinstance(digest, str) or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ValueError(f"file {name!r} is not below the run's folder")
