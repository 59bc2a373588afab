"""What variables and expressions have in common: the operators."""

from collections.abc import Callable
from typing import Any

import numpy as np

from trex.solver.recorder.errors import GurobiError, refuse


def number(value: Any) -> float | None:
    """The value as a float where it is a number, of numpy too; None for everything else."""
    kind = type(value)
    if kind is float or kind is int:
        return float(value)
    if isinstance(value, str | bytes | Operand) or (isinstance(value, np.ndarray) and value.ndim):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def each(function: Callable[[Any], Any], array: Any) -> Any:
    """The function of every element, as an array of objects of the same class and shape."""
    return np.frompyfunc(function, 1, 1)(array)


def is_array(value: Any) -> bool:
    """Whether arithmetic with it goes element by element."""
    return isinstance(value, np.ndarray) and value.ndim > 0


class Operand:
    """Arithmetic and comparisons of variables and expressions. A product of degree three raises GurobiError.

    `arithmetic` builds on expressions, which are operands: so it is imported when the first operator is used.
    """

    __slots__ = ()
    __array_ufunc__ = None  # numpy's numbers and arrays leave operators to the methods below
    __hash__ = object.__hash__

    def __add__(self, other: Any) -> Any:
        from trex.solver.recorder import arithmetic

        return arithmetic.total(self, other, 1.0)

    def __radd__(self, other: Any) -> Any:
        from trex.solver.recorder import arithmetic

        return (
            arithmetic.total(self, other, 1.0)
            if is_array(other) or isinstance(other, Operand)
            else arithmetic.total(other, self, 1.0)
        )

    def __sub__(self, other: Any) -> Any:
        from trex.solver.recorder import arithmetic

        return arithmetic.total(self, other, -1.0)

    def __rsub__(self, other: Any) -> Any:
        from trex.solver.recorder import arithmetic

        return each(lambda a: a - self, other) if is_array(other) else arithmetic.total(other, self, -1.0)

    def __neg__(self) -> Any:
        return self * -1.0

    def __mul__(self, other: Any) -> Any:
        from trex.solver.recorder import arithmetic

        if is_array(other):
            return each(lambda a: self * a, other)
        if isinstance(other, Operand):
            return arithmetic.product(self, other)
        factor = number(other)
        return NotImplemented if factor is None else arithmetic.scaled(self, factor)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        from trex.solver.recorder import arithmetic

        if is_array(other):
            return each(lambda a: self / a, other)
        if isinstance(other, Operand):
            constant = arithmetic.constant(other)
            if constant is None:
                refuse("a division by a variable", "a linear or quadratic expression")
            return self / constant
        divisor = number(other)
        return NotImplemented if divisor is None else arithmetic.scaled(self, 1.0 / divisor)

    def __rtruediv__(self, other: Any) -> Any:
        refuse("a division by a variable", "a linear or quadratic expression")

    def __pow__(self, exponent: Any) -> Any:
        from trex.solver.recorder import arithmetic

        power = number(exponent)
        if power == 2:
            return arithmetic.product(self, self)
        if power == 1:
            return self
        if power == 0:
            return 1.0
        refuse(f"the power {exponent!r} of an expression", "0, 1, 2")

    def __rpow__(self, base: Any) -> Any:
        refuse("a variable as exponent", "a linear or quadratic expression")

    def __le__(self, other: Any) -> Any:
        from trex.solver.recorder import arithmetic

        return arithmetic.compared(self, "<", other)

    def __ge__(self, other: Any) -> Any:
        from trex.solver.recorder import arithmetic

        return arithmetic.compared(self, ">", other)

    def __eq__(self, other: Any) -> Any:
        from trex.solver.recorder import arithmetic

        return arithmetic.compared(self, "=", other)

    def __ne__(self, other: Any) -> Any:
        raise GurobiError(0, "Inequality constraints not supported")
