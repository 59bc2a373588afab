"""safetensors files read and written piece by piece, so that no tensor need ever be held whole.

The format: 8 bytes, the length n of the header as a little-endian integer; n bytes of JSON, for each tensor its dtype,
shape and place; the tensors' bytes one after the other, without gaps. Source: huggingface.co/docs/safetensors. The
library reads and writes whole tensors only, through a memory map.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from trex.checkpoint.errors import CheckpointError

PIECE = 1 << 24  # bytes that are read at once
CACHED = 1 << 26  # bytes of a file being written that the kernel may hold
MOST_DIMENSIONS = 16
LONGEST_HEADER = 100_000_000  # bytes; the library's own limit
DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32,
    "I64": torch.int64, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32,
    "F64": torch.float64,
}  # fmt: skip
FLOATS = {  # bits of the exponent, which are all set in infinities and NaN
    "F16": (torch.int16, 0x7C00), "BF16": (torch.int16, 0x7F80), "F32": (torch.int32, 0x7F80_0000),
    "F64": (torch.int64, 0x7FF0 << 48),
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Entry:
    """One tensor of a file."""

    dtype: str  # as in the header: a key of DTYPES
    shape: tuple[int, ...]
    start: int  # bytes from the start of the file
    end: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start


@dataclass(frozen=True)
class New:
    """A tensor that is to be written."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    pieces: Callable[[], Iterator[Tensor]]  # its elements in order; called once

    @property
    def size(self) -> int:
        """Bytes."""
        return byte_size(self.dtype, self.shape)


@dataclass(frozen=True)
class Written:
    """What a file holds: its length, the SHA-256 of everything before the tensors, and of each tensor."""

    bytes: int
    header: str
    tensors: dict[str, tuple[str, tuple[int, ...], str]]  # dtype, shape, SHA-256

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        tensors = {name: [dtype, list(shape), digest] for name, (dtype, shape, digest) in self.tensors.items()}
        return {"bytes": self.bytes, "header": self.header, "tensors": tensors}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave."""
        tensors = {name: (dtype, tuple(shape), digest) for name, (dtype, shape, digest) in body["tensors"].items()}
        return cls(body["bytes"], body["header"], tensors)


def byte_size(dtype: str, shape: Iterable[int]) -> int:
    """Bytes of a tensor."""
    return prod(shape) * DTYPES[dtype].itemsize


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors of a file by name, in the order of their bytes.

    Raises CheckpointError where the file is no whole safetensors file: header, dtypes, shapes and places must agree
    with each other and with the file's length. A truncated file's error names every tensor that is cut.
    """
    try:
        with path.open("rb") as stream:
            length = os.fstat(stream.fileno()).st_size
            size = struct.unpack("<Q", stream.read(8))[0] if length >= 8 else 0
            if not 2 <= size <= LONGEST_HEADER:
                raise CheckpointError(f"{path} is no safetensors file: its first 8 bytes tell no header's length")
            raw = stream.read(size)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(raw) < size:
        raise CheckpointError(f"{path} is truncated: its header has {len(raw)} bytes, not {size}")
    return _entries(_parsed(raw, path), 8 + size, length, path)


def read(path: Path, entry: Entry, start: int = 0, end: int | None = None, most: int = PIECE) -> Iterator[Tensor]:
    """The tensor's bytes from `start` to `end`, counted from its own start, as uint8 tensors of `most` bytes each but
    the last.

    Raises CheckpointError where the file ends too early.
    """
    place, stop = entry.start + start, entry.end if end is None else entry.start + end
    with path.open("rb", buffering=0) as stream:
        stream.seek(place)
        while place < stop:
            piece = bytearray(min(most, stop - place))
            _fill(stream, memoryview(piece), path)
            place += len(piece)
            yield torch.frombuffer(piece, dtype=torch.uint8)


def read_tensor(path: Path, entry: Entry) -> Tensor:
    """The whole tensor. Raises CheckpointError where the file ends too early."""
    whole = bytearray(entry.size)
    with path.open("rb", buffering=0) as stream:
        stream.seek(entry.start)
        _fill(stream, memoryview(whole), path)
    return as_tensor(whole, entry.dtype, entry.shape)


