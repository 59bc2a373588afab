"""Unit commitment: which units run in which hour, and with what load, at least cost of fuel, running and starts.

With minimum up times and a spinning reserve. Outputs are continuous, on-off decisions binary.
"""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_energy
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import HOURS, Scenario, code

SIZES = {
    1: {"units": (2, 2), "hours": (2, 3)},
    2: {"units": (3, 3), "hours": (4, 5)},
    3: {"units": (5, 5), "hours": (7, 8)},
    4: {"units": (6, 7), "hours": (11, 12)},
}
SMALL = 3  # units up to which dynamic programming is quick


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: every hour's demand lies between the least and the largest output of a drawn plan.

    In the plan the first units run throughout, the others for a stretch that is at least their minimum up time.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    units, hours = sets["units"], sets["hours"]
    capacity = {g: 10 * rng.randint(6, 20) for g in units}
    least = {g: 5 * round(capacity[g] * rng.uniform(0.3, 0.6) / 5) for g in units}
    up_time = {g: rng.randint(1, min(4, len(hours))) for g in units}
    reserve = 5 * rng.randint(1, max(1, min(capacity[g] - least[g] for g in units) // 8))
    base = units[: (len(units) + 1) // 2]
    plan = {}
    for g in units:
        length = len(hours) if g in base else rng.randint(up_time[g], len(hours))
        first = rng.randint(0, len(hours) - length)
        plan[g] = range(first, first + length)
    demand = {}
    for k, t in enumerate(hours):
        on = [g for g in units if k in plan[g]]
        low, high = sum(least[g] for g in on), sum(capacity[g] for g in on) - reserve
        demand[t] = 5 * math.floor((low + rng.uniform(0.1, 1) * (high - low)) / 5)
    return {
        **sets, "demand": demand, "capacity": capacity, "least": least,
        "cost": {g: nice(rng.randint(20, 60) / 2) for g in units},
        "running": {g: 10 * rng.randint(5, 40) for g in units},
        "start_cost": {g: 10 * rng.randint(10, 90) for g in units}, "up_time": up_time, "reserve": reserve,
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """States, starts and outputs by hour as a mixed-integer linear program."""
    units, hours = data["units"], data["hours"]
    m = pyo.ConcreteModel()
    m.output = pyo.Var(units, hours, domain=pyo.NonNegativeReals)
    m.on = pyo.Var(units, hours, domain=pyo.Binary)
    m.start = pyo.Var(units, hours, domain=pyo.Binary)
    m.fuel_cost = pyo.Expression(expr=sum(data["cost"][g] * m.output[g, t] for g in units for t in hours))
    m.running_cost = pyo.Expression(expr=sum(data["running"][g] * m.on[g, t] for g in units for t in hours))
    m.start_cost = pyo.Expression(expr=sum(data["start_cost"][g] * m.start[g, t] for g in units for t in hours))
    m.objective = pyo.Objective(expr=m.fuel_cost + m.running_cost + m.start_cost, sense=pyo.minimize)

    before = {(g, t): m.on[g, hours[k - 1]] if k else 0 for g in units for k, t in enumerate(hours)}
    recent = {  # hours in which a start would still oblige the unit to be on
        (g, t): hours[max(0, k + 1 - data["up_time"][g]) : k + 1] for g in units for k, t in enumerate(hours)
    }
    m.demand = pyo.Constraint(hours, rule=lambda m, t: sum(m.output[g, t] for g in units) == data["demand"][t])
    m.reserve = pyo.Constraint(
        hours,
        rule=lambda m, t: sum(data["capacity"][g] * m.on[g, t] for g in units) >= data["demand"][t] + data["reserve"],
    )
    m.most = pyo.Constraint(units, hours, rule=lambda m, g, t: m.output[g, t] <= data["capacity"][g] * m.on[g, t])
    m.least = pyo.Constraint(units, hours, rule=lambda m, g, t: m.output[g, t] >= data["least"][g] * m.on[g, t])
    m.starting = pyo.Constraint(units, hours, rule=lambda m, g, t: m.on[g, t] - before[g, t] <= m.start[g, t])
    m.staying = pyo.Constraint(
        units, hours, rule=lambda m, g, t: sum(m.start[g, s] for s in recent[g, t]) <= m.on[g, t]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """Stops instead of starts: a unit that is on has been started once more than it was stopped."""
    units, hours = data["units"], data["hours"]
    m = gp.Model("states_and_stops")
    extra = m.addVars(units, hours, name="above_least")
    up = m.addVars(units, hours, vtype=gp.GRB.BINARY, name="up")
    stop = m.addVars(units, hours, vtype=gp.GRB.BINARY, name="stop")
    for g in units:
        for k, t in enumerate(hours):
            m.addConstr(extra[g, t] <= (data["capacity"][g] - data["least"][g]) * up[g, t], name=f"range[{g},{t}]")
            if k:
                m.addConstr(stop[g, t] + up[g, t] >= up[g, hours[k - 1]], name=f"stop[{g},{t}]")
            # whoever stops in the last hours was on before them, for a unit does not stop twice within its up time
            stops = gp.quicksum(stop[g, s] for s in hours[max(0, k + 1 - data["up_time"][g]) : k + 1])
            earlier = up[g, hours[k - data["up_time"][g]]] if k >= data["up_time"][g] else 0
            m.addConstr(stops <= earlier, name=f"long_enough[{g},{t}]")
    load = {(g, t): data["least"][g] * up[g, t] + extra[g, t] for g in units for t in hours}
    for t in hours:
        m.addConstr(gp.quicksum(load[g, t] for g in units) == data["demand"][t], name=f"load[{t}]")
        able = gp.quicksum(data["capacity"][g] * up[g, t] for g in units)
        m.addConstr(able - data["demand"][t] >= data["reserve"], name=f"spare[{t}]")
    m.setObjective(
        gp.quicksum(data["start_cost"][g] * (up[g, hours[-1]] + stop.sum(g, "*")) for g in units)
        + gp.quicksum(data["running"][g] * up[g, t] + data["cost"][g] * load[g, t] for g in units for t in hours),
        gp.GRB.MINIMIZE,
    )
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over the units' states; None for more than three units."""
    if len(data["units"]) > SMALL:
        return None
    units = [
        exact_energy.Unit(
            data["least"][g], data["capacity"][g], data["cost"][g], data["running"][g], data["start_cost"][g],
            data["up_time"][g],
        )
        for g in data["units"]
    ]  # fmt: skip
    return float(exact_energy.unit_commitment(units, [data["demand"][t] for t in data["hours"]], data["reserve"]))


def _scenario(domain: str, business: str, unit: str, goods: str, measure: str, money: str) -> Scenario:
    told = {
        "business": business, "machine": unit, "machines": unit + "s", "goods": goods, "unit": measure,
        "units": measure + "s", "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"units": code(unit[0].upper()), "hours": HOURS})


SCENARIOS = (
    _scenario("power", "municipal utility", "generator", "electricity", "megawatt-hour", "euros"),
    _scenario("heating", "district heating company", "boiler", "heat", "megawatt-hour", "crowns"),
    _scenario("water", "water works", "pump", "drinking water", "kilolitre", "pounds"),
    _scenario("industry", "car factory", "compressor", "compressed air", "cubic metre", "euros"),
    _scenario("cooling", "hospital campus", "chiller", "cooling", "kilowatt-hour", "francs"),
    _scenario("chemicals", "chemical site", "reactor", "process steam", "tonne", "dollars"),
    _scenario("computing", "data centre", "cluster", "computing", "job", "dollars"),
)

FAMILY = Family(
    title="Unit commitment",
    area="energy",
    source="A. J. Wood and B. F. Wollenberg, Power Generation, Operation and Control, 1984",
    sizes=SIZES,
    sets=(
        IndexSet("units", "{machine}", "{machines}", "g", "G"),
        IndexSet("hours", "hour", "hours in their order", "t", "T"),
    ),
    fields=(
        Field("demand", ("hours",), "demand", "{units}", "d_t", (
            "in hour {0} exactly {value} {units} are needed", "demand in {0} is {value} {units}",
            "{value} {units} of {goods} are asked for in {0}",
        )),
        Field("capacity", ("units",), "largest output", "{units} an hour", "P_g", (
            "{machine} {0} gives at most {value} {units} an hour",
            "{0} has a largest output of {value} {units} an hour",
            "the output of {0} cannot exceed {value} {units} in an hour",
        )),
        Field("least", ("units",), "least output while on", "{units} an hour", "p_g", (
            "while on, {0} gives at least {value} {units} an hour",
            "{0} cannot run below {value} {units} an hour", "the least load of {0} is {value} {units} an hour",
        )),
        Field("cost", ("units",), "cost of output", "{money} per {unit}", "c_g", (
            "each {unit} from {0} costs {value} {money}", "fuel and wear of {0} come to {value} {money} per {unit}",
        )),
        Field("running", ("units",), "cost of an hour on", "{money}", "n_g", (
            "every hour that {0} is on costs {value} {money} besides", "keeping {0} on costs {value} {money} an hour",
        )),
        Field("start_cost", ("units",), "cost of a start", "{money}", "f_g", (
            "starting {0} costs {value} {money}", "each start of {0} costs {value} {money}",
            "{value} {money} are due whenever {0} is started",
        )),
        Field("up_time", ("units",), "minimum up time", "hours", "u_g", (
            "once started, {0} has to stay on for {value} hours or more", "the minimum up time of {0} is {value} hours",
        )),
        Field("reserve", (), "reserve", "{units} an hour", "r", (
            "a reserve of {value} {units} an hour is prescribed",
            "{value} {units} an hour have to be held in reserve",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("output", CONTINUOUS, "x_{gt}", "{units} that {machine} $g$ gives in hour $t$",
                      "{0} gives {value} {units} in {1}"),
            Variables("on", BINARY, "y_{gt}", "1 if {machine} $g$ is on in hour $t$"),
            Variables("start", BINARY, "z_{gt}", "1 if {machine} $g$ is started for hour $t$",
                      "{0} is started for {1}"),
        ),
        sense="minimize",
        goal=("total cost of output, running hours and starts", "{money}"),
        objective=(
            Term("fuel_cost", r"\sum_{g \in G} \sum_{t \in T} c_g x_{gt}", (
                "Output is paid for by the {unit}.", "There is a cost for every {unit} that a {machine} gives.",
            )),
            Term("running_cost", r"\sum_{g \in G} \sum_{t \in T} n_g y_{gt}", (
                "Each hour in which a {machine} is on has a fixed cost, whatever its load.",
                "A {machine} that is on also costs a fixed amount for the hour, on top of the cost of its output.",
            )),
            Term("start_cost", r"\sum_{g \in G} \sum_{t \in T} f_g z_{gt}", (
                "A start is charged for each hour in which a {machine} is on without having been on in the hour "
                "before; before the first hour all {machines} are off.",
                "All {machines} are off at the beginning; each time one goes from off to on, its start is paid.",
            )),
        ),
        constraints=(
            Clause("demand", r"\sum_{g \in G} x_{gt} = d_t", r"t \in T", (
                "The outputs of an hour must add up to its demand exactly; nothing can be stored.",
                "In every hour, what the {machines} give together equals the demand: there is no storage.",
            )),
            Clause("reserve", r"\sum_{g \in G} P_g y_{gt} \ge d_t + r", r"t \in T", (
                "In each hour the largest outputs of the {machines} that are on must add up to at least the demand "
                "plus the reserve.",
                "The {machines} that are on have to be able, at their largest output, to give the reserve on top of "
                "the demand, in every hour.",
            )),
            Clause("most", r"x_{gt} \le P_g y_{gt}", r"g \in G,\ t \in T", (
                "A {machine} gives nothing while it is off and never more than its largest output.",
                "Only {machines} that are on give output, up to the largest that they can.",
            )),
            Clause("least", r"x_{gt} \ge p_g y_{gt}", r"g \in G,\ t \in T", (
                "A {machine} that is on gives at least its least output.",
                "In each of its hours on, a {machine} must not fall below its least output.",
            )),
            Clause("starting", r"y_{gt} - y_{g,t-1} \le z_{gt}", r"g \in G,\ t \in T", (
                "A {machine} is either on or off for a whole hour.",
                "States last for whole hours: a {machine} cannot be switched within one.",
            )),
            Clause("staying", r"\sum_{s = t - u_g + 1}^{t} z_{gs} \le y_{gt}", r"g \in G,\ t \in T", (
                "After a start a {machine} stays on for its minimum up time, the hour of the start included, or to the "
                "end of the last hour if that comes first.",
                "The minimum up time counts from the first hour on after a start; it may be cut short only by the end "
                "of the plan.",
            )),
        ),
        integrality=(
            "Whether a {machine} is on, and whether it is started, are yes-or-no decisions for each hour; outputs may "
            "be any fraction of a {unit}.",
            "Outputs need not be whole numbers; states and starts are decisions between yes and no.",
        ),
        fixed=("that demand is met exactly", "that all {machines} are off before the first hour",
               "that the reserve is carried by {machines} that are on"),
        mistakes=(
            Mistake("every hour on counts as a start", "m.on[g, t] - before[g, t]", "m.on[g, t]"),
            Mistake("all units on at the beginning", "if k else 0", "if k else 1"),
            Mistake("reserve without the demand", 'data["demand"][t] + data["reserve"]', 'data["reserve"]'),
            Mistake("the least output also while off", 'data["least"][g] * m.on[g, t]', 'data["least"][g]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "The control room of a {business} decides which {machines} run, hour by hour.",
        "A {business} meets a changing demand for {goods} with several {machines}.",
        "Several {machines} supply the {goods} of a {business}; their operation over the next hours is to be planned.",
    ),
    questions=(
        "Which {machines} should be on in which hours, and with what output, so that the total cost is least?",
        "Find the cheapest operation over all hours.",
        "Minimise the total cost of output, running hours and starts, in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="stops instead of starts, and outputs above the least",
    optimum=optimum,
)  # fmt: skip
