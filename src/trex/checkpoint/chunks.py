"""Where the chunks of a checkpoint's tensors lie, as JSON; and a part of a tensor read out of them, no more of a file.

A chunk is a rectangular block of a tensor, stored in order in one of the files of a folder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.tensors import DTYPES, NAMES, Entry, Written, read, read_header


@dataclass(frozen=True)
class Chunk:
    """Where a chunk was written: a file of the folder, its name there, and what the file holds."""

    file: str
    key: str
    written: Written


def described(name: str, known: Any, places: dict[MetadataIndex, Chunk]) -> dict[str, Any]:
    """A tensor as JSON types. places: of its chunks among others."""
    chunks = []
    for chunk in known.chunks:
        place = places[MetadataIndex(name, chunk.offsets)]
        offsets, sizes = list(chunk.offsets), list(chunk.sizes)
        chunks.append({"offsets": offsets, "sizes": sizes, "file": place.file, "key": place.key})
    return {"dtype": NAMES[known.properties.dtype], "shape": list(known.size), "chunks": chunks}


def metadata_of(body: dict[str, Any], files: dict[str, Any]) -> Metadata:
    """What `described` gave of each tensor; files: of the manifest.

    Raises KeyError, TypeError, ValueError or AttributeError for anything else.
    """
    tensors: dict[str, Any] = {}
    places = {}
    for name, said in body.items():
        chunks = []
        for chunk in said["chunks"]:
            offsets, sizes = torch.Size(chunk["offsets"]), torch.Size(chunk["sizes"])
            chunks.append(ChunkStorageMetadata(offsets, sizes))
            places[MetadataIndex(name, offsets)] = chunk["file"], chunk["key"]
            if files[chunk["file"]]["tensors"][chunk["key"]][:2] != [said["dtype"], list(sizes)]:
                raise ValueError(f"{name} is another tensor in the manifest")
        properties = TensorProperties(dtype=DTYPES[said["dtype"]])
        tensors[name] = TensorStorageMetadata(properties, torch.Size(said["shape"]), chunks)
    return Metadata(tensors, storage_data=places)


class Parts:
    """Reads parts of the tensors of a folder. Nothing is compared with hashes here."""

    def __init__(self, folder: Path, metadata: Metadata) -> None:
        """metadata: as `storage.Reader` reads it."""
        self._folder, self._metadata = folder, metadata
        self._headers: dict[str, dict[str, Entry]] = {}

    def read(self, name: str, offset: Sequence[int], size: Sequence[int]) -> Tensor:
        """The elements of tensor `name` from `offset` on, a new tensor of `size`.

        Raises CheckpointError where the chunks do not hold all of them.
        """
        known = self._metadata.state_dict_metadata[name]
        assert isinstance(known, TensorStorageMetadata)
        target, filled = torch.empty(tuple(size), dtype=known.properties.dtype), 0
        for chunk in known.chunks:
            lows = [max(o, c) for o, c in zip(offset, chunk.offsets, strict=True)]
            highs = [min(o + n, c + m) for o, n, c, m in zip(offset, size, chunk.offsets, chunk.sizes, strict=True)]
            if any(low >= high for low, high in zip(lows, highs, strict=True)):
                continue
            into, box = target, []
            for dim, (low, high) in enumerate(zip(lows, highs, strict=True)):
                into = into.narrow(dim, low - offset[dim], high - low)
                box.append((low - chunk.offsets[dim], high - chunk.offsets[dim]))
            file, key = self._metadata.storage_data[MetadataIndex(name, chunk.offsets)]
            into.copy_(_box(self._folder / file, self._entry(file, key), box))
            filled += into.numel()
        if filled != target.numel():
            raise CheckpointError(
                f"{name}: its chunks hold {filled} of the {target.numel()} elements at {list(offset)}"
            )
        return target

    def _entry(self, file: str, key: str) -> Entry:
        if file not in self._headers:
            self._headers[file] = read_header(self._folder / file)
        if key not in self._headers[file]:
            raise CheckpointError(f"{key} is missing in {file}")
        return self._headers[file][key]


def _box(path: Path, entry: Entry, box: list[tuple[int, int]]) -> Tensor:
    """A box of a stored tensor, from and to in each dimension: of the file the bytes from its first to last row."""
    shape = entry.shape
    split = next((dim for dim, (low, high) in enumerate(box) if high - low > 1), max(len(shape) - 1, 0))
    start, row = 0, prod(shape[split + 1 :]) * DTYPES[entry.dtype].itemsize
    for dim, (low, _) in enumerate(box[: split + 1]):
        start = start * shape[dim] + low
    rows = box[split][1] - box[split][0] if box else 1
    raw = next(read(path, entry, start * row, (start + rows) * row, max(1, rows * row)))
    found = raw.view(DTYPES[entry.dtype]).view(
        [*(1 for _ in box[:split]), *([rows] if box else []), *shape[split + 1 :]]
    )
    for dim, (low, high) in enumerate(box[split + 1 :], split + 1):
        found = found.narrow(dim, low, high - low)
    return found
