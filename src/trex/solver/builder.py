"""Collects a model's parts by name, in any order, and turns them into a `Model`: what every reader fills."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from trex.solver.model import SOS, Function, Indicator, Model


@dataclass
class Column:
    """A variable; the formats' default is continuous, from 0 up."""

    cost: float = 0.0
    lower: float = 0.0
    upper: float = math.inf
    kind: str = "continuous"


@dataclass
class Row:
    """lower <= sum of coefficient * variable + quadratic terms <= upper."""

    name: str
    terms: Mapping[int, float]
    lower: float
    upper: float
    quadratic: dict[tuple[int, int], float] = field(default_factory=dict)


@dataclass
class Builder:
    """A model that grows. Variables are numbered in the order in which they are first named."""

    sense: str = "min"
    offset: float = 0.0
    columns: dict[str, Column] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    quadratic: dict[tuple[int, int], float] = field(default_factory=dict)
    sos: list[SOS] = field(default_factory=list)
    indicators: list[Indicator] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    place: dict[str, int] = field(default_factory=dict)

    def variable(self, name: str) -> int:
        """Number of a variable, which is added where it is new."""
        if name not in self.place:
            self.place[name] = len(self.place)
            self.columns[name] = Column()
        return self.place[name]

    def column(self, name: str) -> Column:
        """A variable's bounds, kind and cost, to be changed; it is added where it is new."""
        self.variable(name)
        return self.columns[name]

    def model(self) -> Model:
        """The collected parts as sparse arrays; entries of 0 are kept. Raises ModelError where they contradict."""
        columns = list(self.columns.values())
        return Model(
            sense=self.sense,
            offset=self.offset,
            variables=tuple(self.columns),
            kinds=tuple(column.kind for column in columns),
            cost=np.array([column.cost for column in columns], dtype=float),
            lower=np.array([column.lower for column in columns], dtype=float),
            upper=np.array([column.upper for column in columns], dtype=float),
            rows=tuple(row.name for row in self.rows),
            row_lower=np.array([row.lower for row in self.rows], dtype=float),
            row_upper=np.array([row.upper for row in self.rows], dtype=float),
            start=np.cumsum([0, *(len(row.terms) for row in self.rows)]).astype(np.int64),
            index=np.array([j for row in self.rows for j in row.terms], dtype=np.int64),
            value=np.array([value for row in self.rows for value in row.terms.values()], dtype=float),
            quadratic=dict(self.quadratic),
            quadratic_rows={number: dict(row.quadratic) for number, row in enumerate(self.rows) if row.quadratic},
            sos=tuple(self.sos),
            indicators=tuple(self.indicators),
            functions=tuple(self.functions),
        )


def add_terms(into: dict[int, float], terms: Iterable[tuple[int, float]]) -> None:
    """Add coefficients to those already there, variable by variable."""
    for j, value in terms:
        into[j] = into.get(j, 0.0) + value
