"""Vehicle routing: equal vehicles, each on one round from the depot, serve all customers at least travel cost.

Every customer is served by one vehicle, in full. The load delivered before each customer forbids round trips that miss
the depot and limits what a vehicle carries.
"""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_routing
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABEL, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import PLACES, Scenario

SIZES = {1: {"stops": (4, 4)}, 2: {"stops": (5, 6)}, 3: {"stops": (8, 8)}, 4: {"stops": (9, 9)}}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: as many vehicles as a first-fit plan of the demands, largest first, needs.

    The depot is in the middle of the customers; the cost depends on the direction.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    depot, *customers = sets["stops"]
    place = {k: (rng.uniform(0, 30), rng.uniform(0, 30)) for k in customers} | {depot: (15.0, 15.0)}
    cost = {
        i: {j: 3 + round(math.dist(place[i], place[j])) + rng.randint(0, 20) for j in place if j != i}
        for i in sets["stops"]
    }
    demand = {j: rng.randint(3, 20) for j in customers}
    total, trips = sum(demand.values()), max(2, round(len(customers) / 3))
    capacity = max(math.ceil(total / trips * rng.uniform(1.02, 1.15)), *demand.values())
    free: list[int] = []  # room left in each vehicle
    for need in sorted(demand.values(), reverse=True):
        k = next((k for k, room in enumerate(free) if room >= need), None)
        if k is None:
            free.append(capacity - need)
        else:
            free[k] -= need
    return {**sets, "depot": depot, "demand": demand, "cost": cost, "capacity": capacity, "vehicles": len(free)}


