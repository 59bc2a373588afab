"""Contract allocation: which suppliers get contracts for which items, and for how much, in a tender.

A contract has a least quantity and a handling cost; shares, numbers of contracts and suppliers' capacities are limited.
"""

import itertools
import random
from fractions import Fraction

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets
from trex.data.scenario import PLACES, Scenario, words

SIZES = {
    1: {"suppliers": (4, 6), "items": (1, 1)},
    2: {"suppliers": (5, 6), "items": (2, 3)},
    3: {"suppliers": (9, 10), "items": (6, 6)},
    4: {"suppliers": (13, 14), "items": (8, 8)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: least quantities, capacities and limits allow a random award to two or three suppliers.

    Suppliers that are cheap for an item cannot serve it alone, for shares are limited.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    suppliers, items = sets["suppliers"], sets["items"]
    demand = {i: 20 * rng.randint(5, 20) for i in items}
    share, winners, price = {}, {}, {}
    awards: dict[str, list[int]] = {s: [] for s in suppliers}
    for i in items:
        parts, share[i] = rng.choice((([0.55, 0.45], 0.6), ([0.4, 0.35, 0.25], 0.45), ([0.5, 0.3, 0.2], 0.5)))
        winners[i] = len(parts)
        for s, part in zip(rng.sample(suppliers, len(parts)), parts, strict=True):
            awards[s].append(round(part * demand[i]))
        base = rng.randint(25, 60)
        price[i] = {s: base + rng.randint(-7, 7) for s in suppliers}
    least, capacity = {}, {}
    for s in suppliers:
        usual = min(awards[s], default=5 * rng.randint(8, 20))
        least[s] = max(1, round(usual * rng.uniform(0.3, 0.8)))
        spare = rng.uniform(1.1, 1.8)
        capacity[s] = 1 + int(max(sum(awards[s]), usual) * spare)
    return {
        **sets, "demand": demand, "price": {s: {i: price[i][s] for i in items} for s in suppliers},
        "least": least, "capacity": capacity, "handling": {s: 10 * rng.randint(4, 30) for s in suppliers},
        "share": share, "winners": winners,
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Awards and contracts as a mixed-integer linear program."""
    suppliers, items, demand = data["suppliers"], data["items"], data["demand"]
    m = pyo.ConcreteModel()
    m.award = pyo.Var(suppliers, items, domain=pyo.NonNegativeReals)
    m.sign = pyo.Var(suppliers, items, domain=pyo.Binary)
    m.purchase = pyo.Expression(expr=sum(data["price"][s][i] * m.award[s, i] for s in suppliers for i in items))
    m.handling = pyo.Expression(expr=sum(data["handling"][s] * m.sign[s, i] for s in suppliers for i in items))
    m.objective = pyo.Objective(expr=m.purchase + m.handling, sense=pyo.minimize)

    m.demand = pyo.Constraint(items, rule=lambda m, i: sum(m.award[s, i] for s in suppliers) == demand[i])
    m.capacity = pyo.Constraint(suppliers, rule=lambda m, s: sum(m.award[s, i] for i in items) <= data["capacity"][s])
    m.least = pyo.Constraint(suppliers, items, rule=lambda m, s, i: m.award[s, i] >= data["least"][s] * m.sign[s, i])
    m.share = pyo.Constraint(
        suppliers, items, rule=lambda m, s, i: m.award[s, i] <= data["share"][i] * demand[i] * m.sign[s, i]
    )
    m.winners = pyo.Constraint(items, rule=lambda m, i: sum(m.sign[s, i] for s in suppliers) <= data["winners"][i])
    return m


def reformulated(data: dict) -> gp.Model:
    """A contract brings its least quantity by itself; variables are what is awarded beyond that."""
    pairs = [(i, s) for i in data["items"] for s in data["suppliers"]]
    m = gp.Model("beyond_the_least")
    won = m.addVars(pairs, vtype=gp.GRB.BINARY, name="won")
    more = m.addVars(pairs, name="more")
    base_cost = {(i, s): data["handling"][s] + data["price"][s][i] * data["least"][s] for i, s in pairs}
    m.setObjective(
        won.prod(base_cost) + gp.quicksum(data["price"][s][i] * more[i, s] for i, s in pairs), gp.GRB.MINIMIZE
    )
    for i in data["items"]:
        amounts = [data["least"][s] * won[i, s] + more[i, s] for s in data["suppliers"]]
        m.addConstr(gp.quicksum(amounts) == data["demand"][i], name=f"cover[{i}]")
        m.addConstr(won.sum(i, "*") <= data["winners"][i], name=f"contracts[{i}]")
        for s in data["suppliers"]:
            span = data["share"][i] * data["demand"][i] - data["least"][s]
            m.addConstr(more[i, s] <= span * won[i, s], name=f"largest[{i},{s}]")
    for s in data["suppliers"]:
        total = gp.quicksum(data["least"][s] * won[i, s] + more[i, s] for i in data["items"])
        m.addConstr(total <= data["capacity"][s], name=f"able[{s}]")
    return m


def optimum(data: dict) -> float | None:
    """Every choice of suppliers, each filled up in order of price; for one item only."""
    if len(data["items"]) > 1:
        return None
    i = data["items"][0]
    demand, found = Fraction(data["demand"][i]), []
    largest = exact.fraction(data["share"][i]) * demand
    for count in range(1, data["winners"][i] + 1):
        for chosen in itertools.combinations(data["suppliers"], count):
            most = {s: min(largest, Fraction(data["capacity"][s])) for s in chosen}
            left = demand - sum(data["least"][s] for s in chosen)
            if left < 0 or sum(most.values()) < demand or any(most[s] < data["least"][s] for s in chosen):
                continue
            cost = Fraction(sum(data["handling"][s] + data["price"][s][i] * data["least"][s] for s in chosen))
            for s in sorted(chosen, key=lambda s: data["price"][s][i]):
                added = min(left, most[s] - data["least"][s])
                left -= added
                cost += data["price"][s][i] * added
            found.append(cost)
    return float(min(found))


def _scenario(domain: str, owner: str, item: str, items: str, pool: str, unit: str, supplier: str,
              money: str) -> Scenario:  # fmt: skip
    told = {
        "owner": owner, "item": item, "items": items, "unit": unit, "units": unit + "s", "supplier": supplier,
        "suppliers": supplier + "s", "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"items": words(pool, "A"), "suppliers": PLACES})


SCENARIOS = (
    _scenario("public procurement", "a city", "material", "materials",
              "gravel asphalt salt sand cement paint topsoil mulch kerbstone", "tonne", "contractor", "euros"),
    _scenario("school meals", "a school authority", "food", "foods",
              "rice pasta potatoes carrots apples bread cheese beans milk", "tonne", "caterer", "pounds"),
    _scenario("mining", "a coal power company", "grade", "grades",
              "lignite anthracite coke bituminous blend washed nut pea slack", "kilotonne", "mine", "thousand dollars"),
    _scenario("health", "a hospital network", "supply", "supplies",
              "gloves gowns masks syringes gauze drapes catheters swabs bandages", "pallet", "manufacturer", "francs"),
    _scenario("manufacturing", "a car maker", "raw material", "raw materials",
              "steel aluminium copper rubber glass resin zinc magnesium leather", "tonne", "vendor", "euros"),
    _scenario("forestry", "a paper group", "wood", "woods", "spruce pine birch beech poplar fir larch aspen alder",
              "truckload", "forest owner", "dollars"),
    _scenario("telecommunications", "a network operator", "cable type", "cable types",
              "copper fibre coaxial hybrid aerial duct submarine drop ribbon", "kilometre", "producer", "euros"),
)  # fmt: skip

FAMILY = Family(
    title="Contract allocation with least quantities and limited shares",
    area="contracts",
    source="S. S. Chaudhry, F. G. Forst and J. L. Zydiak, Vendor selection with price breaks, 1993",
    sizes=SIZES,
    sets=(
        IndexSet("suppliers", "{supplier}", "{suppliers}", "s", "S"),
        IndexSet("items", "{item}", "{items}", "i", "I"),
    ),
    fields=(
        Field("demand", ("items",), "quantity needed", "{units}", "d_i", (
            "{value} {units} of {0} are needed", "the tender asks for {value} {units} of {0}",
        )),
        Field("price", ("suppliers", "items"), "price", "{money} per {unit}", "p_{si}", (
            ("the {supplier} from {0} asks, in {money} per {unit},", "{value} for {1}"),
            ("the bid from {0} in {money} per {unit} is", "{value} for {1}"),
        )),
        Field("least", ("suppliers",), "least quantity of a contract", "{units}", "l_s", (
            "the {supplier} from {0} accepts no contract below {value} {units}",
            "for {0}, each contract has to be for {value} {units} or more",
        )),
        Field("capacity", ("suppliers",), "capacity", "{units}", "c_s", (
            "the {supplier} from {0} can deliver {value} {units} in all",
            "{0} can supply at most {value} {units}, all {items} together",
        )),
        Field("handling", ("suppliers",), "handling cost", "{money} per contract", "h_s", (
            "handling a contract with the {supplier} from {0} costs {value} {money}",
            "each contract with {0} causes {value} {money} of handling cost",
        )),
        Field("share", ("items",), "largest share of one {supplier}", "fraction of the quantity needed", "r_i", (
            "the largest share of one {supplier} in the quantity of {0} is {value}",
            "as a fraction of the quantity of {0}, one {supplier} may get {value} at most",
        )),
        Field("winners", ("items",), "largest number of contracts", "contracts", "n_i", (
            "at most {value} contracts can be signed for {0}",
            "for {0} the number of contracts may not exceed {value}",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("award", CONTINUOUS, "x_{si}", "{units} of {item} $i$ awarded to {supplier} $s$",
                      "{0} gets {value} {units} of {1}"),
            Variables("sign", BINARY, "y_{si}", "1 if {supplier} $s$ gets a contract for {item} $i$"),
        ),
        sense="minimize",
        goal=("total cost of purchases and contracts", "{money}"),
        objective=(
            Term("purchase", r"\sum_{s \in S} \sum_{i \in I} p_{si} x_{si}", (
                "What is awarded is paid at the price that the {supplier} asks for it.",
                "Every {unit} costs the price of its {supplier} and {item}.",
            )),
            Term("handling", r"\sum_{s \in S} \sum_{i \in I} h_s y_{si}", (
                "Handling cost is due for every contract; a {supplier} that wins several {items} has a contract for "
                "each of them.",
                "A contract is for one {item} with one {supplier}, and each contract has its handling cost.",
            )),
        ),
        constraints=(
            Clause("demand", r"\sum_{s \in S} x_{si} = d_i", r"i \in I", (
                "Of each {item} exactly the quantity needed is awarded, to one or more {suppliers}.",
                "The quantities awarded for a {item} have to add up to exactly what is needed.",
            )),
            Clause("capacity", r"\sum_{i \in I} x_{si} \le c_s", r"s \in S", (
                "No {supplier} can be awarded more than its capacity over all {items}.",
                "All that a {supplier} is awarded, of whichever {item}, has to stay within its capacity.",
            )),
            Clause("least", r"x_{si} \ge l_s y_{si}", r"s \in S,\ i \in I", (
                "A {supplier} either gets no contract for a {item} or one of at least its least quantity.",
                "Each contract has to reach the least quantity that its {supplier} accepts for a single contract.",
            )),
            Clause("share", r"x_{si} \le r_i d_i y_{si}", r"s \in S,\ i \in I", (
                "Nothing is delivered without a contract, and no {supplier} gets more of a {item} than the largest "
                "share of the quantity needed.",
                "A {supplier} with a contract for a {item} may get up to the largest share of it, and without one "
                "nothing.",
            )),
            Clause("winners", r"\sum_{s \in S} y_{si} \le n_i", r"i \in I", (
                "The number of contracts for each {item} is limited.",
                "For each {item} only a limited number of {suppliers} can get contracts.",
            )),
        ),
        integrality=(
            "Whether a contract is signed is a yes-or-no decision; quantities are not negative and need not be whole "
            "{units}.",
            "Awards may be any fraction of a {unit}, but a contract is signed or not.",
        ),
        fixed=("that all that is needed is awarded", "that no {supplier} exceeds its share",
               "that least quantities hold for each contract by itself"),
        mistakes=(
            Mistake("contracts in parts", "m.sign = pyo.Var(suppliers, items, domain=pyo.Binary)",
                    "m.sign = pyo.Var(suppliers, items, bounds=(0, 1))"),
            Mistake("least quantity without a contract", 'data["least"][s] * m.sign[s, i]', 'data["least"][s]'),
            Mistake("no limit on the share", 'data["share"][i] * demand[i] * m.sign', "demand[i] * m.sign"),
            Mistake("a number of contracts to be reached exactly", '<= data["winners"][i]', '== data["winners"][i]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "{owner} has received bids from several {suppliers} and allocates its contracts.",
        "After a tender, {owner} decides which {suppliers} get contracts.",
        "{owner} buys from several {suppliers} so as not to depend on a single one.",
    ),
    questions=(
        "How should the contracts be allocated so that the total cost is as small as possible?",
        "Find the awards with the least cost of purchases and contracts together, in {money}.",
        "Which {suppliers} should get contracts, and for how many {units}, at the least total cost?",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="quantities beyond the least ones instead of whole awards",
    optimum=optimum,
)  # fmt: skip
