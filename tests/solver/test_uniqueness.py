"""Uniqueness of optima, against enumeration: every integer point, and the range of every variable on the best ones."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from trex.solver import lp
from trex.solver.model import Model
from trex.solver.solve import solve
from trex.solver.uniqueness import MULTIPLE, UNIQUE, UNKNOWN, uniqueness

KINDS = {"binary": 1, "integer": 3, "continuous": 4}


def point_of(model: Model) -> np.ndarray:
    found = solve(model)
    assert found.status == "optimal"
    return np.array([found.values[name] for name in model.variables])


def enumerated(model: Model) -> str:
    """Every integer point; then, with the integers of the best ones fixed, the least and largest of every variable."""
    best, points = np.inf, []
    sign = 1 if model.sense == "min" else -1
    whole = model.integers
    for values in itertools.product(*(range(int(model.lower[j]), int(model.upper[j]) + 1) for j in whole)):
        lower, upper = model.lower.copy(), model.upper.copy()
        lower[whole] = upper[whole] = values
        fixed = replace(model, kinds=("continuous",) * len(lower), lower=lower, upper=upper)
        found = solve(fixed)
        if found.objective is None:
            continue
        value = sign * found.objective
        if value < best - 1e-7:
            best, points = value, [fixed]
        elif value < best + 1e-7:
            points.append(fixed)
    if len(points) > 1:
        return MULTIPLE
    face = _face(points[0], sign * best)
    for j in range(len(model.variables)):
        cost = np.zeros(len(model.variables))
        cost[j] = 1
        ends = [solve(replace(face, sense=sense, cost=cost, offset=0.0)).objective for sense in ("min", "max")]
        if ends[1] - ends[0] > 1e-5:
            return MULTIPLE
    return UNIQUE


def _face(model: Model, best: float) -> Model:
    used = np.flatnonzero(model.cost)
    best -= model.offset
    return replace(
        model,
        rows=(*model.rows, "objective"),
        row_lower=np.append(model.row_lower, best - 1e-9),
        row_upper=np.append(model.row_upper, best + 1e-9),
        start=np.append(model.start, len(model.index) + len(used)),
        index=np.append(model.index, used),
        value=np.append(model.value, model.cost[used]),
    )


def drawn(rng: np.random.Generator, kinds: list[str]) -> Model:
    """A bounded random model: small integers, so that ties are frequent."""
    count, rows = len(kinds), 2
    matrix = rng.integers(0, 4, (rows, count)).astype(float)
    return Model(
        sense="max",
        offset=float(rng.integers(-3, 4)),
        variables=tuple(f"x{j}" for j in range(count)),
        kinds=tuple("continuous" if kind == "continuous" else "integer" for kind in kinds),
        cost=rng.integers(0, 5, count).astype(float),
        lower=np.zeros(count),
        upper=np.array([KINDS[kind] for kind in kinds], dtype=float),
        rows=("r0", "r1"),
        row_lower=np.full(rows, -np.inf),
        row_upper=rng.integers(2, 9, rows).astype(float),
        start=np.array([0, count, 2 * count]),
        index=np.tile(np.arange(count), rows),
        value=matrix.ravel(),
    )


@pytest.mark.parametrize("kinds", [["binary"] * 6, ["integer"] * 3, ["continuous"] * 4,
                                   ["binary"] * 3 + ["continuous"] * 2, ["integer"] * 2 + ["continuous"] * 2,
                                   ["binary"] * 2 + ["integer"] + ["continuous"]])  # fmt: skip
def test_as_enumerated(kinds: list[str]) -> None:
    rng = np.random.default_rng(len(kinds))
    verdicts = []
    for _ in range(30):
        model = drawn(rng, kinds)
        expected = enumerated(model)
        assert uniqueness(model, point_of(model)) == expected, lp.write(model)
        verdicts.append(expected)
    assert len(set(verdicts)) == 2  # both kinds were met


MAKESPAN = """
Minimize
 obj: T
Subject To
 first: T - a >= 3
 second: T - b >= 5
 apart: a - b + 100 y >= 5
 other: b - a - 100 y >= -97
Bounds
 a <= 50
 b <= 50
Binary
 y
End
"""


def test_tie_where_only_the_slack_of_the_objective_moves() -> None:
    """Jobs one after the other: other starts are as good, although the makespan is the only one that costs."""
    model = lp.read(MAKESPAN)
    assert uniqueness(model, point_of(model)) == enumerated(model) == MULTIPLE


def test_close_costs_are_no_tie() -> None:
    """The second best choice is worse by one in a hundred thousand."""
    model = lp.read("Maximize\n obj: 100001 x + 100000 y\nSubject To\n one: x + y <= 1\nBinary\n x\n y\nEnd\n")
    assert uniqueness(model, point_of(model)) == UNIQUE
    relaxed = replace(model, kinds=("continuous",) * 2)
    assert uniqueness(relaxed, point_of(relaxed)) == UNIQUE


def test_infinite_face() -> None:
    model = lp.read("Minimize\n obj: x\nSubject To\n c: x + y >= 2\nEnd\n")
    assert uniqueness(model, point_of(model)) == MULTIPLE


def test_only_point_and_no_variables() -> None:
    model = lp.read("Minimize\n obj: x + y\nSubject To\n c: x + y = 2\nBinary\n x\n y\nEnd\n")
    assert uniqueness(model, point_of(model)) == UNIQUE


def test_not_linear() -> None:
    model = lp.read("Minimize\n obj: x + [ x ^ 2 ] / 2\nSubject To\n c: x >= 1\nEnd\n")
    assert uniqueness(model, point_of(model)) == UNKNOWN
