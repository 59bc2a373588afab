"""Facility location: which sites to open, at a fixed cost each, and from which open site to serve each customer.

The uncapacitated problem: an open site serves as much as it is asked for. Shares are continuous, openings yes-or-no.
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
    1: {"sites": (2, 3), "customers": (3, 4)},
    2: {"sites": (4, 5), "customers": (6, 8)},
    3: {"sites": (8, 9), "customers": (13, 15)},
    4: {"sites": (11, 13), "customers": (19, 22)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Always feasible: any site may be opened and serves everybody.

    Unit costs grow with the distance in a plane. A fixed cost is of the size of what a few customers cost to serve, so
    that neither one site nor all of them are the obvious answer.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    sites, customers = sets["sites"], sets["customers"]
    place = {k: (rng.uniform(0, 20), rng.uniform(0, 20)) for k in (*sites, *customers)}
    step = rng.choice((1, 0.5))
    demand = {j: 5 * rng.randint(4, 24) for j in customers}
    cost = {i: {j: nice(step * (2 + round(math.dist(place[i], place[j])))) for j in customers} for i in sites}
    mean = sum(demand.values()) / len(customers) * step * 10
    fixed = {i: 50 * max(1, round(mean * rng.uniform(0.6, 1.5) / 50)) for i in sites}
    return {**sets, "fixed": fixed, "demand": demand, "cost": cost}


def model(data: dict) -> pyo.ConcreteModel:
    """Shares of demand and open sites as a mixed-integer linear program."""
    sites, customers = data["sites"], data["customers"]
    m = pyo.ConcreteModel()
    m.open = pyo.Var(sites, domain=pyo.Binary)
    m.share = pyo.Var(sites, customers, domain=pyo.NonNegativeReals)
    m.fixed = pyo.Expression(expr=sum(data["fixed"][i] * m.open[i] for i in sites))
    m.delivery = pyo.Expression(
        expr=sum(data["cost"][i][j] * data["demand"][j] * m.share[i, j] for i in sites for j in customers)
    )
    m.objective = pyo.Objective(expr=m.fixed + m.delivery, sense=pyo.minimize)
    m.served = pyo.Constraint(customers, rule=lambda m, j: sum(m.share[i, j] for i in sites) == 1)
    m.only_from_open = pyo.Constraint(sites, customers, rule=lambda m, i, j: m.share[i, j] <= m.open[i])
    return m


def reformulated(data: dict) -> gp.Model:
    """Openings and one service cost per customer, bounded by what the open sites save (Magnanti and Wong, 1981)."""
    m = gp.Model("service_cost")
    opened = m.addVars(data["sites"], vtype=gp.GRB.BINARY, obj=data["fixed"], name="opened")
    service = m.addVars(data["customers"], obj=1.0, name="service")
    m.addConstr(opened.sum() >= 1, "somewhere")
    for customer, demand in data["demand"].items():
        price = {site: data["cost"][site][customer] * demand for site in data["sites"]}
        for level in sorted(set(price.values())):
            saved = gp.quicksum((level - p) * opened[site] for site, p in price.items() if p < level)
            m.addConstr(service[customer] + saved >= level, f"service[{customer},{level}]")
    m.ModelSense = gp.GRB.MINIMIZE
    return m


def optimum(data: dict) -> float | None:
    """By trying every set of open sites; each customer takes its cheapest."""
    cost = {i: {j: price * data["demand"][j] for j, price in row.items()} for i, row in data["cost"].items()}
    found = exact_location.opened(data["fixed"], cost)
    return None if found is None else float(found)


def _scenario(domain: str, business: str, goods: str, unit: str, site: str, sites: str, customer: str, customers: str,
              money: str) -> Scenario:  # fmt: skip
    told = {
        "business": business, "goods": goods, "unit": unit, "units": unit + "s", "site": site, "sites": sites,
        "customer": customer, "customers": customers, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"sites": PLACES, "customers": PLACES})


SCENARIOS = (
    _scenario("retail", "a grocery chain", "groceries", "pallet", "distribution centre", "distribution centres",
              "supermarket", "supermarkets", "euros"),
    _scenario("pharmacy", "a pharmaceutical wholesaler", "medicines", "carton", "depot", "depots", "pharmacy",
              "pharmacies", "francs"),
    _scenario("construction", "a maker of ready-mixed concrete", "concrete", "cubic metre", "mixing plant",
              "mixing plants", "building site", "building sites", "dollars"),
    _scenario("laundry", "a linen service", "fresh linen", "trolley", "laundry", "laundries", "hotel", "hotels",
              "euros"),
    _scenario("publishing", "a newspaper publisher", "newspapers", "bundle", "print shop", "print shops", "newsagent",
              "newsagents", "pounds"),
    _scenario("catering", "a caterer for schools", "hot meals", "tray", "kitchen", "kitchens", "school", "schools",
              "pounds"),
    _scenario("energy", "a supplier of wood pellets", "pellets", "tonne", "storage yard", "storage yards",
              "heating plant", "heating plants", "dollars"),
    _scenario("spare parts", "a maker of farm machines", "spare parts", "crate", "parts store", "parts stores",
              "workshop", "workshops", "euros"),
)  # fmt: skip

FAMILY = Family(
    title="Uncapacitated facility location",
    area="location",
    source="G. Cornuejols, G. L. Nemhauser and L. A. Wolsey, The uncapacitated facility location problem, 1990",
    sizes=SIZES,
    sets=(
        IndexSet("sites", "possible {site}", "possible {sites}", "i", "I"),
        IndexSet("customers", "{customer}", "{customers}", "j", "J"),
    ),
    fields=(
        Field("fixed", ("sites",), "fixed cost", "{money}", "f_i", (
            "opening the {site} in {0} costs {value} {money}",
            "a {site} in {0} has a fixed cost of {value} {money}",
            "if the {site} in {0} is opened, {value} {money} are due",
        )),
        Field("demand", ("customers",), "demand", "{units}", "d_j", (
            "the {customer} in {0} needs {value} {units}", "demand in {0} is {value} {units} of {goods}",
            "{0} takes {value} {units}",
        )),
        Field("cost", ("sites", "customers"), "delivery cost", "{money} per {unit}", "c_{ij}", (
            ("delivering one {unit} from {0} costs", "{value} {money} to {1}"),
            ("out of {0}, the delivery of one {unit} is charged at", "{value} {money} to {1}"),
            ("from {0}, the delivery cost in {money} per {unit} is", "{value} to {1}"),
        )),
    ),
    contract=Contract(
        variables=(
            Variables("open", BINARY, "y_i", "1 if the {site} $i$ is opened", "open the {site} in {0}"),
            Variables("share", CONTINUOUS, "x_{ij}", "share of the demand of {customer} $j$ that comes from $i$",
                      "{0} delivers a share of {value} of the demand of {1}"),
        ),
        sense="minimize",
        goal=("total of fixed and delivery costs", "{money}"),
        objective=(
            Term("fixed", r"\sum_{i \in I} f_i y_i", (
                "The fixed cost of a {site} is due once if it is opened, however much it delivers.",
                "Each {site} that is opened costs its fixed amount, each that is not opened costs nothing.",
            )),
            Term("delivery", r"\sum_{i \in I} \sum_{j \in J} c_{ij} d_j x_{ij}", (
                "Deliveries are charged by the {unit}.",
                "The cost of a delivery is proportional to the number of {units}.",
            )),
        ),
        constraints=(
            Clause("served", r"\sum_{i \in I} x_{ij} = 1", r"j \in J", (
                "The demand of every {customer} has to be met in full, from one or from several {sites}.",
                "Every {customer} must get all it needs; several {sites} may share in it.",
            )),
            Clause("only_from_open", r"x_{ij} \le y_i", r"i \in I,\ j \in J", (
                "Only an open {site} can deliver; what it can deliver is not limited.",
                "Nothing can come from a {site} that is not opened, while an open one can deliver any quantity.",
            )),
        ),
        integrality=(
            "Whether a {site} is opened is a yes-or-no decision; quantities are not negative and may be fractions of a "
            "{unit}.",
            "A {site} is opened as a whole or not at all, whereas deliveries need not be whole {units}.",
        ),
        fixed=("that every demand is met in full", "that nothing comes from a {site} that is not open",
               "that open {sites} have no limit"),
        mistakes=(
            Mistake("sites opened in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("the cost of one unit for the whole demand", '* data["demand"][j] * m.share', "* m.share"),
            Mistake("no link between deliveries and openings", "m.share[i, j] <= m.open[i]", "m.share[i, j] <= 1"),
            Mistake("every customer served by every site", "sum(m.share[i, j] for i in sites) == 1",
                    "sum(m.share[i, j] for i in sites) == len(sites)"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "For the supply of its {customers} with {goods}, {business} has a list of places where a {site} could be "
        "opened.",
        "Several places could get a {site} from which {business} will deliver {goods} to {customers}.",
        "To deliver {goods} to its {customers}, {business} is about to choose among possible {sites}.",
    ),
    questions=(
        "Which {sites} should be opened, and which of them should serve which {customer}, so that the total of fixed "
        "and delivery costs is as small as possible?",
        "Choose the {sites} to open and the deliveries so that fixed costs and delivery costs together are least.",
        "Minimise the sum of the fixed costs of the open {sites} and the delivery costs, in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="one service cost for each customer, bounded from below by cuts, instead of shares",
    optimum=optimum,
)  # fmt: skip
