"""Transportation: ship goods from sources with limited stock to destinations with demand, at least cost.

Quantities are continuous; every route carries at most the route limit (Hitchcock's problem with arc capacities).
"""

from collections.abc import Iterator
from random import Random

import pyomo.environ as pyo

from trex.data import exact
from trex.data.matrix import Matrix
from trex.data.problem import Field, IndexSet, Problem, Story, generator, listing, nice, sentence
from trex.solver.model import Model

SIZES = {1: ((2, 3), (3, 4)), 2: ((3, 4), (5, 8)), 3: ((6, 8), (15, 18))}  # sources, destinations
CITIES = (  # noqa: SIM905
    "Aarhus Antwerp Basel Bergen Bilbao Bologna Bordeaux Bremen Bristol Brno Cardiff Cork Dijon Dresden Dublin Essen "
    "Faro Gdansk Geneva Genoa Ghent Glasgow Graz Hamburg Helsinki Innsbruck Kiel Krakow Leeds Leipzig Lille Linz "
    "Lisbon Lyon Malaga Malmo Metz Milan Munich Nantes Naples Nice Odense Oslo Ostrava Padua Parma Pisa Porto Poznan "
    "Prague Rennes Riga Rouen Seville Split Tampere Tartu Turin Turku Utrecht Valencia Verona Vienna Vigo Zurich"
).split()
THEMES = (
    ("cement", "tonne", "cement works", "cement works", "building site", "building sites"),
    ("grain", "tonne", "silo", "silos", "mill", "mills"),
    ("raw milk", "kilolitre", "collecting dairy", "collecting dairies", "bottling plant", "bottling plants"),
    ("heating oil", "kilolitre", "tank farm", "tank farms", "depot", "depots"),
    ("sawn timber", "cubic metre", "sawmill", "sawmills", "furniture factory", "furniture factories"),
    ("road salt", "tonne", "salt mine", "salt mines", "road authority", "road authorities"),
    ("animal feed", "tonne", "feed mill", "feed mills", "farm cooperative", "farm cooperatives"),
    ("scrap steel", "tonne", "scrap yard", "scrap yards", "foundry", "foundries"),
)
MONEY = ("euros", "dollars", "francs", "pounds")


def sample(seed: int, difficulty: int) -> Problem:
    """Feasible by construction: stocks, demands and the route limit come from a random shipping plan.

    Redrawn until serving every destination from its cheapest source would overdraw a stock.
    """
    rng = generator("transportation", seed, difficulty)
    goods, unit, source, sources, destination, destinations = rng.choice(THEMES)
    words = {
        "goods": goods, "unit": unit, "source": source, "sources": sources, "destination": destination,
        "destinations": destinations, "money": rng.choice(MONEY),
    }  # fmt: skip
    while True:
        data = _draw(rng, difficulty)
        load = dict.fromkeys(data["sources"], 0)
        for j in data["destinations"]:
            load[min(data["sources"], key=lambda i: data["cost"][i][j])] += data["demand"][j]
        if any(load[i] > data["supply"][i] for i in load):
            return Problem("transportation", seed, difficulty, data, words)


def build(data: dict) -> pyo.ConcreteModel:
    """Least-cost shipping as a linear program."""
    sources, destinations = data["sources"], data["destinations"]
    m = pyo.ConcreteModel()
    m.ship = pyo.Var(sources, destinations, domain=pyo.NonNegativeReals)
    m.objective = pyo.Objective(
        expr=sum(data["cost"][i][j] * m.ship[i, j] for i in sources for j in destinations), sense=pyo.minimize
    )
    m.supply = pyo.Constraint(sources, rule=lambda m, i: sum(m.ship[i, j] for j in destinations) <= data["supply"][i])
    m.demand = pyo.Constraint(destinations, rule=lambda m, j: sum(m.ship[i, j] for i in sources) >= data["demand"][j])
    m.route = pyo.Constraint(sources, destinations, rule=lambda m, i, j: m.ship[i, j] <= data["route_limit"])
    return m


