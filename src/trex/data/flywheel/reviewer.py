"""The rule-based reviewer: it reads the program by itself and holds the checklist to what it finds there.

It owes the cleaner and the representation nothing: domains, directions and constraints are those of the syntax tree.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trex.data.extraction import program
from trex.data.flywheel import cleaner
from trex.data.flywheel.bucket import CLEAN_COT, FORMULATE
from trex.data.flywheel.dialogue import Dialogue, Message, Review
from trex.data.flywheel.writing import CHECKLIST, KINDS, MODEL
from trex.data.gates import Refused

NAME = "rule-based reviewer"
DOMAINS = {
    "Binary": "binary", "NonNegativeIntegers": "integer", "NonNegativeReals": "continuous", "Reals": "free",
    "Boolean": "binary",
}  # fmt: skip
MOST = 40  # lines of a checklist


@dataclass(frozen=True)
class Components:
    """What a program declares, by the names of the components."""

    variables: dict[str, str]  # name -> kind of its domain, "" where it is none of the usual
    constraints: tuple[str, ...]
    senses: tuple[str, ...]


def review(row: Dialogue) -> Review:
    """Whether a cleaned answer is let through, with the reasons against it."""
    reasons = tuple(_reasons(row))
    return Review(NAME, not reasons, reasons)


def reviewed(row: Dialogue) -> Dialogue:
    """The dialogue with the review of its cleaning. Raises Refused where the reviewer refuses it."""
    said = review(row)
    if not said.accepted:
        raise Refused("reviewer", "; ".join(said.reasons[:3]))
    assert row.cleaning is not None
    return replace(row, cleaning=replace(row.cleaning, reviews=(*row.cleaning.reviews, said)))


def cleaning(row: Dialogue) -> dict[str, str]:
    """The evidence of cleaner and reviewer. Raises Refused where a row tells what neither of them did.

    What the rule-based cleaner did is done again from the answer before it.
    """
    found = row.cleaning
    if (found is None) == (row.bucket.style == CLEAN_COT):
        raise Refused("cleaner", f"{'cleaned' if found else 'never cleaned'}, in style {row.bucket.style}")
    if found is None:
        return {}
    if row.representation.origin is not None and found.cleaner != cleaner.NAME:
        raise Refused("cleaner", f"cleaned by {found.cleaner!r:.60}; accepted: {cleaner.NAME}")
    if found.cleaner == cleaner.NAME:
        before = replace(
            row, messages=(*row.messages[:-1], Message("assistant", found.before)), cleaning=None,
            program=row.program if row.bucket.task == FORMULATE else program(found.before).code,
        )  # fmt: skip
        again = cleaner.clean(before)
        if MODEL not in found.before or CHECKLIST in found.before or again.answer != row.answer:
            raise Refused("cleaner", "the answer before is none that cleaning makes this one of")
        if again.cleaning is not None and again.cleaning.changes != found.changes:
            raise Refused("cleaner", f"{again.cleaning.changes} was changed; the row says {found.changes}")
    if not found.reviews:
        raise Refused("reviewer", "nobody has reviewed it")
    for one in found.reviews:
        if not one.accepted or not one.reviewer.strip() or one.reviewer == found.cleaner:
            raise Refused("reviewer", f"{one.reviewer!r:.60}, accepted {one.accepted}, of what {found.cleaner} cleaned")
        if found.cleaner == cleaner.NAME and row.representation.origin is not None and one != Review(NAME, True):
            raise Refused("reviewer", f"{one.reviewer!r:.60} said {one.reasons!r:.80}; accepted: {NAME}, no reasons")
    return {
        "cleaner": f"{found.cleaner}: {len(found.changes)} changes",
        "reviewer": ", ".join(one.reviewer for one in found.reviews),
    }


def _reasons(row: Dialogue) -> Iterator[str]:
    for said in row.cleaning.reviews if row.cleaning is not None else ():
        if not said.accepted:
            yield f"{said.reviewer} refused it"
    code = row.program if row.bucket.task == FORMULATE else program(row.answer).code
    text = row.answer.partition(CHECKLIST)[2].split("```")[0].split("##")[0]
    lines = [line for line in text.strip().split("\n") if line.startswith("- ")]
    if not lines or len(lines) > MOST:
        yield f"a checklist of {len(lines)} lines; accepted: 1 to {MOST}"
        return
    try:
        found = components(code)
    except (SyntaxError, ValueError) as error:
        yield f"the program does not parse: {error}"
        return
    told = {match[1]: match[2] for line in lines if (match := re.match(r"- Decisions: `(\w+)` \(([^)]*)\)", line))}
    for name, kind in found.variables.items():
        if name not in told:
            yield f"the checklist does not tell of the variables {name!r}"
        elif kind and told[name] != KINDS[kind]:
            yield f"the checklist calls {name!r} {told[name]}; the program declares it {KINDS[kind]}"
    for name in told:
        if name not in found.variables:
            yield f"the checklist tells of variables {name!r}, which the program does not declare"
    named = [match[1] for line in lines if (match := re.match(r"- Constraint `(\w+)`", line))]
    if sorted(named) != sorted(found.constraints):
        yield f"the checklist tells of the constraints {sorted(named)}; the program has {sorted(found.constraints)}"
    goal = next((line for line in lines if line.startswith("- Objective")), "")
    if len(found.senses) == 1 and found.senses[0] not in goal:
        yield f"the checklist's objective is {goal[:60]!r}; the program is to {found.senses[0]}"


def components(code: str) -> Components:
    """What a program assigns to components of its model. Raises SyntaxError or ValueError for what does not parse."""
    variables: dict[str, str] = {}
    constraints: list[str] = []
    senses: list[str] = []
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        target, called = node.targets[0], node.value.func
        if not isinstance(target, ast.Attribute) or not isinstance(called, ast.Attribute):
            continue
        keywords = {k.arg: k.value for k in node.value.keywords}
        if called.attr == "Var":
            domain = keywords.get("domain", keywords.get("within"))
            variables[target.attr] = DOMAINS.get(domain.attr, "") if isinstance(domain, ast.Attribute) else ""
        elif called.attr in ("Constraint", "ConstraintList"):
            constraints.append(target.attr)
        elif called.attr == "Objective":
            sense = keywords.get("sense")
            senses.append(sense.attr if isinstance(sense, ast.Attribute) else "minimize")
    return Components(variables, tuple(constraints), tuple(senses))
