"""Capacitated facility location: which sites to open and what each sends to each customer, within its capacity.

Several sites may share in one demand. Quantities are continuous, openings yes-or-no.
"""

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
    1: {"sites": (3, 3), "customers": (3, 4)},
    2: {"sites": (4, 5), "customers": (6, 8)},
    3: {"sites": (7, 8), "customers": (14, 16)},
    4: {"sites": (10, 11), "customers": (20, 22)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: all sites together can send out well over what is demanded.

    No site alone can meet all demand. Unit costs grow with the distance in a plane, fixed costs with the capacity.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    sites, customers = sets["sites"], sets["customers"]
    place = {k: (rng.uniform(0, 20), rng.uniform(0, 20)) for k in (*sites, *customers)}
    step = rng.choice((1, 0.5))
    demand = {j: 5 * rng.randint(4, 24) for j in customers}
    cost = {i: {j: nice(step * (2 + round(math.dist(place[i], place[j])))) for j in customers} for i in sites}
    total = sum(demand.values())
    factor = max(1.8, min(3.0, 0.4 * len(sites)))  # how many times the demand all sites together can meet
    weight = {i: rng.uniform(0.8, 1.2) for i in sites}
    part = {i: factor * total * weight[i] / sum(weight.values()) for i in sites}
    capacity = {i: min(5 * math.ceil(part[i] / 5), total - 5) for i in sites}
    fixed = {i: 50 * max(1, round(capacity[i] * step * rng.uniform(3, 6) / 50)) for i in sites}
    return {**sets, "fixed": fixed, "capacity": capacity, "demand": demand, "cost": cost}


def model(data: dict) -> pyo.ConcreteModel:
    """Quantities and open sites as a mixed-integer linear program."""
    sites, customers = data["sites"], data["customers"]
    m = pyo.ConcreteModel()
    m.open = pyo.Var(sites, domain=pyo.Binary)
    m.send = pyo.Var(sites, customers, domain=pyo.NonNegativeReals)
    m.fixed = pyo.Expression(expr=sum(data["fixed"][i] * m.open[i] for i in sites))
    m.transport = pyo.Expression(expr=sum(data["cost"][i][j] * m.send[i, j] for i in sites for j in customers))
    m.objective = pyo.Objective(expr=m.fixed + m.transport, sense=pyo.minimize)
    m.demand = pyo.Constraint(customers, rule=lambda m, j: sum(m.send[i, j] for i in sites) == data["demand"][j])
    m.capacity = pyo.Constraint(
        sites, rule=lambda m, i: sum(m.send[i, j] for j in customers) <= data["capacity"][i] * m.open[i]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """Shares of the demands, each bounded by its site's opening, and enough capacity opened for all demand."""
    m = gp.Model("shares")
    use = m.addVars(data["sites"], vtype=gp.GRB.BINARY, name="use")
    share = m.addVars(data["sites"], data["customers"], name="share")
    bill = gp.LinExpr()
    for site, row in data["cost"].items():
        bill += data["fixed"][site] * use[site]
        for customer, price in row.items():
            bill += price * data["demand"][customer] * share[site, customer]
            most = min(1, data["capacity"][site] / data["demand"][customer])
            m.addConstr(share[site, customer] <= most * use[site], f"link[{site},{customer}]")
        load = gp.quicksum(amount * share[site, customer] for customer, amount in data["demand"].items())
        m.addConstr(load <= data["capacity"][site] * use[site], f"room[{site}]")
    for customer in data["customers"]:
        m.addConstr(share.sum("*", customer) >= 1, f"served[{customer}]")
    m.addConstr(use.prod(data["capacity"]) >= sum(data["demand"].values()), "enough")
    m.setObjective(bill, gp.GRB.MINIMIZE)
    return m


def optimum(data: dict) -> float | None:
    """By cheapest flows for every set of open sites; None for more than five sites."""
    whole = sum(data["demand"].values())
    free = {"all": dict.fromkeys(data["sites"], 0)}  # one plant that costs nothing to take from
    found = exact_location.chain(
        {"all": whole}, data["fixed"], data["capacity"], data["demand"], free, data["cost"], most_choices=32
    )
    return None if found is None else float(found)


def _scenario(domain: str, business: str, goods: str, unit: str, site: str, sites: str, customer: str, customers: str,
              money: str, period: str) -> Scenario:  # fmt: skip
    told = {
        "business": business, "goods": goods, "unit": unit, "units": unit + "s", "site": site, "sites": sites,
        "customer": customer, "customers": customers, "money": money, "period": period,
    }  # fmt: skip
    return Scenario(domain, told, {"sites": PLACES, "customers": PLACES})


SCENARIOS = (
    _scenario("beverages", "a mineral water company", "bottled water", "pallet", "bottling plant", "bottling plants",
              "wholesaler", "wholesalers", "euros", "week"),
    _scenario("bakery", "a bakery chain", "bread", "rack", "bakehouse", "bakehouses", "shop", "shops", "pounds",
              "day"),
    _scenario("waste", "a waste association", "sorted waste", "tonne", "transfer station", "transfer stations",
              "recycling works", "recycling works", "euros", "week"),
    _scenario("electronics", "a maker of circuit boards", "circuit boards", "carton", "assembly hall",
              "assembly halls", "client", "clients", "dollars", "month"),
    _scenario("horticulture", "a growers' cooperative", "seedlings", "tray", "greenhouse", "greenhouses", "nursery",
              "nurseries", "francs", "month"),
    _scenario("health", "a blood service", "blood preserves", "crate", "blood bank", "blood banks", "hospital",
              "hospitals", "dollars", "week"),
    _scenario("printing", "a textbook publisher", "textbooks", "carton", "printing house", "printing houses",
              "school district", "school districts", "pounds", "year"),
    _scenario("gases", "a supplier of technical gases", "liquid oxygen", "kilolitre", "filling plant",
              "filling plants", "steelworks", "steelworks", "euros", "month"),
)  # fmt: skip

FAMILY = Family(
    title="Capacitated facility location",
    area="location",
    source="M. S. Daskin, Network and Discrete Location: Models, Algorithms, and Applications, 1995",
    sizes=SIZES,
    sets=(
        IndexSet("sites", "possible {site}", "possible {sites}", "i", "I"),
        IndexSet("customers", "{customer}", "{customers}", "j", "J"),
    ),
    fields=(
        Field("fixed", ("sites",), "fixed cost", "{money} per {period}", "f_i", (
            "running the {site} in {0} costs {value} {money} per {period} before anything is sent",
            "the {site} in {0} has fixed costs of {value} {money} per {period}",
            "a {site} in {0}, if opened, costs a fixed {value} {money} per {period}",
        )),
        Field("capacity", ("sites",), "capacity", "{units} per {period}", "k_i", (
            "the {site} in {0} could send out up to {value} {units} per {period}",
            "capacity in {0} would be {value} {units} per {period}",
            "at most {value} {units} per {period} can leave {0}",
        )),
        Field("demand", ("customers",), "demand", "{units} per {period}", "d_j", (
            "the {customer} in {0} needs {value} {units} per {period}",
            "{0} takes {value} {units} of {goods} per {period}",
            "demand in {0} is {value} {units} per {period}",
        )),
        Field("cost", ("sites", "customers"), "transport cost", "{money} per {unit}", "c_{ij}", (
            ("sending one {unit} from {0} costs", "{value} {money} to {1}"),
            ("transport of one {unit} from {0} is charged at", "{value} {money} to {1}"),
            ("from {0}, transport in {money} per {unit} costs", "{value} to {1}"),
        )),
    ),
    contract=Contract(
        variables=(
            Variables("open", BINARY, "y_i", "1 if the {site} $i$ is opened", "open the {site} in {0}"),
            Variables("send", CONTINUOUS, "x_{ij}", "{units} of {goods} per {period} sent from $i$ to $j$",
                      "{0} to {1}: {value} {units} per {period}"),
        ),
        sense="minimize",
        goal=("total of fixed and transport costs", "{money} per {period}"),
        objective=(
            Term("fixed", r"\sum_{i \in I} f_i y_i", (
                "The fixed cost arises for every {site} that is opened, whether or not it is used to capacity, and "
                "for no other.",
                "A {site} that is opened costs its full fixed amount, one that is not opened costs nothing.",
            )),
            Term("transport", r"\sum_{i \in I} \sum_{j \in J} c_{ij} x_{ij}", (
                "Transport is charged by the {unit}.",
                "The cost of transport is proportional to the quantity sent.",
            )),
        ),
        constraints=(
            Clause("demand", r"\sum_{i \in I} x_{ij} = d_j", r"j \in J", (
                "Every {customer} must receive its demand in full, from one or from several {sites}.",
                "All demand has to be met; the demand of one {customer} may be split among {sites}.",
            )),
            Clause("capacity", r"\sum_{j \in J} x_{ij} \le k_i y_i", r"i \in I", (
                "An open {site} can send out no more than its capacity, to all {customers} together, and one that is "
                "not open nothing at all.",
                "What leaves a {site} in total is limited by its capacity if it is open, and is nothing otherwise.",
            )),
        ),
        integrality=(
            "Opening a {site} is a yes-or-no decision; quantities are not negative and need not be whole {units}.",
            "A {site} cannot be opened in part. Quantities are non-negative and may be fractions of a {unit}.",
        ),
        fixed=("that every demand is met in full", "that the capacity limits the sum over all {customers}",
               "that demands may be split"),
        mistakes=(
            Mistake("sites opened in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("capacity without the opening", '<= data["capacity"][i] * m.open[i]', '<= data["capacity"][i]'),
            Mistake("capacity for each customer by itself",
                    "sites, rule=lambda m, i: sum(m.send[i, j] for j in customers)",
                    "sites, customers, rule=lambda m, i, j: m.send[i, j]"),
            Mistake("demand as an upper limit", '== data["demand"][j]', '<= data["demand"][j]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "To supply {customers} with {goods}, {business} compares several places for a {site}.",
        "With a new network of {sites}, {business} wants to supply its {customers} with {goods}.",
        "For {business}, it has to be settled which {sites} will supply the {customers} with {goods}.",
    ),
    questions=(
        "Which {sites} should be opened, and how much should each send to each {customer}, so that fixed and transport "
        "costs together are least?",
        "Find the {sites} to open and the quantities to send for the smallest total cost per {period}.",
        "Minimise the total of fixed and transport costs, in {money} per {period}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="shares of demand, each linked to the opening of its site, with a cut on the capacity opened",
    optimum=optimum,
)  # fmt: skip
