"""A folder of weights opened for reading: which tensor lies where, checked against the model before any is read."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trex.checkpoint.errors import CheckpointError, refuse
from trex.checkpoint.manifest import SUFFIX, read_json
from trex.checkpoint.names import names_of, place, spellings
from trex.checkpoint.quantized import NAN_SCALE, STEP, Format, block, recognise, row_scales, to_odd
from trex.checkpoint.released import Expected, expected, scale_name
from trex.checkpoint.shards import CONFIG, read_shards
from trex.checkpoint.tensors import DTYPES, Entry, read, read_tensor
from trex.model.config import ConfigError, ModelConfig

TRAINING = "trex_metadata.json"  # what trex.checkpoint.storage writes
MOST_EXPERTS = 1_000_000  # of all layers together; the Pro model has 23,808


@dataclass(frozen=True)
class Stored:
    """A tensor of a file."""

    name: str
    path: Path
    entry: Entry


@dataclass(frozen=True)
class Unit:
    """One tensor of the model, by its official name: a tensor of a file, or a slice of one."""

    name: str
    expected: Expected
    stored: Stored
    start: int  # bytes from the stored tensor's own start
    stop: int
    format: Format | None  # None where it is not quantised
    scale: Stored | None

    @property
    def dtype(self) -> str:
        """As it is stored."""
        return self.stored.entry.dtype

    def raw(self) -> Iterator[Tensor]:
        """Its bytes, in pieces."""
        return read(self.stored.path, self.stored.entry, self.start, self.stop)

    def numbers(
        self, dtype: torch.dtype, seen: Callable[[Any], object] = lambda piece: None, odd: bool = False
    ) -> Iterator[Tensor]:
        """Its values in order, STEP rows or fewer at a time, dequantised if need be, in `dtype`.

        seen: is given every piece of its bytes as stored, as a hash would be. odd: float32 that is to be rounded again;
        see `quantized.to_odd`.
        """
        entry, path = self.stored.entry, self.stored.path
        shape = self.expected.shape
        rows, columns = (shape[0], shape[1]) if len(shape) == 2 else (1, self.expected.size)
        width = (self.stop - self.start) // max(1, rows)  # bytes of a row
        scale = self.scales()
        row = 0
        for piece in read(path, entry, self.start, self.stop, STEP * max(1, width)):
            seen(piece.numpy().data)
            count = len(piece) // max(1, width)
            if self.format is None or scale is None:
                values = piece.view(DTYPES[entry.dtype]).view(count, columns)
                if values.dtype == torch.float64 and (odd or dtype.itemsize == 2):
                    values = to_odd(values)
                yield values.to(dtype)
            else:
                factors = row_scales(self.format, scale, row, count)
                yield block(self.format, piece.view(count, width), factors, dtype)
            row += count

    def scales(self) -> Tensor | None:
        """Bytes of the scales, [⌈o/rows⌉, ⌈i/columns⌉] uint8; None where it is not quantised."""
        return None if self.scale is None else read_tensor(self.scale.path, self.scale.entry).view(torch.uint8)


@dataclass(frozen=True)
class Source:
    """A folder of weights."""

    folder: Path
    config: ModelConfig  # with as many MTP blocks as there are weights for: transformers writes none
    names: str
    units: dict[str, Unit]  # by official name, in the order of the released files
    files: tuple[Path, ...]

    def nan_scaled(self) -> list[str]:
        """Quantised tensors with a scale that is NaN. Reads all scales."""
        quantised = (unit for unit in self.units.values() if unit.scale is not None)
        return [unit.name for unit in quantised if (unit.scales() == NAN_SCALE).any()]  # type: ignore[union-attr]


def open_source(folder: Path, name: str | None = None) -> Source:
    """Open a folder in the layout of Hugging Face: config.json, safetensors files, an index where they are several.

    name: of the model; by default what config.json says of it, else the folder's. Only headers are read.
    Raises CheckpointError with every tensor that is missing, extra, misshapen or truncated, and for pickled weights.
    """
    if not folder.is_dir():
        raise CheckpointError(f"no folder at {folder}")
    config = read_config(folder, name)
    matrices = (config.num_layers + config.mtp_layers) * config.num_experts
    if matrices > MOST_EXPERTS:
        raise CheckpointError(f"{folder / CONFIG} tells of {matrices:,} experts; accepted: up to {MOST_EXPERTS:,}")
    files, tensors = _tensors(folder)
    names = names_of(tensors)
    wanted = expected(config)
    places = {official: place(official, want.shape, names, config.num_experts) for official, want in wanted.items()}
    if config.mtp_layers and not any(at.name in tensors for key, at in places.items() if key.startswith("mtp.")):
        warnings.warn(f"{folder}: no weights of the MTP block that {CONFIG} tells of; it is left out", stacklevel=3)
        config = replace(config, mtp_layers=0)
        wanted = expected(config)
    units, problems, used = {}, [], set()
    for official, want in wanted.items():
        at = places[official]
        stored = next((tensors[name] for name in spellings(at.name) if name in tensors), None)
        scale = tensors.get(scale_name(at.name)) if at.slices == 1 and at.name.endswith("weight") else None
        if stored is None:
            problems.append(f"{at.name} is missing")
            continue
        used |= {stored.name, scale.name} if scale else {stored.name}
        size = stored.entry.size // at.slices
        form, problem = _format(stored.name, at.shape, want, stored.entry, scale)
        if problem:
            problems.append(problem)
        units[official] = Unit(official, want, stored, at.slice * size, (at.slice + 1) * size, form, scale)
    problems += [f"{extra} belongs to no part of the model" for extra in tensors if extra not in used]
    refuse(list(dict.fromkeys(problems)), folder)
    return Source(folder, config, names, units, files)


def read_config(folder: Path, name: str | None = None) -> ModelConfig:
    """The model of a folder's config.json. Raises CheckpointError."""
    if (folder / TRAINING).is_file():
        raise CheckpointError(
            f"{folder} is a training checkpoint; export it: trex.checkpoint.training.load_model, then save_hf"
        )
    body = read_json(folder / CONFIG)
    said = body.get("model_name") if isinstance(body, dict) else None
    known = name or (said if isinstance(said, str) and said else folder.name)
    try:
        return ModelConfig.from_hf(body, known)
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG} describes no DeepSeek-V4: {error}") from None


