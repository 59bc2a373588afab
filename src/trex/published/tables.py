"""Read the tables of published numbers.

A table is `<name>.yaml`: `title`, `columns` (numbers) and `attributes` (text, lists or mappings), and `rows`. A cell is
a number, or a mapping with `value` or `formula` and whatever differs from its row, its column or the table: they give
`unit`, `label`, `source` and `note`, the nearest first. `source` is a key of `sources.yaml`. A row's `missing` says
what is not publicly findable.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from trex.labels import LABELS
from trex.published.formula import evaluate

FOLDER = Path(__file__).parent
SOURCES = "sources"  # the file that names every source once
INHERITED = ("unit", "label", "source", "note")
ROW_KEYS = ("id", "name", "missing", *INHERITED)
CELL_KEYS = ("value", "formula", *INHERITED)
TABLE_KEYS = ("title", "columns", "attributes", "rows", *INHERITED)


class PublishedError(ValueError):
    """A table, row or number that is not there, or a data file that is malformed."""


@dataclass(frozen=True)
class Number:
    """One number. `label` is published; derived, with the `formula` or, in `note`, the way it was computed; or
    measured, with a `note` on where and how, for what was run once outside this repository.
    """

    value: float
    unit: str
    label: str
    source: str  # full citation
    note: str = ""
    formula: str = ""


@dataclass(frozen=True)
class Row:
    """One row: `numbers` by column, `attributes` (text, tuples, mappings), and what is `missing`, with the reason."""

    id: str
    name: str
    label: str
    source: str
    note: str
    numbers: Mapping[str, Number]
    attributes: Mapping[str, Any]
    missing: Mapping[str, str]

    def __getitem__(self, column: str) -> Number:
        """The number of a column. Raises PublishedError where it is not public or there is no such column."""
        if column in self.numbers:
            return self.numbers[column]
        if column in self.missing:
            raise PublishedError(f"{self.id}.{column} is not publicly findable: {self.missing[column]}")
        raise PublishedError(
            f"row {self.id!r} has no number {column!r}; there are: {', '.join(self.numbers) or 'none'}"
        )


@dataclass(frozen=True)
class Table:
    """One table. Iterates over its rows; `table[id]` is a row."""

    name: str
    title: str
    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: str) -> Row:
        """The row with this id. Raises PublishedError naming the ids."""
        for found in self.rows:
            if found.id == row:
                return found
        raise PublishedError(f"table {self.name!r} has no row {row!r}; there are: {', '.join(r.id for r in self.rows)}")

    def where(self, **attributes: str) -> tuple[Row, ...]:
        """Rows whose attributes have these values. Raises PublishedError where there are none."""
        found = tuple(r for r in self.rows if all(r.attributes.get(k) == v for k, v in attributes.items()))
        if not found:
            raise PublishedError(f"table {self.name!r} has no row with {attributes}")
        return found


def names(folder: Path = FOLDER) -> tuple[str, ...]:
    """Names of all tables."""
    return tuple(sorted(path.stem for path in folder.glob("*.yaml") if path.stem != SOURCES))


@cache
def load(table: str, folder: Path = FOLDER) -> Table:
    """Read and check one table. Raises PublishedError for an unknown name or a malformed file, naming the place."""
    return _Reader(folder).table(table)


class _Reader:
    """Tables of one folder while they are read; formulas may refer to any of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.raw: dict[str, dict[str, Any]] = {}  # checked files, by table
        self.open: list[str] = []  # derived numbers being evaluated, to find circles
        self.sources = _mapping(_read(folder / f"{SOURCES}.yaml"), SOURCES)

    def table(self, name: str) -> Table:
        raw = self.file(name)
        return Table(name, raw["title"], tuple(self.row(name, row) for row in raw["rows"].values()))

    def file(self, name: str) -> dict[str, Any]:
        """The checked content of a table's file, its rows by id and its columns by name."""
        if name not in self.raw:
            if name not in names(self.folder):
                raise PublishedError(f"no table {name!r}; there are: {', '.join(names(self.folder))}")
            self.raw[name] = _checked(_mapping(_read(self.folder / f"{name}.yaml"), name), name)
        return self.raw[name]

    def row(self, table: str, row: dict[str, Any]) -> Row:
        raw, where = self.file(table), f"{table}.{row['id']}"
        inherited = {**_only(raw), **_only(row)}
        numbers = {column: self.number(table, row["id"], column) for column in raw["columns"] if column in row}
        attributes = {key: _frozen(row[key], f"{where}.{key}") for key in raw["attributes"] if key in row}
        missing = {key: _text(value, f"{where}.missing.{key}") for key, value in row.get("missing", {}).items()}
        if not (numbers or attributes or missing):
            raise PublishedError(f"{where} says nothing")
        first = next(iter(numbers.values()), None)  # a row whose columns name the source has that of its first number
        label = inherited.get("label") or (first.label if first else None)
        source, note = (first.source, "") if first and "source" not in inherited else self.cite(inherited, where)
        return Row(
            row["id"], _text(row.get("name", row["id"]), where), _label(label, where), source,
            _join(row.get("note", ""), note), MappingProxyType(numbers), MappingProxyType(attributes),
            MappingProxyType(missing),
        )  # fmt: skip

    def number(self, table: str, row: str, column: str) -> Number:
        raw, where = self.file(table), f"{table}.{row}.{column}"
        cells = raw["rows"].get(row, {})
        if column not in raw["columns"] or column not in cells:
            raise PublishedError(f"no number {where}")
        cell = cells[column] if isinstance(cells[column], dict) else {"value": cells[column]}
        unknown = set(cell) - set(CELL_KEYS)
        if unknown or ("value" in cell) == ("formula" in cell):
            raise PublishedError(
                f"{where}: a cell has value or formula, and {', '.join(INHERITED)}; it has {list(cell)}"
            )
        fields = {**_only(raw), **_only(raw["columns"][column]), **_only(cells), **_only(cell)}
        formula = cell.get("formula", "")
        value = self.evaluated(formula, table, row, where) if formula else cell["value"]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PublishedError(f"{where}: {value!r} is not a number")
        label = _label(fields.get("label"), where)
        if (label == "derived") != bool(formula) and not (label == "derived" and fields.get("note")):
            raise PublishedError(f"{where}: a formula is derived, and a derived number has a formula or a note on how")
        if label == "measured" and not fields.get("note"):
            raise PublishedError(f"{where}: a measured number has a note on where and how")
        source, second_hand = self.cite(fields, where)
        unit = fields.get("unit")
        if not isinstance(unit, str):
            raise PublishedError(f'{where}: no unit (an empty one is written "")')
        return Number(value, unit, label, source, _join(fields.get("note", ""), second_hand), formula)

    def evaluated(self, formula: str, table: str, row: str, where: str) -> float:
        if where in self.open:
            raise PublishedError(f"formulas refer to each other in a circle: {' → '.join([*self.open, where])}")
        self.open.append(where)
        try:
            return evaluate(formula, lambda path: self.number(*((table, row)[: 3 - len(path)] + path)).value)
        except PublishedError:
            raise
        except (TypeError, ValueError, ZeroDivisionError) as error:
            raise PublishedError(f"{where}: {error}") from None
        finally:
            self.open.pop()

    def cite(self, fields: Mapping[str, Any], where: str) -> tuple[str, str]:
        """The full citation of a `source` key, and the remark that goes with a second-hand page."""
        key = str(fields.get("source"))
        entry = self.sources.get(key)
        if not isinstance(entry, dict) or not isinstance(entry.get("cite"), str):
            raise PublishedError(f"{where}: source {key!r}; {SOURCES}.yaml has: {', '.join(self.sources)}")
        return entry["cite"], "second-hand page" if entry.get("second_hand") else ""


