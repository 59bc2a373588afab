"""From one folder of weights to another: dequantised, quantised, under other names; in bounded memory, resumable.

convert(Path("DeepSeek-V4-Flash"), Path("flash-bf16"), precision="bf16")

Files are made side by side in `<target>.partial`, a tensor's rows at a time; each is there only when whole, with a note
of its hashes. A conversion that was stopped goes on with the files that are missing. The folder takes its name last.
"""

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from trex.checkpoint.errors import CheckpointError, refuse
from trex.checkpoint.manifest import (
    MANIFEST,
    SUFFIX,
    file_problems,
    problems,
    read_json,
    read_manifest,
    to_json,
    write_manifest,
)  # fmt: skip
from trex.checkpoint.quantized import FP8, SCALE_DTYPE, NotFinite
from trex.checkpoint.shards import CONFIG, INDEX, PICKLED
from trex.checkpoint.source import Source, open_source
from trex.checkpoint.target import SHARD, Precision, Shard, converted, documents, shards
from trex.checkpoint.tensors import DTYPES, FLOATS, PIECE, New, Written, finite, raw_bytes, write
from trex.files import locked, put_folder, write_atomic

NOTES = ".conversion"  # in the target while it is made: the plan, the hashes of finished files, a lock
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
RESTATED = (  # fields of a config.json that say again, or no longer, what is written
    "quantization_config", "expert_dtype", "layer_types", "mlp_layer_types", "rope_parameters", "torch_dtype",
    "compress_rates", "partial_rotary_factor", "transformers_version",
)  # fmt: skip
LARGEST_COPIED = 100_000_000  # bytes of a file, other than weights, that goes along


@dataclass(frozen=True)
class _Work:
    """What all files of one conversion share."""

    folder: Path
    allow_nan: bool
    progress: Callable[[int], object]
    bad: list[str]  # tensors that came out not finite
    stop: threading.Event


def dequantize(
    source: str | PathLike[str], target: str | PathLike[str], *, allow_nan: bool = False, workers: int | None = None
) -> Path:
    """FP8 and FP4 weights to BF16, everything else as `convert` leaves it, which see."""
    return convert(source, target, precision="bf16", allow_nan=allow_nan, workers=workers)


def convert(
    source: str | PathLike[str], target: str | PathLike[str], *,
    names: str | None = None, precision: Precision = "keep", allow_nan: bool = False, shard_bytes: int = SHARD,
    workers: int | None = None, verify: bool = True,
) -> Path:  # fmt: skip
    """Write the weights of `source` to the new folder `target`, and what lies beside them. Returns `target`.

    names: "official" or "transformers"; by default those of the source ("transformers" for what `save_pretrained`
    wrote). precision: see `trex.checkpoint.target.converted`. allow_nan: let numbers that are not finite through.
    workers: files made at once, by default one per core. verify: compare the source with its manifest, if it has one.
    A conversion that was stopped goes on when it is called again in the same way.
    Raises CheckpointError, naming every tensor at fault, where the source is incomplete, damaged or (unless allowed)
    not finite, and where the target exists, belongs to another conversion or does not fit on the disk. Of a
    conversion refused for its numbers nothing is left.
    """
    if workers is not None and workers < 1:
        raise CheckpointError(f"workers = {workers!r}; accepted: from 1, or None for one per core")
    source, target = Path(source), Path(target)
    if target.resolve().is_relative_to(source.resolve()):
        raise CheckpointError(f"{target} is in the source {source}; accepted: a folder elsewhere")
    opened = open_source(source)
    names = names or ("official" if opened.names == "official" else "transformers")
    tensors = converted(opened.units, names, precision, opened.config.num_experts)
    files = shards(tensors, shard_bytes)
    plan = {"source": _identity(opened), "names": names, "precision": precision, "shard_bytes": shard_bytes}
    plan["allow_nan"] = allow_nan
    if os.path.lexists(target):
        return _finish(target, plan)
    if verify and read_manifest(source) is not None:
        _verified(source)
    if not allow_nan:
        refuse([f"{name} has a scale that is NaN" for name in opened.nan_scaled()], source)
    unfinished = target.with_name(f"{target.name}.partial")
    if os.path.lexists(unfinished) and not (unfinished / NOTES).is_dir():
        raise CheckpointError(f"{unfinished}, where {target} would be made, is there and is no conversion's: remove it")
    (unfinished / NOTES).mkdir(parents=True, exist_ok=True)
    with _locked(unfinished):
        written = _read_notes(unfinished, plan, files)
        _check_space(unfinished, sum(file.size for file in files if file.name not in written))
        write_atomic(unfinished / NOTES / "plan.json", to_json(plan))
        _remove_others(unfinished, written)
        written |= _made(unfinished, [file for file in files if file.name not in written], files, allow_nan, workers)
        for name, document in documents(opened.config, files).items():
            write_atomic(unfinished / name, to_json(_kept(source, document) if name == CONFIG else document))
        _copy_rest(source, unfinished)
        write_manifest(unfinished, {file.name: written[file.name] for file in files}, ignored=(NOTES,))
        if _identity(opened) != plan["source"]:
            raise CheckpointError(f"{source} was changed while it was converted; remove {unfinished}")
        put_folder(unfinished, target)
    return _finish(target, plan)