def _tensors(folder: Path) -> tuple[tuple[Path, ...], dict[str, Stored]]:
    """The weight files of a folder, and their tensors by name."""
    shards = read_shards(folder)
    if not shards.files and not shards.damaged and not shards.absent:
        also = f"; pickled files are never opened: {', '.join(shards.pickled)}" if shards.pickled else ""
        raise CheckpointError(f"{folder} holds no {SUFFIX} files{also}")
    refuse(shards.problems, folder)
    files = tuple(folder / file for file in shards.files)
    return files, {name: Stored(name, folder / file, entry) for name, (file, entry) in shards.tensors.items()}


def _format(
    name: str, shape: tuple[int, ...], want: Expected, entry: Entry, scale: Stored | None
) -> tuple[Format | None, str]:
    """The block format of a stored tensor, None if it has none, and what is wrong with dtype or shape."""
    if scale is not None:
        found = recognise(entry.dtype, entry.shape, scale.entry.dtype, scale.entry.shape)
        said = f"{entry.dtype} {list(entry.shape)} with scale {scale.entry.dtype} {list(scale.entry.shape)}"
        if found is None:
            return None, f"{name} is {said}, which is neither FP8 nor FP4"
        form, matrix = found
        return form, "" if matrix == want.shape else f"{name} is {said}, not of a matrix {list(want.shape)}"
    floating = DTYPES[entry.dtype].is_floating_point and DTYPES[entry.dtype].itemsize > 1
    accepted = "I64" if want.kind == "i64" else "F64, F32, F16 or BF16"
    if entry.shape != shape or (entry.dtype != "I64" if want.kind == "i64" else not floating):
        lone = " without a scale" if DTYPES[entry.dtype].itemsize == 1 else ""
        return None, f"{name} is {entry.dtype} {list(entry.shape)}{lone}, not {accepted} {list(shape)}"
    return None, ""
