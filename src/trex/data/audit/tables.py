"""Gate on data: tables with rows of one width, and tables and files that the text announces or the program opens."""

import ast
import posixpath
import re
from collections.abc import Iterator

from trex.data.audit import attached
from trex.data.audit.facts import Facts
from trex.data.audit.findings import NOTE, REFUSE, Finding, line
from trex.data.audit.quantities import digits, prose
from trex.data.audit.rows import Row

DELIMITER = re.compile(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?")
ANNOUNCED = re.compile(
    r"\b(?:(?:in|see|by|from) the (?:(?:table|tables) below|following tables?)|(?:the )?following tables? "
    r"(?:shows?|gives?|lists?|provides?|summari[sz]es?)|"
    r"the tables? below (?:shows?|gives?|lists?|provides?|summari[sz]es?))\b",
    re.IGNORECASE,
)
OTHER_TABLES = re.compile(
    r"<t[rdh]\b|\\begin\{(?:tabular|array|matrix)|\t\S+\t|^[^\n|]*\|[^\n|]*\|", re.IGNORECASE | re.MULTILINE
)
FROM_FILE = re.compile(
    rf"\b(?:provided|given|available|stored|contained|found|supplied|listed|included|load(?:ed)?|read)\b[^.\n]{{0,80}}?"
    rf"\b(?:in|from|by|as|through)\b[^.\n]{{0,60}}?(?<![\w./-])(?P<name>{attached.NAME})",
    re.IGNORECASE,
)
FEW = 3  # numbers behind an announced table from which they may stand in for it
READERS = frozenset({"open", "read_csv", "read_json", "read_excel", "read_table", "loadtxt", "genfromtxt", "load"})


def tables(row: Row, facts: Facts) -> Iterator[Finding]:
    """Tables are whole, and what is announced or opened is there."""
    yield from _ragged(facts.told)
    yield from _announced(facts.told)
    yield from _files(row, facts)


def markdown(text: str) -> list[list[str]]:
    """The lines of each Markdown table outside of code: header, delimiter, rows."""
    found: list[list[str]] = []
    rows: list[str] = []
    for text_line in [*attached.outside(text).splitlines(), ""]:
        stripped = text_line.strip()
        if "|" in stripped:
            rows.append(stripped)
            continue
        start = next((k for k in range(1, len(rows)) if "-" in rows[k] and DELIMITER.fullmatch(rows[k])), None)
        if start is not None:
            found.append(rows[start - 1 :])
        rows = []
    return found


def cells(text: str) -> int:
    """How many cells a table's row has; `\\|` is no border."""
    inner = text.replace("\\|", "")
    return inner.removeprefix("|").removesuffix("|").count("|") + 1


def _ragged(text: str) -> Iterator[Finding]:
    for number, table in enumerate(markdown(text), start=1):
        width = cells(table[0])
        for row in table[1:]:
            if cells(row) != width:
                unsure = any(mark in row + table[0] for mark in ("$", "`"))  # a | in them may be no border
                evidence = f"table {number} has {width} columns; a row has {cells(row)}: {row}"
                yield Finding("tables", "ragged", line(evidence), NOTE if unsure else REFUSE)
                break


def _announced(text: str) -> Iterator[Finding]:
    found = ANNOUNCED.search(text)
    if found and not markdown(text) and not OTHER_TABLES.search(text) and attached.outside(text) == text:
        sure = sum(1 for _ in digits(prose(text[found.end() :]))) < FEW
        place = text[max(0, found.start() - 40) : found.end() + 40]
        yield Finding("tables", "no table", line(f"no table follows: {place}"), REFUSE if sure else NOTE)


def _files(row: Row, facts: Facts) -> Iterator[Finding]:
    present = {posixpath.basename(name) for name in row.files}
    opened = opens(facts.tree) if facts.tree else []
    missing = [name for name in opened if posixpath.normpath(name) not in set(map(posixpath.normpath, row.files))]
    failed = facts.execution is not None and facts.execution.error == "FileNotFoundError"
    if missing:
        kept = ", ".join(row.files) or "none"
        evidence = f"the program opens {', '.join(missing)}; files of the row: {kept}"
        yield Finding("tables", "file not given", line(evidence), REFUSE if failed else NOTE)
    announced = [match for match in FROM_FILE.finditer(facts.told) if posixpath.basename(match["name"]) not in present]
    if announced:
        evidence = f"the text names a file that is not there: {announced[0][0]}"
        yield Finding("tables", "no file", line(evidence), REFUSE)


def opens(tree: ast.Module) -> list[str]:
    """Names of files that a program opens for reading, as far as they are written out, in order; not what it writes."""
    read: dict[str, None] = {}
    made: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called not in READERS or not node.args or (name := _name(node.args[0])) is None:
            continue
        given = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "mode")] if called == "open" else []
        mode = given[0].value if given and isinstance(given[0], ast.Constant) else "r"
        if isinstance(mode, str) and set(mode) & set("wax"):
            made.add(name)
        else:
            read.setdefault(name)
    return [name for name in read if name not in made]


def _name(node: ast.expr) -> str | None:
    """A file's name where it is written out, joined from parts too; None for another expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) and re.fullmatch(attached.NAME, node.value) else None
    joins = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in ("join", "Path")
    if joins and isinstance(node, ast.Call) and node.args:
        parts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        return posixpath.join(*parts) if len(parts) == len(node.args) else None
    return None
