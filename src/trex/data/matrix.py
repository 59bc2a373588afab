"""Write a linear model as matrix rows, without a modelling language: how second formulations are written."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from trex.data.problem import DataError
from trex.solver.builder import Builder, Column, Row
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
        builder = Builder(self.sense, self.offset)
        for name, numbers in self.columns.items():
            builder.variable(name)
            builder.columns[name] = Column(*numbers)
        for row, (over, lower, upper) in self.rows.items():
            if unknown := [name for name in over if name not in self.columns]:
                raise DataError(f"row {row!r} is over {unknown[0]!r}, which is no variable")
            builder.rows.append(Row(row, {builder.place[name]: value for name, value in over.items()}, lower, upper))
        return builder.model()
