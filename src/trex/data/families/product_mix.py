"""Product mix: how much of each product to make on which line, with common materials and a cost to start a line.

Quantities are continuous; a line is started or not. Every product has a least and a largest quantity.
"""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import Scenario, code, words

SIZES = {
    1: {"products": (3, 4), "lines": (2, 2), "materials": (1, 1)},
    2: {"products": (8, 10), "lines": (3, 4), "materials": (2, 2)},
    3: {"products": (22, 25), "lines": (6, 6), "materials": (3, 3)},
    4: {"products": (36, 40), "lines": (8, 8), "materials": (4, 4)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: with all lines started, hours and materials suffice for a plan of least quantities.

    They do not suffice for all that could be sold.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    products, lines, materials = sets["products"], sets["lines"], sets["materials"]
    hours = {}
    for p in products:
        able = set(rng.sample(lines, rng.randint(len(lines) - 1, len(lines))))
        hours[p] = {k: rng.randint(2, 8) * 0.5 for k in lines if k in able}
    market = {p: 5 * rng.randint(4, 16) for p in products}
    least = {p: 5 * rng.randint(1, max(1, market[p] // 15)) for p in products}
    need = {p: {r: rng.randint(1, 9) * 0.5 for r in materials} for p in products}
    load = dict.fromkeys(lines, 0.0)
    for p in products:
        k = rng.choice(list(hours[p]))
        load[k] += hours[p][k] * least[p]
    wanted = sum(market[p] * sum(hours[p].values()) / len(hours[p]) for p in products) / len(lines)
    capacity = {k: 10 * math.ceil((load[k] + wanted * rng.uniform(0.3, 0.7)) / 10) for k in lines}
    stock = {}
    for r in materials:
        bottom, top = (sum(need[p][r] * amount[p] for p in products) for amount in (least, market))
        stock[r] = 5 * math.ceil((bottom + (top - bottom) * rng.uniform(0.3, 0.6)) / 5)
    return {
        **sets, "margin": {p: rng.randint(20, 80) for p in products}, "least": least, "market": market,
        "hours": {p: {k: nice(value) for k, value in row.items()} for p, row in hours.items()},
        "need": {p: {r: nice(value) for r, value in row.items()} for p, row in need.items()}, "stock": stock,
        "capacity": capacity, "hour_cost": {k: rng.randint(3, 9) for k in lines},
        "start_cost": {k: 10 * round(capacity[k] * rng.uniform(0.2, 0.9)) for k in lines},
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Quantities by product and line, and the lines to start, as a mixed-integer linear program."""
    products, lines, hours = data["products"], data["lines"], data["hours"]
    ways = [(p, k) for p in products for k in lines if k in hours[p]]
    m = pyo.ConcreteModel()
    m.make = pyo.Var(ways, domain=pyo.NonNegativeReals)
    m.start = pyo.Var(lines, domain=pyo.Binary)
    m.margin = pyo.Expression(expr=sum(data["margin"][p] * m.make[p, k] for p, k in ways))
    m.running = pyo.Expression(expr=-sum(data["hour_cost"][k] * hours[p][k] * m.make[p, k] for p, k in ways))
    m.starting = pyo.Expression(expr=-sum(data["start_cost"][k] * m.start[k] for k in lines))
    m.objective = pyo.Objective(expr=m.margin + m.running + m.starting, sense=pyo.maximize)

    total = {p: sum(m.make[p, k] for k in hours[p]) for p in products}
    m.capacity = pyo.Constraint(
        lines,
        rule=lambda m, k: (
            sum(hours[p][k] * m.make[p, k] for p in products if k in hours[p]) <= data["capacity"][k] * m.start[k]
        ),
    )
    m.material = pyo.Constraint(
        data["materials"], rule=lambda m, r: sum(data["need"][p][r] * total[p] for p in products) <= data["stock"][r]
    )
    m.market = pyo.Constraint(products, rule=lambda m, p: total[p] <= data["market"][p])
    m.least = pyo.Constraint(products, rule=lambda m, p: total[p] >= data["least"][p])
    return m


def reformulated(data: dict) -> gp.Model:
    """Sales as variables of their own, and every way to make a product closed unless its line is started."""
    m = gp.Model("product_mix")
    sales = {}
    for p in data["products"]:
        sales[p] = m.addVar(lb=data["least"][p], ub=data["market"][p], obj=data["margin"][p], name=f"sales[{p}]")
    output: dict = {p: [] for p in data["products"]}
    for k in data["lines"]:
        started = m.addVar(vtype=gp.GRB.BINARY, obj=-data["start_cost"][k], name=f"started[{k}]")
        time = gp.LinExpr()
        for p in data["products"]:
            if k in data["hours"][p]:
                rate = data["hours"][p][k]
                amount = m.addVar(obj=-rate * data["hour_cost"][k], name=f"amount[{p},{k}]")
                m.addConstr(amount <= min(data["market"][p], data["capacity"][k] / rate) * started, f"open[{p},{k}]")
                time += rate * amount
                output[p].append(amount)
        m.addConstr(time <= data["capacity"][k], f"time[{k}]")
    for p in data["products"]:
        m.addConstr(gp.quicksum(output[p]) == sales[p], f"sold[{p}]")
    for r in data["materials"]:
        m.addConstr(
            gp.quicksum(data["need"][p][r] * sales[p] for p in data["products"]) <= data["stock"][r], f"use[{r}]"
        )
    m.ModelSense = gp.GRB.MAXIMIZE
    return m


def _scenario(domain: str, owner: str, unit: str, products: str, line: str, letter: str, materials: str, measure: str,
              money: str) -> Scenario:  # fmt: skip
    told = {
        "owner": owner, "unit": unit, "units": unit + "s", "line": line, "lines": line + "s", "measure": measure,
        "money": money,
    }  # fmt: skip
    return Scenario(
        domain, told, {"products": words(products, "A"), "lines": code(letter), "materials": words(materials, "R")}
    )


SCENARIOS = (
    _scenario("furniture", "a furniture factory", "lot", "chairs tables stools shelves desks benches wardrobes beds",
              "workshop", "W", "beech oak steel fabric glass", "loads", "euros"),
    _scenario("cosmetics", "a maker of cosmetics", "drum", "shampoo lotion balm gel cream soap toner scrub", "mixer",
              "M", "glycerine alcohol lanolin perfume wax", "kilograms", "francs"),
    _scenario("bread", "an industrial bakery", "pallet", "baguettes rolls toast rusks bagels buns muffins crackers",
              "tunnel oven", "O", "flour butter sugar yeast cream", "sacks", "euros"),
    _scenario("electronics", "an electronics contractor", "lot", "routers modems scanners meters alarms cameras",
              "line", "L", "chips copper resin tin displays", "trays", "dollars"),
    _scenario("clothing", "a clothing manufacturer", "bundle", "shirts coats jeans skirts jackets scarves dresses",
              "sewing hall", "H", "cotton wool lining zips buttons", "rolls", "pounds"),
    _scenario("chemicals", "a paint manufacturer", "tonne", "primer gloss matt stain varnish sealer enamel undercoat",
              "reactor", "K", "pigment solvent binder filler resin", "barrels", "dollars"),
    _scenario("toys", "a toy maker", "carton", "trains puzzles kites dolls blocks robots marbles drums", "machine",
              "T", "plastic paint card wood foil", "bins", "euros"),
)  # fmt: skip

FAMILY = Family(
    title="Product mix on lines that have to be started",
    area="production",
    source="H. P. Williams, Model Building in Mathematical Programming, 2013",
    sizes=SIZES,
    sets=(
        IndexSet("products", "product", "products", "p", "P"),
        IndexSet("lines", "{line}", "{lines}", "k", "K"),
        IndexSet("materials", "material", "materials", "r", "R"),
    ),
    fields=(
        Field("margin", ("products",), "contribution", "{money} per {unit}", "g_p", (
            "a {unit} of {0} brings {value} {money} before the cost of the {lines}",
            "the sale of one {unit} of {0} leaves {value} {money}, from which only the {lines} have yet to be paid",
        )),
        Field("least", ("products",), "least quantity", "{units}", "l_p", (
            "at least {value} {units} of {0} have been promised", "contracts call for {value} {units} of {0} or more",
        )),
        Field("market", ("products",), "largest quantity", "{units}", "u_p", (
            "no more than {value} {units} of {0} can be sold", "the market takes up to {value} {units} of {0} in all",
        )),
        Field("hours", ("products", "lines"), "working time", "hours per {unit}", "a_{pk}", (
            ("a {unit} of {0} takes, in hours,", "{value} on {line} {1}"),
            ("the hours for one {unit} of {0} are", "{value} on {line} {1}"),
        )),
        Field("need", ("products", "materials"), "use of material", "{measure} per {unit}", "q_{pr}", (
            ("a {unit} of {0} contains, in {measure},", "{value} of {1}"),
            ("making one {unit} of {0} uses up, in {measure},", "{value} of {1}"),
        )),
        Field("stock", ("materials",), "stock of the material", "{measure}", "w_r", (
            "of {0} there are {value} {measure}", "{value} {measure} of {0} are in stock",
        )),
        Field("capacity", ("lines",), "hours available", "hours", "c_k", (
            "once started, {line} {0} can run for {value} hours", "{line} {0} has {value} hours if it is started",
        )),
        Field("hour_cost", ("lines",), "running cost", "{money} per hour", "h_k", (
            "an hour of work on {line} {0} costs {value} {money}", "{line} {0} costs {value} {money} per working hour",
        )),
        Field("start_cost", ("lines",), "cost of starting", "{money}", "f_k", (
            "starting {line} {0} costs {value} {money}", "for {line} {0} a start is charged at {value} {money}",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("make", CONTINUOUS, "x_{pk}", "{units} of $p$ made on {line} $k$, one of those with hours for "
                      "it, $K_p$",
                      "make {value} {units} of {0} on {line} {1}"),
            Variables("start", BINARY, "y_k", "1 if {line} $k$ is started", "start {line} {0}"),
        ),
        sense="maximize",
        goal=("profit", "{money}"),
        objective=(
            Term("margin", r"\sum_{p \in P} \sum_{k \in K_p} g_p x_{pk}", (
                "All that is made is sold and brings its contribution.",
                "Each {unit} made is also sold and earns the contribution of its product.",
            )),
            Term("running", r"-\sum_{p \in P} \sum_{k \in K_p} h_k a_{pk} x_{pk}", (
                "The running cost is due for the hours that a {line} really works.",
                "For its working hours, and only for these, a {line} costs the running cost.",
            )),
            Term("starting", r"-\sum_{k \in K} f_k y_k", (
                "Starting a {line} costs the same whether it works much or little, and is paid once.",
                "The cost of starting a {line} is paid once and does not depend on the hours worked.",
            )),
        ),
        constraints=(
            Clause("capacity", r"\sum_{p:\ k \in K_p} a_{pk} x_{pk} \le c_k y_k", r"k \in K", (
                "A {line} that is not started makes nothing; one that is started works within its hours.",
                "Nothing can be made on a {line} unless it is started, and then all products share its hours.",
            )),
            Clause("material", r"\sum_{p \in P} \sum_{k \in K_p} q_{pr} x_{pk} \le w_r", r"r \in R", (
                "Materials are used from stock and cannot be bought in addition; what a {unit} contains does not "
                "depend on the {line}.",
                "The materials in stock have to suffice for everything made, on whichever {line}.",
            )),
            Clause("market", r"\sum_{k \in K_p} x_{pk} \le u_p", r"p \in P", (
                "The largest quantity of a product holds for all {lines} together.",
                "Of each product no more may be made, on all {lines} together, than can be sold.",
            )),
            Clause("least", r"\sum_{k \in K_p} x_{pk} \ge l_p", r"p \in P", (
                "Every product must reach its promised quantity, from all {lines} together.",
                "Promised quantities have to be made in full, on one {line} or on several.",
            )),
        ),
        integrality=(
            "Quantities cannot be negative and need not be whole {units}; whether a {line} is started is a yes-or-no "
            "decision. A product can be made only on {lines} for which its hours are given.",
            "Any fraction of a {unit} can be made, but a {line} is either started or not. Where no hours are given, "
            "the {line} cannot make the product.",
        ),
        fixed=("which {line} can make which product", "that promised quantities have to be made",
               "that a start is paid once per {line}"),
        mistakes=(
            Mistake("lines started in parts", "m.start = pyo.Var(lines, domain=pyo.Binary)",
                    "m.start = pyo.Var(lines, bounds=(0, 1))"),
            Mistake("hours without a start", '<= data["capacity"][k] * m.start[k]', '<= data["capacity"][k]'),
            Mistake("promised quantities to be made exactly", '>= data["least"][p]', '== data["least"][p]'),
            Mistake("running cost by unit instead of hour", 'data["hour_cost"][k] * hours[p][k] * m.make',
                    'data["hour_cost"][k] * m.make'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "The next period's production at {owner} is to be planned.",
        "{owner} could sell more than it can make and chooses its product mix.",
        "At {owner}, products compete for {lines} and materials.",
    ),
    questions=(
        "How much of each product should be made on which {line} so that the profit is as large as possible?",
        "Which {lines} should be started, and what should they make, for the largest profit in {money}?",
        "Maximise the contribution of all products less the cost of running and starting the {lines}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="sales as variables, and starts linked to each product by itself",
)  # fmt: skip
