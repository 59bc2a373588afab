"""Set partitioning: choose crew pairings of least total cost so that every leg is in exactly one of them."""

import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_covering
from trex.data.contract import BINARY, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABEL, LABELS, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import PLACES, Names, Scenario, code, words

SIZES = {
    1: {"legs": (5, 7), "pairings": (10, 14), "bases": (2, 2)},
    2: {"legs": (10, 14), "pairings": (25, 40), "bases": (2, 2)},
    3: {"legs": (24, 30), "pairings": (104, 124), "bases": (3, 3)},
    4: {"legs": (34, 40), "pairings": (204, 240), "bases": (3, 3)},
}
WINDOW = 4  # legs that can follow the first of a pairing


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: half of the pairings come from random partitions of the legs, and crews fit the first.

    The rest are random groups. Legs are in order of time and a pairing's are near each other, as connections are.
    Costs follow the number of legs with noise; the first base is the cheapest.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    legs, names, bases = sets["legs"], sets["pairings"], sets["bases"]
    groups: list[frozenset[str]] = []
    first: set[frozenset[str]] = set()
    while len(groups) < len(names) // 2:
        left, parts = list(legs), []
        while left:
            parts.append(_group(rng, left))
            left = [leg for leg in left if leg not in parts[-1]]
        first = first or set(parts)
        groups += [part for part in parts if part not in groups][: len(names) - len(groups)]
    while len(groups) < len(names):
        group = _group(rng, legs[rng.randrange(len(legs)) :])
        groups += [group] if group not in groups else []
    rng.shuffle(groups)
    home = [rng.choice(bases) for _ in groups]
    cost = [
        round((20 + 25 * len(group)) * rng.uniform(0.7, 1.3) * (0.7 if base == bases[0] else 1))
        for group, base in zip(groups, home, strict=True)
    ]
    used = dict.fromkeys(bases, 0)
    for group, base in zip(groups, home, strict=True):
        used[base] += group in first
    return {
        **sets, "legs_of": {p: [leg for leg in legs if leg in group] for p, group in zip(names, groups, strict=True)},
        "home": dict(zip(names, home, strict=True)), "cost": dict(zip(names, cost, strict=True)),
        "crews": {base: max(1, count) for base, count in used.items()},
    }  # fmt: skip


def _group(rng: random.Random, legs: list[str]) -> frozenset[str]:
    """The first leg, with up to three of those that follow soon."""
    soon = legs[1 : 1 + WINDOW]
    return frozenset([legs[0], *rng.sample(soon, min(len(soon), rng.randint(0, 3)))])


def model(data: dict) -> pyo.ConcreteModel:
    """Choice of pairings as a binary program."""
    legs, pairings, bases = data["legs"], data["pairings"], data["bases"]
    m = pyo.ConcreteModel()
    m.choose = pyo.Var(pairings, domain=pyo.Binary)
    m.work = pyo.Expression(expr=sum(data["cost"][p] * m.choose[p] for p in pairings))
    m.objective = pyo.Objective(expr=m.work, sense=pyo.minimize)
    m.once = pyo.Constraint(
        legs, rule=lambda m, leg: sum(m.choose[p] for p in pairings if leg in data["legs_of"][p]) == 1
    )
    m.crews = pyo.Constraint(
        bases, rule=lambda m, b: sum(m.choose[p] for p in pairings if data["home"][p] == b) <= data["crews"][b]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """No leg twice, and as many legs in all as there are: one count of legs instead of an equation for each."""
    m = gp.Model("disjoint_pairings")
    run = m.addVars(data["pairings"], vtype=gp.GRB.BINARY, obj=data["cost"], name="run")
    m.ModelSense = gp.GRB.MINIMIZE
    with_leg: dict[str, list] = {leg: [] for leg in data["legs"]}
    at_base: dict[str, list] = {base: [] for base in data["bases"]}
    for p, parts in data["legs_of"].items():
        at_base[data["home"][p]].append(p)
        for leg in parts:
            with_leg[leg].append(p)
    for leg, group in with_leg.items():
        m.addConstr(gp.quicksum(run[p] for p in group) <= 1, name=f"disjoint[{leg}]")
    for base, group in at_base.items():
        m.addConstr(gp.quicksum(run[p] for p in group) <= data["crews"][base], name=f"crews[{base}]")
    m.addConstr(gp.quicksum(len(parts) * run[p] for p, parts in data["legs_of"].items()) >= len(with_leg), "all")
    return m


def optimum(data: dict) -> float | None:
    """By recursion over the legs that are in no pairing yet."""
    leg_at, base_at = ({name: k for k, name in enumerate(data[key])} for key in ("legs", "bases"))
    best = exact_covering.partition(
        len(data["legs"]), [{leg_at[leg] for leg in data["legs_of"][p]} for p in data["pairings"]],
        [data["cost"][p] for p in data["pairings"]], [base_at[data["home"][p]] for p in data["pairings"]],
        [data["crews"][base] for base in data["bases"]],
    )  # fmt: skip
    return None if best is None else float(best)


def _scenario(domain: str, who: str, leg: str, legs: str, pairing: str, pairings: str, base: str, bases: str,
              crews: str, money: str, leg_names: Names, base_names: Names = PLACES) -> Scenario:  # fmt: skip
    told = {
        "who": who, "leg": leg, "legs": legs, "pairing": pairing, "pairings": pairings, "base": base, "bases": bases,
        "crews": crews, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"legs": leg_names, "pairings": code(pairing[0].upper()), "bases": base_names})


