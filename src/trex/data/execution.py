"""The programs of a document, run in the sandbox: they end, print the optimum, and build the model that was proved."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

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
PROGRAMS = "programs.json"
# both in one process, each with names of its own: a process costs as much as a small solve
TOGETHER = f"""\
import json
with open("{PROGRAMS}") as file:
    programs = json.load(file)
for name, code in programs.items():
    exec(compile(code, name, "exec"), {{"__name__": "__main__"}})
"""


def execute(sandbox: Sandbox, problem: Problem, mode: str, admitted: Admitted) -> None:
    """Run both programs, the data file beside them, and check what they build and print. Raises Refused.

    The gate is "program" where one fails, or the first prints another optimum, "reformulation" where the second does,
    "structure" where a model is not, but for order and scaling, the one that is expected.
    """
    codes = {"program.py": program(problem, mode), "reformulation.py": reformulation(problem, mode)}
    files = {DATA_FILE: literal(problem.data), PROGRAMS: json.dumps(codes)}
    execution = sandbox.run(TOGETHER, files, LIMITS, keep=2)
    _ended(execution)
    printed = PRINTED.findall(execution.stdout)
    if not len(execution.earlier) + 1 == execution.models == len(printed) == 2:
        raise Refused("program", f"{execution.models} models and {len(printed)} optima are seen of two programs")
    model, claimed = execution.earlier[0]
    _judge(model, [claimed, printed[0]], admitted.model, admitted.objective, "program")
    said = [execution.claimed, printed[1]]
    _judge(execution.model, said, admitted.reformulated, admitted.objective, "reformulation")


def judge(execution: Execution, expected: Model, objective: float) -> None:
    """The same of a program that has run alone."""
    _ended(execution)
    printed = PRINTED.findall(execution.stdout)
    _judge(execution.model, [execution.claimed, *printed[:1]], expected, objective, "program")


def _ended(execution: Execution) -> None:
    if execution.status != "ok":
        raise Refused("program", f"{execution.status}: {execution.message}")
    if execution.model is None:
        raise Refused("program", f"no model was seen: {execution.unread}")


def _judge(
    found: Model | None, said: Sequence[float | str | None], expected: Model, objective: float, gate: str
) -> None:
    if found is None:
        raise Refused("program", "no model was seen")
    if not found.same(expected):
        _compared(found, expected)
    if len(said) < 2 or not all(_equal(value, objective) for value in said):
        raise Refused(gate, f"it says {said}, not {objective!r}")


def _equal(value: float | str | None, objective: float) -> bool:
    try:
        return value is not None and math.isclose(float(value), objective, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    except ValueError:
        return False


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
