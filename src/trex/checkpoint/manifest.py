"""The manifest of a folder: size and SHA-256 of every file, and of every tensor by name.

A folder is whole when everything in the manifest is there, unchanged. Damage is told by the names of the tensors.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from trex.checkpoint.errors import CheckpointError, refuse
from trex.checkpoint.tensors import Written, read, read_header
from trex.files import write_atomic

MANIFEST = "trex_manifest.json"
FORMAT = "trex-manifest-1"
SUFFIX = ".safetensors"


def write_manifest(folder: Path, written: Mapping[str, Written], ignored: Collection[str] = ()) -> None:
    """Write the manifest of `folder`: the safetensors files in `written`, and all its other files, which are read.

    ignored: folders in it that do not count.
    """
    files = {name: content.to_dict() for name, content in written.items()}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        counts = path.is_file() and name != MANIFEST and name.split("/")[0] not in ignored
        if counts and name not in files:
            files[name] = fingerprint(path)
    body = {"format": FORMAT, "files": dict(sorted(files.items()))}
    write_atomic(folder / MANIFEST, to_json({**body, "sha256": _own_digest(body)}))


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Files by name as `write_manifest` recorded them; None where there is no manifest. Raises CheckpointError."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    body = read_json(path)
    digest = body.pop("sha256", None) if isinstance(body, dict) else None
    if not isinstance(body, dict) or body.get("format") != FORMAT or digest != _own_digest(body):
        raise CheckpointError(f"{path} is damaged, or no manifest of format {FORMAT!r}")
    if path.read_bytes() != to_json({**body, "sha256": digest}):  # if only its last newline is gone
        raise CheckpointError(f"{path} was altered")
    files: Any = body.get("files")
    if not isinstance(files, dict) or not all(map(_is_record, files.values())):
        raise CheckpointError(f"{path} is no manifest: it does not record a size and hashes of each file")
    outside = [name for name in files if name.startswith("/") or ".." in name.split("/")]
    refuse([f"{name!r} is outside of the folder" for name in outside], path)
    return dict(files)


def problems(folder: Path, done: Callable[[int], object] = lambda size: None) -> Iterator[str]:
    """What of the folder differs from its manifest, a line each. done: is told the bytes that were read.

    Raises CheckpointError where there is no manifest or it is damaged.
    """
    files = read_manifest(folder)
    if files is None:
        raise CheckpointError(f"{folder} has no {MANIFEST}: there are no hashes to compare with")
    for name, expected in files.items():
        yield from file_problems(folder / name, name, expected, done)


def file_problems(
    path: Path, name: str, expected: Mapping[str, Any], done: Callable[[int], object] = lambda size: None
) -> Iterator[str]:
    """What of a file differs from what the manifest records of it, a line each."""
    if not path.is_file():
        yield f"{name} is missing{_tensors_of(expected)}"
    elif "tensors" in expected:
        yield from _differing(path, name, expected, done)
    else:
        if fingerprint(path) != expected:
            yield f"{name} was altered"
        done(path.stat().st_size)


def header_problems(path: Path, name: str, expected: Mapping[str, Any]) -> list[str]:
    """What of a safetensors file's length and header differs from the manifest, without reading its tensors."""
    try:
        entries = read_header(path)
    except CheckpointError as error:
        lost = "" if any(tensor in str(error) for tensor in expected["tensors"]) else _tensors_of(expected)
        return [f"{error}{lost}"]
    found = []
    for tensor, (dtype, shape, _) in expected["tensors"].items():
        entry = entries.get(tensor)
        if entry is None:
            found.append(f"{tensor} is missing in {name}")
        elif [entry.dtype, list(entry.shape)] != [dtype, shape]:
            found.append(f"{tensor} is {entry.dtype} {list(entry.shape)} in {name}, not {dtype} {shape}")
    found += [f"{tensor} in {name} is not in the manifest" for tensor in entries if tensor not in expected["tensors"]]
    first = min((entry.start for entry in entries.values()), default=path.stat().st_size)
    with path.open("rb") as stream:
        digest = hashlib.sha256(stream.read(first)).hexdigest()
    if not found and digest != expected["header"]:
        found.append(f"the header of {name} was altered{_tensors_of(expected)}")
    return found


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file."""
    with path.open("rb") as stream:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}


def to_json(value: Any) -> bytes:
    """JSON for a file. Raises CheckpointError for what JSON cannot hold."""
    try:
        return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"JSON cannot hold it: {error}") from None


def read_json(path: Path) -> Any:
    """Content of a JSON file. Raises CheckpointError where it is missing or something else."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from None


def _differing(path: Path, name: str, expected: Mapping[str, Any], done: Callable[[int], object]) -> Iterator[str]:
    found = header_problems(path, name, expected)
    yield from found
    if found:
        return
    for tensor, entry in read_header(path).items():
        digest = hashlib.sha256()
        for piece in read(path, entry):
            digest.update(piece.numpy().data)
            done(len(piece))
        if digest.hexdigest() != expected["tensors"][tensor][2]:
            yield f"{tensor} in {name} was altered"


def _tensors_of(expected: Mapping[str, Any]) -> str:
    names = ", ".join(expected.get("tensors", ()))
    return f"; it holds {names}" if names else ""


def _is_record(value: Any) -> bool:
    """Whether it is what `write_manifest` records of a file."""
    if not isinstance(value, dict) or not isinstance(value.get("bytes"), int):
        return False
    if "tensors" not in value:
        return isinstance(value.get("sha256"), str)
    tensors = value["tensors"]
    return isinstance(value.get("header"), str) and isinstance(tensors, dict) and all(
        isinstance(said, list) and len(said) == 3 and isinstance(said[1], list) for said in tensors.values()
    )  # fmt: skip


def _own_digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
