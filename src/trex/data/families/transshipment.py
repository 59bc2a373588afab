"""Transshipment: goods go from sources through hubs of limited capacity to sinks, at least freight and handling."""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_flows
from trex.data.contract import CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import PLACES, Scenario, code

SIZES = {
    1: {"sources": (2, 2), "hubs": (2, 2), "sinks": (3, 4)},
    2: {"sources": (3, 3), "hubs": (3, 3), "sinks": (5, 8)},
    3: {"sources": (5, 6), "hubs": (6, 6), "sinks": (15, 17)},
    4: {"sources": (7, 8), "hubs": (8, 9), "sinks": (24, 26)},
}
SERVED = 0.8  # share of the pairs of hub and sink that have a road


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: supplies and capacities are at least those of a random plan on roads that there are.

    Redrawn until sending everything the cheapest way would overload both some hub and some source.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        sources, hubs, sinks = sets["sources"], sets["hubs"], sets["sinks"]
        step = rng.choice((1, 0.5))
        inbound = {i: {h: nice(rng.randint(6, 40) * step) for h in hubs} for i in sources}
        outbound: dict[str, dict[str, float]] = {h: {} for h in hubs}
        for j in sinks:
            for h in (near := rng.sample(hubs, 2)) + [h for h in hubs if h not in near and rng.random() < SERVED]:
                outbound[h][j] = nice(rng.randint(6, 40) * step)
        outbound = {h: {j: row[j] for j in sinks if j in row} for h, row in outbound.items()}
        handling = {h: nice(rng.randint(2, 12) * step) for h in hubs}
        demand = {j: 5 * rng.randint(3, 20) for j in sinks}
        sent, handled, cheapest = dict.fromkeys(sources, 0), dict.fromkeys(hubs, 0), dict.fromkeys(hubs, 0)
        drawn = dict.fromkeys(sources, 0)
        for j in sinks:
            served = [h for h in hubs if j in outbound[h]]
            i, h = rng.choice(sources), rng.choice(served)
            sent[i] += demand[j]
            handled[h] += demand[j]
            i, h = min(
                ((i, h) for i in sources for h in served),
                key=lambda way: inbound[way[0]][way[1]] + handling[way[1]] + outbound[way[1]][j],
            )
            drawn[i] += demand[j]
            cheapest[h] += demand[j]
        supply = {i: 5 * math.ceil(max(sent[i], 20) * rng.uniform(1.0, 1.15) / 5) for i in sources}
        capacity = {h: 5 * math.ceil(max(handled[h], 20) * rng.uniform(1.0, 1.15) / 5) for h in hubs}
        over = any(cheapest[h] > capacity[h] for h in hubs), any(drawn[i] > supply[i] for i in sources)
        if all(over) and all(outbound.values()):
            return {
                **sets, "supply": supply, "demand": demand, "capacity": capacity, "inbound": inbound,
                "handling": handling, "outbound": outbound,
            }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Quantities on each leg, tied together by what enters and leaves each hub."""
    sources, hubs = data["sources"], data["hubs"]
    legs = [(h, j) for h in hubs for j in data["outbound"][h]]
    m = pyo.ConcreteModel()
    m.bring = pyo.Var(sources, hubs, domain=pyo.NonNegativeReals)
    m.deliver = pyo.Var(legs, domain=pyo.NonNegativeReals)
    m.freight_in = pyo.Expression(expr=sum(data["inbound"][i][h] * m.bring[i, h] for i in sources for h in hubs))
    m.handling = pyo.Expression(expr=sum(data["handling"][h] * m.bring[i, h] for i in sources for h in hubs))
    m.freight_out = pyo.Expression(expr=sum(data["outbound"][h][j] * m.deliver[h, j] for h, j in legs))
    m.objective = pyo.Objective(expr=m.freight_in + m.handling + m.freight_out, sense=pyo.minimize)
    m.supply = pyo.Constraint(sources, rule=lambda m, i: sum(m.bring[i, h] for h in hubs) <= data["supply"][i])
    m.through = pyo.Constraint(
        hubs, rule=lambda m, h: sum(m.bring[i, h] for i in sources) == sum(m.deliver[h, j] for j in data["outbound"][h])
    )
    m.capacity = pyo.Constraint(hubs, rule=lambda m, h: sum(m.bring[i, h] for i in sources) <= data["capacity"][h])
    m.demand = pyo.Constraint(
        data["sinks"], rule=lambda m, j: sum(m.deliver[h, k] for h, k in legs if k == j) >= data["demand"][j]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """Quantities on whole ways from source to sink, each through one hub."""
    m = gp.Model("ways")
    ways, price = gp.multidict(
        {
            (i, h, j): to_hub + data["handling"][h] + from_hub
            for i, row in data["inbound"].items()
            for h, to_hub in row.items()
            for j, from_hub in data["outbound"][h].items()
        }
    )
    send = m.addVars(ways, obj=price, name="send")
    m.addConstrs((send.sum("*", "*", j) == need for j, need in data["demand"].items()), name="need")
    m.addConstrs((-send.sum("*", h, "*") >= -most for h, most in data["capacity"].items()), name="hub")
    m.addConstrs((-send.sum(i, "*", "*") >= -most for i, most in data["supply"].items()), name="stock")
    return m


def optimum(data: dict) -> float | None:
    """By the network simplex method, in whole numbers; each hub is an arc with its capacity."""
    arcs: list[exact_flows.Arc] = [
        (("in", h), ("out", h), data["capacity"][h], data["handling"][h]) for h in data["hubs"]
    ]
    arcs += [(i, ("in", h), math.inf, c) for i, row in data["inbound"].items() for h, c in row.items()]
    arcs += [(("out", h), j, math.inf, c) for h, row in data["outbound"].items() for j, c in row.items()]
    surplus = {**data["supply"], **{j: -amount for j, amount in data["demand"].items()}}
    return float(exact_flows.cheapest_flow(arcs, surplus))


def _scenario(domain: str, goods: str, unit: str, source: str, sources: str, hub: str, hubs: str, sink: str,
              sinks: str, money: str, letter: str) -> Scenario:  # fmt: skip
    told = {
        "goods": goods, "unit": unit, "units": unit + "s", "source": source, "sources": sources, "hub": hub,
        "hubs": hubs, "sink": sink, "sinks": sinks, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"sources": PLACES, "hubs": code(letter), "sinks": PLACES})


SCENARIOS = (
    _scenario("furniture", "furniture", "pallet", "factory", "factories", "distribution centre",
              "distribution centres", "shop", "shops", "euros", "D"),
    _scenario("grain trade", "wheat", "tonne", "silo", "silos", "river port", "river ports", "mill", "mills",
              "dollars", "R"),
    _scenario("humanitarian aid", "relief goods", "pallet", "donor depot", "donor depots", "field base", "field bases",
              "camp", "camps", "francs", "B"),
    _scenario("recycling", "glass", "tonne", "town", "towns", "sorting plant", "sorting plants", "glassworks",
              "glassworks", "euros", "S"),
    _scenario("car trade", "cars", "car load", "car plant", "car plants", "compound", "compounds", "dealer",
              "dealers", "pounds", "C"),
    _scenario("flowers", "cut flowers", "trolley", "grower", "growers", "market hall", "market halls",
              "wholesaler", "wholesalers", "euros", "H"),
    _scenario("timber", "logs", "cubic metre", "forest district", "forest districts", "rail yard", "rail yards",
              "sawmill", "sawmills", "dollars", "Y"),
    _scenario("pharmaceuticals", "vaccine", "crate", "plant", "plants", "cold store", "cold stores", "hospital group",
              "hospital groups", "francs", "K"),
)  # fmt: skip

FAMILY = Family(
    title="Transshipment through hubs with limited capacity",
    area="transportation",
    source="A. Orden, The transhipment problem, 1956",
    sizes=SIZES,
    sets=(
        IndexSet("sources", "{source}", "{sources}", "i", "I"),
        IndexSet("hubs", "{hub}", "{hubs}", "h", "H"),
        IndexSet("sinks", "{sink}", "{sinks}", "j", "J"),
    ),
    fields=(
        Field("supply", ("sources",), "supply", "{units}", "s_i", (
            "the {source} in {0} can supply {value} {units}", "{value} {units} are ready at the {source} in {0}",
            "the {source} in {0} has {value} {units} to send",
        )),
        Field("demand", ("sinks",), "demand", "{units}", "d_j", (
            "the {sink} in {0} needs {value} {units}", "{value} {units} are wanted by the {sink} in {0}",
            "the {sink} in {0} has ordered {value} {units}",
        )),
        Field("capacity", ("hubs",), "capacity", "{units}", "u_h", (
            "{hub} {0} can handle {value} {units}", "no more than {value} {units} fit through {hub} {0}",
            "the capacity of {hub} {0} is {value} {units}",
        )),
        Field("inbound", ("sources", "hubs"), "freight to the {hub}", "{money} per {unit}", "a_{ih}", (
            ("bringing one {unit} from {0} costs", "{value} {money} to {hub} {1}"),
            ("the freight for a {unit} from {0} is", "{value} {money} to {hub} {1}"),
            ("per {unit} from {0}, the carrier charges", "{value} {money} to {1}"),
        )),
        Field("handling", ("hubs",), "handling charge", "{money} per {unit}", "g_h", (
            "{hub} {0} charges {value} {money} for each {unit} that it handles",
            "handling one {unit} at {hub} {0} costs {value} {money}",
        )),
        Field("outbound", ("hubs", "sinks"), "freight to the {sink}, where there is a connection",
              "{money} per {unit}", "b_{hj}", (
            ("from {hub} {0}, delivery of one {unit} costs", "{value} {money} to {1}"),
            ("the freight for a {unit} out of {hub} {0} is", "{value} {money} to {1}"),
            ("{hub} {0} delivers a {unit} at", "{value} {money} to {1}"),
        )),
    ),
    contract=Contract(
        variables=(
            Variables("bring", CONTINUOUS, "x_{ih}", "{units} of {goods} brought from $i$ to {hub} $h$",
                      "bring {value} {units} from {0} to {hub} {1}"),
            Variables("deliver", CONTINUOUS, "y_{hj}", "{units} of {goods} delivered from {hub} $h$ to $j$",
                      "deliver {value} {units} from {hub} {0} to {1}"),
        ),
        sense="minimize",
        goal=("total cost of freight and handling", "{money}"),
        objective=(
            Term("freight_in", r"\sum_{i \in I} \sum_{h \in H} a_{ih} x_{ih}", (
                "The freight from a {source} to a {hub} is due for every {unit} brought there.",
                "Each {unit} pays the freight of its way to the {hub}.",
            )),
            Term("handling", r"\sum_{i \in I} \sum_{h \in H} g_h x_{ih}", (
                "A {hub} charges every {unit} that passes through it once.",
                "For every {unit} that passes, the handling charge of the {hub} is due once.",
            )),
            Term("freight_out", r"\sum_{(h,j)} b_{hj} y_{hj}", (
                "The freight from a {hub} to a {sink} is due for every {unit} delivered; where no freight is given, "
                "there is no connection.",
                "Each {unit} delivered pays the freight of its way from the {hub}; a {hub} cannot deliver to a {sink} "
                "for which no freight is given.",
            )),
        ),
        constraints=(
            Clause("supply", r"\sum_{h \in H} x_{ih} \le s_i", r"i \in I", (
                "A {source} cannot send out more than its supply, all {hubs} together.",
                "What a {source} sends to all {hubs} is limited by its supply.",
            )),
            Clause("through", r"\sum_{i \in I} x_{ih} = \sum_{j} y_{hj}", r"h \in H", (
                "There is no direct way: everything passes through one {hub}, and what is brought to a {hub} leaves it "
                "again.",
                "Every {unit} goes through exactly one {hub}, at which nothing stays and nothing is added.",
            )),
            Clause("capacity", r"\sum_{i \in I} x_{ih} \le u_h", r"h \in H", (
                "What passes through a {hub} in total is limited by its capacity.",
                "No {hub} can take in more than its capacity.",
            )),
            Clause("demand", r"\sum_{h} y_{hj} \ge d_j", r"j \in J", (
                "Every {sink} must get at least what it needs, from any number of {hubs}.",
                "The demand of each {sink} has to be met in full; deliveries from several {hubs} may be combined.",
            )),
        ),
        integrality=(
            "Quantities cannot be negative and need not be whole numbers of {units}.",
            "Any fraction of a {unit} can be sent, but no negative quantity.",
        ),
        fixed=("that all goods pass through one {hub}", "which connections exist", "that demand must be met in full"),
        mistakes=(
            Mistake("hubs may give out more than they take in",
                    "for i in sources) == sum(m.deliver[h, j]", "for i in sources) <= sum(m.deliver[h, j]"),
            Mistake("demand as an upper limit", '>= data["demand"][j]', '<= data["demand"][j]'),
            Mistake("supplies have to be used up", '<= data["supply"][i]', '== data["supply"][i]'),
            Mistake("handling forgotten", "m.freight_in + m.handling + m.freight_out", "m.freight_in + m.freight_out"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "Shipments of {goods} travel from {sources} to {hubs} and on to {sinks}.",
        "A forwarder moves {goods} from {sources} by way of {hubs} to {sinks}.",
        "The deliveries of {goods} for the next month are planned: from {sources}, through {hubs}, to {sinks}.",
    ),
    questions=(
        "How many {units} should go over each leg so that freight and handling together cost as little as possible?",
        "Find the plan of least total cost, and state it in {money}.",
        "Minimise the total of freight and handling in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="quantities on whole ways from source to sink instead of on single legs",
    optimum=optimum,
)  # fmt: skip
