"""One optimisation model as sparse arrays with names: what every reader returns and every solver takes."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

SENSES = ("min", "max")
KINDS = ("continuous", "integer", "semi-continuous", "semi-integer")
WHOLE = ("integer", "semi-integer")
SEMI = ("semi-continuous", "semi-integer")
FUNCTIONS = ("min", "max", "abs", "and", "or")

Quadratic = Mapping[tuple[int, int], float]  # (i, j) with i <= j -> c, for the term c x[i] x[j]


class ModelError(ValueError):
    """A model that cannot be represented; never dropped in part."""


@dataclass(frozen=True)
class SOS:
    """Special ordered set: at most `type` members are not zero, and two such are neighbours in the order of weights."""

    name: str
    type: int  # 1 or 2
    members: tuple[int, ...]  # variables
    weights: tuple[float, ...]  # all different; only their order means anything


@dataclass(frozen=True)
class Indicator:
    """x[binary] = active implies lower <= sum of coefficient * variable <= upper."""

    name: str
    binary: int
    active: int  # 0 or 1
    terms: tuple[tuple[int, float], ...]  # variable, coefficient
    lower: float
    upper: float


@dataclass(frozen=True)
class Function:
    """x[result] = min, max, abs, and, or of variables; min and max may have a constant among their arguments."""

    name: str
    kind: str  # one of FUNCTIONS
    result: int
    arguments: tuple[int, ...]
    constant: float | None = None


@dataclass(frozen=True, eq=False)
class Model:
    """Bounds, kinds of variables, rows, and what the LP and MPS formats know besides.

    Objective: offset + sum cost[j] x[j] + sum c x[i] x[j] over the items ((i, j), c) of `quadratic`, i <= j.
    Rows lie in compressed sparse row form: row r holds entries start[r] to start[r + 1] of `index` and `value`, and
    the quadratic terms quadratic_rows[r] where it has any. Infinite sides and bounds are +-inf.
    A binary variable is an integer one with bounds 0 and 1. A semi-continuous or semi-integer one is 0 or within its
    bounds.
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
    quadratic: Quadratic = field(default_factory=dict)
    quadratic_rows: Mapping[int, Quadratic] = field(default_factory=dict)
    sos: tuple[SOS, ...] = ()
    indicators: tuple[Indicator, ...] = ()
    functions: tuple[Function, ...] = ()

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise ModelError(problem)

    @cached_property
    def integers(self) -> NDArray[np.int64]:
        """Indices of the variables that must be whole numbers."""
        return np.flatnonzero(np.array([kind in WHOLE for kind in self.kinds], dtype=bool))

    @cached_property
    def beyond_linear(self) -> tuple[str, ...]:
        """What the model has beside linear rows, a linear objective, and continuous and integer variables."""
        parts = {
            "a quadratic objective": self.quadratic,
            "quadratic rows": self.quadratic_rows,
            "semi-continuous variables": set(self.kinds) & set(SEMI),
            "special ordered sets": self.sos,
            "indicator constraints": self.indicators,
            "general constraints": self.functions,
        }
        return tuple(name for name, found in parts.items() if found)

    def same(self, other: "Model") -> bool:
        """Whether two models are equal in every part, names and order included."""
        pairs = ((getattr(self, part.name), getattr(other, part.name)) for part in fields(Model))
        return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)

    def row(self, row: int) -> list[tuple[int, float]]:
        """One row's linear part: variable and coefficient of each entry."""
        entries = slice(self.start[row], self.start[row + 1])
        return list(zip(self.index[entries].tolist(), self.value[entries].tolist(), strict=True))

    def objective(self, point: NDArray[np.float64]) -> float:
        """Objective at a point [variables], summed without rounding of intermediate sums."""
        linear = [c * x for c, x in zip(self.cost.tolist(), point.tolist(), strict=True)]
        square = [c * float(point[i]) * float(point[j]) for (i, j), c in self.quadratic.items()]
        return math.fsum([self.offset, *linear, *square])

    def terms(self, row: int, point: NDArray[np.float64]) -> list[float]:
        """Products of one row's coefficients with a point [variables]; their sum is the row's left side."""
        entries = slice(self.start[row], self.start[row + 1])
        linear: list[float] = (self.value[entries] * point[self.index[entries]]).tolist()
        return linear + [
            c * float(point[i]) * float(point[j]) for (i, j), c in self.quadratic_rows.get(row, {}).items()
        ]


