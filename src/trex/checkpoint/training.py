"""Checkpoints of a training run: model, optimizer, generators and JSON documents, written by all ranks together.

torch.distributed.checkpoint plans who writes and reads which piece, so a checkpoint can be loaded by another number of
ranks and with other placements than it was saved with.
"""

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn

from trex.checkpoint.errors import CheckpointError, refuse
from trex.checkpoint.manifest import MANIFEST, to_json
from trex.checkpoint.pieces import LoadPlanner, SavePlanner, Share, model_of, optimizer_of
from trex.checkpoint.state import (
    MODEL,
    Known,
    check_optimizer,
    compare,
    model_names,
    model_targets,
    model_tensors,
    optimizer_targets,
    optimizer_tensors,
    restore_model,
    restore_optimizer,
    share,
)
from trex.checkpoint.steps import identity, newest_first, put, refuse_name, saving, unfinished
from trex.checkpoint.storage import METADATA, Reader, Writer
from trex.checkpoint.together import Together
from trex.files import write_atomic
from trex.model.config import ConfigError, ModelConfig
from trex.model.pieces import Piece
from trex.model.transformer import Transformer
from trex.results import NAME

OPTIMIZER = "optimizer"  # its document
RESERVED = (Path(MANIFEST).stem, Path(METADATA).stem, OPTIMIZER)
TRIES = 10  # of a reader, while others put checkpoints in place
T = TypeVar("T")