SCENARIOS = (
    _scenario("airlines", "an airline", "flight", "flights", "pairing", "pairings", "base", "bases", "crews",
              "hundred euros", code("A")),
    _scenario("railways", "a railway company", "train", "trains", "duty", "duties", "depot", "depots", "drivers",
              "francs", code("Z")),
    _scenario("buses", "a bus company", "trip", "trips", "shift", "shifts", "garage", "garages", "drivers", "euros",
              code("T")),
    _scenario("ferries", "a ferry line", "sailing", "sailings", "rotation", "rotations", "home port", "home ports",
              "crews", "hundred dollars", code("F")),
    _scenario("home care", "a nursing service", "visit", "visits", "round", "rounds", "station", "stations", "nurses",
              "pounds", code("V"), words("North South East West Centre Harbour", "S")),
    _scenario("road freight", "a haulier", "delivery", "deliveries", "tour", "tours", "yard", "yards", "lorries",
              "euros", code("D")),
    _scenario("security", "a guard company", "site check", "site checks", "patrol", "patrols", "office", "offices",
              "guards", "dollars", code("K"), words("Oldtown Harbour Station Airport Market Park", "O")),
)  # fmt: skip

FAMILY = Family(
    title="Partitioning into crew pairings",
    area="covering",
    source="R. E. Marsten and F. Shepardson, Exact solution of crew scheduling problems by set partitioning, 1981",
    sizes=SIZES,
    sets=(
        IndexSet("legs", "{leg}", "{legs}", "l", "L"),
        IndexSet("pairings", "possible {pairing}", "possible {pairings}", "p", "P"),
        IndexSet("bases", "{base}", "{bases}", "b", "B"),
    ),
    fields=(
        Field("legs_of", ("pairings",), "{legs} in it", "", "L_p", (
            "{pairing} {0} consists of {value}", "{0} holds {value}", "the {legs} of {pairing} {0}: {value}",
        ), LABELS),
        Field("home", ("pairings",), "{base}", "", "b_p", (
            "{pairing} {0} starts from {value}", "{value} is the {base} of {pairing} {0}",
            "{0} is run from {value}",
        ), LABEL),
        Field("cost", ("pairings",), "cost", "{money}", "c_p", (
            "{pairing} {0} costs {value} {money}", "the cost of {0} is {value} {money}",
            "{value} {money} have to be paid for {pairing} {0}",
        )),
        Field("crews", ("bases",), "number of {crews}", "", "n_b", (
            "the number of {crews} in {0} is {value}", "{0} has {crews} for {value} {pairings} at most",
            "in {0}, {value} {crews} are on hand",
        )),
    ),
    contract=Contract(
        variables=(Variables("choose", BINARY, "x_p", "1 if {pairing} $p$ is chosen", "{pairing} {0} is chosen"),),
        sense="minimize",
        goal=("total cost", "{money}"),
        objective=(Term("work", r"\sum_{p \in P} c_p x_p", (
            "The costs of the chosen {pairings} add up; there are no others.",
            "Only chosen {pairings} are paid for, and each only once.",
        )),),
        constraints=(
            Clause("once", r"\sum_{p \in P: l \in L_p} x_p = 1", r"l \in L", (
                "Every {leg} must be in exactly one of the chosen {pairings}.",
                "The chosen {pairings} must hold every {leg}, and no {leg} may be in more than one of them.",
            )),
            Clause("crews", r"\sum_{p \in P: b_p = b} x_p \le n_b", r"b \in B", (
                "Each chosen {pairing} takes up one of the {crews} of its {base}, so that no more can be chosen there "
                "than that number.",
                "From each {base}, no more {pairings} can be chosen than it has {crews}.",
            )),
        ),
        integrality=(
            "A {pairing} is chosen as a whole, with all of its {legs}, or not at all.",
            "There is one yes-or-no decision for every possible {pairing}; none can be shortened or split.",
        ),
        fixed=("that every {leg} is in exactly one chosen {pairing}", "which {legs} a {pairing} holds",
               "that the number of {crews} limits each {base} by itself"),
        mistakes=(
            Mistake("legs covered more than once", 'data["legs_of"][p]) == 1', 'data["legs_of"][p]) >= 1'),
            Mistake("legs left out", 'data["legs_of"][p]) == 1', 'data["legs_of"][p]) <= 1'),
            Mistake("pairings in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("crews of all bases together",
                    'bases, rule=lambda m, b: sum(m.choose[p] for p in pairings if data["home"][p] == b) <= '
                    'data["crews"][b]',
                    'expr=sum(m.choose[p] for p in pairings) <= sum(data["crews"][b] for b in bases)'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "The schedule of {who} is fixed, and its {legs} have to be divided among {pairings} that are already drawn up.",
        "From a list of possible {pairings}, {who} makes up a plan for all of its {legs}.",
        "For its {legs}, {who} has worked out possible {pairings} with their costs, each run from one {base}.",
    ),
    questions=(
        "Which {pairings} should be chosen so that the total cost is as small as possible?",
        "Find the cheapest choice of {pairings}.",
        "Minimise the total cost of the chosen {pairings}, in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="disjoint pairings and one count of legs instead of an equation for each leg",
    optimum=optimum,
)  # fmt: skip
