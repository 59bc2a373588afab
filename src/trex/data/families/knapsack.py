"""Knapsack: choose items of largest total value within two limits, each item whole or not at all."""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact
from trex.data.contract import BINARY, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets
from trex.data.scenario import Scenario, code, words

SIZES = {
    1: {"items": (6, 9), "resources": (1, 1)},
    2: {"items": (14, 20), "resources": (2, 2)},
    3: {"items": (100, 120), "resources": (2, 2)},
    4: {"items": (200, 240), "resources": (2, 2)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Every item fits alone and all together never do: the limits are 35 to 55 % of what all items would use.

    Values follow the amounts used with noise, so that the best choice is not plain to see.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    items, resources = sets["items"], sets["resources"]
    use = {i: {r: rng.randint(2, 15) for r in resources} for i in items}
    value = {i: max(2, sum(use[i].values()) + rng.randint(-4, 8)) for i in items}
    share = rng.uniform(0.35, 0.55)
    limit = {r: max(math.floor(sum(use[i][r] for i in items) * share), *(use[i][r] for i in items)) for r in resources}
    return {**sets, "value": value, "use": use, "limit": limit}


def model(data: dict) -> pyo.ConcreteModel:
    """Choice of items as a binary program."""
    items, resources = data["items"], data["resources"]
    m = pyo.ConcreteModel()
    m.take = pyo.Var(items, domain=pyo.Binary)
    m.gain = pyo.Expression(expr=sum(data["value"][i] * m.take[i] for i in items))
    m.objective = pyo.Objective(expr=m.gain, sense=pyo.maximize)
    m.limit = pyo.Constraint(
        resources, rule=lambda m, r: sum(data["use"][i][r] * m.take[i] for i in items) <= data["limit"][r]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """What to leave behind: at least the excess of every resource, at the least loss of value."""
    m = gp.Model("leave_behind")
    leave = m.addVars(data["items"], vtype=gp.GRB.BINARY, name="leave")
    m.setObjective(sum(data["value"].values()) - leave.prod(data["value"]), gp.GRB.MAXIMIZE)
    for r in data["resources"]:
        excess = sum(data["use"][i][r] for i in data["items"]) - data["limit"][r]
        m.addConstr(gp.quicksum(data["use"][i][r] * leave[i] for i in data["items"]) >= excess, name=f"excess[{r}]")
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over the amounts used."""
    uses = [[data["use"][i][r] for r in data["resources"]] for i in data["items"]]
    limits = [data["limit"][r] for r in data["resources"]]
    return float(exact.knapsack([data["value"][i] for i in data["items"]], uses, limits))


def _scenario(domain: str, container: str, item: str, items: str, letter: str, units: str, gain: str,
              gain_unit: str) -> Scenario:  # fmt: skip
    told = {"container": container, "item": item, "items": items, "gain": gain, "gain_unit": gain_unit}
    return Scenario(domain, told, {"items": code(letter), "resources": words(units)})


SCENARIOS = (
    _scenario("air freight", "a cargo aircraft", "crate", "crates", "C", "kilograms cubic-metres", "revenue",
              "hundred euros"),
    _scenario("space", "a research satellite", "instrument", "instruments", "S", "kilograms watts", "science score",
              "points"),
    _scenario("investment", "next year's investment plan", "project", "projects", "P", "kiloeuros person-months",
              "net present value", "thousand euros"),
    _scenario("computing", "a compute cluster's night run", "job", "jobs", "J", "gigabytes cores", "priority",
              "points"),
    _scenario("relief", "a relief convoy", "pallet", "pallets", "R", "tonnes cubic-metres", "benefit", "points"),
    _scenario("museums", "a museum's new hall", "exhibit", "exhibits", "E", "square-metres lamps",
              "expected attendance", "hundred visitors"),
    _scenario("health", "a hospital's purchase", "device", "devices", "D", "kiloeuros square-metres", "benefit",
              "points"),
    _scenario("media", "an evening of television advertising", "spot", "spots", "T", "airtime-seconds studio-hours",
              "fee", "thousand euros"),
)  # fmt: skip

FAMILY = Family(
    title="Knapsack with one or two limits",
    area="packing",
    source="H. Kellerer, U. Pferschy and D. Pisinger, Knapsack Problems, 2004",
    sizes=SIZES,
    sets=(
        IndexSet("items", "{item}", "{items}", "i", "I"),
        IndexSet("resources", "resource", "limited resources", "r", "R"),
    ),
    fields=(
        Field("value", ("items",), "{gain}", "{gain_unit}", "v_i", (
            "{item} {0} brings {value} {gain_unit} of {gain}", "with {0} comes a {gain} of {value} {gain_unit}",
            "{0} adds {value} {gain_unit} to the {gain}",
        )),
        Field("use", ("items", "resources"), "use of resources", "", "a_{ir}", (
            ("{item} {0} needs", "{value} {1}"), ("{0} takes up", "{value} {1}"), ("choosing {0} uses", "{value} {1}"),
        )),
        Field("limit", ("resources",), "available in all", "", "b_r", (
            "available in all are {value} {0}", "the {items} chosen may together use {value} {0}",
            "there is room for {value} {0}",
        )),
    ),
    contract=Contract(
        variables=(Variables("take", BINARY, "x_i", "1 if {item} $i$ is chosen", "{item} {0} is chosen"),),
        sense="maximize",
        goal=("total {gain}", "{gain_unit}"),
        objective=(Term("gain", r"\sum_{i \in I} v_i x_i", (
            "Each {item} exists once, and what the chosen {items} bring adds up.",
            "The {gain} of a {item} counts only if it is chosen, and each {item} exists once.",
        )),),
        constraints=(Clause("limit", r"\sum_{i \in I} a_{ir} x_i \le b_r", r"r \in R", (
            "Of each resource the chosen {items} cannot use more in total than is available.",
            "The total use of each resource by the chosen {items} must stay within what is available.",
        )),),
        integrality=(
            "Each {item} is chosen whole or not at all: there is one yes-or-no decision per {item}.",
            "No {item} can be divided; it is either in or out.",
        ),
        fixed=("that each {item} exists once", "that limits hold for the sum over all chosen {items}"),
        mistakes=(
            Mistake("items in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("several copies of an item", "domain=pyo.Binary", "domain=pyo.NonNegativeIntegers"),
            Mistake("limits for each item by itself",
                    "resources, rule=lambda m, r: sum(data[\"use\"][i][r] * m.take[i] for i in items)",
                    "items, resources, rule=lambda m, i, r: data[\"use\"][i][r] * m.take[i]"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "There are more {items} on the list for {container} than can be accepted.",
        "A planner selects {items} for {container}.",
        "Candidates for {container} are {items} of different {gain}.",
        "For {container}, a choice among several {items} has to be made.",
    ),
    questions=(
        "Which {items} should be chosen so that the total {gain} is as large as possible?",
        "Select the {items} that give the largest total {gain}, and state it in {gain_unit}.",
        "Maximise the total {gain} of the chosen {items}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the items left behind instead of those taken",
    optimum=optimum,
)  # fmt: skip
