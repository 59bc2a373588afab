"""Three ways to put a problem on paper, and the way back from tables to numbers.

DP: data in the problem, as prose. DT: data in tables. DPS: data and problem separate, the text describing `data.json`.
(The three representations of the T-Rex report, arXiv 2607.20145.)
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trex.data import families
from trex.data.family import Family
from trex.data.problem import LABEL, LABELS, NUMBER, DataError, Field, Instance, Problem, generator
from trex.data.wording import NONE, Style, filled, spoken, tell

MODES = ("DP", "DT", "DPS")
DATA_FILE = "data.json"
SCALARS = "| quantity | value | unit |"
NOTHING = "–"  # a pair of members that a table has no value for


@dataclass(frozen=True)
class Text:
    """A problem's text, its distracting sentences, and the numbers that only these hold."""

    problem: str
    distractors: tuple[str, ...]
    others: tuple[float, ...]


def render(problem: Problem, mode: str, family: Family | None = None) -> Text:
    """The problem's text; the order of its parts varies with the seed. Raises DataError for an unknown mode.

    family: that of the problem with some clauses changed; the problem's own where it is not given.
    """
    if mode not in MODES:
        raise DataError(f"mode {mode!r}; accepted: {', '.join(MODES)}")
    family = family or families.get(problem.family)
    telling = tell(family, problem)
    rng = generator(problem.family, problem.seed, problem.difficulty, "order")
    rules = " ".join((*telling.rules, telling.integrality))
    if mode == "DP":
        facts = "\n".join(telling.facts) if len(telling.facts) > 12 else " ".join(telling.facts)
        middle = [facts, rules]
    elif mode == "DT":
        middle = [rules, "\n\n".join(_tables(family, problem, telling.style))]
    else:
        middle = [rules, schema(family, problem)]
    rng.shuffle(middle)
    opening = [telling.setting, *telling.distractors]
    question_first = rng.random() < 0.25
    parts = [" ".join([*opening, telling.question] if question_first else opening), *middle]
    text = "\n\n".join(parts if question_first else [*parts, telling.question])
    return Text(text, telling.distractors, telling.others)


def literal(data: Instance) -> str:
    """The instance as text that is JSON and a Python literal alike: one line per key or row."""
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {_value(value)}" for key, value in data.items()) + "\n}"


def schema(family: Family, problem: Problem) -> str:
    """What the keys of the data file hold."""
    words = problem.words
    singular = {s.key: filled(s.singular, words) for s in family.sets}
    lines = [f"The data are in the file `{DATA_FILE}`, a JSON object with these keys:"]
    lines += [f"- `{s.key}`: list of the names of the {filled(s.plural, words)}" for s in family.sets]
    for field in family.fields:
        place = field.key + "".join(f"[{singular[key]}]" for key in field.index)
        over = " and ".join(f"each {singular[key]}" for key in field.index)
        unit = f", {filled(field.unit, words)}" if field.unit else ""
        count = math.prod(len(problem.data[key]) for key in field.index)
        pairs = len(field.index) == 2 and sum(map(len, problem.data[field.key].values())) < count
        gaps = "; pairs without a value are not there" if pairs else ""
        kind = {NUMBER: "", LABEL: " (a name)", LABELS: " (a list of names)"}[field.kind]
        lines.append(
            f"- `{place}`: {filled(field.title, words)}{unit}{kind}" + (f", for {over}" if over else "") + gaps
        )
    return "\n".join(lines)


def read_tables(text: str, family: Family, words: Mapping[str, str]) -> Instance:
    """The instance back from the tables of a DT text. Raises DataError for a table that the family does not have."""
    data: Instance = {}
    singular = {filled(s.singular, words): s.key for s in family.sets}
    headings = {_heading(field, words): field for field in family.fields}
    titles = {filled(field.title, words): field for field in family.fields if not field.index}
    for caption, rows in _parsed(text):
        corner, *columns = rows[0]
        body = rows[1:]
        if rows[0] == _cells(SCALARS):
            data |= {_known(titles, title).key: _read(_known(titles, title), cell) for title, cell, _ in body}
        elif caption in headings:
            field = headings[caption]
            for key, names in zip(field.index, ([row[0] for row in body], columns), strict=True):
                data.setdefault(key, names)
            data[field.key] = {
                name: {
                    column: _read(field, cell) for column, cell in zip(columns, cells, strict=True) if cell != NOTHING
                }
                for name, *cells in body
            }
        else:
            data[_known(singular, corner)] = [row[0] for row in body]
            for k, column in enumerate(columns, start=1):
                field = _known(headings, column)
                data[field.key] = {row[0]: _read(field, row[k]) for row in body if row[k] != NOTHING}
    return data


def _tables(family: Family, problem: Problem, style: Style) -> Iterator[str]:
    """A table of each index set with the fields over it alone, one of each field over two, scalars last."""
    data, words, count = problem.data, problem.words, 0
    singular = {s.key: filled(s.singular, words) for s in family.sets}

    def cell(field: Field, row: Mapping[str, Any], name: str) -> str:
        return spoken(field, row[name], style) if name in row else NOTHING

    crossed = {key for field in family.fields if len(field.index) == 2 for key in field.index}
    for index_set in family.sets:
        vectors = [f for f in family.fields if f.index == (index_set.key,)]
        if vectors or index_set.key not in crossed:
            count += 1
            header = [singular[index_set.key], *(_heading(f, words) for f in vectors)]
            rows = [[name, *(cell(f, data[f.key], name) for f in vectors)] for name in data[index_set.key]]
            yield f"Table {count}: {filled(index_set.plural, words)}\n\n" + _table(header, rows)
    for field in family.fields:
        if len(field.index) == 2:
            count += 1
            first, second = field.index
            rows = [[i, *(cell(field, data[field.key].get(i, {}), j) for j in data[second])] for i in data[first]]
            header = [f"{singular[first]} / {singular[second]}", *data[second]]
            yield f"Table {count}: {_heading(field, words)}\n\n" + _table(header, rows)
    if scalars := [f for f in family.fields if not f.index]:
        rows = [[filled(f.title, words), spoken(f, data[f.key], style), filled(f.unit, words)] for f in scalars]
        yield f"Table {count + 1}: single values\n\n" + _table(_cells(SCALARS), rows)


def _heading(field: Field, words: Mapping[str, str]) -> str:
    unit = filled(field.unit, words)
    return filled(field.title, words) + (f" ({unit})" if unit else "")


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _parsed(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Caption and cells of every table, the rule below the header left out."""
    for match in re.finditer(r"^Table \d+: (.+)\n\n((?:\|.*\|(?:\n|$))+)", text, flags=re.MULTILINE):
        rows = [_cells(line) for line in match[2].strip().splitlines()]
        yield match[1], [rows[0], *rows[2:]]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _read(field: Field, cell: str) -> Any:
    if field.kind == LABEL:
        return cell
    if field.kind == LABELS:
        return [] if cell == NONE else re.split(r", | and ", cell)
    try:
        plain = cell.replace(",", "")
        return float(plain) if "." in plain else int(plain)
    except ValueError:
        raise DataError(f"table cell {cell!r} is not a number") from None


def _known(known: Mapping[str, Any], name: str) -> Any:
    if name not in known:
        raise DataError(f"table names {name!r}; expected one of: {', '.join(known)}")
    return known[name]


def _value(value: Any) -> str:
    if isinstance(value, dict) and any(isinstance(item, dict) for item in value.values()):
        rows = ",\n".join(f"    {json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}" for key, row in value.items())
        return "{\n" + rows + "\n  }"
    return json.dumps(value, ensure_ascii=False)
