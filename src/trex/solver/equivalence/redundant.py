"""Half-spaces and bounds that the others imply, by linear programming; without them, equal sets often look alike."""

import math
from dataclasses import replace

from trex.solver.equivalence.canonical import Canonical, HalfSpace
from trex.solver.equivalence.region import Region, outside, size


def without_redundant(form: Canonical, deadline: float, bounds_too: bool) -> Canonical:
    """Drop, one after the other, half-spaces (and bounds) that the rest implies in the linear relaxation.

    Where the set has full dimension, what is left does not depend on the order. Forms that are not linear come back as
    they are, and so does what the time did not suffice for.
    """
    if not form.linear:
        return form
    region = Region(form, deadline, relaxed=True)
    solver = region.highs
    assert solver is not None
    kept, steps = [], []
    for number, half in enumerate(form.halves):
        solver.changeRowBounds(number, -math.inf, math.inf)
        if _implied(region, half):
            steps.append(f"row {half.rows[0]} is implied by the others")
        else:
            solver.changeRowBounds(number, -math.inf, half.side * size(half))
            kept.append(half)
    lower, upper = list(form.lower), list(form.upper)
    for j, name in enumerate(form.names if bounds_too else ()):
        for bounds, sign in ((upper, 1.0), (lower, -1.0)):
            bound = bounds[j]
            if math.isinf(bound):
                continue
            bounds[j] = sign * math.inf
            solver.changeColBounds(j, lower[j], upper[j])
            if _implied(region, HalfSpace(((j, sign),), (), sign * bound, ())):
                steps.append(f"{name} {'<=' if sign > 0 else '>='} {bound:g} is implied by the rows")
            else:
                bounds[j] = bound
                solver.changeColBounds(j, lower[j], upper[j])
    return replace(form, halves=tuple(kept), lower=tuple(lower), upper=tuple(upper), steps=(*form.steps, *steps))


def _implied(region: Region, half: HalfSpace) -> bool:
    return outside(half, half.terms, region.largest(dict(half.terms))) is False