def model(data: dict) -> pyo.ConcreteModel:
    """Which stop follows which, with the load delivered before each customer."""
    stops, depot, demand, room = data["stops"], data["depot"], data["demand"], data["capacity"]
    customers = [j for j in stops if j != depot]
    legs = [(i, j) for i in stops for j in stops if i != j]
    m = pyo.ConcreteModel()
    m.go = pyo.Var(legs, domain=pyo.Binary)
    m.delivered = pyo.Var(customers, domain=pyo.NonNegativeReals)
    m.travel = pyo.Expression(expr=sum(data["cost"][i][j] * m.go[i, j] for i, j in legs))
    m.objective = pyo.Objective(expr=m.travel, sense=pyo.minimize)
    m.leave = pyo.Constraint(customers, rule=lambda m, i: sum(m.go[i, j] for j in stops if j != i) == 1)
    m.arrive = pyo.Constraint(customers, rule=lambda m, j: sum(m.go[i, j] for i in stops if i != j) == 1)
    m.fleet = pyo.Constraint(expr=sum(m.go[depot, j] for j in customers) == data["vehicles"])
    m.from_depot = pyo.Constraint(
        [(i, j) for i, j in legs if i != depot and j != depot],
        rule=lambda m, i, j: (
            m.delivered[i] + demand[i] - m.delivered[j]
            <= room * (1 - m.go[i, j]) - (room - demand[i] - demand[j]) * m.go[j, i]
        ),
    )
    m.capacity = pyo.Constraint(
        customers, rule=lambda m, j: m.delivered[j] <= (room - demand[j]) * (1 - m.go[depot, j])
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """Goods on board as a flow from the depot to the customers (Gavish and Graves, 1978)."""
    depot, need, most = data["depot"], data["demand"], data["capacity"]
    price = {(a, b): value for a, row in data["cost"].items() for b, value in row.items()}
    m = gp.Model("goods_on_board")
    drive = m.addVars(price, vtype=gp.GRB.BINARY, name="drive")
    board = m.addVars(price, name="board")
    for customer, amount in need.items():
        m.addConstr(drive.sum(customer, "*") == 1, f"out[{customer}]")
        m.addConstr(drive.sum("*", customer) == 1, f"in[{customer}]")
        m.addConstr(board.sum("*", customer) - board.sum(customer, "*") == amount, f"drop[{customer}]")
    for a, b in price:
        m.addConstr(board[a, b] <= (0 if b == depot else most - need.get(a, 0)) * drive[a, b], f"most[{a},{b}]")
        if b != depot:
            m.addConstr(board[a, b] >= need[b] * drive[a, b], f"least[{a},{b}]")
    m.addConstr(drive.sum("*", depot) == data["vehicles"], "fleet")
    m.setObjective(drive.prod(price), gp.GRB.MINIMIZE)
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over subsets of customers; None for more than six."""
    if len(data["demand"]) > 6:
        return None
    found = exact_routing.delivery(data["cost"], data["depot"], data["demand"], data["capacity"], data["vehicles"])
    return float(found)


def _scenario(domain: str, business: str, vehicle: str, goods: str, unit: str, customer: str, customers: str,
              money: str) -> Scenario:  # fmt: skip
    told = {
        "business": business, "vehicle": vehicle, "vehicles": vehicle + "s", "goods": goods, "unit": unit,
        "units": unit + "s", "customer": customer, "customers": customers, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"stops": PLACES})


SCENARIOS = (
    _scenario("drinks", "a brewery", "truck", "beer", "keg", "inn", "inns", "euros"),
    _scenario("furniture", "a furniture store", "van", "furniture", "parcel", "household", "households", "pounds"),
    _scenario("bakery", "a large bakery", "van", "bread", "crate", "shop", "shops", "francs"),
    _scenario("fuel", "a heating oil dealer", "tanker", "heating oil", "kilolitre", "building", "buildings", "euros"),
    _scenario("gases", "a dealer in technical gases", "van", "nitrogen", "cylinder", "laboratory", "laboratories",
              "dollars"),
    _scenario("pharmacy", "a wholesaler of medicines", "van", "medicines", "carton", "pharmacy", "pharmacies", "euros"),
    _scenario("garden centres", "a tree nursery", "truck", "potted trees", "rack", "garden centre", "garden centres",
              "dollars"),
)  # fmt: skip

FAMILY = Family(
    title="Capacitated vehicle routing",
    area="routing",
    source="P. Toth and D. Vigo (editors), The Vehicle Routing Problem, 2002",
    sizes=SIZES,
    sets=(IndexSet("stops", "stop", "stops, the depot and the {customers}", "i", "N"),),
    fields=(
        Field("depot", (), "depot", "", "o", (
            "the depot is in {value}", "all {vehicles} are stationed in {value}, where the depot is",
            "{business} has its depot in {value}",
        ), LABEL),
        Field("demand", ("stops",), "quantity to deliver, none to the depot", "{units}", "q_i", (
            "the {customer} in {0} has ordered {value} {units}", "{value} {units} of {goods} are to go to {0}",
            "{0} gets {value} {units}",
        )),
        Field("cost", ("stops", "stops"), "travel cost from the stop named first to the one named second", "{money}",
              "c_{ij}", (
            ("driving from {0} costs", "{value} {money} to {1}"),
            ("a drive that starts in {0} costs", "{value} {money} to {1}"),
            ("in {money}, the drive out of {0} costs", "{value} to {1}"),
        )),
        Field("capacity", (), "room in a {vehicle}", "{units}", "Q", (
            "each {vehicle} has room for {value} {units}", "one {vehicle} can carry {value} {units}",
            "no {vehicle} can be loaded with more than {value} {units}",
        )),
        Field("vehicles", (), "number of {vehicles}", "", "K", (
            "the number of {vehicles} is {value}", "there are {value} {vehicles}", "{value} {vehicles} are in service",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("go", BINARY, "x_{ij}", "1 if a {vehicle} drives from $i$ directly to $j$",
                      "drive from {0} to {1}"),
            Variables("delivered", CONTINUOUS, "l_i",
                      "{units} that the {vehicle} has delivered before it comes to {customer} $i$"),
        ),
        sense="minimize",
        goal=("total travel cost", "{money}"),
        objective=(Term("travel", r"\sum_{i \in N} \sum_{j \in N,\ j \ne i} c_{ij} x_{ij}", (
            "The travel cost is the sum over all drives, from and to the depot included; using a {vehicle} costs "
            "nothing else.",
            "All drives from stop to stop are paid for, those out of the depot and back as well; there are no other "
                "costs.",
        )),),
        constraints=(
            Clause("leave", r"\sum_{j \in N,\ j \ne i} x_{ij} = 1", r"i \in N \setminus \{o\}", (
                "The {vehicle} that comes to a {customer} drives on to one other stop.",
                "From each {customer}, exactly one drive leads on, to another {customer} or back to the depot.",
            )),
            Clause("arrive", r"\sum_{i \in N,\ i \ne j} x_{ij} = 1", r"j \in N \setminus \{o\}", (
                "Each {customer} is visited exactly once, by one {vehicle}, and gets all it has ordered.",
                "One single visit brings a {customer} its whole order.",
            )),
            Clause("fleet", r"\sum_{j \in N,\ j \ne o} x_{oj} = K", "", (
                "Each {vehicle} makes exactly one round, with at least one {customer} on it.",
                "There are as many rounds as {vehicles}: each {vehicle} makes one, and none is empty.",
            )),
            Clause("from_depot", r"l_i + q_i - l_j \le Q (1 - x_{ij}) - (Q - q_i - q_j) x_{ji}",
                   r"i, j \in N \setminus \{o\},\ i \ne j", (
                "Every round starts at the depot and ends there.",
                "All rounds lead from the depot through some {customers} back to the depot.",
            )),
            Clause("capacity", r"l_j \le (Q - q_j) (1 - x_{oj})", r"j \in N \setminus \{o\}", (
                "The orders on one round must fit into the {vehicle} together.",
                "What is delivered on one round cannot exceed the room in a {vehicle}.",
            )),
        ),
        integrality=(
            "Whether a drive from one stop to another is made is a yes-or-no decision; no order is split.",
            "Each drive from stop to stop is either made or not, and orders cannot be divided among {vehicles}.",
        ),
        fixed=("that each {customer} is visited once", "that each {vehicle} makes exactly one round",
               "that all {vehicles} have the same room", "that rounds start and end at the depot"),
        mistakes=(
            Mistake("the room in all vehicles together", "m.delivered[j] <= (room - demand[j]) * (1 - m.go[depot, j])",
                    "m.delivered[j] <= data[\"vehicles\"] * room - demand[j]"),
            Mistake("vehicles may stay at the depot", '== data["vehicles"]', '<= data["vehicles"]'),
            Mistake("the load counted in visits", "m.delivered[i] + demand[i] - m.delivered[j]",
                    "m.delivered[i] + 1 - m.delivered[j]"),
            Mistake("the drive back to the depot left out", "* m.go[i, j] for i, j in legs)",
                    "* m.go[i, j] for i, j in legs if j != depot)"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "Tomorrow's deliveries of {goods} to {customers} are planned by {business}.",
        "With equal {vehicles}, {business} delivers {goods} to {customers}.",
        "The rounds on which the {vehicles} of {business} bring {goods} to {customers} have to be planned.",
    ),
    questions=(
        "Which rounds serve all {customers} at the least total travel cost?",
        "Plan the rounds of the {vehicles} so that the total travel cost is as small as possible.",
        "Minimise the total travel cost of all rounds, in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the goods on board as a flow, instead of the load delivered so far",
    optimum=optimum,
)  # fmt: skip
