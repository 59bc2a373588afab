"""What one solver says of one model, before anything is checked."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Outcome:
    """A solver's claim. `status` is one of the statuses of `trex.solver.solve`."""

    solver: str  # name and version
    status: str
    point: NDArray[np.float64] | None = (
        None  # [variables], as the solver returned it; of an unbounded model any that is feasible
    )
    claimed: float | None = None  # the solver's own objective at the point
    bound: float | None = None  # proved bound on the optimum
    message: str = ""
