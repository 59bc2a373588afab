"""Constrained shortest path: the quickest route over one-way arcs whose tolls stay within a budget."""

import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_flows
from trex.data.contract import BINARY, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.graphs import draw_graph
from trex.data.problem import LABEL, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import PLACES, Names, Scenario, code

SIZES = {
    1: {"nodes": (5, 6), "arcs": (9, 13)},
    2: {"nodes": (9, 12), "arcs": (24, 36)},
    3: {"nodes": (26, 32), "arcs": (105, 125)},
    4: {"nodes": (50, 60), "arcs": (210, 250)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: the budget is no less than the toll of the cheapest route.

    Redrawn until the quickest route costs more than that; the budget lies between the two.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        arcs = sets["arcs"]
        graph = draw_graph(rng, sets["nodes"], arcs)
        time = {a: graph.length[a] + rng.randint(0, 20) for a in arcs}
        toll = {a: max(0, 6 - time[a] // 8 + rng.randint(-2, 3)) for a in arcs}
        ends = [(graph.tail[a], graph.head[a], a) for a in arcs]
        least = exact_flows.shortest_within([(t, h, toll[a], 0) for t, h, a in ends], graph.first, graph.last, 0)
        both = [(t, h, 1000 * time[a] + toll[a], 0) for t, h, a in ends]  # of the quickest routes the cheapest
        quickest = exact_flows.shortest_within(both, graph.first, graph.last, 0)
        low, high = int(least or 0), int(quickest or 0) % 1000
        if high > low > 0:
            return {
                **sets, "tail": graph.tail, "head": graph.head, "time": time, "toll": toll, "origin": graph.first,
                "destination": graph.last, "budget": rng.randint(low, (low + high) // 2),
            }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """One binary variable for each arc; the route begins at the origin and ends at the destination."""
    arcs, tail, head = data["arcs"], data["tail"], data["head"]
    m = pyo.ConcreteModel()
    m.use = pyo.Var(arcs, domain=pyo.Binary)
    m.travel = pyo.Expression(expr=sum(data["time"][a] * m.use[a] for a in arcs))
    m.objective = pyo.Objective(expr=m.travel, sense=pyo.minimize)
    m.route = pyo.Constraint(
        data["nodes"],
        rule=lambda m, n: (
            sum(m.use[a] for a in arcs if tail[a] == n) - sum(m.use[a] for a in arcs if head[a] == n)
            == (n == data["origin"]) - (n == data["destination"])
        ),
    )
    m.budget = pyo.Constraint(expr=sum(data["toll"][a] * m.use[a] for a in arcs) <= data["budget"])
    return m


def reformulated(data: dict) -> gp.Model:
    """What has been spent up to the end of each arc flows along the route, instead of one row for the whole budget."""
    m = gp.Model("spent_so_far")
    arcs, budget = data["arcs"], data["budget"]
    go = m.addVars(arcs, vtype=gp.GRB.BINARY, name="go")
    spent = m.addVars(arcs, name="spent")
    for place in data["nodes"]:
        entering = [a for a in arcs if data["head"][a] == place]
        leaving = [a for a in arcs if data["tail"][a] == place]
        came = gp.quicksum(go[a] for a in entering)
        left = gp.quicksum(go[a] for a in leaving)
        if place == data["destination"]:
            m.addConstr(came == 1 + left, name="arrive")
            continue
        m.addConstr(left == came + (place == data["origin"]), name=f"go_on[{place}]")
        paid = gp.quicksum(data["toll"][a] * go[a] for a in leaving) + gp.quicksum(spent[a] for a in entering)
        m.addConstr(gp.quicksum(spent[a] for a in leaving) == paid, name=f"pay[{place}]")
    m.addConstrs((spent[a] <= budget * go[a] for a in arcs), name="within")
    m.setObjective(go.prod(data["time"]), gp.GRB.MINIMIZE)
    return m


def optimum(data: dict) -> float | None:
    """By labels of time and toll at each node."""
    arcs = [(data["tail"][a], data["head"][a], data["time"][a], data["toll"][a]) for a in data["arcs"]]
    found = exact_flows.shortest_within(arcs, data["origin"], data["destination"], data["budget"])
    return None if found is None else float(found)


def _scenario(domain: str, traveller: str, node: str, nodes: str, arc: str, arcs: str, time: str, unit: str, toll: str,
              money: str, names: Names, letter: str) -> Scenario:  # fmt: skip
    told = {
        "traveller": traveller, "node": node, "nodes": nodes, "arc": arc, "arcs": arcs, "time": time, "unit": unit,
        "toll": toll, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"nodes": names, "arcs": code(letter)})


SCENARIOS = (
    _scenario("road haulage", "lorry", "town", "towns", "road", "roads", "driving time", "minutes", "toll", "euros",
              PLACES, "R"),
    _scenario("courier service", "courier", "junction", "junctions", "street", "streets", "riding time", "minutes",
              "risk", "points", code("J"), "S"),
    _scenario("data networks", "data packet", "router", "routers", "link", "links", "delay", "milliseconds", "fee",
              "cents", code("R"), "L"),
    _scenario("shipping", "ship", "port", "ports", "passage", "passages", "sailing time", "hours", "canal dues",
              "thousand dollars", PLACES, "P"),
    _scenario("mountain rescue", "rescue team", "hut", "huts", "trail", "trails", "walking time", "minutes",
              "avalanche risk", "points", code("H"), "T"),
    _scenario("pipeline construction", "pipeline", "control point", "control points", "section", "sections",
              "construction time", "days", "land price", "thousand francs", code("C"), "S"),
    _scenario("dangerous goods", "tanker", "depot", "depots", "road", "roads", "driving time", "minutes",
              "population exposure", "thousand residents", PLACES, "R"),
)  # fmt: skip

FAMILY = Family(
    title="Shortest path within a budget",
    area="network flow",
    source="G. Y. Handler and I. Zang, A dual algorithm for the constrained shortest path problem, 1980",
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
        Field("time", ("arcs",), "{time}", "{unit}", "c_a", (
            "the {time} on {arc} {0} is {value} {unit}", "{arc} {0} has a {time} of {value} {unit}",
            "for {arc} {0}, reckon with a {time} of {value} {unit}",
        )),
        Field("toll", ("arcs",), "{toll}", "{money}", "w_a", (
            "the {toll} of {arc} {0}: {value} {money}", "{value} {money} is the {toll} on {arc} {0}",
            "{arc} {0} counts for the {toll} with {value} {money}",
        )),
        Field("origin", (), "origin", "", "o", (
            "the {traveller} starts at {node} {value}", "the origin is {node} {value}",
        ), LABEL),
        Field("destination", (), "destination", "", "z", (
            "the route leads to {node} {value}", "the destination is {node} {value}",
        ), LABEL),
        Field("budget", (), "limit on the total {toll}", "{money}", "b", (
            "the {toll} of the whole route must not exceed {value} {money}",
            "over the whole route, at most {value} {money} of {toll} are allowed",
        )),
    ),
    contract=Contract(
        variables=(Variables("use", BINARY, "x_a", "1 if {arc} $a$ is part of the route", "take {arc} {0}"),),
        sense="minimize",
        goal=("total {time}", "{unit}"),
        objective=(Term("travel", r"\sum_{a \in A} c_a x_a", (
            "The {time} of a route is the sum over its {arcs}.",
            "What counts is the {time} over all {arcs} of the route together.",
        )),),
        constraints=(
            Clause("route", r"\sum_{a: t_a = n} x_a - \sum_{a: h_a = n} x_a = [n = o] - [n = z]", r"n \in N", (
                "The {arcs} chosen must form one unbroken route from the origin to the destination; each of the {arcs} "
                "leads in one direction only, from its start to its end.",
                "A single route is sought that begins at the origin, ends at the destination and leaves every {node} "
                "on its way over {arcs} that start there; {arcs} cannot be used backwards.",
            )),
            Clause("budget", r"\sum_{a \in A} w_a x_a \le b", "", (
                "The {toll} adds up over the {arcs} of the route, and the sum is limited.",
                "The {arcs} of the route may not have more {toll} in total than the limit.",
            )),
        ),
        integrality=(
            "For each of the {arcs} the decision is yes or no: it is part of the route or not.",
            "The route cannot be split: every one of the {arcs} is either used or not.",
        ),
        fixed=("origin and destination", "the direction of each {arc}",
               "that the limit holds for the whole route"),
        mistakes=(
            Mistake("a route in parts", "domain=pyo.Binary", "domain=pyo.NonNegativeReals"),
            Mistake("the budget made the goal", 'data["time"][a]', 'data["toll"][a]'),
            Mistake("origin and destination exchanged", '(n == data["origin"]) - (n == data["destination"])',
                    '(n == data["destination"]) - (n == data["origin"])'),
            Mistake("the budget has to be used up", '<= data["budget"]', '== data["budget"]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A route for a {traveller} is to be chosen in a network of {nodes} and one-way {arcs}.",
        "Several ways lead over the {arcs} between {nodes}; the {traveller} can take only one of them.",
        "For a {traveller}, the way through a network of one-way {arcs} has to be planned.",
    ),
    questions=(
        "Which route has the least total {time}?",
        "Find the route with the least {time}, and state it in {unit}.",
        "Minimise the {time} of the route, in {unit}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the toll spent so far flows along the route, instead of one row for the budget",
    optimum=optimum,
)  # fmt: skip