def _problems(model: Model) -> Iterator[str]:
    count = len(model.variables)
    if model.sense not in SENSES:
        yield f"sense {model.sense!r}; accepted: {', '.join(SENSES)}"
    if len(set(model.variables)) != count:
        yield f"variable {_repeated(model.variables)!r} is named twice"
    for what, found, expected in (
        ("kinds", len(model.kinds), count),
        ("cost", len(model.cost), count),
        ("lower", len(model.lower), count),
        ("upper", len(model.upper), count),
        ("row_lower", len(model.row_lower), len(model.rows)),
        ("row_upper", len(model.row_upper), len(model.rows)),
        ("start", len(model.start), len(model.rows) + 1),
        ("value", len(model.value), len(model.index)),
    ):
        if found != expected:
            yield f"{what} has length {found}; expected {expected}"
    if model.start[0] != 0 or model.start[-1] != len(model.index) or (model.start[1:] < model.start[:-1]).any():
        yield f"start runs from {model.start[0]} to {model.start[-1]}; accepted: rising from 0 to {len(model.index)}"
    if len(model.index) and not 0 <= model.index.min() <= model.index.max() < count:
        yield f"index has a variable outside 0 to {count - 1}"
    for kind in set(model.kinds):
        if kind not in KINDS:
            yield f"variable kind {kind!r}; accepted: {', '.join(KINDS)}"
    squares = [
        ("quadratic", model.quadratic),
        *(("quadratic_rows", square) for square in model.quadratic_rows.values()),
    ]
    for what, numbers in (("cost", model.cost), ("value", model.value)):
        if not np.isfinite(numbers).all():
            yield f"{what}: a coefficient is not finite"
    for what, square in squares:
        if not all(map(math.isfinite, square.values())):
            yield f"{what}: a coefficient is not finite"
        for i, j in square:
            if not 0 <= i <= j < count:
                yield f"{what}: the pair {(i, j)}; accepted: 0 <= i <= j < {count}"
    for row in model.quadratic_rows:
        if not 0 <= row < len(model.rows):
            yield f"quadratic_rows: row {row}; accepted: 0 to {len(model.rows) - 1}"
    if not math.isfinite(model.offset):
        yield f"offset {model.offset}: a finite number is accepted"
    for what in ("lower", "upper", "row_lower", "row_upper"):
        if np.isnan(getattr(model, what)).any():
            yield f"{what}: a side is not a number"
    for j, kind in enumerate(model.kinds):
        if kind in SEMI and model.lower[j] < 0:
            yield f"variable {model.variables[j]!r} is {kind} from {model.lower[j]}; accepted: a lower bound >= 0"
    yield from _special_problems(model)


def _special_problems(model: Model) -> Iterator[str]:
    count = len(model.variables)
    for ordered in model.sos:
        if ordered.type not in (1, 2):
            yield f"set {ordered.name!r} is of type {ordered.type!r}; accepted: 1, 2"
        if len(ordered.members) != len(ordered.weights) or not all(map(math.isfinite, ordered.weights)):
            yield f"set {ordered.name!r}: one finite weight per member is accepted"
        for what, repeated in (("member", ordered.members), ("weight", ordered.weights)):
            if len(set(repeated)) != len(repeated):
                yield f"set {ordered.name!r} has a {what} twice"
    for indicator in model.indicators:
        if indicator.active not in (0, 1):
            yield f"indicator {indicator.name!r} acts at {indicator.active!r}; accepted: 0, 1"
        if not all(math.isfinite(c) for _, c in indicator.terms):
            yield f"indicator {indicator.name!r}: a coefficient is not finite"
        if math.isnan(indicator.lower) or math.isnan(indicator.upper):
            yield f"indicator {indicator.name!r}: a side is not a number"
    for function in model.functions:
        if function.kind not in FUNCTIONS:
            yield f"function {function.name!r} is {function.kind!r}; accepted: {', '.join(FUNCTIONS)}"
        takes_constant = function.kind in ("min", "max")
        if function.constant is not None and not (takes_constant and math.isfinite(function.constant)):
            yield f"function {function.name!r} has the constant {function.constant}; min and max accept a finite one"
        if not function.arguments and function.constant is None:
            yield f"function {function.name!r} has no argument"
        if function.kind == "abs" and len(function.arguments) != 1:
            yield f"function {function.name!r} is the absolute value of {len(function.arguments)} variables"
    for name, used in (
        *((s.name, s.members) for s in model.sos),
        *((i.name, (i.binary, *(j for j, _ in i.terms))) for i in model.indicators),
        *((f.name, (f.result, *f.arguments)) for f in model.functions),
    ):
        if any(not 0 <= j < count for j in used):
            yield f"{name!r} has a variable outside 0 to {count - 1}"
    binaries = [(i.name, i.binary) for i in model.indicators]
    logical = [f for f in model.functions if f.kind in ("and", "or")]
    binaries += [(f.name, j) for f in logical for j in (f.result, *f.arguments)]
    for name, j in binaries:
        if model.kinds[j] != "integer" or not 0 <= model.lower[j] <= model.upper[j] <= 1:
            yield f"{name!r} needs {model.variables[j]!r} to be binary"


def _repeated(names: tuple[str, ...]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
