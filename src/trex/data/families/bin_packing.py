"""Bin packing: put every item whole into one of the bins hired, which differ in capacity and cost, at least cost."""

import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_packing
from trex.data.contract import BINARY, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets
from trex.data.scenario import Names, Scenario, code, words

SIZES = {
    1: {"items": (4, 4), "bins": (3, 3)},
    2: {"items": (7, 9), "bins": (4, 4)},
    3: {"items": (15, 18), "bins": (6, 6)},
    4: {"items": (30, 34), "bins": (7, 7)},
}
MOST_ITEMS = 20  # for which sets of bins are tried one by one


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: redrawn until first fit, largest item first, finds room for all items in all bins.

    The bins hold about half as much again as there is, at costs that follow capacities with noise.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        items, bins = sets["items"], sets["bins"]
        size = {i: rng.randint(5, 30) for i in items}
        weight = {b: rng.uniform(2, 5) for b in bins}
        total = rng.uniform(1.4, 1.7) * sum(size.values())
        capacity = {b: max(*size.values(), round(total * weight[b] / sum(weight.values()))) for b in bins}
        cost = {b: max(1, round(4 * capacity[b] * rng.uniform(0.8, 1.3))) for b in bins}
        left = dict(capacity)
        for i in sorted(items, key=lambda i: -size[i]):
            place = next((b for b in bins if left[b] >= size[i]), None)
            if place is None:
                break
            left[place] -= size[i]
        else:
            return {**sets, "size": size, "capacity": capacity, "cost": cost}


def model(data: dict) -> pyo.ConcreteModel:
    """Assignment of items to bins as a binary program."""
    items, bins = data["items"], data["bins"]
    m = pyo.ConcreteModel()
    m.put = pyo.Var(items, bins, domain=pyo.Binary)
    m.hire = pyo.Var(bins, domain=pyo.Binary)
    m.hiring = pyo.Expression(expr=sum(data["cost"][b] * m.hire[b] for b in bins))
    m.objective = pyo.Objective(expr=m.hiring, sense=pyo.minimize)
    m.once = pyo.Constraint(items, rule=lambda m, i: sum(m.put[i, b] for b in bins) == 1)
    m.capacity = pyo.Constraint(
        bins, rule=lambda m, b: sum(data["size"][i] * m.put[i, b] for i in items) <= data["capacity"][b] * m.hire[b]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """What not hiring saves: a bin left out takes no item, item by item, and those left out can be spared."""
    m = gp.Model("bins_left_out")
    out = m.addVars(data["bins"], vtype=gp.GRB.BINARY, name="out")
    inside = m.addVars(data["bins"], data["items"], vtype=gp.GRB.BINARY, name="inside")
    m.setObjective(sum(data["cost"].values()) - out.prod(data["cost"]), gp.GRB.MINIMIZE)
    m.addConstrs((inside.sum("*", i) >= 1 for i in data["items"]), name="everything")
    for b, room in data["capacity"].items():
        m.addConstr(gp.quicksum(data["size"][i] * inside[b, i] for i in data["items"]) <= room, name=f"room[{b}]")
        m.addConstrs((inside[b, i] + out[b] <= 1 for i in data["items"]), name=f"empty[{b}]")
    spare = sum(data["capacity"].values()) - sum(data["size"].values())
    m.addConstr(out.prod(data["capacity"]) <= spare, name="spare")
    return m


def optimum(data: dict) -> float | None:
    """By trying sets of bins, cheapest first."""
    if len(data["items"]) > MOST_ITEMS:
        return None
    sizes = [data["size"][i] for i in data["items"]]
    capacities, costs = ([data[key][b] for b in data["bins"]] for key in ("capacity", "cost"))
    return float(exact_packing.cheapest_bins(sizes, capacities, costs))


def _scenario(domain: str, who: str, item: str, items: str, container: str, containers: str, units: str, money: str,
              item_names: Names, bin_names: Names) -> Scenario:  # fmt: skip
    told = {
        "who": who, "item": item, "items": items, "bin": container, "bins": containers, "units": units, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"items": item_names, "bins": bin_names})


