"""The exact algorithms against enumeration, and against a published optimum."""

import itertools
import random
from fractions import Fraction

import pytest

from trex.data import exact
from trex.data.problem import DataError


@pytest.mark.parametrize("seed", range(12))
def test_knapsack_equals_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    count, resources = 9, rng.choice((1, 2))
    values = [rng.randint(1, 20) for _ in range(count)]
    uses = [[rng.randint(1, 12) for _ in range(resources)] for _ in range(count)]
    limits = [rng.randint(5, 40) for _ in range(resources)]
    best = max(
        sum(v for v, taken in zip(values, choice, strict=True) if taken)
        for choice in itertools.product((0, 1), repeat=count)
        if all(sum(u[r] for u, taken in zip(uses, choice, strict=True) if taken) <= limits[r] for r in range(resources))
    )
    assert exact.knapsack(values, uses, limits) == best


@pytest.mark.parametrize("seed", range(12))
def test_transportation_equals_enumeration(seed: int) -> None:
    """Integral data, so some optimal flow is integral: all of them are tried."""
    rng = random.Random(seed)
    demand = {j: rng.randint(1, 3) for j in "xyz"}
    need = sum(demand.values())
    supply = {"a": rng.randint(1, need), "b": need}
    limit = rng.choice((2, 3))
    cost = {i: {j: rng.choice((1, 2.5, 4, 0.1)) for j in demand} for i in supply}
    plans = []
    for amounts in itertools.product(*(range(min(demand[j], limit) + 1) for j in demand)):
        from_a = dict(zip(demand, amounts, strict=True))  # the rest comes from b
        if sum(amounts) <= supply["a"] and all(demand[j] - from_a[j] <= limit for j in demand):
            plans.append(
                sum(
                    from_a[j] * exact.fraction(cost["a"][j]) + (demand[j] - from_a[j]) * exact.fraction(cost["b"][j])
                    for j in demand
                )
            )
    if plans:
        assert exact.transportation(supply, demand, cost, limit) == min(plans)
    else:
        with pytest.raises(DataError, match="can be met"):
            exact.transportation(supply, demand, cost, limit)


def test_transportation_takes_back_what_was_sent() -> None:
    """The second path has to redirect the first: a greedy assignment would pay 1 + 100."""
    cost = {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 100}}
    assert exact.transportation({"a": 1, "b": 1}, {"x": 1, "y": 1}, cost) == 5


def test_wagner_and_whitin_1958() -> None:
    """The twelve-month example of Wagner and Whitin, Management Science 5 (1958): least cost 864."""
    demand = (69, 29, 36, 61, 61, 26, 34, 67, 45, 67, 79, 56)
    setup = (85, 102, 102, 101, 98, 114, 105, 86, 119, 110, 98, 114)
    assert exact.lot_sizing(demand, [sum(demand)] * 12, setup, 1) == 864


@pytest.mark.parametrize("seed", range(12))
def test_lot_sizing_equals_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    demand = [rng.randint(0, 3) for _ in range(4)]
    capacity = [rng.randint(1, 4) for _ in range(4)]
    setup, holding = [rng.randint(1, 9) for _ in range(4)], rng.choice((0.5, 1.1, 3))
    initial, storage = rng.randint(0, 2), rng.randint(1, 4)
    costs = []
    for plan in itertools.product(*(range(c + 1) for c in capacity)):
        stocks = list(itertools.accumulate((m - d for m, d in zip(plan, demand, strict=True)), initial=initial))[1:]
        if all(0 <= stock <= storage for stock in stocks):
            paid = sum(s for s, made in zip(setup, plan, strict=True) if made)
            costs.append(paid + exact.fraction(holding) * sum(stocks))
    if costs:
        assert exact.lot_sizing(demand, capacity, setup, holding, initial, storage) == min(costs)
    else:
        with pytest.raises(DataError, match="no production plan"):
            exact.lot_sizing(demand, capacity, setup, holding, initial, storage)


def test_lot_sizing_on_a_fractional_grid() -> None:
    """20 hours at 1.5 hours per unit make 13 1/3 units; the rest of the second demand is made before."""
    assert exact.lot_sizing([5, 15], [Fraction(40, 3)] * 2, [10, 10], 3) == 20 + 3 * Fraction(5, 3)
