"""Gates on the model that a dialogue's program solved: contract, optimum, and a formulation that owes it nothing."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from itertools import zip_longest

import numpy as np

from trex.data.audit import claims
from trex.data.audit.findings import REFUSE
from trex.data.audit.quantities import digits
from trex.data.audit.verdicts import findings
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.gates_on_reasoning import answered, printed
from trex.data.flywheel.looking import SECONDS, Facts, audit_row
from trex.data.flywheel.recombine import Recombined, compiled, representation
from trex.data.flywheel.representation import Representation
from trex.data.flywheel.stated import not_told
from trex.data.flywheel.writing import FAULT, shortened
from trex.data.flywheel.wrong import wrong
from trex.data.gates import TOLERANCE, Refused
from trex.data.problem import DataError, sentence
from trex.data.program import program, reformulation
from trex.data.proving import sandbox
from trex.solver.equivalence import compare
from trex.solver.model import WHOLE, Model
from trex.solver.pyomo_model import from_pyomo
from trex.solver.sandbox.execution import Limits
from trex.solver.solve import solve

WRONG_SECONDS = 10.0  # for a program that is to be repaired
AUDITED = ("execution", "model", "optimum", "trivial", "tables", "direction", "integrality")


def audit(row: Dialogue, facts: Facts) -> dict[str, str]:
    """The gates over anyone's rows but that on claims; their evidence by gate. Raises Refused at the first refusal."""
    found = [finding for finding in findings(audit_row(row), facts.audited) if finding.gate != "claim"]
    for finding in found:
        if finding.severity == REFUSE:
            raise Refused(finding.gate, f"{finding.kind}: {finding.evidence}")
    solution, run = facts.audited.solution, facts.audited.execution
    if solution is None or run is None or facts.audited.optimum is None:
        raise Refused("optimum", "no model was solved")
    if run.how != "solved":
        raise Refused("execution", f"the program's model was {run.how or 'built'}, not solved")
    second = solution.agreement.solver if solution.agreement is not None else "no second solver"
    notes = dict.fromkeys(AUDITED, "")
    notes |= {
        "execution": "ended by itself",
        "model": f"{len(facts.model.variables)} variables, {len(facts.model.rows)} constraints",
        "optimum": f"{facts.optimum!r} by {solution.solver} and {second}",
    }
    for finding in found:
        if finding.gate in notes:
            notes[finding.gate] = f"{notes[finding.gate]} ({finding.kind}: {finding.evidence})".strip()
    return notes


def contract(row: Dialogue, facts: Facts) -> str:
    """Variables, their domains, constraints and the objective's direction are those of the representation."""
    found, model = row.representation, facts.model
    if model.sense != found.sense[:3]:
        raise Refused("contract", f"the model is to {model.sense}imize; the contract says {found.sense}")
    domains = {decision.name: decision.domain for decision in found.decisions}
    seen = {}
    for number, name in enumerate(model.variables):
        family = name.split("[")[0]
        if family not in domains:
            raise Refused("contract", f"the model has variables {family!r}; the contract has {', '.join(domains)}")
        seen[family] = True
        if (domain := _domain(model, number)) != domains[family]:
            raise Refused("contract", f"{name} is {domain}; the contract says {domains[family]}")
    if missing := [name for name in domains if name not in seen]:
        raise Refused("contract", f"the model has no variables {missing[0]!r}")
    rows = Counter(name.split("[")[0] for name in model.rows)
    rules = [rule.name for rule in found.constraints]
    # constraints over pairs of which these data have none are in no model
    expected = _expected(facts)
    there = rules if expected is None else {name.split("[")[0] for name in expected.rows}
    if missing := [name for name in rules if name in there and name not in rows]:
        raise Refused("contract", f"the constraint {missing[0]!r} is not in the model")
    if added := [name for name in rows if name not in rules]:
        raise Refused("contract", f"the model has a constraint {added[0]!r} that the contract has not")
    return f"{len(domains)} families of variables, {len(rules)} of constraints, to {found.sense}"


