"""Run notebooks through papermill in one process: the work behind `trex reproduce`.

A run is a folder below `runs/`: `notebooks/` as executed, `records/`, and `manifest.json`, rewritten after every
notebook. A notebook whose content key (its source, the sources of trex, its parameters) already succeeded in an earlier
run is not run again: its files are copied from there.
"""

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from trex import paths
from trex.files import write_atomic
from trex.launch import notebooks
from trex.report.figures import SCRIPT, browser_found
from trex.results import provenance_block, versions

DONE = ("ok", "reused")


@dataclass(frozen=True)
class Outcome:
    """What became of one notebook. `files` are relative to the run's folder; `error` names cell, kind and message."""

    notebook: str
    status: str  # ok | reused | failed
    key: str
    parameters: dict[str, Any]
    seconds: float = 0.0
    files: tuple[str, ...] = ()
    error: dict[str, Any] | None = None
    reused_from: str | None = None


@dataclass(frozen=True)
class Run:
    """A run's folder and its outcomes so far."""

    folder: Path
    profile: str
    provenance: dict[str, Any]
    outcomes: tuple[Outcome, ...] = field(default=())

    @property
    def failed(self) -> list[Outcome]:
        """Notebooks that failed."""
        return [outcome for outcome in self.outcomes if outcome.status == "failed"]

    def save(self) -> None:
        """Write `manifest.json`."""
        body = {**asdict(self), "folder": self.folder.name}
        write_atomic(self.folder / "manifest.json", json.dumps(body, indent=1, ensure_ascii=False).encode() + b"\n")


def reproduce(
    chosen: Sequence[Path],
    parameters: Mapping[str, Mapping[str, Any]],
    *,
    profile: str,
    command: str,
    runs: Path | None = None,
    fresh: bool = False,
    cell_timeout_s: int = 3600,
) -> Run:
    """Run the chosen notebooks, each with its parameters; goes on after a failure. The manifest is saved as it goes."""
    base = runs or paths.runs()
    earlier = {} if fresh else _finished(base)
    folder = _new_folder(base, profile)
    run = Run(folder, profile, provenance_block(command=command))
    run.save()
    sources = sources_hash()
    cells = {path: len(notebooks.read(path).cells) for path in chosen}
    with tqdm(total=sum(cells.values()), unit="cell", desc="trex", disable=None) as bar:
        for path in chosen:
            name = notebooks.name(path)
            key = content_key(path, parameters[name], sources)
            bar.set_description(name)
            goal = bar.n + cells[path]
            outcome = Outcome(name, "ok", key, dict(parameters[name]))
            if key in earlier:
                outcome = _reuse(outcome, earlier[key], folder)
            else:
                with _environment(TREX_RUN=str(folder), TREX_COMMAND=command):
                    outcome = _execute(outcome, path, folder, bar, cell_timeout_s)
            run = replace(run, outcomes=(*run.outcomes, outcome))
            run.save()
            bar.update(goal - bar.n)
            bar.write(summary(outcome), file=sys.stderr)
    latest = base / "latest"
    latest.unlink(missing_ok=True)
    latest.symlink_to(folder.name)
    return run


def summary(outcome: Outcome) -> str:
    """One line for a person: status, seconds, and for a failure chapter, cell and error."""
    text = f"{outcome.status:>7}  {outcome.notebook}"
    if outcome.error:
        where = "" if outcome.error["cell"] is None else f"code cell {outcome.error['cell']}: "
        return f"{text}  {where}{outcome.error['kind']}: {outcome.error['message']}"
    return text + (f"  from {outcome.reused_from}" if outcome.reused_from else f"  {outcome.seconds:.1f} s")


