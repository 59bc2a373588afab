"""Verdicts against enumeration: small integer models are equal exactly where a permutation of variables maps feasible
points to feasible points and keeps the objective."""

import itertools
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from trex.eval.rewriting import mutated, rewritten
from trex.solver.equivalence import compare
from trex.solver.equivalence.verdict import text
from trex.solver.model import Model


def random_model(rng: random.Random) -> Model:
    columns, rows = rng.randint(1, 4), rng.randint(0, 4)
    start, index, value, sides = [0], [], [], []
    for _ in range(rows):
        chosen = rng.sample(range(columns), rng.randint(1, columns))
        index += chosen
        value += [float(rng.choice((1, 1, 2, -1, 3))) for _ in chosen]
        start.append(len(index))
        side = rng.randint(0, 4)
        sides.append(rng.choice(((-np.inf, side), (side, np.inf), (side, side), (side - 1, side + 1), (-np.inf, side))))
    return Model(
        sense=rng.choice(("min", "max")),
        offset=float(rng.choice((0, 0, 1))),
        variables=tuple(f"x{j}" for j in range(columns)),
        kinds=("integer",) * columns,
        cost=np.array([rng.choice((0, 1, 1, 2, -1)) for _ in range(columns)], dtype=float),
        lower=np.zeros(columns),
        upper=np.array([rng.choice((1, 1, 2)) for _ in range(columns)], dtype=float),
        rows=tuple(f"r{k}" for k in range(rows)),
        row_lower=np.array([low for low, _ in sides], dtype=float),
        row_upper=np.array([high for _, high in sides], dtype=float),
        start=np.array(start, dtype=np.int64),
        index=np.array(index, dtype=np.int64),
        value=np.array(value, dtype=float),
    )


def points(model: Model) -> dict[tuple[int, ...], float]:
    """Every feasible point and its objective as a minimum; rows scaled in floating point leave 1e-9."""
    sign = 1 if model.sense == "min" else -1
    ranges = [range(int(low), int(high) + 1) for low, high in zip(model.lower, model.upper, strict=True)]
    found = {}
    for point in itertools.product(*ranges):
        x = np.array(point, dtype=float)
        activities = [sum(model.terms(row, x)) for row in range(len(model.rows))]
        if all(
            low - 1e-9 <= activity <= high + 1e-9
            for low, activity, high in zip(model.row_lower, activities, model.row_upper, strict=True)
        ):
            found[point] = round(sign * model.objective(x), 6) + 0.0
    return found


def same(a: Model, b: Model) -> bool:
    first, second = points(a), points(b)
    if len(first) != len(second):
        return False
    return any(
        {tuple(point[j] for j in order): value for point, value in first.items()} == second
        for order in itertools.permutations(range(len(a.variables)))
    )


def check(count: int, seed: int) -> Counter:
    rng = random.Random(seed)
    outcomes: Counter = Counter()
    for _ in range(count):
        a = b = random_model(rng)
        for _ in range(rng.choice((0, 1, 1, 2))):
            _, b = mutated(b, rng)
        b = replace(b, kinds=a.kinds)
        if rng.random() < 0.6:
            b = rewritten(b, rng)
        verdict = compare(a, b)
        right = same(a, b)
        assert verdict.kind == "unknown" or (verdict.kind == "equal") == right, (a, b, text(verdict))
        outcomes[verdict.kind, bool(points(a)) and bool(points(b))] += 1
    return outcomes


def test_verdicts_on_small_models():
    outcomes = check(300, seed=0)
    decided = outcomes["equal", True] + outcomes["different", True]
    assert decided >= 0.95 * (decided + outcomes["unknown", True])
    assert outcomes["equal", True] > 50 and outcomes["different", True] > 50


@pytest.mark.slow
def test_verdicts_on_many_small_models():
    check(10_000, seed=1)
