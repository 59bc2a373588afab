"""The programs of a document, run in the sandbox: they end, print the optimum, and build the model that was proved."""

import math
import re
from collections import Counter
from collections.abc import Iterable

from trex.data.gates import TOLERANCE, Admitted, Refused
from trex.data.problem import Problem
from trex.data.program import program, reformulation
from trex.data.rendering import DATA_FILE, literal
from trex.solver.equivalence import compare
from trex.solver.model import Model
from trex.solver.sandbox.execution import Execution, Limits
from trex.solver.sandbox.host import Sandbox

LIMITS = Limits(seconds=60.0)
PRINTED = re.compile(r"^objective: (\S+)$", re.MULTILINE)


def execute(sandbox: Sandbox, problem: Problem, mode: str, admitted: Admitted) -> None:
    """Run both programs, the data file beside them, and check what they build and print. Raises Refused."""
    files = {DATA_FILE: literal(problem.data)}
    judge(sandbox.run(program(problem, mode), files, LIMITS), admitted.model, admitted.objective)
    second = sandbox.run(reformulation(problem, mode), files, LIMITS)
    judge(second, admitted.reformulated, admitted.objective, "reformulation")


def judge(execution: Execution, expected: Model, objective: float, other: str = "program") -> None:
    """Check a program that has run. Raises Refused.

    The gate is "program" where it failed, `other` where it prints another optimum, "structure" where the model that
    it built is not, but for order and scaling, the one that is expected.
    """
    if execution.status != "ok":
        raise Refused("program", f"{execution.status}: {execution.message}")
    if execution.model is None:
        raise Refused("program", f"no model was seen: {execution.unread}")
    if not execution.model.same(expected):
        _compared(execution.model, expected)
    printed = PRINTED.search(execution.stdout)
    said = [execution.claimed, float(printed[1]) if printed else None]
    if any(value is None or not math.isclose(value, objective, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for value in said):
        raise Refused(other, f"it says {said}, not {objective!r}")


def _compared(found: Model, expected: Model) -> None:
    for part in ("variables", "rows"):
        here, there = (_families(getattr(model, part)) for model in (found, expected))
        if here != there:
            raise Refused("structure", f"{part} are {dict(here - there)} more and {dict(there - here)} fewer")
    verdict = compare(found, expected, mode="isomorphism")
    if verdict.kind != "equal":
        raise Refused("structure", f"{verdict.kind}: {verdict.reason}")


def _families(names: Iterable[str]) -> Counter[str]:
    """How many members each family of variables or rows has: also a row that the others imply must be there."""
    return Counter(name.split("[")[0] for name in names)
