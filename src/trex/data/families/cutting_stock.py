"""Cutting stock: cut ordered pieces from stock of several lengths, limited in number, at the least cost of the stock.

One whole variable for every cutting pattern in which no further piece fits (Gilmore and Gomory).
"""

import itertools
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_packing
from trex.data.contract import INTEGER, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets
from trex.data.scenario import Names, Scenario, code, words

SIZES = {
    1: {"kinds": (2, 2), "pieces": (2, 3)},
    2: {"kinds": (2, 2), "pieces": (4, 4)},
    3: {"kinds": (2, 3), "pieces": (6, 7)},
    4: {"kinds": (3, 3), "pieces": (7, 8)},
}
PATTERNS = {1: (5, 15), 2: (20, 50), 3: (100, 170), 4: (220, 360)}  # least and largest number, over all kinds
DEMAND = {1: (2, 8), 2: (5, 20), 3: (5, 30), 4: (5, 30)}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: stock is what a plan of random kinds, each filled greedily, uses, and a little more.

    Redrawn until there are as many patterns as the difficulty asks for.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        kinds, pieces = sets["kinds"], sets["pieces"]
        length = dict(zip(kinds, rng.sample(range(60, 121), len(kinds)), strict=True))
        width = dict(zip(pieces, rng.sample(range(12, 50), len(pieces)), strict=True))
        least, largest = PATTERNS[difficulty]
        if least <= sum(_patterns(length[k], list(width.values()), min(width.values())) for k in kinds) <= largest:
            break
    demand = {i: rng.randint(*DEMAND[difficulty]) for i in pieces}
    missing, used = dict(demand), dict.fromkeys(kinds, 0)
    while any(missing.values()):
        kind = rng.choice(kinds)
        left = length[kind]
        for i in sorted(pieces, key=lambda i: -width[i]):
            cut = min(missing[i], left // width[i])
            missing[i] -= cut
            left -= cut * width[i]
        used[kind] += 1
    cost = {k: 10 * round(length[k] * rng.uniform(0.85, 1.15) / 10) for k in kinds}
    available = {k: used[k] + rng.randint(1, 2) for k in kinds}
    return {**sets, "length": length, "cost": cost, "available": available, "width": width, "demand": demand}


def _patterns(left: int, widths: list[int], shortest: int) -> int:
    """How many ways there are to cut a length so that nothing more fits."""
    if not widths:
        return int(left < shortest)
    return sum(_patterns(left - n * widths[0], widths[1:], shortest) for n in range(left // widths[0] + 1))


def model(data: dict) -> pyo.ConcreteModel:
    """How often to cut each kind of stock by each pattern, as an integer program."""
    kinds, pieces = data["kinds"], data["pieces"]
    shortest = min(data["width"][i] for i in pieces)
    patterns = {}  # (kind, name of the pattern) -> pieces of each kind
    for k in kinds:
        partial: list[tuple] = [(data["length"][k], ())]
        for i in pieces:
            partial = [
                (left - n * data["width"][i], (*counts, n))
                for left, counts in partial
                for n in range(left // data["width"][i] + 1)
            ]
        for left, counts in partial:
            if left < shortest:  # no further piece fits
                pattern = {i: counts[place] for place, i in enumerate(pieces)}
                patterns[k, "+".join(f"{n}*{i}" for i, n in pattern.items() if n)] = pattern

    m = pyo.ConcreteModel()
    m.cut = pyo.Var(list(patterns), domain=pyo.NonNegativeIntegers)
    m.stock = pyo.Expression(expr=sum(data["cost"][k] * m.cut[k, p] for k, p in patterns))
    m.objective = pyo.Objective(expr=m.stock, sense=pyo.minimize)
    m.demand = pyo.Constraint(
        pieces, rule=lambda m, i: sum(counts[i] * m.cut[q] for q, counts in patterns.items()) >= data["demand"][i]
    )
    m.available = pyo.Constraint(
        kinds, rule=lambda m, k: sum(m.cut[q] for q in patterns if q[0] == k) <= data["available"][k]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """Flow along the stock: an arc from a to b cuts the piece between them (Valério de Carvalho, 1999).

    Wider pieces come first, so an arc starts only where pieces at least as wide can have ended.
    """
    longest = max(data["length"].values())
    reached, cuts = {0}, []
    for i in sorted(data["pieces"], key=lambda i: -data["width"][i]):
        for a in range(longest - data["width"][i] + 1):
            if a in reached:
                reached.add(a + data["width"][i])
                cuts.append((a, a + data["width"][i], i))
    points = sorted(reached | set(data["length"].values()))
    waste = [(a, b, "waste") for a, b in itertools.pairwise(points)]

    m = gp.Model("arc_flow")
    flow = m.addVars(cuts + waste, vtype=gp.GRB.INTEGER, name="flow")
    rolls = m.addVars(data["kinds"], vtype=gp.GRB.INTEGER, ub=data["available"], name="rolls")
    m.setObjective(rolls.prod(data["cost"]), gp.GRB.MINIMIZE)
    m.addConstr(flow.sum(0, "*", "*") == rolls.sum(), name="start")
    for b in points[1:]:
        ending = gp.quicksum(rolls[k] for k, length in data["length"].items() if length == b)
        m.addConstr(flow.sum("*", b, "*") - flow.sum(b, "*", "*") == ending, name=f"point[{b}]")
    m.addConstrs((flow.sum("*", "*", i) >= data["demand"][i] for i in data["pieces"]), name="pieces")
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over the pieces still missing."""
    pieces, kinds = data["pieces"], data["kinds"]
    cost = exact_packing.cutting_stock(
        [data["width"][i] for i in pieces], [data["demand"][i] for i in pieces],
        *([data[key][k] for k in kinds] for key in ("length", "cost", "available")),
    )  # fmt: skip
    return None if cost is None else float(cost)


def _scenario(domain: str, place: str, stock: str, stocks: str, piece: str, pieces: str, units: str, money: str,
              kind_names: Names, piece_names: Names) -> Scenario:  # fmt: skip
    told = {
        "place": place, "stock": stock, "stocks": stocks, "piece": piece, "pieces": pieces, "units": units,
        "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"kinds": kind_names, "pieces": piece_names})


SCENARIOS = (
    _scenario("paper", "a paper converter", "roll", "rolls", "strip", "strips", "centimetres", "euros",
              words("Jumbo Parent Master Mother", "R"), code("S")),
    _scenario("steel", "a steel merchant", "bar", "bars", "rod", "rods", "decimetres", "dollars",
              words("Northmill Southmill Eastmill Westmill", "B"), code("R")),
    _scenario("timber", "a carpentry", "beam", "beams", "rafter", "rafters", "decimetres", "pounds",
              words("Forest Ridge Valley Lake", "H"), code("T")),
    _scenario("textiles", "a curtain maker", "bolt", "bolts", "panel", "panels", "decimetres", "euros",
              words("Flora Stella Luna Aurora", "B"), code("P")),
    _scenario("electrical work", "an electrical contractor", "cable drum", "cable drums", "cable run", "cable runs",
              "metres", "francs", words("Argo Borea Ceres Doris", "D"), code("C")),
    _scenario("plumbing", "a pipe fitter", "pipe", "pipes", "section", "sections", "decimetres", "dollars",
              code("K"), code("F")),
    _scenario("windows", "a window factory", "profile", "profiles", "frame part", "frame parts", "decimetres", "euros",
              words("Classic Nova Prima Ultra", "W"), code("E")),
)  # fmt: skip

FAMILY = Family(
    title="Cutting stock of several lengths",
    area="packing",
    source="P. C. Gilmore and R. E. Gomory, A linear programming approach to the cutting-stock problem, 1961",
    sizes=SIZES,
    sets=(
        IndexSet("kinds", "kind of {stock}", "kinds of {stocks}", "k", "K"),
        IndexSet("pieces", "{piece}", "{pieces}", "i", "I"),
    ),
    fields=(
        Field("length", ("kinds",), "length", "{units}", "L_k", (
            "{stocks} of kind {0} are {value} {units} long", "kind {0} has a length of {value} {units}",
            "the length of a {stock} of kind {0} is {value} {units}",
        )),
        Field("cost", ("kinds",), "price", "{money}", "c_k", (
            "one {stock} of kind {0} costs {value} {money}", "the price of a {stock} of kind {0} is {value} {money}",
            "{value} {money} are paid for each {stock} of kind {0}",
        )),
        Field("available", ("kinds",), "number at hand", "{stocks}", "n_k", (
            "{value} {stocks} of kind {0} are at hand", "of kind {0} there are {value} {stocks}",
            "no more than {value} {stocks} of kind {0} can be had",
        )),
        Field("width", ("pieces",), "length needed", "{units}", "w_i", (
            "each {piece} {0} is {value} {units} long", "a {piece} of type {0} has a length of {value} {units}",
            "type {0} takes {value} {units} of length",
        )),
        Field("demand", ("pieces",), "number ordered", "{pieces}", "d_i", (
            "{value} {pieces} of type {0} are ordered", "the order asks for {value} {pieces} of type {0}",
            "of type {0}, {value} {pieces} are needed",
        )),
    ),
    contract=Contract(
        variables=(Variables(
            "cut", INTEGER, "x_{kp}",
            "{stocks} of kind $k$ cut by pattern $p \\in P_k$, where $P_k$ holds every choice of $a_{{ip}}$ {pieces} "
            "of each type $i$ with $\\sum_{{i \\in I}} w_i a_{{ip}} \\le L_k$ to which no further {piece} can be added",
            "{value} {stocks} of kind {0} are cut into {1} each",
        ),),
        sense="minimize",
        goal=("total price of the {stocks} used", "{money}"),
        objective=(Term("stock", r"\sum_{k \in K} \sum_{p \in P_k} c_k x_{kp}", (
            "A {stock} that is cut is paid for in full, whatever is left of it; left-over lengths are worth nothing.",
            "Every {stock} used costs its price, and what remains of it is scrap without value.",
        )),),
        constraints=(
            Clause("demand", r"\sum_{k \in K} \sum_{p \in P_k} a_{ip} x_{kp} \ge d_i", r"i \in I", (
                "At least the number ordered of each type has to be cut, every {piece} in full length from a single "
                "{stock}; the {pieces} from one {stock} cannot together be longer than it is, cuts lose nothing, and "
                "surplus {pieces} are allowed but worthless.",
                "All orders must be filled; more {pieces} than ordered may be cut but bring nothing. Any mixture of "
                "types can be cut from a {stock} as long as their lengths add up to no more than its own; a {piece} "
                "is never joined from parts, and the saw takes no length away.",
            )),
            Clause("available", r"\sum_{p \in P_k} x_{kp} \le n_k", r"k \in K", (
                "Of each kind, no more {stocks} can be cut than there are.",
                "The number of {stocks} used of any kind is limited to those at hand.",
            )),
        ),
        integrality=(
            "Only whole {stocks} are used and only whole {pieces} are cut.",
            "The numbers of {stocks} and of {pieces} are whole and not negative.",
        ),
        fixed=("that {pieces} come from one {stock} each", "that all orders are filled",
               "that a {stock} is paid for as a whole"),
        mistakes=(
            Mistake("the length checked for each type by itself", 'range(left // data["width"][i] + 1)',
                    'range(data["length"][k] // data["width"][i] + 1)'),
            Mistake("patterns with one type of piece only", "if left < shortest:",
                    "if left < shortest and sum(n > 0 for n in counts) == 1:"),
            Mistake("no surplus allowed", '>= data["demand"][i]', '== data["demand"][i]'),
            Mistake("stock in parts", "domain=pyo.NonNegativeIntegers", "domain=pyo.NonNegativeReals"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "An order of {pieces} of different lengths is to be cut from {stocks} by {place}.",
        "For {place}, cutting {stocks} into {pieces} is daily work; the {stocks} come in several kinds.",
        "In stock at {place} are {stocks} of several kinds, which are cut into {pieces} to order.",
    ),
    questions=(
        "How many {stocks} of each kind should be cut, and how, so that their total price is as small as possible?",
        "Find a cutting plan with the least total price of the {stocks} used.",
        "Minimise what is paid, in {money}, for the {stocks} that are cut.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="flow along the length of the stock instead of cutting patterns",
    optimum=optimum,
)  # fmt: skip
