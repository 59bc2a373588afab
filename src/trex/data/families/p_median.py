"""p-median: a given number of sites so that the demand-weighted distance to the nearest open site is least.

Each customer belongs to one open site. All decisions are yes-or-no.
"""

import itertools
import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_location
from trex.data.contract import BINARY, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets
from trex.data.scenario import PLACES, Scenario

SIZES = {
    1: {"sites": (3, 3), "customers": (3, 4)},
    2: {"sites": (4, 5), "customers": (6, 8)},
    3: {"sites": (9, 10), "customers": (12, 15)},
    4: {"sites": (13, 15), "customers": (16, 20)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Always feasible: two or more sites, about a third to a half, are to be opened, and each may serve everybody.

    Distances are those of a plane, rounded up, plus a detour for each pair.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    sites, customers = sets["sites"], sets["customers"]
    place = {k: (rng.uniform(0, 60), rng.uniform(0, 60)) for k in (*sites, *customers)}
    distance = {i: {j: math.ceil(math.dist(place[i], place[j])) + rng.randint(1, 6) for j in customers} for i in sites}
    weight = {j: rng.randint(2, 40) for j in customers}
    count = rng.randint(max(2, math.ceil(len(sites) / 3)), max(2, len(sites) // 2))
    return {**sets, "weight": weight, "distance": distance, "count": count}


def model(data: dict) -> pyo.ConcreteModel:
    """Open sites and the site of each customer as a binary program."""
    sites, customers = data["sites"], data["customers"]
    m = pyo.ConcreteModel()
    m.open = pyo.Var(sites, domain=pyo.Binary)
    m.assign = pyo.Var(sites, customers, domain=pyo.Binary)
    m.travel = pyo.Expression(
        expr=sum(data["weight"][j] * data["distance"][i][j] * m.assign[i, j] for i in sites for j in customers)
    )
    m.objective = pyo.Objective(expr=m.travel, sense=pyo.minimize)
    m.count = pyo.Constraint(expr=sum(m.open[i] for i in sites) == data["count"])
    m.one_site = pyo.Constraint(customers, rule=lambda m, j: sum(m.assign[i, j] for i in sites) == 1)
    m.only_open = pyo.Constraint(sites, customers, rule=lambda m, i, j: m.assign[i, j] <= m.open[i])
    return m


def reformulated(data: dict) -> gp.Model:
    """Is there no open site within each of a customer's distances? (Cornuejols, Nemhauser and Wolsey, 1980.)"""
    m = gp.Model("radii")
    opened = m.addVars(data["sites"], vtype=gp.GRB.BINARY, name="opened")
    m.addConstr(opened.sum() == data["count"], "count")
    travel = gp.LinExpr()
    for customer, weight in data["weight"].items():
        away = {site: data["distance"][site][customer] for site in data["sites"]}
        radii = sorted(set(away.values()))
        travel += weight * radii[0]
        for radius, following in itertools.pairwise(radii):
            beyond = m.addVar(name=f"beyond[{customer},{radius}]")
            near = gp.quicksum(opened[site] for site in away if away[site] <= radius)
            m.addConstr(near + beyond >= 1, f"near[{customer},{radius}]")
            travel += weight * (following - radius) * beyond
    m.setObjective(travel, gp.GRB.MINIMIZE)
    return m


def optimum(data: dict) -> float | None:
    """By trying every choice of sites; each customer takes the nearest."""
    cost = {i: {j: d * data["weight"][j] for j, d in row.items()} for i, row in data["distance"].items()}
    found = exact_location.median(cost, data["count"])
    return None if found is None else float(found)


def _scenario(domain: str, planner: str, site: str, sites: str, customer: str, customers: str, weight: str,
              travel: str, distance_unit: str) -> Scenario:  # fmt: skip
    told = {
        "planner": planner, "site": site, "sites": sites, "customer": customer, "customers": customers,
        "weight": weight, "travel": travel, "distance_unit": distance_unit,
    }  # fmt: skip
    return Scenario(domain, told, {"sites": PLACES, "customers": PLACES})


SCENARIOS = (
    _scenario("education", "a county", "library", "libraries", "village", "villages", "readers a week",
              "total one-way distance of all readers of a week", "kilometres"),
    _scenario("health", "a health authority", "clinic", "clinics", "town", "towns", "patients a day",
              "total one-way distance of all patients of a day", "kilometres"),
    _scenario("parcels", "a parcel service", "sorting hub", "sorting hubs", "district", "districts", "vans a day",
              "total one-way distance of all vans of a day", "kilometres"),
    _scenario("agriculture", "a dairy cooperative", "collecting point", "collecting points", "farm", "farms",
              "tanker loads a week", "total one-way distance of all tanker loads of a week", "miles"),
    _scenario("telecommunications", "a network operator", "fibre hub", "fibre hubs", "business park",
              "business parks", "cables", "total length of all cables", "kilometres"),
    _scenario("forestry", "a timber company", "loading yard", "loading yards", "forest stand", "forest stands",
              "truckloads a month", "total one-way distance of all truckloads of a month", "miles"),
    _scenario("maintenance", "a lift service company", "base", "bases", "building", "buildings", "calls a year",
              "total one-way distance to all calls of a year", "kilometres"),
)  # fmt: skip

FAMILY = Family(
    title="p-median location",
    area="location",
    source="S. L. Hakimi, Optimum locations of switching centers and the absolute centers and medians of a graph, 1964",
    sizes=SIZES,
    sets=(
        IndexSet("sites", "possible {site}", "possible {sites}", "i", "I"),
        IndexSet("customers", "{customer}", "{customers}", "j", "J"),
    ),
    fields=(
        Field("weight", ("customers",), "demand", "{weight}", "w_j", (
            "the {customer} {0} counts with {value} {weight}", "for the {customer} {0}, expect {value} {weight}",
            "the {customer} {0} stands for {value} {weight}",
        )),
        Field("distance", ("sites", "customers"), "distance", "{distance_unit}", "d_{ij}", (
            ("a {site} in {0} would be", "{value} {distance_unit} away from {1}"),
            ("the distance from a {site} in {0} would be", "{value} {distance_unit} to {1}"),
            ("in {distance_unit}, the way from {0} measures", "{value} to {1}"),
        )),
        Field("count", (), "number of {sites} to open", "", "p", (
            "the number of {sites} to open is {value}", "{planner} will open {value} of the possible {sites}",
            "of the possible {sites}, {value} are to be opened",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("open", BINARY, "y_i", "1 if a {site} is opened in $i$", "open a {site} in {0}"),
            Variables("assign", BINARY, "x_{ij}", "1 if {customer} $j$ belongs to the {site} in $i$",
                      "{1} belongs to {0}"),
        ),
        sense="minimize",
        goal=("{travel}", "{distance_unit}"),
        objective=(Term("travel", r"\sum_{i \in I} \sum_{j \in J} w_j d_{ij} x_{ij}", (
            "What counts is the {travel}: the demand of each {customer} times the distance to its {site}, summed up.",
            "The plan is judged by the {travel}, where the distance of a {customer} to its {site} is multiplied by the "
            "{customer}'s demand.",
        )),),
        constraints=(
            Clause("count", r"\sum_{i \in I} y_i = p", "", (
                "Exactly the stated number of {sites} is opened.", "Neither more nor fewer {sites} than stated open.",
            )),
            Clause("one_site", r"\sum_{i \in I} x_{ij} = 1", r"j \in J", (
                "Each {customer} belongs to exactly one {site}.",
                "Every {customer} is assigned to one {site} and to one only.",
            )),
            Clause("only_open", r"x_{ij} \le y_i", r"i \in I,\ j \in J", (
                "Only {sites} that are opened can have {customers} assigned to them; there is no limit on how many.",
                "No {customer} can be assigned to a {site} that is not opened; an open one can take any number.",
            )),
        ),
        integrality=(
            "Whether a {site} is opened and which one a {customer} belongs to are yes-or-no decisions.",
            "Neither can a {site} be opened in part nor a {customer} be divided among {sites}: all decisions are "
            "yes-or-no.",
        ),
        fixed=("how many {sites} are opened", "that distances are weighted with the demand",
               "that a {customer} belongs to one open {site}"),
        mistakes=(
            Mistake("distances without their weights", 'data["weight"][j] * data', "data"),
            Mistake("sites opened in parts", "m.open = pyo.Var(sites, domain=pyo.Binary)",
                    "m.open = pyo.Var(sites, bounds=(0, 1))"),
            Mistake("the number of sites as a lower limit", '== data["count"]', '>= data["count"]'),
            Mistake("as many customers as sites to open", "sum(m.open[i] for i in sites) ==",
                    "sum(m.assign[i, j] for i in sites for j in customers) =="),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "For {customers} in its area, {planner} has several places in mind where a {site} could be opened.",
        "From a list of places, {planner} chooses those that get a {site}.",
        "With a limited number of {sites}, {planner} wants to be close to all {customers}.",
    ),
    questions=(
        "Where should the {sites} be opened so that the {travel} is as small as possible?",
        "Choose the {sites} and assign the {customers} so that the {travel} is least.",
        "Minimise the {travel}, in {distance_unit}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="radii within which a customer finds no open site, instead of assignments",
    optimum=optimum,
)  # fmt: skip
