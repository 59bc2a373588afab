"""Sums, products and comparisons of variables, expressions and numbers."""

from typing import Any

from trex.solver.recorder.comparisons import TempConstr
from trex.solver.recorder.errors import refuse
from trex.solver.recorder.expressions import LinExpr, QuadExpr
from trex.solver.recorder.operand import Operand, each, is_array, number


def quicksum(data: Any) -> Any:
    """The sum of variables, expressions and numbers, without copies in between."""
    result: Any = LinExpr()
    for part in data.values() if hasattr(data, "_sums_values") else data:
        result += part
    return result


def total(left: Any, right: Any, sign: float) -> Any:
    """left + sign * right, element by element of an array; NotImplemented for what is no number or expression."""
    if is_array(right):
        return each(lambda a: total(left, a, sign), right)
    for side in (left, right):
        if not isinstance(side, Operand) and number(side) is None:
            return NotImplemented
    result = QuadExpr() if isinstance(left, QuadExpr) or isinstance(right, QuadExpr) else LinExpr()
    result._gather(left, 1.0)
    result._gather(right, sign)
    return result


def gathered(into: Any, part: Any, sign: float) -> Any:
    """The in-place sum; a linear expression that gets a quadratic part becomes another one."""
    if is_array(part) or (isinstance(part, QuadExpr) and isinstance(into, LinExpr)):
        return total(into, part, sign)
    if not isinstance(part, Operand) and number(part) is None:
        return NotImplemented
    into._gather(part, sign)
    return into


def scaled(part: Operand, factor: float) -> Any:
    """factor * part."""
    result = QuadExpr() if isinstance(part, QuadExpr) else LinExpr()
    result._gather(part, factor)
    return result


def constant(part: Any) -> float | None:
    """An expression's value where it holds no variable, else None."""
    if isinstance(part, QuadExpr):
        return None if part._coeffs else constant(part._linear)
    return part._constant if isinstance(part, LinExpr) and not part._vars else None


def product(left: Operand, right: Operand) -> Any:
    """The product. Raises GurobiError where its degree is three or more."""
    for one, other in ((left, right), (right, left)):
        value = constant(one)
        if value is not None:
            return scaled(other, value)
    a, b = _without_squares(left), _without_squares(right)
    result = QuadExpr(a._constant * b._constant)
    linear = result._linear
    if b._constant:
        linear._vars += a._vars
        linear._coeffs += [c * b._constant for c in a._coeffs]
    if a._constant:
        linear._vars += b._vars
        linear._coeffs += [c * a._constant for c in b._coeffs]
    for c, var in zip(a._coeffs, a._vars, strict=True):
        result._coeffs += [c * d for d in b._coeffs]
        result._firsts += [var] * len(b._vars)
        result._seconds += b._vars
    return result


def _without_squares(part: Operand) -> LinExpr:
    if isinstance(part, QuadExpr):
        if part._coeffs:
            refuse("a product of degree three or more", "a linear or quadratic expression")
        return part._linear
    return part if isinstance(part, LinExpr) else LinExpr(part)


def compared(left: Operand, sense: str, right: Any) -> Any:
    """The comparison, element by element of an array."""
    if is_array(right):
        return each(lambda a: TempConstr(left, sense, a), right)
    return TempConstr(left, sense, right)
