"""Production planning: several products, periods with limited hours, stock between periods, a cost for each setup.

The multi-item capacitated lot-sizing problem with a common warehouse. Quantities are continuous, setups yes-or-no.
"""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import MONTHS, WEEKS, Names, Scenario, words

SIZES = {
    1: {"products": (1, 1), "periods": (4, 6)},
    2: {"products": (2, 3), "periods": (4, 6)},
    3: {"products": (4, 5), "periods": (7, 8)},
    4: {"products": (5, 6), "periods": (9, 10)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: hours and warehouse fit a plan that makes what exceeds a period's hours earlier.

    In at least one period the demand needs more hours than there are, so that stock is needed.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    products, periods = sets["products"], sets["periods"]
    demand = {p: {t: 5 * rng.randint(4, 24) for t in periods} for p in products}
    hours = {p: rng.choice((0.5, 1, 1.5, 2)) for p in products}
    initial = {p: 5 * rng.randint(0, demand[p][periods[0]] // 10) for p in products}
    need = [sum(hours[p] * demand[p][t] for p in products) for t in periods]
    capacity = [5 * math.ceil(sum(need) / len(need) * rng.uniform(1.0, 1.12) / 5) for _ in periods]
    peak = max(range(1, len(need)), key=need.__getitem__)
    capacity[peak] = 5 * max(1, math.floor(need[peak] * rng.uniform(0.6, 0.9) / 5))
    make = {p: [demand[p][t] for t in periods] for p in products}
    for p in products:
        make[p][0] -= initial[p]
    for k in range(len(periods) - 1, 0, -1):  # move what exceeds the hours one period earlier, latest first
        for p in products:
            excess = sum(hours[q] * make[q][k] for q in products) - capacity[k]
            moved = min(make[p][k], 5 * math.ceil(max(0, excess) / hours[p] / 5))
            make[p][k] -= moved
            make[p][k - 1] += moved
    used = sum(hours[p] * make[p][0] for p in products)
    capacity[0] = max(capacity[0], 5 * math.ceil(used / 5))
    stock = [
        sum(initial[p] + sum(make[p][: k + 1]) - sum(demand[p][t] for t in periods[: k + 1]) for p in products)
        for k in range(len(periods))
    ]
    return {
        **sets, "demand": demand, "hours": hours, "setup_cost": {p: 10 * rng.randint(5, 30) for p in products},
        "holding_cost": {p: nice(rng.randint(1, 6) * 0.5) for p in products}, "initial_stock": initial,
        "capacity": dict(zip(periods, capacity, strict=True)),
        "storage": 5 * math.ceil(max(stock) * rng.uniform(1.0, 1.3) / 5),
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Production, stock and setups as a mixed-integer linear program."""
    products, periods = data["products"], data["periods"]
    demand, hours = data["demand"], data["hours"]
    m = pyo.ConcreteModel()
    m.make = pyo.Var(products, periods, domain=pyo.NonNegativeReals)
    m.stock = pyo.Var(products, periods, domain=pyo.NonNegativeReals)
    m.setup = pyo.Var(products, periods, domain=pyo.Binary)
    m.setup_cost = pyo.Expression(expr=sum(data["setup_cost"][p] * m.setup[p, t] for p in products for t in periods))
    m.holding_cost = pyo.Expression(
        expr=sum(data["holding_cost"][p] * m.stock[p, t] for p in products for t in periods)
    )
    m.objective = pyo.Objective(expr=m.setup_cost + m.holding_cost, sense=pyo.minimize)

    before = {
        (p, t): data["initial_stock"][p] if k == 0 else m.stock[p, periods[k - 1]]
        for p in products
        for k, t in enumerate(periods)
    }
    most = {  # never more than the hours allow or than all demand to come
        (p, t): min(data["capacity"][t] / hours[p], sum(demand[p][s] for s in periods[k:]))
        for p in products
        for k, t in enumerate(periods)
    }
    m.balance = pyo.Constraint(
        products, periods, rule=lambda m, p, t: before[p, t] + m.make[p, t] == demand[p][t] + m.stock[p, t]
    )
    m.only_after_setup = pyo.Constraint(
        products, periods, rule=lambda m, p, t: m.make[p, t] <= most[p, t] * m.setup[p, t]
    )
    m.capacity = pyo.Constraint(
        periods, rule=lambda m, t: sum(hours[p] * m.make[p, t] for p in products) <= data["capacity"][t]
    )
    m.storage = pyo.Constraint(periods, rule=lambda m, t: sum(m.stock[p, t] for p in products) <= data["storage"])
    return m


def reformulated(data: dict) -> gp.Model:
    """How much of a period's demand is made in which earlier period; no stocks (Krarup and Bilde, 1977)."""
    products, periods, demand = data["products"], data["periods"], data["demand"]
    sources = ["initial", *periods]
    first = {source: max(0, b - 1) for b, source in enumerate(sources)}  # the period in which a source's goods appear
    routes = [(p, b, s) for p in products for b in sources for k, s in enumerate(periods) if k >= first[b]]
    m = gp.Model("facility_location")
    serve = m.addVars(routes, name="serve")
    setup = m.addVars(products, periods, vtype=gp.GRB.BINARY, name="setup")
    held = {(b, s): k - first[b] for b in sources for k, s in enumerate(periods)}  # period ends spent in the warehouse
    m.setObjective(
        gp.quicksum(data["setup_cost"][p] * setup[p, t] for p in products for t in periods)
        + gp.quicksum(data["holding_cost"][p] * held[b, s] * serve[p, b, s] for p, b, s in routes),
        gp.GRB.MINIMIZE,
    )
    m.addConstrs((serve.sum(p, "*", s) == demand[p][s] for p in products for s in periods), name="demand")
    m.addConstrs((serve[p, b, s] <= demand[p][s] * setup[p, b] for p, b, s in routes if b != "initial"), name="setup")
    m.addConstrs((serve.sum(p, "initial", "*") == data["initial_stock"][p] for p in products), name="initial")
    for k, t in enumerate(periods):
        m.addConstr(
            gp.quicksum(data["hours"][p] * serve.sum(p, t, "*") for p in products) <= data["capacity"][t], f"hours[{t}]"
        )
        kept = gp.quicksum(serve[p, b, s] for p, b, s in routes if first[b] <= k and s in periods[k + 1 :])
        m.addConstr(kept <= data["storage"], f"storage[{t}]")
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over stocks; for one product only."""
    if len(data["products"]) > 1:
        return None
    p = data["products"][0]
    hours = exact.fraction(data["hours"][p])
    cost = exact.lot_sizing(
        demand=[data["demand"][p][t] for t in data["periods"]],
        capacity=[exact.fraction(data["capacity"][t]) / hours for t in data["periods"]],
        setup=[data["setup_cost"][p]] * len(data["periods"]), holding=data["holding_cost"][p],
        initial=data["initial_stock"][p], storage=data["storage"],
    )  # fmt: skip
    return float(cost)


def _scenario(domain: str, business: str, line: str, unit: str, products: str, money: str, periods: Names,
              period: str) -> Scenario:  # fmt: skip
    told = {
        "business": business, "line": line, "unit": unit, "units": unit + "s", "money": money, "period": period,
    }  # fmt: skip
    return Scenario(domain, told, {"products": words(products, "A"), "periods": periods})


SCENARIOS = (
    _scenario("paints", "paint factory", "mixing line", "hectolitre", "primer enamel varnish lacquer stain undercoat",
              "euros", MONTHS, "month"),
    _scenario("dairy", "dairy", "filling line", "tonne", "butter yoghurt cream quark kefir whey", "francs", WEEKS,
              "week"),
    _scenario("fertilisers", "fertiliser works", "granulator", "tonne", "urea potash nitrate phosphate lime sulphate",
              "dollars", MONTHS, "month"),
    _scenario("paper", "paper mill", "paper machine", "tonne", "newsprint cardboard tissue kraft vellum bond",
              "pounds", MONTHS, "month"),
    _scenario("drinks", "brewery", "bottling line", "hectolitre", "lager stout porter pilsner cider ale", "euros",
              WEEKS, "week"),
    _scenario("plastics", "plastics plant", "extruder", "tonne", "film pipe sheet foam granulate tubing", "dollars",
              WEEKS, "week"),
    _scenario("cables", "cable works", "stranding line", "kilometre", "copper fibre coaxial armoured flat twisted",
              "euros", MONTHS, "month"),
    _scenario("metals", "rolling mill", "mill train", "tonne", "rod wire plate coil beam rail", "pounds", MONTHS,
              "month"),
)  # fmt: skip

FAMILY = Family(
    title="Production planning with setups and a common warehouse",
    area="lot sizing",
    source="Y. Pochet and L. A. Wolsey, Production Planning by Mixed Integer Programming, 2006",
    sizes=SIZES,
    sets=(
        IndexSet("products", "product", "products", "p", "P"),
        IndexSet("periods", "{period}", "{period}s, in order", "t", "T"),
    ),
    fields=(
        Field("demand", ("products", "periods"), "demand", "{units}", "d_{pt}", (
            ("demand for {0}, in {units}, is", "{value} in {1}"),
            ("customers take, in {units} of {0},", "{value} in {1}"),
            ("orders for {0} in {units} are", "{value} in {1}"),
        )),
        Field("hours", ("products",), "working time", "hours per {unit}", "h_p", (
            "one {unit} of {0} occupies the {line} for {value} hours", "making a {unit} of {0} takes {value} hours",
        )),
        Field("setup_cost", ("products",), "setup cost", "{money} per setup", "f_p", (
            "preparing the {line} for {0} costs {value} {money}", "a setup for {0} is charged at {value} {money}",
        )),
        Field("holding_cost", ("products",), "holding cost", "{money} per {unit} and {period}", "g_p", (
            "keeping one {unit} of {0} in stock at the end of a {period} costs {value} {money}",
            "the holding cost of {0} is {value} {money} per {unit} and {period}",
        )),
        Field("initial_stock", ("products",), "stock at the start", "{units}", r"s_{p0}", (
            "at the start the warehouse holds {value} {units} of {0}", "the opening stock of {0} is {value} {units}",
        )),
        Field("capacity", ("periods",), "hours of the {line}", "hours", "c_t", (
            "in {0} the {line} can run {value} hours", "{value} hours of the {line} are available in {0}",
        )),
        Field("storage", (), "room in the warehouse", "{units}", "w", (
            "at the end of a {period} the warehouse has room for {value} {units}, all products together",
            "the warehouse takes {value} {units} in all at the end of any {period}",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("make", CONTINUOUS, "x_{pt}", "{units} of product $p$ made in {period} $t$",
                      "make {value} {units} of {0} in {1}"),
            Variables("stock", CONTINUOUS, "s_{pt}", "{units} of product $p$ in stock at the end of {period} $t$",
                      "keep {value} {units} of {0} in stock after {1}"),
            Variables("setup", BINARY, "y_{pt}", "1 if the {line} is set up for product $p$ in {period} $t$",
                      "set up for {0} in {1}"),
        ),
        sense="minimize",
        goal=("total cost of setups and stock", "{money}"),
        objective=(
            Term("setup_cost", r"\sum_{p \in P} \sum_{t \in T} f_p y_{pt}", (
                "The setup cost is due once for each product and {period} with production.",
                "For each product, every {period} in which it is made costs one setup.",
            )),
            Term("holding_cost", r"\sum_{p \in P} \sum_{t \in T} g_p s_{pt}", (
                "Holding cost is due on the stock left at the end of each {period}, the last one included.",
                "What is left at the end of a {period}, also of the last one, is charged with the holding cost.",
            )),
        ),
        constraints=(
            Clause("balance", r"s_{p,t-1} + x_{pt} = d_{pt} + s_{pt}", r"p \in P,\ t \in T", (
                "The demand of every {period} has to be met in full and on time, from its production or from stock.",
                "No demand may be late or lost: it comes from production of the same {period} or from stock.",
            )),
            Clause("only_after_setup", r"x_{pt} \le \min\Bigl(\frac{c_t}{h_p}, \sum_{u \ge t} d_{pu}\Bigr) y_{pt}",
                   r"p \in P,\ t \in T", (
                "A product can be made in a {period} only if the {line} is set up for it in that {period}; a setup "
                "takes no hours.",
                "Without a setup for it in the same {period}, nothing of a product can be made; setups take no time.",
            )),
            Clause("capacity", r"\sum_{p \in P} h_p x_{pt} \le c_t", r"t \in T", (
                "The hours that production takes in a {period} cannot exceed the hours of the {line}.",
                "All products share the hours that the {line} has in a {period}.",
            )),
            Clause("storage", r"\sum_{p \in P} s_{pt} \le w", r"t \in T", (
                "The stock at the end of each {period}, all products together, has to fit into the warehouse.",
                "At no {period}'s end may the stock of all products exceed the room in the warehouse.",
            )),
        ),
        integrality=(
            "Quantities made and stored are measured in {units}, cannot be negative and need not be whole numbers; "
            "whether a product is set up in a {period} is a yes-or-no decision.",
            "Setups are yes-or-no decisions; amounts are non-negative and may be fractions of a {unit}.",
        ),
        fixed=("that demand is met on time", "that stock is charged at the end of a {period}",
               "that a setup serves one product and one {period}"),
        mistakes=(
            Mistake("setups in parts", "m.setup = pyo.Var(products, periods, domain=pyo.Binary)",
                    "m.setup = pyo.Var(products, periods, bounds=(0, 1))"),
            Mistake("the opening stock forgotten", 'data["initial_stock"][p] if k == 0', "0 if k == 0"),
            Mistake("the stock of a period does not reach the next", "m.stock[p, periods[k - 1]]", "0"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A {business} makes its products on one {line} and plans ahead, {period} by {period}.",
        "The {line} of a {business} is to be scheduled over the coming {period}s.",
        "Production at a {business} has to follow a demand that changes from {period} to {period}.",
    ),
    questions=(
        "Which plan of production, stock and setups has the least total cost?",
        "Decide how much of each product to make in each {period} so that setup and holding cost together are least.",
        "Minimise the total of setup and holding costs in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="goods by the period that makes and the one that takes them, instead of stocks",
    optimum=optimum,
)  # fmt: skip
