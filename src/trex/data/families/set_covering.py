"""Set covering: open sites at least cost so that every district is served by as many of them as it needs."""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_covering
from trex.data.contract import BINARY, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABELS, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import PLACES, WEEKDAYS, Names, Scenario, code, words

SIZES = {
    1: {"sites": (7, 10), "districts": (5, 6)},
    2: {"sites": (22, 28), "districts": (10, 12)},
    3: {"sites": (100, 112), "districts": (28, 32)},
    4: {"sites": (200, 224), "districts": (42, 48)},
}
SERVED = {1: (2, 3), 2: (2, 4), 3: (3, 5), 4: (3, 6)}  # districts of a site


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: every district is served by at least one site more than it needs.

    A site serves the districts nearest to it, at a cost that follows their number, with noise; some need two sites.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    sites, districts = sets["sites"], sets["districts"]
    need = {d: rng.choice((1, 1, 2)) for d in districts}
    need[rng.choice(districts)] = 2
    served = {}
    at = {d: (rng.random(), rng.random()) for d in districts}
    for s in sites:
        here = (rng.random(), rng.random())
        served[s] = set(sorted(districts, key=lambda d: math.dist(at[d], here))[: rng.randint(*SERVED[difficulty])])
    for d in districts:
        others = [s for s in sites if d not in served[s]]
        for s in rng.sample(others, max(0, need[d] + 1 - (len(sites) - len(others)))):
            served[s].add(d)
    cost = {s: round((10 + 12 * len(served[s])) * rng.uniform(0.6, 1.4)) for s in sites}
    return {**sets, "cost": cost, "serves": {s: [d for d in districts if d in served[s]] for s in sites}, "need": need}


