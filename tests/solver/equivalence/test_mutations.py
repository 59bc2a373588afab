"""Reference models with one random change: whatever is called equal, SCIP finds the same optima for; whatever is called
different has a witness that SCIP confirms."""

import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import trex.paths
from trex.eval.rewriting import mutated, rewritten
from trex.solver import lp
from trex.solver.believe import Limits, by_scip
from trex.solver.equivalence import compare
from trex.solver.equivalence.verdict import text
from trex.solver.model import Model

COUNT = int(os.environ.get("TREX_MUTATIONS", "500"))  # 2000 for the whole trial
BENCHMARKS = sorted((Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks").glob("b4o_*/lp/*.lp"))
pytestmark = pytest.mark.skipif(not BENCHMARKS, reason="shared benchmarks are not here")


def optimum(model: Model) -> tuple[str, float | None]:
    """Status and optimum as a minimum, by SCIP alone."""
    found = by_scip(model, Limits(20.0))
    if found.status != "optimal" or found.objective is None:
        return found.status, None
    return found.status, found.objective * (1 if model.sense == "min" else -1)


def with_costs(model: Model, costs: dict[str, float]) -> Model:
    cost = np.array([costs.get(name, 0.0) for name in model.variables])
    return replace(model, sense="min", offset=0.0, quadratic={}, cost=cost)


def close(x: float | None, y: float | None) -> bool:
    return x is None or y is None or abs(x - y) <= 2e-6 * max(1.0, abs(x), abs(y))


def same_optima(a: Model, b: Model, mapping: dict[str, str], rng: random.Random) -> bool:
    """Whether optima agree, for the objectives as they are and for random ones over matched variables."""
    first, second = optimum(a), optimum(b)
    if {first[0], second[0]} <= {"optimal", "infeasible", "unbounded"} and first[0] != second[0]:
        return False
    agree = close(first[1], second[1])
    for _ in range(2):
        costs = {name: rng.gauss(0, 1) for name in mapping}
        images = {image: costs[name] for name, image in mapping.items()}
        drawn = [optimum(with_costs(a, costs)), optimum(with_costs(b, images))]
        agree &= close(drawn[0][1], drawn[1][1])
    return agree


def confirmed(a: Model, b: Model, verdict) -> bool:
    """Whether SCIP sees the difference where the witness is one of optimum or status; others say who confirmed them."""
    first, second = optimum(a), optimum(b)
    if verdict.witness.invariant == "status":
        return first[0] == verdict.witness.a and second[0] == verdict.witness.b
    if verdict.witness.invariant == "optimum, as a minimum" and "rational" not in str(verdict.witness.confirmed_by):
        return first[1] is not None and second[1] is not None and not abs(first[1] - second[1]) <= 5e-7 * abs(first[1])
    return bool(verdict.witness.confirmed_by)


def check(count: int, seed: int) -> Counter:
    rng = random.Random(seed)
    models = [lp.read(path) for path in BENCHMARKS]
    outcomes: Counter = Counter()
    for _ in range(count):
        model = rng.choice(models)
        kind, other = mutated(model, rng)
        if rng.random() < 0.5:
            other = rewritten(other, rng)
        verdict = compare(model, other, time_s=5.0)
        outcomes[verdict.kind] += 1
        if verdict.kind == "equal":
            assert same_optima(model, other, dict(verdict.variables), rng), (kind, text(verdict))
        elif verdict.kind == "different":
            assert confirmed(model, other, verdict), (kind, text(verdict))
        elif "infeasible" in verdict.reason:
            outcomes["both infeasible"] += 1
    return outcomes


def test_some_mutations():
    outcomes = check(60, seed=0)
    assert outcomes["different"] > 20 and outcomes["equal"] > 2


@pytest.mark.slow
def test_many_mutations():
    outcomes = check(COUNT, seed=1)
    decided = outcomes["equal"] + outcomes["different"]
    assert decided > 0.9 * (COUNT - outcomes["both infeasible"])