def second(data: dict) -> Model:
    """The dual program: prices of stock, demand and routes. Equal optimum by strong duality, a bound by weak."""
    matrix = Matrix("max")
    for i in data["sources"]:
        matrix.column(f"stock_price[{i}]", -data["supply"][i])
    for j in data["destinations"]:
        matrix.column(f"demand_price[{j}]", data["demand"][j])
    for i in data["sources"]:
        for j in data["destinations"]:
            route = matrix.column(f"route_price[{i},{j}]", -data["route_limit"])
            terms = {f"demand_price[{j}]": 1.0, f"stock_price[{i}]": -1.0, route: -1.0}
            matrix.row(f"route[{i},{j}]", terms, upper=data["cost"][i][j])
    return matrix.model()


def optimum(data: dict) -> float | None:
    """By successive shortest paths, in exact arithmetic."""
    return float(exact.transportation(data["supply"], data["demand"], data["cost"], data["route_limit"]))


def variables(data: dict) -> Iterator[tuple[str, str]]:
    """One quantity per route."""
    yield from ((f"ship[{i},{j}]", "nonnegative") for i in data["sources"] for j in data["destinations"])


def objective(data: dict, values: dict[str, float]) -> float:
    """Total shipping cost."""
    return sum(
        data["cost"][i][j] * values.get(f"ship[{i},{j}]", 0.0) for i in data["sources"] for j in data["destinations"]
    )


