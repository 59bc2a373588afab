"""Dual values of a linear program, from a run of HiGHS that is made when the first is asked for."""

from typing import Any

from trex.solver.model import ModelError
from trex.solver.recorder.store import Column, Store

SECONDS = 60.0


def dual(item: Any) -> float:
    """Change of the optimum per unit of a row's right side (Pi), or of a column's value (RC).

    Raises AttributeError without an optimum, and for models that have integers or more than linear parts.
    """
    name = "RC" if isinstance(item, Column) else "Pi"
    store: Store = item.store
    if store.duals is None:
        store.duals = _duals(store, name)
    if item not in store.duals:
        raise AttributeError(f"Unable to retrieve attribute '{name}'")
    return store.duals[item]


def _duals(store: Store, name: str) -> dict[Any, float]:
    from trex.solver import highs

    model = store.solved
    optimal = store.solution is not None and store.solution.status == "optimal"
    if model is None or not optimal or model.beyond_linear or len(model.integers):
        raise AttributeError(f"Unable to retrieve attribute '{name}': only an optimal linear program has dual values")
    try:
        solver = highs.run(model, SECONDS)
    except ModelError as error:
        raise AttributeError(f"Unable to retrieve attribute '{name}': {error}") from None
    found = solver.getSolution()
    if not found.dual_valid:
        raise AttributeError(f"Unable to retrieve attribute '{name}': HiGHS has no dual values")
    # rows of general constraints come last and have no part
    return dict(zip([*store.columns, *store.rows], [*found.col_dual, *found.row_dual], strict=False))