def _made(
    folder: Path, missing: list[Shard], files: list[Shard], allow_nan: bool, workers: int | None
) -> dict[str, Written]:
    """Make the missing files, several at once, and return their hashes."""
    total, todo = sum(file.size for file in files), sum(file.size for file in missing)
    lock = threading.Lock()
    with tqdm(total=total, initial=total - todo, unit="B", unit_scale=True, disable=not sys.stderr.isatty()) as bar:

        def progress(size: int) -> None:
            with lock:
                bar.update(size)

        work = _Work(folder, allow_nan, progress, [], threading.Event())
        with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
            running = {pool.submit(_file, work, file): file.name for file in missing}
            try:
                wait(running, return_when=FIRST_EXCEPTION)
            finally:  # an interrupt too ends all of them, at their next piece
                if work.bad or any(not future.done() or future.exception() for future in running):
                    work.stop.set()
                    pool.shutdown(cancel_futures=True)
    if work.bad:
        shutil.rmtree(folder)
        refuse([f"{name} has numbers that are not finite" for name in sorted(set(work.bad))], "nothing was written")
    errors = [error for future in running if not future.cancelled() and (error := future.exception())]
    for error in sorted(errors, key=lambda error: isinstance(error, _Stopped)):
        raise error
    return {name: future.result() for future, name in running.items()}


class _Stopped(Exception):
    """Another file could not be made."""


def _file(work: _Work, shard: Shard) -> Written:
    """Make one file and the note of it."""
    tensors = [replace(tensor, pieces=partial(_watched, work, tensor)) for tensor in shard.tensors]
    written = write(work.folder / shard.name, tensors, {"format": "pt"})
    if not work.bad:
        write_atomic(work.folder / NOTES / f"{shard.name}.json", to_json(written.to_dict()))
    return written


def _watched(work: _Work, tensor: New) -> Iterator[Tensor]:
    """A tensor's pieces, counted, with a look at each whether it is finite; zeros for those that have no code."""
    watched = not work.allow_nan
    left = tensor.size
    try:
        for piece in tensor.pieces():
            if work.stop.is_set():
                raise _Stopped
            if watched and not _finite(tensor.dtype, piece):
                work.bad.append(tensor.name)
                watched = False  # one line is enough
            yield piece
            work.progress(piece.nbytes)
            left -= piece.nbytes
    except NotFinite:
        work.bad.append(tensor.name.removesuffix(".scale") + ".weight" if tensor.dtype == SCALE_DTYPE else tensor.name)
        while left:  # the file is thrown away; other tensors of it may be at fault as well
            yield torch.zeros(min(left, PIECE), dtype=torch.uint8)
            left -= min(left, PIECE)


def _finite(dtype: str, piece: Tensor) -> bool:
    if dtype == FP8.dtype:
        return not ((raw_bytes(piece).numpy() & 0x7F) == 0x7F).any()
    return dtype not in FLOATS or finite(piece.view(DTYPES[dtype]))


def _identity(source: Source) -> dict[str, Any]:
    """What tells a source from another, or from itself after a change, without reading its tensors."""
    stats = {path.name: path.stat() for path in (*source.files, source.folder / CONFIG)}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


def _read_notes(unfinished: Path, plan: dict[str, Any], files: list[Shard]) -> dict[str, Written]:
    """The finished files of an earlier try at the same conversion; each is read and compared with its note."""
    earlier = unfinished / NOTES / "plan.json"
    if not earlier.is_file():
        return {}
    if read_json(earlier) != plan:
        raise CheckpointError(
            f"{unfinished} is the unfinished conversion of another source, or to something else: remove it"
        )
    found = {}
    for file in files:
        note = unfinished / NOTES / f"{file.name}.json"
        if note.is_file() and (unfinished / file.name).is_file():
            written = Written.from_dict(read_json(note))
            if not list(file_problems(unfinished / file.name, file.name, written.to_dict())):
                found[file.name] = written
    return found


def _remove_others(unfinished: Path, finished: Mapping[str, Written]) -> None:
    """Remove what an earlier try left beside its finished files: parts of files, the configuration."""
    for path in unfinished.iterdir():
        if path.name != NOTES and path.name not in finished:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _finish(target: Path, plan: dict[str, Any]) -> Path:
    """Remove the notes from a finished target. Raises CheckpointError where it is something else."""
    note = target / NOTES / "plan.json"
    if not note.is_file() or read_json(note) != plan:
        raise CheckpointError(f"{target} exists; conversions write new folders only")
    shutil.rmtree(target / NOTES)
    return target


@contextmanager
def _locked(unfinished: Path) -> Iterator[None]:
    """Hold the conversion against other processes."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(unfinished / NOTES / "lock"))
        except BlockingIOError:
            raise CheckpointError(f"{unfinished}: another process is at work on this conversion") from None
        yield


def _check_space(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise CheckpointError(f"{folder}: {size:,} bytes are to be written, {free:,} are free on the disk")


def _verified(source: Path) -> None:
    files = read_manifest(source) or {}
    total = sum(expected["bytes"] for expected in files.values())
    with tqdm(total=total, unit="B", unit_scale=True, desc="verify", disable=not sys.stderr.isatty()) as bar:
        refuse(list(problems(source, bar.update)), f"{source} is damaged")


def _kept(source: Path, document: dict[str, Any]) -> dict[str, Any]:
    """A config.json with what the source's says beside the model, such as the ids of special tokens."""
    own = read_json(source / CONFIG).items()
    return {**document, **{key: value for key, value in own if key not in document and key not in RESTATED}} | {
        key: value for key, value in own if key in TOKENS
    }


def _copy_rest(source: Path, target: Path) -> None:
    """Copy what lies beside the weights: tokenizer, chat encoding, licence. Nothing hidden, pickled or large."""
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        hidden = any(part.startswith(".") for part in name.parts)
        weights = path.suffix in (SUFFIX, *PICKLED) or name.as_posix() in (CONFIG, INDEX, MANIFEST)
        if path.is_file() and not hidden and not weights and path.stat().st_size <= LARGEST_COPIED:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)
