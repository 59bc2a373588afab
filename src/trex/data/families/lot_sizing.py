"""Lot sizing: each site orders one good for itself, a cost for each order, stock between periods, no limits.

The uncapacitated problem of Wagner and Whitin at every site, with prices that change and stock to be left at the end.
"""

import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import MONTHS, PLACES, WEEKS, Names, Scenario

SIZES = {
    1: {"sites": (1, 1), "periods": (3, 5)},
    2: {"sites": (2, 2), "periods": (4, 7)},
    3: {"sites": (4, 5), "periods": (9, 11)},
    4: {"sites": (6, 7), "periods": (12, 13)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Always feasible, for orders have no limit. An order costs about as much as holding a lot for some periods."""
    sets = draw_sets(rng, SIZES[difficulty])
    sites, periods = sets["sites"], sets["periods"]
    demand = {i: {t: 5 * rng.randint(2, 24) for t in periods} for i in sites}
    holding = {i: nice(rng.randint(1, 6) * 0.5) for i in sites}
    price = {t: nice(rng.randint(24, 32) * 0.5) for t in periods}
    order_cost = {i: 10 * round(holding[i] * rng.randint(60, 220) / 10) + 10 for i in sites}
    return {
        **sets, "demand": demand, "price": price, "order_cost": order_cost, "holding_cost": holding,
        "opening_stock": {i: 5 * rng.randint(1, 1 + demand[i][periods[0]] // 4) for i in sites},
        "closing_stock": {i: 5 * rng.randint(1, 10) for i in sites},
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Orders, stocks and their timing as a mixed-integer linear program."""
    sites, periods, demand = data["sites"], data["periods"], data["demand"]
    last = periods[-1]
    m = pyo.ConcreteModel()
    m.order = pyo.Var(sites, periods, domain=pyo.NonNegativeReals)
    m.stock = pyo.Var(sites, periods, domain=pyo.NonNegativeReals)
    m.place = pyo.Var(sites, periods, domain=pyo.Binary)
    m.purchase = pyo.Expression(expr=sum(data["price"][t] * m.order[i, t] for i in sites for t in periods))
    m.ordering = pyo.Expression(expr=sum(data["order_cost"][i] * m.place[i, t] for i in sites for t in periods))
    m.holding = pyo.Expression(expr=sum(data["holding_cost"][i] * m.stock[i, t] for i in sites for t in periods))
    m.objective = pyo.Objective(expr=m.purchase + m.ordering + m.holding, sense=pyo.minimize)

    before = {
        (i, t): data["opening_stock"][i] if k == 0 else m.stock[i, periods[k - 1]]
        for i in sites
        for k, t in enumerate(periods)
    }
    to_come = {  # no order needs to be larger
        (i, t): sum(demand[i][s] for s in periods[k:]) + data["closing_stock"][i]
        for i in sites
        for k, t in enumerate(periods)
    }
    m.balance = pyo.Constraint(
        sites, periods, rule=lambda m, i, t: before[i, t] + m.order[i, t] == demand[i][t] + m.stock[i, t]
    )
    m.only_if_placed = pyo.Constraint(
        sites, periods, rule=lambda m, i, t: m.order[i, t] <= to_come[i, t] * m.place[i, t]
    )
    m.closing = pyo.Constraint(sites, rule=lambda m, i: m.stock[i, last] >= data["closing_stock"][i])
    return m


def reformulated(data: dict) -> gp.Model:
    """A shortest path over the periods of each site: an arc from b to e is one order in b that lasts until e."""
    periods = data["periods"]
    end = len(periods)
    m = gp.Model("order_intervals")
    total = 0
    for i in data["sites"]:
        needs = [data["demand"][i][t] for t in periods]
        needs[-1] += data["closing_stock"][i]
        remaining, kept = data["opening_stock"][i], data["closing_stock"][i]
        for k in range(end):  # what the opening stock covers is no longer needed
            covered = min(remaining, needs[k])
            remaining -= covered
            needs[k] -= covered
            kept += remaining
        total += data["holding_cost"][i] * kept
        arcs = {}
        for b in range(end):
            cost = quantity = 0
            for e in range(b + 1, end + 1):
                quantity += needs[e - 1]
                cost += needs[e - 1] * (data["price"][periods[b]] + data["holding_cost"][i] * (e - 1 - b))
                arcs[b, e] = cost + (data["order_cost"][i] if quantity > 0 else 0)
        use = m.addVars(arcs.keys(), name=f"interval_{i}")
        total += use.prod(arcs)
        m.addConstr(use.sum(0, "*") == 1, name=f"start[{i}]")
        m.addConstrs((use.sum("*", k) == use.sum(k, "*") for k in range(1, end)), name=f"pass_{i}")
    m.setObjective(total, gp.GRB.MINIMIZE)
    return m


def optimum(data: dict) -> float | None:
    """By the recursion of Wagner and Whitin at every site: the cheapest way to have the first periods supplied."""
    periods, total = data["periods"], 0.0
    for i in data["sites"]:
        opening, closing = data["opening_stock"][i], data["closing_stock"][i]
        taken = [sum(data["demand"][i][t] for t in periods[:k]) for k in range(len(periods) + 1)]
        ordered = [max(0, amount - opening) for amount in taken]  # altogether, for the first k periods to be supplied
        ordered[-1] = max(0, taken[-1] + closing - opening)
        cheapest = [0.0]
        for e in range(1, len(taken)):
            choices = []
            for b in range(e):
                lot = ordered[e] - ordered[b]
                stocks = sum(opening + ordered[e] - taken[k] for k in range(b + 1, e + 1))
                cost = data["price"][periods[b]] * lot + (data["order_cost"][i] if lot else 0)
                choices.append(cheapest[b] + cost + data["holding_cost"][i] * stocks)
            cheapest.append(min(choices))
        total += cheapest[-1]
    return total


def _scenario(domain: str, owner: str, goods: str, unit: str, site: str, sites: str, money: str, periods: Names,
              period: str) -> Scenario:  # fmt: skip
    told = {
        "owner": owner, "goods": goods, "unit": unit, "units": unit + "s", "site": site, "sites": sites,
        "money": money, "period": period,
    }  # fmt: skip
    return Scenario(domain, told, {"sites": PLACES, "periods": periods})


SCENARIOS = (
    _scenario("food", "a bakery group", "flour", "tonne", "bakery", "bakeries", "euros", WEEKS, "week"),
    _scenario("health", "a hospital trust", "dialysis fluid", "pallet", "hospital", "hospitals", "pounds", WEEKS,
              "week"),
    _scenario("chemicals", "a maker of detergents", "caustic soda", "tonne", "plant", "plants", "dollars", MONTHS,
              "month"),
    _scenario("printing", "a newspaper publisher", "newsprint", "tonne", "print shop", "print shops", "francs", WEEKS,
              "week"),
    _scenario("water supply", "a water company", "chlorine", "drum", "waterworks", "waterworks", "euros", MONTHS,
              "month"),
    _scenario("transport", "a bus operator", "diesel", "kilolitre", "depot", "depots", "pounds", WEEKS, "week"),
    _scenario("farming", "a farming cooperative", "cattle feed", "tonne", "farm", "farms", "dollars", MONTHS, "month"),
)  # fmt: skip

FAMILY = Family(
    title="Lot sizing at several sites, without limits",
    area="lot sizing",
    source="H. M. Wagner and T. M. Whitin, Dynamic version of the economic lot size model, 1958",
    sizes=SIZES,
    sets=(
        IndexSet("sites", "{site}", "{sites}", "i", "I"),
        IndexSet("periods", "{period}", "{period}s, in order", "t", "T"),
    ),
    fields=(
        Field("demand", ("sites", "periods"), "use of {goods}", "{units}", "d_{it}", (
            ("the {site} in {0} will use, in {units},", "{value} in {1}"),
            ("{0} needs, in {units} of {goods},", "{value} in {1}"),
            ("consumption in {0}, in {units}, will be", "{value} in {1}"),
        )),
        Field("price", ("periods",), "price of {goods}", "{money} per {unit}", "c_t", (
            "in {0} one {unit} of {goods} costs {value} {money}, at every {site}",
            "the price in {0} is {value} {money} per {unit}, wherever it is delivered",
        )),
        Field("order_cost", ("sites",), "cost of placing an order", "{money} per order", "f_i", (
            "every order that the {site} in {0} places costs {value} {money} on top of the price",
            "a delivery to {0}, of whatever size, is charged {value} {money} in addition to the price",
        )),
        Field("holding_cost", ("sites",), "holding cost", "{money} per {unit} and {period}", "h_i", (
            "keeping one {unit} in {0} beyond the end of a {period} costs {value} {money}",
            "storage in {0} costs {value} {money} for every {unit} left at the end of a {period}",
        )),
        Field("opening_stock", ("sites",), "stock at the start", "{units}", "s_{i0}", (
            "the {site} in {0} starts with {value} {units} in stock",
            "at the start {value} {units} are in stock in {0}",
        )),
        Field("closing_stock", ("sites",), "least stock at the end", "{units}", "e_i", (
            "at the end of the last {period} at least {value} {units} must be left in {0}",
            "{0} has to end with a stock of {value} {units} or more",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("order", CONTINUOUS, "x_{it}", "{units} ordered by {site} $i$ in {period} $t$",
                      "{0} orders {value} {units} in {1}"),
            Variables("stock", CONTINUOUS, "s_{it}", "{units} in stock at {site} $i$ at the end of {period} $t$",
                      "{0} keeps {value} {units} in stock after {1}"),
            Variables("place", BINARY, "y_{it}", "1 if {site} $i$ places an order in {period} $t$"),
        ),
        sense="minimize",
        goal=("total cost of {goods}, orders and storage", "{money}"),
        objective=(
            Term("purchase", r"\sum_{i \in I} \sum_{t \in T} c_t x_{it}", (
                "What is ordered is paid at the price of the {period} of the order.",
                "Each {unit} costs the price of the {period} in which it is ordered.",
            )),
            Term("ordering", r"\sum_{i \in I} \sum_{t \in T} f_i y_{it}", (
                "A {site} pays the cost of an order once in each {period} in which it orders anything, whatever the "
                "quantity.",
                "The order cost does not depend on the quantity; it is due at a {site} in every {period} with an "
                "order.",
            )),
            Term("holding", r"\sum_{i \in I} \sum_{t \in T} h_i s_{it}", (
                "Holding cost is due on everything in stock at the end of each {period}, the last one included.",
                "Whatever is in stock at the end of a {period}, also of the last, is charged with the holding cost.",
            )),
        ),
        constraints=(
            Clause("balance", r"s_{i,t-1} + x_{it} = d_{it} + s_{it}", r"i \in I,\ t \in T", (
                "Every {site} covers its use in each {period} from its own stock or from an order that arrives in the "
                "same {period}; {goods} cannot be moved between {sites}.",
                "What a {site} uses in a {period} must be there in time, from its stock or from an order of that "
                "{period}, which arrives at once; {sites} do not help each other out.",
            )),
            Clause("only_if_placed", r"x_{it} \le \Bigl(\sum_{u \ge t} d_{iu} + e_i\Bigr) y_{it}",
                   r"i \in I,\ t \in T", (
                "Nothing arrives at a {site} in a {period} unless it has placed an order; the size of an order is not "
                "limited.",
                "A {site} receives {goods} only in {period}s for which it pays an order, in any quantity.",
            )),
            Clause("closing", r"s_{i,\max T} \ge e_i", r"i \in I", (
                "The last {period} has to leave the prescribed stock at each {site}.",
                "After the last {period}, no {site} may have less in stock than prescribed.",
            )),
        ),
        integrality=(
            "Quantities cannot be negative and need not be whole {units}; whether a {site} orders in a {period} is a "
            "yes-or-no decision.",
            "Orders are placed or not; their size and the stocks may be any fraction of a {unit} from zero up.",
        ),
        fixed=("that use is covered on time", "that {sites} cannot exchange {goods}",
               "that stock is charged at the end of a {period}"),
        mistakes=(
            Mistake("orders in parts", "m.place = pyo.Var(sites, periods, domain=pyo.Binary)",
                    "m.place = pyo.Var(sites, periods, bounds=(0, 1))"),
            Mistake("the opening stock forgotten", 'data["opening_stock"][i] if k == 0', "0 if k == 0"),
            Mistake("one order for all periods together", 'm.place[i, t] for i in sites for t in periods',
                    "m.place[i, last] for i in sites"),
            Mistake("the stock of a period does not reach the next", "m.stock[i, periods[k - 1]]", "0"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "{owner} plans the orders of {goods} by {period}.",
        "The use of {goods} by {owner} is known for the coming {period}s, and the orders are to be planned.",
        "For {owner} the question is when to order {goods}, and how much.",
    ),
    questions=(
        "When should each {site} order, and how many {units}, so that the total cost is as small as possible?",
        "Find the orders with the least total of purchase, order and holding cost, in {money}.",
        "Minimise the total cost of purchases, orders and storage over all {period}s.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="a shortest path over order intervals instead of stocks",
    optimum=optimum,
)  # fmt: skip