def slacks(data: dict, values: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Stocks, demands and the route limit."""
    for i in data["sources"]:
        sent = sum(values.get(f"ship[{i},{j}]", 0.0) for j in data["destinations"])
        yield f"supply[{i}]", data["supply"][i] - sent
    for j in data["destinations"]:
        received = sum(values.get(f"ship[{i},{j}]", 0.0) for i in data["sources"])
        yield f"demand[{j}]", received - data["demand"][j]
    for i in data["sources"]:
        for j in data["destinations"]:
            yield f"route[{i},{j}]", data["route_limit"] - values.get(f"ship[{i},{j}]", 0.0)


def story(problem: Problem) -> Story:
    """Shipping told in one of eight trades."""
    d, w = problem.data, problem.words
    pick = generator("transportation", problem.seed, problem.difficulty, "story").choice
    goods, unit, units, money = w["goods"], w["unit"], w["unit"] + "s", w["money"]
    stock = listing([f"{d['supply'][i]} {units} in {i}" for i in d["sources"]])
    need = listing([f"{d['demand'][j]} {units} in {j}" for j in d["destinations"]])
    supply_fact = pick((
        f"The {w['sources']} have limited stock: {stock}.",
        f"Stock on hand at the {w['sources']} is {stock}.",
        f"What the {w['sources']} can send out is limited to {stock}.",
    ))  # fmt: skip
    demand_fact = pick((
        f"The {w['destinations']} have ordered {need}.",
        f"Demand at the {w['destinations']} is {need}.",
        f"The {w['destinations']} need {need}.",
    ))  # fmt: skip
    head = pick((
        f"Moving one {unit} from {{}} costs", f"Carriage of one {unit} out of {{}} is charged at",
        f"Sending a {unit} from {{}} costs",
    ))  # fmt: skip
    freight = tuple(
        head.format(i) + " " + listing([f"{d['cost'][i][j]} {money} to {j}" for j in d["destinations"]]) + "."
        for i in d["sources"]
    )
    route_fact = pick((
        f"No route from a {w['source']} to a {w['destination']} can carry more than {d['route_limit']} {units}.",
        f"Vehicles limit each route to {d['route_limit']} {units}.",
    ))  # fmt: skip
    setting = pick((
        f"A company delivers {goods} from its {w['sources']} to several {w['destinations']}.",
        f"{sentence(goods)} has to be brought from {w['sources']} to {w['destinations']}.",
        f"A haulier plans the deliveries of {goods} for the coming week, from {w['sources']} to {w['destinations']}.",
        f"A trader in {goods} assigns the stock of its {w['sources']} to the orders of {w['destinations']}.",
    ))  # fmt: skip
    rules = (
        f"A {w['source']} cannot send out more than its stock.",
        f"Every {w['destination']} must receive at least what it needs, from any number of {w['sources']}.",
        "The quantity on each route is limited, and the limit is the same for all routes.",
        f"The freight is proportional to the quantity and is given in {money} per {unit}.",
    )
    question = pick((
        f"How many {units} should go over each route so that the total freight cost is as small as possible?",
        "Find the shipping plan of least total cost.",
        f"Determine the quantities to ship, in {units}, that minimise the total freight cost in {money}.",
    ))  # fmt: skip
    return Story(
        setting, (supply_fact, demand_fact, *freight, route_fact), rules,
        f"Quantities are measured in {units}, cannot be negative and need not be whole numbers.", question,
        (
            IndexSet("sources", w["source"], w["sources"]),
            IndexSet("destinations", w["destination"], w["destinations"]),
        ),
        (
            Field("supply", ("sources",), "stock", units),
            Field("demand", ("destinations",), "demand", units),
            Field("cost", ("sources", "destinations"), "freight cost", f"{money} per {unit}"),
            Field("route_limit", (), "largest quantity on one route", units),
        ),
    )  # fmt: skip


def formulation(problem: Problem) -> str:
    """Sets, parameters, variables, objective and constraints."""
    w = problem.words
    unit, money = w["unit"], w["money"]
    return rf"""Sets:
- $I$: the {w["sources"]}
- $J$: the {w["destinations"]}

Parameters:
- $s_i$: stock ({unit}s)
- $d_j$: demand ({unit}s)
- $c_{{ij}}$: freight cost ({money} per {unit})
- $u$: largest quantity on one route ({unit}s)

Variables:
- $x_{{ij}} \ge 0$, continuous: {unit}s of {w["goods"]} shipped from $i$ to $j$

$$
\begin{{aligned}}
\min\ & \sum_{{i \in I}} \sum_{{j \in J}} c_{{ij}} x_{{ij}} \\
\text{{s.t.}}\ & \sum_{{j \in J}} x_{{ij}} \le s_i && i \in I && \text{{(stock)}} \\
& \sum_{{i \in I}} x_{{ij}} \ge d_j && j \in J && \text{{(demand)}} \\
& 0 \le x_{{ij}} \le u && i \in I,\ j \in J && \text{{(route limit)}}
\end{{aligned}}
$$

This is a linear program."""


def answer(problem: Problem, objective: float, values: dict[str, float]) -> str:
    """Total cost and the routes used."""
    d, w = problem.data, problem.words
    routes = [
        f"- {i} to {j}: {nice(values[f'ship[{i},{j}]'])} {w['unit']}s"
        for i in d["sources"]
        for j in d["destinations"]
        if values.get(f"ship[{i},{j}]", 0.0)
    ]
    return "\n".join([f"The least total freight cost is {nice(objective)} {w['money']}. Routes used:", *routes])


def _draw(rng: Random, difficulty: int) -> dict:
    rows, columns = (rng.randint(*bounds) for bounds in SIZES[difficulty])
    cities = rng.sample(CITIES, rows + columns)
    sources, destinations = cities[:rows], cities[rows:]
    step = rng.choice((1, 0.5))
    cost = {i: {j: nice(rng.randint(8, 60) * step) for j in destinations} for i in sources}
    demand = {j: 5 * rng.randint(4, 24) for j in destinations}
    plan = {(i, j): 0 for i in sources for j in destinations}
    for j in destinations:
        first, other = rng.sample(sources, 2)
        share = 5 * round(demand[j] / 5 * rng.choice((0.5, 0.6, 0.75, 1)))
        plan[first, j] += share
        plan[other, j] += demand[j] - share
    supply = {i: sum(plan[i, j] for j in destinations) + 5 * rng.randint(1, 4) for i in sources}
    return {
        "sources": sources, "destinations": destinations, "supply": supply, "demand": demand, "cost": cost,
        "route_limit": max(plan.values()),
    }  # fmt: skip