def content_key(path: Path, parameters: Mapping[str, Any], sources: str) -> str:
    """Hash of all that decides a result: the notebook's cells (not their outputs), the sources of trex, the parameters,
    TREX_* settings, files and folders that either names, package versions, and whether figures can be drawn as PNG.
    """
    cells = [(c.cell_type, c.source, c.metadata.get("tags", [])) for c in notebooks.read(path).cells]
    settings = {k: v for k, v in os.environ.items() if k.startswith("TREX_") and k not in ("TREX_RUN", "TREX_COMMAND")}
    inputs = [
        _files(paths.CHECKOUT / v) for v in (*parameters.values(), *settings.values()) if v and isinstance(v, str)
    ]
    place = [versions(), browser_found()]
    text = json.dumps([notebooks.name(path), cells, sources, dict(parameters), settings, inputs, place], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _files(path: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of every file at or below a path; none where there is nothing."""
    found = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in found]


def sources_hash(package: Path | None = None) -> str:
    """Hash of every source and data file of the package."""
    base = package or Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(p for p in base.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        digest.update(str(path.relative_to(base)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _execute(outcome: Outcome, path: Path, folder: Path, bar: Any, cell_timeout_s: int) -> Outcome:
    from papermill import PapermillExecutionError, execute_notebook

    from trex.launch.engine import ENGINE

    output = folder / "notebooks" / path.parent.name / path.name
    output.parent.mkdir(parents=True, exist_ok=True)
    before = _stamps(folder)
    start = time.perf_counter()
    error = None
    try:
        execute_notebook(
            path, output, parameters=outcome.parameters, engine_name=ENGINE, kernel_name="python3", language="python",
            cwd=path.parent, progress_bar=False, execution_timeout=cell_timeout_s, on_cell=lambda: bar.update(1),
            extra_arguments=notebooks.KERNEL_ARGUMENTS,
        )  # fmt: skip
    except PapermillExecutionError as failure:
        error = {"cell": _failed_cell(output), "kind": failure.ename, "message": str(failure.evalue)}
    except Exception as failure:  # a kernel that died, a time-out: the notebook failed, the run goes on
        error = {"cell": None, "kind": type(failure).__name__, "message": str(failure)}
    after = _stamps(folder)
    files = tuple(sorted(name for name, stamp in after.items() if before.get(name) != stamp))
    seconds = round(time.perf_counter() - start, 2)
    return replace(outcome, status="failed" if error else "ok", seconds=seconds, files=files, error=error)


def _failed_cell(executed: Path) -> int | None:
    """The failing cell's number among the code cells of the source, from 1; papermill has added one of its own."""
    code = [c for c in notebooks.read(executed).cells if c.cell_type == "code"]
    code = [c for c in code if "injected-parameters" not in c.metadata.get("tags", [])]
    failed = (n for n, cell in enumerate(code, start=1) if cell.metadata.get("papermill", {}).get("exception"))
    return next(failed, None)


def _reuse(outcome: Outcome, found: tuple[Path, dict[str, Any]], folder: Path) -> Outcome:
    source, past = found
    for name in past["files"]:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target)
    script = source / "records" / SCRIPT
    if script.exists() and not (folder / "records" / SCRIPT).exists():
        shutil.copy2(script, folder / "records" / SCRIPT)
    origin = past.get("reused_from") or source.name
    return replace(outcome, status="reused", files=tuple(past["files"]), reused_from=origin)


def _finished(base: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Content key → the newest run folder in which that notebook succeeded and whose files are all still there."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    for manifest in sorted(base.glob("[0-9]*/manifest.json")):
        try:
            outcomes = json.loads(manifest.read_text())["outcomes"]
        except (OSError, json.JSONDecodeError, KeyError):
            continue  # a run that was cut off, or not one of ours
        for outcome in outcomes:
            if outcome["status"] in DONE and all((manifest.parent / name).is_file() for name in outcome["files"]):
                found[outcome["key"]] = (manifest.parent, outcome)
    return found


def _new_folder(base: Path, profile: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    stem = f"{stamp}-{Path(profile).stem}"
    for attempt in range(100):
        folder = base / (stem if attempt == 0 else f"{stem}-{attempt}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"no free name below {base} for {stem}")


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ("manifest.json", SCRIPT):
            status = path.stat()
            found[str(path.relative_to(folder))] = (status.st_mtime_ns, status.st_size)
    return found


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Variables that the kernels started inside inherit."""
    old = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in old.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
