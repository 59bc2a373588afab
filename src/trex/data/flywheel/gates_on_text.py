"""Gates that hold text, data and program together: tables and files are real, every number is used, units are named."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from trex.data.audit.quantities import digits, of_code, power_of_ten, words
from trex.data.audit.tables import markdown, opens
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.looking import Facts
from trex.data.flywheel.representation import Representation, numbers_of
from trex.data.flywheel.stated import apart, not_in_tables
from trex.data.gates import Refused
from trex.data.rendering import DATA_FILE
from trex.data.wording import numbers as told

FEW = 3  # numbers of the data that a program which reads them from a file may hold itself
SMALL = frozenset({0.0, 1.0, 2.0, -1.0})
COMMON = frozenset("per of the a an and in for each squared fraction share".split())  # noqa: SIM905 - words of units that say nothing


def data(row: Dialogue, facts: Facts) -> str:
    """The data are where the mode says, as the representation has them, and the program reads them there."""
    found, mode = row.representation, row.bucket.mode
    held = _literal(facts.audited.tree)
    if mode == "DPS":
        return _file(row, facts, held)
    if held is not None and held != found.data:
        raise Refused("data", f"the program's data: {_difference(held, found.data)}")
    if held is None:
        in_code = of_code(facts.audited.tree) if facts.audited.tree else None
        there = in_code.used | in_code.anywhere if in_code else set()
        lacking = sorted(set(map(abs, numbers_of(found.data))) - there)
        if lacking:
            raise Refused("data", f"the program has no {lacking[0]:g}")
    if mode == "DP":
        if markdown(row.problem):
            raise Refused("data", "the data are to be told in sentences, and the text has a table")
        if found.origin is not None:
            for reason in apart(found, row.problem):
                raise Refused("data", reason)
        return "in sentences; the program holds the same"
    for reason in not_in_tables(found, row.problem):
        raise Refused("data", reason)
    return f"in {len(markdown(row.problem))} tables; the program holds the same"


def _file(row: Dialogue, facts: Facts, held: Any) -> str:
    found, tree = row.representation, facts.audited.tree
    try:
        content = json.loads(row.files[DATA_FILE], object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Refused("data", f"{DATA_FILE} is no JSON: {error}") from None
    if _has_bool(content) or content != found.data:
        raise Refused("data", f"{DATA_FILE}: {_difference(content, found.data)}")
    if DATA_FILE not in row.problem:
        raise Refused("data", f"the text does not name {DATA_FILE}")
    if unnamed := [key for key in content if not re.search(rf"`{re.escape(key)}[`\[]", row.problem)]:
        raise Refused("data", f"the text does not describe the key {unnamed[0]!r} of {DATA_FILE}")
    if tree is None or DATA_FILE not in opens(tree):
        raise Refused("data", f"the program does not read {DATA_FILE}")
    copied = set(of_code(tree).used) & set(numbers_of(found.data)) - SMALL
    if held is not None or len(copied) > FEW:
        raise Refused("data", f"the program holds numbers of the data itself: {sorted(copied)[:5]}")
    return f"{len(content)} keys in {DATA_FILE}, which the program reads"


def _has_bool(value: Any) -> bool:
    """Whether JSON holds true or false, which Python takes for 1 and 0."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, bool) or any(map(_has_bool, items))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises ValueError for a key that is there twice."""
    counts = Counter(key for key, _ in pairs)
    if twice := [key for key, count in counts.items() if count > 1]:
        raise ValueError(f"the key {twice[0]!r} is there twice")
    return dict(pairs)


def numbers(row: Dialogue, facts: Facts) -> str:
    """The text has every number of the data, as often as they do, and no other but in sentences that do not matter."""
    found = row.representation
    for aside in found.asides:
        if aside not in row.problem:
            raise Refused("numbers", f"the text has no sentence {aside!r:.80}")
    asides = Counter(number for aside in found.asides for number in told(aside))
    expected = asides if row.bucket.mode == "DPS" else asides + Counter(numbers_of(found.data))
    seen = Counter(told(row.problem))
    if found.origin is None:  # another author may say a number once for several members, or twice
        expected, seen = Counter(set(expected)), Counter(set(seen) | words(row.problem))
        extra = set(seen) - set(expected) - SMALL - words(row.problem) - _sizes(found)
        added = Counter(sorted(extra))
    else:
        added = seen - expected
    if missing := list((expected - seen).elements()):
        raise Refused("numbers", f"{_shown(missing)} of the data are not in the text")
    if more := list(added.elements()):
        raise Refused("numbers", f"{_shown(more)} of the text are not in the data")
    strange = _strange(row, facts)
    if strange:
        raise Refused("numbers", f"{_shown(strange)} of the program are neither in the data nor in the text")
    return f"{sum(expected.values())} numbers, {sum(asides.values())} of them in sentences that do not matter"


def units(row: Dialogue, facts: Facts) -> str:
    """The text names the units of the representation."""
    said = {_stem(word) for word in re.findall(r"[^\W\d_]+", row.problem.lower())}
    checked = 0
    for part in row.representation.parameters:
        for word in re.findall(r"[^\W\d_]+", part.unit.lower()):
            if word not in COMMON and len(word) > 1:
                checked += 1
                if _stem(word) not in said:
                    raise Refused("units", f"the text never says {word!r}, a unit of {part.name}")
    return f"{checked} words of units are in the text"


def _literal(tree: ast.Module | None) -> Any:
    """The value of `data = {…}` at the program's top level; None where there is none, or it is computed."""
    for node in tree.body if tree else ():
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
            continue
        if [getattr(target, "id", "") for target in node.targets] == ["data"]:
            try:
                return ast.literal_eval(node.value)
            except (ValueError, TypeError, RecursionError):
                return None
    return None


def _difference(held: Any, expected: Any, place: str = "") -> str:
    """The first place where two values differ."""
    if isinstance(held, dict) and isinstance(expected, dict):
        for key in [*expected, *(k for k in held if k not in expected)]:
            if key not in held:
                return f"{place}{key!r} is missing"
            if key not in expected:
                return f"{place}{key!r} is not in the representation"
            if held[key] != expected[key]:
                return _difference(held[key], expected[key], f"{place}{key}: ")
    return f"{place}{held!r:.60}, not {expected!r:.60}"


def _strange(row: Dialogue, facts: Facts) -> list[float]:
    """Numbers that a program computes with and that come from nowhere; what a family's own source holds is known."""
    tree = facts.audited.tree
    if tree is None:
        return []
    known = {abs(value) for value in numbers_of(row.representation.data)} | SMALL
    known |= set(told(row.problem)) | words(row.problem)
    known |= _sizes(row.representation) | {q.value for q in digits(row.problem)}
    if facts.origin is not None:
        known |= of_code(ast.parse(facts.origin.source)).used
    return sorted(v for v in of_code(tree).used if v not in known and not power_of_ten(v))


def _sizes(found: Representation) -> set[float]:
    return {float(len(found.data[part.name])) for part in found.sets}


def _stem(word: str) -> str:
    return word[:-3] + "y" if word.endswith("ies") else word.removesuffix("es").removesuffix("s").removesuffix("e")


def _shown(values: Iterable[float]) -> str:
    every = list(values)
    return ", ".join(f"{value:g}" for value in every[:6]) + (f" and {len(every) - 6} more" if len(every) > 6 else "")
