"""A checkpoint is a folder: `model.safetensors`, `config.json`, what its writer adds (JSON, tensors), `manifest.json`.

The manifest holds size and SHA-256 of every other file and decides whether the folder is whole. Nothing is pickled.
"""

import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trex.checkpoint.errors import CheckpointError
from trex.model.config import ConfigError, ModelConfig
from trex.model.transformer import Transformer
from trex.results import NAME

FORMAT = "trex-checkpoint-2"
MANIFEST, CONFIG, MODEL = "manifest.json", "config.json", "model.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """What a folder holds: the model, JSON documents by name, and groups of tensors by name."""

    model: Transformer
    documents: dict[str, Any] = field(default_factory=dict)  # such as "tokenizer", "trainer"
    tensors: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # such as "optimizer"


def save(checkpoint: Checkpoint, folder: Path, replace: bool = False) -> Path:
    """Write `folder` whole or not at all: a temporary name beside it, fsync, rename. Returns `folder`.

    replace: put it in the place of an existing folder (which is set aside until the new one is there).
    Raises CheckpointError for a folder that exists, a bad name, a value that JSON cannot hold, weights not finite.
    """
    if folder.exists() and not replace:
        raise CheckpointError(f"{folder} exists; it is replaced only on request (replace=True)")
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.model.state_dict().items()}
    bad = [name for name, tensor in weights.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if bad:
        raise CheckpointError(f"not finite: {', '.join(bad)}; nothing was written")
    documents = {**checkpoint.documents, Path(CONFIG).stem: asdict(checkpoint.model.config)}
    groups = {Path(MODEL).stem: weights, **checkpoint.tensors}
    for name in [*documents, *groups]:
        if not NAME.fullmatch(name) or name == Path(MANIFEST).stem:
            raise CheckpointError(f"{name!r} names no file of a checkpoint: letters, digits, '_', '-' and '.' only")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        for name, document in documents.items():
            (temporary / f"{name}.json").write_bytes(_json(document, name))
        for name, tensors in groups.items():
            plain = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
            save_file(plain, temporary / f"{name}.safetensors", metadata={"format": "pt"})
        files = {path.name: _fingerprint(path) for path in sorted(temporary.iterdir())}
        (temporary / MANIFEST).write_bytes(_json({"format": FORMAT, "files": files}, "manifest"))
        for path in temporary.iterdir():
            path.chmod(0o644)
        temporary.chmod(0o755)
        _sync(temporary)
        _put(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return folder


def load(folder: Path) -> Checkpoint:
    """Read a checkpoint, weights on the CPU in the dtype they were saved in.

    Raises CheckpointError that names every file that is missing, truncated or altered, and every tensor that is
    missing, extra or misshapen.
    """
    files = _verified(folder)
    documents = {Path(name).stem: _read_json(folder / name) for name in files if name.endswith(".json")}
    groups = {Path(name).stem: _tensors(folder / name) for name in files if name.endswith(".safetensors")}
    weights, config = groups.pop(Path(MODEL).stem), _config(documents.pop(Path(CONFIG).stem), folder)
    model = Transformer(config)
    _compare(model.state_dict(), weights, folder)
    model.load_state_dict(weights, assign=True)
    return Checkpoint(model, documents, groups)


def newest(folder: Path) -> tuple[Path, Checkpoint] | None:
    """The last whole checkpoint below `folder`, by name, or None; a warning names each damaged one passed over."""
    for path in sorted((p for p in folder.glob("[!.]*") if p.is_dir()), reverse=True):
        try:
            return path, load(path)
        except CheckpointError as error:
            warnings.warn(f"checkpoint refused, the one before is tried: {error}", stacklevel=2)
    return None


def _put(temporary: Path, folder: Path) -> None:
    """Rename `temporary` to `folder`; what was there is set aside first and put back should that fail."""
    old = folder.with_name(f"{temporary.name}.old")
    if folder.exists():
        os.rename(folder, old)
    try:
        os.rename(temporary, folder)
    except OSError:
        if old.exists():
            os.rename(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
    _sync_folder(folder.parent)


def _sync(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _verified(folder: Path) -> dict[str, Any]:
    """The manifest's files, all of them present and unchanged."""
    if not folder.is_dir():
        raise CheckpointError(f"no checkpoint at {folder}")
    manifest = _read_json(folder / MANIFEST)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or manifest.get("format") != FORMAT or not {CONFIG, MODEL} <= set(files):
        raise CheckpointError(f"{folder / MANIFEST}: not a manifest of format {FORMAT!r}")
    problems = []
    for name, expected in files.items():
        path = folder / name
        if path.parent != folder or not path.is_file():
            problems.append(f"{name} is missing")
            continue
        found, size = _fingerprint(path), expected.get("bytes") if isinstance(expected, dict) else None
        if found["bytes"] != size:
            problems.append(f"{name} has {found['bytes']} bytes, not {size}")
        elif found != expected:
            problems.append(f"{name} was altered")
    if problems:
        raise CheckpointError(f"{folder} is damaged: {'; '.join(problems)}")
    return files


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def _json(value: Any, name: str) -> bytes:
    try:
        return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{name}: JSON cannot hold it: {error}") from None


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} is no checkpoint: {path.name} is missing") from None
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from None


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        return {name: tensor.clone() for name, tensor in load_file(path).items()}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not a safetensors file: {error}") from None


def _config(body: Any, folder: Path) -> ModelConfig:
    try:
        return ModelConfig(**{**body, "compress_ratios": tuple(body["compress_ratios"])})
    except (TypeError, KeyError, ConfigError) as error:
        raise CheckpointError(f"{folder / CONFIG} describes no model: {error}") from None


def _compare(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], folder: Path) -> None:
    problems = [f"{name} is missing" for name in expected if name not in found]
    problems += [f"{name} belongs to no part of the model" for name in found if name not in expected]
    for name in expected.keys() & found.keys():
        want, got = expected[name], found[name]
        if want.shape != got.shape or want.is_floating_point() != got.is_floating_point():
            problems.append(f"{name} is {got.dtype} {list(got.shape)}, not {want.dtype} {list(want.shape)}")
        elif got.is_floating_point() and not torch.isfinite(got).all():
            problems.append(f"{name} is not finite")
    if problems:
        raise CheckpointError(f"{folder / MODEL}: {'; '.join(sorted(problems))}")
