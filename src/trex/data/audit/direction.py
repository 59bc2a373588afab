"""Gate on the objective's direction: what the text asks to make small or large, against what the model does."""

import re
from collections.abc import Iterator
from dataclasses import replace

from trex.data.audit import attached
from trex.data.audit.facts import Facts
from trex.data.audit.findings import NOTE, REFUSE, Finding, line
from trex.data.audit.rows import Row
from trex.data.audit.running import ZERO
from trex.solver.model import Model
from trex.solver.solve import solve

SECONDS = 10.0  # to solve the model the other way round
VERBS = {
    "min": re.compile(r"\bminimi[sz](?:e|es|ed|ing|ation)\b", re.IGNORECASE),
    "max": re.compile(r"\bmaximi[sz](?:e|es|ed|ing|ation)\b", re.IGNORECASE),
}
# words that make a text name both directions
ASIDE = {
    "min": re.compile(
        r"\b(?:smallest|lowest|cheapest|least (?!one\b)|(?:low|small|few|little) as possible)", re.IGNORECASE
    ),
    "max": re.compile(
        r"\b(?:largest|highest|greatest|best|most (?!of\b)|(?:high|large|many|much) as possible)", re.IGNORECASE
    ),
}
AT_LEAST = re.compile(r"\bat (?:least|most)\b", re.IGNORECASE)
DUAL = re.compile(r"\bdual|\b(?:minimum|min|maximum|max)[- ]?cut\b", re.IGNORECASE)
RATIO = re.compile(
    r"\b(?:maximi|minimi)[sz](?:e|ing)\s+(?:the\s+)?(?:[\w-]+\s+){0,3}?(?:ratio|average|quotient|rate of return|"
    r"return on investment|proportion)\b(?:\s+[\w-]+){0,4}",
    re.IGNORECASE,
)


def direction(row: Row, facts: Facts) -> Iterator[Finding]:
    """The model goes the way that the text names, where it names one only.

    A model of the negated objective, or a dual, is right too. So the row is refused only where the optimum has not the
    sign of a negated one, and the model, turned round, has an optimum away from zero: a dual is unbounded or zero then.
    """
    model, value = facts.model, facts.optimum
    if model is None:
        return
    text = attached.outside(facts.told)
    found = {sense: match for sense, verb in VERBS.items() if (match := verb.search(text))}
    if len(found) == 1 and value is not None and model.sense not in found:
        sense, match = next(iter(found.items()))
        place = text[max(0, match.start() - 20) : match.end() + 60]
        told = f"the text: {place!r}; the model's sense is {model.sense}, its optimum {value!r}"
        if value < 0:
            yield Finding("direction", "negated", line(told), NOTE)
        else:
            both = ASIDE[model.sense].search(AT_LEAST.sub("", text)) or DUAL.search(row.answer)
            turned = None if both else _turned(model, sense)
            more = "" if turned is None else f"; turned round, {turned!r}"
            yield Finding("direction", "opposite", line(told + more), NOTE if turned is None else REFUSE)
    if ratio := RATIO.search(text):
        shape = "quadratic" if model.quadratic else "linear"
        evidence = f"the text asks for a ratio: {ratio[0]!r}; the model's objective is {shape}"
        yield Finding("direction", "ratio", line(evidence), NOTE)


def _turned(model: Model, sense: str) -> float | None:
    """The optimum of the model the other way round, where it has one that is not zero."""
    found = solve(replace(model, sense=sense), SECONDS)
    return found.objective if found.status == "optimal" and abs(found.objective or 0.0) >= ZERO else None
