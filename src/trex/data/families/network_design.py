"""Network design: which one-way arcs to build so that a source can supply all nodes in need, at least total cost."""

import itertools
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_flows
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.graphs import draw_graph
from trex.data.problem import LABEL, DataError, Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import PLACES, Names, Scenario, code

SIZES = {
    1: {"nodes": (4, 4), "arcs": (6, 7)},
    2: {"nodes": (6, 8), "arcs": (12, 18)},
    3: {"nodes": (14, 16), "arcs": (38, 42)},
    4: {"nodes": (17, 19), "arcs": (52, 56)},
}
ENUMERATED = 7  # arcs of which all choices are tried


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: capacities are at least what a random routing of all demands takes.

    Redrawn until it would not do to supply each node over the path that is shortest.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        nodes, arcs = sets["nodes"], sets["arcs"]
        graph = draw_graph(rng, nodes, arcs, back=0.1)
        wanting = rng.sample(graph.order[1:], min(2 + len(nodes) // 6, 3))
        demand = {n: 5 * rng.randint(1, 8) for n in nodes if n in wanting}
        load, nearest = dict.fromkeys(arcs, 0), dict.fromkeys(arcs, 0)
        for n, amount in demand.items():
            for a in graph.path(rng, graph.first, n):
                load[a] += amount
            for a in graph.shortest(graph.length, graph.first, n):
                nearest[a] += amount
        capacity = {a: max(load[a], 5 * rng.randint(3, 12)) for a in arcs}
        if any(nearest[a] > capacity[a] for a in arcs):
            step = rng.choice((0.5, 1))
            return {
                **sets, "tail": graph.tail, "head": graph.head, "capacity": capacity,
                "cost": {a: nice(step * rng.randint(1, 6)) for a in arcs},
                "building": {a: 5 * (graph.length[a] + rng.randint(0, 12)) for a in arcs},
                "source": graph.first, "demand": demand,
            }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Flow on each arc, and whether the arc is built."""
    arcs, tail, head = data["arcs"], data["tail"], data["head"]
    m = pyo.ConcreteModel()
    m.flow = pyo.Var(arcs, domain=pyo.NonNegativeReals)
    m.build = pyo.Var(arcs, domain=pyo.Binary)
    m.building = pyo.Expression(expr=sum(data["building"][a] * m.build[a] for a in arcs))
    m.running = pyo.Expression(expr=sum(data["cost"][a] * m.flow[a] for a in arcs))
    m.objective = pyo.Objective(expr=m.building + m.running, sense=pyo.minimize)
    m.balance = pyo.Constraint(
        [n for n in data["nodes"] if n != data["source"]],
        rule=lambda m, n: (
            sum(m.flow[a] for a in arcs if head[a] == n) - sum(m.flow[a] for a in arcs if tail[a] == n)
            == data["demand"].get(n, 0)
        ),
    )
    m.only_if_built = pyo.Constraint(arcs, rule=lambda m, a: m.flow[a] <= data["capacity"][a] * m.build[a])
    return m


def reformulated(data: dict) -> gp.Model:
    """With the flow told apart by the node that it is meant for, so that each part needs the arc built."""
    m = gp.Model("by_destination")
    ends = {arc: (data["tail"][arc], data["head"][arc]) for arc in data["arcs"]}
    built = m.addVars(data["arcs"], vtype=gp.GRB.BINARY, obj=data["building"], name="built")
    total = {arc: gp.LinExpr() for arc in data["arcs"]}
    for goal, amount in data["demand"].items():
        part = m.addVars(data["arcs"], obj=data["cost"], name=f"for_{goal}")
        for node in data["nodes"]:
            out = gp.quicksum(part[arc] for arc, (start, _) in ends.items() if start == node)
            into = gp.quicksum(part[arc] for arc, (_, end) in ends.items() if end == node)
            surplus = amount if node == data["source"] else -amount if node == goal else 0
            m.addConstr(out - into == surplus, name=f"pass[{goal},{node}]")
        m.addConstrs((part[arc] <= amount * built[arc] for arc in data["arcs"]), name=f"needs_{goal}")
        for arc in data["arcs"]:
            total[arc] += part[arc]
    m.addConstrs((total[arc] <= most * built[arc] for arc, most in data["capacity"].items()), name="room")
    return m


def optimum(data: dict) -> float | None:
    """By the cheapest flow over every choice of arcs, where they are few."""
    if len(data["arcs"]) > ENUMERATED:
        return None
    surplus = {data["source"]: sum(data["demand"].values()), **{n: -amount for n, amount in data["demand"].items()}}
    found = []
    for size in range(1, len(data["arcs"]) + 1):
        for chosen in itertools.combinations(data["arcs"], size):
            arcs = [(data["tail"][a], data["head"][a], data["capacity"][a], data["cost"][a]) for a in chosen]
            try:
                flow = exact_flows.cheapest_flow(arcs, surplus)
            except DataError:
                continue
            found.append(flow + sum(data["building"][a] for a in chosen))
    return float(min(found))


def _scenario(domain: str, goods: str, unit: str, node: str, nodes: str, arc: str, arcs: str, money: str,
              names: Names, letter: str) -> Scenario:  # fmt: skip
    told = {
        "goods": goods, "unit": unit, "units": unit + "s", "node": node, "nodes": nodes, "arc": arc, "arcs": arcs,
        "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"nodes": names, "arcs": code(letter)})


SCENARIOS = (
    _scenario("telecommunications", "data", "gigabit", "cabinet", "cabinets", "duct", "ducts", "thousand euros",
              code("C"), "D"),
    _scenario("district heating", "heat", "megawatt", "substation", "substations", "pipe", "pipes", "thousand euros",
              code("S"), "P"),
    _scenario("irrigation", "water", "megalitre", "farm", "farms", "canal", "canals", "hundred dollars", code("F"),
              "C"),
    _scenario("road haulage", "parcels", "pallet", "depot", "depots", "lorry line", "lorry lines", "euros", PLACES,
              "L"),
    _scenario("gas supply", "biogas", "gigajoule", "town", "towns", "pipeline", "pipelines", "thousand francs",
              PLACES, "P"),
    _scenario("mining", "backfill", "tonne", "shaft", "shafts", "conveyor", "conveyors", "hundred dollars", code("S"),
              "B"),
    _scenario("hydrogen", "hydrogen", "tonne", "filling station", "filling stations", "pipeline", "pipelines",
              "thousand pounds", PLACES, "P"),
)  # fmt: skip

FAMILY = Family(
    title="Design of a supply network with fixed charges",
    area="network flow",
    source="T. L. Magnanti and R. T. Wong, Network design and transportation planning: models and algorithms, 1984",
    sizes=SIZES,
    sets=(
        IndexSet("nodes", "{node}", "{nodes}", "n", "N"),
        IndexSet("arcs", "{arc}", "{arcs}", "a", "A"),
    ),
    fields=(
        Field("tail", ("arcs",), "start", "", "t_a", (
            "{arc} {0} would start at {node} {value}", "the start of {arc} {0} would be {node} {value}",
            "{arc} {0} would lead away from {value}",
        ), LABEL),
        Field("head", ("arcs",), "end", "", "h_a", (
            "{arc} {0} would end at {node} {value}", "the end of {arc} {0} would be {node} {value}",
            "{arc} {0} would lead to {value}",
        ), LABEL),
        Field("capacity", ("arcs",), "capacity", "{units}", "u_a", (
            "once there, {arc} {0} can carry {value} {units}", "the capacity of {arc} {0} would be {value} {units}",
            "at most {value} {units} fit through {arc} {0}",
        )),
        Field("cost", ("arcs",), "running cost", "{money} per {unit}", "c_a", (
            "sending a {unit} over {arc} {0} costs {value} {money}",
            "the running cost of {arc} {0} is {value} {money} per {unit}",
        )),
        Field("building", ("arcs",), "cost of setting up", "{money}", "f_a", (
            "setting up {arc} {0} costs {value} {money}", "{arc} {0} can be had for {value} {money}",
            "the price of setting up {arc} {0} is {value} {money}",
        )),
        Field("source", (), "starting point of the {goods}", "", "o", (
            "the supply of {goods} comes from {node} {value}", "the starting point is {node} {value}",
        ), LABEL),
        Field("demand", ("nodes",), "demand, where there is one", "{units}", "d_n", (
            "{node} {0} needs {value} {units}", "the demand of {node} {0} is {value} {units}",
            "{value} {units} have to reach {node} {0}",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("flow", CONTINUOUS, "x_a", "{units} sent over {arc} $a$", "send {value} {units} over {arc} {0}"),
            Variables("build", BINARY, "y_a", "1 if {arc} $a$ is set up", "set up {arc} {0}"),
        ),
        sense="minimize",
        goal=("total cost of setting up and running", "{money}"),
        objective=(
            Term("building", r"\sum_{a \in A} f_a y_a", (
                "Each of the {arcs} that is set up costs its price once, however much it carries.",
                "The price of setting up is due once for each of the {arcs} chosen.",
            )),
            Term("running", r"\sum_{a \in A} c_a x_a", (
                "The running cost is due for every {unit} on each of the {arcs} that it goes over.",
                "Besides, every {unit} pays the running cost of each of the {arcs} on its way.",
            )),
        ),
        constraints=(
            Clause("balance", r"\sum_{a: h_a = n} x_a - \sum_{a: t_a = n} x_a = d_n", r"n \in N \setminus \{o\}", (
                "At every {node} but the starting point, what arrives minus what leaves must be exactly the demand; "
                "where no demand is given, there is none, and the starting point has as much as is needed.",
                "The starting point can send out any quantity; every other {node} keeps exactly its demand, nothing "
                "where no demand is given, and passes on the rest.",
            )),
            Clause("only_if_built", r"x_a \le u_a y_a", r"a \in A", (
                "Only {arcs} that are set up can carry anything, each no more than its capacity and only from its "
                "start to its end.",
                "Nothing can go over an unbuilt connection, and over each of the {arcs} set up no more than its "
                "capacity, in its direction only.",
            )),
        ),
        integrality=(
            "Whether to set up each of the {arcs} is a yes-or-no decision; quantities cannot be negative and need not "
            "be whole numbers.",
            "Each of the {arcs} is set up whole or not at all, while any non-negative quantity, whole or not, can be "
            "sent.",
        ),
        fixed=("that all demand is met", "the direction of each {arc}", "that the price of setting up is due once"),
        mistakes=(
            Mistake("arcs set up in parts", "m.build = pyo.Var(arcs, domain=pyo.Binary)",
                    "m.build = pyo.Var(arcs, bounds=(0, 1))"),
            Mistake("flow without setting up", '<= data["capacity"][a] * m.build[a]', '<= data["capacity"][a]'),
            Mistake("running cost forgotten", "expr=m.building + m.running", "expr=m.building"),
            Mistake("demands taken for supplies", '== data["demand"].get(n, 0)', '== -data["demand"].get(n, 0)'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A network for {goods} is to be set up; possible {arcs} between {nodes} have been surveyed.",
        "Some of the possible one-way {arcs} between {nodes} are to be chosen for the supply of {goods}.",
        "A new network of one-way {arcs} is to bring {goods} to {nodes}.",
    ),
    questions=(
        "Which {arcs} should be set up, and what should each carry, so that the total cost is as small as possible?",
        "Find the network of least total cost, and state it in {money}.",
        "Minimise the total of setting-up and running cost, in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="flow told apart by destination",
    optimum=optimum,
)  # fmt: skip
