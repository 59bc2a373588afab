"""Texts of files and folders, one after the other: our documents, JSON lines, parquet, Arrow, `datasets`' folders.

Nothing is run or unpickled: parquet and Arrow are read by pyarrow, and so are the folders that
`datasets.Dataset.save_to_disk` leaves, which hold Arrow streams.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc, parquet

from trex.data.documents import Document
from trex.data.ingest.sources import LICENCES
from trex.data.mixture.embedded import embedded
from trex.data.mixture.recipe import Source
from trex.data.mixture.text import UNKNOWN, Text
from trex.data.problem import DataError

DOCUMENTS, PLAN = "documents.jsonl", "plan.json"  # as `trex.data.engine` names them
STATE, SPLITS = "state.json", "dataset_dict.json"  # as `datasets` names them
JSONL = (".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst", ".jsonl.bz2")
TABLES = (".parquet", ".arrow")
NAMES = ("source", "url", "id")  # keys that say where a text comes from
BATCH = 256  # texts of a table that are in memory at a time
SPLIT = re.compile(r"(train|validation|valid|val|dev|test)(?=[-_.0-9]|$)")
OURS = "MIT"  # licence of documents that this package generates


@dataclass(frozen=True)
class Found:
    """What a row of a file holds; text None where it is no text."""

    text: Any
    name: str
    licence: str


def texts(source: Source, base: Path) -> Iterator[Text | None]:
    """Texts of a source in the order of its files, None for each that is missing or blank. base: of relative paths.

    Raises DataError that names file and row.
    """
    rows: Iterable[Text | Found] = embedded(source.embedded) if source.embedded else _rows(base / source.path, source)
    for row in islice(rows, source.limit or None):
        if isinstance(row, Text):
            yield row
        elif row.text is None or (isinstance(row.text, str) and not row.text.strip()):
            yield None
        elif not isinstance(row.text, str):
            raise DataError(f"{row.name}: {source.field} is a {type(row.text).__name__}; accepted: text")
        else:
            yield Text(row.text, row.name, row.licence or source.licence or UNKNOWN)


def _rows(path: Path, source: Source) -> Iterator[Found]:
    if not path.exists():
        raise DataError(f"source {source.name}: {path} does not exist")
    for file in _files(path, source):
        try:
            yield from _lines(file, source) if file.name.endswith(JSONL) else _table(file, source)
        except (OSError, pa.ArrowException, EOFError) as error:
            said = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise DataError(f"{file} cannot be read: {said}") from None


def _files(path: Path, source: Source) -> list[Path]:
    """The files of a source in a fixed order. Raises DataError where it is not clear which are meant."""
    if path.is_file():
        if not path.name.endswith((*JSONL, *TABLES)):
            raise DataError(f"{path}; accepted: files that end in {', '.join((*JSONL, *TABLES))}")
        return [path]
    if (path / SPLITS).is_file():
        splits = _strings(_json(path / SPLITS).get("splits"), path / SPLITS)
        chosen = source.split or ("train" if "train" in splits else "")
        if chosen not in splits:
            raise DataError(f"source {source.name}: split {chosen!r} of {path}; accepted: {', '.join(splits)}")
        return _saved(path / chosen)
    if (path / STATE).is_file():
        return _saved(path)
    if (path / DOCUMENTS).is_file():
        _complete(path)
        return [path / DOCUMENTS]
    found = sorted(file for file in path.rglob("*") if file.is_file() and file.name.endswith((*JSONL, *TABLES)))
    if not found:
        raise DataError(f"{path} holds no {DOCUMENTS}, no folder of `datasets`, no {', '.join((*JSONL, *TABLES))}")
    splits = sorted({_split(file, path) for file in found})
    if source.split and source.split not in splits:
        raise DataError(f"source {source.name}: split {source.split!r} of {path}; there are {', '.join(splits)}")
    if not source.split and len(splits) > 1:
        raise DataError(f"{path} holds the splits {', '.join(map(repr, splits))}; accepted: one, as `split`")
    return [file for file in found if not source.split or _split(file, path) == source.split]


def _split(file: Path, root: Path) -> str:
    """The split that a file's name or folder states, "" for none."""
    for part in reversed(file.relative_to(root).parts):
        if stated := SPLIT.match(part):
            return stated[1]
    return ""


