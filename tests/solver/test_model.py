"""The model class: what counts as the same model."""

from dataclasses import fields, replace
from typing import Any

import pytest

from trex.solver import lp
from trex.solver.model import SOS, Function, Indicator, Model

TEXT = """
Minimize
 obj: x + 2 y + 3 z + [ x ^ 2 ] / 2 + 4
Subject To
 a: x + y + z >= 2
 b: x - y + [ y * z ] <= 3
Bounds
 x <= 9
 y <= 9
 z <= 9
Generals
 z
End
"""
ROW = {
    "sense": "max",
    "offset": 5.0,
    "variables": ("x", "y", "w"),
    "kinds": ("continuous",) * 3,
    "rows": ("a", "c"),
    "quadratic": {(0, 0): 1.0},
    "quadratic_rows": {},
    "sos": (SOS("s", 1, (0, 1), (1.0, 2.0)),),
    "indicators": (Indicator("i", 2, 1, ((0, 1.0),), 0.0, 1.0),),
    "functions": (Function("f", "max", 0, (1, 2)),),
}
ARRAYS = {
    "cost": [1.0, 2.0, 4.0],
    "lower": [0.0, 1.0, 0.0],
    "upper": [9.0, 8.0, 9.0],
    "row_lower": [1.0, -float("inf")],
    "row_upper": [float("inf"), 4.0],
    "start": [0, 2, 5],
    "index": [0, 1, 2, 0, 2],
    "value": [1.0, 1.0, 1.0, 1.0, -2.0],
}


def test_same() -> None:
    assert lp.read(TEXT).same(lp.read(TEXT))


@pytest.mark.parametrize("part", [field.name for field in fields(Model)])
def test_not_the_same(part: str) -> None:
    """Each part in turn is another one."""
    model = lp.read(TEXT)
    value: Any = ROW[part] if part in ROW else type(model.cost)
    if part in ARRAYS:
        old = getattr(model, part)
        value = old.copy()
        value[:] = ARRAYS[part]
    if part == "indicators":
        model = replace(model, upper=model.upper.clip(max=1.0))
    changed = replace(model, **{part: value})
    assert not model.same(changed) and not changed.same(model)
