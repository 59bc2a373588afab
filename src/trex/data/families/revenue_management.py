"""Revenue management: how many tickets of each fare class to sell on trips of one or two legs that share seats.

Network revenue management with known demand; on some legs a larger vehicle may be used. Tickets are whole.
"""

import itertools
import random

import networkx as nx
import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import BINARY, INTEGER, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABELS, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import Names, Scenario, code

SIZES = {
    1: {"legs": (2, 2), "trips": (3, 3), "classes": (2, 2)},
    2: {"legs": (4, 4), "trips": (6, 7), "classes": (3, 3)},
    3: {"legs": (10, 10), "trips": (26, 30), "classes": (4, 4)},
    4: {"legs": (16, 16), "trips": (52, 60), "classes": (4, 4)},
}
MOST_LEGS = 4  # for which all choices of larger vehicles are tried


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: each leg has at least the seats promised on its trips.

    Every leg is a trip by itself; the others join a leg of the first half to one of the second half.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    legs, trips, classes = sets["legs"], sets["trips"], sets["classes"]
    half = len(legs) // 2
    pairs = [[a, b] for a in legs[:half] for b in legs[half:]]
    joined = rng.sample(pairs, len(trips) - len(legs))
    legs_of = dict(zip(trips, [*([k] for k in legs), *joined], strict=True))
    fare: dict[str, dict[str, int]] = {}
    demand: dict[str, dict[str, int]] = {}
    promised = {}
    for j in trips:
        top = rng.randint(16, 30) if len(legs_of[j]) == 1 else rng.randint(20, 40)
        fare[j], demand[j] = {}, {}
        for number, c in enumerate(classes):  # the first class is the dearest, the last the most wanted
            fare[j][c] = 5 * max(2, round(top * (1 - number / (len(classes) + 0.5)) + rng.randint(-2, 2)))
            demand[j][c] = rng.randint(3, 12) * (number + 1)
        promised[j] = rng.randint(2, 2 + sum(demand[j].values()) // 2)
    seats, extra, cost = {}, {}, {}
    for k in legs:
        using = [j for j in trips if k in legs_of[j]]
        wanted = sum(sum(demand[j].values()) for j in using)
        seats[k] = max(sum(promised[j] for j in using), round(wanted * rng.uniform(0.45, 0.65)))
        extra[k] = max(2, round(wanted * rng.uniform(0.08, 0.2)))
        cost[k] = 10 * max(1, round(extra[k] * rng.uniform(2, 8)))
    return {
        **sets, "legs_of": legs_of, "fare": fare, "demand": demand, "promised": promised, "seats": seats,
        "extra": extra, "change_cost": cost, "spare": rng.randint(1, max(1, len(legs) // 4)),
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Tickets and larger vehicles as an integer linear program."""
    legs, trips, classes = data["legs"], data["trips"], data["classes"]
    m = pyo.ConcreteModel()
    m.sell = pyo.Var(trips, classes, domain=pyo.NonNegativeIntegers)
    m.enlarge = pyo.Var(legs, domain=pyo.Binary)
    m.revenue = pyo.Expression(expr=sum(data["fare"][j][c] * m.sell[j, c] for j in trips for c in classes))
    m.changes = pyo.Expression(expr=-sum(data["change_cost"][k] * m.enlarge[k] for k in legs))
    m.objective = pyo.Objective(expr=m.revenue + m.changes, sense=pyo.maximize)

    sold = {j: sum(m.sell[j, c] for c in classes) for j in trips}
    m.seats = pyo.Constraint(
        legs,
        rule=lambda m, k: (
            sum(sold[j] for j in trips if k in data["legs_of"][j]) <= data["seats"][k] + data["extra"][k] * m.enlarge[k]
        ),
    )
    m.demand = pyo.Constraint(trips, classes, rule=lambda m, j, c: m.sell[j, c] <= data["demand"][j][c])
    m.promised = pyo.Constraint(trips, rule=lambda m, j: sold[j] >= data["promised"][j])
    m.spare = pyo.Constraint(expr=sum(m.enlarge[k] for k in legs) <= data["spare"])
    return m


def reformulated(data: dict) -> gp.Model:
    """Requests turned away, at the least loss of revenue: where there are more than seats, some have to be."""
    m = gp.Model("turned_away")
    away = {}
    possible = 0
    for j, row in data["demand"].items():
        for c, wanted in row.items():
            away[j, c] = m.addVar(ub=wanted, vtype=gp.GRB.INTEGER, name=f"away[{j},{c}]")
            possible += data["fare"][j][c] * wanted
        refusable = sum(row.values()) - data["promised"][j]
        m.addConstr(gp.quicksum(away[j, c] for c in row) <= refusable, name=f"refusable[{j}]")
    larger = m.addVars(data["legs"], vtype=gp.GRB.BINARY, name="larger")
    m.addConstr(larger.sum() <= data["spare"], name="fleet")
    for k in data["legs"]:
        requests = [(j, c) for j, c in away if k in data["legs_of"][j]]
        excess = sum(data["demand"][j][c] for j, c in requests) - data["seats"][k]
        relief = data["extra"][k] * larger[k]
        m.addConstr(gp.quicksum(away[request] for request in requests) + relief >= excess, name=f"excess[{k}]")
    lost = gp.quicksum(data["fare"][j][c] * variable for (j, c), variable in away.items())
    m.setObjective(possible - lost - larger.prod(data["change_cost"]), gp.GRB.MAXIMIZE)
    return m


def optimum(data: dict) -> float | None:
    """The best flow of passengers through the legs, for every choice of larger vehicles; for few legs only."""
    if len(data["legs"]) > MOST_LEGS:
        return None
    choices = (set(s) for n in range(data["spare"] + 1) for s in itertools.combinations(data["legs"], n))
    return float(max(_best_flow(data, larger) - sum(data["change_cost"][k] for k in larger) for larger in choices))


def _best_flow(data: dict, larger: set[str]) -> int:
    """Largest revenue with these legs enlarged. A leg is an arc from "in" to "out"; a trip passes one or two."""
    graph = nx.DiGraph()
    early = {row[0] for row in data["legs_of"].values() if len(row) == 2}
    total = sum(sum(row.values()) for row in data["demand"].values())
    graph.add_edge("end", "begin", capacity=total)
    for k in data["legs"]:
        graph.add_edge((k, "in"), (k, "out"), capacity=data["seats"][k] + (data["extra"][k] if k in larger else 0))
        graph.add_edge(*(("begin", (k, "in")) if k in early else ((k, "out"), "end")), capacity=total)
    for j, row in data["legs_of"].items():
        first = (row[0], "out") if row[0] in early else "begin"
        last = (row[-1], "in") if row[-1] not in early else "end"
        least = data["promised"][j]  # flow that has to go from `first` to the trip
        graph.add_edge(first, (j, "trip"), capacity=total)
        for node, change in ((first, least), ((j, "trip"), -least)):
            graph.add_node(node, demand=graph.nodes[node].get("demand", 0) + change)
        for c, wanted in data["demand"][j].items():
            graph.add_edge((j, "trip"), (j, c), capacity=wanted, weight=-data["fare"][j][c])
            graph.add_edge((j, c), last)
    return -nx.min_cost_flow_cost(graph)


def _scenario(domain: str, owner: str, legs: str, letter: str, trips: str, seat: str, larger: str, classes: str,
              money: str) -> Scenario:  # fmt: skip
    told = {
        "owner": owner, "leg": legs[:-1], "legs": legs, "trip": trips[:-1], "trips": trips, "seat": seat,
        "seats": seat + "s", "larger": larger, "money": money,
    }  # fmt: skip
    return Scenario(
        domain, told, {"legs": code(letter), "trips": code("R"), "classes": Names(tuple(classes.split()), "K", "first")}
    )


SCENARIOS = (
    _scenario("aviation", "an airline", "flights", "F", "connections", "seat", "larger aircraft",
              "business premium standard saver", "euros"),
    _scenario("rail", "a railway company", "trains", "T", "connections", "seat", "additional coaches",
              "first comfort second advance", "francs"),
    _scenario("coaches", "a coach operator", "runs", "C", "connections", "seat", "double-deckers",
              "flexible standard group early", "pounds"),
    _scenario("ferries", "a ferry company", "crossings", "X", "sea routes", "berth", "larger ships",
              "suite cabin couchette deck", "euros"),
    _scenario("container shipping", "a shipping line", "voyages", "V", "services", "slot", "larger vessels",
              "express contract spot empty", "dollars"),
    _scenario("hotels", "a hotel", "nights", "N", "stays", "room", "annexes", "suite corporate leisure agency",
              "euros"),
    _scenario("air cargo", "a cargo airline", "flights", "G", "lanes", "pallet", "larger freighters",
              "priority standard deferred charter", "dollars"),
)  # fmt: skip

FAMILY = Family(
    title="Network revenue management with larger vehicles",
    area="revenue",
    source="K. T. Talluri and G. J. van Ryzin, The Theory and Practice of Revenue Management, 2004",
    sizes=SIZES,
    sets=(
        IndexSet("legs", "{leg}", "{legs}", "k", "K"),
        IndexSet("trips", "{trip}", "{trips}", "j", "J"),
        IndexSet("classes", "price class", "price classes", "c", "C"),
    ),
    fields=(
        Field("legs_of", ("trips",), "{legs} used", "", "L_j", (
            "{trip} {0} uses {value}", "whoever books {trip} {0} takes up a {seat} on {value}",
        ), LABELS),
        Field("fare", ("trips", "classes"), "price", "{money} per {seat}", "p_{jc}", (
            ("on {trip} {0} a {seat} is sold at", "{value} {money} in class {1}"),
            ("prices for {trip} {0} in {money} are", "{value} in class {1}"),
        )),
        Field("demand", ("trips", "classes"), "requests expected", "{seats}", "d_{jc}", (
            ("the {seats} requested for {trip} {0} are", "{value} in class {1}"),
            ("for {trip} {0}, demand in {seats} is", "{value} in class {1}"),
        )),
        Field("promised", ("trips",), "least sale", "{seats}", "l_j", (
            "an agreement calls for at least {value} {seats} sold on {trip} {0}, in whichever class",
            "over all classes, {trip} {0} has to sell {value} {seats} or more",
        )),
        Field("seats", ("legs",), "{seats} as planned", "{seats}", "s_k", (
            "{leg} {0} has {value} {seats}", "on {leg} {0} there are {value} {seats}",
        )),
        Field("extra", ("legs",), "{seats} gained by enlarging", "{seats}", "e_k", (
            "{leg} {0} gains {value} {seats} if it is enlarged", "enlarging {leg} {0} adds {value} {seats}",
        )),
        Field("change_cost", ("legs",), "cost of enlarging", "{money}", "f_k", (
            "enlarging {leg} {0} costs {value} {money}", "for {leg} {0}, to be enlarged costs {value} {money}",
        )),
        Field("spare", (), "{legs} that can be enlarged at most", "{legs}", "n", (
            "the number of {legs} that can be enlarged, by {larger}, is at most {value}",
            "there are {larger} for {value} of the {legs} and no more",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("sell", INTEGER, "x_{jc}", "{seats} sold on {trip} $j$ in class $c$",
                      "{seats} sold on {trip} {0} in class {1}: {value}"),
            Variables("enlarge", BINARY, "y_k", "1 if {leg} $k$ is enlarged", "enlarge {leg} {0}"),
        ),
        sense="maximize",
        goal=("revenue less the cost of enlarging", "{money}"),
        objective=(
            Term("revenue", r"\sum_{j \in J} \sum_{c \in C} p_{jc} x_{jc}", (
                "Every {seat} sold on a {trip} brings the price of its class, once for the whole {trip}.",
                "The price is for the whole {trip}, whether it uses one of the {legs} or two.",
            )),
            Term("changes", r"-\sum_{k \in K} f_k y_k", (
                "With {larger}, some {legs} can be enlarged, each at its cost and once at most.",
                "Some of the {legs} may be enlarged once each by {larger}; this costs the amount given.",
            )),
        ),
        constraints=(
            Clause("seats", r"\sum_{j : k \in L_j} \sum_{c \in C} x_{jc} \le s_k + e_k y_k", r"k \in K", (
                "A booking takes up one {seat} on each of the {legs} that its {trip} uses, and no {leg} can be "
                "overbooked.",
                "All {trips} that use a {leg} share its {seats}, which cannot be exceeded; each booking needs one.",
            )),
            Clause("demand", r"x_{jc} \le d_{jc}", r"j \in J,\ c \in C", (
                "In each class no more can be sold on a {trip} than is requested; requests may be turned away and "
                "do not move to another class.",
                "Sales on a {trip} are limited by the requests, class by class; what is refused is lost.",
            )),
            Clause("promised", r"\sum_{c \in C} x_{jc} \ge l_j", r"j \in J", (
                "Each {trip} must reach its least sale, all classes together.",
                "For every {trip}, the sales over all classes may not stay below the least sale.",
            )),
            Clause("spare", r"\sum_{k \in K} y_k \le n", "", (
                "The number of enlarged {legs} is limited.",
                "Only a limited number of {legs} can be enlarged.",
            )),
        ),
        integrality=(
            "Only whole {seats} can be sold, and a {leg} is enlarged entirely or not at all.",
            "Sales are whole numbers, not negative; enlarging a {leg} is a yes-or-no decision.",
        ),
        fixed=("which {legs} a {trip} uses", "that no {leg} is overbooked", "that prices are for whole {trips}"),
        mistakes=(
            Mistake("seats in parts", "m.sell = pyo.Var(trips, classes, domain=pyo.NonNegativeIntegers)",
                    "m.sell = pyo.Var(trips, classes, domain=pyo.NonNegativeReals)"),
            Mistake("trips take seats on their first leg only", 'if k in data["legs_of"][j]',
                    'if k == data["legs_of"][j][0]'),
            Mistake("all legs enlarged at will", 'sum(m.enlarge[k] for k in legs) <= data["spare"]',
                    "sum(m.enlarge[k] for k in legs) <= len(legs)"),
            Mistake("the least sale to be met exactly", '>= data["promised"][j]', '== data["promised"][j]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "{owner} sells {trips} of one or two {legs} in several price classes.",
        "The requests for the {trips} of {owner} exceed its {seats}, and some have to be turned away.",
        "{owner} decides how many requests to accept, class by class, and which {legs} to enlarge.",
    ),
    questions=(
        "How many {seats} should be sold on each {trip} in each class so that revenue less cost is as large as "
        "possible?",
        "Which requests should be accepted and which {legs} enlarged for the largest revenue after that cost?",
        "Maximise the revenue in {money} after the cost of enlarging {legs}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the requests turned away instead of those accepted",
    optimum=optimum,
)  # fmt: skip
