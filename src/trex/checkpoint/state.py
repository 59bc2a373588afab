"""A training state as named tensors and JSON, and back: `model.<name>`, `optimizer.<kind>.<parameter>`.

The optimizer's state is named and put back here: torch's `set_optimizer_state_dict` takes a step with zero gradients to
learn its shape, which would give parameters that have no state, such as a frozen indexer's, one.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from trex.checkpoint.errors import CheckpointError, refuse

MODEL, OPTIMIZER = "model.", "optimizer."
WRAPPERS = {"module", "_orig_mod", "_checkpoint_wrapped_module"}  # of DDP, torch.compile, activation checkpointing
INEXACT = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
Known = Mapping[str, TensorStorageMetadata]


def model_tensors(model: nn.Module) -> dict[str, Any]:
    """Parameters and buffers as they are in the model, not copied. Raises CheckpointError where one is not finite."""
    found = _named(model)
    refuse([name for name, value in found.items() if not _finite(value)], "not finite")
    return found


def model_targets(model: nn.Module, known: Known) -> dict[str, Tensor]:
    """Empty tensors for the model's. Raises CheckpointError that lists what is missing, extra, or another tensor."""
    own = _named(model)
    compare({name: (value.shape, value.dtype) for name, value in own.items()}, known)
    return {name: torch.empty_like(value) for name, value in own.items()}


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


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The optimizer's tensors by name, and as JSON types its groups and whatever else its state holds."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in _parameters(model).items()}
    if any(parameter not in names for group in optimizer.param_groups for parameter in group["params"]):
        raise CheckpointError("the optimizer has parameters that are not the model's")
    tensors: dict[str, Tensor] = {}
    values: dict[str, dict[str, Any]] = {}
    for parameter, state in optimizer.state.items():
        for kind, value in state.items():
            if isinstance(value, Tensor):
                tensors[f"{OPTIMIZER}{kind}.{names[parameter]}"] = value
            else:
                values.setdefault(names[parameter], {})[kind] = value
    groups = [
        {name: value.item() if isinstance(value, Tensor) else value for name, value in group.items()}
        | {"params": [names[parameter] for parameter in group["params"]]}
        for group in optimizer.param_groups
    ]
    return tensors, {"class": _class(optimizer), "groups": groups, "values": values}


def optimizer_targets(optimizer: Optimizer, model: nn.Module, known: Known, document: Any) -> dict[str, Tensor]:
    """Empty tensors for the optimizer's. Raises CheckpointError where its class or its groups are not the checkpoint's.

    Of a group parameters and names of settings must agree; the settings themselves come from the checkpoint.
    """
    if document is None:
        raise CheckpointError("there is no optimizer in it")
    if document.get("class") != _class(optimizer):
        raise CheckpointError(f"its optimizer is {document.get('class')}, not {_class(optimizer)}")
    own = optimizer_tensors(optimizer, model)[1]["groups"]
    if [group["params"] for group in own] != [group["params"] for group in document["groups"]]:
        raise CheckpointError("its optimizer has other groups of parameters")
    for number, (here, there) in enumerate(zip(own, document["groups"], strict=True)):
        differing = sorted(here.keys() ^ there.keys())
        refuse(differing, f"its optimizer and this one do not both have these settings of group {number}")
    parameters = _parameters(model)
    # kernels that never leave the accelerator keep their step count there
    resident = {p for g in optimizer.param_groups for p in g["params"] if g.get("capturable") or g.get("fused")}
    targets = {}
    for key in (key for key in known if key.startswith(OPTIMIZER)):
        kind, name = key.removeprefix(OPTIMIZER).split(".", 1)
        parameter, size, dtype = parameters[name], known[key].size, known[key].properties.dtype
        if kind == "step":
            device = parameter.device if parameter in resident else torch.device("cpu")
            targets[key] = torch.empty(size, dtype=dtype, device=device)
        elif size == parameter.shape:
            targets[key] = torch.empty_like(parameter, dtype=dtype, requires_grad=False)
        else:
            targets[key] = torch.empty(size, dtype=dtype, device=parameter.device)
    return targets


def restore_optimizer(optimizer: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor], document: Any) -> None:
    """Give the optimizer the state that was read, and the groups' settings: nothing of its own state is left."""
    parameters = _parameters(model)
    optimizer.state.clear()
    for key, tensor in tensors.items():
        if key.startswith(OPTIMIZER):
            kind, name = key.removeprefix(OPTIMIZER).split(".", 1)
            optimizer.state[parameters[name]][kind] = tensor
    for name, values in document["values"].items():
        optimizer.state[parameters[name]].update(values)
    for group, saved in zip(optimizer.param_groups, document["groups"], strict=True):
        for name, value in saved.items():
            if isinstance(group.get(name), Tensor):
                group[name].fill_(value)
            elif name != "params":
                group[name] = tuple(value) if isinstance(value, list) else value


def _class(optimizer: Optimizer) -> str:
    return f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"


def _named(model: nn.Module) -> dict[str, Any]:
    return {f"{MODEL}{name}": value for name, value in get_model_state_dict(model).items()}


def _parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Parameters by the names that they have in the model's state."""
    names = get_model_state_dict(model).keys()  # FSDP shards its parameters again here, if they are not
    found = {
        ".".join(part for part in name.split(".") if part not in WRAPPERS): parameter
        for name, parameter in model.named_parameters()
    }
    refuse([f"{name} is not in the model's state" for name in found if name not in names], "the optimizer")
    return found


def _finite(value: Any) -> bool:
    local = value.to_local() if isinstance(value, DTensor) else value
    return not isinstance(local, Tensor) or local.dtype not in INEXACT or bool(local.isfinite().all())
