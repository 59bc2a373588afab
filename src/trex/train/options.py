"""Layouts and recipes as texts and files: what `trex train` is told, read field by field.

layout("tp=2,pp=2,ep=2,sharding=parameters,sequence_parallel=true,stage_layers=2/4")
recipe("embedded_cpt", ["steps=100", "peak_lr=3e-3", "betas=0.9/0.95"])
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from trex.model.layout import DIMENSIONS, Layout, LayoutError
from trex.train.recipes import (
    PROGRESSIVE,
    PUBLISHED,
    TrainConfig,
    TrainError,
    embedded_cpt,
    embedded_sft,
    progressive_sft,
    published,
)

FILES = (".yaml", ".yml", ".json")
RECIPES: Mapping[str, Callable[[], TrainConfig]] = {
    "embedded_cpt": embedded_cpt,
    "embedded_sft": embedded_sft,
    **{f"published_{name}": partial(published, name) for name in PUBLISHED},
    **{f"published_sft_{stage}": partial(progressive_sft, stage) for stage in PROGRESSIVE},
}
OF_RECIPE = ("micro_batch", "global_batch")  # which the trainer takes from the recipe
NOT_READ = (*OF_RECIPE, "precision")  # for the planner
LAYOUT_FIELDS = tuple(field.name for field in fields(Layout) if field.name not in NOT_READ)
RECIPE_FIELDS = get_type_hints(TrainConfig)
WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
BOOLS = {"true": True, "false": False}


def layout(text: str) -> Layout:
    """The layout of a text "name=value,…", or of a YAML or JSON file of the fields; of an empty text, one rank's.

    Positions and sizes of stages are separated by "/". Rows per step are the recipe's. Raises LayoutError.
    """
    given = _file(Path(text), LayoutError) if text.endswith(FILES) else _pairs(text.split(","), LayoutError)
    for name in given:
        if name not in LAYOUT_FIELDS:
            hint = "; rows are the recipe's (--set)" if name in OF_RECIPE else ""
            raise LayoutError(f"layout field {name!r}; accepted: {', '.join(LAYOUT_FIELDS)}{hint}")
    return Layout(**{name: _layout_value(name, value) for name, value in given.items()})


def recipe(name: str, changes: Iterable[str] = (), seed: int | None = None) -> TrainConfig:
    """A recipe by name, or a YAML or JSON file of the fields of TrainConfig, with fields replaced by "name=value".

    seed: of the order of rows, unless a change or the file says otherwise. Raises TrainError.
    """
    if name in RECIPES:
        base = asdict(RECIPES[name]())
        base.pop("seed")
    elif name.endswith(FILES):
        base = _file(Path(name), TrainError)
    else:
        raise TrainError(f"recipe {name!r}; accepted: {', '.join(RECIPES)}, or a file ({', '.join(FILES)})")
    given = {**({} if seed is None else {"seed": seed}), **base, **_pairs(changes, TrainError)}
    values = {field: _recipe_value(field, value) for field, value in given.items()}
    needed = ["steps", "global_batch", "micro_batch", "seq_len", "peak_lr", "min_lr", "warmup_steps"]
    if missing := [field for field in needed if field not in values]:
        raise TrainError(f"recipe {name} lacks {', '.join(missing)}")
    return TrainConfig(**values)


def described(chosen: Layout) -> str:
    """A layout in the form that `layout` reads: what differs from one rank's."""
    plain = Layout()
    parts = []
    for name in LAYOUT_FIELDS:
        value = getattr(chosen, name)
        if value != getattr(plain, name):
            shown = "/".join(map(str, value)) if isinstance(value, tuple) else str(value)
            parts.append(f"{name}={shown.lower() if isinstance(value, bool) else shown}")
    return ",".join(parts) or "tp=1"


def _pairs(parts: Iterable[str], error: type[ValueError]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in parts:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not part.strip():
            continue
        if not (name and equals and value):
            raise error(f"{part.strip()[:80]!r}; accepted: name=value")
        if name in found:
            raise error(f"{name} is given twice: {found[name]} and {value}")
        found[name] = value
    return found


def _file(path: Path, error: type[ValueError]) -> dict[str, Any]:
    """JSON is YAML."""
    try:
        body = yaml.safe_load(path.read_bytes())
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as reason:
        said = reason.strerror if isinstance(reason, OSError) else " ".join(str(reason).split())
        raise error(f"{path} cannot be read: {said}") from None
    if not isinstance(body, Mapping) or not all(isinstance(name, str) for name in body):
        raise error(f"{path} holds a {type(body).__name__}; accepted: a mapping of fields")
    return dict(body)


def _layout_value(name: str, value: Any) -> Any:
    """As the field's type where the text can be that; `Layout` refuses the rest."""
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, str):
        return value
    parts = value.split("/")
    if name in ("noop_layers", "stage_layers") and all(WHOLE.fullmatch(part) for part in parts):
        return tuple(map(int, parts))
    if name in DIMENSIONS and WHOLE.fullmatch(value):
        return int(value)
    return BOOLS.get(value.lower(), value)


def _recipe_value(name: str, value: Any) -> Any:
    kind = RECIPE_FIELDS.get(name)
    if kind is None:
        raise TrainError(f"recipe field {name!r}; accepted: {', '.join(RECIPE_FIELDS)}")
    if kind is str and isinstance(value, str):
        return value
    if kind is bool:
        found = BOOLS.get(value.lower()) if isinstance(value, str) else value
        if isinstance(found, bool):
            return found
    elif kind is int:
        found = int(value) if isinstance(value, str) and WHOLE.fullmatch(value) else value
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    elif kind is float:
        if (number := _number(value)) is not None:
            return number
    elif kind is not str:  # betas
        parts = value.split("/") if isinstance(value, str) else value
        numbers = [_number(part) for part in parts] if isinstance(parts, list | tuple) else []
        if len(numbers) == 2 and None not in numbers:
            return tuple(numbers)
    accepted = {bool: "true, false", int: "whole numbers", float: "numbers", str: "text"}.get(kind, "two: 0.9/0.95")
    raise TrainError(f"{name} = {str(value)[:80]!r}; accepted: {accepted}")


def _number(value: Any) -> float | None:
    """YAML 1.1 reads 1e-3 as a text."""
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
