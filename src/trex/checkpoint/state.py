"""A training state as named tensors and JSON, and back: `model.<name>`, `optimizer.<kind>.<parameter>`.

The optimizer's state is named and put back here: torch's `set_optimizer_state_dict` takes a step with zero gradients to
learn its shape, which would give parameters that have no state, such as a frozen indexer's, one. With pieces, the names
are the global tensors', and this rank has blocks of some of them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from trex.checkpoint.errors import CheckpointError, refuse
from trex.checkpoint.pieces import Block, Share, held
from trex.model.pieces import Piece

MODEL, OPTIMIZER = "model.", "optimizer."
WRAPPERS = {"module", "_orig_mod", "_checkpoint_wrapped_module"}  # of DDP, torch.compile, activation checkpointing
INEXACT = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
Known = Mapping[str, TensorStorageMetadata]
Pieces = Mapping[str, Piece] | None


def model_tensors(model: nn.Module, pieces: Pieces) -> dict[str, Any]:
    """Parameters and buffers as they are in the model, not copied. Raises CheckpointError where one is not finite."""
    found = _named(model, pieces)
    refuse([name for name, value in found.items() if not _finite(value)], "not finite")
    return found


def share(model: nn.Module, optimizer: Optimizer | None, pieces: Pieces) -> Share:
    """What this rank has of the state. Raises CheckpointError as `optimizer_tensors` does."""
    document = None if optimizer is None else optimizer_tensors(optimizer, model, pieces)[1]
    return Share({name: held(value) for name, value in _named(model, pieces).items()}, document)


def model_targets(model: nn.Module, pieces: Pieces) -> dict[str, Any]:
    """Empty tensors, or blocks, for the model's."""
    return {
        name: Block(replace(value.piece, tensor=torch.empty_like(value.local)))
        if isinstance(value, Block)
        else torch.empty_like(value)
        for name, value in _named(model, pieces).items()
    }


def restore_model(model: nn.Module, pieces: Pieces, tensors: Mapping[str, Any]) -> None:
    """Give the model what was read into `model_targets`."""
    if pieces is None:
        set_model_state_dict(model, {name.removeprefix(MODEL): tensors[name] for name in model_names(tensors)})
        return
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()  # what was gathered of its parameters is of old values
    for name, piece in pieces.items():
        piece.local.detach().copy_(tensors[f"{MODEL}{name}"].local)


def compare(own: Mapping[str, tuple[torch.Size, torch.dtype | None]], known: Known) -> None:
    """Raise CheckpointError that lists the model's tensors that are missing, extra, or another one in the checkpoint.

    own: shape and dtype by name; dtype None: any.
    """
    problems = [f"{name} belongs to no part of the model" for name in model_names(known) if name not in own]
    for name, (shape, dtype) in own.items():
        if name not in known:
            problems.append(f"{name} is missing")
            continue
        size, kind = known[name].size, known[name].properties.dtype
        if size != shape or dtype not in (kind, None):
            problems.append(f"{name} is {kind} {list(size)}, not {dtype or kind} {list(shape)}")
    refuse(sorted(problems), "another model")


def model_names(known: Mapping[str, Any]) -> list[str]:
    """The names of the model's tensors."""
    return [name for name in known if name.startswith(MODEL)]


def optimizer_tensors(optimizer: Optimizer, model: nn.Module, pieces: Pieces) -> tuple[dict[str, Any], dict[str, Any]]:
    """The optimizer's tensors by name, and as JSON types its groups and whatever else its state holds.

    Raises CheckpointError for parameters that are not the model's, and for state that is neither of its parameter's
    shape nor one number where a rank has only a block of the parameter.
    """
    names: dict[Tensor, str] = {parameter: name for name, parameter in _parameters(model, pieces).items()}
    if any(parameter not in names for group in optimizer.param_groups for parameter in group["params"]):
        raise CheckpointError("the optimizer has parameters that are not the model's")
    tensors: dict[str, Any] = {}
    values: dict[str, dict[str, Any]] = {}
    for parameter, state in optimizer.state.items():
        name = names[parameter]
        for kind, value in state.items():
            if isinstance(value, Tensor):
                tensors[f"{OPTIMIZER}{kind}.{name}"] = value if pieces is None else _block(kind, name, value, pieces)
            else:
                values.setdefault(name, {})[kind] = value
    groups = [
        {name: value.item() if isinstance(value, Tensor) else value for name, value in group.items()}
        | {"params": sorted(names[parameter] for parameter in group["params"])}
        for group in optimizer.param_groups
    ]
    return tensors, {"class": _class(optimizer), "groups": groups, "values": values}


def check_optimizer(own: Mapping[str, Any], document: Any, known: Known) -> None:
    """Raise CheckpointError where the optimizer of all ranks has another class or other groups than the checkpoint's.

    own: its document. Of a group parameters and names of settings must agree; the settings themselves come from the
    checkpoint.
    """
    if document is None:
        raise CheckpointError("there is no optimizer in it")
    if document.get("class") != own["class"]:
        raise CheckpointError(f"its optimizer is {document.get('class')}, not {own['class']}")
    names = [sorted(group["params"]) for group in own["groups"]]
    if names != [sorted(group["params"]) for group in document["groups"]]:
        raise CheckpointError("its optimizer has other groups of parameters")
    for number, (here, there) in enumerate(zip(own["groups"], document["groups"], strict=True)):
        differing = sorted(here.keys() ^ there.keys())
        refuse(differing, f"its optimizer and this one do not both have these settings of group {number}")
    trained = {name for group in names for name in group}
    state = [key for key in known if key.startswith(OPTIMIZER)]
    refuse([key for key in state if _parts(key)[1] not in trained], "state of parameters that the optimizer has not")


