"""What is known of a dialogue after its program ran once, confined, and its model was solved by two solvers."""

from dataclasses import dataclass
from functools import cached_property

from trex.data.audit import facts as audited
from trex.data.audit.rows import Row
from trex.data.flywheel.bucket import FORMULATE
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.recombine import Recombined, recombine
from trex.data.flywheel.writing import fenced
from trex.solver.model import Model
from trex.solver.pyomo_model import from_pyomo

SECONDS = 20.0  # for a program, and for each solver: what takes longer is no example to learn from


@dataclass(frozen=True)
class Facts:
    """Of one dialogue."""

    row: Dialogue
    audited: audited.Facts  # as of anyone's row: program, tree, execution, solution, what is claimed

    @property
    def model(self) -> Model:
        """The model that the program solved; asked for behind the gates that see to it that there is one."""
        assert self.audited.model is not None
        return self.audited.model

    @property
    def optimum(self) -> float:
        """Its optimum, likewise."""
        assert self.audited.optimum is not None
        return self.audited.optimum

    @cached_property
    def origin(self) -> Recombined | None:
        """The family and instance that the embedded author made the dialogue from; None for other authors'."""
        origin = self.row.representation.origin
        return None if origin is None else recombine(origin)

    @cached_property
    def expected(self) -> Model | None:
        """That family's model with the changes that the author made."""
        return None if self.origin is None else from_pyomo(self.origin.model())


def audit_row(row: Dialogue) -> Row:
    """The dialogue as a row of anyone's set; where only a formulation is asked for, the program that proves it too."""
    proof = f"\n\n{fenced(row.program)}" if row.bucket.task == FORMULATE else ""
    return Row(1, row.id, row.problem, row.answer + proof, None, row.files)


def look(row: Dialogue) -> Facts:
    """Run the program and solve its model."""
    return Facts(row, audited.look(audit_row(row), SECONDS))
