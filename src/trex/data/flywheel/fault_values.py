"""Where the values of a row's data stand: in the data, in its tables, in its prose, and in its programs."""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trex.data.flywheel.dialogue import Dialogue, Message
from trex.data.flywheel.fault_source import Source, with_problem, with_program
from trex.data.flywheel.representation import Parameter
from trex.data.rendering import DATA_FILE, literal
from trex.data.wording import NUMERAL

TABLE = re.compile(r"^Table \d+: (.+)\n\n((?:\|.*\|(?:\n|$))+)", re.MULTILINE)
CELL = re.compile(r"\|([^|\n]*)(?=\|)")
Place = tuple[int, int]  # begin and end in a text


@dataclass(frozen=True)
class Leaf:
    """One number of the data."""

    parameter: Parameter
    members: tuple[str, ...]
    value: float

    @property
    def shown(self) -> str:
        """`cost[Lyon][Graz]`."""
        return self.parameter.name + "".join(f"[{member}]" for member in self.members)


@dataclass(frozen=True)
class Table:
    """A table of a text: its caption, headings, and where its cells stand, row by row."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Place, ...], ...]


def leaves(row: Dialogue) -> list[Leaf]:
    """Every number of the data, parameter by parameter."""
    found = []
    for part in row.representation.parameters:
        for path, value in _paths(row.representation.data[part.name], ()):
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.append(Leaf(part, path, value))
    return found


def changed(data: dict[str, Any], values: dict[Leaf, float]) -> dict[str, Any]:
    """The data with other values at some places."""
    found = copy.deepcopy(data)
    for leaf, value in values.items():
        *levels, last = (leaf.parameter.name, *leaf.members)
        inner = found
        for level in levels:
            inner = inner[level]
        inner[last] = value
    return found


def tables(text: str) -> list[Table]:
    """The tables of a text, the rule below each header left out."""
    found = []
    for match in TABLE.finditer(text):
        rows = []
        start = match.start(2)
        for line in match[2].splitlines(keepends=True):
            cells = [(start + cell.start(1), start + cell.end(1)) for cell in CELL.finditer(line)]
            rows.append(tuple(_stripped(text, place) for place in cells))
            start += len(line)
        header = tuple(text[slice(*place)] for place in rows[0])
        found.append(Table(match[1], header, tuple(row for row in rows[2:] if len(row) == len(header))))
    return found


def heading(part: Parameter) -> str:
    """What a parameter is called above a column, with its unit."""
    return part.meaning + (f" ({part.unit})" if part.unit else "")


def place(row: Dialogue, leaf: Leaf) -> Place | None:
    """Where the problem states a number; None where that is not plain, or where only the data file does."""
    if row.bucket.mode == "DT":
        return _cell(row.problem, leaf)
    return _numeral(row, leaf) if row.bucket.mode == "DP" else None


def numeral(value: float, text: str) -> str:
    """A number as the text writes numbers."""
    return f"{value:,}" if re.search(r"\d,\d{3}", text) else str(value)


def stated(row: Dialogue, values: dict[Leaf, float]) -> str | None:
    """The problem with other values at some places; None where one of them cannot be found in it."""
    text = row.problem
    places = {}
    for leaf, value in values.items():
        found = place(row, leaf)
        if found is None or found in places:
            return None
        places[found] = numeral(value, row.problem)
    for (start, end), new in sorted(places.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def program_with(program: str, data: dict[str, Any]) -> str:
    """A program with other data in it; as it is where it holds none."""
    source = Source(program)
    return source.put((source.literal, literal(data))) if source.literal is not None else program


def with_data(row: Dialogue, values: dict[Leaf, float]) -> Dialogue | None:
    """The row with other values wherever it states them; None where one cannot be found in the problem."""
    data = changed(row.representation.data, values)
    if row.bucket.mode == "DPS":
        problem: str | None = row.problem
        files = {**row.files, DATA_FILE: literal(data)}
    else:
        problem, files = stated(row, values), row.files
    if problem is None:
        return None
    new = with_program(with_problem(row, problem), program_with(row.program, data))
    if row.wrong:
        wrong = program_with(row.wrong, data)
        messages = tuple(Message(m.role, m.content.replace(row.wrong.rstrip(), wrong.rstrip())) for m in new.messages)
        new = replace(new, wrong=wrong, messages=messages)
    second = program_with(row.second, data) if row.second else ""
    return replace(new, second=second, files=files, representation=replace(row.representation, data=data))


def _paths(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, (*path, key))
    else:
        yield path, value


def _stripped(text: str, at: Place) -> Place:
    start, end = at
    cell = text[start:end]
    return start + len(cell) - len(cell.lstrip()), end - (len(cell) - len(cell.rstrip()) if cell.strip() else 0)


def _cell(text: str, leaf: Leaf) -> Place | None:
    """Where a table holds a number."""
    name = heading(leaf.parameter)
    found = []
    for table in tables(text):
        for row in table.rows:
            first = text[slice(*row[0])]
            if not leaf.members and first == leaf.parameter.meaning and len(row) > 1:
                found.append(row[1])
            elif len(leaf.members) == 1 and first == leaf.members[0] and name in table.header:
                found.append(row[table.header.index(name)])
            elif len(leaf.members) == 2 and first == leaf.members[0] and table.caption == name:
                found += [row[table.header.index(leaf.members[1])]] * (leaf.members[1] in table.header)
    return found[0] if len(found) == 1 and _value(text[slice(*found[0])]) == leaf.value else None


def _numeral(row: Dialogue, leaf: Leaf) -> Place | None:
    """Where the prose holds a number: the only one that it can be, told by its members where there are several."""
    text = row.problem
    found = list(NUMERAL.finditer(text))
    equal = [k for k, match in enumerate(found) if _value(match[0]) == leaf.value]
    twins = [other for other in leaves(row) if other.value == leaf.value]
    if len(equal) == len(twins) == 1:
        return found[equal[0]].span()
    # a number of a sentence belongs to the member that stands between its neighbours
    last = leaf.members[-1:]
    if len(leaf.members) != 1 or sum(other.members[-1:] == last for other in twins) > 1:
        return None
    near = []
    for k in equal:
        start = found[k - 1].end() if k else 0
        end = found[k + 1].start() if k + 1 < len(found) else len(text)
        near += [found[k].span()] * bool(re.search(rf"(?<!\w){re.escape(last[0])}(?!\w)", text[start:end]))
    return near[0] if len(near) == 1 else None


def _value(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
