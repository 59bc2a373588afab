"""Where the values of a representation's data stand in a text: in tables under headings, or beside members' names.

A text about a family's instance is also held, sentence by sentence, to what the family can say.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from trex.data.audit.tables import markdown
from trex.data.flywheel.recombine import Recombined
from trex.data.flywheel.representation import Parameter, Representation
from trex.data.problem import Field, Problem, listing, sentence
from trex.data.rendering import NOTHING, render, schema
from trex.data.wording import DISTRACTORS, NONE, NUMERAL, Style, filled, spoken

SEGMENT = re.compile(r"[.;](?:\s|$)|\n")
GROUPED = re.compile(r"(?<=\d),(?=\d{3})")
PLAIN = Style(grouped=False)


@dataclass(frozen=True)
class Table:
    """A Markdown table: its caption, the line before it, and its cells."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(text: str) -> list[Table]:
    """The tables of a text."""
    found, rest = [], text
    for lines in markdown(text):
        before, _, rest = rest.partition("\n".join(lines))
        caption = before.rstrip().rpartition("\n")[2]
        cells = [tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in lines]
        found.append(Table(caption, cells[0], tuple(cells[2:])))
    return found


def not_in_tables(found: Representation, text: str) -> Iterator[str]:
    """The parameters whose values the tables do not hold under a heading that tells them, each with a reason."""
    there = tables(text)
    for part in found.parameters:
        reason = _reason(part, found.data[part.name], there)
        if reason:
            yield reason


def _reason(part: Parameter, value: Any, there: list[Table]) -> str:
    if not part.index:
        rows = [row for table in there for row in table.rows if _tells(row[0], part)]
        return "" if any(_is(cell, value) for row in rows for cell in row[1:]) else _missing(part, value)
    if len(part.index) == 1:
        columns = [(table, k) for table in there for k, cell in enumerate(table.header) if k and _tells(cell, part)]
        if any(_column(table, k) == _cells(value, table) for table, k in columns):
            return ""
        return _missing(part, value)
    for table in there:
        if _tells(table.caption, part) or _tells(table.header[0], part):
            for turned in (False, True):
                if _crossed(table, value, turned):
                    return ""
    return _missing(part, value)


def _missing(part: Parameter, value: Any) -> str:
    return f"no table holds {part.name!r} ({part.meaning}): {value!r:.120}"


def _tells(cell: str, part: Parameter) -> bool:
    """Whether a heading is that of a parameter: its meaning, with its unit at most."""
    said, meaning = _plain(cell), _plain(part.meaning)
    return said == meaning or said == f"{meaning} {_plain(part.unit)}".strip() or said.endswith(f": {meaning}")


def _plain(text: str) -> str:
    without_number = re.sub(r"^table \d+:\s*", "", text.lower())
    return " ".join(re.sub(r"[()*`]", " ", without_number).split())


def _column(table: Table, k: int) -> dict[str, str]:
    return {row[0]: _normal(row[k]) for row in table.rows if len(row) > k and row[k] not in (NOTHING, "")}


def _cells(value: Mapping[str, Any], table: Table) -> dict[str, str]:
    return {name: _written(item) for name, item in value.items()}


def _crossed(table: Table, value: Mapping[str, Mapping[str, Any]], turned: bool) -> bool:
    """Whether a table has exactly the values of pairs, rows for the first index set, or turned for the second."""
    seen = {
        (row[0], table.header[k]): _normal(cell)
        for row in table.rows
        for k, cell in enumerate(row)
        if k and k < len(table.header) and cell not in (NOTHING, "")
    }
    expected = {
        ((second, first) if turned else (first, second)): _written(item)
        for first, level in value.items()
        for second, item in level.items()
    }
    return seen == expected


def _is(cell: str, value: Any) -> bool:
    return _normal(cell) == _written(value)


def _normal(cell: str) -> str:
    """A cell as its value is written: numbers without grouping and needless zeros."""
    plain = cell.replace(",", "") if NUMERAL.fullmatch(cell) else cell
    try:
        return f"{float(plain):.12g}"
    except ValueError:
        return ", ".join(re.split(r", | and ", cell))


def _written(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) if value else NONE
    return value if isinstance(value, str) else f"{float(value):.12g}"


def apart(found: Representation, text: str) -> Iterator[str]:
    """Values of single members whose number does not stand next to the member's name anywhere in the prose."""
    members = {name for part in found.sets for name in found.data[part.name]}
    names = sorted(members | {sentence(name) for name in members}, key=lambda name: (-len(name), name))
    if not names:
        return
    token = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w-])|{NUMERAL.pattern}")
    beside: set[tuple[str, str]] = set()
    for segment in SEGMENT.split(text):
        tokens = [match[0] for match in token.finditer(segment)]
        for a, b in pairwise(tokens):
            beside |= {(a, _normal(b)), (b, _normal(a))}
    for part in found.parameters:
        if len(part.index) == 1:
            for name, value in found.data[part.name].items():
                if isinstance(value, int | float) and not beside & {
                    (n, _written(value)) for n in (name, sentence(name))
                }:
                    yield f"{part.name} of {name} is {value}, which does not stand beside it in the text"
                    break


