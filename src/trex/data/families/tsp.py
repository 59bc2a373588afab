"""Travelling salesman: one round trip through all stops, least total time; the way back may take longer than the way.

The asymmetric problem. All decisions on trips are yes-or-no; positions in the order forbid separate round trips.
"""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_routing
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABEL, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import PLACES, Names, Scenario, code, words

SIZES = {1: {"stops": (4, 4)}, 2: {"stops": (5, 7)}, 3: {"stops": (10, 10)}, 4: {"stops": (12, 13)}}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Always feasible: every stop can be reached from every other, in a time that follows the distance, with noise."""
    sets = draw_sets(rng, SIZES[difficulty])
    stops = sets["stops"]
    place = {k: (rng.uniform(0, 40), rng.uniform(0, 40)) for k in stops}
    time = {
        i: {j: 3 + round(math.dist(place[i], place[j])) + rng.randint(0, 20) for j in stops if j != i} for i in stops
    }
    return {**sets, "start": stops[0], "time": time}


def model(data: dict) -> pyo.ConcreteModel:
    """The round trip by which stop follows which, with positions in the order."""
    stops, start, n = data["stops"], data["start"], len(data["stops"])
    others = [j for j in stops if j != start]
    trips = [(i, j) for i in stops for j in stops if i != j]
    m = pyo.ConcreteModel()
    m.go = pyo.Var(trips, domain=pyo.Binary)
    m.position = pyo.Var(others, domain=pyo.NonNegativeReals)
    m.duration = pyo.Expression(expr=sum(data["time"][i][j] * m.go[i, j] for i, j in trips))
    m.objective = pyo.Objective(expr=m.duration, sense=pyo.minimize)
    m.leave = pyo.Constraint(stops, rule=lambda m, i: sum(m.go[i, j] for j in stops if j != i) == 1)
    m.arrive = pyo.Constraint(stops, rule=lambda m, j: sum(m.go[i, j] for i in stops if i != j) == 1)
    m.one_trip = pyo.Constraint(
        [(i, j) for i, j in trips if j != start],
        rule=lambda m, i, j: (
            m.position[j] <= (n - 2) * (1 - m.go[start, j])
            if i == start
            else m.position[i] - m.position[j] + (n - 1) * m.go[i, j] + (n - 3) * m.go[j, i] <= n - 2
        ),
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """A unit for each stop leaves the start and is carried along the round trip (Gavish and Graves, 1978)."""
    stops, start = data["stops"], data["start"]
    arcs = [(a, b) for a, row in data["time"].items() for b in row]
    most = len(stops) - 1
    m = gp.Model("single_commodity_flow")
    use = m.addVars(arcs, vtype=gp.GRB.BINARY, obj={(a, b): data["time"][a][b] for a, b in arcs}, name="use")
    carry = m.addVars(arcs, name="carry")
    for stop in stops:
        m.addConstr(use.sum("*", stop) == 1, f"in[{stop}]")
        m.addConstr(use.sum(stop, "*") == 1, f"out[{stop}]")
        if stop == start:
            m.addConstr(carry.sum(stop, "*") == most, "loaded")
        else:
            m.addConstr(carry.sum("*", stop) - carry.sum(stop, "*") == 1, f"unload[{stop}]")
    for a, b in arcs:
        room = most if a == start else 0 if b == start else most - 1
        m.addConstr(carry[a, b] <= room * use[a, b], f"room[{a},{b}]")
    m.ModelSense = gp.GRB.MINIMIZE
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over subsets of stops; None for more than nine."""
    return float(exact_routing.round_trip(data["time"])) if len(data["stops"]) <= 9 else None


def _scenario(domain: str, traveller: str, stop: str, stops: str, visit: str, go: str, time_unit: str,
              names: Names) -> Scenario:  # fmt: skip
    told = {
        "traveller": traveller, "stop": stop, "stops": stops, "visit": visit, "go": go, "time_unit": time_unit,
    }  # fmt: skip
    return Scenario(domain, told, {"stops": names})


