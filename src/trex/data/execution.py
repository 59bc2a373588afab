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
    """Run both programs and check what they build and print. Raises Refused at the first that differs."""
    run(sandbox, problem, program(problem, mode), admitted.model, admitted.objective)
    run(sandbox, problem, reformulation(problem, mode), admitted.reformulated, admitted.objective)


def run(sandbox: Sandbox, problem: Problem, code: str, expected: Model, objective: float) -> None:
    """Run one program, with the data file beside it.

    Raises Refused: "program" where it fails or prints another optimum, "structure" where the model that it builds is
    not, but for order and scaling, the one that is expected.
    """
    judge(sandbox.run(code, {DATA_FILE: literal(problem.data)}, LIMITS), expected, objective)


def judge(execution: Execution, expected: Model, objective: float) -> None:
    """What `run` checks, of a program that has run."""
    if execution.status != "ok":
        raise Refused("program", f"{execution.status}: {execution.message}")
    if execution.model is None:
        raise Refused("program", f"no model was seen: {execution.unread}")
    for part in ("variables", "rows"):
        found, needed = (_families(getattr(model, part)) for model in (execution.model, expected))
        if found != needed:
            raise Refused("structure", f"{part} are {dict(found - needed)} more and {dict(needed - found)} fewer")
    verdict = compare(execution.model, expected, mode="isomorphism")
    if verdict.kind != "equal":
        raise Refused("structure", f"{verdict.kind}: {verdict.reason}")
    printed = PRINTED.search(execution.stdout)
    said = [execution.claimed, float(printed[1]) if printed else None]
    if any(value is None or not math.isclose(value, objective, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for value in said):
        raise Refused("program", f"it says {said}, not {objective!r}")


def _families(names: Iterable[str]) -> Counter[str]:
    """How many members each family of variables or rows has: also a row that the others imply must be there."""
    return Counter(name.split("[")[0] for name in names)
