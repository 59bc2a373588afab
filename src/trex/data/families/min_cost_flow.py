"""Minimum-cost flow: supplies reach the nodes in need over one-way arcs with limited capacity, at least cost."""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_flows
from trex.data.contract import CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.graphs import draw_graph
from trex.data.problem import LABEL, Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import PLACES, Names, Scenario, code

SIZES = {
    1: {"nodes": (5, 6), "arcs": (9, 12)},
    2: {"nodes": (9, 12), "arcs": (24, 34)},
    3: {"nodes": (30, 36), "arcs": (105, 125)},
    4: {"nodes": (56, 64), "arcs": (210, 250)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: supplies and capacities are at least what a random routing of the needs takes.

    Redrawn until the capacities make the cheapest plan dearer.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        nodes, arcs = sets["nodes"], sets["arcs"]
        graph = draw_graph(rng, nodes, arcs)
        part = max(1, len(nodes) // 4)
        suppliers = [graph.first, *rng.sample(graph.order[1 : 2 * part], part - 1)]
        need = {n: 5 * rng.randint(2, 16) for n in rng.sample(graph.order[2 * part :], part + 1)}
        load, sent = dict.fromkeys(arcs, 0), dict.fromkeys(suppliers, 0)
        for n, amount in need.items():
            supplier = rng.choice(suppliers)
            try:
                way = graph.path(rng, supplier, n)
            except ValueError:  # the first node reaches all others
                way = graph.path(rng, supplier := graph.first, n)
            sent[supplier] += amount
            for a in way:
                load[a] += amount
        step = rng.choice((0.5, 1))
        cost = {a: nice(graph.length[a] * step) for a in arcs}
        capacity = {a: max(load[a], 5 * rng.randint(2, 12)) for a in arcs}
        supply = {n: 5 * math.ceil(max(sent[n], 20) * rng.uniform(1, 1.2) / 5) for n in suppliers}
        data = {
            **sets, "tail": graph.tail, "head": graph.head, "capacity": capacity, "cost": cost,
            "supply": {n: supply[n] for n in nodes if n in supply}, "need": {n: need[n] for n in nodes if n in need},
        }  # fmt: skip
        free = {**data, "capacity": dict.fromkeys(arcs, sum(need.values()))}
        if (optimum(data) or 0.0) > (optimum(free) or 0.0):
            return data


def model(data: dict) -> pyo.ConcreteModel:
    """One flow variable for each arc."""
    arcs, tail, head = data["arcs"], data["tail"], data["head"]
    m = pyo.ConcreteModel()
    m.flow = pyo.Var(arcs, domain=pyo.NonNegativeReals)
    m.total = pyo.Expression(expr=sum(data["cost"][a] * m.flow[a] for a in arcs))
    m.objective = pyo.Objective(expr=m.total, sense=pyo.minimize)
    m.balance = pyo.Constraint(
        data["nodes"],
        rule=lambda m, n: (
            sum(m.flow[a] for a in arcs if head[a] == n) + data["supply"].get(n, 0)
            >= sum(m.flow[a] for a in arcs if tail[a] == n) + data["need"].get(n, 0)
        ),
    )
    m.capacity = pyo.Constraint(arcs, rule=lambda m, a: m.flow[a] <= data["capacity"][a])
    return m


def reformulated(data: dict) -> gp.Model:
    """The dual program: a price of the goods at every node, and a rent of every arc. Equal by strong duality."""
    m = gp.Model("node_prices")
    price = m.addVars(data["nodes"], name="price")
    rent = m.addVars(data["arcs"], name="rent")
    income = price.prod(data["need"]) - price.prod(data["supply"]) - rent.prod(data["capacity"])
    m.setObjective(income, gp.GRB.MAXIMIZE)
    for arc, cost in data["cost"].items():
        m.addConstr(price[data["head"][arc]] <= price[data["tail"][arc]] + cost + rent[arc], name=f"trade[{arc}]")
    return m


def optimum(data: dict) -> float | None:
    """By the network simplex method, in whole numbers."""
    arcs = [(data["tail"][a], data["head"][a], data["capacity"][a], data["cost"][a]) for a in data["arcs"]]
    surplus = {**data["supply"], **{n: -amount for n, amount in data["need"].items()}}
    return float(exact_flows.cheapest_flow(arcs, surplus))


def _scenario(domain: str, goods: str, unit: str, node: str, nodes: str, arc: str, arcs: str, money: str,
              names: Names, letter: str) -> Scenario:  # fmt: skip
    told = {
        "goods": goods, "unit": unit, "units": unit + "s", "node": node, "nodes": nodes, "arc": arc, "arcs": arcs,
        "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"nodes": names, "arcs": code(letter)})


SCENARIOS = (
    _scenario("gas supply", "natural gas", "gigajoule", "station", "stations", "pipeline", "pipelines", "euros",
              code("S"), "P"),
    _scenario("water supply", "drinking water", "megalitre", "reservoir", "reservoirs", "main", "mains", "dollars",
              code("R"), "M"),
    _scenario("rail freight", "coal", "tonne", "yard", "yards", "line", "lines", "euros", PLACES, "L"),
    _scenario("container shipping", "empty equipment", "container", "port", "ports", "service", "services", "dollars",
              PLACES, "S"),
    _scenario("retail", "spare parts", "pallet", "depot", "depots", "lorry run", "lorry runs", "pounds", PLACES, "R"),
    _scenario("public works", "gravel", "tonne", "site", "sites", "haul road", "haul roads", "francs", code("B"), "H"),
    _scenario("postal service", "parcels", "roll cage", "sorting office", "sorting offices", "night run",
              "night runs", "pounds", PLACES, "N"),
)  # fmt: skip

FAMILY = Family(
    title="Minimum-cost flow with capacities",
    area="network flow",
    source="R. K. Ahuja, T. L. Magnanti and J. B. Orlin, Network Flows, 1993",
    sizes=SIZES,
    sets=(
        IndexSet("nodes", "{node}", "{nodes}", "n", "N"),
        IndexSet("arcs", "{arc}", "{arcs}", "a", "A"),
    ),
    fields=(
        Field("tail", ("arcs",), "start", "", "t_a", (
            "{arc} {0} starts at {value}", "the start of {arc} {0} is {value}", "{arc} {0} leads away from {value}",
        ), LABEL),
        Field("head", ("arcs",), "end", "", "h_a", (
            "{arc} {0} ends at {value}", "the end of {arc} {0} is {value}", "{arc} {0} leads to {value}",
        ), LABEL),
        Field("capacity", ("arcs",), "capacity", "{units}", "u_a", (
            "{arc} {0} can carry {value} {units}", "no more than {value} {units} can go over {arc} {0}",
            "the capacity of {arc} {0} is {value} {units}",
        )),
        Field("cost", ("arcs",), "cost", "{money} per {unit}", "c_a", (
            "a {unit} on {arc} {0} costs {value} {money}", "the charge on {arc} {0} is {value} {money} per {unit}",
            "{arc} {0} costs {value} {money} for each {unit}",
        )),
        Field("supply", ("nodes",), "supply, where there is one", "{units}", "s_n", (
            "{value} {units} are on hand in {0}", "{0} has a supply of {value} {units}",
            "{0} can give up to {value} {units}",
        )),
        Field("need", ("nodes",), "need, where there is one", "{units}", "d_n", (
            "{value} {units} are needed in {0}", "{0} needs {value} {units}", "the need in {0} is {value} {units}",
        )),
    ),
    contract=Contract(
        variables=(Variables("flow", CONTINUOUS, "x_a", "{units} of {goods} carried over {arc} $a$",
                             "{arc} {0} carries {value} {units}"),),
        sense="minimize",
        goal=("total cost", "{money}"),
        objective=(Term("total", r"\sum_{a \in A} c_a x_a", (
            "The cost is proportional to the quantity that each {arc} carries, and the costs of all {arcs} add up.",
            "Every {unit} pays for each {arc} that it goes over.",
        )),),
        constraints=(
            Clause("balance", r"\sum_{a: h_a = n} x_a + s_n \ge \sum_{a: t_a = n} x_a + d_n", r"n \in N", (
                "At each {node}, what arrives and its own supply must at least cover what leaves and its own need; "
                "where no supply or need is given, there is none, and what is not needed may stay.",
                "A {node} can pass on what arrives and its own supply, but only beyond its own need, which must be "
                "met in full; supplies need not be used up, and a supply or need that is not given is zero.",
            )),
            Clause("capacity", r"x_a \le u_a", r"a \in A", (
                "No {arc} can carry more than its capacity, and it can be used only from its start to its end.",
                "Each {arc} carries goods in one direction, from its start to its end, within its capacity.",
            )),
        ),
        integrality=(
            "Quantities cannot be negative and need not be whole numbers of {units}.",
            "Any fraction of a {unit} can be carried; no quantity is negative.",
        ),
        fixed=("the direction of each {arc}", "that needs are met in full", "that supplies need not be used up"),
        mistakes=(
            Mistake("supplies have to be used up", ">= sum(m.flow[a] for a in arcs if tail", "== sum(m.flow[a] for a "
                    "in arcs if tail"),
            Mistake("arcs used against their direction", "domain=pyo.NonNegativeReals", "domain=pyo.Reals"),
            Mistake("needs counted as supplies", '+ data["need"].get', '- data["need"].get'),
            Mistake("supplies counted as needs", '+ data["supply"].get', '- data["supply"].get'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "Some {nodes} have {goods} to give and others lack them; between them there are one-way {arcs}.",
        "A network of {arcs} connects {nodes}; some have {goods}, others need them.",
        "The operator of a network of {nodes} and {arcs} plans the transport of {goods}.",
    ),
    questions=(
        "How much should go over each of the {arcs} so that all needs are met at the least cost?",
        "Find the cheapest way to meet all needs, and state its cost in {money}.",
        "Minimise the total cost in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the dual linear program",
    optimum=optimum,
)  # fmt: skip