def model(data: dict) -> pyo.ConcreteModel:
    """Choice of sites as a binary program."""
    sites, districts = data["sites"], data["districts"]
    m = pyo.ConcreteModel()
    m.open = pyo.Var(sites, domain=pyo.Binary)
    m.opening = pyo.Expression(expr=sum(data["cost"][s] * m.open[s] for s in sites))
    m.objective = pyo.Objective(expr=m.opening, sense=pyo.minimize)
    m.cover = pyo.Constraint(
        districts, rule=lambda m, d: sum(m.open[s] for s in sites if d in data["serves"][s]) >= data["need"][d]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """Which sites can be spared: of those that serve a district, no more than it has beyond its need."""
    m = gp.Model("spared_sites")
    spared = m.addVars(data["sites"], vtype=gp.GRB.BINARY, name="spared")
    m.setObjective(sum(data["cost"].values()) - spared.prod(data["cost"]), gp.GRB.MINIMIZE)
    near: dict[str, list] = {d: [] for d in data["districts"]}
    for s, districts in data["serves"].items():
        for d in districts:
            near[d].append(s)
    for d, around in near.items():
        m.addConstr(gp.quicksum(spared[s] for s in around) <= len(around) - data["need"][d], name=f"beyond[{d}]")
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over what the districts still need."""
    place = {d: k for k, d in enumerate(data["districts"])}
    serves = [{place[d] for d in data["serves"][s]} for s in data["sites"]]
    needs, costs = [data["need"][d] for d in data["districts"]], [data["cost"][s] for s in data["sites"]]
    best = exact_covering.cover(needs, serves, costs)
    return None if best is None else float(best)


def _scenario(domain: str, who: str, site: str, sites: str, district: str, districts: str, money: str,
              site_names: Names, district_names: Names) -> Scenario:  # fmt: skip
    told = {
        "who": who, "site": site, "sites": sites, "district": district, "districts": districts, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"sites": site_names, "districts": district_names})


SCENARIOS = (
    _scenario("emergency services", "a county", "fire station", "fire stations", "district", "districts",
              "thousand euros", code("F"), PLACES),
    _scenario("health", "a health ministry", "clinic", "clinics", "town", "towns", "thousand dollars", code("C"),
              PLACES),
    _scenario("telecommunications", "a network operator", "radio mast", "radio masts", "village", "villages",
              "thousand euros", code("M"), PLACES),
    _scenario("security", "a museum", "camera", "cameras", "room", "rooms", "francs", code("K"),
              words("foyer library vault gallery atrium chapel cabinet rotunda armoury salon studio terrace", "R")),
    _scenario("retail", "a parcel company", "pick-up shop", "pick-up shops", "quarter", "quarters", "euros", code("S"),
              words("Harbour Oldtown Northgate Millside Riverbank Hilltop Station Park Market Castle Garden Bridge",
                    "Q")),
    _scenario("software", "a testing team", "test suite", "test suites", "module", "modules", "minutes", code("T"),
              words("login search basket payment export import archive mail print backup upload billing", "M")),
    _scenario("staffing", "a call centre", "part-time contract", "part-time contracts", "day", "days", "pounds",
              code("P"), WEEKDAYS),
)  # fmt: skip

FAMILY = Family(
    title="Covering with multiple needs",
    area="covering",
    source="C. Toregas, R. Swain, C. ReVelle and L. Bergman, The location of emergency service facilities, 1971",
    sizes=SIZES,
    sets=(
        IndexSet("sites", "possible {site}", "possible {sites}", "s", "S"),
        IndexSet("districts", "{district}", "{districts}", "d", "D"),
    ),
    fields=(
        Field("cost", ("sites",), "cost", "{money}", "c_s", (
            "{site} {0} costs {value} {money}", "choosing {0} takes {value} {money}",
            "the cost of {site} {0} is {value} {money}",
        )),
        Field("serves", ("sites",), "{districts} covered", "", "D_s", (
            "{site} {0} covers {value}", "{0} would cover {value}", "with {0}, {value} would be covered",
        ), LABELS),
        Field("need", ("districts",), "{sites} needed", "", "n_d", (
            "the number of {sites} needed for {0} is {value}", "for {0} the least number of {sites} is {value}",
            "for the {district} {0} the requirement is {value}",
        )),
    ),
    contract=Contract(
        variables=(Variables("open", BINARY, "y_s", "1 if {site} $s$ is chosen", "{site} {0} is chosen"),),
        sense="minimize",
        goal=("total cost", "{money}"),
        objective=(Term("opening", r"\sum_{s \in S} c_s y_s", (
            "The costs of the chosen {sites} add up; those that are not chosen cost nothing.",
            "Only {sites} that are chosen cost anything, each its full cost once.",
        )),),
        constraints=(Clause("cover", r"\sum_{s \in S: d \in D_s} y_s \ge n_d", r"d \in D", (
            "Every {district} has to be covered by at least as many of the chosen {sites} as it needs; more do no "
            "harm.",
            "For each {district}, the number of different chosen {sites} that cover it must not be smaller than the "
            "number needed there.",
        )),),
        integrality=(
            "Each possible {site} is chosen or not, and none can be chosen twice or in part.",
            "There is one yes-or-no decision for every possible {site}.",
        ),
        fixed=("that each {site} counts once", "which {districts} a {site} covers"),
        mistakes=(
            Mistake("every district covered once only", '>= data["need"][d]', ">= 1"),
            Mistake("no district covered more often than needed", '>= data["need"][d]', '== data["need"][d]'),
            Mistake("several at one site", "domain=pyo.Binary", "domain=pyo.NonNegativeIntegers"),
            Mistake("sites in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "All {districts} have to be covered, and {who} has a list of possible {sites}, each of which covers some.",
        "To cover its {districts}, {who} can choose among a number of {sites}.",
        "A list of possible {sites} is before {who}, with the {districts} that each of them would cover.",
    ),
    questions=(
        "Which {sites} should be chosen so that the total cost is as small as possible?",
        "Find the cheapest choice of {sites} that covers every {district} as required.",
        "Minimise the total cost of the chosen {sites}, in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the sites that can be spared instead of those chosen",
    optimum=optimum,
)  # fmt: skip