def _expected(facts: Facts) -> Model | None:
    """The family's model with the row's changes. Raises Refused where its origin is none that could have made it."""
    try:
        return facts.expected
    except (DataError, KeyError) as error:
        raise Refused("contract", f"the origin makes no problem: {type(error).__name__} {error}") from None


def independent(row: Dialogue, facts: Facts) -> str:
    """The optimum is that of a formulation that owes the program nothing, where there is one."""
    if facts.origin is not None and facts.expected is not None:
        evidence = _family(facts.origin, facts.expected, facts)
        for reason in _told(row, facts.origin):
            raise Refused("independent", reason)
        return evidence
    if not row.second:
        return "none"
    if row.second.strip() == row.program.strip():
        raise Refused("independent", "the second program is the first")
    execution = sandbox().run(row.second, row.files, Limits(seconds=SECONDS))
    if execution.status != "ok" or execution.model is None:
        raise Refused("independent", f"the second program: {execution.status} {execution.message or execution.unread}")
    other = solve(execution.model, SECONDS)
    if other.status != "optimal" or other.objective is None:
        raise Refused("independent", f"the second program's model is {other.status}")
    _close("the second program", other.objective, facts.optimum)
    return f"the second program: {other.objective!r}"


def _family(origin: Recombined, expected: Model, facts: Facts) -> str:
    """Row for row the family's model with its changes; unchanged, with the optimum of its second formulation."""
    if not facts.model.same(expected):
        verdict = compare(facts.model, expected, mode="isomorphism")
        if verdict.kind != "equal":
            raise Refused("independent", f"the model is not that of the family: {verdict.reason}")
    if origin.is_changed:  # of which there is no second formulation
        return "row for row the family's model, changed"
    other = solve(origin.family.reformulated(origin.whole).trex_model(), SECONDS)
    if other.status != "optimal" or other.objective is None:
        raise Refused("independent", f"the second formulation is {other.status}")
    _close("the second formulation", other.objective, facts.optimum)
    return f"the second formulation: {other.objective!r}"


def _told(row: Dialogue, origin: Recombined) -> Iterator[str]:
    """What a row says otherwise than its family: in its representation, text and programs."""
    ours, mode = representation(origin, row.representation.asides), row.bucket.mode
    for part in fields(Representation):
        if getattr(row.representation, part.name) != getattr(ours, part.name):
            yield f"the {part.name} of the representation are not the family's"
    yield from not_told(origin, mode, row.representation.asides, row.problem)
    second = "" if origin.is_changed else reformulation(origin.problem, mode)
    for which, seen, right in (
        ("program", row.program, program(origin.problem, mode, origin.source)), ("second program", row.second, second),
    ):  # fmt: skip
        if other := _first_difference(seen, right):
            yield f"the {which} is not the family's: {other}"


def _first_difference(seen: str, right: str) -> str:
    """The first line of a text that is not that of another; "" where they are equal but for the last line break."""
    for a, b in zip_longest(seen.rstrip("\n").split("\n"), right.rstrip("\n").split("\n")):
        if a != b:
            return f"{a!r:.80} stands for {b!r:.80}"
    return ""


def repair(row: Dialogue, facts: Facts) -> str:
    """The program that is to be repaired is wrong: it fails, or its model is not that of the right one."""
    if not row.wrong:
        return ""
    return _one_fault(row, facts.origin, facts.model) if facts.origin is not None else _wrong_model(row, facts)


