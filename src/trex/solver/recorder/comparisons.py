"""What comparisons give before they are added to a model, and functions that stand on the right of one."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from trex.solver.recorder.errors import INVALID_ARGUMENT, GurobiError, refuse
from trex.solver.recorder.expressions import LinExpr
from trex.solver.recorder.operand import Operand, number

SENSES = {"<": "<", "<=": "<", "=<": "<", ">": ">", ">=": ">", "=>": ">", "=": "=", "==": "="}


class TempConstr:
    """left sense right, as written; nothing is known of it before it is added."""

    __slots__ = ("_left", "_right", "_sense")

    def __init__(self, left: Any, sense: str, right: Any) -> None:
        self._left, self._sense, self._right = left, sense, right

    def __bool__(self) -> NoReturn:
        raise GurobiError(0, 'Constraint has no bool value (are you trying "lb <= expr <= ub"?)')

    def __rshift__(self, implied: Any) -> "Implication":
        return Implication(self, implied)

    def __repr__(self) -> str:
        sense = {"<": "<=", ">": ">=", "=": "=="}[self._sense]
        return f"<gurobi.TempConstr: {self._left} {sense} {self._right}>"


@dataclass(frozen=True)
class Implication:
    """(binary == value) >> (linear comparison)."""

    condition: TempConstr
    implied: Any


@dataclass(frozen=True, eq=False)
class GenExpr:
    """min, max, abs, and, or of variables, to which one variable can be set equal."""

    kind: str
    arguments: tuple[Any, ...]
    constant: float | None = None

    def __eq__(self, other: Any) -> Any:
        return NotImplemented  # the variable on the other side makes the comparison

    __hash__ = object.__hash__


def sense_of(sense: Any) -> str:
    """One of <, >, = for any way to write it. Raises GurobiError for another."""
    if sense not in SENSES:
        raise GurobiError(INVALID_ARGUMENT, f"Invalid sense {sense!r}; accepted: {', '.join(SENSES)}")
    return SENSES[sense]


def is_variable(value: Any) -> bool:
    """Whether it is one variable rather than an expression."""
    from trex.solver.recorder.parts import Var

    return isinstance(value, Var)


def arguments_of(kind: str, items: Iterable[Any]) -> tuple[tuple[Any, ...], float | None]:
    """Variables and the constant among a function's arguments, several constants as one. Raises GurobiError."""
    variables, constants = [], []
    for item in items:
        value = number(item)
        if is_variable(item):
            variables.append(item)
        elif value is not None and kind in ("min", "max"):
            constants.append(value)
        else:
            what = "an expression" if isinstance(item, Operand) else f"a {type(item).__name__}"
            accepted = "variables and numbers" if kind in ("min", "max") else "variables"
            raise GurobiError(INVALID_ARGUMENT, f"Invalid data in vars array: {what}; accepted: {accepted}")
    pick = {"min": min, "max": max}.get(kind)
    return tuple(variables), pick(constants) if pick and constants else None


def flat(items: Iterable[Any]) -> list[Any]:
    """The arguments themselves, or those of the one list, dictionary or generator among them."""
    items = list(items)
    if len(items) == 1 and not isinstance(items[0], Operand) and number(items[0]) is None:
        only = items[0]
        return list(only.values() if isinstance(only, dict) else only)
    return items


def _function(kind: str, items: Iterable[Any], constant: float | None = None) -> GenExpr:
    given = flat(items) + ([] if constant is None else [constant])
    return GenExpr(kind, *arguments_of(kind, given))


def min_(*variables: Any, constant: float | None = None) -> GenExpr:
    """The least of variables and a constant."""
    return _function("min", variables, constant)


def max_(*variables: Any, constant: float | None = None) -> GenExpr:
    """The largest of variables and a constant."""
    return _function("max", variables, constant)


def and_(*variables: Any) -> GenExpr:
    """Whether all binary variables are 1."""
    return _function("and", variables)


def or_(*variables: Any) -> GenExpr:
    """Whether one of the binary variables is 1."""
    return _function("or", variables)


all_, any_ = and_, or_


def abs_(argument: Any) -> GenExpr:
    """A variable's absolute value."""
    if not is_variable(argument):
        raise TypeError(f"{argument} is not a variable")
    return GenExpr("abs", (argument,))


def norm(*arguments: Any) -> NoReturn:
    """Not represented."""
    refuse("a norm", "abs_, min_, max_, and_, or_, or a quadratic constraint")


def difference(comparison: TempConstr) -> tuple[Any, float]:
    """Left minus right as an expression without constant, and the constant's negative: the right side."""
    left, right = comparison._left, comparison._right
    for side in (left, right):
        if not isinstance(side, Operand) and number(side) is None:
            what = f"a {type(side).__name__} on one side of a constraint"
            raise GurobiError(INVALID_ARGUMENT, f"{what}; accepted: variables, expressions, numbers")
    body: Any = LinExpr()
    body += left
    body -= right
    linear = body if isinstance(body, LinExpr) else body.getLinExpr()
    constant, linear._constant = linear._constant, 0.0
    return body, 0.0 - constant
