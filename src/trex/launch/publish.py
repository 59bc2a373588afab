"""Copy a run's records and figures into the committed `results/`: the only writer there."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs_version

from trex import paths
from trex.files import write_atomic
from trex.labels import ResultError
from trex.launch import manifest
from trex.report.figures import SCRIPT
from trex.results import Record, load


@dataclass(frozen=True)
class Change:
    """What publishing does to one record: `kind` new, changed or same, and the values that differ."""

    chapter: str
    name: str
    kind: str
    values: tuple[str, ...] = ()


def find_run(run: str, runs: Path | None = None) -> Path:
    """The folder of a run: its id below `runs/`, a path, or `latest`. Raises ResultError naming the runs there are."""
    base = runs or paths.runs()
    for folder in (base / run, Path(run)):
        if (folder / "manifest.json").is_file():
            return folder.resolve()
    known = sorted(path.parent.name for path in base.glob("[0-9]*/manifest.json"))
    raise ResultError(f"run {run!r}; there are: {', '.join(known) or 'none: start with `trex reproduce`'}")


def publish(run: Path, results: Path | None = None, dry_run: bool = False) -> list[Change]:
    """Copy the records of the notebooks that succeeded; returns what changed. Records with the same values stay.

    Raises ResultError, before anything is written, for a record that names a folder of this machine or would lose a
    published PNG.
    """
    target = results or paths.results()
    found = list(records(run))
    for record in found:
        _refuse_machine_paths(record)
        _refuse_lost_images(record, target)
    changes = [compare(record, target) for record in found]
    for record, change in zip(found, changes, strict=True):
        if change.kind != "same" and not dry_run:
            _copy(record, target)
    return changes


def records(run: Path) -> Iterator[Record]:
    """The records that a run's successful notebooks wrote, in their order. Raises ResultError for what is none."""
    for outcome in manifest.read(run):
        if outcome.status == "failed":
            continue
        for name in outcome.files:
            path = Path(name)
            is_json = path.parts[0] == "records" and path.suffix == ".json" and len(path.parts) == 3
            if is_json and "label" in json.loads((run / path).read_text()):  # a Chrome trace is JSON too, and no record
                yield load(path.parts[1], path.stem, run / "records")


def compare(record: Record, results: Path) -> Change:
    """How a record differs from the published one of the same name; provenance alone does not count."""
    path = results / record.chapter / f"{record.name}.json"
    if not path.exists():
        return Change(record.chapter, record.name, "new")
    old = load(record.chapter, record.name, results)
    before = _flat({**old.values, "source": old.provenance.get("source")})
    after = _flat({**record.values, "source": record.provenance.get("source")})
    differing = sorted(k for k in before.keys() | after.keys() if _text(before.get(k)) != _text(after.get(k)))
    lines = [f"{key}: {before.get(key, '—')} → {after.get(key, '—')}" for key in differing]
    if old.label != record.label:
        lines.insert(0, f"label: {old.label} → {record.label}")
    if set(old.files) != set(record.files):
        lines.append(f"files: {', '.join(old.files) or '—'} → {', '.join(record.files) or '—'}")
    lines += [
        f"{name} differs" for name in sorted(set(old.files) & set(record.files)) if _differs(name, record, path.parent)
    ]
    return Change(record.chapter, record.name, "changed" if lines else "same", tuple(lines))


def _copy(record: Record, results: Path) -> None:
    assert record.folder is not None
    folder = results / record.chapter
    folder.mkdir(parents=True, exist_ok=True)
    digests = {}
    for name in record.files:
        data = _published(name, record.folder)
        write_atomic(folder / name, data)
        digests[name] = hashlib.sha256(data).hexdigest()
    body = json.loads((record.folder / f"{record.name}.json").read_text())
    text = json.dumps({**body, "sha256": digests}, indent=1, ensure_ascii=False)
    write_atomic(folder / f"{record.name}.json", text.encode() + b"\n")  # last: it names the others
    for ending in {".parquet", ".png", ".html"} - {Path(name).suffix for name in record.files}:
        (folder / (record.name + ending)).unlink(missing_ok=True)  # what the record no longer has


def _published(name: str, folder: Path) -> bytes:
    """A file as it is committed: an HTML figure takes plotly's script from its CDN, as no copy of it is committed."""
    data = (folder / name).read_bytes()
    if name.endswith(".html"):
        url = f"https://cdn.plot.ly/plotly-{get_plotlyjs_version()}.min.js"
        image = f"<img src=&quot;{Path(name).stem}.png&quot;>"  # what a reader without network sees
        tag = f"""src="{url}" onerror="document.body.insertAdjacentHTML('afterbegin', '{image}')\""""
        data = data.replace(f'src="../{SCRIPT}"'.encode(), tag.encode())
    return data


def _differs(name: str, record: Record, published: Path) -> bool:
    assert record.folder is not None
    old = published / name
    return not old.exists() or old.read_bytes() != _published(name, record.folder)


def _flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """Values by dotted name, without what stands below a key `timings`: seconds differ from run to run."""
    if not isinstance(values, dict):
        return {prefix: values}
    inner = {f"{prefix}.{key}".lstrip("."): item for key, item in values.items() if key != "timings"}
    return {name: value for key, item in inner.items() for name, value in _flat(item, key).items()}


def _text(value: Any) -> str:
    """A value as JSON, which tells 1, 1.0 and true apart."""
    return json.dumps(value, sort_keys=True)


def _refuse_lost_images(record: Record, results: Path) -> None:
    image = results / record.chapter / f"{record.name}.png"
    if image.exists() and f"{record.name}.html" in record.files and image.name not in record.files:
        raise ResultError(
            f"record {record.chapter}/{record.name} has no {image.name}, which is published: "
            "install Chromium and run again"
        )


def _refuse_machine_paths(record: Record) -> None:
    text = json.dumps([record.values, record.provenance], ensure_ascii=False)
    found = re.search(r"""(?:^|[\s"'=(]|file://)(/[\w.-]+/[\w./-]+)""", text)
    if found:
        raise ResultError(
            f"record {record.chapter}/{record.name} names a folder of this machine: {found.group(1)}; "
            "run it with --fresh and a path relative to the checkout"
        )
