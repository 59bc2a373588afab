"""Rows and bounds that cannot hold together, none of them to spare: found by leaving out one after the other."""

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trex.solver.model import Model
from trex.solver.solve import solve

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Conflict:
    """An irreducible infeasible subsystem: numbers of rows, of variables by lower and by upper bound."""

    rows: frozenset[int]
    lower: frozenset[int]
    upper: frozenset[int]
    minimal: bool  # not where the time was up before all were tried


def conflict(model: Model, seconds: float) -> Conflict | None:
    """The conflict of an infeasible model, found within so many seconds; None where the model is feasible.

    Sets and general constraints always stay, and so do the bounds of variables that these need to be binary.
    """
    deadline = time.perf_counter() + seconds
    left = replace(model, cost=np.zeros(len(model.cost)), quadratic={}, offset=0.0)
    if not _infeasible(left, seconds):
        return None
    bound = {i.binary for i in model.indicators}
    bound |= {j for f in model.functions if f.kind in ("and", "or") for j in (f.result, *f.arguments)}
    rows = [("row_lower", "row_upper", row) for row in range(len(model.rows))]
    bounds = [(side, side, j) for side in ("lower", "upper") for j in range(len(model.variables)) if j not in bound]
    minimal = True
    for low, up, place in (*rows, *bounds):
        minimal = minimal and time.perf_counter() < deadline
        if not minimal:
            break
        without = _without(left, low, up, place)
        if without is not None and _infeasible(without, deadline - time.perf_counter()):
            left = without
    return Conflict(
        frozenset(np.flatnonzero(np.isfinite(left.row_lower) | np.isfinite(left.row_upper)).tolist()),
        frozenset(np.flatnonzero(np.isfinite(left.lower)).tolist()),
        frozenset(np.flatnonzero(np.isfinite(left.upper)).tolist()),
        minimal,
    )


def part(model: Model, found: Conflict) -> Model:
    """The model with the conflict's rows alone and no objective."""
    outside = np.array([row not in found.rows for row in range(len(model.rows))], dtype=bool)
    return replace(
        model,
        cost=np.zeros(len(model.cost)),
        quadratic={},
        offset=0.0,
        row_lower=np.where(outside, -math.inf, model.row_lower),
        row_upper=np.where(outside, math.inf, model.row_upper),
    )


def _without(model: Model, low: str, up: str, place: int) -> Model | None:
    """The model less a row's sides or a bound; None where it has none."""
    changed: dict[str, Array] = {}
    for name, infinite in ((low, -math.inf), (up, math.inf)):
        if name.endswith("upper") != (infinite > 0):
            continue
        if math.isfinite(getattr(model, name)[place]):
            changed[name] = getattr(model, name).copy()
            changed[name][place] = infinite
    if not changed or ("lower" in changed and model.kinds[place].startswith("semi")):
        return None
    return replace(model, **changed)  # type: ignore[arg-type]


def _infeasible(model: Model, seconds: float) -> bool:
    return solve(model, max(seconds, 1e-3)).status == "infeasible"
