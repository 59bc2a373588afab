"""Arithmetic over published numbers: formulas of derived numbers, read from data files, never executed as Python."""

import ast
import operator
from collections.abc import Callable

OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
FUNCTIONS: dict[str, Callable[..., float]] = {"mean": lambda *x: sum(x) / len(x), "sum": lambda *x: sum(x)}
ACCEPTED = "numbers, references (column, row.column, table.row.column), + - * / **, mean(…) and sum(…)"


def evaluate(formula: str, resolve: Callable[[tuple[str, ...]], float]) -> float:
    """Value of `formula`; `resolve` turns a dotted reference, split at the dots, into a number.

    Raises ValueError for anything but ACCEPTED, and ZeroDivisionError.
    """
    try:
        tree = ast.parse(formula, mode="eval")
    except SyntaxError as error:
        raise ValueError(f"formula {formula!r}: {error.msg}; accepted: {ACCEPTED}") from None
    return _value(tree.body, formula, resolve)


def _value(node: ast.expr, formula: str, resolve: Callable[[tuple[str, ...]], float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left, formula, resolve), _value(right, formula, resolve))
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_value(argument, formula, resolve) for argument in arguments))
        case ast.Name() | ast.Attribute():
            return resolve(_path(node, formula))
    raise ValueError(f"formula {formula!r}: {ast.unparse(node)!r} is not accepted; accepted: {ACCEPTED}")


def _path(node: ast.expr, formula: str) -> tuple[str, ...]:
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=inner, attr=name):
            return (*_path(inner, formula), name)
    raise ValueError(f"formula {formula!r}: {ast.unparse(node)!r} is not a reference; accepted: {ACCEPTED}")