@dataclass(frozen=True)
class TrainingState:
    """What a run needs to go on. Each rank has its own model, optimizer and generators; documents are the first rank's.

    An accelerator's random generators are saved where they are given. `documents["config"]`, the fields of a
    ModelConfig, lets `load_model` build the model.
    pieces: this rank's blocks of the model's parameters and buffers by the names of the global tensors, where the model
    is split by other means than DTensors alone; its tensors are those that the optimizer has. All ranks together hold
    the whole of each, some of it several times: the checkpoint is that of the whole model. None: the model tells all.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer | None = None
    documents: Mapping[str, Any] = field(default_factory=dict)  # JSON by name, such as "trainer", "tokenizer"
    generators: Mapping[str, torch.Generator] = field(default_factory=lambda: {"torch": torch.default_generator})
    pieces: Mapping[str, Piece] | None = None


def save(
    folder: str | PathLike[str], state: TrainingState, *, keep: int | None = None,
    process_group: dist.ProcessGroup | None = None,
) -> Path:  # fmt: skip
    """Write `folder`, named `step-<number>`, whole or not at all, with all ranks of the group; returns `folder`.

    The ranks must see one file system. An existing folder is replaced. keep: how many checkpoints stay in the folder's
    parent, those of the highest steps; None: all.
    Raises one CheckpointError on all ranks when any of them fails, and for weights that are not finite, values that
    JSON or safetensors cannot hold, bad names, and while another process saves in the same parent; what was there
    before stays as it was.
    """
    ranks, folder = Together(process_group), Path(folder)
    what = f"{folder} was not written"
    refuse_name(folder)
    if keep is not None and keep < 1:
        raise CheckpointError(f"keep = {keep}; accepted: from 1")
    tensors, mine = ranks.call(lambda: _contents(state, ranks.rank), what)
    shares = ranks.gather(mine)
    documents = ranks.call(lambda: _documents(state, shares), what)
    with ExitStack() as until_put:
        ranks.of_first(lambda: _begin(folder, documents, until_put), what)
        writer = Writer(unfinished(folder))
        ranks.checkpoint(dcp.save, tensors, what, storage_writer=writer, planner=SavePlanner())
        ranks.of_first(lambda: put(folder, keep), f"{folder} was not put in place")
    return folder


def load(
    folder: str | PathLike[str], state: TrainingState, *, process_group: dist.ProcessGroup | None = None
) -> dict[str, Any]:
    """Put what `folder` holds into the state's model, optimizer and generators; returns its documents.

    The number of ranks and the placements need not be those of the save. A generator that the checkpoint does not have
    for this rank is left alone. Raises one CheckpointError on all ranks, which names every tensor that is damaged,
    missing, extra or misshapen, for an optimizer of another class or with other groups, and for a generator that does
    not take its state; the state is then as it was.
    """
    ranks, folder = Together(process_group), Path(folder)
    reader = Reader(folder)

    def own() -> tuple[Known, dict[str, Any], Share]:
        return reader.tensors(), reader.documents(), share(state.model, state.optimizer, state.pieces)

    def prepare(known: Known, documents: dict[str, Any], shares: list[Share]) -> dict[str, Any]:
        compare(model_of(shares), known)
        targets = model_targets(state.model, state.pieces)
        if (document := optimizer_of(shares)) is not None and state.optimizer is not None:
            check_optimizer(document, documents.get(OPTIMIZER), known)
            targets |= optimizer_targets(state.optimizer, state.model, state.pieces, known)
        for key in (_generator(ranks.rank, name) for name in state.generators):
            if key in known:
                targets[key] = torch.empty(known[key].size, dtype=torch.uint8)
        return targets

    def read() -> tuple[dict[str, Any], dict[str, Any]]:
        known, documents, mine = ranks.call(own, str(folder))
        shares = ranks.gather(mine)
        targets = ranks.call(lambda: prepare(known, documents, shares), str(folder))
        ranks.checkpoint(dcp.load, targets, storage_reader=reader, planner=LoadPlanner())
        return targets, documents

    targets, documents = _of_one(folder, ranks, read)
    states = {n: targets[key] for n in state.generators if (key := _generator(ranks.rank, n)) in targets}
    ranks.call(lambda: _try_states(state.generators, states), str(folder))
    restore_model(state.model, state.pieces, targets)
    saved = documents.pop(OPTIMIZER, None)
    if state.optimizer is not None:
        restore_optimizer(state.optimizer, state.model, state.pieces, targets, saved)
    for name, value in states.items():
        state.generators[name].set_state(value)
    return documents


def newest(parent: str | PathLike[str], *, process_group: dist.ProcessGroup | None = None) -> Path | None:
    """The last whole checkpoint of a run, or None; a warning names each damaged one that is passed over.

    All bytes are read, the files shared out among the ranks. Another process may save meanwhile.
    """
    ranks, parent = Together(process_group), Path(parent)

    def listing() -> list[tuple[Path, Any]]:
        return [(path, identity(path)) for path in newest_first(parent)]

    for _ in range(TRIES):
        listed = ranks.of_first(listing, str(parent))
        path, refused = _first_whole(ranks, [path for path, _ in listed])
        # what was refused may have been replaced or removed
        if (path is not None and not refused) or ranks.of_first(listing, str(parent)) == listed:
            break
    for error in refused:
        warnings.warn(f"checkpoint refused, the one before is tried: {error}", stacklevel=2)
    return path


def read_documents(folder: str | PathLike[str]) -> dict[str, Any]:
    """The JSON documents of a checkpoint, without its tensors. Raises CheckpointError."""
    reader = Reader(Path(folder))

    def read() -> dict[str, Any]:
        reader.read_metadata()
        return reader.documents()

    alone = Together(alone=True)
    documents = _of_one(reader.folder, alone, lambda: alone.call(read))
    documents.pop(OPTIMIZER, None)
    return documents


def model_config(documents: Mapping[str, Any]) -> ModelConfig:
    """The model's config among a checkpoint's documents. Raises CheckpointError where it is missing or no model's."""
    body = documents.get("config")
    if not isinstance(body, dict):
        raise CheckpointError("there is no model's config among the documents")
    try:
        return ModelConfig(**{**body, "compress_ratios": tuple(body["compress_ratios"])})
    except (TypeError, KeyError, ConfigError) as error:
        raise CheckpointError(f"the config describes no model: {error}") from None


