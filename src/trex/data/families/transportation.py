"""Transportation: ship goods from sources with limited stock to destinations with demand, at least cost.

Quantities are continuous; every route carries at most the route limit (Hitchcock's problem with arc capacities).
"""

import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact
from trex.data.contract import CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import PLACES, Scenario

SIZES = {
    1: {"sources": (2, 3), "destinations": (3, 4)},
    2: {"sources": (3, 4), "destinations": (5, 8)},
    3: {"sources": (6, 8), "destinations": (15, 18)},
    4: {"sources": (12, 14), "destinations": (22, 26)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: stocks, demands and the route limit come from a random shipping plan.

    Redrawn until serving every destination from its cheapest source would overdraw a stock.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        sources, destinations = sets["sources"], sets["destinations"]
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
        load = dict.fromkeys(sources, 0)
        for j in destinations:
            load[min(sources, key=lambda i: cost[i][j])] += demand[j]
        if any(load[i] > supply[i] for i in sources):
            return {**sets, "supply": supply, "demand": demand, "cost": cost, "route_limit": max(plan.values())}


def model(data: dict) -> pyo.ConcreteModel:
    """Least-cost shipping as a linear program."""
    sources, destinations = data["sources"], data["destinations"]
    m = pyo.ConcreteModel()
    m.ship = pyo.Var(sources, destinations, domain=pyo.NonNegativeReals)
    m.freight = pyo.Expression(expr=sum(data["cost"][i][j] * m.ship[i, j] for i in sources for j in destinations))
    m.objective = pyo.Objective(expr=m.freight, sense=pyo.minimize)
    m.supply = pyo.Constraint(sources, rule=lambda m, i: sum(m.ship[i, j] for j in destinations) <= data["supply"][i])
    m.demand = pyo.Constraint(destinations, rule=lambda m, j: sum(m.ship[i, j] for i in sources) >= data["demand"][j])
    m.route = pyo.Constraint(sources, destinations, rule=lambda m, i, j: m.ship[i, j] <= data["route_limit"])
    return m


def reformulated(data: dict) -> gp.Model:
    """The dual program: prices of stock, demand and routes. Equal optimum by strong duality."""
    m = gp.Model("transportation_dual")
    stock_price = m.addVars(data["sources"], name="stock_price")
    demand_price = m.addVars(data["destinations"], name="demand_price")
    route_price = m.addVars(data["sources"], data["destinations"], name="route_price")
    m.setObjective(
        gp.quicksum(data["demand"][j] * demand_price[j] for j in data["destinations"])
        - gp.quicksum(data["supply"][i] * stock_price[i] for i in data["sources"])
        - data["route_limit"] * route_price.sum(),
        gp.GRB.MAXIMIZE,
    )
    for i in data["sources"]:
        for j in data["destinations"]:
            m.addConstr(demand_price[j] - stock_price[i] - route_price[i, j] <= data["cost"][i][j], f"route[{i},{j}]")
    return m


def optimum(data: dict) -> float | None:
    """By successive shortest paths, in exact arithmetic."""
    return float(exact.transportation(data["supply"], data["demand"], data["cost"], data["route_limit"]))


def _scenario(domain: str, goods: str, unit: str, source: str, sources: str, destination: str, destinations: str,
              money: str) -> Scenario:  # fmt: skip
    words = {
        "goods": goods, "unit": unit, "units": unit + "s", "source": source, "sources": sources,
        "destination": destination, "destinations": destinations, "money": money,
    }  # fmt: skip
    return Scenario(domain, words, {"sources": PLACES, "destinations": PLACES})


SCENARIOS = (
    _scenario("construction", "cement", "tonne", "cement works", "cement works", "building site",
              "building sites", "euros"),
    _scenario("agriculture", "grain", "tonne", "silo", "silos", "mill", "mills", "dollars"),
    _scenario("food", "raw milk", "kilolitre", "collecting dairy", "collecting dairies", "bottling plant",
              "bottling plants", "francs"),
    _scenario("energy", "heating oil", "kilolitre", "tank farm", "tank farms", "depot", "depots", "pounds"),
    _scenario("furniture", "sawn timber", "cubic metre", "sawmill", "sawmills", "furniture factory",
              "furniture factories", "euros"),
    _scenario("public works", "road salt", "tonne", "salt mine", "salt mines", "road authority",
              "road authorities", "dollars"),
    _scenario("retail", "bottled water", "pallet", "warehouse", "warehouses", "supermarket", "supermarkets", "pounds"),
    _scenario("metals", "scrap steel", "tonne", "scrap yard", "scrap yards", "foundry", "foundries", "euros"),
)  # fmt: skip

FAMILY = Family(
    title="Transportation with route limits",
    area="transportation",
    source="F. L. Hitchcock, The distribution of a product from several sources to numerous localities, 1941",
    sizes=SIZES,
    sets=(
        IndexSet("sources", "{source}", "{sources}", "i", "I"),
        IndexSet("destinations", "{destination}", "{destinations}", "j", "J"),
    ),
    fields=(
        Field("supply", ("sources",), "stock", "{units}", "s_i", (
            "the {source} in {0} has a stock of {value} {units}", "{0} can send out at most {value} {units} of {goods}",
            "{value} {units} are on hand at the {source} in {0}",
        )),
        Field("demand", ("destinations",), "demand", "{units}", "d_j", (
            "the {destination} in {0} has ordered {value} {units}", "{0} needs {value} {units}",
            "demand in {0} is {value} {units} of {goods}",
        )),
        Field("cost", ("sources", "destinations"), "freight cost", "{money} per {unit}", "c_{ij}", (
            ("moving one {unit} from {0} costs", "{value} {money} to {1}"),
            ("carriage of one {unit} out of {0} is charged at", "{value} {money} to {1}"),
            ("from {0}, the freight in {money} per {unit} is", "{value} to {1}"),
        )),
        Field("route_limit", (), "largest quantity on one route", "{units}", "u", (
            "no route from a {source} to a {destination} can carry more than {value} {units}",
            "vehicles limit each route to {value} {units}",
        )),
    ),
    contract=Contract(
        variables=(Variables("ship", CONTINUOUS, "x_{ij}", "{units} of {goods} shipped from $i$ to $j$",
                             "{0} to {1}: {value} {units}"),),
        sense="minimize",
        goal=("total freight cost", "{money}"),
        objective=(Term("freight", r"\sum_{i \in I} \sum_{j \in J} c_{ij} x_{ij}", (
            "The freight is proportional to the quantity and is given in {money} per {unit}.",
            "Every {unit} moved is charged at the rate of its route, in {money}.",
        )),),
        constraints=(
            Clause("supply", r"\sum_{j \in J} x_{ij} \le s_i", r"i \in I", (
                "A {source} cannot send out more than its stock.",
                "What leaves a {source}, to all {destinations} together, is limited by its stock.",
            )),
            Clause("demand", r"\sum_{i \in I} x_{ij} \ge d_j", r"j \in J", (
                "Every {destination} must receive at least what it needs, from any number of {sources}.",
                "The demand of each {destination} has to be met in full; several {sources} may share it.",
            )),
            Clause("route", r"x_{ij} \le u", r"i \in I,\ j \in J", (
                "The quantity on each route is limited, and the limit is the same for all routes.",
                "The same upper limit holds for the quantity on every single route.",
            )),
        ),
        integrality=(
            "Quantities are measured in {units}, cannot be negative and need not be whole numbers.",
            "Any fraction of a {unit} may be shipped, but no negative quantity.",
        ),
        fixed=("which routes exist", "that demand must be met in full",
               "that the limit holds for each route by itself"),
        mistakes=(
            Mistake("demand as an upper limit", '>= data["demand"][j]', '<= data["demand"][j]'),
            Mistake("stock has to be used up", '<= data["supply"][i]', '== data["supply"][i]'),
            Mistake("the route limit for all routes of a source together",
                    "m.route = pyo.Constraint(sources, destinations, rule=lambda m, i, j: m.ship[i, j] <=",
                    "m.route = pyo.Constraint(sources, rule=lambda m, i: sum(m.ship[i, j] for j in destinations) <="),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A company delivers {goods} from its {sources} to several {destinations}.",
        "{goods} has to be brought from {sources} to {destinations}.",
        "A haulier plans the deliveries of {goods} for the coming week, from {sources} to {destinations}.",
        "A trader in {goods} assigns the stock of its {sources} to the orders of {destinations}.",
    ),
    questions=(
        "How many {units} should go over each route so that the total freight cost is as small as possible?",
        "Find the shipping plan of least total cost.",
        "Determine the quantities to ship, in {units}, that minimise the total freight cost in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the dual linear program",
    optimum=optimum,
)  # fmt: skip
