"""Write a linear model as matrix rows, without a modelling language: how second formulations are written."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from trex.data.problem import DataError
from trex.solver.model import Model


@dataclass
class Matrix:
    """Collects columns and rows by name and turns them into a solver's sparse `Model`."""

    sense: str  # "min" or "max"
    offset: float = 0.0
    columns: dict[str, tuple[float, float, float, str]] = field(default_factory=dict)  # cost, lower, upper, kind
    rows: dict[str, tuple[Mapping[str, float], float, float]] = field(default_factory=dict)  # terms, lower, upper

    def column(
        self, name: str, cost: float, lower: float = 0.0, upper: float = math.inf, kind: str = "continuous"
    ) -> str:
        """Add a variable and return its name."""
        self.columns[name] = (cost, lower, upper, kind)
        return name

    def row(self, name: str, terms: Mapping[str, float], lower: float = -math.inf, upper: float = math.inf) -> None:
        """Add lower <= sum of coefficient * variable <= upper; `terms` maps variable names to coefficients."""
        self.rows[name] = (terms, lower, upper)

    def model(self) -> Model:
        """The rows in compressed sparse row form. Raises DataError for a row over an unknown variable."""
        place = {name: j for j, name in enumerate(self.columns)}
        for row, (over, _, _) in self.rows.items():
            if unknown := [name for name in over if name not in place]:
                raise DataError(f"row {row!r} is over {unknown[0]!r}, which is no variable")
        cost, lower, upper, kinds = zip(*self.columns.values(), strict=True)
        terms = [row[0] for row in self.rows.values()]
        return Model(
            sense=self.sense,
            offset=self.offset,
            variables=tuple(self.columns),
            kinds=kinds,
            cost=np.array(cost, dtype=float),
            lower=np.array(lower, dtype=float),
            upper=np.array(upper, dtype=float),
            rows=tuple(self.rows),
            row_lower=np.array([row[1] for row in self.rows.values()], dtype=float),
            row_upper=np.array([row[2] for row in self.rows.values()], dtype=float),
            start=np.cumsum([0, *map(len, terms)]).astype(np.int64),
            index=np.array([place[name] for row in terms for name in row], dtype=np.int64),
            value=np.array([value for row in terms for value in row.values()], dtype=float),
            quadratic={},
        )
