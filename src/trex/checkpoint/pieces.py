"""One rank's blocks of global tensors, for torch.distributed.checkpoint, and what the blocks of all ranks make up.

torch asks three methods of what it saves or loads (`torch.distributed._checkpointable`): what there is to write, which
part of the whole there is room for, and the tensor of such a part. Its planners ask them of tensors only; ours of
blocks too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

from trex.checkpoint.errors import refuse
from trex.model.pieces import Piece

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Block:
    """A piece as torch.distributed.checkpoint takes it. An empty one, of a tensor that is not, is not there."""

    piece: Piece

    @property
    def local(self) -> Tensor:
        """The elements, shared with the piece."""
        return self.piece.local.detach()

    def __create_write_items__(self, fqn: str, object: object) -> list[WriteItem]:
        whole, local = torch.Size(self.piece.shape), self.local
        kind = WriteItemType.TENSOR if local.shape == whole else WriteItemType.SHARD
        properties = TensorProperties.create_from_tensor(local)
        return [
            WriteItem(MetadataIndex(fqn, chunk.offsets), kind, tensor_data=TensorWriteData(chunk, properties, whole))
            for chunk in self.__create_chunk_list__()
        ]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        size = self.local.shape
        there = prod(size) or not prod(self.piece.shape)
        return [ChunkStorageMetadata(torch.Size(self.piece.offset), size)] if there else []

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        return self.local


class SavePlanner(DefaultSavePlanner):
    """Plans tensors and blocks by name, without nesting; what several ranks have is written once."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The tensor to write."""
        found = self.state_dict[index.fqn]
        return found.__get_tensor_shard__(index) if isinstance(found, Block) else super().lookup_object(index)


class LoadPlanner(DefaultLoadPlanner):
    """Plans the reading of tensors and blocks by name, without nesting."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take the targets as they are: torch's own would drop what is no tensor."""
        self.state_dict = self.original_state_dict = state_dict
        self.metadata, self.is_coordinator = metadata, is_coordinator

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """The tensor to read into."""
        found = self.state_dict[index.fqn]
        return found.__get_tensor_shard__(index) if isinstance(found, Block) else super().lookup_tensor(index)


@dataclass(frozen=True)
class Held:
    """What one rank has of a tensor."""

    shape: Numbers  # of the whole tensor
    dtype: torch.dtype
    block: tuple[Numbers, Numbers] | None  # offset and size of a block; None of a tensor that torch itself knows whole

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


@dataclass(frozen=True)
class Share:
    """What one rank has of a training state: its part of the model by name, and the optimizer's document."""

    tensors: dict[str, Held]
    optimizer: dict[str, Any] | None


def held(value: Any) -> Held:
    """Of a tensor or block."""
    if not isinstance(value, Block):
        return Held(tuple(value.shape), value.dtype, None)
    piece, local = value.piece, value.local
    return Held(tuple(piece.shape), local.dtype, (tuple(piece.offset), tuple(local.shape)))


def model_of(shares: Sequence[Share]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """Shape and dtype of each tensor of the model that the ranks have together.

    Raises CheckpointError where they disagree about one, and where their blocks do not make up the whole of one.
    """
    ranks: dict[str, dict[int, Held]] = {}
    for rank, share in enumerate(shares):
        for name, found in share.tensors.items():
            ranks.setdefault(name, {})[rank] = found
    refuse([line for name, found in sorted(ranks.items()) for line in _disagreements(name, found)], "the ranks' blocks")
    first = {name: next(iter(found.values())) for name, found in ranks.items()}
    return {name: (torch.Size(found.shape), found.dtype) for name, found in first.items()}


def optimizer_of(shares: Sequence[Share]) -> dict[str, Any] | None:
    """The document of the optimizers that the ranks have together, names of parameters sorted within a group.

    Raises CheckpointError where one rank has another class, other groups or settings, or where only some have any.
    """
    documents = [share.optimizer for share in shares]
    first, problems = documents[0], []
    for rank, other in enumerate(documents[1:], 1):
        problems += [f"rank {rank} has {line}" for line in _other_optimizer(first, other)]
    refuse(problems, "the ranks have different optimizers")
    if first is None:
        return None
    groups = []
    for number, group in enumerate(first["groups"]):
        names = {name for one in documents if one is not None for name in one["groups"][number]["params"]}
        groups.append({**group, "params": sorted(names)})
    values = {name: value for one in reversed(documents) if one is not None for name, value in one["values"].items()}
    return {**first, "groups": groups, "values": dict(sorted(values.items()))}


def _disagreements(name: str, ranks: Mapping[int, Held]) -> Iterator[str]:
    kinds: dict[str, list[int]] = {}
    for rank, found in ranks.items():
        kinds.setdefault(f"{found}{'' if found.block else ' without blocks'}", []).append(rank)
    if len(kinds) > 1:
        yield f"{name} is " + ", ".join(f"{kind} on rank {', '.join(map(str, who))}" for kind, who in kinds.items())
        return
    blocks: dict[Numbers, Numbers] = {}
    shape = next(iter(ranks.values())).shape
    for rank, found in ranks.items():
        offset, size = found.block or ((0,) * len(shape), shape)
        fits = len(offset) == len(size) == len(shape)
        if not fits or any(o < 0 or o + s > n for o, s, n in zip(offset, size, shape, strict=True)):
            yield f"{name} {list(shape)} has no block {list(size)} at {list(offset)}, as rank {rank} says"
            return
        if prod(size) and blocks.setdefault(offset, size) != size:
            yield f"{name} has blocks {list(blocks[offset])} and {list(size)} at {list(offset)}"
            return
    if (elements := sum(map(prod, blocks.values()))) != prod(shape):
        yield f"{name} {list(shape)} has {prod(shape)} elements, its blocks {elements}"


def _other_optimizer(first: dict[str, Any] | None, other: dict[str, Any] | None) -> Iterator[str]:
    """How a rank's optimizer differs from the first rank's, parameters apart."""
    if first is None or other is None:
        if first is not other:
            yield "none" if other is None else "one, rank 0 has none"
        return
    if first["class"] != other["class"]:
        yield f"{other['class']}, not {first['class']}"
    elif len(first["groups"]) != len(other["groups"]):
        yield f"{len(other['groups'])} groups, not {len(first['groups'])}"
    for number, (one, two) in enumerate(zip(first["groups"], other["groups"], strict=False)):
        keys = sorted((one.keys() | two.keys()) - {"params"})
        if differing := [key for key in keys if key not in one or key not in two or one[key] != two[key]]:
            yield f"other settings of group {number}: {', '.join(differing)}"
    for name in first["values"].keys() & other["values"].keys():
        if first["values"][name] != other["values"][name]:
            yield f"another state of {name}"
