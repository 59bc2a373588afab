"""What has been recorded of a model: columns, rows, general constraints, objective, and the solution found."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from trex.solver.model import Model
from trex.solver.recorder.conflict import Conflict
from trex.solver.recorder.errors import DATA_NOT_AVAILABLE, INVALID_ARGUMENT, GurobiError
from trex.solver.recorder.expressions import LinExpr, QuadExpr
from trex.solver.recorder.operand import Operand, number
from trex.solver.solution import Solution

TINY = 1e-13  # coefficients of rows below this are none, as Gurobi has it
NOT_IN_MODEL = 20001
UNDEFINED = 1e101
LOADED = 1

Square = dict[tuple["Column", "Column"], float]


@dataclass(eq=False)
class Column:
    """A variable."""

    store: "Store"
    place: int
    name: str
    lower: float
    upper: float
    cost: float
    kind: str  # one of C, B, I, S, N
    part: Any = None  # the Var
    removed: bool = False
    noted: dict[str, Any] = field(default_factory=dict)  # attributes without meaning for the model


@dataclass(eq=False)
class Line:
    """A linear or quadratic constraint. A range has its width in `span`, and its slack column after `update`."""

    store: "Store"
    place: int
    name: str
    terms: dict[Column, float]
    sense: str  # one of <, >, =
    right: float
    square: Square = field(default_factory=dict)
    span: float | None = None
    part: Any = None  # the Constr or QConstr
    removed: bool = False
    noted: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class General:
    """A special ordered set or general constraint; `data` is what its kind needs."""

    store: "Store"
    place: int
    name: str
    kind: str  # sos, indicator, min, max, abs, and, or, pow, pwl
    columns: tuple[Column, ...]
    data: Any = None
    part: Any = None
    removed: bool = False
    noted: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Store:
    """A model under construction. Names are those that Gurobi gives when it updates."""

    name: str = ""
    sense: int = 1
    offset: float = 0.0
    square: Square = field(default_factory=dict)
    columns: list[Column] = field(default_factory=list)
    rows: list[Line] = field(default_factory=list)
    quadratic_rows: list[Line] = field(default_factory=list)
    sets: list[General] = field(default_factory=list)
    generals: list[General] = field(default_factory=list)
    changed: bool = False  # since the last update
    freed: bool = False
    made: Counter[str] = field(default_factory=Counter)  # parts ever made, which default names number
    solution: Solution | None = None
    solved: Model | None = None  # that the solution belongs to
    status: int = LOADED
    values: dict[Column, float] = field(default_factory=dict)
    conflict: Conflict | None = None
    duals: dict[Any, float] | None = None  # of columns and rows, once they were asked for

    def named(self, name: str, letter: str) -> str:
        """The name, or that which Gurobi gives: a letter and how many such parts were made before."""
        number = self.made[letter]
        self.made[letter] += 1
        return name or f"{letter}{number}"

    def column(self, var: Any) -> Column:
        """The column of a variable of this model. Raises GurobiError for another one's and for a removed one."""
        column = getattr(var, "_recorded", None)
        if not isinstance(column, Column):
            raise GurobiError(INVALID_ARGUMENT, f"a {type(var).__name__} is no variable")
        if column.store is not self or column.removed:
            raise GurobiError(NOT_IN_MODEL, "Variable not in model")
        return column

    def line(self, part: Any) -> "Line":
        """What a constraint of this model records. Raises GurobiError for another one's, and for what is none."""
        line = getattr(part, "_recorded", None)
        if not isinstance(line, Line):
            raise GurobiError(INVALID_ARGUMENT, f"a {type(part).__name__} is no linear or quadratic constraint")
        if line.store is not self or line.removed:
            raise GurobiError(NOT_IN_MODEL, "Constraint not in model")
        return line

    def linear(self, expression: LinExpr, smallest: float = TINY) -> dict[Column, float]:
        """Coefficients by column, in the order of columns. Raises GurobiError for one that is not finite."""
        terms: dict[Column, float] = {}
        for coefficient, var in zip(expression._coeffs, expression._vars, strict=True):
            column = self.column(var)
            terms[column] = terms.get(column, 0.0) + finite(coefficient)
        finite(expression._constant)
        order = sorted(terms, key=lambda column: column.place)
        return {column: terms[column] for column in order if abs(terms[column]) >= smallest and terms[column]}

    def squares(self, expression: Any) -> Square:
        """Coefficients by pairs of columns, the earlier one first; none of a linear expression."""
        square: Square = {}
        if isinstance(expression, QuadExpr):
            terms = zip(expression._coeffs, expression._firsts, expression._seconds, strict=True)
            for coefficient, left, right in terms:
                a, b = sorted((self.column(left), self.column(right)), key=lambda column: column.place)
                square[a, b] = square.get((a, b), 0.0) + finite(coefficient)
        return {pair: c for pair, c in square.items() if abs(c) >= TINY}

    def touch(self) -> None:
        """Note that the model differs from the one that was solved. Raises GurobiError for a model that is freed."""
        self.alive()
        self.changed = True

    def alive(self) -> None:
        """Raise GurobiError where the model was disposed of."""
        if self.freed:
            raise GurobiError(0, "Model has already been freed")

    def update(self) -> None:
        """Add the slack columns of ranges, take out what was removed, forget a solution of what was before."""
        self.alive()
        if not self.changed:
            return
        from trex.solver.recorder.parts import Var

        for row in self.rows:
            if row.span is not None:
                slack = Column(self, len(self.columns), self.named(f"Rg{row.name}", "C"), 0.0, row.span, 0.0, "C")
                slack.part = Var(slack)
                self.columns.append(slack)
                row.terms[slack], row.span = 1.0, None
        for general in (*self.sets, *self.generals):
            if not general.removed and any(column.removed for column in general.columns):
                raise GurobiError(INVALID_ARGUMENT, f"{general.name!r} has a variable that was removed")
        for line in (*self.rows, *self.quadratic_rows):
            line.terms = {column: c for column, c in line.terms.items() if not column.removed}
            line.square = {(a, b): c for (a, b), c in line.square.items() if not (a.removed or b.removed)}
        self.square = {(a, b): c for (a, b), c in self.square.items() if not (a.removed or b.removed)}
        for kind in ("columns", "rows", "quadratic_rows", "sets", "generals"):
            kept = [item for item in getattr(self, kind) if not item.removed]
            for place, item in enumerate(kept):
                item.place = place
            setattr(self, kind, kept)
        self.changed = False
        self.forget()

    def forget(self) -> None:
        """Discard the solution."""
        self.solution, self.solved, self.status, self.values = None, None, LOADED, {}
        self.duals, self.conflict = None, None

    def value(self, column: Column) -> float:
        """Value at the solution. Raises AttributeError without one."""
        if column not in self.values:
            raise AttributeError("Unable to retrieve attribute 'X'")
        return self.values[column]

    def activity(self, line: Line) -> float:
        """Left side at the solution. Raises AttributeError without one."""
        linear = [c * self.value(column) for column, c in line.terms.items()]
        return math.fsum(linear + [c * self.value(a) * self.value(b) for (a, b), c in line.square.items()])

    def objective(self) -> Any:
        """The objective as an expression."""
        result: Any = QuadExpr() if self.square else LinExpr()
        for column in self.columns:
            if column.cost:
                result += column.cost * column.part
        for (a, b), c in self.square.items():
            result += c * (a.part * b.part)
        result += self.offset
        return result


def finite(coefficient: float) -> float:
    """The coefficient. Raises GurobiError for one that is not finite."""
    if not math.isfinite(coefficient):
        raise GurobiError(INVALID_ARGUMENT, f"the coefficient {coefficient} is Nan or Inf")
    return coefficient


def real(what: str, value: Any) -> float:
    """The value as a number, infinite ones included. Raises TypeError for no number, GurobiError for NaN."""
    result = number(value)
    if result is None or isinstance(value, Operand):
        raise TypeError(f"{what} must be real number, not {type(value).__name__}")
    if math.isnan(result):
        raise GurobiError(INVALID_ARGUMENT, f"{what} is Nan")
    return result


def unavailable(name: str) -> GurobiError:
    """The error for what only a solution has."""
    return GurobiError(DATA_NOT_AVAILABLE, f"Unable to retrieve attribute '{name}'")
