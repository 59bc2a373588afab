"""Production planning: several products, periods with limited hours, stock between periods, a cost for each setup.

The multi-item capacitated lot-sizing problem with a common warehouse. Quantities are continuous, setups yes-or-no.
"""

import math
from collections.abc import Iterator
from random import Random

import pyomo.environ as pyo

from trex.data import exact
from trex.data.matrix import Matrix
from trex.data.problem import Field, IndexSet, Problem, Story, generator, listing, nice, sentence
from trex.solver.model import Model

SIZES = {1: ((1, 1), (4, 6)), 2: ((2, 3), (4, 6)), 3: ((4, 5), (7, 8))}  # products, periods
MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()  # noqa: SIM905
# business, line, unit, products
THEMES = (
    ("paint factory", "mixing line", "hectolitre", "primer enamel varnish lacquer stain"),
    ("dairy", "filling line", "tonne", "butter yoghurt cream quark kefir"),
    ("fertiliser works", "granulator", "tonne", "urea potash nitrate phosphate lime"),
    ("paper mill", "paper machine", "tonne", "newsprint cardboard tissue kraft vellum"),
    ("brewery", "bottling line", "hectolitre", "lager stout porter pilsner cider"),
    ("plastics plant", "extruder", "tonne", "film pipe sheet foam granulate"),
    ("cable works", "stranding line", "kilometre", "copper fibre coaxial armoured flat"),
    ("rolling mill", "mill train", "tonne", "rod wire plate coil beam"),
)
MONEY = ("euros", "dollars", "francs", "pounds")


def sample(seed: int, difficulty: int) -> Problem:
    """Feasible by construction: hours and warehouse fit a plan that makes what exceeds a period's hours earlier.

    In at least one period the demand needs more hours than there are, so that stock is needed.
    """
    rng = generator("production_planning", seed, difficulty)
    business, line, unit, products = rng.choice(THEMES)
    count, horizon = (rng.randint(*bounds) for bounds in SIZES[difficulty])
    weekly = horizon <= 5 and rng.random() < 0.3
    first = 0 if weekly else rng.randrange(len(MONTHS))
    periods = WEEKDAYS[:horizon] if weekly else [MONTHS[(first + k) % len(MONTHS)] for k in range(horizon)]
    period, money = "day" if weekly else "month", rng.choice(MONEY)
    words = {"business": business, "line": line, "unit": unit, "period": period, "money": money}
    data = _draw(rng, rng.sample(products.split(), count), periods)
    return Problem("production_planning", seed, difficulty, data, words)


def build(data: dict) -> pyo.ConcreteModel:
    """Production, stock and setups as a mixed-integer linear program."""
    products, periods = data["products"], data["periods"]
    demand, hours = data["demand"], data["hours"]
    m = pyo.ConcreteModel()
    m.make = pyo.Var(products, periods, domain=pyo.NonNegativeReals)
    m.stock = pyo.Var(products, periods, domain=pyo.NonNegativeReals)
    m.setup = pyo.Var(products, periods, domain=pyo.Binary)
    m.objective = pyo.Objective(
        expr=sum(
            data["setup_cost"][p] * m.setup[p, t] + data["holding_cost"][p] * m.stock[p, t]
            for p in products
            for t in periods
        ),
        sense=pyo.minimize,
    )

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


def second(data: dict) -> Model:
    """The facility-location formulation: how much of a period's demand is made in which earlier period; no stocks.

    Not isomorphic to `build` and tighter, with the same optimum. Source: Krarup and Bilde, 1977.
    """
    products, periods, demand = data["products"], data["periods"], data["demand"]
    matrix = Matrix("min")
    sources = ["initial", *periods]
    for p in products:
        for t in periods:
            matrix.column(f"setup[{p},{t}]", data["setup_cost"][p], upper=1.0, kind="integer")
        for b, source in enumerate(sources):
            for k in range(max(0, b - 1), len(periods)):
                held = k - max(0, b - 1)  # ends of periods that the quantity spends in the warehouse
                matrix.column(f"serve[{p},{source},{periods[k]}]", data["holding_cost"][p] * held)
        for k, t in enumerate(periods):
            served = {f"serve[{p},{source},{t}]": 1.0 for source in sources[: k + 2]}
            matrix.row(f"demand[{p},{t}]", served, demand[p][t], demand[p][t])
            for later in periods[k:]:
                terms = {f"serve[{p},{t},{later}]": 1.0, f"setup[{p},{t}]": -demand[p][later]}
                matrix.row(f"setup[{p},{t},{later}]", terms, upper=0.0)
        used = {f"serve[{p},initial,{t}]": 1.0 for t in periods}
        matrix.row(f"initial[{p}]", used, data["initial_stock"][p], data["initial_stock"][p])
    for k, t in enumerate(periods):
        made = {f"serve[{p},{t},{s}]": data["hours"][p] for p in products for s in periods[k:]}
        matrix.row(f"capacity[{t}]", made, upper=data["capacity"][t])
        kept = {f"serve[{p},{b},{s}]": 1.0 for p in products for b in sources[: k + 2] for s in periods[k + 1 :]}
        matrix.row(f"storage[{t}]", kept, upper=data["storage"])
    return matrix.model()


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


