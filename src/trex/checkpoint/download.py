"""Weights and tokenizer of a model repository: what is chosen, whether the disk has room, whether hashes are right."""

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tqdm import tqdm

from trex.checkpoint.errors import CheckpointError, refuse
from trex.checkpoint.hubs import Hub, Remote
from trex.checkpoint.manifest import SUFFIX, write_manifest
from trex.checkpoint.shards import PICKLED
from trex.checkpoint.tensors import PIECE, Written, read, read_header

# weights, configuration, tokenizer, text; `encoding/` says how messages become tokens. Nothing of it is ever run
WANTED = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.md", "LICENSE*", "encoding/*")
HEADROOM = 1 << 28  # bytes that are left free


@dataclass(frozen=True)
class Downloaded:
    """What a folder has got."""

    files: tuple[str, ...]
    bytes: int
    unhashed: tuple[str, ...]  # files that the hub gives no hash of; their sizes are right


def choose(files: Sequence[Remote], include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[Remote]:
    """The files that match any pattern of `include` (of WANTED by default) and none of `exclude`.

    Patterns are fnmatch's on the whole path. Pickled files are never chosen. Raises CheckpointError where none is
    left, and for a path that leads out of the folder.
    """
    chosen = [
        file
        for file in files
        if any(fnmatchcase(file.name, pattern) for pattern in include or WANTED)
        and not any(fnmatchcase(file.name, pattern) for pattern in exclude)
        and Path(file.name).suffix not in PICKLED
    ]
    if not chosen:
        raise CheckpointError(
            f"none of the {len(files)} files in the repository matches {', '.join(include or WANTED)} and is no pickle"
        )
    outside = [file.name for file in chosen if file.name.startswith("/") or ".." in file.name.split("/")]
    refuse([f"{name!r} is outside of the folder" for name in outside], "the repository")
    return chosen


def download(hub: Hub, folder: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Downloaded:
    """Fetch the chosen files into `folder`, compare every hash that the hub gives, and write the folder's manifest.

    Files that are there already and right are not fetched again. Raises CheckpointError before the first byte where
    the disk is too small, and afterwards for files whose size or hash is wrong: those are named and removed, the rest
    stays, and no manifest is written.
    """
    chosen = choose(hub.files(), include, exclude)
    _check_room(chosen, folder)
    folder.mkdir(parents=True, exist_ok=True)
    hub.fetch(chosen, folder)
    written: dict[str, Written] = {}
    total, lock = sum(file.size for file in chosen), threading.Lock()
    with tqdm(total=total, desc="hash check", unit="B", unit_scale=True, disable=None) as bar:

        def done(size: int) -> None:
            with lock:
                bar.update(size)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(lambda file: _problem(folder / file.name, file, written, done), chosen))
    problems = []
    for file, problem in zip(chosen, found, strict=True):
        if problem:
            problems.append(problem)
            (folder / file.name).unlink(missing_ok=True)
    refuse(problems, f"{folder}: wrong files were removed, the others are kept")
    hub.tidy(folder)
    write_manifest(folder, written)
    unhashed = tuple(file.name for file in chosen if not (file.sha256 or file.blob))
    return Downloaded(tuple(file.name for file in chosen), total, unhashed)


def _check_room(files: Sequence[Remote], folder: Path) -> None:
    """Raise CheckpointError where the disk has no room for what is still to come."""
    present = sum(min(_length(folder / file.name), file.size) for file in files)
    present += sum(_length(path) for path in folder.rglob("*.incomplete")) if folder.is_dir() else 0
    needed = sum(file.size for file in files) - present + HEADROOM
    place = folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if needed > free:
        gib = 1 << 30
        raise CheckpointError(f"{folder} needs {needed / gib:.1f} GiB and its disk has {free / gib:.1f} GiB free")


def _length(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _problem(path: Path, file: Remote, written: dict[str, Written], done: Callable[[int], object]) -> str | None:
    """What is wrong with a file; what a right safetensors file holds goes to `written`."""
    if not path.is_file():
        return f"{file.name} did not arrive"
    if path.stat().st_size != file.size:
        return f"{file.name} has {path.stat().st_size} bytes, not {file.size}"
    content = None
    if path.name.endswith(SUFFIX):
        try:
            content = read_header(path)
        except CheckpointError as error:
            return str(error)
    whole, blob = hashlib.sha256(), hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
    start = min((entry.start for entry in content.values()), default=file.size) if content is not None else file.size
    header = hashlib.sha256()
    for piece in _pieces(path, start):
        for digest in (whole, blob, header):
            digest.update(piece)
        done(len(piece))
    tensors = {}
    for name, entry in (content or {}).items():
        digest = hashlib.sha256()
        for tensor in read(path, entry):
            view = tensor.numpy().data
            digest.update(view)
            whole.update(view)
            if file.blob:
                blob.update(view)
            done(len(view))
        tensors[name] = (entry.dtype, entry.shape, digest.hexdigest())
    for kind, expected, found in (("SHA-256", file.sha256, whole), ("git's SHA-1", file.blob, blob)):
        if expected and found.hexdigest() != expected.lower():
            return f"{file.name} has {kind} {found.hexdigest()}, not {expected}"
    if content is not None:
        written[file.name] = Written(file.size, header.hexdigest(), tensors)
    return None


def _pieces(path: Path, length: int) -> Iterator[bytes]:
    """The first `length` bytes of a file."""
    with path.open("rb") as stream:
        while length > 0 and (piece := stream.read(min(PIECE, length))):
            length -= len(piece)
            yield piece
