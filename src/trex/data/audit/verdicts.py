"""All gates over one row, and the verdict that comes of them."""

from collections.abc import Iterator
from typing import Any

from trex.data.audit import claims, direction, integrality, numbers, running, tables
from trex.data.audit.facts import Facts, look
from trex.data.audit.findings import GATES, REFUSE, Finding, line
from trex.data.audit.rows import Row
from trex.solver.workers import Died

ACCEPTED, REFUSED, UNCHECKED = "accepted", "refused", "unchecked"  # the last: a row without a program to be run
VERDICTS = (ACCEPTED, REFUSED, UNCHECKED)


def judge(row: Row, seconds: float, linear: bool) -> dict[str, Any]:
    """The verdict on a row, as JSON holds it; what the processes of a run do."""
    if row.fault:
        return verdict(row, [Finding("schema", "schema", line(row.fault), REFUSE)])
    facts = look(row, seconds)
    return verdict(row, list(findings(row, facts, linear)), facts)


def findings(row: Row, facts: Facts, linear: bool = False) -> Iterator[Finding]:
    """What all gates find, in their order."""
    yield from running.code(row, facts)
    yield from running.execution(row, facts)
    yield from running.model(row, facts)
    yield from running.optimum(row, facts)
    yield from running.trivial(row, facts)
    yield from running.nonlinear(row, facts, linear)
    yield from claims.claim(row, facts)
    yield from tables.tables(row, facts)
    yield from numbers.numbers(row, facts)
    yield from direction.direction(row, facts)
    yield from integrality.integrality(row, facts)


def verdict(row: Row, found: list[Finding], facts: Facts | None = None) -> dict[str, Any]:
    """What is written of a row. Refused where one finding refuses it."""
    refused = any(finding.severity == REFUSE for finding in found)
    solution = facts.solution if facts else None
    return {
        "line": row.number,
        "id": row.id,
        "verdict": REFUSED if refused else ACCEPTED if facts and facts.program.code else UNCHECKED,
        "findings": [vars(f) for f in sorted(found, key=lambda f: GATES.index(f.gate))],
        "status": solution.status if solution else None,
        "objective": solution.objective if solution and solution.status == "optimal" else None,
        "label": row.label,
        "proposed_label": _proposed(row, facts),
    }


def ended(row: Row, died: Died) -> dict[str, Any]:
    """The verdict on a row at which its process ended."""
    return verdict(row, [Finding("execution", "audit ended", line(str(died)), REFUSE)])


def _proposed(row: Row, facts: Facts | None) -> dict[str, Any] | None:
    """Another label, where two solvers agree on the optimum and the row's label is not that one rounded."""
    if facts is None or facts.optimum is None or row.label is None or claims.agrees(row.label, facts.optimum):
        return None
    solution = facts.solution
    if solution is None or solution.agreement is None or solution.agreement.agrees is not True:
        return None
    reason = f"{solution.solver} and {solution.agreement.solver} agree on it for the program's model"
    return {"value": facts.optimum, "reason": reason}
