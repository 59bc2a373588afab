"""Profiles: one YAML file of parameters for all notebooks. `embedded` repeats the notebooks' committed defaults.

parameters:
  all: {seed: 0}                          # for every notebook that has the parameter
  01_parallelism/01_model_and_flops: {}   # for one notebook
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from trex.launch import notebooks

FOLDER = Path(__file__).resolve().parents[1] / "profiles"


class ProfileError(ValueError):
    """An unknown profile, chapter or parameter."""


def names() -> list[str]:
    """The profiles that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(profile: str) -> dict[str, dict[str, Any]]:
    """Parameters by notebook name, and those for `all`; `profile` is a name or a YAML file."""
    path = FOLDER / f"{profile}.yaml" if profile in names() else Path(profile)
    if not path.is_file():
        raise ProfileError(f"profile {profile!r}; accepted: {', '.join(names())}, or a YAML file")
    try:
        body = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ProfileError(f"profile {path}: {error}") from None
    found = body.get("parameters") if isinstance(body, dict) and set(body) == {"parameters"} else None
    if not isinstance(found, dict) or not all(isinstance(v, dict) for v in found.values()):
        raise ProfileError(f"profile {path}: expected one mapping `parameters` of notebook → parameters")
    return {str(key): dict(value) for key, value in found.items()}


def assignments(pairs: Sequence[str]) -> dict[str, str]:
    """`["steps=5", "device=cpu"]` as a mapping of texts; `resolve` reads each as its parameter's type."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ProfileError(f"--set {pair!r}: expected name=value")
        found[key] = text
    return found


def select(chapters: Sequence[str], all_notebooks: Sequence[Path]) -> list[Path]:
    """The notebooks of the chapters asked for (`01`, `01_parallelism`, or one `01_parallelism/01_model_and_flops`)."""
    if not chapters:
        return list(all_notebooks)
    chosen: list[Path] = []
    for chapter in chapters:
        hits = [
            path
            for path in all_notebooks
            if chapter in (path.parent.name, path.parent.name.split("_")[0], notebooks.name(path))
        ]
        if not hits:
            known = sorted({path.parent.name for path in all_notebooks})
            raise ProfileError(f"chapter {chapter!r}; accepted: {', '.join(known)}, their numbers, or CHAPTER/NOTEBOOK")
        chosen += hits
    return [path for path in all_notebooks if path in chosen]


def resolve(
    profile: Mapping[str, Mapping[str, Any]],
    overrides: Mapping[str, str],
    chosen: Sequence[Path],
    known: Sequence[Path],
) -> dict[str, dict[str, Any]]:
    """Parameters of each chosen notebook: its defaults, then the profile, then the overrides (texts).

    Raises ProfileError for a notebook or parameter that does not exist, or a value of another type than the default.
    """
    every = [notebooks.name(path) for path in known]
    for key in profile:
        if key != "all" and key not in every:
            raise ProfileError(f"the profile names notebook {key!r}; accepted: all, {', '.join(every)}")
    defaults = {notebooks.name(path): _defaults(path, required=path in chosen) for path in known}
    everywhere = {name for values in defaults.values() for name in values}
    for key, values in profile.items():
        _refuse_unknown(values, everywhere if key == "all" else defaults[key], f"the profile, {key}")
    selected = [notebooks.name(path) for path in chosen]
    _refuse_unknown(overrides, {name for key in selected for name in defaults[key]}, "--set")
    resolved = {}
    for key in selected:
        values = dict(defaults[key])
        for name, default in defaults[key].items():
            for given in (profile.get("all", {}), profile.get(key, {})):
                values[name] = given.get(name, values[name])
            if name in overrides:
                values[name] = _read(f"{key}: {name}", overrides[name], default)
            _check_type(key, name, values[name], default)
        resolved[key] = values
    return resolved


def _defaults(path: Path, required: bool) -> dict[str, Any]:
    """Parameters of a notebook; a broken one that was not asked for has none."""
    try:
        return notebooks.parameters(path)
    except notebooks.NotebookError:
        if required:
            raise
        return {}


def _read(what: str, text: str, default: Any) -> Any:
    """A text from the command line as the default's type: text as it is, numbers as Python writes them, else YAML."""
    if isinstance(default, str):
        return text
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(default, int | float):
            return type(default)(text)
        return yaml.safe_load(text)
    except (ValueError, KeyError, RecursionError, yaml.YAMLError):
        raise ProfileError(f"{what}={text[:100]!r} is a str; accepted: {type(default).__name__}") from None


def _refuse_unknown(given: Mapping[str, Any], accepted: Any, where: str) -> None:
    unknown = [name for name in given if name not in accepted]
    if unknown:
        raise ProfileError(
            f"{where}: unknown parameter {unknown[0]!r}; accepted: {', '.join(sorted(accepted)) or 'none'}"
        )


def _check_type(notebook: str, name: str, value: Any, default: Any) -> None:
    same = type(value) is type(default) or default is None
    number = isinstance(default, float) and type(value) is int
    sequence = isinstance(default, tuple) and isinstance(value, list)
    shown, kind = repr(value)[:100], type(value).__name__
    if not (same or number or sequence):
        raise ProfileError(f"{notebook}: {name}={shown} is a {kind}; accepted: {type(default).__name__}")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ProfileError(f"{notebook}: {name}={shown}; accepted: finite numbers, text and lists of them") from None
