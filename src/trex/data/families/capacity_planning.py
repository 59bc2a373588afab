"""Capacity planning: when to extend which plant by how many modules while demand grows, within yearly budgets.

Modules are whole and stay; output is continuous; what the plants do not make is bought outside.
"""

import itertools
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import CONTINUOUS, INTEGER, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets
from trex.data.scenario import PLACES, Names, Scenario

SIZES = {
    1: {"plants": (2, 2), "periods": (2, 3)},
    2: {"plants": (2, 3), "periods": (5, 6)},
    3: {"plants": (5, 6), "periods": (9, 10)},
    4: {"plants": (6, 6), "periods": (15, 16)},
}
MOST_STATES = 150  # of the dynamic program


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Always feasible, for all demand may be bought outside. Demand outgrows the plants from the first period on.

    A module costs about what it saves in two to four periods; a budget pays for about one module.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    plants, periods = sets["plants"], sets["periods"]
    module = {i: 5 * rng.randint(2, 6) for i in plants}
    capacity = {i: 5 * rng.randint(4, 12) for i in plants}
    room = {i: rng.randint(2, 3) for i in plants}
    demand, level = {}, float(sum(capacity.values()))
    growth = 1 + rng.uniform(0.6, 1.0) * sum(module[i] * room[i] for i in plants) / level / len(periods)
    for t in periods:
        level *= growth
        demand[t] = 5 * round(level / 5)
    years = rng.uniform(2, 4) if len(periods) > 3 else rng.uniform(0.8, 1.6)
    base = {i: 10 * round(module[i] * years) for i in plants}
    largest = max(base.values())
    return {
        **sets, "demand": demand, "capacity": capacity, "module": module, "room": room,
        "investment": {i: {t: base[i] + 10 * rng.randint(0, 6) for t in periods} for i in plants},
        "upkeep": {i: 5 * rng.randint(1, 6) for i in plants}, "unit_cost": {i: rng.randint(4, 9) for i in plants},
        "outside_price": {t: rng.randint(16, 22) for t in periods},
        "budget": {t: largest + 10 * rng.randint(4, 6 + 8 * len(plants)) for t in periods},
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Modules, output and purchases as a mixed-integer linear program."""
    plants, periods = data["plants"], data["periods"]
    m = pyo.ConcreteModel()
    m.build = pyo.Var(plants, periods, domain=pyo.NonNegativeIntegers)
    m.output = pyo.Var(plants, periods, domain=pyo.NonNegativeReals)
    m.outside = pyo.Var(periods, domain=pyo.NonNegativeReals)
    built = {(i, t): sum(m.build[i, s] for s in periods[: k + 1]) for i in plants for k, t in enumerate(periods)}

    m.investment = pyo.Expression(expr=sum(data["investment"][i][t] * m.build[i, t] for i in plants for t in periods))
    m.upkeep = pyo.Expression(expr=sum(data["upkeep"][i] * built[i, t] for i in plants for t in periods))
    m.production = pyo.Expression(expr=sum(data["unit_cost"][i] * m.output[i, t] for i in plants for t in periods))
    m.purchases = pyo.Expression(expr=sum(data["outside_price"][t] * m.outside[t] for t in periods))
    m.objective = pyo.Objective(expr=m.investment + m.upkeep + m.production + m.purchases, sense=pyo.minimize)

    m.demand = pyo.Constraint(
        periods, rule=lambda m, t: sum(m.output[i, t] for i in plants) + m.outside[t] >= data["demand"][t]
    )
    m.capacity = pyo.Constraint(
        plants,
        periods,
        rule=lambda m, i, t: m.output[i, t] <= data["capacity"][i] + data["module"][i] * built[i, t],
    )
    m.room = pyo.Constraint(plants, rule=lambda m, i: built[i, periods[-1]] <= data["room"][i])
    m.budget = pyo.Constraint(
        periods, rule=lambda m, t: sum(data["investment"][i][t] * m.build[i, t] for i in plants) <= data["budget"][t]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """Modules in place instead of modules built; purchases are what output leaves of demand."""
    periods = data["periods"]
    m = gp.Model("modules_in_place")
    spent, saved = dict.fromkeys(periods, 0), dict.fromkeys(periods, 0)
    total = sum(data["outside_price"][t] * data["demand"][t] for t in periods)
    made = dict.fromkeys(periods, 0)
    for i in data["plants"]:
        previous: gp.Var | int = 0
        for t in periods:
            place = m.addVar(ub=data["room"][i], vtype=gp.GRB.INTEGER, name=f"place[{i},{t}]")
            make = m.addVar(name=f"make[{i},{t}]")
            m.addConstr(place >= previous, name=f"stay[{i},{t}]")
            m.addConstr(make - data["module"][i] * place <= data["capacity"][i], name=f"plant[{i},{t}]")
            spent[t] += data["investment"][i][t] * (place - previous)
            saved[t] += (data["outside_price"][t] - data["unit_cost"][i]) * make
            total += data["upkeep"][i] * place
            made[t] += make
            previous = place
    for t in periods:
        m.addConstr(spent[t] <= data["budget"][t], name=f"funds[{t}]")
        m.addConstr(made[t] <= data["demand"][t], name=f"market[{t}]")
        total += spent[t] - saved[t]
    m.setObjective(total, gp.GRB.MINIMIZE)
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over the modules in place, with output in order of cost; for few plants."""
    plants = data["plants"]
    states = list(itertools.product(*(range(data["room"][i] + 1) for i in plants)))
    if len(states) > MOST_STATES:
        return None
    cheapest = {tuple([0] * len(plants)): 0.0}
    for t in data["periods"]:
        running = {}
        for state in states:
            left, cost = data["demand"][t], 0.0
            for i, count in sorted(zip(plants, state, strict=True), key=lambda pair: data["unit_cost"][pair[0]]):
                amount = min(left, data["capacity"][i] + data["module"][i] * count)
                left -= amount
                cost += data["unit_cost"][i] * amount + data["upkeep"][i] * count
            running[state] = cost + data["outside_price"][t] * left
        after: dict[tuple[int, ...], float] = {}
        for (old, so_far), new in itertools.product(cheapest.items(), states):
            added = [b - a for a, b in zip(old, new, strict=True)]
            price = sum(data["investment"][i][t] * n for i, n in zip(plants, added, strict=True))
            if min(added) >= 0 and price <= data["budget"][t]:
                after[new] = min(after.get(new, float("inf")), so_far + price + running[new])
        cheapest = after
    return min(cheapest.values())


YEARS = Names(code="Y", order="first")
QUARTERS = Names(code="Q", order="first")


def _scenario(domain: str, owner: str, goods: str, unit: str, plant: str, plants: str, module: str, money: str,
              periods: Names, period: str) -> Scenario:  # fmt: skip
    told = {
        "owner": owner, "goods": goods, "unit": unit, "units": unit + "s", "plant": plant, "plants": plants,
        "module": module, "modules": module + "s", "money": money, "period": period,
    }  # fmt: skip
    return Scenario(domain, told, {"plants": PLACES, "periods": periods})


SCENARIOS = (
    _scenario("batteries", "a battery maker", "cells", "megawatt-hour", "gigafactory", "gigafactories",
              "coating line", "thousand euros", YEARS, "year"),
    _scenario("water supply", "a regional water board", "drinking water", "megalitre", "waterworks", "waterworks",
              "filter block", "thousand pounds", YEARS, "year"),
    _scenario("brewing", "a brewing company", "beer", "kilolitre", "brewery", "breweries", "fermenter",
              "hundred euros", YEARS, "year"),
    _scenario("data centres", "a hosting company", "computing", "petaflop", "data centre", "data centres",
              "server hall", "thousand dollars", QUARTERS, "quarter"),
    _scenario("steel", "a steel group", "hot strip", "kilotonne", "mill", "mills", "furnace", "thousand dollars",
              YEARS, "year"),
    _scenario("waste", "a waste company", "incineration", "kilotonne", "recovery plant", "recovery plants",
              "kiln", "thousand francs", YEARS, "year"),
    _scenario("pharmaceuticals", "a vaccine maker", "vaccine", "million-dose lot", "site", "sites", "bioreactor",
              "thousand francs", QUARTERS, "quarter"),
)  # fmt: skip

FAMILY = Family(
    title="Capacity planning by modules under budgets",
    area="production",
    source="H. Luss, Operations research and capacity expansion problems: a survey, 1982",
    sizes=SIZES,
    sets=(
        IndexSet("plants", "{plant}", "{plants}", "i", "I"),
        IndexSet("periods", "{period}", "{period}s, in order", "t", "T"),
    ),
    fields=(
        Field("demand", ("periods",), "demand for {goods}", "{units}", "d_t", (
            "in {0} the demand is {value} {units}", "{value} {units} of {goods} are needed in {0}",
        )),
        Field("capacity", ("plants",), "capacity today", "{units} per {period}", "q_i", (
            "without new {modules}, {0} has a capacity of {value} {units} per {period}",
            "the {plant} in {0} can turn out {value} {units} per {period} as it stands",
        )),
        Field("module", ("plants",), "capacity of a {module}", "{units} per {period}", "m_i", (
            "each new {module} in {0} adds {value} {units} per {period}",
            "a {module} raises the capacity of {0} by {value} {units} per {period}",
        )),
        Field("room", ("plants",), "room for new {modules}", "{modules}", "n_i", (
            "{0} has room for {value} new {modules}", "no more than {value} {modules} can ever be added in {0}",
        )),
        Field("investment", ("plants", "periods"), "price of a {module}", "{money} per {module}", "v_{it}", (
            ("in {money}, a {module} built in {0} costs", "{value} in {1}"),
            ("adding a {module} in {0} takes an investment, in {money}, of", "{value} in {1}"),
        )),
        Field("upkeep", ("plants",), "upkeep", "{money} per {module} and {period}", "w_i", (
            "the upkeep of a new {module} in {0} is {value} {money} per {period}",
            "a {module} added in {0} costs {value} {money} of upkeep per {period}",
        )),
        Field("unit_cost", ("plants",), "production cost", "{money} per {unit}", "c_i", (
            "production in {0} costs {value} {money} per {unit}", "a {unit} from {0} costs {value} {money}",
        )),
        Field("outside_price", ("periods",), "outside price", "{money} per {unit}", "p_t", (
            "in {0} a {unit} from outside costs {value} {money}",
            "competitors charge {value} {money} per {unit} in {0}",
        )),
        Field("budget", ("periods",), "budget for new {modules}", "{money}", "b_t", (
            "{value} {money} may be invested in {0}", "the budget of {0} is {value} {money}",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("build", INTEGER, "y_{it}", "{modules} built at {plant} $i$ in {period} $t$",
                      "{modules} built in {0} in {1}: {value}"),
            Variables("output", CONTINUOUS, "x_{it}", "{units} from {plant} $i$ in {period} $t$",
                      "{0} turns out {value} {units} in {1}"),
            Variables("outside", CONTINUOUS, "z_t", "{units} bought outside in {period} $t$",
                      "buy {value} {units} outside in {0}"),
        ),
        sense="minimize",
        goal=("total cost of investment, upkeep, production and purchases", "{money}"),
        objective=(
            Term("investment", r"\sum_{i \in I} \sum_{t \in T} v_{it} y_{it}", (
                "A {module} is paid in the {period} in which it is built, at the price of its {plant} and {period}.",
                "Every {module} costs the price that holds for its {plant} in the {period} of building.",
            )),
            Term("upkeep", r"\sum_{i \in I} \sum_{t \in T} w_i \sum_{u \le t} y_{iu}", (
                "Upkeep is due for every new {module} in the {period} of building and in each {period} after it, "
                "used or not.",
                "From the {period} in which it is built until the last, each new {module} costs its upkeep, whether "
                "it is used or not.",
            )),
            Term("production", r"\sum_{i \in I} \sum_{t \in T} c_i x_{it}", (
                "Production cost is proportional to the output of a {plant}, from old and new capacity alike.",
                "Each {unit} made costs the rate of its {plant}, whether old or new capacity makes it.",
            )),
            Term("purchases", r"\sum_{t \in T} p_t z_t", (
                "Any quantity of {goods} may also be bought outside, at the price of the {period}.",
                "What is missing can be bought from others at the outside price, without limit.",
            )),
        ),
        constraints=(
            Clause("demand", r"\sum_{i \in I} x_{it} + z_t \ge d_t", r"t \in T", (
                "The output of all {plants} and the purchases together have to cover the demand of each {period}; "
                "nothing is carried over to another {period}.",
                "Demand has to be met in every {period} from the output and the purchases of the same {period}.",
            )),
            Clause("capacity", r"x_{it} \le q_i + m_i \sum_{u \le t} y_{iu}", r"i \in I,\ t \in T", (
                "A {plant} can turn out as much as its capacity today and its new {modules} allow; a {module} can be "
                "used from the {period} in which it is built, and for good.",
                "New {modules} add to the capacity of their {plant} in the {period} of building and ever after; no "
                "{plant} can exceed its capacity.",
            )),
            Clause("room", r"\sum_{t \in T} y_{it} \le n_i", r"i \in I", (
                "The {modules} added to a {plant} in all {period}s together cannot exceed its room.",
                "At each {plant} the number of new {modules} over the whole time is limited by its room.",
            )),
            Clause("budget", r"\sum_{i \in I} v_{it} y_{it} \le b_t", r"t \in T", (
                "The investment in all {plants} in a {period} must stay within the budget of that {period}; what is "
                "left of a budget is lost. Upkeep is not paid from it.",
                "Budgets limit what new {modules} cost in each {period}, not their upkeep, and cannot be saved for "
                "later.",
            )),
        ),
        integrality=(
            "Only whole {modules} can be built, several at once if need be; output and purchases may be any "
            "non-negative quantity.",
            "The numbers of {modules} are whole; {units} made or bought may be fractional but not negative.",
        ),
        fixed=("that {modules} once built stay", "that budgets cannot be carried over",
               "that {goods} cannot be stored from one {period} to the next"),
        mistakes=(
            Mistake("modules in parts", "domain=pyo.NonNegativeIntegers", "domain=pyo.NonNegativeReals"),
            Mistake("modules serve in the period of building only",
                    "sum(m.build[i, s] for s in periods[: k + 1])", "m.build[i, t]"),
            Mistake("modules serve from the next period on", "periods[: k + 1]", "periods[:k]"),
            Mistake("the capacity of today forgotten", 'data["capacity"][i] + data["module"]', 'data["module"]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "The demand for {goods} is growing, and {owner} considers new {modules} for its {plants}.",
        "{owner} plans the extension of its {plants} over the coming {period}s.",
        "For the coming {period}s, {owner} has to choose between new {modules} and buying {goods} from others.",
    ),
    questions=(
        "Where and when should {modules} be built so that the total cost over all {period}s is as small as possible?",
        "Find the plan of extensions, output and purchases with the least total cost, in {money}.",
        "Minimise the total of investment, upkeep, production cost and purchases.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="modules in place instead of modules built",
    optimum=optimum,
)  # fmt: skip
