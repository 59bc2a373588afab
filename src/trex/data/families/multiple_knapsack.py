"""Multiple knapsack: put items, each whole and at most once, into several knapsacks for the largest total value."""

import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_packing
from trex.data.contract import BINARY, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets
from trex.data.scenario import WEEKDAYS, Names, Scenario, code, words

SIZES = {
    1: {"items": (5, 7), "knapsacks": (2, 2)},
    2: {"items": (10, 14), "knapsacks": (2, 3)},
    3: {"items": (34, 40), "knapsacks": (3, 3)},
    4: {"items": (52, 60), "knapsacks": (4, 4)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Every item fits into every knapsack by itself; together the knapsacks hold about half of all items.

    Values follow weights with noise, so that the best choice is not plain to see. Feasible without any item; redrawn
    where all items could fit.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        items, knapsacks = sets["items"], sets["knapsacks"]
        weight = {i: rng.randint(1, 9) for i in items}
        value = {i: max(1, round(2 * weight[i] * rng.uniform(0.4, 1.6))) for i in items}
        part = {k: rng.uniform(2, 5) for k in knapsacks}
        total = rng.uniform(0.4, 0.6) * sum(weight.values())
        capacity = {k: max(*weight.values(), round(total * part[k] / sum(part.values()))) for k in knapsacks}
        if sum(capacity.values()) < sum(weight.values()):
            return {**sets, "value": value, "weight": weight, "capacity": capacity}


def model(data: dict) -> pyo.ConcreteModel:
    """Assignment of items to knapsacks as a binary program."""
    items, knapsacks = data["items"], data["knapsacks"]
    m = pyo.ConcreteModel()
    m.put = pyo.Var(items, knapsacks, domain=pyo.Binary)
    m.gain = pyo.Expression(expr=sum(data["value"][i] * m.put[i, k] for i in items for k in knapsacks))
    m.objective = pyo.Objective(expr=m.gain, sense=pyo.maximize)
    m.once = pyo.Constraint(items, rule=lambda m, i: sum(m.put[i, k] for k in knapsacks) <= 1)
    m.capacity = pyo.Constraint(
        knapsacks, rule=lambda m, k: sum(data["weight"][i] * m.put[i, k] for i in items) <= data["capacity"][k]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """An item is either left over or in one knapsack: the least value left over, taken from the value of all."""
    m = gp.Model("left_over")
    left = m.addVars(data["items"], vtype=gp.GRB.BINARY, name="left")
    inside = {k: m.addVars(data["items"], vtype=gp.GRB.BINARY, name=f"in_{k}") for k in data["knapsacks"]}
    m.setObjective(sum(data["value"].values()) - left.prod(data["value"]), gp.GRB.MAXIMIZE)
    for i in data["items"]:
        m.addConstr(left[i] + gp.quicksum(group[i] for group in inside.values()) == 1, name=f"somewhere[{i}]")
    for k, room in data["capacity"].items():
        m.addConstr(room - inside[k].prod(data["weight"]) >= 0, name=f"room[{k}]")
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over the room left in every knapsack."""
    values, weights = ([data[key][i] for i in data["items"]] for key in ("value", "weight"))
    best = exact_packing.multiple_knapsack(values, weights, list(data["capacity"].values()))
    return None if best is None else float(best)


def _scenario(domain: str, who: str, item: str, items: str, knapsack: str, knapsacks: str, units: str, gain: str,
              gain_unit: str, item_names: Names, knapsack_names: Names) -> Scenario:  # fmt: skip
    told = {
        "who": who, "item": item, "items": items, "knapsack": knapsack, "knapsacks": knapsacks, "units": units,
        "gain": gain, "gain_unit": gain_unit,
    }  # fmt: skip
    return Scenario(domain, told, {"items": item_names, "knapsacks": knapsack_names})


SCENARIOS = (
    _scenario("haulage", "a haulier", "load", "loads", "lorry", "lorries", "tonnes", "revenue", "hundred euros",
              code("L"), words("Atlas Bison Condor Dragon Eagle Falcon", "T")),
    _scenario("computing", "a computing centre", "job", "jobs", "machine", "machines", "core-hours", "priority",
              "points", code("J"), words("ampere bohr curie dirac euler fermi", "M")),
    _scenario("health", "a hospital", "operation", "operations", "theatre", "theatres", "hours", "urgency", "points",
              code("P"), words("North South East West Annex Tower", "T")),
    _scenario("broadcasting", "a television station", "film", "films", "evening", "evenings", "quarter-hours",
              "audience", "thousand viewers", code("F"), WEEKDAYS),
    _scenario("shipping", "a shipping line", "cargo lot", "cargo lots", "ship", "ships", "containers", "freight",
              "thousand dollars", code("C"), words("Aurora Borea Ceres Doris Electra Flora", "S")),
    _scenario("science", "a telescope's programme committee", "observation", "observations", "night", "nights",
              "hours", "science score", "points", code("B"), WEEKDAYS),
    _scenario("workshops", "a repair shop", "order", "orders", "mechanic", "mechanics", "hours", "profit",
              "hundred pounds", code("R"), words("Ada Bruno Carla Dario Elif Femi Greta Hugo", "P")),
)  # fmt: skip

FAMILY = Family(
    title="Several knapsacks",
    area="packing",
    source="S. Martello and P. Toth, Knapsack Problems: Algorithms and Computer Implementations, 1990",
    sizes=SIZES,
    sets=(
        IndexSet("items", "{item}", "{items}", "i", "I"),
        IndexSet("knapsacks", "{knapsack}", "{knapsacks}", "k", "K"),
    ),
    fields=(
        Field("value", ("items",), "{gain}", "{gain_unit}", "v_i", (
            "{item} {0} brings {value} {gain_unit} of {gain}", "with {item} {0} come {value} {gain_unit} of {gain}",
            "{0} adds {value} {gain_unit} to the {gain}",
        )),
        Field("weight", ("items",), "need", "{units}", "w_i", (
            "{item} {0} needs {value} {units}", "for {0}, {value} {units} have to be set aside",
            "the {item} {0} takes up {value} {units}",
        )),
        Field("capacity", ("knapsacks",), "capacity", "{units}", "c_k", (
            "on {0} there is room for {value} {units}", "the capacity of {0} is {value} {units}",
            "{0} can take {value} {units} in all",
        )),
    ),
    contract=Contract(
        variables=(Variables("put", BINARY, "x_{ik}", "1 if {item} $i$ is assigned to {knapsack} $k$",
                             "{item} {0} is assigned to {1}"),),
        sense="maximize",
        goal=("total {gain}", "{gain_unit}"),
        objective=(Term("gain", r"\sum_{i \in I} \sum_{k \in K} v_i x_{ik}", (
            "What the assigned {items} bring adds up and does not depend on the {knapsack}; what is not "
            "assigned brings nothing.",
            "Only assigned {items} count towards the {gain}, and all {knapsacks} are as good for it.",
        )),),
        constraints=(
            Clause("once", r"\sum_{k \in K} x_{ik} \le 1", r"i \in I", (
                "Each {item} exists once and can be assigned to one {knapsack} or to none.",
                "Every {item} goes to a single {knapsack} at most; {items} may be turned down.",
            )),
            Clause("capacity", r"\sum_{i \in I} w_i x_{ik} \le c_k", r"k \in K", (
                "The {items} assigned to any one {knapsack} cannot need more than its capacity.",
                "In total, what is assigned to each {knapsack} must stay within its capacity.",
            )),
        ),
        integrality=(
            "No {item} can be divided between {knapsacks} or taken in part: every decision is yes or no.",
            "Each {item} is assigned whole or not at all, a yes-or-no decision for every {item} and {knapsack}.",
        ),
        fixed=("that each {item} is assigned at most once", "that {items} are not divided",
               "that every {knapsack} has a capacity of its own"),
        mistakes=(
            Mistake("items in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("every item has to be assigned", "for k in knapsacks) <= 1", "for k in knapsacks) == 1"),
            Mistake("one capacity for all knapsacks together",
                    'knapsacks, rule=lambda m, k: sum(data["weight"][i] * m.put[i, k] for i in items) <= '
                    'data["capacity"][k]',
                    'expr=sum(data["weight"][i] * m.put[i, k] for i in items for k in knapsacks) <= '
                    'sum(data["capacity"][k] for k in knapsacks)'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "There are more {items} than {who} has room for, and several {knapsacks} to put them on.",
        "Among many {items}, {who} chooses those to be assigned to its {knapsacks}.",
        "The {knapsacks} of {who} cannot take all the {items} that are waiting.",
    ),
    questions=(
        "Which {items} should be assigned to which {knapsack} so that the total {gain} is as large as possible?",
        "Find the assignment of {items} to {knapsacks} with the largest total {gain}.",
        "Maximise the total {gain}, in {gain_unit}, of the {items} that are assigned.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the value of what is left over instead of what is packed",
    optimum=optimum,
)  # fmt: skip