def load_model(folder: str | PathLike[str]) -> Transformer:
    """The model of a checkpoint that has its config, on the CPU, in the dtypes it was saved in; by this process alone.

    Raises CheckpointError as `load` does.
    """
    alone, folder = Together(alone=True), Path(folder)
    reader = Reader(folder)

    def prepare() -> tuple[Transformer, dict[str, Tensor]]:
        known = reader.tensors()
        model = Transformer(model_config(reader.documents()))
        compare({f"{MODEL}{name}": (value.shape, None) for name, value in model.state_dict().items()}, known)
        return model, {n: torch.empty(known[n].size, dtype=known[n].properties.dtype) for n in model_names(known)}

    def read() -> tuple[Transformer, dict[str, Tensor]]:
        model, weights = alone.call(prepare, str(folder))
        alone.checkpoint(dcp.load, weights, storage_reader=reader, planner=LoadPlanner())
        return model, weights

    model, weights = _of_one(folder, alone, read)
    model.load_state_dict({name.removeprefix(MODEL): value for name, value in weights.items()}, assign=True)
    return model


def _contents(state: TrainingState, rank: int) -> tuple[dict[str, Any], Share]:
    """All tensors of this rank, and what it has of the state. Raises CheckpointError for what cannot be kept."""
    bad = [name for name in state.documents if not NAME.fullmatch(name) or name in RESERVED]
    refuse([f"{name!r} names no document" for name in bad], "letters, digits, '_', '-' and '.' are accepted")
    tensors = model_tensors(state.model, state.pieces)
    if state.optimizer is not None:
        tensors |= optimizer_tensors(state.optimizer, state.model, state.pieces)[0]
    tensors |= {_generator(rank, name): generator.get_state() for name, generator in state.generators.items()}
    return tensors, share(state.model, state.optimizer, state.pieces)


def _documents(state: TrainingState, shares: list[Share]) -> dict[str, bytes]:
    """The documents as bytes, among them the optimizer's of all ranks. Raises CheckpointError where they differ."""
    model_of(shares)
    document = optimizer_of(shares)
    documents = {**state.documents, **({} if document is None else {OPTIMIZER: document})}
    return {name: _json(name, content) for name, content in documents.items()}


def _json(name: str, content: Any) -> bytes:
    try:
        return to_json(content)
    except CheckpointError as error:
        raise CheckpointError(f"{name}: {error}") from None


def _begin(folder: Path, documents: Mapping[str, bytes], until_put: ExitStack) -> None:
    temporary = until_put.enter_context(saving(folder))
    for name, content in documents.items():
        write_atomic(temporary / f"{name}.json", content)


def _of_one(folder: Path, ranks: Together, read: Callable[[], T]) -> T:
    """What `read` gives or raises, once more where another checkpoint took the folder's name or it went meanwhile."""
    for _ in range(TRIES):
        failure, before = None, ranks.of_first(partial(identity, folder))
        try:
            result = read()
        except CheckpointError as error:
            failure = error
        if ranks.of_first(partial(identity, folder)) == before:
            break
        failure = failure or CheckpointError(f"{folder} was replaced while it was read")
    if failure is not None:
        raise failure
    return result


def _first_whole(ranks: Together, paths: list[Path]) -> tuple[Path | None, list[CheckpointError]]:
    """The first checkpoint without damage, and why those before it are refused."""

    def check(path: Path) -> None:
        refuse(Reader(path).problems(ranks.rank, ranks.world), f"{path} is damaged")

    refused: list[CheckpointError] = []
    for path in paths:
        try:
            ranks.call(partial(check, path))
            return path, refused
        except CheckpointError as error:
            refused.append(error)
    return None, refused


def _try_states(generators: Mapping[str, torch.Generator], states: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError for states that the generators would not take; they are left alone."""
    for name, state in states.items():
        try:
            torch.Generator(generators[name].device).set_state(state)
        except (RuntimeError, TypeError) as error:
            raise CheckpointError(f"generator {name} does not take its state: {error}") from None


def _generator(rank: int, name: str) -> str:
    return f"generators.{rank}.{name}"