SCENARIOS = (
    _scenario("sales", "a sales representative", "town", "towns", "visit", "the drive", "minutes", PLACES),
    _scenario("parcels", "a bicycle courier", "address", "addresses", "call at", "the ride", "minutes", code("A")),
    _scenario("electronics", "a drilling machine", "hole", "holes", "drill", "the move", "milliseconds", code("H")),
    _scenario("astronomy", "a telescope", "star", "stars", "observe", "the slew", "seconds",
              words("Vega Sirius Rigel Deneb Altair Spica Castor Pollux Mira Algol Regulus Mizar Polaris Capella")),
    _scenario("printing", "a printing press", "colour job", "colour jobs", "print", "the change", "minutes",
              words("amber azure beige coral crimson emerald indigo ivory jade lilac magenta olive ruby teal violet")),
    _scenario("warehousing", "an order picker", "shelf", "shelves", "empty", "the walk", "seconds", code("S")),
    _scenario("maintenance", "a turbine technician", "wind turbine", "wind turbines", "service", "the boat ride",
              "minutes", code("T")),
    _scenario("tourism", "a tour guide", "sight", "sights", "show", "the walk", "minutes",
              words("abbey arcade bastion bridge castle cathedral citadel fountain garden harbour market museum palace "
                    "theatre tower")),
)  # fmt: skip

FAMILY = Family(
    title="Travelling salesman with asymmetric times",
    area="routing",
    source="M. Desrochers and G. Laporte, Improvements and extensions to the Miller-Tucker-Zemlin subtour elimination "
           "constraints, 1991",
    sizes=SIZES,
    sets=(IndexSet("stops", "{stop}", "{stops}", "i", "N"),),
    fields=(
        Field("start", (), "{stop} at which the round begins and ends", "", "s", (
            "the round begins and ends at {value}", "the first and the last on the round is {value}",
            "the round starts from {value} and comes back to it",
        ), LABEL),
        Field("time", ("stops", "stops"), "time of {go} from the {stop} named first to the one named second",
              "{time_unit}", "t_{ij}", (
            ("{go} from {0} takes", "{value} {time_unit} to {1}"),
            ("starting at {0}, {go} lasts", "{value} {time_unit} to {1}"),
            ("in {time_unit}, {go} from {0} takes", "{value} to {1}"),
        )),
    ),
    contract=Contract(
        variables=(
            Variables("go", BINARY, "x_{ij}", "1 if $j$ follows directly after $i$ on the round",
                      "after {0} comes {1}"),
            Variables("position", CONTINUOUS, "p_i", "number of {stops} other than $s$ that come before $i$"),
        ),
        sense="minimize",
        goal=("total time of the round", "{time_unit}"),
        objective=(Term("duration", r"\sum_{i \in N} \sum_{j \in N,\ j \ne i} t_{ij} x_{ij}", (
            "Only the times between one {stop} and the next count, {go} back to the first one included.",
            "The time of the round is the sum of the times from each {stop} to the next and, at the end, back to the "
            "first.",
        )),),
        constraints=(
            Clause("leave", r"\sum_{j \in N,\ j \ne i} x_{ij} = 1", r"i \in N", (
                "From every {stop}, exactly one other comes next.", "The round leaves each {stop} exactly once.",
            )),
            Clause("arrive", r"\sum_{i \in N,\ i \ne j} x_{ij} = 1", r"j \in N", (
                "Every {stop} is reached exactly once.", "The round comes to each {stop} exactly once.",
            )),
            Clause("one_trip", r"p_i - p_j + (n-1) x_{ij} + (n-3) x_{ji} \le n-2,\quad p_j \le (n-2) (1 - x_{sj})",
                   r"i, j \in N \setminus \{s\},\ i \ne j,\ n = |N|", (
                "There must be a single round through all {stops}, not several separate ones.",
                "All {stops} have to lie on one and the same round.",
            )),
        ),
        integrality=(
            "Whether one {stop} follows directly after another is a yes-or-no decision.",
            "The decisions are yes-or-no: a {stop} comes next or it does not.",
        ),
        fixed=("that each {stop} comes exactly once", "that there is a single round",
               "that the time depends on the direction"),
        mistakes=(
            Mistake("the times of the other direction", 'data["time"][i][j]', 'data["time"][j][i]'),
            Mistake("separate rounds allowed", "+ (n - 1) * m.go[i, j]", "+ m.go[i, j]"),
            Mistake("the way back to the start left out", "sum(data[\"time\"][i][j] * m.go[i, j] for i, j in trips)",
                    "sum(data[\"time\"][i][j] * m.go[i, j] for i, j in trips if j != start)"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "On one round, {traveller} has to {visit} several {stops}.",
        "A round of {stops} is planned for {traveller}.",
        "In which order {traveller} should {visit} the {stops} on the list is still open.",
    ),
    questions=(
        "In which order should the {stops} come so that the round takes as little time as possible?",
        "Find the round of least total time.",
        "Determine the order of the {stops} that minimises the total time of the round, in {time_unit}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="a flow of one commodity instead of positions",
    optimum=optimum,
)  # fmt: skip
