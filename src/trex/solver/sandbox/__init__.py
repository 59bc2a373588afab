"""Programs of unknown origin: run confined, their models shipped out as data, nothing they say believed."""

from trex.solver.sandbox.execution import LEVELS, STATUSES, Execution, Limits, SandboxError, record
from trex.solver.sandbox.host import Sandbox, run

__all__ = ["LEVELS", "STATUSES", "Execution", "Limits", "Sandbox", "SandboxError", "record", "run"]
