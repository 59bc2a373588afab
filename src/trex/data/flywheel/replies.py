"""A model's replies as parts of a dialogue: representation, problem, programs, a mistake. Nothing of them is run.

Every function raises DataError for a reply that cannot be used, with a reason that the model is told.
"""

import ast
import keyword
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from trex.data.extraction import program
from trex.data.flywheel.asking import extract_json
from trex.data.flywheel.bucket import Bucket
from trex.data.flywheel.prompts import PROBLEM_TAG
from trex.data.flywheel.representation import Representation, numbers_of
from trex.data.problem import DataError
from trex.data.rendering import DATA_FILE
from trex.data.wording import numbers

LONGEST_PROBLEM = 60_000  # characters
LONGEST_FAULT = 500
SHOWN = 8  # things that a reason lists
SMALL = (0.0, 1.0, 2.0)  # numbers that a text may hold without telling the data
TAKEN = ("objective", "model", "data")  # names that a program needs itself
THINK, THOUGHT = "<think>", "</think>"


def represented(text: str) -> Representation:
    """The representation in a reply, never with an origin. Raises DataError."""
    value = extract_json(text, ("title", "structure", "sets", "parameters", "decisions", "objective", "constraints"))
    value.pop("origin", None)  # only the embedded author may say one
    try:
        found = Representation.of(value)
        found.line.encode()
    except (UnicodeEncodeError, OverflowError) as error:
        raise DataError(f"representation: a text or number that no file can hold: {type(error).__name__}") from None
    parts: list[Any] = [*found.sets, *found.parameters, *found.decisions]
    if bad := [part.name for part in parts if not part.symbol.strip()]:
        raise DataError(f"{bad[0]!r} has no symbol")
    if bad := [text for text in _texts(asdict(found)) if len(text.splitlines()) > 1 or "```" in text]:
        raise DataError(f"{bad[0]!r:.80}; accepted: texts without line breaks and blocks of code")
    names = component_names(found)
    if bad := [name for name in names if keyword.iskeyword(name) or name in ("objective", "model", "data")]:
        raise DataError(f"name {bad[0]!r}; accepted: other names than Python's words, objective, model and data")
    return found


def component_names(found: Representation) -> list[str]:
    """Names that a program gives to the parts of its model: decisions, terms of the objective, constraints."""
    return [
        *(d.name for d in found.decisions),
        *(t.name for t in found.objective),
        *(c.name for c in found.constraints),
    ]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def synthetic(text: str, parent: Representation, bucket: Bucket) -> Representation:
    """A new representation of the bucket's structure, no copy of its parent. Raises DataError."""
    found = represented(text)
    if found.structure != bucket.structure:
        raise DataError(f"structure {found.structure!r:.60}; accepted: {bucket.structure!r}")
    if bucket.domain and found.domain != bucket.domain:
        raise DataError(f"domain {found.domain!r:.60}; accepted: {bucket.domain!r}")
    if found.data == parent.data:
        raise DataError("its data are those of the representation that was given; accepted: other members and numbers")
    same = [
        part.name for part in found.sets if part.name in parent.data and found.data[part.name] == parent.data[part.name]
    ]
    if same and len(same) == len(found.sets):
        raise DataError(f"the members of {', '.join(same[:SHOWN])} are those that were given; accepted: other members")
    return found


def told(text: str, found: Representation, mode: str) -> str:
    """The problem's text of a reply, which tells the data as the mode has it. Raises DataError."""
    problem = _between_tags(text)
    if not problem or len(problem) > LONGEST_PROBLEM:
        raise DataError(f"a problem of {len(problem):,} characters; accepted: from 1 to {LONGEST_PROBLEM:,}")
    for reason in _untold(problem, found, mode):
        raise DataError(reason)
    return problem


def _untold(problem: str, found: Representation, mode: str) -> Iterator[str]:
    """What a problem's text lacks, or holds too much."""
    if "```" in problem:
        yield "the text holds a block of code; accepted: sentences and, where data stand in tables, tables"
    if lost := [aside for aside in found.asides if aside not in problem]:
        yield f"this sentence of the asides is not in the text word for word: {lost[0]!r:.200}"
    has_table = any(line.startswith("|") for line in problem.splitlines())
    if has_table != (mode == "DT"):
        yield f"the text holds {'a' if has_table else 'no'} table; accepted in mode {mode}: the other"
    values = set(numbers_of(found.data))
    if mode == "DPS":
        names = [DATA_FILE, *found.data]
        if lost := [name for name in names if f"`{name}`" not in problem and f"`{name}[" not in problem]:
            yield f"the text does not describe {_listed(lost)} in backticks"
        rest = problem
        for aside in found.asides:
            rest = rest.replace(aside, "")
        if leaked := [value for value in numbers(rest) if value in values and value not in SMALL]:
            yield f"the text holds numbers of the data: {_listed(leaked)}"
        return
    stated = {*numbers(problem), 0.0}
    if unsaid := sorted(values - stated):
        yield f"numbers of the data that are not in the text, in digits: {_listed(unsaid)}"
    members = [member for part in found.sets for member in found.data[part.name]]
    lowered = problem.lower()  # a member may begin a sentence
    if lost := [member for member in members if member.lower() not in lowered]:
        yield f"members that are not in the text: {_listed(lost)}"


