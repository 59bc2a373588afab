"""Variables that can take values far from integers: their number is the same for equal models."""

import math

import highspy
import numpy as np
from numpy.typing import NDArray

from trex.solver.check import violation
from trex.solver.equivalence.region import Region
from trex.solver.equivalence.verdict import Witness

FAR = 0.1  # from the next integer


def fractional_differs(a: Region, b: Region) -> Witness | None:
    """A witness where more variables of one model can be fractional than the other has continuous ones."""
    open_a, open_b = (region.form.whole.count(False) for region in (a, b))
    if open_a == open_b:
        return None
    region, least = (a, open_b) if open_a > open_b else (b, open_a)
    points: list[NDArray[np.float64]] = []
    for j, whole in enumerate(region.form.whole):
        if whole or len(points) > least:
            continue
        point = _fractional_point(region, j)
        if point is not None:
            points.append(point)
    if len(points) <= least:
        return None
    shown = dict(zip(region.form.names, points[-1].tolist(), strict=True))
    counts = (len(points), least) if region is a else (least, len(points))
    return Witness(
        f"number of variables that can be {FAR} away from an integer (at least, and at most)",
        *counts,
        point_a=shown if region is a else {},
        point_b=shown if region is b else {},
        confirmed_by=("points checked exactly",),
    )


def _fractional_point(region: Region, j: int) -> NDArray[np.float64] | None:
    """A point whose j-th value is at least FAR from an integer; None where the solver finds none."""
    solver = region.highs
    if solver is None:
        return None
    # x[j] - k within [FAR, 1 - FAR] for one more variable k that is an integer
    columns, rows = len(region.form.columns), len(region.form.halves)
    solver.addCol(0.0, -math.inf, math.inf, 0, [], [])
    solver.changeColIntegrality(columns, highspy.HighsVarType.kInteger)
    solver.addRow(FAR, 1 - FAR, 2, [j, columns], [1.0, -1.0])
    found = region.largest({})
    solver.deleteRows(1, [rows])
    solver.deleteCols(1, [columns])
    if found.point is None:
        return None
    point = found.point[:columns]
    if violation(region.model, point) is not None or abs(point[j] - round(point[j])) < FAR / 2:
        return None
    return point
