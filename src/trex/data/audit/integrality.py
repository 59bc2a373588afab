"""Gate on whole numbers: what the text says of them, against the kinds of the model's variables."""

import re
from collections.abc import Iterator

import numpy as np

from trex.data.audit import attached
from trex.data.audit.facts import Facts
from trex.data.audit.findings import NOTE, REFUSE, Finding, line
from trex.data.audit.rows import Row

WHOLE = re.compile(
    r"\binteger (?:variables?|decision|number of|numbers of|quantities|units|values? only)\b|"
    r"\b(?:must|should|have to|has to) (?:all )?be (?:an? )?(?:non-?negative |positive )?(?:integers?|whole)\b|"
    r"\bnon-?negative integers?\b|\bwhole (?:numbers?|units?)\b|\bmixed-?\s?integer\b|\binteger (?:linear )?program|"
    r"\bcannot be (?:divided|split|fractional)\b|\bindivisible\b|\bbinary (?:variables?|decisions?)\b",
    re.IGNORECASE,
)
UNSURE = re.compile(r"\b(?:not|need not|needn't|or|relax\w*|if|instead of|rather than|unless)\b", re.IGNORECASE)
DIVISIBLE = re.compile(
    r"\b(?:may|can|could) be (?:fractional|fractions?|divided|split|non-?integer|continuous)\b|"
    r"\bfraction(?:al|s)? (?:\w+ )?(?:units|amounts|quantities|values|shares) (?:is|are) "
    r"(?:allowed|permitted|possible|acceptable)|"
    r"\ball (?:decision )?variables are (?:non-?negative (?:and )?)?continuous\b|"
    r"\bneed not be (?:whole|integers?)\b|\bcontinuous linear program",
    re.IGNORECASE,
)
DENIED = re.compile(r"\b(?:no|not|none|neither|nor|never|cannot)\b", re.IGNORECASE)
CHOICE = re.compile(
    r"\binteger|\bbinary|\bwhole\b|\bwhether|\bselect|\bchoos|\bactivat|\bopen|\bassign|0-1|\byes", re.IGNORECASE
)
THINGS = (
    "trucks vehicles buses cars vans planes ships workers employees nurses doctors machines chairs tables computers "
    "people persons trips batches robots servers scooters bicycles phones lamps houses students animals"
)
COUNT = re.compile(rf"\b(?:number of|how many) (?:[\w-]+ ){{0,2}}?({'|'.join(THINGS.split())})\b", re.IGNORECASE)
WITHIN = 1e-6  # of a whole number


def integrality(row: Row, facts: Facts) -> Iterator[Finding]:
    """Variables are whole where the text says so, and only there."""
    model, solution = facts.model, facts.solution
    if model is None or solution is None or solution.status != "optimal" or facts.optimum is None:
        return
    text = attached.outside(facts.told)
    kinds = f"all {len(model.variables)} variables of the model are continuous"
    values = np.array(list(solution.values.values()))
    whole = bool(np.all(np.abs(values - np.round(values)) <= WITHIN))
    if not len(model.integers):
        if said := next(filter(None, (_sure(text, match) for match in WHOLE.finditer(text))), None):
            seen = "its optimum is whole all the same" if whole else f"it has {_broken(facts)} at the optimum"
            evidence = f"the text: {said!r}; {kinds}, and {seen}"
            yield Finding("integrality", "continuous", line(evidence), NOTE if whole else REFUSE)
        elif (counted := COUNT.search(text)) and not _divisible(text) and not whole:
            evidence = f"the text counts: {counted[0]!r}; {kinds}, and it has {_broken(facts)} at the optimum"
            yield Finding("integrality", "counts", line(evidence), NOTE)
    elif (said := _divisible(text)) and not CHOICE.search(text):
        share = f"{len(model.integers)} of {len(model.variables)} variables are integer"
        evidence = f"the text: {said!r}; {share}"
        yield Finding("integrality", "integer", line(evidence), NOTE)


def _sure(text: str, match: re.Match[str]) -> str:
    """The words around a match, "" where they may take back what it says."""
    start = max(text.rfind(end, 0, match.start()) for end in (".", "\n", ";")) + 1
    before = text[start : match.start()]
    after = text[match.end() : match.end() + 25].partition(".")[0]
    return "" if UNSURE.search(f"{before[-60:]} {after}") else f"{before[-40:]}{match[0]}".strip()


def _divisible(text: str) -> str:
    """Where the text allows parts of things, "" where it does not, or denies it."""
    for match in DIVISIBLE.finditer(text):
        start = max(text.rfind(end, 0, match.start()) for end in (".", "\n", ";")) + 1
        if not DENIED.search(text[start : match.start()]):
            return text[start : match.end()].strip()[-80:]
    return ""


def _broken(facts: Facts) -> str:
    """One variable that is no whole number."""
    assert facts.solution is not None
    name, value = next((n, v) for n, v in facts.solution.values.items() if abs(v - round(v)) > WITHIN)
    return f"{name} = {value:.6g}"
