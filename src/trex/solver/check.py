"""Does a point satisfy a model? Sums of floats are decided as in exact arithmetic; nothing is taken from the solver.

A side may be missed by TOLERANCE, by RELATIVE of the side, and by what no point in floats can avoid: ROUNDING times the
sum of a row's absolute terms. Rows that are clearly inside, by a bound on the error of floating-point sums, are passed
without more; every other row is summed in fractions.
"""

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from trex.solver.model import SEMI, Function, Model

TOLERANCE = 1e-6  # of bounds, sides of rows, and integrality
RELATIVE = 1e-9  # of a bound or side
ROUNDING = 2.0**-51  # of a row's absolute terms: coordinates rounded to floats move a row by a quarter of it
EPSILON = 2.0**-52

Term = tuple[float, float] | tuple[float, float, float]  # factors


def violation(model: Model, point: NDArray[np.float64], tolerance: float = TOLERANCE) -> str | None:
    """First bound, integrality, row, set, indicator or function that a point [variables] breaks, as a sentence.

    None where the point satisfies all. A member of an ordered set is zero up to the tolerance; so is a semi-continuous
    variable outside its bounds.
    """
    return next(_breaches(model, point, tolerance), None)


def polished(model: Model, point: NDArray[np.float64]) -> NDArray[np.float64]:
    """The point [variables] with integers near a whole number rounded to it and semi-continuous near 0 set to 0."""
    rounded = point.copy()
    whole = model.integers
    near = whole[np.abs(point[whole] - np.round(point[whole])) <= TOLERANCE]
    rounded[near] = np.round(point[near])
    for j, kind in enumerate(model.kinds):
        if kind in SEMI and abs(point[j]) <= TOLERANCE:
            rounded[j] = 0.0
    return rounded + 0.0  # no negative zeros


def _breaches(model: Model, point: NDArray[np.float64], tolerance: float) -> Iterator[str]:
    for j in np.flatnonzero(~np.isfinite(point)).tolist():
        yield f"{model.variables[j]} = {point[j]}"
        return  # sums with it mean nothing
    yield from _bounds(model, point, tolerance)
    yield from _rows(model, point, tolerance)
    for ordered in model.sos:
        members = [j for _, j in sorted(zip(ordered.weights, ordered.members, strict=True))]
        used = [place for place, j in enumerate(members) if abs(point[j]) > tolerance]
        if len(used) > ordered.type or (used and used[-1] - used[0] >= ordered.type):
            names = ", ".join(model.variables[members[place]] for place in used[:3])
            yield f"set {ordered.name}: {names} are not zero together in a set of type {ordered.type}"
    for indicator in model.indicators:
        if round(float(point[indicator.binary])) == indicator.active:
            terms = [(c, float(point[j])) for j, c in indicator.terms]
            if not _inside(terms, indicator.lower, indicator.upper, tolerance):
                sides = f"[{indicator.lower}, {indicator.upper}]"
                yield f"indicator {indicator.name} = {float(_sum(terms))} lies outside {sides}"
    for function in model.functions:
        expected, found = _function(function, point), float(point[function.result])
        if not _inside([(1.0, found)], expected, expected, tolerance):
            yield f"function {function.name}: {model.variables[function.result]} = {found} instead of {expected}"


def _bounds(model: Model, point: NDArray[np.float64], tolerance: float) -> Iterator[str]:
    lower, upper = model.lower, model.upper
    for j in np.flatnonzero(~_clear(point, np.zeros(len(point)), lower, upper, tolerance)).tolist():
        x = float(point[j])
        if model.kinds[j] in SEMI and abs(x) <= tolerance:
            continue
        if not _inside([(1.0, x)], float(lower[j]), float(upper[j]), tolerance):
            yield f"{model.variables[j]} = {x} lies outside [{lower[j]}, {upper[j]}]"
    whole = point[model.integers]
    for j in model.integers[np.abs(whole - np.round(whole)) > tolerance].tolist():
        yield f"{model.variables[j]} = {float(point[j])} is not an integer"


def _rows(model: Model, point: NDArray[np.float64], tolerance: float) -> Iterator[str]:
    if not model.rows:
        return
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not clear, and summed in fractions
        terms = np.concatenate((model.value * point[model.index], [0.0]))
        sums = np.add.reduceat(terms, model.start[:-1])
        sizes = np.add.reduceat(np.abs(terms), model.start[:-1])
        counts = np.diff(model.start)
        sums[counts == 0], sizes[counts == 0] = 0.0, 0.0  # reduceat gives an empty row its neighbour's term
        clear = _clear(sums, (counts + 4) * EPSILON * sizes, model.row_lower, model.row_upper, tolerance)
    clear[list(model.quadratic_rows)] = False
    for row in np.flatnonzero(~clear).tolist():
        linear: list[Term] = [(c, float(point[j])) for j, c in model.row(row)]
        square = model.quadratic_rows.get(row, {})
        exact = linear + [(c, float(point[i]), float(point[j])) for (i, j), c in square.items()]
        low, high = float(model.row_lower[row]), float(model.row_upper[row])
        if not _inside(exact, low, high, tolerance):
            yield f"row {model.rows[row]} = {_float(_sum(exact))} lies outside [{low}, {high}]"


def _clear(
    sums: NDArray[np.float64],
    errors: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    tolerance: float,
) -> NDArray[np.bool_]:
    """Whether sums, wrong by at most `errors`, lie inside their sides moved out by half of the tolerance."""
    wide = [(tolerance + RELATIVE * np.abs(np.where(np.isfinite(side), side, 0.0))) / 2 for side in (low, high)]
    inside: NDArray[np.bool_] = (sums - errors >= low - wide[0]) & (sums + errors <= high + wide[1])
    return inside


def _inside(terms: Iterable[Term], low: float, high: float, tolerance: float) -> bool:
    """Whether a sum of products lies between two sides within the tolerance, in fractions."""
    products = [_product(term) for term in terms]
    total = sum(products, Fraction(0))
    rounding = Fraction(ROUNDING) * sum(map(abs, products), Fraction(0))
    for side, sign in ((low, 1), (high, -1)):
        if math.isinf(side):
            if (side > 0) == (sign > 0):
                return False
            continue
        allowed = Fraction(tolerance) + Fraction(RELATIVE) * abs(Fraction(side)) + rounding
        if sign * (total - Fraction(side)) < -allowed:
            return False
    return True


def _sum(terms: Iterable[Term]) -> Fraction:
    return sum(map(_product, terms), Fraction(0))


def _product(factors: Term) -> Fraction:
    product = Fraction(1)
    for factor in factors:
        product *= Fraction(factor)
    return product


def _float(value: Fraction) -> float:
    """The nearest float; infinite where it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _function(function: Function, point: NDArray[np.float64]) -> float:
    values = [float(point[j]) for j in function.arguments]
    if function.constant is not None:
        values.append(function.constant)
    if function.kind in ("and", "or"):
        return float((all if function.kind == "and" else any)(round(value) for value in values))
    return abs(values[0]) if function.kind == "abs" else min(values) if function.kind == "min" else max(values)
