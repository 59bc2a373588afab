"""Maximal covering: a limited number of sites that reach as much demand as possible.

Which areas a site reaches is given. All decisions are yes-or-no.
"""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_location
from trex.data.contract import BINARY, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABELS, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import Scenario, code

SIZES = {
    1: {"sites": (4, 5), "areas": (5, 8)},
    2: {"sites": (8, 12), "areas": (16, 28)},
    3: {"sites": (22, 28), "areas": (80, 100)},
    4: {"sites": (40, 50), "areas": (170, 200)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Always feasible: no area has to be reached. Sites and areas lie in a plane, and a site reaches what is near.

    Every site reaches something, and a greedy choice of sites leaves out some area that could be reached.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        sites, areas = sets["sites"], sets["areas"]
        place = {k: (rng.random(), rng.random()) for k in (*sites, *areas)}
        limit = max(2, round(len(sites) * rng.uniform(0.2, 0.35)))
        radius = rng.uniform(0.9, 1.1) / math.sqrt(math.pi * limit)  # circles that nearly cover the plane
        reach = {i: [j for j in areas if math.dist(place[i], place[j]) <= radius] for i in sites}
        weight = {j: rng.randint(20, 900) for j in areas}
        sizes = sorted((len(some) for some in reach.values()), reverse=True)
        if sizes[-1] and sum(sizes[:limit]) >= limit + 2 and not _easy(reach, limit):
            return {**sets, "weight": weight, "reach": reach, "limit": limit}


def _easy(reach: dict[str, list[str]], limit: int) -> bool:
    """Whether the allowed number of sites, chosen greedily, reaches all that any site does."""
    left = {j for some in reach.values() for j in some}
    for _ in range(limit):
        left -= set(max(reach.values(), key=lambda some: len(left & set(some))))
    return not left


def model(data: dict) -> pyo.ConcreteModel:
    """Chosen sites and covered areas as a binary program."""
    sites, areas, reach = data["sites"], data["areas"], data["reach"]
    m = pyo.ConcreteModel()
    m.choose = pyo.Var(sites, domain=pyo.Binary)
    m.cover = pyo.Var(areas, domain=pyo.Binary)
    m.covered = pyo.Expression(expr=sum(data["weight"][j] * m.cover[j] for j in areas))
    m.objective = pyo.Objective(expr=m.covered, sense=pyo.maximize)
    m.limit = pyo.Constraint(expr=sum(m.choose[i] for i in sites) <= data["limit"])
    m.within_reach = pyo.Constraint(
        areas, rule=lambda m, j: m.cover[j] <= sum(m.choose[i] for i in sites if j in reach[i])
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """What is missed: all demand less that of the areas without a chosen site in reach."""
    m = gp.Model("missed")
    chosen = m.addVars(data["sites"], vtype=gp.GRB.BINARY, name="chosen")
    missed = m.addVars(data["areas"], name="missed")
    near: dict = {area: [] for area in data["areas"]}
    for site, areas in data["reach"].items():
        for area in areas:
            near[area].append(chosen[site])
    for area, some in near.items():
        m.addConstr(missed[area] + gp.quicksum(some) >= 1, f"missed[{area}]")
    m.addConstr(chosen.sum() <= data["limit"], "limit")
    m.setObjective(sum(data["weight"].values()) - missed.prod(data["weight"]), gp.GRB.MAXIMIZE)
    return m


def optimum(data: dict) -> float | None:
    """By trying every choice of as many sites as are allowed."""
    found = exact_location.covered(data["reach"], data["weight"], data["limit"])
    return None if found is None else float(found)


def _scenario(domain: str, planner: str, site: str, sites: str, area: str, areas: str, weight: str, reaches: str,
              letters: str) -> Scenario:  # fmt: skip
    told = {
        "planner": planner, "site": site, "sites": sites, "area": area, "areas": areas, "weight": weight,
        "reaches": reaches,
    }  # fmt: skip
    return Scenario(domain, told, {"sites": code(letters[0]), "areas": code(letters[1])})


SCENARIOS = (
    _scenario("emergency services", "a rescue service", "rescue post", "rescue posts", "district", "districts",
              "residents", "can be reached in time from", "RD"),
    _scenario("telecommunications", "a mobile network operator", "mast", "masts", "neighbourhood", "neighbourhoods",
              "subscribers", "has reception from", "MN"),
    _scenario("environment", "an air quality agency", "sensor", "sensors", "street block", "street blocks",
              "residents", "is monitored by", "SB"),
    _scenario("advertising", "an advertising agency", "billboard", "billboards", "commuter group", "commuter groups",
              "commuters", "passes by", "BG"),
    _scenario("mobility", "a car-sharing company", "parking bay", "parking bays", "quarter", "quarters", "members",
              "is within walking distance of", "BQ"),
    _scenario("security", "a port authority", "camera", "cameras", "storage lot", "storage lots", "containers",
              "is in view of", "CL"),
    _scenario("forest fires", "a forest service", "watchtower", "watchtowers", "forest section", "forest sections",
              "hectares", "can be seen from", "WF"),
    _scenario("retail", "a chain of parcel lockers", "locker", "lockers", "housing estate", "housing estates",
              "households", "is within walking distance of", "LE"),
)  # fmt: skip

FAMILY = Family(
    title="Maximal covering location",
    area="covering",
    source="R. Church and C. ReVelle, The maximal covering location problem, 1974",
    sizes=SIZES,
    sets=(
        IndexSet("sites", "possible {site}", "possible {sites}", "i", "I"),
        IndexSet("areas", "{area}", "{areas}", "j", "J"),
    ),
    fields=(
        Field("weight", ("areas",), "size", "{weight}", "w_j", (
            "{area} {0} has {value} {weight}", "there are {value} {weight} in {area} {0}",
            "{area} {0} counts {value} {weight}",
        )),
        Field("reach", ("sites",), "{areas} that the {site} reaches", "", "R_i", (
            "{site} {0} reaches {value}", "a {site} {0} would reach {value}", "within reach of {site} {0} are {value}",
        ), LABELS),
        Field("limit", (), "largest number of {sites}", "", "p", (
            "at most {value} {sites} can be set up", "the budget allows for {value} {sites}",
            "no more than {value} {sites} may be chosen",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("choose", BINARY, "y_i", "1 if {site} $i$ is set up", "set up {site} {0}"),
            Variables("cover", BINARY, "z_j", "1 if {area} $j$ is within reach of a {site} that is set up",
                      "{area} {0} is reached"),
        ),
        sense="maximize",
        goal=("total number reached", "{weight}"),
        objective=(Term("covered", r"\sum_{j \in J} w_j z_j", (
            "A {area} counts with all its {weight} if it is reached and not at all otherwise; being reached by several "
            "{sites} does not make it count more than once.",
            "The {weight} of a {area} count if at least one {site} reaches it, and they count only once.",
        )),),
        constraints=(
            Clause("limit", r"\sum_{i \in I} y_i \le p", "", (
                "Only a limited number of {sites} can be set up.",
                "There is an upper limit on how many {sites} are set up.",
            )),
            Clause("within_reach", r"z_j \le \sum_{i \in I:\ j \in R_i} y_i", r"j \in J", (
                "A {area} is reached if it {reaches} at least one {site} that is set up.",
                "To reach a {area}, at least one {site} that it {reaches} must be set up.",
            )),
        ),
        integrality=(
            "Each {site} is set up or not, and each {area} is reached or not: all decisions are yes-or-no.",
            "There are only yes-or-no decisions: no {site} is set up in part, no {area} is reached in part.",
        ),
        fixed=("which {areas} a {site} reaches", "how many {sites} may be set up", "that a {area} counts once"),
        mistakes=(
            Mistake("an area counts for every site in reach", "m.cover = pyo.Var(areas, domain=pyo.Binary)",
                    "m.cover = pyo.Var(areas, domain=pyo.NonNegativeIntegers)"),
            Mistake("areas counted instead of their weights", 'data["weight"][j] * m.cover[j]', "m.cover[j]"),
            Mistake("all sites in reach needed", "m.cover[j] <= sum(m.choose[i] for i in sites if j in reach[i])",
                    "len(sites) * m.cover[j] <= sum(m.choose[i] for i in sites if j in reach[i])"),
            Mistake("every area has to be reached", "m.cover[j] <= sum(", "1 <= sum("),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "There are more places for {sites} than {planner} can pay for.",
        "A choice among possible {sites} is to be made by {planner}.",
        "For its {areas}, {planner} looks for the best {sites}.",
    ),
    questions=(
        "Which {sites} should be set up so that as many {weight} as possible are reached?",
        "Choose the {sites} that reach the largest total of {weight}.",
        "Maximise the total of {weight} in the {areas} that are reached.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="continuous variables for what is missed instead of yes-or-no variables for what is covered",
    optimum=optimum,
)  # fmt: skip
