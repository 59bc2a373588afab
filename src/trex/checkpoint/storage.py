"""Storage for torch.distributed.checkpoint without pickle: safetensors of each rank, JSON that says where things are.

A folder holds `rank-00000.safetensors` and so on, `trex_metadata.json` (every tensor's shape, dtype and chunks) and
`trex_manifest.json` (the hash of every tensor and every other file), which is written last. Other files that lie in the
folder by then, such as JSON documents, are part of it.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from torch import Tensor
from torch.distributed.checkpoint import StorageReader, StorageWriter
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from trex.checkpoint.chunks import Chunk, described, metadata_of
from trex.checkpoint.errors import CheckpointError, refuse
from trex.checkpoint.manifest import (
    fingerprint,
    header_problems,
    read_json,
    read_manifest,
    to_json,
    write_manifest,
)
from trex.checkpoint.tensors import NAMES, Entry, New, raw_bytes, read, read_header, read_tensor, write
from trex.files import sync, write_atomic

METADATA = "trex_metadata.json"
FORMAT = "trex-sharded-1"


class Writer(StorageWriter):
    """Writes what `torch.distributed.checkpoint.save` plans into a folder that all ranks see.

    Only tensors are accepted: what torch would pickle is refused by name, before anything is written. The coordinator
    writes metadata and manifest when every rank's file is on the disk. Whole tensors keep their names in the file, a
    shard of `x` is `x@<offsets>`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Take another folder."""
        if checkpoint_id is not None:
            self.folder = Path(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Make the folder."""
        if is_coordinator:
            self.folder.mkdir(parents=True, exist_ok=True)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Refuse, with a CheckpointError, all values that are no tensors or of a dtype that safetensors lack."""
        refuse([problem for item in plan.items if (problem := _unfit(item))], self.folder)
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Give every rank its file."""
        return [replace(plan, storage_data=f"rank-{rank:05d}.safetensors") for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's file, one tensor in memory at a time; a rank with nothing to write leaves none."""
        if not plan.items:
            return _done([])
        file, new = plan.storage_data, [_new(item, planner) for item in plan.items]
        written = write(self.folder / file, new, {"format": "pt"})
        sync(self.folder)
        pairs = zip(plan.items, new, strict=True)
        return _done([WriteResult(item.index, t.size, Chunk(file, t.name, written)) for item, t in pairs])

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the metadata, then the manifest: from here on the folder is a checkpoint."""
        places = {result.index: result.storage_data for rank in results for result in rank}
        tensors = {name: described(name, known, places) for name, known in metadata.state_dict_metadata.items()}
        write_atomic(self.folder / METADATA, to_json({"format": FORMAT, "tensors": tensors}))
        write_manifest(self.folder, {place.file: place.written for place in places.values()})
        sync(self.folder)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Never chosen by torch on its own."""
        return False


class Reader(StorageReader):
    """Reads for `torch.distributed.checkpoint.load`, and compares every byte that it reads with the manifest.

    Raises CheckpointError that names all damaged tensors among those that were asked for.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Any] = {}
        self._places: dict[MetadataIndex, tuple[str, str]] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Take another folder."""
        if checkpoint_id is not None:
            self.folder = Path(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Manifest and metadata. Raises CheckpointError where they are missing, damaged, or do not agree."""
        if not self.folder.is_dir():
            raise CheckpointError(f"no checkpoint at {self.folder}")
        files = read_manifest(self.folder)
        if files is None or METADATA not in files:
            raise CheckpointError(f"{self.folder} is no training checkpoint: it has no manifest that lists {METADATA}")
        self._files = files
        body = self.document(METADATA)
        try:
            if body["format"] != FORMAT:
                raise ValueError(f"format {body['format']!r}, not {FORMAT!r}")
            return metadata_of(body["tensors"], files)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"{self.folder / METADATA} describes no tensors: {error!r}") from None

    def tensors(self) -> dict[str, TensorStorageMetadata]:
        """Shape, dtype and chunks of every tensor. Raises as `read_metadata` does."""
        return cast(dict[str, TensorStorageMetadata], self.read_metadata().state_dict_metadata)

    def document(self, name: str) -> Any:
        """Content of a JSON file of the folder. Raises CheckpointError where it is missing or was altered."""
        refuse(self._file_problems(name), self.folder)
        return read_json(self.folder / name)

    def documents(self) -> dict[str, Any]:
        """The JSON files of the folder by name without suffix, except the metadata. Raises CheckpointError."""
        names = [name for name in self._files if name.endswith(".json") and name != METADATA]
        return {Path(name).stem: self.document(name) for name in names}

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Learn where the chunks are."""
        self._places = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Refuse values that are no tensors."""
        refuse([f"{i.dest_index.fqn} is no tensor" for i in plan.items if i.type != LoadItemType.TENSOR], self.folder)
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Nothing to add."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read each chunk once, whole, and copy the parts that were asked for once its hash is right."""
        wanted: dict[str, dict[str, list[ReadItem]]] = {}
        for item in plan.items:
            file, key = self._places[item.storage_index]
            wanted.setdefault(file, {}).setdefault(key, []).append(item)
        problems = []
        for file, keys in sorted(wanted.items()):
            found = self._file_problems(file)
            problems += found
            for key, entry in [] if found else read_header(self.folder / file).items():
                if key in keys:
                    chunk = self._chunk(file, key, entry)
                    if isinstance(chunk, str):
                        problems.append(chunk)
                    else:
                        _deliver(chunk, keys[key], planner)
        refuse(problems, f"{self.folder} is damaged")
        return _done(None)

    def problems(self, rank: int = 0, world: int = 1, wanted: Callable[[str], bool] = lambda name: True) -> list[str]:
        """What is wrong with this rank's share of the folder's files; every byte is read, a piece at a time.

        wanted: of which tensors. Raises CheckpointError where metadata or manifest cannot be used.
        """
        self.read_metadata()
        problems = []
        for file in sorted(self._files)[rank::world]:
            found = self._file_problems(file)
            problems += found
            if "tensors" in self._files[file] and not found:
                entries = [(k, e) for k, e in read_header(self.folder / file).items() if wanted(k.partition("@")[0])]
                problems += [problem for key, entry in entries if (problem := self._entry_problem(file, key, entry))]
        return problems

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Never chosen by torch on its own."""
        return False

    def _file_problems(self, file: str) -> list[str]:
        """What differs from the manifest: of a file of tensors its length and header, of another one any byte."""
        expected, path = self._files[file], self.folder / file
        if not path.is_file():
            held = ", ".join(expected.get("tensors", ()))
            return [f"{file} is missing" + (f"; it held {held}" if held else "")]
        if "tensors" in expected:
            return header_problems(path, file, expected)
        return [] if fingerprint(path) == expected else [f"{file} was altered"]

    def _chunk(self, file: str, key: str, entry: Entry) -> Tensor | str:
        """The tensor, or what is wrong with it."""
        try:
            chunk = read_tensor(self.folder / file, entry)
        except (CheckpointError, OSError) as error:
            return f"{key} in {file}: {error}"
        return self._altered(file, key, hashlib.sha256(raw_bytes(chunk).numpy().data)) or chunk

    def _entry_problem(self, file: str, key: str, entry: Entry) -> str | None:
        digest = hashlib.sha256()
        try:
            for piece in read(self.folder / file, entry):
                digest.update(piece.numpy().data)
        except (CheckpointError, OSError) as error:
            return f"{key} in {file}: {error}"
        return self._altered(file, key, digest)

    def _altered(self, file: str, key: str, digest: Any) -> str | None:
        same = digest.hexdigest() == self._files[file]["tensors"][key][2]
        return None if same else f"{key} in {file} was altered"


def _unfit(item: WriteItem) -> str | None:
    if item.type == WriteItemType.BYTE_IO or item.tensor_data is None:
        return f"{item.index.fqn} is no tensor and would have to be pickled"
    dtype = item.tensor_data.properties.dtype
    return None if dtype in NAMES else f"{item.index.fqn} is {dtype}; accepted: {', '.join(map(str, NAMES))}"


def _new(item: WriteItem, planner: SavePlanner) -> New:
    data = item.tensor_data
    assert data is not None  # see prepare_local_plan
    whole = item.type == WriteItemType.TENSOR
    key = item.index.fqn if whole else f"{item.index.fqn}@{','.join(map(str, data.chunk.offsets))}"

    def pieces() -> Any:
        tensor = planner.resolve_data(item)
        assert isinstance(tensor, Tensor)
        yield tensor.detach().cpu().contiguous()

    return New(key, NAMES[data.properties.dtype], tuple(data.chunk.sizes), pieces)


def _deliver(chunk: Tensor, items: list[ReadItem], planner: LoadPlanner) -> None:
    for item in items:
        part = chunk
        for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
            part = part.narrow(dim, start, length)
        target = planner.resolve_tensor(item).detach()
        target.copy_(part)
        planner.commit_tensor(item, target)


def _done(value: Any) -> Any:
    future: Future[Any] = Future()
    future.set_result(value)
    return future
