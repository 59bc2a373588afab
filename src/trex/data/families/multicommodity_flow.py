"""Multi-commodity flow: several consignments share the capacity of one-way arcs, at least cost."""

import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.graphs import draw_graph
from trex.data.problem import LABEL, Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import PLACES, Names, Scenario, code

SIZES = {
    1: {"nodes": (4, 4), "arcs": (6, 7), "commodities": (2, 2)},
    2: {"nodes": (6, 7), "arcs": (12, 15), "commodities": (2, 3)},
    3: {"nodes": (12, 14), "arcs": (30, 36), "commodities": (4, 4)},
    4: {"nodes": (16, 18), "arcs": (44, 52), "commodities": (5, 6)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: capacities are at least what a random routing of all commodities takes.

    The first two commodities have one origin. Redrawn until the cheapest paths of all would overload some arc.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        nodes, arcs, commodities = sets["nodes"], sets["arcs"], sets["commodities"]
        graph = draw_graph(rng, nodes, arcs)
        step = rng.choice((0.5, 1))
        cost = {a: nice(graph.length[a] * step) for a in arcs}
        load, cheapest = dict.fromkeys(arcs, 0), dict.fromkeys(arcs, 0)
        ends: dict[str, tuple[str, str]] = {}
        quantity = {k: 5 * rng.randint(2, 14) for k in commodities}
        for k in commodities:
            while k not in ends:
                start = graph.first if len(ends) < 2 else rng.choice(graph.order[: len(nodes) // 2])
                end = rng.choice(graph.order[len(nodes) // 2 :])
                if start == end or (start, end) in ends.values():
                    continue
                try:
                    way = graph.path(rng, start, end)
                except ValueError:
                    continue
                ends[k] = (start, end)
                for a in way:
                    load[a] += quantity[k]
                for a in graph.shortest(cost, start, end):
                    cheapest[a] += quantity[k]
        capacity = {a: max(load[a], 5 * rng.randint(2, 10)) for a in arcs}
        if any(cheapest[a] > capacity[a] for a in arcs):
            return {
                **sets, "tail": graph.tail, "head": graph.head, "capacity": capacity, "cost": cost,
                "origin": {k: ends[k][0] for k in commodities}, "destination": {k: ends[k][1] for k in commodities},
                "quantity": quantity,
            }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """One flow variable for each arc and commodity."""
    arcs, tail, head = data["arcs"], data["tail"], data["head"]
    commodities, origin, destination = data["commodities"], data["origin"], data["destination"]
    m = pyo.ConcreteModel()
    m.flow = pyo.Var(commodities, arcs, domain=pyo.NonNegativeReals)
    m.total = pyo.Expression(expr=sum(data["cost"][a] * m.flow[k, a] for k in commodities for a in arcs))
    m.objective = pyo.Objective(expr=m.total, sense=pyo.minimize)
    m.balance = pyo.Constraint(
        commodities,
        data["nodes"],
        rule=lambda m, k, n: (
            sum(m.flow[k, a] for a in arcs if head[a] == n) - sum(m.flow[k, a] for a in arcs if tail[a] == n)
            == data["quantity"][k] * ((n == destination[k]) - (n == origin[k]))
        ),
    )
    m.capacity = pyo.Constraint(arcs, rule=lambda m, a: sum(m.flow[k, a] for k in commodities) <= data["capacity"][a])
    return m


def reformulated(data: dict) -> gp.Model:
    """All that comes from one origin is one flow, from which each destination takes what is meant for it."""
    m = gp.Model("by_origin")
    origins = list(dict.fromkeys(data["origin"].values()))
    wanted: dict[tuple[str, str], float] = {}
    for k in data["commodities"]:
        key = data["origin"][k], data["destination"][k]
        wanted[key] = wanted.get(key, 0) + data["quantity"][k]
    flow = m.addVars(data["arcs"], origins, name="flow")
    m.setObjective(gp.quicksum(data["cost"][a] * flow.sum(a, "*") for a in data["arcs"]), gp.GRB.MINIMIZE)
    into = {n: [a for a in data["arcs"] if data["head"][a] == n] for n in data["nodes"]}
    out = {n: [a for a in data["arcs"] if data["tail"][a] == n] for n in data["nodes"]}
    for o in origins:
        for n in data["nodes"]:
            if n != o:
                kept = gp.quicksum(flow[a, o] for a in into[n]) - gp.quicksum(flow[a, o] for a in out[n])
                m.addConstr(kept == wanted.get((o, n), 0), name=f"take[{o},{n}]")
        back = gp.quicksum(flow[a, o] for a in into[o])
        sent = sum(amount for (start, _), amount in wanted.items() if start == o)
        m.addConstr(gp.quicksum(flow[a, o] for a in out[o]) == sent + back, name=f"send[{o}]")
    m.addConstrs((flow.sum(a, "*") <= most for a, most in data["capacity"].items()), name="room")
    return m


def _scenario(domain: str, commodity: str, commodities: str, unit: str, node: str, nodes: str, arc: str, arcs: str,
              money: str, names: Names, letters: str) -> Scenario:  # fmt: skip
    told = {
        "commodity": commodity, "commodities": commodities, "unit": unit, "units": unit + "s", "node": node,
        "nodes": nodes, "arc": arc, "arcs": arcs, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"nodes": names, "arcs": code(letters[0]), "commodities": code(letters[1])})


SCENARIOS = (
    _scenario("telecommunications", "demand", "demands", "gigabit", "router", "routers", "link", "links", "cents",
              code("R"), "LD"),
    _scenario("rail freight", "shipment", "shipments", "wagon", "yard", "yards", "track", "tracks", "euros", PLACES,
              "TS"),
    _scenario("air cargo", "consignment", "consignments", "tonne", "airport", "airports", "flight", "flights",
              "dollars", PLACES, "FC"),
    _scenario("parcel service", "contract", "contracts", "roll cage", "hub", "hubs", "night run", "night runs",
              "pounds", PLACES, "NK"),
    _scenario("pipelines", "batch", "batches", "kilolitre", "terminal", "terminals", "pipeline", "pipelines",
              "dollars", code("T"), "PB"),
    _scenario("container shipping", "booking", "bookings", "container", "port", "ports", "service", "services",
              "dollars", PLACES, "SB"),
    _scenario("road haulage", "order", "orders", "pallet", "depot", "depots", "lorry run", "lorry runs", "euros",
              PLACES, "RA"),
)  # fmt: skip

FAMILY = Family(
    title="Multi-commodity flow with shared capacities",
    area="network flow",
    source="L. R. Ford and D. R. Fulkerson, A suggested computation for maximal multi-commodity network flows, 1958",
    sizes=SIZES,
    sets=(
        IndexSet("nodes", "{node}", "{nodes}", "n", "N"),
        IndexSet("arcs", "{arc}", "{arcs}", "a", "A"),
        IndexSet("commodities", "{commodity}", "{commodities}", "k", "K"),
    ),
    fields=(
        Field("tail", ("arcs",), "start", "", "t_a", (
            "{arc} {0} starts at {node} {value}", "the start of {arc} {0} is {node} {value}",
            "{arc} {0} leads away from {value}",
        ), LABEL),
        Field("head", ("arcs",), "end", "", "h_a", (
            "{arc} {0} ends at {node} {value}", "the end of {arc} {0} is {node} {value}", "{arc} {0} leads to {value}",
        ), LABEL),
        Field("capacity", ("arcs",), "capacity", "{units}", "u_a", (
            "{arc} {0} can carry {value} {units}", "there is room for {value} {units} on {arc} {0}",
            "the capacity of {arc} {0} is {value} {units}",
        )),
        Field("cost", ("arcs",), "cost", "{money} per {unit}", "c_a", (
            "a {unit} on {arc} {0} costs {value} {money}", "the charge on {arc} {0} is {value} {money} per {unit}",
            "{arc} {0} costs {value} {money} for each {unit}",
        )),
        Field("origin", ("commodities",), "origin", "", "o_k", (
            "{commodity} {0} comes from {value}", "the origin of {commodity} {0} is {node} {value}",
        ), LABEL),
        Field("destination", ("commodities",), "destination", "", "z_k", (
            "{commodity} {0} is bound for {value}", "the destination of {commodity} {0} is {node} {value}",
        ), LABEL),
        Field("quantity", ("commodities",), "quantity", "{units}", "q_k", (
            "{commodity} {0} amounts to {value} {units}", "the quantity of {commodity} {0} is {value} {units}",
            "{value} {units} make up {commodity} {0}",
        )),
    ),
    contract=Contract(
        variables=(Variables("flow", CONTINUOUS, "x_{ka}", "{units} of {commodity} $k$ carried over {arc} $a$",
                             "{value} {units} of {commodity} {0} go over {arc} {1}"),),
        sense="minimize",
        goal=("total cost", "{money}"),
        objective=(Term("total", r"\sum_{k \in K} \sum_{a \in A} c_a x_{ka}", (
            "Every {unit} pays the cost of each of the {arcs} that it goes over, whichever {commodity} it belongs to.",
            "The cost of each of the {arcs} is proportional to all that it carries, the same for all {commodities}.",
        )),),
        constraints=(
            Clause("balance", r"\sum_{a: h_a = n} x_{ka} - \sum_{a: t_a = n} x_{ka} = q_k ([n = z_k] - [n = o_k])",
                   r"k \in K,\ n \in N", (
                "The whole quantity of every {commodity} has to get from its origin to its destination, possibly over "
                "several routes; on the way nothing of it is lost or added.",
                "Each {commodity} must reach its destination in full; it may be split over several routes, and at any "
                "other {node} as much of it leaves as arrives.",
            )),
            Clause("capacity", r"\sum_{k \in K} x_{ka} \le u_a", r"a \in A", (
                "All {commodities} share the capacity of each of the {arcs}, which leads in one direction only, from "
                "its start to its end.",
                "No {arc} can carry more than its capacity, all {commodities} together; none can be used backwards.",
            )),
        ),
        integrality=(
            "Quantities on the {arcs} cannot be negative and need not be whole numbers of {units}.",
            "Any fraction of a {unit} can be carried; no quantity is negative.",
        ),
        fixed=("origin and destination of each {commodity}", "that the capacity is shared by all {commodities}",
               "the direction of each {arc}"),
        mistakes=(
            Mistake("the capacity for each commodity by itself",
                    "arcs, rule=lambda m, a: sum(m.flow[k, a] for k in commodities)",
                    "arcs, commodities, rule=lambda m, a, k: m.flow[k, a]"),
            Mistake("origin and destination exchanged", "(n == destination[k]) - (n == origin[k])",
                    "(n == origin[k]) - (n == destination[k])"),
            Mistake("arcs used against their direction", "domain=pyo.NonNegativeReals", "domain=pyo.Reals"),
            Mistake("whole units only", "domain=pyo.NonNegativeReals", "domain=pyo.NonNegativeIntegers"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "Several {commodities} have to be carried over one network of {nodes} and one-way {arcs}.",
        "A network of one-way {arcs} between {nodes} is shared by several {commodities}.",
        "The operator of a network of {nodes} and one-way {arcs} routes the {commodities} of a day.",
    ),
    questions=(
        "How should the {commodities} be routed so that the total cost is as small as possible?",
        "Find the routing of least total cost, and state it in {money}.",
        "Minimise the total cost of carrying all {commodities}, in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="one flow for each origin instead of one for each commodity",
)  # fmt: skip