def _saved(folder: Path) -> list[Path]:
    """The Arrow files of a folder of `datasets`, as its state lists them."""
    state = _json(folder / STATE)
    if state.get("_indices_data_files"):
        raise DataError(f"{folder} was saved with an index over its rows; accepted: flatten_indices() before saving")
    entries = state.get("_data_files")
    names = [entry.get("filename") if isinstance(entry, Mapping) else None for entry in entries or ()]
    files = [folder / name for name in _strings(names, folder / STATE)]
    if not files:
        raise DataError(f"{folder / STATE} lists no files")
    return files


def _json(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    if not isinstance(body, dict):
        raise DataError(f"{path} holds a {type(body).__name__}; accepted: a mapping")
    return body


def _strings(values: Any, where: Path) -> list[str]:
    """Names of files and folders directly in the folder, never a way out of it."""
    if not isinstance(values, list) or not all(isinstance(v, str) and v and Path(v).name == v for v in values):
        raise DataError(f"{where} lists {values!r:.80}; accepted: names of files in its folder")
    return values


def _complete(folder: Path) -> None:
    """Refuse a folder that the engine has not finished."""
    if not (folder / PLAN).is_file():
        return
    plan = _json(folder / PLAN).get("plan")
    count = plan.get("count") if isinstance(plan, dict) else None
    with (folder / DOCUMENTS).open("rb") as stream:
        present = sum(line.endswith(b"\n") for line in stream)
    if present != count:
        raise DataError(f"{folder} holds {present} of the {count} documents of its plan; accepted: a finished folder")


def _lines(path: Path, source: Source) -> Iterator[Found]:
    # in a folder of ours a text has `text` whatever another source's field is
    with pa.input_stream(str(path)) as raw:
        for number, line in enumerate(io.BufferedReader(raw), start=1):
            if line.strip():
                yield _line(line, f"{path.name}, line {number}", path, source)


def _line(line: bytes, where: str, path: Path, source: Source) -> Found:
    try:
        body = json.loads(line)
        if isinstance(body, dict) and source.field not in body and "problem" in body and "provenance" in body:
            document = Document.from_line(line.decode())
            origin = document.provenance
            name = f"{document.family} {document.mode}, seed {origin.get('seed')}"
            return Found(document.text, name, OURS)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path.parent / where}: {error}") from None
    if not isinstance(body, dict) or source.field not in body:
        shown = line[:60].decode(errors="replace").strip()
        raise DataError(f"{path.parent / where} is {shown!r}; accepted: a document, or an object with {source.field!r}")
    return _found(body, source.field, where)


def _table(path: Path, source: Source) -> Iterator[Found]:
    number = 0
    for batch in _batches(path, source.field):
        for row in batch.to_pylist():
            number += 1
            yield _found(row, source.field, f"{path.name}, row {number}")


def _batches(path: Path, field: str) -> Iterator[pa.RecordBatch]:
    """Some rows at a time, of those columns that are used."""
    if path.suffix == ".parquet":
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches(BATCH, columns=_columns(file.schema_arrow.names, field, path))
        return
    with pa.memory_map(str(path)) as stream:
        for batch in _arrow(stream):
            chosen = batch.select(_columns(batch.schema.names, field, path))
            for start in range(0, len(chosen), BATCH):
                yield chosen.slice(start, BATCH)


def _arrow(stream: Any) -> Iterator[pa.RecordBatch]:
    """Batches of an Arrow file in either of its two formats."""
    if stream.read(6) == b"ARROW1":
        reader = ipc.open_file(stream)
        for k in range(reader.num_record_batches):
            yield reader.get_batch(k)
    else:
        stream.seek(0)
        yield from ipc.open_stream(stream)


def _columns(names: list[str], field: str, path: Path) -> list[str]:
    if field not in names:
        raise DataError(f"{path} has no column {field!r}; it has {', '.join(names[:12])}")
    return [field, *(name for name in (*LICENCES, *NAMES) if name in names and name != field)]


def _found(row: Mapping[str, Any], field: str, where: str) -> Found:
    if wrong := next((key for key in LICENCES if not isinstance(row.get(key), str | None)), None):
        raise DataError(f"{where}: its {wrong} is {row[wrong]!r:.80}; accepted: a text")
    licences = [row[key] for key in LICENCES if row.get(key) and row[key].strip()]
    names = [str(row[key]) for key in NAMES if isinstance(row.get(key), str | int) and str(row[key]).strip()]
    return Found(row[field], names[0] if names else where, licences[0] if licences else "")
