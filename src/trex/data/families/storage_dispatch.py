"""Storage dispatch: buy when cheap, sell when dear, with a store that loses a part of what goes in and comes out.

In each hour the store is either filled or emptied; prices may be negative, so that this rule matters.
"""

import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import HOURS, Scenario

SIZES = {
    1: {"hours": (3, 4)},
    2: {"hours": (7, 11)},
    3: {"hours": (27, 32)},
    4: {"hours": (56, 64)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: doing nothing keeps the level, which is also the level asked for at the end.

    Prices rise and fall by turns, wide enough that buying low and selling high pays for losses and wear.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    hours = sets["hours"]
    fill = 5 * rng.randint(3, 8)
    capacity = fill * rng.randint(2, 3) + 5 * rng.randint(1, 3)
    initial = 5 * rng.randint(1, capacity // 10)
    price: dict[str, int | float] = {}
    low = rng.random() < 0.5
    while len(price) < len(hours):
        for _ in range(rng.randint(1, 3)):
            if len(price) < len(hours):
                cents = rng.randint(-30, 60) if low else rng.randint(80, 220)
                price[hours[len(price)]] = nice(cents / 2)
        low = not low
    return {
        **sets, "price": price, "fill_limit": fill, "draw_limit": 5 * rng.randint(3, 9), "capacity": capacity,
        "initial": initial, "kept": nice(rng.randint(80, 96) / 100), "needed": nice(rng.randint(104, 120) / 100),
        "wear": nice(rng.randint(2, 16) / 2),
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Purchases, sales and levels by hour, with the store's direction as a binary."""
    hours = data["hours"]
    m = pyo.ConcreteModel()
    m.buy = pyo.Var(hours, domain=pyo.NonNegativeReals)
    m.sell = pyo.Var(hours, domain=pyo.NonNegativeReals)
    m.level = pyo.Var(hours, domain=pyo.NonNegativeReals)
    m.filling = pyo.Var(hours, domain=pyo.Binary)
    m.sales = pyo.Expression(expr=sum(data["price"][t] * m.sell[t] for t in hours))
    m.purchases = pyo.Expression(expr=-sum(data["price"][t] * m.buy[t] for t in hours))
    m.wear = pyo.Expression(expr=-sum(data["wear"] * m.sell[t] for t in hours))
    m.objective = pyo.Objective(expr=m.sales + m.purchases + m.wear, sense=pyo.maximize)

    before = {t: m.level[hours[k - 1]] if k else data["initial"] for k, t in enumerate(hours)}
    m.balance = pyo.Constraint(
        hours, rule=lambda m, t: before[t] + data["kept"] * m.buy[t] - data["needed"] * m.sell[t] == m.level[t]
    )
    m.capacity = pyo.Constraint(hours, rule=lambda m, t: m.level[t] <= data["capacity"])
    m.fill = pyo.Constraint(hours, rule=lambda m, t: m.buy[t] <= data["fill_limit"] * m.filling[t])
    m.draw = pyo.Constraint(hours, rule=lambda m, t: m.sell[t] <= data["draw_limit"] * (1 - m.filling[t]))
    m.final = pyo.Constraint(expr=m.level[hours[-1]] >= data["initial"])
    return m


def reformulated(data: dict) -> gp.Model:
    """No levels: what was sold so far is covered by what there was and what was bought, and never overfills."""
    hours, start = data["hours"], data["initial"]
    m = gp.Model("running_totals")
    bought = m.addVars(hours, name="bought")
    sold = m.addVars(hours, name="sold")
    emptying = m.addVars(hours, vtype=gp.GRB.BINARY, name="emptying")
    received, given = gp.LinExpr(start), gp.LinExpr()
    for t in hours:
        received = received + data["kept"] * bought[t]
        given = given + data["needed"] * sold[t]
        m.addConstr(given <= received, name=f"covered[{t}]")
        m.addConstr(received - given <= data["capacity"], name=f"room[{t}]")
        m.addConstr(sold[t] <= data["draw_limit"] * emptying[t], name=f"out[{t}]")
        m.addConstr(bought[t] + data["fill_limit"] * emptying[t] <= data["fill_limit"], name=f"in[{t}]")
    m.addConstr(received - given >= start, name="end")
    m.setObjective(
        gp.quicksum((data["price"][t] - data["wear"]) * sold[t] - data["price"][t] * bought[t] for t in hours),
        gp.GRB.MAXIMIZE,
    )
    return m


def _scenario(domain: str, business: str, store: str, goods: str, unit: str, money: str, fills: str,
              draws: str) -> Scenario:  # fmt: skip
    told = {
        "business": business, "store": store, "goods": goods, "unit": unit, "units": unit + "s", "money": money,
        "fills": fills, "draws": draws,
    }  # fmt: skip
    return Scenario(domain, told, {"hours": HOURS})


SCENARIOS = (
    _scenario("power", "grid trader", "battery", "electricity", "megawatt-hour", "euros", "charging", "discharging"),
    _scenario("hydropower", "mountain utility", "pumped-storage reservoir", "electricity", "megawatt-hour", "francs",
              "pumping", "generating"),
    _scenario("industry", "paper mill", "battery bank", "power", "megawatt-hour", "crowns", "charging", "discharging"),
    _scenario("gas", "gas merchant", "salt cavern", "natural gas", "thousand-therm block", "pounds", "injection",
              "withdrawal"),
    _scenario("hydrogen", "hydrogen start-up", "hydrogen tank with electrolyser and fuel cell", "electricity",
              "megawatt-hour", "euros", "electrolysis", "reconversion"),
    _scenario("mobility", "bus depot", "fleet of parked electric buses", "electricity", "kilowatt-hour", "cents",
              "charging", "feeding back"),
    _scenario("heating", "town heating company", "hot-water tank", "heat", "megawatt-hour", "dollars", "heating up",
              "drawing off"),
)  # fmt: skip

FAMILY = Family(
    title="Dispatch of a store against prices",
    area="energy",
    source="R. Sioshansi, P. Denholm, T. Jenkin and J. Weiss, Estimating the value of electricity storage in PJM, 2009",
    sizes=SIZES,
    sets=(IndexSet("hours", "hour", "hours in their order", "t", "T"),),
    fields=(
        Field("price", ("hours",), "price", "{money} per {unit}", "p_t", (
            "the price in {0} is {value} {money} per {unit}",
            "in hour {0}, one {unit} of {goods} costs or earns {value} {money}",
            "{goods} trades at {value} {money} per {unit} in {0}",
        )),
        Field("fill_limit", (), "largest purchase in an hour", "{units}", "F", (
            "in one hour at most {value} {units} can be bought for the {store}",
            "purchases for the {store} are limited to {value} {units} an hour",
        )),
        Field("draw_limit", (), "largest sale in an hour", "{units}", "D", (
            "in one hour at most {value} {units} can be sold from the {store}",
            "sales from the {store} are limited to {value} {units} an hour",
        )),
        Field("capacity", (), "capacity of the store", "{units}", "C", (
            "the {store} holds up to {value} {units}", "the capacity of the {store} is {value} {units}",
        )),
        Field("initial", (), "level at the beginning", "{units}", "s_0", (
            "at the beginning the {store} holds {value} {units}", "the initial level is {value} {units}",
        )),
        Field("kept", (), "part of a purchase that arrives", "{units} per {unit} bought", r"\eta", (
            "of each {unit} bought, {value} {units} arrive in the {store}",
            "a purchase of one {unit} raises the level by {value} {units}",
        )),
        Field("needed", (), "withdrawal for a sale", "{units} per {unit} sold", r"\delta", (
            "each {unit} sold takes {value} {units} out of the {store}",
            "to sell one {unit}, the level has to fall by {value} {units}",
        )),
        Field("wear", (), "cost of wear", "{money} per {unit} sold", "w", (
            "wear costs {value} {money} for each {unit} sold", "each {unit} sold also causes {value} {money} of wear",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("buy", CONTINUOUS, "b_t", "{units} bought in hour $t$", "buy {value} {units} in {0}"),
            Variables("sell", CONTINUOUS, "q_t", "{units} sold in hour $t$", "sell {value} {units} in {0}"),
            Variables("level", CONTINUOUS, "s_t", "{units} in the {store} at the end of hour $t$"),
            Variables("filling", BINARY, "y_t", "1 if hour $t$ is one of {fills}, 0 if one of {draws}"),
        ),
        sense="maximize",
        goal=("total profit", "{money}"),
        objective=(
            Term("sales", r"\sum_{t \in T} p_t q_t", (
                "What is sold earns the price of its hour.", "Sales are paid at the price of the hour.",
            )),
            Term("purchases", r"-\sum_{t \in T} p_t b_t", (
                "What is bought costs the price of its hour; where the price is negative, the buyer is paid and the "
                "seller pays.",
                "Purchases cost the same price that sales in that hour earn; with a negative price the money flows the "
                "other way.",
            )),
            Term("wear", r"-\sum_{t \in T} w q_t", (
                "The cost of wear is deducted for what is sold, not for what is bought.",
                "The profit is what sales earn, less purchases, less wear on what is sold.",
            )),
        ),
        constraints=(
            Clause("balance", r"s_{t-1} + \eta b_t - \delta q_t = s_t", r"t \in T", (
                "The level at the end of an hour is that of the hour before, plus what arrives from purchases, less "
                "what sales take out; nothing is lost while it is stored.",
                "From hour to hour the level changes only by what purchases bring in and sales take out.",
            )),
            Clause("capacity", r"s_t \le C", r"t \in T", (
                "At no hour's end can the level exceed the capacity, nor be negative.",
                "The level has to stay between empty and full at the end of every hour.",
            )),
            Clause("fill", r"b_t \le F y_t", r"t \in T", (
                "Each hour is either one of {fills} or one of {draws}; only in the former can {goods} be bought, up to "
                "the hourly limit.",
                "Buying is possible only in hours of {fills}, within the limit on purchases.",
            )),
            Clause("draw", r"q_t \le D (1 - y_t)", r"t \in T", (
                "Selling is possible only in hours of {draws}, within the limit on sales; an hour of {fills} is none.",
                "In hours of {fills} nothing can be sold; in the others the limit on sales holds. No hour has both "
                "purchases and sales.",
            )),
            Clause("final", r"s_{|T|} \ge s_0", "", (
                "After the last hour the level must be at least as high as at the beginning.",
                "The {store} may not be left emptier than it was found.",
            )),
        ),
        integrality=(
            "Amounts cannot be negative and may be fractions of a {unit}; the direction of each hour is a yes-or-no "
            "decision.",
            "There is one yes-or-no decision per hour, for its direction; the amounts are non-negative and need not be "
            "whole.",
        ),
        fixed=("that an hour has purchases or sales but not both", "the level at the beginning, owed at the end",
               "on which side of the store each loss occurs"),
        mistakes=(
            Mistake("buying and selling in one hour", '(1 - m.filling[t])', '1'),
            Mistake("the loss on purchases forgotten", 'data["kept"] * m.buy[t]', "m.buy[t]"),
            Mistake("sales with a gain instead of a loss", 'data["needed"] * m.sell[t]', 'm.sell[t] / data["needed"]'),
            Mistake("an empty store at the beginning", 'if k else data["initial"]', "if k else 0"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A {business} runs a {store} and knows the prices of {goods} for the coming hours.",
        "With its {store}, a {business} buys {goods} when it is cheap and sells it when it is dear.",
        "The {store} of a {business} is to be used for trading {goods}, hour by hour.",
    ),
    questions=(
        "When and how much should be bought and sold so that the total profit is as large as possible?",
        "Find the plan of purchases and sales with the largest total profit.",
        "Maximise the profit from trading over all hours, in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="running totals of purchases and sales instead of levels",
)  # fmt: skip