SCENARIOS = (
    _scenario("haulage", "a haulier", "consignment", "consignments", "lorry", "lorries", "pallets", "euros", code("C"),
              words("Atlas Bison Condor Dragon Eagle Falcon Gazelle Hawk", "L")),
    _scenario("computing", "a data centre", "virtual machine", "virtual machines", "server", "servers", "gigabytes",
              "dollars", code("V"), words("ampere bohr curie dirac euler fermi gauss hertz", "S")),
    _scenario("tourism", "a tour operator", "travel group", "travel groups", "coach", "coaches", "seats", "euros",
              code("G"), code("K")),
    _scenario("archives", "a city archive", "collection", "collections", "depot", "depots", "shelf metres", "francs",
              words("maps letters charters posters diaries ledgers photographs prints newspapers blueprints", "A"),
              words("cellar attic tower annex vault gatehouse pavilion chapel", "D")),
    _scenario("shipping", "a freight forwarder", "shipment", "shipments", "container", "containers", "cubic metres",
              "dollars", code("S"), code("X")),
    _scenario("conferences", "a congress office", "workshop", "workshops", "hall", "halls", "booths", "pounds",
              code("W"), words("Amber Beryl Coral Diamond Emerald Garnet Jade Opal", "H")),
    _scenario("nurseries", "a tree nursery", "order", "orders", "trailer", "trailers", "root balls", "euros",
              words("maples beeches limes oaks birches cherries pines firs alders elms", "B"), code("T")),
)  # fmt: skip

FAMILY = Family(
    title="Bin packing with bins of different capacity and cost",
    area="packing",
    source="S. Martello and P. Toth, Knapsack Problems: Algorithms and Computer Implementations, 1990",
    sizes=SIZES,
    sets=(
        IndexSet("items", "{item}", "{items}", "i", "I"),
        IndexSet("bins", "{bin}", "{bins}", "b", "B"),
    ),
    fields=(
        Field("size", ("items",), "size", "{units}", "s_i", (
            "the {item} {0} takes up {value} {units}", "{item} {0} needs {value} {units}",
            "for {0} a space of {value} {units} is needed",
        )),
        Field("capacity", ("bins",), "capacity", "{units}", "c_b", (
            "the {bin} {0} has {value} {units}", "{bin} {0} offers {value} {units}", "in {0} there are {value} {units}",
        )),
        Field("cost", ("bins",), "hire", "{money}", "h_b", (
            "hiring the {bin} {0} costs {value} {money}", "the hire of {0} is {value} {money}",
            "{value} {money} are due if {bin} {0} is hired",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("put", BINARY, "x_{ib}", "1 if {item} $i$ is put into {bin} $b$", "{0} goes into {1}"),
            Variables("hire", BINARY, "y_b", "1 if {bin} $b$ is hired", "{bin} {0} is hired"),
        ),
        sense="minimize",
        goal=("total hire", "{money}"),
        objective=(Term("hiring", r"\sum_{b \in B} h_b y_b", (
            "The hire of a {bin} does not depend on how full it is, and {bins} that are not hired cost nothing.",
            "A {bin} costs its full hire as soon as anything is put into it.",
        )),),
        constraints=(
            Clause("once", r"\sum_{b \in B} x_{ib} = 1", r"i \in I", (
                "Every {item} must be put into exactly one {bin}.",
                "No {item} may be left out, and each goes into one {bin} as a whole.",
            )),
            Clause("capacity", r"\sum_{i \in I} s_i x_{ib} \le c_b y_b", r"b \in B", (
                "The {items} in a {bin} cannot take up more than its capacity, and nothing can be put into a {bin} "
                "that is not hired.",
                "Only {bins} that are hired can be used, each up to its capacity.",
            )),
        ),
        integrality=(
            "The {items} cannot be divided, and each {bin} exists once: all decisions are yes or no.",
            "Whether a {bin} is hired, and which one each {item} goes into, are yes-or-no decisions; nothing is split, "
            "and there is one {bin} of each name.",
        ),
        fixed=("that no {item} is split or left out", "that each {bin} exists once",
               "that a {bin} is hired as a whole"),
        mistakes=(
            Mistake("items in parts", "m.put = pyo.Var(items, bins, domain=pyo.Binary)",
                    "m.put = pyo.Var(items, bins, bounds=(0, 1))"),
            Mistake("items may be left out", "== 1", "<= 1"),
            Mistake("bins that are not hired can be filled", 'data["capacity"][b] * m.hire[b]', 'data["capacity"][b]'),
            Mistake("one capacity for all bins together",
                    'bins, rule=lambda m, b: sum(data["size"][i] * m.put[i, b] for i in items) <= '
                    'data["capacity"][b] * m.hire[b]',
                    'expr=sum(data["size"][i] * m.put[i, b] for i in items for b in bins) <= '
                    'sum(data["capacity"][b] * m.hire[b] for b in bins)'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "For its {items}, {who} can hire {bins} that differ in capacity and price.",
        "At {who}, several {items} are waiting to be distributed over {bins}.",
        "Before the season starts, {who} decides which {bins} to hire and which {items} to put into each.",
    ),
    questions=(
        "Which {bins} should be hired, and which {items} go into each, so that the total hire is as small as possible?",
        "Find the cheapest set of {bins} that takes all {items}.",
        "Minimise the total hire in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="bins left out instead of those hired, linked item by item",
    optimum=optimum,
)  # fmt: skip