Pieces = tuple[str, ...]  # sentences, tables or lines that say one thing together


def not_told(found: Recombined, mode: str, asides: tuple[str, ...], text: str) -> Iterator[str]:
    """What a text about a family's instance does not say once, and what it says beside that, in any order.

    Every clause, the setting, the question and each field is said in one of the family's wordings.
    """
    for aside in asides:
        if not is_aside(aside):
            yield f"an aside that no family has: {aside!r:.120}"
    rest = GROUPED.sub("", text)
    needed = dict(_needed(found, mode, asides))
    # a longer wording may hold a shorter one of another clause
    every = sorted(
        ((what, pieces) for what, wordings in needed.items() for pieces in wordings),
        key=lambda one: -sum(map(len, one[1])),
    )
    said = set()
    for what, pieces in every:
        if what not in said and (without := _without(rest, pieces)) is not None:
            said.add(what)
            rest = without
    for what, wordings in needed.items():
        if what not in said:
            yield f"the text does not say once, as the family can: {what}, such as {wordings[0][0]!r:.160}"
    if rest.strip():
        yield f"the text says what nothing of the problem says: {' '.join(rest.split())!r:.160}"


def is_aside(text: str) -> bool:
    """Whether a sentence is one of those that do not matter, with a number that it can have."""
    for template, (least, most) in DISTRACTORS:
        match = re.fullmatch(re.escape(template).replace(r"\{\}", r"(\d+)"), text)
        if match is not None:
            return least <= int(match[1]) <= most
    return False


def _without(text: str, pieces: Pieces) -> str | None:
    """A text without the pieces, each of which stands apart in it; None where one does not."""
    for piece in pieces:
        start = text.find(piece)
        while start >= 0 and not _is_apart(text, start, start + len(piece)):
            start = text.find(piece, start + 1)
        if start < 0:
            return None
        text = f"{text[:start]}\n{text[start + len(piece) :]}"
    return text


def _is_apart(text: str, start: int, end: int) -> bool:
    """Whether white space, or the text's begin and end, stands around a part of it."""
    return not text[max(start - 1, 0) : start].strip() and not text[end : end + 1].strip()


def _needed(found: Recombined, mode: str, asides: tuple[str, ...]) -> Iterator[tuple[str, list[Pieces]]]:
    """What a text must say, with the wordings that there are for each."""
    family, problem = found.family, found.problem
    contract = family.contract
    said = {
        "the setting": family.settings,
        "the question": family.questions,
        "which decisions are whole": contract.integrality,
        **{f"the objective's {term.name}": term.says for term in contract.objective},
        **{f"the constraint {clause.name}": clause.says for clause in contract.constraints},
    }
    for what, templates in said.items():
        if templates:
            yield what, [(sentence(filled(template, problem.words)),) for template in templates]
    for aside in asides:
        yield f"the aside {aside!r:.40}", [(GROUPED.sub("", aside),)]
    if mode == "DP":
        for field in family.fields:
            yield f"the values of {field.key}", list(_facts(field, problem))
    elif mode == "DT":
        blocks = render(problem, mode, family).problem.split("\n\n")
        for caption, table in pairwise(blocks):
            if table.startswith("|"):
                yield f"the table {caption!r:.40}", [(GROUPED.sub("", f"{caption}\n\n{table}"),)]
    else:
        yield "what the file holds", [(schema(family, problem),)]


def _facts(field: Field, problem: Problem) -> Iterator[Pieces]:
    """The sentences that tell a field's values, in every wording, numbers not grouped."""
    words, values = problem.words, problem.data[field.key]
    for phrase in field.phrases:
        if isinstance(phrase, tuple):
            head, tail = phrase
            told = []
            for first, row in values.items():
                parts = [filled(tail, words, first, second, value=spoken(field, v, PLAIN)) for second, v in row.items()]
                if parts:
                    told.append(sentence(f"{filled(head, words, first)} {listing(parts)}") + ".")
            yield tuple(told)
        elif not field.index:
            yield (sentence(filled(phrase, words, value=spoken(field, values, PLAIN))) + ".",)
        else:
            parts = [filled(phrase, words, name, value=spoken(field, value, PLAIN)) for name, value in values.items()]
            yield tuple(sentence(part) + "." for part in parts)
            yield (sentence("; ".join(parts)) + ".",)
