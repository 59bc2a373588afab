"""One optimisation model as sparse arrays with names: what every reader returns and every solver takes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

SENSES = ("min", "max")
KINDS = ("continuous", "integer")


class ModelError(ValueError):
    """A model that cannot be represented; never dropped in part."""


@dataclass(frozen=True, eq=False)
class Model:
    """Linear rows, bounds, integrality, and a linear or quadratic objective.

    Objective: offset + sum cost[j] x[j] + sum c x[i] x[j] over the items ((i, j), c) of `quadratic`, i <= j.
    Rows lie in compressed sparse row form: row r holds entries start[r] to start[r + 1] of `index` and `value`.
    A binary variable is an integer one with bounds 0 and 1; infinite bounds are +-inf.
    """

    sense: str
    offset: float
    variables: tuple[str, ...]
    kinds: tuple[str, ...]
    cost: NDArray[np.float64]  # [variables]
    lower: NDArray[np.float64]  # [variables]
    upper: NDArray[np.float64]  # [variables]
    rows: tuple[str, ...]
    row_lower: NDArray[np.float64]  # [rows]
    row_upper: NDArray[np.float64]  # [rows]
    start: NDArray[np.int64]  # [rows + 1]
    index: NDArray[np.int64]  # [entries], variable of each entry
    value: NDArray[np.float64]  # [entries]
    quadratic: Mapping[tuple[int, int], float]

    def __post_init__(self) -> None:
        if self.sense not in SENSES:
            raise ModelError(f"sense {self.sense!r}; accepted: {', '.join(SENSES)}")
        if len(set(self.variables)) != len(self.variables):
            raise ModelError(f"variable {_repeated(self.variables)!r} is named twice")
        for what, found, expected in (
            ("kinds", len(self.kinds), len(self.variables)),
            ("cost", len(self.cost), len(self.variables)),
            ("lower", len(self.lower), len(self.variables)),
            ("upper", len(self.upper), len(self.variables)),
            ("row_lower", len(self.row_lower), len(self.rows)),
            ("row_upper", len(self.row_upper), len(self.rows)),
            ("start", len(self.start), len(self.rows) + 1),
            ("value", len(self.value), len(self.index)),
        ):
            if found != expected:
                raise ModelError(f"{what} has length {found}; expected {expected}")
        for kind in set(self.kinds):
            if kind not in KINDS:
                raise ModelError(f"variable kind {kind!r}; accepted: {', '.join(KINDS)}")
        for what, numbers in (("cost", self.cost), ("value", self.value), ("quadratic", list(self.quadratic.values()))):
            if not np.isfinite(numbers).all():
                raise ModelError(f"{what}: a coefficient is not finite")
        if not math.isfinite(self.offset):
            raise ModelError(f"offset {self.offset}: a finite number is accepted")
        for what in ("lower", "upper", "row_lower", "row_upper"):
            if np.isnan(getattr(self, what)).any():
                raise ModelError(f"{what}: a side is not a number")

    @cached_property
    def integers(self) -> NDArray[np.int64]:
        """Indices of the integer variables."""
        return np.flatnonzero(np.array([kind == "integer" for kind in self.kinds], dtype=bool))

    def objective(self, point: NDArray[np.float64]) -> float:
        """Objective at a point [variables], summed without rounding of intermediate sums."""
        linear = [c * x for c, x in zip(self.cost.tolist(), point.tolist(), strict=True)]
        square = [c * float(point[i]) * float(point[j]) for (i, j), c in self.quadratic.items()]
        return math.fsum([self.offset, *linear, *square])

    def terms(self, row: int, point: NDArray[np.float64]) -> list[float]:
        """Products of one row's coefficients with a point [variables]; their sum is the row's left side."""
        entries = slice(self.start[row], self.start[row + 1])
        return (self.value[entries] * point[self.index[entries]]).tolist()


def _repeated(names: tuple[str, ...]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
