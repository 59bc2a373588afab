"""Supply chain design: which warehouses to open between plants and customers, and what to ship through them.

All goods pass through one warehouse. Quantities are continuous, openings yes-or-no.
"""

import itertools
import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_location
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import PLACES, Scenario

SIZES = {
    1: {"plants": (2, 2), "warehouses": (2, 2), "customers": (3, 4)},
    2: {"plants": (2, 3), "warehouses": (3, 4), "customers": (5, 6)},
    3: {"plants": (3, 4), "warehouses": (6, 6), "customers": (13, 14)},
    4: {"plants": (4, 4), "warehouses": (8, 8), "customers": (20, 22)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: plants can make, and all warehouses together can take, more than is demanded.

    No warehouse alone can take all demand. Costs of a unit grow with the distance in a plane.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    plants, warehouses, customers = sets["plants"], sets["warehouses"], sets["customers"]
    place = {k: (rng.uniform(0, 20), rng.uniform(0, 20)) for k in (*plants, *warehouses, *customers)}
    step = rng.choice((1, 0.5))

    def prices(here: list[str], there: list[str], factor: float) -> dict[str, dict[str, float]]:
        return {i: {j: nice(step * (2 + round(factor * math.dist(place[i], place[j])))) for j in there} for i in here}

    demand = {j: 5 * rng.randint(4, 24) for j in customers}
    total = sum(demand.values())
    supply = {i: 5 * math.ceil(total / len(plants) * rng.uniform(1.02, 1.3) / 5) for i in plants}
    wide = 1.3 if len(warehouses) == 2 else 2.0  # how many times the demand all warehouses together can take
    capacity = {
        i: min(5 * math.ceil(wide * total / len(warehouses) * rng.uniform(0.9, 1.2) / 5), total - 5) for i in warehouses
    }
    fixed = {i: 50 * max(1, round(capacity[i] * step * rng.uniform(2, 5) / 50)) for i in warehouses}
    return {
        **sets, "supply": supply, "fixed": fixed, "capacity": capacity, "demand": demand,
        "inbound_cost": prices(plants, warehouses, 0.6), "outbound_cost": prices(warehouses, customers, 1.0),
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Open warehouses and the quantities on both legs as a mixed-integer linear program."""
    plants, warehouses, customers = data["plants"], data["warehouses"], data["customers"]
    m = pyo.ConcreteModel()
    m.open = pyo.Var(warehouses, domain=pyo.Binary)
    m.inbound = pyo.Var(plants, warehouses, domain=pyo.NonNegativeReals)
    m.outbound = pyo.Var(warehouses, customers, domain=pyo.NonNegativeReals)
    m.fixed = pyo.Expression(expr=sum(data["fixed"][w] * m.open[w] for w in warehouses))
    m.first_leg = pyo.Expression(
        expr=sum(data["inbound_cost"][p][w] * m.inbound[p, w] for p in plants for w in warehouses)
    )
    m.second_leg = pyo.Expression(
        expr=sum(data["outbound_cost"][w][c] * m.outbound[w, c] for w in warehouses for c in customers)
    )
    m.objective = pyo.Objective(expr=m.fixed + m.first_leg + m.second_leg, sense=pyo.minimize)
    m.supply = pyo.Constraint(plants, rule=lambda m, p: sum(m.inbound[p, w] for w in warehouses) <= data["supply"][p])
    m.through = pyo.Constraint(
        warehouses,
        rule=lambda m, w: sum(m.inbound[p, w] for p in plants) == sum(m.outbound[w, c] for c in customers),
    )
    m.capacity = pyo.Constraint(
        warehouses,
        rule=lambda m, w: sum(m.outbound[w, c] for c in customers) <= data["capacity"][w] * m.open[w],
    )
    m.demand = pyo.Constraint(
        customers, rule=lambda m, c: sum(m.outbound[w, c] for w in warehouses) >= data["demand"][c]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """One quantity for each way from plant over warehouse to customer, bounded by opening and demand."""
    ways = list(itertools.product(data["plants"], data["warehouses"], data["customers"]))
    price = {(p, w, c): data["inbound_cost"][p][w] + data["outbound_cost"][w][c] for p, w, c in ways}
    m = gp.Model("whole_ways")
    use = m.addVars(data["warehouses"], vtype=gp.GRB.BINARY, name="use")
    move = m.addVars(ways, name="move")
    m.setObjective(move.prod(price) + use.prod(data["fixed"]), gp.GRB.MINIMIZE)
    for c, need in data["demand"].items():
        m.addConstr(move.sum("*", "*", c) == need, f"need[{c}]")
        for w in data["warehouses"]:
            m.addConstr(move.sum("*", w, c) <= min(need, data["capacity"][w]) * use[w], f"link[{w},{c}]")
    for p, most in data["supply"].items():
        m.addConstr(move.sum(p, "*", "*") <= most, f"make[{p}]")
    for w, room in data["capacity"].items():
        m.addConstr(move.sum("*", w, "*") <= room * use[w], f"room[{w}]")
    return m


def optimum(data: dict) -> float | None:
    """By cheapest flows for every set of open warehouses; None for more than four."""
    found = exact_location.chain(
        data["supply"], data["fixed"], data["capacity"], data["demand"], data["inbound_cost"], data["outbound_cost"],
        most_choices=16,
    )  # fmt: skip
    return None if found is None else float(found)


def _scenario(domain: str, business: str, goods: str, unit: str, plant: str, plants: str, warehouse: str,
              warehouses: str, customer: str, customers: str, money: str) -> Scenario:  # fmt: skip
    told = {
        "business": business, "goods": goods, "unit": unit, "units": unit + "s", "plant": plant, "plants": plants,
        "warehouse": warehouse, "warehouses": warehouses, "customer": customer, "customers": customers,
        "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"plants": PLACES, "warehouses": PLACES, "customers": PLACES})


SCENARIOS = (
    _scenario("household appliances", "a maker of washing machines", "washing machines", "lorry load", "factory",
              "factories", "warehouse", "warehouses", "retailer", "retailers", "euros"),
    _scenario("food", "a pasta producer", "pasta", "pallet", "pasta factory", "pasta factories", "regional store",
              "regional stores", "supermarket", "supermarkets", "euros"),
    _scenario("chemicals", "a producer of fertilisers", "fertiliser", "tonne", "works", "works", "river port",
              "river ports", "farm dealer", "farm dealers", "dollars"),
    _scenario("furniture", "a furniture group", "shelving", "container", "sawmill", "sawmills", "distribution centre",
              "distribution centres", "furniture store", "furniture stores", "pounds"),
    _scenario("medicine", "a vaccine producer", "vaccines", "carton", "laboratory", "laboratories", "cold store",
              "cold stores", "clinic", "clinics", "francs"),
    _scenario("building materials", "a brick maker", "bricks", "pallet", "brickworks", "brickworks", "storage yard",
              "storage yards", "builders' merchant", "builders' merchants", "pounds"),
    _scenario("paper", "a paper group", "copying paper", "reel", "paper mill", "paper mills", "transit depot",
              "transit depots", "printing house", "printing houses", "dollars"),
)  # fmt: skip

FAMILY = Family(
    title="Supply chain design with warehouses to open",
    area="supply chain",
    source="A. M. Geoffrion and G. W. Graves, Multicommodity distribution system design by Benders decomposition, 1974",
    sizes=SIZES,
    sets=(
        IndexSet("plants", "{plant}", "{plants}", "p", "P"),
        IndexSet("warehouses", "possible {warehouse}", "possible {warehouses}", "w", "W"),
        IndexSet("customers", "{customer}", "{customers}", "c", "C"),
    ),
    fields=(
        Field("supply", ("plants",), "largest output", "{units}", "s_p", (
            "the {plant} in {0} can supply up to {value} {units}", "at most {value} {units} can come from {0}",
            "output in {0} is limited to {value} {units}",
        )),
        Field("fixed", ("warehouses",), "fixed cost", "{money}", "f_w", (
            "opening the {warehouse} in {0} costs {value} {money}",
            "a {warehouse} in {0} has a fixed cost of {value} {money}",
            "if the {warehouse} in {0} is opened, {value} {money} are due",
        )),
        Field("capacity", ("warehouses",), "capacity", "{units}", "k_w", (
            "the {warehouse} in {0} could handle up to {value} {units}",
            "at most {value} {units} can pass through {0}", "capacity in {0} would be {value} {units}",
        )),
        Field("demand", ("customers",), "demand", "{units}", "d_c", (
            "the {customer} in {0} needs {value} {units}", "{0} takes {value} {units}",
            "demand in {0} is {value} {units} of {goods}",
        )),
        Field("inbound_cost", ("plants", "warehouses"), "transport cost from {plant} to {warehouse}",
              "{money} per {unit}", "a_{pw}", (
            ("carrying one {unit} from {0} costs", "{value} {money} to the {warehouse} in {1}"),
            ("from the {plant} in {0}, transport in {money} per {unit} costs", "{value} to {1}"),
        )),
        Field("outbound_cost", ("warehouses", "customers"), "transport cost from {warehouse} to {customer}",
              "{money} per {unit}", "b_{wc}", (
            ("delivering one {unit} out of the {warehouse} in {0} costs", "{value} {money} to {1}"),
            ("from the {warehouse} in {0}, transport in {money} per {unit} costs", "{value} to {1}"),
        )),
    ),
    contract=Contract(
        variables=(
            Variables("open", BINARY, "y_w", "1 if the {warehouse} $w$ is opened", "open the {warehouse} in {0}"),
            Variables("inbound", CONTINUOUS, "x_{pw}", "{units} of {goods} carried from $p$ to $w$",
                      "{0} to {1}: {value} {units}"),
            Variables("outbound", CONTINUOUS, "z_{wc}", "{units} of {goods} carried from $w$ to $c$",
                      "{0} to {1}: {value} {units}"),
        ),
        sense="minimize",
        goal=("total of fixed and transport costs", "{money}"),
        objective=(
            Term("fixed", r"\sum_{w \in W} f_w y_w", (
                "The fixed cost is due for every {warehouse} that is opened, however much passes through, and for no "
                "other.",
                "A {warehouse} that is opened costs its full fixed amount, one that is not opened costs nothing.",
            )),
            Term("first_leg", r"\sum_{p \in P} \sum_{w \in W} a_{pw} x_{pw}", (
                "What goes from a {plant} to a {warehouse} is charged by the {unit}.",
                "The cost of transport to a {warehouse} is proportional to the quantity.",
            )),
            Term("second_leg", r"\sum_{w \in W} \sum_{c \in C} b_{wc} z_{wc}", (
                "What goes from a {warehouse} to a {customer} is charged by the {unit}, too.",
                "The cost of transport to a {customer} is proportional to the quantity as well.",
            )),
        ),
        constraints=(
            Clause("supply", r"\sum_{w \in W} x_{pw} \le s_p", r"p \in P", (
                "A {plant} cannot supply more than its largest output, to all {warehouses} together.",
                "What leaves a {plant} in total is limited by its output.",
            )),
            Clause("through", r"\sum_{p \in P} x_{pw} = \sum_{c \in C} z_{wc}", r"w \in W", (
                "Goods reach {customers} only through a {warehouse}, and all that comes into a {warehouse} leaves it "
                "again.",
                "There are no direct deliveries from {plants} to {customers}; each {warehouse} sends out exactly what "
                "it receives.",
            )),
            Clause("capacity", r"\sum_{c \in C} z_{wc} \le k_w y_w", r"w \in W", (
                "No more than its capacity can pass through an open {warehouse}, and nothing through one that is not "
                "open.",
                "Only open {warehouses} can be used, each up to its capacity.",
            )),
            Clause("demand", r"\sum_{w \in W} z_{wc} \ge d_c", r"c \in C", (
                "Every {customer} must get at least what it needs, from one or from several {warehouses}.",
                "All demand has to be met in full; several {warehouses} may share in the demand of a {customer}.",
            )),
        ),
        integrality=(
            "Opening a {warehouse} is a yes-or-no decision; quantities are not negative and may be fractions of a "
            "{unit}.",
            "A {warehouse} cannot be opened in part, whereas quantities need not be whole {units} (they cannot be "
            "negative).",
        ),
        fixed=("that all goods pass through an open {warehouse}", "that every demand is met in full",
               "that nothing stays in a {warehouse}"),
        mistakes=(
            Mistake("warehouses opened in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("capacity without the opening", '<= data["capacity"][w] * m.open[w]', '<= data["capacity"][w]'),
            Mistake("every plant feeds every delivery", "sum(m.inbound[p, w] for p in plants) ==",
                    "sum(len(plants) * m.inbound[p, w] for p in plants) =="),
            Mistake("demand as an upper limit", '>= data["demand"][c]', '<= data["demand"][c]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "Between its {plants} and its {customers}, {business} wants to set up {warehouses}.",
        "The {goods} of {business} are to reach {customers} from {plants} by way of {warehouses} yet to be chosen.",
        "For the distribution of {goods}, {business} has a list of places for a {warehouse}.",
    ),
    questions=(
        "Which {warehouses} should be opened, and what should be carried on both legs, so that fixed and transport "
        "costs together are least?",
        "Find the {warehouses} to open and all quantities for the smallest total cost.",
        "Minimise the total of fixed and transport costs, in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="quantities on whole ways from plant to customer, instead of on single legs",
    optimum=optimum,
)  # fmt: skip
