"""Wrong programs that are to be repaired: one clause of the contract broken in the text of the model's source."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from trex.data.contract import BINARY, CONTINUOUS, FREE, INTEGER, Contract
from trex.data.flywheel.writing import KINDS

DOMAINS = {
    BINARY: "pyo.Binary", INTEGER: "pyo.NonNegativeIntegers", CONTINUOUS: "pyo.NonNegativeReals", FREE: "pyo.Reals",
}  # fmt: skip
OTHER = {BINARY: CONTINUOUS, INTEGER: CONTINUOUS, CONTINUOUS: INTEGER, FREE: CONTINUOUS}
COMPARED = re.compile(r"(?<![<>=!])(<=|>=)(?!=)")


@dataclass(frozen=True)
class Wrong:
    """A wrong source, and what is wrong with it, in words."""

    source: str
    fault: str


def wrong(source: str, contract: Contract) -> Iterator[Wrong]:
    """Every way to break the source of a model that keeps its form: its statements stay as they are written."""
    places = _statements(source)
    for clause in contract.constraints:
        if clause.name in places:
            yield Wrong(_put(source, places[clause.name], ""), f"the constraint `{clause.name}` is missing.")
            text = _text(source, places[clause.name])
            if len(COMPARED.findall(text)) == 1:
                turned = COMPARED.sub(lambda match: {"<=": ">=", ">=": "<="}[match[0]], text)
                yield Wrong(
                    _put(source, places[clause.name], turned),
                    f"the constraint `{clause.name}` has its inequality the wrong way round.",
                )
    for variables in contract.variables:
        text = _text(source, places[variables.name]) if variables.name in places else ""
        domain = DOMAINS[variables.domain]
        if text.count(domain) == 1 and not re.search(rf"{re.escape(domain)}\w", text):
            other = OTHER[variables.domain]
            yield Wrong(
                _put(source, places[variables.name], text.replace(domain, DOMAINS[other])),
                f"the variables `{variables.name}` are declared as {KINDS[other]}; "
                f"they should be {KINDS[variables.domain]}.",
            )
    text = _text(source, places["objective"])
    other_sense = {"minimize": "maximize", "maximize": "minimize"}[contract.sense]
    if text.count(f"pyo.{contract.sense}") == 1:
        yield Wrong(
            _put(source, places["objective"], text.replace(f"pyo.{contract.sense}", f"pyo.{other_sense}")),
            f"the program sets out to {other_sense} the objective; the problem asks to {contract.sense} it.",
        )
    for mistake in contract.mistakes:
        if source.count(mistake.old) == 1:
            yield Wrong(source.replace(mistake.old, mistake.new), f"the model has this mistake: {mistake.what}.")


def _statements(source: str) -> dict[str, tuple[int, int]]:
    """The lines, from 0 and past the end, of each statement `m.<name> = …` that is there once."""
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    found: dict[str, list[tuple[int, int]]] = {}
    for node in function.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            found.setdefault(node.targets[0].attr, []).append((node.lineno - 1, node.end_lineno or node.lineno))
    return {name: places[0] for name, places in found.items() if len(places) == 1}


def _text(source: str, place: tuple[int, int]) -> str:
    return "".join(source.splitlines(keepends=True)[slice(*place)])


def _put(source: str, place: tuple[int, int], text: str) -> str:
    lines = source.splitlines(keepends=True)
    return "".join([*lines[: place[0]], text, *lines[place[1] :]])
