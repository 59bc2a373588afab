"""Record numbers with their label and provenance, and load them again.

A record is `<run>/records/<chapter>/<name>.json`, with `<name>.parquet` for a series and `<name>.png` / `<name>.html`
for a figure beside it. `trex publish` copies the records of a run to `results/`.
"""

import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from trex import paths
from trex.files import write_atomic
from trex.labels import LABELS, ResultError

PACKAGES = ("torch", "transformers", "numpy", "pyomo", "highspy", "pyscipopt", "plotly")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Record:
    """One record: scalars, their label, and where they come from."""

    chapter: str
    name: str
    label: str
    values: dict[str, Any]
    provenance: dict[str, Any]
    files: tuple[str, ...] = field(default=())  # names of the series and figures beside the JSON file
    sha256: dict[str, str] = field(default_factory=dict)  # of `files`, once published
    folder: Path | None = None

    def series(self) -> Any:
        """The recorded series, a pyarrow.Table. Raises ResultError where there is none."""
        import pyarrow.parquet as pq

        name = f"{self.name}.parquet"
        if name not in self.files or self.folder is None:
            raise ResultError(f"record {self.chapter}/{self.name} has no series")
        try:
            return pq.read_table(self.folder / name)
        except (OSError, ValueError) as error:  # ValueError: pyarrow's for what is no parquet file
            raise ResultError(f"the series of record {self.chapter}/{self.name} cannot be read: {error}") from None


def record(
    chapter: str,
    name: str,
    values: Mapping[str, Any],
    *,
    label: str | None = None,
    series: Any = None,
    figure: Any = None,
    run: Path | None = None,
    **provenance: Any,
) -> Record:
    """Write one record and return it.

    values: scalars (nested mappings and lists allowed). series: a pyarrow.Table or a mapping of equal-length columns.
    figure: a plotly figure. run: the run's folder, by default `paths.current_run()`. Further keywords (`seed`,
    `source`, `parameters`, `device`, …) join the provenance block; `published` and `derived` must name their `source`.
    Raises ResultError for a missing or unknown label, a bad name, a value JSON cannot hold, or a missing source.
    """
    _check(chapter, name, label, provenance)
    if not isinstance(values, Mapping):
        raise ResultError(f"record {chapter}/{name}: values are a {type(values).__name__}; a mapping is accepted")
    folder = (run or paths.current_run()) / "records" / chapter
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    plain = _plain(values, f"{chapter}/{name}")
    if series is not None:
        files.append(_write_series(folder / f"{name}.parquet", series))
    if figure is not None:
        from trex.report.figures import write

        files += write(figure, folder / name)
    result = Record(chapter, name, str(label), plain, provenance_block(**provenance), tuple(files), folder=folder)
    body = {key: value for key, value in asdict(result).items() if key != "folder"}
    text = json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(folder / f"{name}.json", (text + "\n").encode())
    return result


def load(chapter: str, name: str, folder: Path | None = None) -> Record:
    """Read a record from `folder` (by default the committed `results/`). Raises ResultError naming what is there."""
    base = folder or paths.results()
    path = base / chapter / f"{name}.json"
    try:
        body = json.loads(path.read_text(), parse_constant=_refuse_constant)
        body["files"] = tuple(body["files"])
        result = Record(**body, folder=path.parent)
        _check_read(result, chapter, name)
    except FileNotFoundError:
        known = sorted(p.stem for p in path.parent.glob("*.json"))
        raise ResultError(f"no record {name!r} in {path.parent}; there are: {', '.join(known) or 'none'}") from None
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ) as error:  # ValueError: no JSON, or no text at all
        raise ResultError(f"{path} is not a record: {error}") from None
    return result


def provenance_block(**extra: Any) -> dict[str, Any]:
    """Commit, command, device and versions of this process, joined with `extra`."""
    from trex.device import detect

    block: dict[str, Any] = {
        **commit(),
        "command": os.environ.get("TREX_COMMAND") or " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "parameters": None,
        "seed": None,
        "device": detect("cpu").describe(),
        "versions": versions(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return _plain({**block, **extra}, "provenance")


@cache
def commit() -> dict[str, Any]:
    """`{"commit": hash, "dirty": bool}` of the checkout; None where it is not a git checkout."""

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(["git", *args], cwd=paths.CHECKOUT, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    status = git("status", "--porcelain", "--", "src", "notebooks", "bench", "pyproject.toml")  # new files count too
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a result."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number that is recorded")


def _check_read(result: Record, chapter: str, name: str) -> None:
    """Refuse what `record` would not have written: a file read back may be anybody's."""
    if not isinstance(result.values, dict) or not isinstance(result.provenance, dict):
        raise ResultError("values and provenance are mappings")
    if (result.chapter, result.name) != (chapter, name):
        raise ResultError(f"it says that it is {result.chapter}/{result.name}")
    _check(chapter, name, result.label, result.provenance)
    accepted = {f"{name}.{ending}" for ending in ("parquet", "png", "html")}
    if not set(result.files) <= accepted:
        raise ResultError(f"files {', '.join(map(str, result.files))}; accepted: {', '.join(sorted(accepted))}")


def _check(chapter: str, name: str, label: str | None, provenance: Mapping[str, Any]) -> None:
    for what, text in (("chapter", chapter), ("name", name)):
        if not NAME.fullmatch(text):
            raise ResultError(f"{what} {text!r}: letters, digits, '_', '-' and '.' only")
    if label not in LABELS:
        raise ResultError(f"record {chapter}/{name}: label {label!r}; accepted: {', '.join(LABELS)}")
    if label in ("published", "derived") and not provenance.get("source"):
        raise ResultError(f"record {chapter}/{name}: a {label} number needs source=…")


def _plain(value: Any, where: str) -> Any:
    """JSON's own types, numpy and torch scalars converted; anything else is refused by name."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, Mapping):
        plain = {str(key): _plain(item, f"{where}.{key}") for key, item in value.items()}
        if len(plain) != len(value):
            raise ResultError(f"{where} has keys that are the same as text: {', '.join(map(repr, value))}")
        return plain
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ResultError(f"{where} is {value}: only finite numbers are recorded")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    raise ResultError(f"{where} is a {type(value).__name__}: scalars, strings, lists and mappings are recorded")


def _write_series(path: Path, series: Any) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = series if isinstance(series, pa.Table) else pa.table(dict(series))
    except (pa.ArrowInvalid, TypeError, ValueError) as error:
        raise ResultError(f"{path.stem}: a series is a table of equal-length columns: {error}") from None
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    write_atomic(path, sink.getvalue().to_pybytes())
    return path.name
