"""One form for all ways of writing the same rows: a minimum over half-spaces, each scaled to a largest entry of 1."""

import math
from dataclasses import dataclass

import numpy as np

from trex.solver.equivalence.draft import Draft, shifted
from trex.solver.model import SOS, Function, Model


@dataclass(frozen=True)
class HalfSpace:
    """Sum of terms and quadratic terms <= side; the largest coefficient in size is 1."""

    terms: tuple[tuple[int, float], ...]  # column, coefficient; columns rise
    quadratic: tuple[tuple[tuple[int, int], float], ...]
    side: float
    rows: tuple[str, ...]  # of the model, that say so
    scale: float = 1.0  # the row's largest coefficient in size


@dataclass(frozen=True)
class Implication:
    """x[binary] = active implies the half-space."""

    binary: int
    active: int
    then: HalfSpace


@dataclass(frozen=True)
class Defined:
    """A variable that is not a column any more: sum of terms + constant."""

    name: str
    whole: bool
    terms: tuple[tuple[int, float], ...]  # column, coefficient; columns rise
    constant: float


@dataclass(frozen=True)
class Canonical:
    """A minimum over half-spaces; columns are numbered anew, `columns` tells their numbers in the model."""

    model: Model
    columns: tuple[int, ...]
    whole: tuple[bool, ...]
    semi: tuple[bool, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    cost: tuple[float, ...]
    offset: float
    quadratic: tuple[tuple[tuple[int, int], float], ...]
    halves: tuple[HalfSpace, ...]
    implications: tuple[Implication, ...]
    sos: tuple[SOS, ...]  # columns in the new numbers
    functions: tuple[Function, ...]
    fixed: dict[str, float]  # variables with a constant value, and that value
    defined: tuple[Defined, ...]
    bounds_from: dict[int, list[str]]  # column in the new numbers -> rows that became its bounds
    steps: tuple[str, ...]
    ambiguous: bool

    @property
    def names(self) -> list[str]:
        """The model's names of the columns."""
        return [self.model.variables[j] for j in self.columns]

    def comparable(self, other: "Canonical") -> bool:
        """Whether variables that are no columns must match: not where one model has more fixed or defined ones."""
        return len(self.fixed) == len(other.fixed) and len(self.defined) == len(other.defined)

    @property
    def linear(self) -> bool:
        """Whether there is nothing but half-spaces without quadratic terms and a linear objective."""
        beyond = self.quadratic or self.implications or self.sos or self.functions or any(self.semi)
        return not beyond and not any(half.quadratic for half in self.halves)


def canonical(work: Draft) -> Canonical:
    """The canonical form of a simplified draft. Equal half-spaces are merged later, when numbers can be compared."""
    columns = tuple(sorted(work.alive))
    place = {j: k for k, j in enumerate(columns)}
    halves: list[HalfSpace] = []
    for row in work.rows:
        halves += half_spaces(row.name, row.terms, row.quadratic, row.lower, row.upper, place)
    implications = []
    for indicator in work.model.indicators:
        terms: dict[int, float] = {}
        for j, value in indicator.terms:
            terms[j] = terms.get(j, 0.0) + value
        split = half_spaces(indicator.name, terms, {}, indicator.lower, indicator.upper, place)
        implications += [Implication(place[indicator.binary], indicator.active, half) for half in split]
    return Canonical(
        model=work.model,
        columns=columns,
        whole=tuple(work.whole[j] for j in columns),
        semi=tuple(work.semi[j] for j in columns),
        lower=tuple(work.lower[j] for j in columns),
        upper=tuple(work.upper[j] for j in columns),
        cost=tuple(work.cost[j] + 0.0 for j in columns),
        offset=work.offset + 0.0,
        quadratic=_renumbered(work.quadratic, place),
        halves=tuple(halves),
        implications=tuple(implications),
        sos=tuple(SOS(s.name, s.type, tuple(place[j] for j in s.members), s.weights) for s in work.model.sos),
        functions=tuple(
            Function(f.name, f.kind, place[f.result], tuple(place[j] for j in f.arguments), f.constant)
            for f in work.model.functions
        ),
        fixed={work.model.variables[j]: value for j, value in sorted(work.fixed.items())},
        defined=_defined(work, place),
        bounds_from={place[j]: rows for j, rows in work.bounds_from.items() if j in place},
        steps=tuple(work.steps),
        ambiguous=work.ambiguous,
    )


def half_spaces(
    name: str,
    terms: dict[int, float],
    quadratic: dict[tuple[int, int], float],
    lower: float,
    upper: float,
    place: dict[int, int],
) -> list[HalfSpace]:
    """A row as the half-spaces of its finite sides, in new column numbers."""
    linear = sorted((place[j], value) for j, value in terms.items() if value)
    square = _renumbered(quadratic, place)
    largest = max((abs(value) for _, value in (*linear, *square)), default=1.0)
    found = []
    for sign, side in ((1.0, upper), (-1.0, -lower)):
        if side == math.inf:
            continue
        found.append(
            HalfSpace(
                tuple((j, sign * value / largest) for j, value in linear),
                tuple((pair, sign * value / largest) for pair, value in square),
                side / largest + 0.0 if linear or square else float(np.sign(side)),
                (name,),
                largest,
            )
        )
    return found


def _renumbered(
    terms: dict[tuple[int, int], float], place: dict[int, int]
) -> tuple[tuple[tuple[int, int], float], ...]:
    return tuple(sorted(((min(place[i], place[j]), max(place[i], place[j])), c) for (i, j), c in terms.items() if c))


def _defined(work: Draft, place: dict[int, int]) -> tuple[Defined, ...]:
    """Definitions over the columns that are left: what left later, or became fixed, is put in for its name."""
    final: dict[int, tuple[dict[int, float], float]] = {}
    for j, (terms, constant) in reversed(work.defined.items()):
        over: dict[int, float] = {}
        if any(k not in final and k not in work.fixed and k not in place for k in terms):
            continue  # of a variable that was dropped because it is used nowhere else
        for k, value in terms.items():
            inner, shift = final.get(k, ({}, work.fixed[k]) if k in work.fixed else ({k: 1.0}, 0.0))
            constant = shifted(constant, [value * shift])
            for column, other in inner.items():
                over[column] = shifted(over.get(column, 0.0), [value * other])
        final[j] = ({k: value for k, value in over.items() if value}, constant)
    return tuple(
        Defined(
            work.model.variables[j],
            work.whole[j],
            tuple(sorted((place[k], value) for k, value in terms.items())),
            constant + 0.0,
        )
        for j, (terms, constant) in final.items()
    )
