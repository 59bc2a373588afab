"""Gate on what is claimed: the optimum that the program, its print-out, the answer's text or the label names."""

import math
from collections.abc import Iterable, Iterator

from trex.data.audit.facts import Facts
from trex.data.audit.findings import NOTE, REFUSE, Finding, line
from trex.data.audit.quantities import Quantity, written
from trex.data.audit.rows import Row

TOLERANCE = 1e-6  # relative
UNITS = (1.0, 1e2, 1e3, 1e6)  # a text may count in per cent, thousands or millions


def claim(row: Row, facts: Facts) -> Iterator[Finding]:
    """Every optimum that is named is the solver's, or that one rounded to the digits that are written."""
    value = facts.optimum
    if value is None or facts.execution is None:
        return
    claimed = facts.execution.claimed
    if claimed is not None and not math.isclose(claimed, value, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        yield Finding("claim", "program", f"the program's solver claims {claimed!r}; the optimum is {value!r}", REFUSE)
    yield from _named("answer", "the answer's text says", facts.stated, value, REFUSE)
    if not facts.stated:
        yield from _named("answer", "the answer's text says", facts.results, value, NOTE)
    yield from _named("printed", "the program prints", facts.printed, value, NOTE)
    if row.label is not None and not agrees(row.label, value):
        evidence = f"the label is {row.label}; the program's model has the optimum {value!r}"
        yield Finding("claim", "label", evidence, REFUSE)


def agrees(label: str, value: float) -> bool:
    """Whether a label is a value, or the value rounded to the label's digits."""
    return written(label).fits(value, TOLERANCE)


def _named(kind: str, who: str, claims: Iterable[Quantity], value: float, severity: str) -> Iterator[Finding]:
    """What is found where none of the claims is the optimum; one that is speaks for the others, of parts of it."""
    wrong = [quantity for quantity in claims if not _same(quantity, value)]
    if wrong and len(wrong) == len(list(claims)):
        evidence = f"{who} {wrong[-1].written!r}; the optimum is {value!r}"
        yield Finding("claim", kind, line(evidence), severity)


def _same(claim: Quantity, value: float) -> bool:
    """Equal up to sign (a loss may be told as a number) and unit."""
    stated = Quantity(claim.written, abs(claim.value), claim.half)
    return any(stated.fits(abs(value) * unit) or stated.fits(abs(value) / unit) for unit in UNITS)
