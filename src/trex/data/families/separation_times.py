"""Sequencing with separation times: aircraft and the like take one runway, each close to its target time.

Between two that follow each other must pass a time that depends on their classes, also on which is first.
"""

import itertools
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_scheduling
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABEL, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import Scenario, code, words

SIZES = {
    1: {"visitors": (3, 3), "classes": (2, 2)},
    2: {"visitors": (4, 6), "classes": (2, 3)},
    3: {"visitors": (11, 12), "classes": (3, 3)},
    4: {"visitors": (18, 19), "classes": (3, 3)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: the windows hold a schedule that keeps all separations in a random sequence.

    Targets lie near that schedule, closer together than the separations allow. The longest separation is at most twice
    the shortest, so that those between neighbours imply all others.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    visitors, classes = sets["visitors"], sets["classes"]
    separation = {a: {b: rng.randint(2, 4) for b in classes} for a in classes}
    kind = {v: classes[n] if n < len(classes) else rng.choice(classes) for n, v in enumerate(visitors)}
    sequence = rng.sample(visitors, len(visitors))
    clock, planned = rng.randint(5, 9), {}
    for place, v in enumerate(sequence):
        if place:
            clock += separation[kind[sequence[place - 1]]][kind[v]] + rng.choice((0, 0, 0, 1, 3))
        planned[v] = clock
    used = {(kind[v], kind[w]) for v, w in itertools.permutations(visitors, 2)}
    separation = {a: {b: time for b, time in row.items() if (a, b) in used} for a, row in separation.items()}
    least = min(min(row.values()) for row in separation.values())
    while True:
        target = {v: max(4, planned[v] + rng.randint(-3, 4)) for v in visitors}
        times = sorted(target.values())
        if any(later - time < least for time, later in itertools.pairwise(times)):  # not all targets can be met
            break
    earliest = {v: min(planned[v], target[v]) - rng.choice((0, 0, 2)) for v in visitors}
    return {
        **sets, "kind": kind, "earliest": earliest, "target": target,
        "latest": {v: max(planned[v], target[v]) + rng.choice((0, 0, 0, 1)) for v in visitors},
        "early_cost": {v: rng.randint(2, 15) for v in visitors}, "late_cost": {v: rng.randint(1, 9) for v in visitors},
        "separation": separation,
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Times and the order of each pair, with big M from the windows."""
    visitors, kind, separation = data["visitors"], data["kind"], data["separation"]
    pairs = list(itertools.combinations(visitors, 2))
    m = pyo.ConcreteModel()
    m.time = pyo.Var(visitors, domain=pyo.NonNegativeReals)
    m.early = pyo.Var(visitors, domain=pyo.NonNegativeReals)
    m.late = pyo.Var(visitors, domain=pyo.NonNegativeReals)
    m.before = pyo.Var(pairs, domain=pyo.Binary)
    m.earliness_cost = pyo.Expression(expr=sum(data["early_cost"][v] * m.early[v] for v in visitors))
    m.lateness_cost = pyo.Expression(expr=sum(data["late_cost"][v] * m.late[v] for v in visitors))
    m.objective = pyo.Objective(expr=m.earliness_cost + m.lateness_cost, sense=pyo.minimize)
    end = max(data["latest"].values())
    most = {  # how far the second of a pair could be ahead of where it must be, were it the first
        (v, w): max(0, end + separation[kind[v]][kind[w]] - data["earliest"][w])
        for v, w in itertools.permutations(visitors, 2)
    }
    m.not_before = pyo.Constraint(visitors, rule=lambda m, v: m.time[v] >= data["earliest"][v])
    m.not_after = pyo.Constraint(visitors, rule=lambda m, v: m.time[v] <= data["latest"][v])
    m.deviation = pyo.Constraint(visitors, rule=lambda m, v: m.time[v] + m.early[v] == data["target"][v] + m.late[v])
    m.separation = pyo.Constraint(
        pairs,
        rule=lambda m, v, w: m.time[w] >= m.time[v] + separation[kind[v]][kind[w]] - most[v, w] * (1 - m.before[v, w]),
    )
    m.separation_other = pyo.Constraint(
        pairs,
        rule=lambda m, v, w: m.time[v] >= m.time[w] + separation[kind[w]][kind[v]] - most[w, v] * m.before[v, w],
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """Time-indexed: one yes-or-no variable for each whole time in the window; all data are whole, so times are too."""
    m = gp.Model("time_indexed")
    visitors, gap = data["visitors"], data["separation"]
    window = {v: range(data["earliest"][v], data["latest"][v] + 1) for v in visitors}
    take = m.addVars([(v, t) for v in visitors for t in window[v]], vtype=gp.GRB.BINARY, name="take")
    price = {
        (v, t): data["early_cost"][v] * max(0, data["target"][v] - t)
        + data["late_cost"][v] * max(0, t - data["target"][v])
        for v, t in take
    }
    m.setObjective(take.prod(price), gp.GRB.MINIMIZE)
    m.addConstrs((take.sum(v, "*") == 1 for v in visitors), name="once")
    for v in visitors:
        for w in [w for w in visitors if w != v]:
            after, ahead = gap[data["kind"][v]][data["kind"][w]], gap[data["kind"][w]][data["kind"][v]]
            for t in window[v]:  # v in t or the time just before w needs to be away from it excludes w close by
                close = [take[w, s] for s in window[w] if t - ahead < s < t + after]
                if close:
                    m.addConstr(take[v, t] + gp.quicksum(close) <= 1, name=f"apart[{v},{w},{t}]")
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over sets, last members and whole times; for few members only."""
    if len(data["visitors"]) > 9:
        return None
    visitors, kind = data["visitors"], data["kind"]
    costs = [
        {
            t: max(data["early_cost"][v] * (data["target"][v] - t), data["late_cost"][v] * (t - data["target"][v]))
            for t in range(data["earliest"][v], data["latest"][v] + 1)
        }
        for v in visitors
    ]
    gaps = [[0 if v == w else data["separation"][kind[v]][kind[w]] for w in visitors] for v in visitors]
    return float(exact_scheduling.separated(costs, gaps))


def _scenario(domain: str, place: str, member: str, members: str, letter: str, act: str, acts: str, kinds: str,
              unit: str, money: str) -> Scenario:  # fmt: skip
    told = {
        "place": place, "member": member, "members": members, "act": act, "acts": acts, "unit": unit, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"visitors": code(letter), "classes": words(kinds, "K")})


SCENARIOS = (
    _scenario("airports", "the runway", "flight", "flights", "F", "land", "lands", "heavy medium light super",
              "minutes", "euros"),
    _scenario("ports", "the harbour entrance", "ship", "ships", "V", "pass", "passes", "tanker freighter ferry liner",
              "quarter-hours", "dollars"),
    _scenario("railways", "the single-track bridge", "train", "trains", "T", "cross", "crosses",
              "freight express local maintenance", "minutes", "francs"),
    _scenario("coatings", "the painting robot", "vehicle body", "vehicle bodies", "B", "enter", "enters",
              "white red black silver", "minutes", "pounds"),
    _scenario("health", "the imaging scanner", "patient", "patients", "P", "enter", "enters",
              "standard contrast sedated paediatric", "five-minute slots", "euros"),
    _scenario("waterways", "the lock", "barge", "barges", "L", "enter", "enters", "laden empty tow pleasure",
              "minutes", "euros"),
    _scenario("airports", "the departure runway", "departure", "departures", "D", "take off", "takes off",
              "jet turboprop widebody business", "minutes", "dollars"),
)  # fmt: skip

FAMILY = Family(
    title="Sequencing with separation times and target times",
    area="scheduling",
    source="J. E. Beasley et al., Scheduling aircraft landings: the static case, 2000",
    sizes=SIZES,
    sets=(
        IndexSet("visitors", "{member}", "{members}", "v", "V"),
        IndexSet("classes", "class", "classes of {members}", "a", "K"),
    ),
    fields=(
        Field("kind", ("visitors",), "class", "", "k_v", (
            "{member} {0} is of class {value}", "the class of {0} is {value}", "{0} belongs to class {value}",
        ), LABEL),
        Field("earliest", ("visitors",), "earliest time", "{unit} after the start", "a_v", (
            "{0} cannot {act} earlier than {value} {unit} after the start",
            "the earliest time for {member} {0} is {value} {unit} after the start",
        )),
        Field("target", ("visitors",), "target time", "{unit} after the start", "t_v", (
            "the target time of {0} is {value} {unit} after the start",
            "{member} {0} should {act} {value} {unit} after the start",
        )),
        Field("latest", ("visitors",), "latest time", "{unit} after the start", "b_v", (
            "{0} has to {act} by {value} {unit} after the start at the latest",
            "the latest time for {member} {0} is {value} {unit} after the start",
        )),
        Field("early_cost", ("visitors",), "cost of being early", "{money} for each of the {unit}", "e_v", (
            "each of the {unit} that {0} is ahead of its target costs {value} {money}",
            "being early costs {value} {money} for {0}, for each of the {unit}",
        )),
        Field("late_cost", ("visitors",), "cost of being late", "{money} for each of the {unit}", "l_v", (
            "each of the {unit} that {0} is behind its target costs {value} {money}",
            "being late costs {value} {money} for {0}, for each of the {unit}",
        )),
        Field("separation", ("classes", "classes"), "least time from the first, by its class, to the second",
              "{unit}", "s_{ab}", (
            ("after a {member} of class {0} there must pass", "at least {value} {unit} before one of class {1}"),
            ("if a {member} of class {0} is first, the least time to a later one is",
             "{value} {unit} for class {1}"),
        )),
    ),
    contract=Contract(
        variables=(
            Variables("time", CONTINUOUS, "x_v", "time at which {member} $v$ {acts}, in {unit} after the start",
                      "{member} {0} {acts} at {value} {unit}"),
            Variables("early", CONTINUOUS, "u_v", "how far $v$ is ahead of its target, in {unit}",
                      "{0} is {value} {unit} early"),
            Variables("late", CONTINUOUS, "w_v", "how far $v$ is behind its target, in {unit}",
                      "{0} is {value} {unit} late"),
            Variables("before", BINARY, "y_{vw}", "1 if $v$ is before $w$, 0 if $w$ is before $v$"),
        ),
        sense="minimize",
        goal=("total cost of being early or late", "{money}"),
        objective=(
            Term("earliness_cost", r"\sum_{v \in V} e_v u_v", (
                "Being ahead of the target is charged in proportion to the time.",
                "For each {member}, the time by which it is ahead of its target is charged at its rate.",
            )),
            Term("lateness_cost", r"\sum_{v \in V} l_v w_v", (
                "Being behind the target is charged in proportion to the time.",
                "For each {member}, the time by which it is behind its target is charged at its rate.",
            )),
        ),
        constraints=(
            Clause("not_before", r"x_v \ge a_v", r"v \in V", (
                "No {member} may {act} before its earliest time.", "Earliest times have to be respected.",
            )),
            Clause("not_after", r"x_v \le b_v", r"v \in V", (
                "No {member} may {act} after its latest time.", "Latest times have to be respected.",
            )),
            Clause("deviation", r"x_v + u_v = t_v + w_v", r"v \in V", (
                "What counts for a {member} is by how much its time differs from its target time.",
                "The difference between time and target time is either earliness or lateness.",
            )),
            Clause("separation", r"x_w \ge x_v + s_{k_v k_w} - M_{vw} (1 - y_{vw})",
                   r"v < w \in V,\ M\ \text{large enough}", (
                "Every {member} uses {place} once, and of any two {members} one is before the other.",
                "All {members} use {place}, each of them once and one after the other.",
            )),
            Clause("separation_other", r"x_v \ge x_w + s_{k_w k_v} - M_{wv} y_{vw}",
                   r"v < w \in V,\ M\ \text{large enough}", (
                "Between any two {members}, not only between neighbours, there must be at least the separation that "
                "belongs to the class of the first and the class of the second.",
                "Whatever the sequence, the time from any {member} to any later one must not be shorter than the "
                "separation for their classes in that order.",
            )),
        ),
        integrality=(
            "Times may be any non-negative numbers of {unit}; which of two {members} is first is a yes-or-no decision.",
            "Times, earliness and lateness are continuous and not negative, the order of two {members} is yes or no.",
        ),
        fixed=("the windows from earliest to latest time", "the separation of every pair, in both orders",
               "that there is only one {place}"),
        mistakes=(
            Mistake("the order in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("earliness and lateness mixed up", 'm.early[v] == data["target"][v] + m.late[v]',
                    'm.late[v] == data["target"][v] + m.early[v]'),
            Mistake("separation in one order only", "- most[w, v] * m.before[v, w]", "- most[w, v]"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "Several {members} have to use {place} one after the other, each as close to its target time as possible.",
        "{place} is used by {members} that all have a target time, but not all targets can be met.",
        "A controller plans at what time each of the {members} {acts}; there is only one place for it, {place}.",
    ),
    questions=(
        "At what time should each {member} {act} so that the total cost is as small as possible?",
        "Find times of least total cost of being early or late.",
        "Minimise the total cost, in {money}, of being ahead of or behind the targets.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="time-indexed instead of disjunctive",
    optimum=optimum,
)  # fmt: skip