def _read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PublishedError(f"{path.name} cannot be read: {error}") from None


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PublishedError(f"{where}: a mapping is expected, not {type(value).__name__}")
    return value


def _checked(raw: dict[str, Any], table: str) -> dict[str, Any]:
    """The same content with columns and rows by name; unknown keys and repeated ids are refused."""
    _known(raw, TABLE_KEYS, table)
    columns = {name: spec or {} for name, spec in _mapping(raw.get("columns") or {}, f"{table}.columns").items()}
    attributes = raw.get("attributes") or []
    rows: dict[str, dict[str, Any]] = {}
    for row in raw.get("rows") or []:
        key = _mapping(row, f"{table}, a row").get("id")
        if not isinstance(key, str) or not key.isidentifier():
            raise PublishedError(f"{table}: id {key!r}; accepted: letters, digits and '_'")
        if key in rows:
            raise PublishedError(f"{table}: two rows have the id {key!r}")
        _known(row, (*ROW_KEYS, *columns, *attributes), f"{table}.{key}")
        rows[key] = row
    if not rows or not isinstance(raw.get("title"), str):
        raise PublishedError(f"{table}: a table has a title and rows")
    return {**raw, "columns": columns, "attributes": attributes, "rows": rows}


def _known(raw: Mapping[str, Any], accepted: tuple[str, ...], where: str) -> None:
    if unknown := [str(key) for key in raw if key not in accepted]:
        raise PublishedError(f"{where}: unknown {', '.join(unknown)}; accepted: {', '.join(accepted)}")


def _only(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: raw[key] for key in INHERITED if key in raw}


def _label(label: Any, where: str) -> str:
    if label not in LABELS:
        raise PublishedError(f"{where}: label {label!r}; accepted: {', '.join(LABELS)}")
    return str(label)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise PublishedError(f"{where}: {value!r} is not text")
    return value


def _frozen(value: Any, where: str) -> str | tuple[Any, ...] | Mapping[str, Any]:
    if isinstance(value, dict):
        return MappingProxyType(value)
    return tuple(value) if isinstance(value, list) else _text(value, where)


def _join(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
