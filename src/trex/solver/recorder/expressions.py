"""Linear and quadratic expressions: what arithmetic with variables gives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from trex.solver.recorder.errors import INVALID_ARGUMENT, GurobiError
from trex.solver.recorder.operand import Operand, number


class LinExpr(Operand):
    """constant + sum of coefficient * variable, in the order in which terms were added; variables may repeat."""

    __slots__ = ("_coeffs", "_constant", "_vars")

    def __init__(self, arg1: Any = 0.0, arg2: Any = None) -> None:
        self._coeffs: list[float] = []
        self._vars: list[Any] = []
        self._constant = 0.0
        if arg2 is not None:
            self.addTerms(arg1, arg2)
        elif isinstance(arg1, list | tuple):
            for coefficient, var in arg1:
                self.addTerms(coefficient, var)
        else:
            self._gather(arg1, 1.0)

    def _gather(self, part: Any, factor: float) -> None:
        """Add factor * part, in place."""
        if isinstance(part, LinExpr):
            self._vars += part._vars
            self._coeffs += part._coeffs if factor == 1.0 else [factor * c for c in part._coeffs]
            self._constant += factor * part._constant
        elif isinstance(part, QuadExpr):
            raise GurobiError(INVALID_ARGUMENT, "a quadratic expression is not part of a linear one")
        elif isinstance(part, Operand):
            self._vars.append(part)
            self._coeffs.append(factor)
        else:
            constant = number(part)
            if constant is None:
                raise GurobiError(INVALID_ARGUMENT, f"a {type(part).__name__} is no part of an expression")
            self._constant += factor * constant

    def __iadd__(self, other: Any) -> Any:
        from trex.solver.recorder import arithmetic

        return arithmetic.gathered(self, other, 1.0)

    def __isub__(self, other: Any) -> Any:
        from trex.solver.recorder import arithmetic

        return arithmetic.gathered(self, other, -1.0)

    def __imul__(self, other: Any) -> Any:
        return self * other

    def add(self, expr: Any, mult: float = 1.0) -> None:
        """Add mult * expr, in place."""
        self._gather(expr, float(mult))

    def addConstant(self, c: float) -> None:
        """Add a constant, in place."""
        self._constant += float(c)

    def addTerms(self, coeffs: Any, vars: Any) -> None:
        """Add a term, or terms from two lists of one length, in place."""
        for coefficient, var in _pairs(coeffs, vars):
            self._gather(_variable(var), coefficient)

    def clear(self) -> None:
        """Make it 0."""
        self.__init__()  # type: ignore[misc]

    def copy(self) -> LinExpr:
        """An expression of its own with the same terms."""
        result = LinExpr()
        result._gather(self, 1.0)
        return result

    def size(self) -> int:
        """Number of terms."""
        return len(self._vars)

    def getVar(self, i: int) -> Any:
        """Variable of term i."""
        return self._vars[i]

    def getCoeff(self, i: int) -> float:
        """Coefficient of term i."""
        return self._coeffs[i]

    def getConstant(self) -> float:
        """The constant."""
        return self._constant

    def getValue(self) -> float:
        """Value at the solution; AttributeError without one."""
        return self._constant + math.fsum(c * var.X for c, var in zip(self._coeffs, self._vars, strict=True))

    def remove(self, item: Any) -> None:
        """Remove term number `item`, or all terms of that variable."""
        kept = [k for k, v in enumerate(self._vars) if (v is not item if isinstance(item, Operand) else k != item)]
        self._coeffs, self._vars = [self._coeffs[k] for k in kept], [self._vars[k] for k in kept]

    def __repr__(self) -> str:
        return f"<gurobi.LinExpr: {self}>"

    def __str__(self) -> str:
        return _text(self._constant, zip(self._coeffs, map(_name, self._vars), strict=True))


class QuadExpr(Operand):
    """A linear expression and sum of coefficient * variable * variable."""

    __slots__ = ("_coeffs", "_firsts", "_linear", "_seconds")

    def __init__(self, expr: Any = 0.0) -> None:
        self._linear = LinExpr()
        self._coeffs: list[float] = []
        self._firsts: list[Any] = []
        self._seconds: list[Any] = []
        self._gather(expr, 1.0)

    def _gather(self, part: Any, factor: float) -> None:
        if isinstance(part, QuadExpr):
            self._linear._gather(part._linear, factor)
            self._coeffs += [factor * c for c in part._coeffs]
            self._firsts += part._firsts
            self._seconds += part._seconds
        else:
            self._linear._gather(part, factor)

    __iadd__, __isub__, __imul__ = LinExpr.__iadd__, LinExpr.__isub__, LinExpr.__imul__
    add, clear = LinExpr.add, LinExpr.clear

    def addConstant(self, c: float) -> None:
        """Add a constant, in place."""
        self._linear.addConstant(c)

    def addTerms(self, coeffs: Any, vars: Any, vars2: Any = None) -> None:
        """Add terms of one variable each, or of two, in place."""
        if vars2 is None:
            self._linear.addTerms(coeffs, vars)
            return
        first, second = list(_pairs(coeffs, vars)), list(_pairs(coeffs, vars2))
        for (coefficient, left), (_, right) in zip(first, second, strict=True):
            self._coeffs.append(coefficient)
            self._firsts.append(_variable(left))
            self._seconds.append(_variable(right))

    def copy(self) -> QuadExpr:
        """An expression of its own with the same terms."""
        return QuadExpr(self)

    def size(self) -> int:
        """Number of quadratic terms."""
        return len(self._coeffs)

    def getVar1(self, i: int) -> Any:
        """First variable of quadratic term i."""
        return self._firsts[i]

    def getVar2(self, i: int) -> Any:
        """Second variable of quadratic term i."""
        return self._seconds[i]

    def getCoeff(self, i: int) -> float:
        """Coefficient of quadratic term i."""
        return self._coeffs[i]

    def getLinExpr(self) -> LinExpr:
        """The linear part."""
        return self._linear

    def getValue(self) -> float:
        """Value at the solution; AttributeError without one."""
        terms = zip(self._coeffs, self._firsts, self._seconds, strict=True)
        return self._linear.getValue() + math.fsum(c * a.X * b.X for c, a, b in terms)

    def remove(self, item: Any) -> None:
        """Remove quadratic term number `item`, or all terms with that variable."""
        pairs = list(zip(self._coeffs, self._firsts, self._seconds, strict=True))
        if isinstance(item, Operand):
            self._linear.remove(item)
            pairs = [pair for pair in pairs if item is not pair[1] and item is not pair[2]]
        else:
            del pairs[item]
        self._coeffs, self._firsts, self._seconds = ([pair[k] for pair in pairs] for k in range(3))

    def __repr__(self) -> str:
        return f"<gurobi.QuadExpr: {self}>"

    def __str__(self) -> str:
        pairs = zip(self._firsts, self._seconds, strict=True)
        names = [f"{_name(a)} ^ 2" if a is b else f"{_name(a)} * {_name(b)}" for a, b in pairs]
        return (
            f"{self._linear} + [ {_text(0.0, zip(self._coeffs, names, strict=True))} ]" if names else f"{self._linear}"
        )


def _name(var: Any) -> str:
    return str(var.VarName)


def _text(constant: float, terms: Iterable[tuple[float, str]]) -> str:
    parts = [str(constant)] if constant else []
    parts += [name if c == 1 else f"{c} {name}" for c, name in terms]
    return " + ".join(parts) or "0.0"


def _variable(var: Any) -> Any:
    if not isinstance(var, Operand) or isinstance(var, LinExpr | QuadExpr):
        raise GurobiError(INVALID_ARGUMENT, f"a {type(var).__name__} is no variable")
    return var


def _pairs(coeffs: Any, vars: Any) -> Iterator[tuple[float, Any]]:
    if isinstance(vars, Operand):
        yield float(coeffs), vars
        return
    variables = list(vars.values() if isinstance(vars, dict) else vars)
    numbers = [float(c) for c in coeffs]
    if len(numbers) != len(variables):
        raise GurobiError(INVALID_ARGUMENT, "Linear expression arguments of different length")
    yield from zip(numbers, variables, strict=True)
