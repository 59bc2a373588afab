"""Our model to and from folders in the layout of Hugging Face, under official names or transformers'.

model = load_hf(Path("DeepSeek-V4-Flash"), dtype=torch.bfloat16)
save_hf(model, Path("export"), names="official")     # what transformers, vLLM and SGLang read
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as changed
from math import ceil
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trex.checkpoint.errors import CheckpointError, refuse
from trex.checkpoint.manifest import MANIFEST, fingerprint, header_problems, read_manifest, to_json, write_manifest
from trex.checkpoint.names import OFFICIAL, STATE, place
from trex.checkpoint.quantized import STEP
from trex.checkpoint.released import expected
from trex.checkpoint.shards import CONFIG, INDEX
from trex.checkpoint.source import Source, Stored, Unit, open_source
from trex.checkpoint.target import SHARD, documents, in_memory, shards
from trex.checkpoint.tensors import DTYPES, FLOATS, NAMES, finite, write
from trex.files import folder_atomic
from trex.model.transformer import Transformer

DOCUMENT = re.compile(r"[A-Za-z0-9_-]+\.json")


def save_hf(
    model: Transformer, folder: str | PathLike[str], *, names: str = OFFICIAL, extra: Mapping[str, Any] | None = None,
    shard_bytes: int = SHARD, replace: bool = False,
) -> Path:  # fmt: skip
    """Write the model whole or not at all: weights, each in its dtype, config.json, an index, a manifest of hashes.

    names: "official" or "transformers". extra: JSON documents by file name, such as "trex_tokenizer.json". replace: put
    it in the place of an existing folder, which waits beside it under a hidden name for the moment between two renames.
    Returns `folder`.
    Raises CheckpointError for weights that are not finite (all of them named), and for a folder that exists.
    """
    folder = Path(folder)
    if folder.exists() and not replace:
        raise CheckpointError(f"{folder} exists; it is replaced only on request (replace=True)")
    extra = dict(extra or {})
    bad = [name for name in extra if not DOCUMENT.fullmatch(name) or name in (CONFIG, INDEX, MANIFEST)]
    refuse(
        [f"{name!r} names no document beside the weights" for name in bad], "letters, digits, '_', '-', then '.json'"
    )
    state, experts = model.state_dict(), model.config.num_experts
    bad = [name for name, tensor in state.items() if tensor.is_floating_point() and not finite(tensor.detach().cpu())]
    refuse([f"{name} is not finite" for name in bad], "nothing was written")
    wanted = expected(model.config)
    tensors = {}
    for official, want in wanted.items():
        at = place(official, want.shape, STATE, experts)
        tensors[official] = state[at.name][at.slice] if at.slices > 1 else state[at.name]
    files = shards(in_memory(tensors, wanted, names, experts), shard_bytes)
    contents = {**documents(model.config, files), **extra}
    with folder_atomic(folder, replace) as temporary:
        for name, content in contents.items():
            (temporary / name).write_bytes(to_json(content))
        written = {file.name: write(temporary / file.name, file.tensors, {"format": "pt"}) for file in files}
        write_manifest(temporary, written)
    return folder


def load_hf(folder: str | PathLike[str], dtype: torch.dtype | None = None, *, verify: bool = True) -> Transformer:
    """The model of a folder, on the CPU: under official names or transformers', quantised or not.

    dtype: of the weights that the released files hold quantised or in BF16; what they hold in F32 (mHC, sinks, position
    biases, the routers' selection biases) is at least float32. None: as stored, quantised weights as bfloat16. Without
    MTP weights the model has no MTP block. verify: compare with the folder's manifest, if it has one, while reading.
    Raises CheckpointError that lists every tensor that is missing, extra, misshapen, truncated, altered or not finite.
    """
    if dtype is not None and NAMES.get(dtype) not in FLOATS:
        accepted = ", ".join(str(DTYPES[name]) for name in FLOATS)
        raise CheckpointError(f"dtype = {dtype!r}; accepted: None, {accepted}")
    folder = Path(folder)
    digests = digests_of(folder) if verify else {}
    source = open_source(folder)
    with torch.device("meta"):
        model = Transformer(source.config)
    state: dict[str, Tensor] = {}
    problems: list[str] = []
    for units in by_stored(source):
        digest = hashlib.sha256()
        for unit in units:
            at = place(unit.name, unit.expected.shape, STATE, source.config.num_experts)
            if at.name not in state:
                state[at.name] = torch.empty(at.shape, dtype=_dtype(unit, dtype))
            elif state[at.name].dtype != _dtype(unit, dtype):
                problems.append(f"{unit.name} is {unit.dtype}, unlike the other experts; give a dtype")
            whole = state[at.name][at.slice] if at.slices > 1 else state[at.name]
            if not fill(whole, unit, (0,) * whole.dim(), digest.update):
                problems.append(f"{unit.name} is not finite")
            if unit.scale is not None and (scale := unit.scales()) is not None:
                problems += altered(unit.scale, hashlib.sha256(scale.numpy().data), digests)
        problems += altered(units[0].stored, digest, digests)
    refuse(problems, folder)
    model.load_state_dict(state, assign=True)
    return model


def fill(block: Tensor, unit: Unit, offset: Sequence[int], seen: Callable[[Any], object] = lambda piece: None) -> bool:
    """Read a block of a unit's values, STEP rows at a time, and only the rows that it needs; whether all are finite.

    block: of one or two dimensions, written in place, in its dtype, wherever it is. offset: of its first element in
    the unit. seen: is given every piece of the bytes that are read; all of them where it is the whole.
    """
    if block.dim() == 1:  # as one row
        block, offset = block.unsqueeze(0), (0, *offset)
        row, end = 0, 1
    else:
        step = 1 if unit.format is None else STEP
        row, end = offset[0] // step * step, offset[0] + len(block)
        unit = _rows(unit, row, end)
    top, left, good = offset[0], offset[1], True
    for numbers in unit.numbers(block.dtype, seen):
        wanted = numbers[max(0, top - row) :, left : left + block.shape[1]]
        good = good and (not wanted.is_floating_point() or finite(wanted))
        place = max(0, row - top)
        block[place : place + len(wanted)] = wanted
        row += len(numbers)
    return good


def by_stored(source: Source) -> list[list[Unit]]:
    """The units of each stored tensor in the order of their bytes."""
    groups: dict[str, list[Unit]] = {}
    for unit in source.units.values():
        groups.setdefault(unit.stored.name, []).append(unit)
    return [sorted(units, key=lambda unit: unit.start) for units in groups.values()]


def _dtype(unit: Unit, dtype: torch.dtype | None) -> torch.dtype:
    """What a unit is loaded as."""
    if unit.expected.kind == "i64":
        return torch.int64
    if dtype is None:
        return torch.bfloat16 if unit.format else DTYPES[unit.dtype]
    return torch.promote_types(dtype, torch.float32) if unit.expected.kind == "f32" else dtype


def _rows(unit: Unit, first: int, end: int) -> Unit:
    """Some rows of a matrix. first: a multiple of STEP where it is quantised."""
    rows, columns = unit.expected.shape
    width, scale = (unit.stop - unit.start) // rows, unit.scale
    if scale is not None and unit.format is not None:
        entry = scale.entry
        row, top, bottom = entry.size // entry.shape[0], first // unit.format.rows, ceil(end / unit.format.rows)
        start, stop = entry.start + top * row, entry.start + bottom * row
        scale = changed(scale, entry=changed(entry, shape=(bottom - top, entry.shape[1]), start=start, end=stop))
    return changed(
        unit, expected=changed(unit.expected, shape=(end - first, columns)),
        start=unit.start + first * width, stop=unit.start + end * width, scale=scale,
    )  # fmt: skip


def digests_of(folder: Path) -> dict[str, str]:
    """SHA-256 of the stored tensors, as far as there is a manifest; all other files are compared with it here.

    Raises CheckpointError where files are missing or altered, and for headers that are not the manifest's.
    """
    digests: dict[str, str] = {}
    problems: list[str] = []
    for name, expected_file in (read_manifest(folder) or {}).items():
        path = folder / name
        if not path.is_file():
            problems.append(f"{name} is missing")
        elif "tensors" in expected_file:
            problems += header_problems(path, name, expected_file)
            digests |= {tensor: digest for tensor, (_, _, digest) in expected_file["tensors"].items()}
        elif fingerprint(path) != expected_file:
            problems.append(f"{name} was altered")
    refuse(problems, f"{folder} is damaged")
    return digests


def altered(stored: Stored, digest: Any, digests: Mapping[str, str]) -> list[str]:
    """What is to be said of a tensor with this hash: a line where the manifest has another one."""
    wrong = stored.name in digests and digest.hexdigest() != digests[stored.name]
    return [f"{stored.name} in {stored.path.name} was altered"] if wrong else []