def optimizer_targets(optimizer: Optimizer, model: nn.Module, pieces: Pieces, known: Known) -> dict[str, Any]:
    """Empty tensors, or blocks, for the optimizer's: of its own parameters' state in the checkpoint.

    Raises CheckpointError for state that cannot be split as this rank's block of the parameter is.
    """
    parameters = _parameters(model, pieces)
    # kernels that never leave the accelerator keep their step count there
    resident = {p for g in optimizer.param_groups for p in g["params"] if g.get("capturable") or g.get("fused")}
    targets: dict[str, Any] = {}
    for key in (key for key in known if key.startswith(OPTIMIZER)):
        kind, name = _parts(key)
        if name not in parameters:  # another rank's
            continue
        parameter, size, dtype = parameters[name], known[key].size, known[key].properties.dtype
        piece = None if pieces is None else pieces[name]
        if kind == "step":
            device = parameter.device if parameter in resident else torch.device("cpu")
            targets[key] = torch.empty(size, dtype=dtype, device=device)
        elif size == (parameter.shape if piece is None else torch.Size(piece.shape)):
            target = torch.empty_like(parameter, dtype=dtype, requires_grad=False)
            targets[key] = target if piece is None else Block(replace(piece, tensor=target))
        elif piece is None or _one_or_whole(size, piece):
            targets[key] = torch.empty(size, dtype=dtype, device=parameter.device)
        else:
            raise CheckpointError(f"{key} {list(size)} cannot be split as {name} {list(piece.shape)} is")
    return targets


def restore_optimizer(
    optimizer: Optimizer, model: nn.Module, pieces: Pieces, tensors: Mapping[str, Any], document: Any
) -> None:
    """Give the optimizer the state that was read, and the groups' settings: nothing of its own state is left."""
    parameters = _parameters(model, pieces)
    optimizer.state.clear()
    for key, value in tensors.items():
        if key.startswith(OPTIMIZER):
            kind, name = _parts(key)
            optimizer.state[parameters[name]][kind] = value.piece.tensor if isinstance(value, Block) else value
    for name, values in document["values"].items():
        if name in parameters:
            optimizer.state[parameters[name]].update(values)
    for group, saved in zip(optimizer.param_groups, document["groups"], strict=True):
        for name, value in saved.items():
            if isinstance(group.get(name), Tensor):
                group[name].fill_(value)
            elif name != "params":
                group[name] = tuple(value) if isinstance(value, list) else value


def _class(optimizer: Optimizer) -> str:
    return f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"


def _parts(key: str) -> tuple[str, str]:
    """Kind of state and parameter."""
    kind, name = key.removeprefix(OPTIMIZER).split(".", 1)
    return kind, name


def _block(kind: str, name: str, value: Tensor, pieces: Mapping[str, Piece]) -> Any:
    """The part of a global tensor that the state of a parameter is, or the state itself where all ranks have the same.

    The step count is told by its name, as that of a parameter of one number looks like its moments.
    """
    piece = pieces[name]
    found = replace(piece, tensor=value)
    if kind != "step" and value.shape == piece.tensor.shape and found.local.shape == piece.local.shape:
        return Block(found)
    if not _one_or_whole(value.shape, piece):
        said = f"{OPTIMIZER}{kind}.{name} {list(value.shape)}"
        raise CheckpointError(f"{said} is neither one number nor split as its parameter {list(piece.tensor.shape)} is")
    return value


def _one_or_whole(size: torch.Size, piece: Piece) -> bool:
    """Whether state of this size is the same on all ranks: one number, or of a parameter that is not split."""
    return size.numel() == 1 or piece.local.shape == torch.Size(piece.shape)


def _named(model: nn.Module, pieces: Pieces) -> dict[str, Any]:
    if pieces is not None:
        return {f"{MODEL}{name}": Block(piece) for name, piece in pieces.items()}
    return {f"{MODEL}{name}": value for name, value in get_model_state_dict(model).items()}


def _parameters(model: nn.Module, pieces: Pieces) -> dict[str, Tensor]:
    """Parameters by the names that they have in the model's state."""
    if pieces is not None:
        return {name: piece.tensor for name, piece in pieces.items() if isinstance(piece.tensor, nn.Parameter)}
    names = get_model_state_dict(model).keys()  # FSDP shards its parameters again here, if they are not
    found = {
        ".".join(part for part in name.split(".") if part not in WRAPPERS): parameter
        for name, parameter in model.named_parameters()
    }
    refuse([f"{name} is not in the model's state" for name in found if name not in names], "the optimizer")
    return dict(found)


def _finite(value: Any) -> bool:
    local = value.to_local() if isinstance(value, DTensor) else value.local if isinstance(value, Block) else value
    return not isinstance(local, Tensor) or local.dtype not in INEXACT or bool(local.isfinite().all())
