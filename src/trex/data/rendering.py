"""Three ways to put a problem on paper, and the way back from tables to numbers.

DP: data in the problem, as prose. DT: data in tables. DPS: data and problem separate, the text describing `data.json`.
(The three representations of the T-Rex report, arXiv 2607.20145.)
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from trex.data import families
from trex.data.problem import DataError, Problem, Story, generator

MODES = ("DP", "DT", "DPS")
DATA_FILE = "data.json"
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\w)")
SCALARS = "| quantity | value | unit |"


def render(problem: Problem, mode: str) -> str:
    """The problem's text. The order of its parts varies with the seed. Raises DataError for an unknown mode."""
    if mode not in MODES:
        raise DataError(f"mode {mode!r}; accepted: {', '.join(MODES)}")
    story = families.get(problem.family).story(problem)
    rng = generator(problem.family, problem.seed, problem.difficulty, "order")
    rules = " ".join((*story.rules, story.domains))
    if mode == "DP":
        facts = "\n".join(story.facts) if len(story.facts) > 12 else " ".join(story.facts)
        middle = [facts, rules]
    elif mode == "DT":
        middle = [rules, "\n\n".join(_tables(problem.data, story))]
    else:
        middle = [rules, _schema(story)]
    if rng.random() < 0.5:
        middle.reverse()
    question_first = rng.random() < 0.25
    opening = f"{story.setting} {story.question}" if question_first else story.setting
    return "\n\n".join([opening, *middle] if question_first else [opening, *middle, story.question])


def numbers(text: str) -> list[float]:
    """Every number of a text, in order; digits inside words such as item codes are no numbers."""
    return [float(match) for match in NUMBER.findall(text)]


def data_numbers(data: Any) -> Iterator[float]:
    """Every number of an instance."""
    if isinstance(data, dict):
        for value in data.values():
            yield from data_numbers(value)
    elif isinstance(data, int | float):
        yield float(data)


def literal(data: dict[str, Any]) -> str:
    """The instance as text that is JSON and a Python literal alike: one line per key or row."""
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {_value(value)}" for key, value in data.items()) + "\n}"


def read_tables(text: str, story: Story) -> dict[str, Any]:
    """The instance back from the tables of a DT text. Raises DataError for a table that `story` does not describe."""
    data: dict[str, Any] = {}
    for caption, rows in _parsed(text):
        corner, *columns = rows[0]
        body = rows[1:]
        if rows[0] == _cells(SCALARS):
            by_title = {field.title: field for field in story.fields if not field.index}
            data |= {_known(by_title, title).key: _number(value) for title, value, _ in body}
            continue
        matrices = {f.heading: f for f in story.fields if len(f.index) == 2}
        if caption in matrices:
            field = matrices[caption]
            data[field.index[0]], data[field.index[1]] = [row[0] for row in body], columns
            data[field.key] = {row[0]: dict(zip(columns, map(_number, row[1:]), strict=True)) for row in body}
            continue
        data[_known({s.singular: s for s in story.sets}, corner).key] = [row[0] for row in body]
        vectors = {f.heading: f for f in story.fields if len(f.index) == 1}
        for k, column in enumerate(columns, start=1):
            data[_known(vectors, column).key] = {row[0]: _number(row[k]) for row in body}
    return data


def _tables(data: dict[str, Any], story: Story) -> Iterator[str]:
    """Vectors over the same set share a table, each matrix has its own, scalars come last."""
    count = 0
    for index_set in story.sets:
        vectors = [f for f in story.fields if f.index == (index_set.key,)]
        if vectors:
            count += 1
            rows = [[name, *(data[f.key][name] for f in vectors)] for name in data[index_set.key]]
            yield f"Table {count}: {index_set.plural}\n\n" + _table(
                [index_set.singular, *(f.heading for f in vectors)], rows
            )
    singular = {index_set.key: index_set.singular for index_set in story.sets}
    for field in story.fields:
        if len(field.index) == 2:
            count += 1
            first, second = field.index
            rows = [[i, *(data[field.key][i][j] for j in data[second])] for i in data[first]]
            yield f"Table {count}: {field.heading}\n\n" + _table(
                [f"{singular[first]} / {singular[second]}", *data[second]], rows
            )
    scalars = [f for f in story.fields if not f.index]
    if scalars:
        yield f"Table {count + 1}: single values\n\n" + _table(
            _cells(SCALARS), [[f.title, data[f.key], f.unit] for f in scalars]
        )


def _schema(story: Story) -> str:
    singular = {index_set.key: index_set.singular for index_set in story.sets}
    lines = [f"The data are in the file `{DATA_FILE}`, a JSON object with these keys:"]
    lines += [f"- `{s.key}`: list of the names of the {s.plural}" for s in story.sets]
    for field in story.fields:
        place = field.key + "".join(f"[{singular[key]}]" for key in field.index)
        over = " and ".join(f"each {singular[key]}" for key in field.index)
        lines.append(f"- `{place}`: {field.title}, {field.unit}" + (f", for {over}" if over else ""))
    return "\n".join(lines)


def _table(header: list[str], rows: list[list[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _parsed(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Caption and cells of every table, the rule below the header left out."""
    for match in re.finditer(r"^Table \d+: (.+)\n\n((?:\|.*\|(?:\n|$))+)", text, flags=re.MULTILINE):
        rows = [_cells(line) for line in match[2].strip().splitlines()]
        yield match[1], [rows[0], *rows[2:]]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _number(cell: str) -> int | float:
    try:
        return float(cell) if "." in cell else int(cell)
    except ValueError:
        raise DataError(f"table cell {cell!r} is not a number") from None


def _known(known: dict[str, Any], name: str) -> Any:
    if name not in known:
        raise DataError(f"table names {name!r}; expected one of: {', '.join(known)}")
    return known[name]


def _value(value: Any) -> str:
    if isinstance(value, dict) and any(isinstance(item, dict) for item in value.values()):
        rows = ",\n".join(f"    {json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}" for key, row in value.items())
        return "{\n" + rows + "\n  }"
    return json.dumps(value, ensure_ascii=False)
