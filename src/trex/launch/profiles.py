"""Profiles: one YAML file of parameters for all notebooks. `embedded` repeats the notebooks' committed defaults.

parameters:
  all: {seed: 0}                          # for every notebook that has the parameter
  01_parallelism/01_model_and_flops: {}   # for one notebook
"""

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
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ProfileError(f"profile {path}: {error}") from None
    found = body.get("parameters") if isinstance(body, dict) and set(body) == {"parameters"} else None
    if not isinstance(found, dict) or not all(isinstance(v, dict) for v in found.values()):
        raise ProfileError(f"profile {path}: expected one mapping `parameters` of notebook → parameters")
    return {str(key): dict(value) for key, value in found.items()}


def assignments(pairs: Sequence[str]) -> dict[str, Any]:
    """`["steps=5", "device=cpu"]` as a mapping; values are YAML scalars or lists."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ProfileError(f"--set {pair!r}: expected name=value")
        try:
            found[key] = yaml.safe_load(text) if text else ""
        except yaml.YAMLError:
            raise ProfileError(f"--set {pair!r}: the value is not a YAML scalar or list") from None
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
    overrides: Mapping[str, Any],
    chosen: Sequence[Path],
    known: Sequence[Path],
) -> dict[str, dict[str, Any]]:
    """Parameters of each chosen notebook: its defaults, then the profile, then the overrides.

    Raises ProfileError for a notebook or parameter that does not exist, or a value of another type than the default.
    """
    defaults = {notebooks.name(path): notebooks.parameters(path) for path in known}
    for key, values in profile.items():
        if key != "all" and key not in defaults:
            raise ProfileError(f"the profile names notebook {key!r}; accepted: all, {', '.join(defaults)}")
        accepted = defaults[key] if key != "all" else {name for values in defaults.values() for name in values}
        _refuse_unknown(values, accepted, f"the profile, {key}")
    selected = [notebooks.name(path) for path in chosen]
    _refuse_unknown(overrides, {name for key in selected for name in defaults[key]}, "--set")
    resolved = {}
    for key in selected:
        merged = {**profile.get("all", {}), **profile.get(key, {}), **overrides}
        values = {**defaults[key], **{name: merged[name] for name in defaults[key] if name in merged}}
        for name, value in values.items():
            _check_type(key, name, value, defaults[key][name])
        resolved[key] = values
    return resolved


def _refuse_unknown(given: Mapping[str, Any], accepted: Any, where: str) -> None:
    unknown = [name for name in given if name not in accepted]
    if unknown:
        raise ProfileError(
            f"{where}: unknown parameter {unknown[0]!r}; accepted: {', '.join(sorted(accepted)) or 'none'}"
        )


def _check_type(notebook: str, name: str, value: Any, default: Any) -> None:
    if default is None or value is None or type(value) is type(default):
        return
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return
    if isinstance(default, tuple) and isinstance(value, list):
        return
    raise ProfileError(f"{notebook}: {name}={value!r} is a {type(value).__name__}; accepted: {type(default).__name__}")