def _wrong_model(row: Dialogue, facts: Facts) -> str:
    execution = sandbox().run(row.wrong, row.files, Limits(seconds=WRONG_SECONDS))
    if execution.status == "timeout":
        raise Refused("repair", f"the program that is to be repaired does not end within {WRONG_SECONDS:g} s")
    if execution.model is None:
        return f"the wrong program: {execution.status} {execution.message}".strip()
    _is_different(execution.model, facts.model)
    if execution.claimed is None:
        return "the wrong program's model has no optimum"
    same = math.isclose(execution.claimed, facts.optimum, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return f"the wrong program's model is another; its optimum is {'the same here' if same else execution.claimed}"


def _one_fault(row: Dialogue, origin: Recombined, right_model: Model) -> str:
    """The wrong program has one fault, one that a family's program can have, and an answer that names one names it.

    Its model is built from the family's source, broken so, and not solved: some of them would take very long.
    """
    broken = [
        one
        for one in wrong(origin.source, origin.family.contract)
        if program(origin.problem, row.bucket.mode, one.source) == row.wrong
    ]
    if not broken:
        raise Refused("repair", "the program that is to be repaired is not the family's with one fault")
    told = row.answer.partition("\n")[0].removeprefix(f"{FAULT} ") if FAULT in row.answer else ""
    right = {f"{sentence(one.fault)} {_rule(row.representation, one.fault)}".strip() for one in broken}
    if FAULT in row.answer and told not in right:
        raise Refused("repair", f"the fault that is told is {told!r:.120}; it is that {broken[0].fault}")
    try:
        built = compiled(broken[0].source)(origin.problem.data)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return f"the wrong program builds no model: {type(error).__name__}"
    _is_different(from_pyomo(built), right_model)
    return "the wrong program's model is another"


def _is_different(found: Model, right: Model) -> None:
    if compare(found, right, mode="isomorphism").kind != "different":
        raise Refused("repair", "the program that is to be repaired builds the same model")


def _rule(found: Representation, fault: str) -> str:
    """What a constraint that a fault names means, as it is told behind the fault."""
    return next((shortened(rule.meaning) for rule in found.constraints if f"constraint `{rule.name}`" in fault), "")


def claim(row: Dialogue, facts: Facts) -> str:
    """Every optimum that is named, in the answer or by the row, is that of the program's model."""
    found = list(claims.claim(audit_row(row), facts.audited))
    for finding in found:
        if finding.severity == REFUSE or finding.kind in (
            "answer",
            "printed",
        ):  # our own answers tell the optimum and no parts of it
            raise Refused("claim", f"{finding.kind}: {finding.evidence}")
    if abs(row.optimum - facts.optimum) > TOLERANCE * max(1.0, abs(facts.optimum)):
        raise Refused("claim", f"the row says {row.optimum!r}; the program's model has {facts.optimum!r}")
    _shown(row, facts)
    named = [quantity.written for quantity in facts.audited.stated]
    return f"the answer says {named[-1]!r}" if named else f"{row.optimum!r} is recorded"


def _shown(row: Dialogue, facts: Facts) -> None:
    """The program prints its optimum; a family's prints it whole, with a solution that has it, as the answer has."""
    execution, optimum = facts.audited.execution, facts.optimum
    assert execution is not None
    if not any(number.fits(abs(optimum)) for number in digits(execution.stdout)):
        raise Refused("claim", f"the program does not print its optimum, {optimum!r}")
    if facts.origin is None:
        return
    for reason in (
        *printed(execution.stdout, facts.model, optimum),
        *answered(row, facts.origin, facts.model, optimum),
    ):
        raise Refused("claim", reason)


def _close(what: str, value: float, optimum: float) -> None:
    if not math.isclose(value, optimum, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        raise Refused("independent", f"{what} has {value!r}, the program's model {optimum!r}")


def _domain(model: Model, number: int) -> str:
    """Of a variable; an upper bound other than a binary's is a matter of the constraints."""
    lower, upper = model.lower[number], model.upper[number]
    whole = model.kinds[number] in WHOLE
    if whole and lower == 0 and upper == 1:
        return "binary"
    if lower == 0:
        return "integer" if whole else "continuous"
    return f"bounded by {lower:g} and {upper:g}" if whole or np.isfinite(lower) else "free"
