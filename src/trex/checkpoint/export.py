"""A training checkpoint to a folder in the layout of Hugging Face, by any number of ranks, in bounded memory.

export_hf(Path("runs/step-00000060"), Path("export"))

The files are those of `save_hf(load_model(step_folder), target)`, byte for byte. Each rank writes some of them, some
rows of a tensor at a time; the model is never in memory.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor

from trex.checkpoint.chunks import Parts
from trex.checkpoint.errors import CheckpointError, refuse
from trex.checkpoint.hf import DOCUMENT
from trex.checkpoint.manifest import MANIFEST, to_json, write_manifest
from trex.checkpoint.names import OFFICIAL, STATE, place
from trex.checkpoint.released import expected
from trex.checkpoint.shards import CONFIG, INDEX
from trex.checkpoint.state import MODEL, Known, compare
from trex.checkpoint.steps import identity
from trex.checkpoint.storage import Reader
from trex.checkpoint.target import SHARD, Shard, check_names, documents, shards
from trex.checkpoint.tensors import FLOATS, NAMES, PIECE, New, Written, finite, write
from trex.checkpoint.together import Together
from trex.checkpoint.training import model_config
from trex.files import folder_atomic
from trex.model.config import ModelConfig
from trex.model.transformer import Transformer


@dataclass(frozen=True)
class _Part:
    """A tensor of the released layout, and where a checkpoint has it."""

    official: str
    name: str
    shape: tuple[int, ...]
    expert: int | None  # of a stacked tensor, the first index

    def rows(self, parts: Parts, itemsize: int, bad: list[str]) -> Iterator[Tensor]:
        """Its elements in order, up to PIECE bytes at a time or one row; where some are not finite, its name is bad."""
        first, rest = (self.shape[0], self.shape[1:]) if self.shape else (1, ())
        step = max(1, PIECE // max(1, itemsize * torch.Size(rest).numel()))
        stacked = () if self.expert is None else (self.expert,)
        for row in range(0, first, step):
            offset = (*stacked, row, *(0 for _ in rest)) if self.shape else ()
            size = (*(1 for _ in stacked), min(step, first - row), *rest) if self.shape else ()
            found = parts.read(self.name, offset, size)
            if NAMES[found.dtype] in FLOATS and not finite(found) and self.official not in bad:
                bad.append(self.official)
            yield found


def export_hf(
    folder: str | PathLike[str], target: str | PathLike[str], *, names: str = OFFICIAL,
    extra: Mapping[str, Any] | None = None, shard_bytes: int = SHARD, replace: bool = False,
    process_group: dist.ProcessGroup | None = None,
) -> Path:  # fmt: skip
    """Write the model of the training checkpoint `folder` to `target`, whole or not at all. Returns `target`.

    names, extra, shard_bytes, replace: see `save_hf`. The ranks of the group share the files out, and must see one file
    system. All bytes of the model are compared with the checkpoint's hashes first.
    Raises one CheckpointError on all ranks for a checkpoint that is damaged, has no config, or is of another model, for
    weights that are not finite, and for a target that exists.
    """
    ranks, folder, target = Together(process_group), Path(folder), Path(target)
    what = f"{target} was not written"
    before, bad = ranks.of_first(partial(identity, folder)), list[str]()

    def begin() -> Path:
        if target.exists() and not replace:
            raise CheckpointError(f"{target} exists; it is replaced only on request (replace=True)")
        return until_put.enter_context(folder_atomic(target, replace))

    def write_files(files: list[Shard], temporary: Path) -> dict[str, Written]:
        mine = files[ranks.rank :: ranks.world]
        written = {file.name: write(temporary / file.name, file.tensors, {"format": "pt"}) for file in mine}
        refuse([f"{name} is not finite" for name in bad], "nothing was written")
        return written

    def finish(config: ModelConfig, files: list[Shard], written: dict[str, Written], temporary: Path) -> None:
        for name, content in {**documents(config, files), **(extra or {})}.items():
            (temporary / name).write_bytes(to_json(content))
        write_manifest(temporary, dict(sorted(written.items())))
        if identity(folder) != before:
            raise CheckpointError(f"{folder} was replaced while it was read")
        until_put.close()

    with ExitStack() as until_put:
        config, files = ranks.call(lambda: _planned(folder, names, extra or {}, shard_bytes, bad), what)
        temporary = ranks.of_first(begin, what)
        ranks.call(lambda: _verify(folder, ranks), what)
        shares = ranks.gather(ranks.call(lambda: write_files(files, temporary), what))
        written = {name: content for share in shares for name, content in share.items()}
        ranks.of_first(lambda: finish(config, files, written, temporary), what)
    return target


def _planned(
    folder: Path, names: str, extra: Mapping[str, Any], shard_bytes: int, bad: list[str]
) -> tuple[ModelConfig, list[Shard]]:
    """The model's config and the files to write. Nothing is read but documents and where the chunks are."""
    check_names(names)
    wrong = [name for name in extra if not DOCUMENT.fullmatch(name) or name in (CONFIG, INDEX, MANIFEST)]
    refuse([f"{n!r} names no document beside the weights" for n in wrong], "letters, digits, '_', '-', then '.json'")
    reader = Reader(folder)
    metadata = reader.read_metadata()
    known = cast(Known, metadata.state_dict_metadata)
    config = model_config(reader.documents())
    with torch.device("meta"):
        model = Transformer(config)
    compare({f"{MODEL}{name}": (value.shape, None) for name, value in model.state_dict().items()}, known)
    return config, shards(_tensors(config, known, names, Parts(folder, metadata), bad), shard_bytes)


def _verify(folder: Path, ranks: Together) -> None:
    damage = Reader(folder).problems(ranks.rank, ranks.world, lambda name: name.startswith(MODEL))
    refuse(damage, f"{folder} is damaged")


def _tensors(config: ModelConfig, known: Known, names: str, parts: Parts, bad: list[str]) -> list[New]:
    """The tensors of the target, each in the dtype that the checkpoint has it in."""
    groups: dict[str, dict[int, _Part]] = {}
    shapes = {}
    for official, want in expected(config).items():
        here = place(official, want.shape, STATE, config.num_experts)
        there = place(official, want.shape, names, config.num_experts)
        part = _Part(official, f"{MODEL}{here.name}", want.shape, here.slice if here.slices > 1 else None)
        groups.setdefault(there.name, {})[there.slice] = part
        shapes[there.name] = there.shape
    result = []
    for name, group in groups.items():
        dtype = known[group[0].name].properties.dtype
        ordered = [group[at] for at in sorted(group)]
        result.append(New(name, NAMES[dtype], shapes[name], partial(_rows, ordered, parts, dtype.itemsize, bad)))
    return result


def _rows(group: list[_Part], parts: Parts, itemsize: int, bad: list[str]) -> Iterator[Tensor]:
    for part in group:
        yield from part.rows(parts, itemsize, bad)