def as_tensor(whole: bytearray, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """A tensor over the bytes given."""
    if not whole:
        return torch.empty(shape, dtype=DTYPES[dtype])
    return torch.frombuffer(whole, dtype=torch.uint8).view(DTYPES[dtype]).view(shape)


def write(path: Path, tensors: Iterable[New], metadata: Mapping[str, str] | None = None) -> Written:
    """Write a file, fsync it, and return what it holds. The file is there only when whole: temporary name, rename.

    Raises CheckpointError where a tensor's pieces have not the bytes that its shape asks for, or other dtypes.
    """
    new = list(tensors)
    header = _header(new, metadata)
    temporary = path.with_name(f".{path.name}.partial")
    digests: dict[str, tuple[str, tuple[int, ...], str]] = {}
    try:
        with temporary.open("wb", buffering=0) as stream:
            stream.write(header)
            for tensor in new:
                digests[tensor.name] = (tensor.dtype, tensor.shape, _write(stream, tensor))
            os.fsync(stream.fileno())
            _forget(stream)
        os.replace(temporary, path)
    except OSError as error:  # such as a full disk
        temporary.unlink(missing_ok=True)
        raise CheckpointError(f"{path} was not written: {error.strerror or error}") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return Written(len(header) + sum(tensor.size for tensor in new), hashlib.sha256(header).hexdigest(), digests)


def whole(name: str, tensor: Tensor) -> New:
    """A tensor in memory that is to be written."""
    plain = tensor.detach()
    return New(name, NAMES[plain.dtype], tuple(plain.shape), lambda: iter((plain.cpu().contiguous(),)))


def raw_bytes(tensor: Tensor) -> Tensor:
    """The bytes of a contiguous tensor, [n] uint8, shared with it."""
    return tensor.reshape(-1).view(torch.uint8)


def finite(numbers: Tensor) -> bool:
    """Whether all are finite. numbers: of a dtype in FLOATS, on the CPU. By their bits: faster than isfinite."""
    integers, exponent = FLOATS[NAMES[numbers.dtype]]
    bits = numbers.contiguous().view(integers).numpy()
    return bits.size == 0 or int((bits & exponent).max()) < exponent


def _write(stream: Any, tensor: New) -> str:
    digest, written = hashlib.sha256(), 0
    for piece in tensor.pieces():
        if piece.dtype != DTYPES[tensor.dtype] and piece.dtype != torch.uint8:
            raise CheckpointError(f"{tensor.name}: a piece is {piece.dtype}, not {tensor.dtype}")
        view = raw_bytes(piece).numpy().data
        digest.update(view)
        written += len(view)
        while view:
            view = view[stream.write(view) :]
        if stream.tell() // CACHED > (stream.tell() - piece.nbytes) // CACHED:
            _forget(stream)
    if written != tensor.size:
        raise CheckpointError(
            f"{tensor.name}: {written} bytes for {tensor.dtype} {list(tensor.shape)}, which has {tensor.size}"
        )
    return digest.hexdigest()


def _forget(stream: Any) -> None:
    """Tell the kernel to write what it holds of the file to the disk and not to keep it: a cache full of pages that
    nobody will read slows writing down."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _header(tensors: list[New], metadata: Mapping[str, str] | None) -> bytes:
    """Length and JSON, padded with spaces so that the tensors begin at a multiple of 8 bytes."""
    body: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    place = 0
    for tensor in tensors:
        if tensor.name in body:
            raise CheckpointError(f"{tensor.name} would be written twice")
        body[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [place, place + tensor.size],
        }
        place += tensor.size
    text = json.dumps(body, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _fill(stream: Any, view: memoryview, path: Path) -> None:
    while view:
        got = stream.readinto(view)
        if not got:
            raise CheckpointError(f"{path} ended while it was read: it was cut since its header was")
        view = view[got:]


def _parsed(raw: bytes, path: Path) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            raise ValueError("a name is there twice")
        "".join(names).encode()  # a lone surrogate is no text
        return dict(pairs)

    try:
        body = json.loads(raw.decode("utf-8"), object_pairs_hook=once)
        if not isinstance(body, dict):
            raise ValueError("it is no object")
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: its header is not the JSON of a safetensors file: {error}") from None
    body.pop("__metadata__", None)
    return body


def _entries(body: dict[str, Any], base: int, length: int, path: Path) -> dict[str, Entry]:
    entries, problems = {}, []
    for name, said in body.items():
        entry = _entry(said, base)
        if isinstance(entry, str):
            problems.append(f"{name} {entry}")
        else:
            entries[name] = entry
    entries = dict(sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)))
    place = base
    for name, entry in entries.items():
        if not problems and entry.start != place:
            problems.append(f"{name} begins at byte {entry.start}, not {place}")
        if entry.end > length:
            problems.append(f"{name} is truncated: it ends at byte {entry.end} of {length}")
        place = entry.end
    if not problems and place != length:
        problems.append(f"{length - place} bytes belong to no tensor")
    if problems:
        raise CheckpointError(f"{path} is damaged: {'; '.join(problems)}")
    return entries


def _entry(said: Any, base: int) -> Entry | str:
    """The entry, or what is wrong with it."""
    if not isinstance(said, dict) or not isinstance(said.get("dtype"), str) or said["dtype"] not in DTYPES:
        found = said.get("dtype") if isinstance(said, dict) else said
        return f"has dtype {found!r}; accepted: {', '.join(DTYPES)}"
    dtype, shape, place = said["dtype"], _counts(said.get("shape")), _counts(said.get("data_offsets"))
    if shape is None or place is None or len(place) != 2:
        found = f"shape {said.get('shape')!r} and data_offsets {said.get('data_offsets')!r}"
        return f"has {found}; accepted: integers from 0, two offsets"
    start, end = place
    if end - start != byte_size(dtype, shape):
        return f"takes {end - start} bytes, not the {byte_size(dtype, shape)} of {dtype} {list(shape)}"
    return Entry(dtype, shape, base + start, base + end)


def _counts(value: Any) -> tuple[int, ...] | None:
    """A list of integers from 0, none of them absurd; None for anything else."""
    if not isinstance(value, list) or len(value) > MOST_DIMENSIONS:
        return None
    known = all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**63 for n in value)
    return tuple(value) if known else None
