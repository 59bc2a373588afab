"""Every family: its instances, its formulations against each other, and its contract."""

import itertools
import json
import math
from fractions import Fraction

import pyomo.environ as pyo
import pytest

from trex.data import contract, exact, families
from trex.data.matrix import Matrix
from trex.data.problem import DIFFICULTIES, DataError, Problem
from trex.data.rendering import data_numbers
from trex.solver.solve import solve, solve_pyomo

NAMES = families.names()
GRID = [(name, difficulty, seed) for name in NAMES for difficulty in DIFFICULTIES for seed in range(4)]


@pytest.fixture(scope="module", params=GRID, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def solved(request: pytest.FixtureRequest) -> tuple[Problem, float, dict[str, float]]:
    """An instance with the optimum and the values that HiGHS finds from the Pyomo model."""
    name, difficulty, seed = request.param
    problem = families.get(name).sample(seed, difficulty)
    solution = solve_pyomo(families.get(name).build(problem.data))
    assert solution.status == "optimal", solution.message
    assert solution.objective is not None
    return problem, solution.objective, solution.values


def test_the_three_families_are_found() -> None:
    assert NAMES == ("knapsack", "production_planning", "transportation")
    with pytest.raises(DataError, match=r"'diet'; accepted: knapsack"):
        families.get("diet")


def test_a_module_that_lacks_a_part_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("trex.data.families.knapsack.second")
    with pytest.raises(DataError, match="lacks second"):
        families.get("knapsack")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_samples_repeat_are_plain_and_have_short_numbers(name: str, difficulty: int) -> None:
    family = families.get(name)
    first = [family.sample(seed, difficulty) for seed in range(20)]
    assert first == [family.sample(seed, difficulty) for seed in range(20)]
    assert len({json.dumps(problem.data) for problem in first}) == 20
    for problem in first:
        assert json.loads(json.dumps(problem.data)) == problem.data
        assert all(len(f"{number:g}") <= 5 and number >= 0 for number in data_numbers(problem.data))


@pytest.mark.parametrize("name", NAMES)
def test_difficulty_scales_the_number_of_variables(name: str) -> None:
    family = families.get(name)
    sizes = {
        d: sorted(len(list(family.variables(family.sample(seed, d).data))) for seed in range(30)) for d in DIFFICULTIES
    }
    assert sizes[1][-1] < sizes[2][0] and sizes[2][-1] < sizes[3][0]
    assert sizes[3][15] >= 90


@pytest.mark.parametrize(("seed", "difficulty"), [(-1, 1), (0, 0), (0, 4), (1.5, 1), (True, 1)])
def test_bad_seed_or_difficulty_is_named(seed: int, difficulty: int) -> None:
    with pytest.raises(DataError, match="accepted"):
        families.get("knapsack").sample(seed, difficulty)


def test_variables_are_those_of_the_model(solved: tuple[Problem, float, dict[str, float]]) -> None:
    problem = solved[0]
    model = families.get(problem.family).build(problem.data)
    found = {v.name: v.domain.name for v in model.component_data_objects(pyo.Var)}
    spoken = {"nonnegative": "NonNegativeReals", "binary": "Binary"}
    assert found == {name: spoken[domain] for name, domain in families.get(problem.family).variables(problem.data)}


def test_constraints_are_those_of_the_model(solved: tuple[Problem, float, dict[str, float]]) -> None:
    """The plain-Python slacks of a point are the slacks that Pyomo computes, constraint by constraint."""
    problem, _, values = solved
    family = families.get(problem.family)
    model = family.build(problem.data)
    point = {name: 0.25 + 0.5 * value for name, value in values.items()}  # neither optimal nor feasible
    for variable in model.component_data_objects(pyo.Var):
        variable.set_value(point[variable.name], skip_validation=True)
    expected = {}
    for row in model.component_data_objects(pyo.Constraint):
        lower, upper = row.lslack(), row.uslack()
        expected[row.name] = -abs(lower) if row.equality else min(lower, upper)
    slacks = dict(family.slacks(problem.data, point))
    assert slacks == pytest.approx(expected, abs=1e-9)
    assert family.objective(problem.data, point) == pytest.approx(pyo.value(model.objective))


def test_optimum_is_not_trivial(solved: tuple[Problem, float, dict[str, float]]) -> None:
    problem, objective, values = solved
    assert objective > 1
    if problem.family == "knapsack":
        chosen = [name for name, value in values.items() if value > 0.5]
        assert 0 < len(chosen) < len(values)
        slacks = [slack for _, slack in families.get("knapsack").slacks(problem.data, values)]
        assert min(slacks) < max(max(use.values()) for use in problem.data["use"].values())


@pytest.mark.parametrize(
    ("name", "limits"),
    [("production_planning", {"capacity", "storage"}), ("transportation", {"supply", "route"})],
)
def test_limits_bind(name: str, limits: set[str]) -> None:
    """In at least nine of ten instances some limit on amounts has no slack at the optimum."""
    family = families.get(name)
    binding = 0
    for difficulty, seed in itertools.product((1, 2), range(20)):
        problem = family.sample(seed, difficulty)
        values = solve_pyomo(family.build(problem.data)).values
        slacks = family.slacks(problem.data, {name: round(value, 6) for name, value in values.items()})
        binding += any(row.split("[")[0] in limits and abs(slack) <= contract.TOLERANCE for row, slack in slacks)
    assert binding >= 36


def test_independent_ways_find_the_same_optimum(solved: tuple[Problem, float, dict[str, float]]) -> None:
    problem, objective, _ = solved
    ways = contract.confirm(problem, objective)
    alone = problem.family == "production_planning" and len(problem.data["products"]) > 1
    assert ways == (("second formulation",) if alone else ("second formulation", "combinatorial algorithm"))
    with pytest.raises(DataError, match="second formulation gives"):
        contract.confirm(problem, objective * 1.001)


@pytest.mark.parametrize("seed", range(6))
def test_dual_prices_prove_the_transportation_optimum(seed: int) -> None:
    """In exact fractions: dual feasible prices worth as much as the plan costs leave no room for a better one."""
    family = families.get("transportation")
    data = family.sample(seed, 2).data
    plan = solve_pyomo(family.build(data)).values
    prices = {k: Fraction(round(2 * v), 2) for k, v in solve(family.second(data)).values.items()}  # costs are halves
    assert all(price >= 0 for price in prices.values())
    for i in data["sources"]:
        for j in data["destinations"]:
            reduced = prices[f"demand_price[{j}]"] - prices[f"stock_price[{i}]"] - prices[f"route_price[{i},{j}]"]
            assert reduced <= Fraction(str(data["cost"][i][j]))
    value = sum(data["demand"][j] * prices[f"demand_price[{j}]"] for j in data["destinations"])
    value -= sum(data["supply"][i] * prices[f"stock_price[{i}]"] for i in data["sources"])
    value -= data["route_limit"] * sum(price for name, price in prices.items() if name.startswith("route_price"))
    shipped = {name: Fraction(round(amount)) for name, amount in plan.items()}
    assert all(abs(shipped[name] - Fraction(amount)) < Fraction(1, 10**6) for name, amount in plan.items())
    cost = sum(
        Fraction(str(data["cost"][i][j])) * shipped[f"ship[{i},{j}]"]
        for i in data["sources"]
        for j in data["destinations"]
    )
    assert contract.check(Problem("transportation", seed, 2, data, {}), {k: float(v) for k, v in shipped.items()}) == (
        contract.Check(float(cost), ())
    )
    assert cost == value


@pytest.mark.parametrize("seed", range(4))
def test_several_products_by_enumerating_setups(seed: int) -> None:
    """Setups fixed and the warehouse large, hours are shipped from periods to demands: a transportation problem."""
    family = families.get("production_planning")
    problem = next(p for p in (family.sample(s, 2) for s in itertools.count(50 * seed)) if _small(p))
    data = {**problem.data, "storage": 10_000}
    products, periods = data["products"], data["periods"]
    hours = {p: exact.fraction(data["hours"][p]) for p in products}
    need = {}  # hours still to be worked for each demand; the stock at the start serves the first demands
    held = Fraction(0)  # holding cost of the stock at the start
    for p in products:
        stock = Fraction(data["initial_stock"][p])
        for k, t in enumerate(periods):
            from_stock = min(stock, Fraction(data["demand"][p][t]))
            stock -= from_stock
            held += exact.fraction(data["holding_cost"][p]) * k * from_stock
            need[p, k] = (data["demand"][p][t] - from_stock) * hours[p]
    best = None
    never = Fraction(10**6)
    for setups in itertools.product((0, 1), repeat=len(products) * len(periods)):
        on = dict(zip(itertools.product(products, range(len(periods))), setups, strict=True))
        cost = {
            t: {
                (p, k): exact.fraction(data["holding_cost"][p]) * (k - t) / hours[p] if t <= k and on[p, t] else never
                for p, k in need
            }
            for t in range(len(periods))
        }
        supply = {t: data["capacity"][name] for t, name in enumerate(periods)}
        total = exact.transportation(supply, need, cost)
        total += held + sum(data["setup_cost"][p] * switched for (p, _), switched in on.items())
        best = total if best is None else min(best, total)
    solution = solve_pyomo(family.build(data))
    assert solution.objective == pytest.approx(float(best), rel=1e-9)


def _small(problem: Problem) -> bool:
    return len(problem.data["products"]) == 2 and len(problem.data["periods"]) == 4


@pytest.mark.parametrize("name", NAMES)
def test_every_constraint_family_matters(name: str) -> None:
    """Dropped from the model, each changes the optimum of some instance."""
    family = families.get(name)
    kinds = {row.getname() for row in family.build(family.sample(0, 2).data).component_objects(pyo.Constraint)}
    decisive = set()
    for seed in range(8):
        data = family.sample(seed, 2).data
        right = solve_pyomo(family.build(data)).objective
        for kind in kinds - decisive:
            model = family.build(data)
            getattr(model, kind).deactivate()
            solution = solve_pyomo(model)
            if solution.objective is None or not math.isclose(solution.objective, right or 0.0, rel_tol=1e-6):
                decisive.add(kind)
    assert decisive == kinds


def test_a_row_over_an_unknown_variable_is_refused() -> None:
    matrix = Matrix("min")
    matrix.row("limit", {matrix.column("x", 1.0): 1.0, "y": 2.0}, upper=3.0)
    with pytest.raises(DataError, match="row 'limit' is over 'y'"):
        matrix.model()


def test_the_contract_refuses_what_is_wrong(solved: tuple[Problem, float, dict[str, float]]) -> None:
    problem, objective, values = solved
    assert contract.require(problem, objective, values).violated == ()
    with pytest.raises(DataError, match="is worth"):
        contract.require(problem, objective + 1, values)
    domains = dict(families.get(problem.family).variables(problem.data))
    largest = max(values, key=lambda name: values[name] if domains[name] == "nonnegative" else 0.0)
    if domains[largest] == "nonnegative":
        with pytest.raises(DataError, match="breaks"):
            contract.require(problem, objective, {**values, largest: values[largest] - 1})
        with pytest.raises(DataError, match="breaks"):
            contract.require(problem, objective, {**values, largest: -1.0})
    for name, domain in domains.items():
        if domain == "binary":
            assert name in contract.check(problem, {**values, name: 0.5}).violated
    everything = dict.fromkeys(domains, 1e5) | {n: 1.0 for n, domain in domains.items() if domain == "binary"}
    assert contract.check(problem, everything).violated
    with pytest.raises(DataError, match="no variable 'lost'"):
        contract.check(problem, {"lost": 1.0})
    with pytest.raises(DataError, match="finite"):
        contract.check(problem, {next(iter(domains)): math.nan})
