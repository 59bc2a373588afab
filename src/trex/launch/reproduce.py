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
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from trex import paths
from trex.labels import ResultError
from trex.launch import manifest, notebooks
from trex.launch.manifest import DONE, Outcome, Run
from trex.report.figures import SCRIPT, browser_found
from trex.results import provenance_block, versions


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
    if not browser_found():
        print("trex: no Chromium: figures are written as HTML only", file=sys.stderr)
    with tqdm(total=sum(cells.values()), unit="cell", desc="trex", disable=None) as bar:
        for path in chosen:
            name = notebooks.name(path)
            key = content_key(path, parameters[name], sources)
            bar.set_description(name)
            goal = bar.n + cells[path]
            outcome = Outcome(name, "ok", key, dict(parameters[name]))
            past = earlier.get(key)
            if past and _intact(past):
                outcome = _reuse(outcome, past, folder)
            else:
                with _environment(TREX_RUN=str(folder), TREX_COMMAND=command):
                    outcome = _execute(outcome, path, folder, bar, cell_timeout_s)
            run = replace(run, outcomes=(*run.outcomes, outcome))
            run.save()
            bar.update(goal - bar.n)
            bar.write(summary(outcome), file=sys.stderr)
    fresh_link = folder / ".latest"
    fresh_link.symlink_to(folder.name)
    os.replace(fresh_link, base / "latest")  # whole or not at all, also beside another run
    return run


def summary(outcome: Outcome) -> str:
    """One line for a person: status, seconds, and for a failure chapter, cell and error."""
    text = f"{outcome.status:>7}  {outcome.notebook}"
    if outcome.error:
        where = "" if outcome.error["cell"] is None else f"code cell {outcome.error['cell']}: "
        return f"{text}  {where}{outcome.error['kind']}: {outcome.error['message'].strip()}"
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
    headers = Path(sysconfig.get_path("include"), "Python.h").is_file()  # without them nothing is compiled
    place = [versions(), browser_found(), headers, os.cpu_count()]
    text = json.dumps([notebooks.name(path), cells, sources, dict(parameters), settings, inputs, place], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _files(path: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of every file at or below a path; none where there is nothing."""
    try:
        # not the checkout, nor what holds it
        inside = path.is_dir() and not paths.CHECKOUT.is_relative_to(path.resolve())
        found = sorted(p for p in path.rglob("*") if p.is_file()) if inside else [path] * path.is_file()
    except (OSError, ValueError):  # a text that cannot be the name of a file
        return []
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
        error = {"cell": _failed_cell(output), "kind": failure.ename, "message": str(failure.evalue) or "no message"}
    except Exception as failure:  # a kernel that died, a time-out: the notebook failed, the run goes on
        error = {"cell": _failed_cell(output), "kind": type(failure).__name__, "message": str(failure).split("\n")[0]}
    if error is None and (number := _failed_cell(output)):
        error = {"cell": number, "kind": "Incomplete", "message": "the notebook ended before its last cell"}
    after = _stamps(folder)
    written = sorted(name for name, stamp in after.items() if before.get(name) != stamp)
    files = {name: manifest.sha256(folder / name) for name in written}
    seconds = round(time.perf_counter() - start, 2)
    return replace(outcome, status="failed" if error else "ok", seconds=seconds, files=files, error=error)


def _failed_cell(executed: Path) -> int | None:
    """Number of the first cell that failed or did not run, among the source's code cells, from 1; None without one."""
    if not executed.is_file():
        return None
    code = [c for c in notebooks.read(executed).cells if c.cell_type == "code"]
    code = [c for c in code if "injected-parameters" not in c.metadata.get("tags", [])]
    for number, cell in enumerate(code, start=1):
        raised = cell.metadata.get("papermill", {}).get("exception")
        if raised or (cell.execution_count is None and cell.source.strip()):
            return number
    return None


def _reuse(outcome: Outcome, found: tuple[Path, Outcome], folder: Path) -> Outcome:
    source, past = found
    for name in past.files:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target)
    script = source / "records" / SCRIPT
    if script.exists() and not (folder / "records" / SCRIPT).exists():
        shutil.copy2(script, folder / "records" / SCRIPT)
    return replace(outcome, status="reused", files=past.files, reused_from=past.reused_from or source.name)


def _finished(base: Path) -> dict[str, tuple[Path, Outcome]]:
    """Content key → the newest run folder in which that notebook succeeded."""
    found: dict[str, tuple[Path, Outcome]] = {}
    for path in sorted(base.glob("[0-9]*/manifest.json")):
        try:
            outcomes = manifest.read(path.parent)
        except ResultError:
            continue  # a run that was cut off, or not one of ours
        for outcome in outcomes:
            if outcome.status in DONE:
                found[outcome.key] = (path.parent, outcome)
    return found


def _intact(found: tuple[Path, Outcome]) -> bool:
    """Whether every file of an earlier outcome is still as it was written."""
    folder, outcome = found
    return all((folder / n).is_file() and manifest.sha256(folder / n) == d for n, d in outcome.files.items())


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
