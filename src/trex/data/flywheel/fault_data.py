"""Faults in the data: units, columns and keys exchanged, a file or table that differs, data that nothing satisfies."""

import ast
import itertools
import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.fault_proof import Edit, Proof
from trex.data.flywheel.fault_source import Source, shows_program, with_problem, with_program
from trex.data.flywheel.fault_values import (
    Leaf,
    changed,
    leaves,
    place,
    program_with,
    stated,
    tables,
    with_data,
)
from trex.data.flywheel.representation import Parameter
from trex.data.problem import nice
from trex.data.rendering import DATA_FILE, literal

UNITS = (12, 60, 1000)
LARGER = (50, 200, 1000)
REQUIRED = re.compile(r"demand|need|require|least|minimum|order|quantity|promised|liabilit|initial|release|core")


def unit_slip(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """One parameter in another unit: in the program's data, where the program uses it, or one number of the prose."""
    parts = _numeric(row)
    options: list[Edit] = []
    for part in parts:
        factor = rng.choice(UNITS)
        times, over = f"is taken {factor} times", f"is divided by {factor}"
        up = rng.random() < 0.6
        found = [leaf for leaf in leaves(row) if leaf.parameter is part]
        if shows_program(row) and Source(row.program).literal is not None:
            values = {leaf: nice(leaf.value * factor if up else leaf.value / factor) for leaf in found}
            program = program_with(row.program, changed(row.representation.data, values))
            what = f"`{part.name}` {times if up else over} in the program's data"
            options.append(_program_edit(row, program, what))
        if row.bucket.mode == "DP":
            leaf = rng.choice(found)
            text = stated(row, {leaf: nice(leaf.value * factor)}) if leaf.value else None
            if text is not None:
                shown = f"{leaf.shown} is {nice(leaf.value * factor)} in the text, {leaf.value} in the program"
                options.append(Edit(shown, with_problem(row, text)))
    if shows_program(row):
        options += [_program_edit(row, program, what) for program, what in _factors(row, rng)]
    rng.shuffle(options)
    yield from options


def swapped_columns(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """Two columns of a table, two keys of the data, or two keys where the program uses them, exchanged."""
    options: list[Edit] = []
    if row.bucket.mode == "DT":
        options += list(_table_swaps(row))
    pairs = [(a, b) for a, b in itertools.combinations(_numeric(row), 2) if a.index == b.index]
    for a, b in pairs:
        data = dict(row.representation.data)
        data[a.name], data[b.name] = data[b.name], data[a.name]
        if row.bucket.mode == "DPS":
            options.append(_file_edit(row, data, f"the values of `{a.name}` and `{b.name}` are exchanged in the file"))
        elif shows_program(row):
            what = f"the values of `{a.name}` and `{b.name}` are exchanged in the program's data"
            options.append(_program_edit(row, program_with(row.program, data), what))
        if shows_program(row):
            program = _exchanged(row.program, a.name, b.name)
            if program is not None:
                what = f'`data["{a.name}"]` and `data["{b.name}"]` are exchanged in the code'
                options.append(_program_edit(row, program, what))
    rng.shuffle(options)
    yield from options


def table_mismatch(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """The data file, or a table of the text, says something else than the program was made for."""
    found = leaves(row)
    rng.shuffle(found)
    options: list[Edit] = []
    if row.bucket.mode == "DPS":
        for leaf in found[:4]:
            value = _other(leaf.value, rng)
            data = changed(row.representation.data, {leaf: value})
            options.append(_file_edit(row, data, f"{leaf.shown} is {value} in the file, not {leaf.value}"))
        for part in _numeric(row):
            data = row.representation.data
            renamed = {f"{part.name}_value" if key == part.name else key: value for key, value in data.items()}
            options.append(_file_edit(row, renamed, f"the file's key `{part.name}` is `{part.name}_value`"))
            if part.index:
                member = rng.choice(list(data[part.name]))
                kept = {key: value for key, value in data[part.name].items() if key != member}
                what = f"the file has no `{part.name}` for {member}"
                options.append(_file_edit(row, {**data, part.name: kept}, what))
    elif row.bucket.mode == "DT":
        for leaf in found[:12]:
            value = _other(leaf.value, rng)
            text = stated(row, {leaf: value})
            if text is not None:
                what = f"the table says {value} for {leaf.shown}, the program {leaf.value}"
                options.append(Edit(what, with_problem(row, text)))
    rng.shuffle(options)
    yield from options


def infeasible_data(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """Data that nothing satisfies, wherever the row states them; what is claimed stays."""
    if not shows_program(row):
        return
    options = []
    for part in _numeric(row):
        found = [leaf for leaf in leaves(row) if leaf.parameter is part and leaf.value]
        likely = bool(REQUIRED.search(f"{part.name} {part.meaning}".lower()))
        one = [leaf for leaf in found if row.bucket.mode == "DPS" or place(row, leaf) is not None]
        if one:
            leaf = rng.choice(one)
            options += [(likely, part.name, {leaf: nice(leaf.value * rng.choice(LARGER))})] * 2
            options.append((not likely, part.name, {leaf: _less(leaf, rng.choice(LARGER))}))
        if len(one) == len(found) > 1:
            factor = rng.choice(LARGER)
            options.append((likely, part.name, {leaf: nice(leaf.value * factor) for leaf in found}))
            options.append((not likely, part.name, {leaf: _less(leaf, factor) for leaf in found}))
    rng.shuffle(options)
    tried = []
    for _, name, values in sorted(options, key=lambda option: not option[0]):
        if values in tried:
            continue
        tried.append(values)
        new = with_data(row, values)
        if new is not None:
            shown = ", ".join(f"{leaf.shown} is {value} instead of {leaf.value}" for leaf, value in values.items())
            what = shown if len(values) == 1 else f"all `{name}` are changed, such as: {shown.split(', ')[0]}"
            yield Edit(f"{what}, which nothing satisfies", new, partial(_infeasible, row=new))


def _less(leaf: Leaf, factor: float) -> float:
    """A number divided; whole numbers stay whole."""
    return leaf.value // factor if isinstance(leaf.value, int) else nice(leaf.value / factor)


def _numeric(row: Dialogue) -> list[Parameter]:
    """Parameters whose values are all numbers."""
    names = {leaf.parameter.name for leaf in leaves(row)}
    return [part for part in row.representation.parameters if part.name in names]


def _factors(row: Dialogue, rng: random.Random) -> Iterator[tuple[str, str]]:
    """A factor before one use of a parameter in the program."""
    source = Source(row.program)
    depths = {part.name: len(part.index) for part in _numeric(row)}
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Subscript) or source.is_index(node):
            continue
        key, depth = source.depth(node)
        if depths.get(key, -1) == depth and isinstance(source.parents[node], ast.BinOp | ast.Compare):
            factor, text = rng.choice(UNITS), source.cut(node)
            new = rng.choice((f"{factor} * {text}", f"{text} / {factor}"))
            yield source.put((node, f"({new})")), f"`{text}` is `{new}` in line {node.lineno}"


def _table_swaps(row: Dialogue) -> Iterator[Edit]:
    """Two columns of numbers of one table exchanged, their headings left."""
    text = row.problem
    for table in tables(text):
        columns = list(zip(*table.rows, strict=True))
        cells = [[text[slice(*at)] for at in column] for column in columns]
        counted = [k for k in range(1, len(cells)) if all(re.fullmatch(r"-?[\d,.]+", cell) for cell in cells[k])]
        for a, b in itertools.combinations(counted, 2):
            if cells[a] == cells[b]:
                continue
            places = [*zip(columns[a], cells[b], strict=True), *zip(columns[b], cells[a], strict=True)]
            new = text
            for (start, end), cell in sorted(places, reverse=True):
                new = new[:start] + cell + new[end:]
            what = f"the columns {table.header[a]!r} and {table.header[b]!r} of {table.caption!r} are exchanged"
            yield Edit(what, with_problem(row, new))


def _exchanged(program: str, a: str, b: str) -> str | None:
    """A program in which `data[a]` and `data[b]` have changed places; None where it does not name both."""
    source = Source(program)
    edits = []
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and isinstance(node.slice, ast.Constant)
        ):
            key = node.slice.value
            if source.depth(node)[0] == key and key in (a, b):
                edits.append((node.slice, json.dumps(b if key == a else a)))
    named = {text for _, text in edits}
    return source.put(*edits) if len(named) == 2 else None


def _other(value: float, rng: random.Random) -> float:
    """Another number that could be read in its place: a digit, a zero more, or some percent away."""
    digits = str(nice(abs(value)))
    options = [nice(value * 10), nice(round(value * rng.choice((0.8, 0.9, 1.1, 1.25)), 2))]
    places = [k for k, digit in enumerate(digits) if digit.isdigit()]
    k = rng.choice(places)
    digit = rng.choice([d for d in "123456789" if d != digits[k]])
    options.append(nice(float(digits[:k] + digit + digits[k + 1 :])))
    options = [option for option in options if abs(option - value) > 0.02 * abs(value)]
    return rng.choice(options or [value + 1])


def _program_edit(row: Dialogue, program: str, what: str) -> Edit:
    return Edit(what, with_program(row, program), partial(_fails, program=program, files=row.files))


def _file_edit(row: Dialogue, data: dict[str, Any], what: str) -> Edit:
    files = {**row.files, DATA_FILE: literal(data)}
    return Edit(what, replace(row, files=files), partial(_fails, program=row.program, files=files))


def _fails(proof: Proof, program: str, files: dict[str, str]) -> bool:
    return proof.fails(program, files)


def _infeasible(proof: Proof, row: Dialogue) -> bool:
    return proof.is_infeasible(row.program, row.files)