def variables(data: dict) -> Iterator[tuple[str, str]]:
    """Quantity made, stock at the end, and setup, of every product in every period."""
    for kind, domain in (("make", "nonnegative"), ("stock", "nonnegative"), ("setup", "binary")):
        yield from ((f"{kind}[{p},{t}]", domain) for p in data["products"] for t in data["periods"])


def objective(data: dict, values: dict[str, float]) -> float:
    """Total setup and holding cost."""
    return sum(
        data["setup_cost"][p] * values.get(f"setup[{p},{t}]", 0.0)
        + data["holding_cost"][p] * values.get(f"stock[{p},{t}]", 0.0)
        for p in data["products"]
        for t in data["periods"]
    )


def slacks(data: dict, values: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Balances (an equation: minus its error), setups, hours and warehouse."""
    for p in data["products"]:
        before, still_needed = data["initial_stock"][p], sum(data["demand"][p].values())
        for t in data["periods"]:
            made, kept = values.get(f"make[{p},{t}]", 0.0), values.get(f"stock[{p},{t}]", 0.0)
            yield f"balance[{p},{t}]", -abs(before + made - data["demand"][p][t] - kept)
            most = min(still_needed, data["capacity"][t] / data["hours"][p])
            yield f"only_after_setup[{p},{t}]", most * values.get(f"setup[{p},{t}]", 0.0) - made
            before, still_needed = kept, still_needed - data["demand"][p][t]
    for t in data["periods"]:
        used = sum(data["hours"][p] * values.get(f"make[{p},{t}]", 0.0) for p in data["products"])
        yield f"capacity[{t}]", data["capacity"][t] - used
        kept = sum(values.get(f"stock[{p},{t}]", 0.0) for p in data["products"])
        yield f"storage[{t}]", data["storage"] - kept


def story(problem: Problem) -> Story:
    """A production plan told in one of eight trades."""
    d, w = problem.data, problem.words
    pick = generator("production_planning", problem.seed, problem.difficulty, "story").choice
    products, periods = d["products"], d["periods"]
    unit, units, period, line, money = w["unit"], w["unit"] + "s", w["period"], w["line"], w["money"]
    on = _on(w)
    head = pick(
        (f"Demand for {{}}, in {units}, is", f"Customers take, in {units} of {{}},", f"Orders for {{}} in {units} are")
    )
    demand_facts = tuple(
        head.format(p) + " " + listing([f"{d['demand'][p][t]} {on} {t}" for t in periods]) + "." for p in products
    )
    hours = listing([f"{d['hours'][p]} for {p}" for p in products])
    capacity = listing([f"{d['capacity'][t]} hours {on} {t}" for t in periods])
    setup = listing([f"{d['setup_cost'][p]} {money} for {p}" for p in products])
    holding = listing([f"{d['holding_cost'][p]} for {p}" for p in products])
    initial = listing([f"{d['initial_stock'][p]} {units} of {p}" for p in products])
    work_fact = pick((
        f"The hours that one {unit} occupies the {line} are {hours}.",
        f"Working time on the {line}, in hours per {unit}, is {hours}.",
    ))  # fmt: skip
    capacity_fact = pick((f"The {line} can run {capacity}.", f"Available on the {line} are {capacity}."))
    setup_fact = pick((
        f"Preparing the {line} costs {setup}, {on} every {period} {on} which the product is made.",
        f"A setup is charged once per product and {period} with production: {setup}.",
    ))  # fmt: skip
    holding_fact = pick((
        f"Keeping one {unit} in stock at the end of a {period} costs, in {money}, {holding}.",
        f"The holding cost per {unit} and {period}, in {money} and on the stock at the {period}'s end, is {holding}.",
    ))  # fmt: skip
    stock_fact = f"At the start the warehouse holds {initial}."
    storage_fact = pick((
        f"At the end of a {period} the warehouse has room for {d['storage']} {units}, all products together.",
        f"The warehouse takes {d['storage']} {units} in all at the end of any {period}.",
    ))  # fmt: skip
    several = "several products" if len(products) > 1 else "one product"
    setting = pick((
        f"A {w['business']} makes {several} on one {line} and plans ahead, {period} by {period}.",
        f"The {line} of a {w['business']} is to be scheduled over the coming {period}s for {several}.",
        f"Production of {several} at a {w['business']} has to follow a demand that changes from {period} to {period}.",
    ))  # fmt: skip
    rules = (
        f"The demand of every {period} has to be met in full and on time, from its production or from stock.",
        f"The hours that production takes {on} a {period} cannot exceed the hours of the {line}.",
        f"A product can be made {on} a {period} only if the {line} is set up for it {on} that {period}; the setup cost "
        f"is due once for each product and {period} with production, and a setup takes no hours.",
        f"Holding cost is due on the stock left at the end of each {period}, the last one included, and this stock, "
        "all products together, has to fit into the warehouse.",
    )
    question = pick((
        "Which plan of production, stock and setups has the least total cost?",
        f"Decide how much of each product to make in each {period} so that setup and holding cost together are least.",
        f"Minimise the total of setup and holding costs in {money}.",
    ))  # fmt: skip
    return Story(
        setting,
        (*demand_facts, work_fact, capacity_fact, setup_fact, holding_fact, stock_fact, storage_fact), rules,
        f"Quantities made and stored are measured in {units}, cannot be negative and need not be whole numbers; "
        f"whether a product is set up {on} a {period} is a yes-or-no decision.",
        question,
        (IndexSet("products", "product", "products"), IndexSet("periods", period, f"{period}s, in order")),
        (
            Field("demand", ("products", "periods"), "demand", units),
            Field("hours", ("products",), "working time", f"hours per {unit}"),
            Field("setup_cost", ("products",), "setup cost", f"{money} per setup"),
            Field("holding_cost", ("products",), "holding cost", f"{money} per {unit} and {period}"),
            Field("initial_stock", ("products",), "stock at the start", units),
            Field("capacity", ("periods",), f"hours of the {line}", "hours"),
            Field("storage", (), "room in the warehouse", units),
        ),
    )  # fmt: skip


def formulation(problem: Problem) -> str:
    """Sets, parameters, variables, objective and constraints."""
    w = problem.words
    unit, period, money = w["unit"], w["period"], w["money"]
    return rf"""Sets:
- $P$: the products
- $T = \{{1, \dots, n\}}$: the {period}s in order

Parameters:
- $d_{{pt}}$: demand ({unit}s)
- $h_p$: working time (hours per {unit})
- $c_t$: hours of the {w["line"]} in {period} $t$
- $f_p$: setup cost ({money} per setup)
- $g_p$: holding cost ({money} per {unit} and {period})
- $s_{{p0}}$: stock at the start ({unit}s)
- $w$: room in the warehouse ({unit}s)

Variables:
- $x_{{pt}} \ge 0$, continuous: {unit}s of product $p$ made in {period} $t$
- $s_{{pt}} \ge 0$, continuous: {unit}s in stock at the end of {period} $t$
- $y_{{pt}} \in \{{0, 1\}}$: 1 if product $p$ is set up in {period} $t$

$$
\begin{{aligned}}
\min\ & \sum_{{p \in P}} \sum_{{t \in T}} (f_p y_{{pt}} + g_p s_{{pt}}) \\
\text{{s.t.}}\ & s_{{p,t-1}} + x_{{pt}} = d_{{pt}} + s_{{pt}} && p \in P,\ t \in T && \text{{(balance)}} \\
& x_{{pt}} \le M_{{pt}} y_{{pt}} && p \in P,\ t \in T && \text{{(setup)}} \\
& \sum_{{p \in P}} h_p x_{{pt}} \le c_t && t \in T && \text{{(hours)}} \\
& \sum_{{p \in P}} s_{{pt}} \le w && t \in T && \text{{(warehouse)}} \\
& x_{{pt}}, s_{{pt}} \ge 0,\ y_{{pt}} \in \{{0, 1\}} && p \in P,\ t \in T
\end{{aligned}}
$$

with $M_{{pt}} = \min\bigl(c_t / h_p,\ \sum_{{u \ge t}} d_{{pu}}\bigr)$: the hours allow no more, and
making more than all demand to come never pays. This is a mixed-integer linear program."""


def answer(problem: Problem, objective: float, values: dict[str, float]) -> str:
    """Total cost and the quantities made and stored."""
    d, w = problem.data, problem.words
    on = _on(w)
    lines = [f"The least total cost of setups and stock is {nice(objective)} {w['money']}."]
    for p in d["products"]:
        made = [f"{nice(values[f'make[{p},{t}]'])} {on} {t}" for t in d["periods"] if values.get(f"make[{p},{t}]")]
        kept = [f"{nice(values[f'stock[{p},{t}]'])} after {t}" for t in d["periods"] if values.get(f"stock[{p},{t}]")]
        lines.append(
            f"- {sentence(p)}: make {listing(made or ['nothing'])}; stock {listing(kept or ['never'])} ({w['unit']}s)."
        )
    return "\n".join(lines)


def _on(words: dict[str, str]) -> str:
    return "on" if words["period"] == "day" else "in"


def _draw(rng: Random, products: list[str], periods: list[str]) -> dict:
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
    storage = 5 * math.ceil(max(stock) * rng.uniform(1.0, 1.3) / 5)
    return {
        "products": products, "periods": periods, "demand": demand, "hours": hours,
        "setup_cost": {p: 10 * rng.randint(5, 30) for p in products},
        "holding_cost": {p: nice(rng.randint(1, 6) * 0.5) for p in products},
        "initial_stock": initial, "capacity": dict(zip(periods, capacity, strict=True)), "storage": storage,
    }  # fmt: skip
