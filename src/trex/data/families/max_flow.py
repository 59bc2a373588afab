"""Maximum flow: as much as possible from a source to a sink over one-way arcs with limited capacity."""

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
    1: {"nodes": (5, 6), "arcs": (9, 13)},
    2: {"nodes": (9, 12), "arcs": (24, 36)},
    3: {"nodes": (26, 32), "arcs": (110, 130)},
    4: {"nodes": (50, 60), "arcs": (220, 260)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible, as no flow at all is; every node lies on a way from source to sink, so some flow is possible.

    The arcs at both ends are wide. Redrawn until the largest flow fills neither all at the source nor all at the sink.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        arcs = sets["arcs"]
        graph = draw_graph(rng, sets["nodes"], arcs)
        step = rng.choice((0.5, 1, 5))
        capacity = {}
        for a in arcs:
            wide = graph.tail[a] == graph.first or graph.head[a] == graph.last
            capacity[a] = nice(step * (rng.randint(20, 60) if wide else rng.randint(4, 30)))
        data = {
            **sets, "tail": graph.tail, "head": graph.head, "capacity": capacity, "source": graph.first,
            "sink": graph.last,
        }  # fmt: skip
        out, into = (
            sum(capacity[a] for a in arcs if end[a] == node)
            for end, node in ((graph.tail, graph.first), (graph.head, graph.last))
        )
        if (optimum(data) or 0.0) < min(out, into):
            return data


def model(data: dict) -> pyo.ConcreteModel:
    """One flow variable for each arc; what enters a node between source and sink leaves it."""
    arcs, tail, head = data["arcs"], data["tail"], data["head"]
    between = [n for n in data["nodes"] if n not in (data["source"], data["sink"])]
    m = pyo.ConcreteModel()
    m.flow = pyo.Var(arcs, domain=pyo.NonNegativeReals)
    m.arriving = pyo.Expression(expr=sum(m.flow[a] for a in arcs if head[a] == data["sink"]))
    m.objective = pyo.Objective(expr=m.arriving, sense=pyo.maximize)
    m.conservation = pyo.Constraint(
        between,
        rule=lambda m, n: sum(m.flow[a] for a in arcs if head[a] == n) == sum(m.flow[a] for a in arcs if tail[a] == n),
    )
    m.capacity = pyo.Constraint(arcs, rule=lambda m, a: m.flow[a] <= data["capacity"][a])
    return m


def reformulated(data: dict) -> gp.Model:
    """The cheapest cut: nodes on the side of the source have 1, and an arc to the other side is cut."""
    m = gp.Model("minimum_cut")
    side = m.addVars(data["nodes"], ub=1, name="side")
    cut = m.addVars(data["arcs"], obj=data["capacity"], name="cut")
    m.addConstr(side[data["source"]] == 1, name="source")
    m.addConstr(side[data["sink"]] == 0, name="sink")
    for arc in data["arcs"]:
        m.addConstr(cut[arc] >= side[data["tail"][arc]] - side[data["head"][arc]], name=f"across[{arc}]")
    return m


def optimum(data: dict) -> float | None:
    """By preflow-push, in whole numbers."""
    arcs = [(data["tail"][a], data["head"][a], data["capacity"][a]) for a in data["arcs"]]
    return float(exact_flows.largest_flow(arcs, data["source"], data["sink"]))


def _scenario(domain: str, goods: str, unit: str, node: str, nodes: str, arc: str, arcs: str, names: Names,
              letter: str) -> Scenario:  # fmt: skip
    told = {"goods": goods, "unit": unit, "node": node, "nodes": nodes, "arc": arc, "arcs": arcs}
    return Scenario(domain, told, {"nodes": names, "arcs": code(letter)})


SCENARIOS = (
    _scenario("road traffic", "traffic", "cars per minute", "junction", "junctions", "road", "roads", code("J"), "R"),
    _scenario("water supply", "water", "litres per second", "pumping station", "pumping stations", "pipe", "pipes",
              code("S"), "P"),
    _scenario("data networks", "data", "gigabits per second", "router", "routers", "link", "links", code("R"), "L"),
    _scenario("rail transport", "coal", "trains per day", "station", "stations", "track", "tracks", PLACES, "T"),
    _scenario("gas supply", "gas", "cubic metres per second", "compressor", "compressors", "pipeline", "pipelines",
              code("C"), "P"),
    _scenario("evacuation", "people", "persons per minute", "room", "rooms", "passage", "passages", code("R"), "P"),
    _scenario("baggage handling", "baggage", "bags per minute", "transfer point", "transfer points", "conveyor",
              "conveyors", code("T"), "C"),
)  # fmt: skip

FAMILY = Family(
    title="Maximum flow from source to sink",
    area="network flow",
    source="L. R. Ford and D. R. Fulkerson, Maximal flow through a network, 1956",
    sizes=SIZES,
    sets=(
        IndexSet("nodes", "{node}", "{nodes}", "n", "N"),
        IndexSet("arcs", "{arc}", "{arcs}", "a", "A"),
    ),
    fields=(
        Field("tail", ("arcs",), "start", "", "t_a", (
            "{arc} {0} starts at {node} {value}", "the start of {arc} {0} is {node} {value}",
            "{arc} {0} leads away from {value}",
        ), LABEL),
        Field("head", ("arcs",), "end", "", "h_a", (
            "{arc} {0} ends at {node} {value}", "the end of {arc} {0} is {node} {value}", "{arc} {0} leads to {value}",
        ), LABEL),
        Field("capacity", ("arcs",), "capacity", "{unit}", "u_a", (
            "{arc} {0} can carry {value} {unit}", "at most {value} {unit} can pass {arc} {0}",
            "the capacity of {arc} {0} is {value} {unit}",
        )),
        Field("source", (), "origin of the {goods}", "", "o", (
            "the flow sets out from {node} {value}", "the origin is {node} {value}",
        ), LABEL),
        Field("sink", (), "destination of the {goods}", "", "z", (
            "{node} {value} is the destination", "the destination is {node} {value}",
        ), LABEL),
    ),
    contract=Contract(
        variables=(Variables("flow", CONTINUOUS, "x_a", "flow of {goods} over {arc} $a$, in {unit}",
                             "{arc} {0} carries {value} {unit}"),),
        sense="maximize",
        goal=("flow of {goods} that arrives", "{unit}"),
        objective=(Term("arriving", r"\sum_{a: h_a = z} x_a", (
            "What counts is the flow that arrives at the destination over all {arcs} that end there.",
            "The flow to be made large is the total over the {arcs} into the destination.",
        )),),
        constraints=(
            Clause("conservation", r"\sum_{a: h_a = n} x_a = \sum_{a: t_a = n} x_a", r"n \in N \setminus \{o, z\}", (
                "At every {node} other than the origin and the destination, as much leaves as arrives.",
                "Between origin and destination nothing is lost, kept or added: what arrives at a {node} leaves it.",
            )),
            Clause("capacity", r"x_a \le u_a", r"a \in A", (
                "No {arc} can carry more than its capacity, and it can be used only from its start to its end.",
                "Each {arc} serves one direction, from its start to its end, and its capacity limits the flow.",
            )),
        ),
        integrality=(
            "Flows cannot be negative and need not be whole numbers.",
            "The flow on each of the {arcs} may be any fraction, but it cannot be negative.",
        ),
        fixed=("origin and destination", "the direction of each {arc}",
               "that nothing is lost or added on the way"),
        mistakes=(
            Mistake("flow may come up on the way", "== sum(m.flow[a] for a in arcs if tail[a] == n)",
                    "<= sum(m.flow[a] for a in arcs if tail[a] == n)"),
            Mistake("flow balanced at the origin too", 'if n not in (data["source"], data["sink"])',
                    'if n != data["sink"]'),
            Mistake("arcs used against their direction", "domain=pyo.NonNegativeReals", "domain=pyo.Reals"),
            Mistake("whole flows", "domain=pyo.NonNegativeReals", "domain=pyo.NonNegativeIntegers"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A network of one-way {arcs} and {nodes} carries {goods} from one end to the other.",
        "How much {goods} a network of {nodes} and one-way {arcs} can carry is to be found out.",
        "The capacity for {goods} of a whole network of {nodes}, joined by one-way {arcs}, is being examined.",
    ),
    questions=(
        "What is the largest flow of {goods}, in {unit}, that can go from the origin to the destination?",
        "Find the flows on all {arcs} for which as much as possible arrives at the destination.",
        "Maximise the flow from the origin to the destination, in {unit}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the minimum cut",
    optimum=optimum,
)  # fmt: skip
