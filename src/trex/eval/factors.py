"""Factors between two numbers that mean something: powers of ten, parts of time, dozens, small fractions."""

import math
from collections.abc import Sequence
from fractions import Fraction

EXACT = 1e-9  # relative, of numbers in models
UNITS = (7, 12, 24, 30, 52, 60, 144, 168, 365, 1440, 3600, 8760)
PARTS = (2, 3, 4, 5, 6, 20, 25, 50)  # as of a total that is counted twice: no units
POWERS = 9  # of ten, up to this one
LARGEST = 1000  # numerator and denominator of a factor that is written as a fraction


def is_unit(factor: float, tolerance: float = EXACT, also: Sequence[int] = ()) -> bool:
    """Whether a factor or its inverse is a power of ten, in UNITS or in `also`, within a relative tolerance."""
    size = abs(factor)
    if not (size > 0 and math.isfinite(size)):
        return False
    size = max(size, 1 / size)
    known = (*UNITS, *also, *(10**k for k in range(1, POWERS + 1)))
    return any(math.isclose(size, unit, rel_tol=tolerance) for unit in known)


def common(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The one factor from the second numbers to the first, both sorted; None where there is none but 1."""
    if not first or len(first) != len(second):
        return None
    if not all(math.isfinite(x) and x for x in (*first, *second)):
        return None
    by_size = sorted(first, key=abs), sorted(second, key=abs)
    factor = by_size[0][-1] / by_size[1][-1]
    if not math.isfinite(factor) or factor in (0.0, 1.0):
        return None
    wanted = sorted(factor * x for x in second)
    close = all(math.isclose(x, y, rel_tol=EXACT) for x, y in zip(sorted(first), wanted, strict=True))
    return factor if close else None


def as_text(factor: float) -> str:
    """A factor as a whole number, a small fraction, or a decimal."""
    near = Fraction(factor).limit_denominator(LARGEST)
    if near and abs(near.numerator) <= 10**POWERS and math.isclose(float(near), factor, rel_tol=EXACT):
        small = near.denominator == 1 or max(abs(near.numerator), near.denominator) <= LARGEST
        return str(near) if small else f"{factor:.12g}"
    inverse = Fraction(1 / factor).limit_denominator(1)
    if inverse and math.isclose(float(1 / inverse), factor, rel_tol=EXACT):
        return f"1/{inverse}"
    return f"{factor:.9g}"