def first_program(text: str, found: Representation, mode: str) -> str:
    """The Pyomo program of a reply, with the representation's names and data. Raises DataError."""
    code = program_of(text, "pyomo")
    tree = ast.parse(code)
    named = set(_components(tree))
    names = component_names(found)
    if lost := [name for name in names if name not in named]:
        raise DataError(f"the program has no components of the names {_listed(lost)}")
    if "objective:" not in code:
        raise DataError('the program does not print "objective:" and the optimum')
    held = list(_literals(tree, "data"))
    if mode == "DPS":
        if DATA_FILE not in code or held:
            raise DataError(f"the program holds the data; accepted: json.load from {DATA_FILE}")
    elif len(held) != 1 or held[0] != found.data:
        raise DataError(f"the program assigns `data` {len(held)} literals; accepted: one that equals the data given")
    return code


def _components(tree: ast.Module) -> Iterator[Any]:
    """Names that a program gives to parts of objects, as `m.name = …` and `m.add_component("name", …)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_component":
            yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))


def second_program(text: str, first: str) -> str:
    """The gurobipy program of a reply, another one than the first. Raises DataError."""
    code = program_of(text, "gurobipy")
    if ".optimize(" not in code or "import pyomo" in code:
        raise DataError("the program does not solve a model of gurobipy with optimize()")
    if code == first:
        raise DataError("the program is the first one")
    return code


def mistaken(text: str, right: str) -> tuple[str, str]:
    """The wrong program of a reply and what is wrong with it. Raises DataError."""
    value = extract_json(text, ("program", "fault"))
    given, fault = value["program"], value["fault"]
    if not isinstance(given, str) or not isinstance(fault, str):
        raise DataError(f"program {given!r:.60}, fault {fault!r:.60}; accepted: two texts")
    fault = " ".join(fault.encode(errors="replace").decode().split())
    if not 0 < len(fault) <= LONGEST_FAULT or "```" in fault:
        raise DataError(f"a fault of {len(fault)} characters; accepted: a sentence of up to {LONGEST_FAULT}")
    given = given.encode(errors="replace").decode()
    code = program_of(given if "```" in given else f"```python\n{given}\n```", "pyomo")
    if ast.dump(ast.parse(code)) == ast.dump(ast.parse(right)):
        raise DataError("the program with the mistake is the right one")
    return code, fault


def outside_thought(text: str) -> str:
    """A reply without its reasoning; what stands behind an opening tag alone is reasoning to the end."""
    if THOUGHT in text:
        return text.rpartition(THOUGHT)[2]
    return text.partition(THINK)[0]


def _between_tags(text: str) -> str:
    text = outside_thought(text).replace("\r\n", "\n")
    end = text.rfind(f"</{PROBLEM_TAG}>")
    start = text.rfind(opened := f"<{PROBLEM_TAG}>", 0, max(end, 0))
    if start < 0:
        raise DataError(f"the reply has no <{PROBLEM_TAG}> … </{PROBLEM_TAG}>")
    return text[start + len(opened) : end].strip()


def program_of(text: str, library: str) -> str:
    """The program of a reply. Raises DataError for none, and for one that does not parse or import the library."""
    extracted = program(text)
    code = extracted.code.strip()
    if not code:
        raise DataError(f"no program: {extracted.how}")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"the program does not parse: {error}"[:300]) from None
    if any(line.lstrip().startswith(("```", "~~~")) for line in code.splitlines()):
        raise DataError("the program holds a fence of code")
    imported = {
        (alias.name if isinstance(node, ast.Import) else node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    if library not in imported:
        raise DataError(f"the program does not import {library}; it imports {_listed(sorted(imported)) or 'nothing'}")
    return code


def _literals(tree: ast.Module, name: str) -> Iterator[Any]:
    """The literals that a module assigns a name, at its top level."""
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name) and target.id == name:
            try:
                yield ast.literal_eval(node.value or ast.Constant(None))
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                continue


def _listed(values: Sequence[Any]) -> str:
    """Some values in words, the first ones."""
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value)[:60] for value in values[:SHOWN]) + more
