"""Whether a change is a fault: the changed program, run confined, fails or builds another model than the right one."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from trex.data.flywheel.dialogue import Dialogue
from trex.solver.equivalence import compare
from trex.solver.model import Model, ModelError
from trex.solver.sandbox import Execution, Limits, Sandbox
from trex.solver.solution import Solution
from trex.solver.solve import solve

LIMITS = Limits(seconds=20.0)
SECONDS = 10.0  # for one comparison or solution
NEAR = 1e-6  # relative; optima that are closer are the same


@dataclass(frozen=True)
class Proof:
    """The right row, and a sandbox to run changed ones in."""

    row: Dialogue
    sandbox: Sandbox

    @cached_property
    def right(self) -> Execution:
        """The right row's program, run."""
        return self.run(self.row.program, self.row.files)

    @cached_property
    def solution(self) -> Solution | None:
        """The optimum of the right row's model, None where there is none."""
        if self.right.model is None:
            return None
        found = solve(self.right.model, SECONDS)
        return found if found.status == "optimal" else None

    def run(self, program: str, files: Mapping[str, str]) -> Execution:
        """A program with its files, run confined."""
        return self.sandbox.run(program, files, LIMITS)

    def fails(self, program: str, files: Mapping[str, str]) -> bool:
        """Whether a program ends with an error, solves nothing, or solves another model."""
        found = self.run(program, files)
        if found.status == "error" or (found.status == "ok" and found.how != "solved"):
            return True
        return self._is_other(found)

    def builds_other(self, program: str, files: Mapping[str, str]) -> bool:
        """Whether a program builds a model that is not the right one."""
        return self._is_other(self.run(program, files))

    def is_infeasible(self, program: str, files: Mapping[str, str]) -> bool:
        """Whether a program builds a model that nothing satisfies."""
        model = self.run(program, files).model
        return model is not None and solve(model, SECONDS).status == "infeasible"

    def matters(self, changed: Model) -> bool:
        """Whether a model's optimum is another than the right one's."""
        if self.solution is None:
            return False
        found = solve(changed, SECONDS)
        if found.status in ("infeasible", "unbounded"):
            return True
        return found.status == "optimal" and not _near(found.objective, self.solution.objective)

    def _is_other(self, found: Execution) -> bool:
        right = self.right
        if found.model is None or right.model is None or found.model.same(right.model):
            return False
        if None not in (found.claimed, right.claimed) and not _near(found.claimed, right.claimed):
            return True
        try:
            return compare(found.model, right.model, mode="isomorphism", time_s=SECONDS).kind == "different"
        except ModelError:
            return False


@dataclass(frozen=True)
class Edit:
    """A row with a change that may be a fault.

    what: the change, in one line. proves: whether it is a fault. made: the edit itself, where its numbers come from the
    optimum.
    """

    what: str
    row: Dialogue
    proves: Callable[[Proof], bool] = lambda proof: True
    made: "Callable[[Proof], Edit | None] | None" = None


def _near(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and math.isclose(a, b, rel_tol=NEAR, abs_tol=NEAR)
