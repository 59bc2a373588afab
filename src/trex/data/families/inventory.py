"""Inventory: buy several items over periods at changing prices; late delivery is allowed, the store is limited.

Quantities are continuous. Demand that is not met in its period is backlogged, up to a limit, and met by the end.
"""

import itertools
import math
import random
from fractions import Fraction

import networkx as nx
import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact
from trex.data.contract import CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import MONTHS, WEEKS, Names, Scenario, words

SIZES = {
    1: {"items": (1, 1), "periods": (4, 5)},
    2: {"items": (2, 2), "periods": (5, 7)},
    3: {"items": (4, 5), "periods": (9, 11)},
    4: {"items": (6, 6), "periods": (12, 14)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: all limits come from a plan that moves some purchases a period ahead or back."""
    sets = draw_sets(rng, SIZES[difficulty])
    items, periods = sets["items"], sets["periods"]
    demand = {p: {t: 5 * rng.randint(4, 20) for t in periods} for p in items}
    opening = {p: 5 * rng.randint(1, demand[p][periods[0]] // 10) for p in items}
    space = {p: rng.choice((0.5, 1, 1.5, 2)) for p in items}
    volume, incoming = [0.0] * len(periods), [0] * len(periods)
    patience = {}
    for p in items:
        bought = [demand[p][t] for t in periods]
        bought[0] -= opening[p]
        for k in range(1, len(periods)):
            part = 5 * rng.randint(0, bought[k] // 15)
            back = rng.random() < 0.4  # the earlier purchase waits for the later one
            source, target = (k - 1, k) if back else (k, k - 1)
            part = min(part, bought[source])
            bought[source] -= part
            bought[target] += part
        net, late = opening[p], 0
        for k, t in enumerate(periods):
            net += bought[k] - demand[p][t]
            volume[k] += space[p] * max(0, net)
            late = max(late, -net)
            incoming[k] += bought[k]
        patience[p] = max(5, late)
    base = {p: rng.randint(16, 40) for p in items}
    return {
        **sets, "demand": demand, "price": {p: {t: base[p] + rng.randint(-4, 4) for t in periods} for p in items},
        "holding_cost": {p: nice(rng.randint(1, 4) * 0.5) for p in items},
        "backlog_cost": {p: nice(rng.randint(2, 7) * 0.5) for p in items}, "opening_stock": opening,
        "space": space, "patience": patience, "room": max(5, math.ceil(max(volume))),
        "receiving": {t: incoming[k] + 5 * rng.randint(0, 2) for k, t in enumerate(periods)},
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Purchases, stocks and backlogs as a linear program."""
    items, periods = data["items"], data["periods"]
    m = pyo.ConcreteModel()
    m.buy = pyo.Var(items, periods, domain=pyo.NonNegativeReals)
    m.stock = pyo.Var(items, periods, domain=pyo.NonNegativeReals)
    m.backlog = pyo.Var(items, periods, domain=pyo.NonNegativeReals)
    m.purchase = pyo.Expression(expr=sum(data["price"][p][t] * m.buy[p, t] for p in items for t in periods))
    m.holding = pyo.Expression(expr=sum(data["holding_cost"][p] * m.stock[p, t] for p in items for t in periods))
    m.delay = pyo.Expression(expr=sum(data["backlog_cost"][p] * m.backlog[p, t] for p in items for t in periods))
    m.objective = pyo.Objective(expr=m.purchase + m.holding + m.delay, sense=pyo.minimize)

    before = {  # stock less backlog
        (p, t): data["opening_stock"][p] if k == 0 else m.stock[p, periods[k - 1]] - m.backlog[p, periods[k - 1]]
        for p in items
        for k, t in enumerate(periods)
    }
    m.balance = pyo.Constraint(
        items,
        periods,
        rule=lambda m, p, t: before[p, t] + m.buy[p, t] - data["demand"][p][t] == m.stock[p, t] - m.backlog[p, t],
    )
    m.receiving = pyo.Constraint(periods, rule=lambda m, t: sum(m.buy[p, t] for p in items) <= data["receiving"][t])
    m.room = pyo.Constraint(
        periods, rule=lambda m, t: sum(data["space"][p] * m.stock[p, t] for p in items) <= data["room"]
    )
    m.patience = pyo.Constraint(items, periods, rule=lambda m, p, t: m.backlog[p, t] <= data["patience"][p])
    m.served = pyo.Constraint(items, rule=lambda m, p: m.backlog[p, periods[-1]] <= 0)
    return m


def reformulated(data: dict) -> gp.Model:
    """Which purchase serves which demand: sooner ones wait in the store, later ones keep the customer waiting."""
    items, periods = data["items"], data["periods"]
    place = {t: k for k, t in enumerate(periods)}
    m = gp.Model("purchase_for_demand")
    serve = m.addVars(items, periods, periods, name="serve")
    draw = m.addVars(items, periods, name="from_opening_stock")
    cost = 0
    for p in items:
        for s in periods:
            cost += data["holding_cost"][p] * place[s] * draw[p, s]
            for b in periods:
                wait = place[s] - place[b]
                rate = data["holding_cost"][p] * wait if wait >= 0 else -data["backlog_cost"][p] * wait
                cost += (data["price"][p][b] + rate) * serve[p, b, s]
            m.addConstr(serve.sum(p, "*", s) + draw[p, s] == data["demand"][p][s], name=f"demand[{p},{s}]")
        m.addConstr(draw.sum(p, "*") == data["opening_stock"][p], name=f"opening[{p}]")
    m.setObjective(cost, gp.GRB.MINIMIZE)
    for t in periods:
        m.addConstr(serve.sum("*", t, "*") <= data["receiving"][t], name=f"receiving[{t}]")
    for k, t in enumerate(periods[:-1]):
        done, ahead = periods[: k + 1], periods[k + 1 :]
        volume = 0
        for p in items:
            kept = gp.quicksum(serve[p, b, s] for b in done for s in ahead) + gp.quicksum(draw[p, s] for s in ahead)
            volume += data["space"][p] * kept
            late = gp.quicksum(serve[p, b, s] for b in ahead for s in done)
            m.addConstr(late <= data["patience"][p], name=f"late[{p},{t}]")
        m.addConstr(volume <= data["room"], name=f"room[{t}]")
    return m


def optimum(data: dict) -> float | None:
    """By minimum-cost flow through the periods, in whole numbers; for one item only."""
    if len(data["items"]) > 1:
        return None
    p, periods = data["items"][0], data["periods"]
    most = exact.fraction(data["room"]) / exact.fraction(data["space"][p])
    scale = most.denominator  # of quantities; costs are in halves
    graph = nx.DiGraph()
    needed = sum(data["demand"][p].values()) - data["opening_stock"][p]
    graph.add_node("supplier", demand=-scale * needed)
    for k, t in enumerate(periods):
        need = data["demand"][p][t] - (data["opening_stock"][p] if k == 0 else 0)
        graph.add_node(t, demand=scale * need)
        graph.add_edge("supplier", t, weight=2 * data["price"][p][t], capacity=scale * data["receiving"][t])
    for sooner, later in itertools.pairwise(periods):
        graph.add_edge(sooner, later, weight=int(2 * data["holding_cost"][p]), capacity=int(scale * most))
        graph.add_edge(later, sooner, weight=int(2 * data["backlog_cost"][p]), capacity=scale * data["patience"][p])
    return float(Fraction(nx.min_cost_flow_cost(graph), 2 * scale))


def _scenario(domain: str, owner: str, unit: str, items: str, item: str, store: str, volume: str, money: str,
              periods: Names, period: str) -> Scenario:  # fmt: skip
    told = {
        "owner": owner, "unit": unit, "units": unit + "s", "item": item, "items": item + "s", "store": store,
        "volume": volume, "money": money, "period": period,
    }  # fmt: skip
    return Scenario(domain, told, {"items": words(items, "A"), "periods": periods})


SCENARIOS = (
    _scenario("building supplies", "a builders' merchant", "pallet", "bricks tiles plaster mortar slate gravel",
              "material", "yard", "square metres", "euros", MONTHS, "month"),
    _scenario("coffee", "a coffee roaster", "sack", "arabica robusta liberica mocha bourbon maragogype", "coffee",
              "dry store", "square metres", "dollars", MONTHS, "month"),
    _scenario("electronics", "an assembler of heat pumps", "crate", "compressors fans valves boards sensors pumps",
              "part", "parts store", "shelf metres", "euros", WEEKS, "week"),
    _scenario("pharmacy", "a pharmaceutical wholesaler", "carton", "insulin heparin saline vaccine plasma albumin",
              "product", "cold room", "litres", "francs", WEEKS, "week"),
    _scenario("textiles", "a textile importer", "bale", "cotton linen wool silk hemp jute", "fibre", "warehouse",
              "cubic metres", "pounds", MONTHS, "month"),
    _scenario("metals", "a steel stockholder", "bundle", "rods angles tubes plates channels rails", "product",
              "hall", "square metres", "euros", WEEKS, "week"),
    _scenario("food", "a wholesaler of frozen food", "pallet", "peas prawns berries pastry chips spinach", "product",
              "freezer", "cubic metres", "pounds", WEEKS, "week"),
)  # fmt: skip

FAMILY = Family(
    title="Purchasing with backlog and a limited store",
    area="inventory",
    source="P. H. Zipkin, Foundations of Inventory Management, 2000",
    sizes=SIZES,
    sets=(
        IndexSet("items", "{item}", "{items}", "p", "P"),
        IndexSet("periods", "{period}", "{period}s, in order", "t", "T"),
    ),
    fields=(
        Field("demand", ("items", "periods"), "demand", "{units}", "d_{pt}", (
            ("customers order, in {units} of {0},", "{value} in {1}"),
            ("the demand for {0}, in {units}, is", "{value} in {1}"),
            ("of {0}, the {units} ordered are", "{value} for {1}"),
        )),
        Field("price", ("items", "periods"), "purchase price", "{money} per {unit}", "c_{pt}", (
            ("one {unit} of {0} costs", "{value} {money} in {1}"),
            ("the supplier of {0} asks, in {money} per {unit},", "{value} in {1}"),
        )),
        Field("holding_cost", ("items",), "holding cost", "{money} per {unit} and {period}", "h_p", (
            "each {unit} of {0} in the {store} at the end of a {period} costs {value} {money}",
            "keeping a {unit} of {0} beyond the end of a {period} costs {value} {money}",
        )),
        Field("backlog_cost", ("items",), "cost of late delivery", "{money} per {unit} and {period}", "b_p", (
            "each {unit} of {0} still owed at the end of a {period} costs {value} {money}",
            "customers get {value} {money} for each {unit} of {0} that is overdue at the end of a {period}",
        )),
        Field("opening_stock", ("items",), "stock at the start", "{units}", r"s_{p0}", (
            "at the start the {store} holds {value} {units} of {0}", "the opening stock of {0} is {value} {units}",
        )),
        Field("space", ("items",), "space", "{volume} per {unit}", "a_p", (
            "a {unit} of {0} takes up {value} {volume}", "storing one {unit} of {0} needs {value} {volume}",
        )),
        Field("patience", ("items",), "largest backlog", "{units}", "u_p", (
            "at no {period}'s end may more than {value} {units} of {0} be owed to customers",
            "the backlog of {0} may never exceed {value} {units} at the end of a {period}",
        )),
        Field("room", (), "size of the {store}", "{volume}", "w", (
            "the {store} offers {value} {volume}", "there are {value} {volume} in the {store}",
        )),
        Field("receiving", ("periods",), "most that can be received", "{units}", "r_t", (
            "in {0} at most {value} {units} can be received", "goods-in can handle {value} {units} in {0}",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("buy", CONTINUOUS, "x_{pt}", "{units} of {item} $p$ bought in {period} $t$",
                      "buy {value} {units} of {0} in {1}"),
            Variables("stock", CONTINUOUS, "s_{pt}", "{units} of {item} $p$ in stock at the end of {period} $t$",
                      "keep {value} {units} of {0} in stock after {1}"),
            Variables("backlog", CONTINUOUS, "z_{pt}", "{units} of {item} $p$ owed at the end of {period} $t$",
                      "owe {value} {units} of {0} after {1}"),
        ),
        sense="minimize",
        goal=("total cost of purchases, stock and late delivery", "{money}"),
        objective=(
            Term("purchase", r"\sum_{p \in P} \sum_{t \in T} c_{pt} x_{pt}", (
                "Purchases are paid at the price of their {period} and arrive in the same {period}.",
                "What is bought arrives at once and costs the price of the {period}.",
            )),
            Term("holding", r"\sum_{p \in P} \sum_{t \in T} h_p s_{pt}", (
                "Stock is charged with the holding cost at the end of every {period}.",
                "At each {period}'s end, holding cost is due on all that is then in stock.",
            )),
            Term("delay", r"\sum_{p \in P} \sum_{t \in T} b_p z_{pt}", (
                "Backlog is charged at the end of every {period} on all that is owed then.",
                "What is owed at the end of a {period} costs the rate for late delivery, again for each {period} that "
                "it stays owed.",
            )),
        ),
        constraints=(
            Clause("balance", r"s_{p,t-1} - z_{p,t-1} + x_{pt} - d_{pt} = s_{pt} - z_{pt}", r"p \in P,\ t \in T", (
                "Demand is met from stock or purchases; what is not met in its {period} is not lost but stays owed "
                "until it is delivered. At the start nothing is owed.",
                "No order is cancelled: what cannot be delivered in its {period} is delivered later. There are no "
                "overdue orders at the start.",
            )),
            Clause("receiving", r"\sum_{p \in P} x_{pt} \le r_t", r"t \in T", (
                "The limit on what is received in a {period} holds for all {items} together.",
                "All {items} together cannot exceed what can be received in a {period}.",
            )),
            Clause("room", r"\sum_{p \in P} a_p s_{pt} \le w", r"t \in T", (
                "All that is in stock at the end of a {period} has to fit into the {store}.",
                "The stock of all {items} at any {period}'s end cannot take up more space than the {store} has.",
            )),
            Clause("patience", r"z_{pt} \le u_p", r"p \in P,\ t \in T", (
                "For each {item} the backlog at the end of a {period} is limited.",
                "Customers accept a backlog of each {item} up to its limit only.",
            )),
            Clause("served", r"z_{p,\max T} = 0", r"p \in P", (
                "By the end of the last {period} everything that was ordered has to be delivered.",
                "After the last {period} nothing may be owed any more.",
            )),
        ),
        integrality=(
            "Quantities bought, stored and owed cannot be negative and need not be whole {units}.",
            "Fractions of a {unit} are possible everywhere; negative quantities are not.",
        ),
        fixed=("that demand may be late but is never lost", "that nothing is owed at the end",
               "that all {items} share the {store} and what can be received"),
        mistakes=(
            Mistake("late delivery left out", "m.backlog = pyo.Var(items, periods, domain=pyo.NonNegativeReals)",
                    "m.backlog = pyo.Var(items, periods, bounds=(0, 0))"),
            Mistake("the opening stock forgotten", 'data["opening_stock"][p] if k == 0', "0 if k == 0"),
            Mistake("backlog does not reach the next period", " - m.backlog[p, periods[k - 1]]", ""),
            Mistake("the last stock not charged", "m.stock[p, t] for p in items for t in periods",
                    "m.stock[p, t] for p in items for t in periods[:-1]"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "Prices move from {period} to {period}, and {owner} plans its purchases ahead.",
        "The buyer of {owner} knows demand and prices of the coming {period}s.",
        "{owner} decides when to buy, what to keep in stock and which customers have to wait.",
    ),
    questions=(
        "How much of each {item} should be bought in each {period} so that the total cost is as small as possible?",
        "Find the purchases for which purchase, holding and backlog cost together are least.",
        "Minimise the total cost of purchases, stock and late delivery, in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="purchases assigned to demands instead of stocks and backlogs",
    optimum=optimum,
)  # fmt: skip
