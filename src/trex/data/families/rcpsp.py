"""Resource-constrained project scheduling: activities with predecessors share resources that vary over time.

Time-indexed: a yes-or-no variable for each activity and each period in which it could begin (Pritsker's pulses).
"""

import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABELS, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import DAYS, HOURS, WEEKS, Names, Scenario, code, words

SIZES = {
    1: {"activities": (3, 3), "resources": (1, 1), "periods": (6, 6)},
    2: {"activities": (5, 6), "resources": (2, 2), "periods": (9, 10)},
    3: {"activities": (9, 10), "resources": (2, 2), "periods": (13, 14)},
    4: {"activities": (13, 14), "resources": (2, 2), "periods": (17, 18)},
}
LONGEST, NEEDS = 3, (1, 4)  # of an activity


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: what there is of a resource is at least what a schedule drawn at random uses.

    Predecessors come earlier in a hidden order and are at most two per activity.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        activities, resources, periods = sets["activities"], sets["resources"], sets["periods"]
        order = rng.sample(activities, len(activities))
        duration = {a: rng.randint(1, LONGEST) for a in activities}
        need = {a: {r: rng.randint(*NEEDS) for r in resources} for a in activities}
        before: dict[str, list[str]] = {}
        start: dict[str, int] = {}
        for k, a in enumerate(order):
            near = order[max(0, k - 4) : k]
            before[a] = rng.sample(near, min(len(near), rng.choice((0, 1, 1, 2))))
            ready = max((start[b] + duration[b] for b in before[a]), default=0)
            start[a] = max(ready, k * (len(periods) - LONGEST - 2) // len(order)) + rng.randint(0, 1)
        if max(start[a] + duration[a] for a in activities) <= len(periods):
            break
    used = {
        r: [
            sum(need[a][r] for a in activities if start[a] <= k < start[a] + duration[a]) for k, _ in enumerate(periods)
        ]
        for r in resources
    }
    return {
        **sets, "duration": duration, "before": {a: before[a] for a in activities}, "need": need,
        "available": {
            r: {t: max(used[r][k], NEEDS[1]) + rng.choice((0, 0, 1)) for k, t in enumerate(periods)} for r in resources
        },
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Starts by period: one variable is one where an activity begins."""
    periods, duration, need = data["periods"], data["duration"], data["need"]
    number = {t: k + 1 for k, t in enumerate(periods)}
    pairs = [(a, t) for a in data["activities"] for t in periods if number[t] + duration[a] <= len(periods) + 1]
    links = [(b, a) for a in data["activities"] for b in data["before"][a]]
    running = {  # starts of activities that are at work in a period
        t: [(a, s) for a, s in pairs if number[s] <= number[t] < number[s] + duration[a]] for t in periods
    }
    m = pyo.ConcreteModel()
    m.begin = pyo.Var(pairs, domain=pyo.Binary)
    m.completion = pyo.Var(domain=pyo.NonNegativeReals)
    m.makespan = pyo.Expression(expr=m.completion)
    m.objective = pyo.Objective(expr=m.makespan, sense=pyo.minimize)
    first = {a: sum(number[t] * m.begin[b, t] for b, t in pairs if b == a) for a in data["activities"]}
    m.once = pyo.Constraint(data["activities"], rule=lambda m, a: sum(m.begin[b, t] for b, t in pairs if b == a) == 1)
    m.precedence = pyo.Constraint(links, rule=lambda m, b, a: first[a] >= first[b] + duration[b])
    m.available = pyo.Constraint(
        data["resources"],
        periods,
        rule=lambda m, r, t: sum(need[a][r] * m.begin[a, s] for a, s in running[t]) <= data["available"][r][t],
    )
    m.finish = pyo.Constraint(data["activities"], rule=lambda m, a: m.completion >= first[a] + duration[a] - 1)
    return m


def reformulated(data: dict) -> gp.Model:
    """Steps: a variable is one from the period on in which its activity has begun; windows from the predecessors."""
    periods, length = range(len(data["periods"])), data["duration"]
    last = {a: len(periods) - length[a] for a in data["activities"]}
    m = gp.Model("steps")
    step = m.addVars(data["activities"], periods, vtype=gp.GRB.BINARY, name="step")
    busy = m.addVars(periods, vtype=gp.GRB.BINARY, name="busy")  # the project still runs in this period
    m.setObjective(busy.sum(), gp.GRB.MINIMIZE)

    begun = {(a, k): step[a, k] if k >= 0 else 0 for a in length for k in range(-length[a], len(periods))}
    for a in data["activities"]:
        m.addConstr(step[a, last[a]] == 1, name=f"by[{a}]")
        for k in periods:
            if k:
                m.addConstr(step[a, k - 1] <= step[a, k], name=f"stay[{a},{k}]")
            m.addConstr(busy[k] >= 1 - begun[a, k - length[a]], name=f"busy[{a},{k}]")
            for b in data["before"][a]:
                m.addConstr(begun[b, k - length[b]] >= step[a, k], name=f"after[{b},{a},{k}]")
    for r in data["resources"]:
        for k, t in enumerate(data["periods"]):
            use = gp.quicksum(data["need"][a][r] * (step[a, k] - begun[a, k - length[a]]) for a in data["activities"])
            m.addConstr(use <= data["available"][r][t], name=f"use[{r},{t}]")
    return m


def optimum(data: dict) -> float | None:
    """By trying all starting periods that keep predecessors and resources; for few activities only."""
    if len(data["activities"]) > 6:
        return None
    count, before, need = len(data["periods"]), data["before"], data["need"]
    order: list[str] = []
    while len(order) < len(before):
        order += [a for a in before if a not in order and all(b in order for b in before[a])]
    best = count + 1

    def place(position: int, end: dict[str, int], left: dict[str, list[int]]) -> None:
        nonlocal best
        if position == len(order):
            best = min(best, max(end.values()))
            return
        a = order[position]
        for start in range(max((end[b] for b in before[a]), default=0), best - data["duration"][a]):
            span = range(start, start + data["duration"][a])
            if all(left[r][k] >= need[a][r] for r in left for k in span):
                rest = {r: [v - need[a][r] * (k in span) for k, v in enumerate(row)] for r, row in left.items()}
                place(position + 1, {**end, a: span.stop}, rest)

    place(0, {}, {r: list(row.values()) for r, row in data["available"].items()})
    return float(best)


def _scenario(domain: str, project: str, activity: str, activities: str, resources: str, period: str,
              periods: Names) -> Scenario:  # fmt: skip
    told = {"project": project, "activity": activity, "activities": activities, "period": period}
    names = {"activities": code("A"), "resources": words(resources), "periods": periods}
    return Scenario(domain, {**told, "periods": period + "s"}, names)


SCENARIOS = (
    _scenario("construction", "a house extension", "task", "tasks", "masons carpenters painters cranes", "week",
              WEEKS),
    _scenario("software", "the launch of a web shop", "work package", "work packages", "developers testers designers",
              "week", WEEKS),
    _scenario("maintenance", "the overhaul of a turbine", "job", "jobs", "fitters welders hoists", "day", DAYS),
    _scenario("events", "the set-up of a trade fair", "task", "tasks", "electricians riggers forklifts", "hour",
              HOURS),
    _scenario("shipbuilding", "the refit of a ferry", "job", "jobs", "welders painters docks", "day", DAYS),
    _scenario("laboratories", "a drug study", "step", "steps", "chemists technicians analysers", "week", WEEKS),
    _scenario("film", "a film shoot", "scene", "scenes", "cameras drivers stylists", "day", DAYS),
)  # fmt: skip

FAMILY = Family(
    title="Project scheduling with resources that vary over time",
    area="scheduling",
    source="A. A. B. Pritsker, L. J. Watters and P. M. Wolfe, Multiproject scheduling with limited resources, 1969",
    sizes=SIZES,
    sets=(
        IndexSet("activities", "{activity}", "{activities}", "a", "A"),
        IndexSet("resources", "resource", "resources", "r", "R"),
        IndexSet("periods", "{period}", "{periods}, in order of time", "t", "T"),
    ),
    fields=(
        Field("duration", ("activities",), "duration", "{periods}", "d_a", (
            "{activity} {0} takes {value} {periods}", "the duration of {0} is {value} {periods}",
        )),
        Field("before", ("activities",), "predecessors", "", "B_a", (
            "to be finished before {0} begins: {value}", "predecessors of {activity} {0}: {value}",
        ), LABELS),
        Field("need", ("activities", "resources"), "need in each {period} of work", "units", "n_{ar}", (
            ("in each {period} of its work, {activity} {0} occupies", "{value} units of {1}"),
            ("as long as it runs, {0} needs", "{value} units of {1}"),
        )),
        Field("available", ("resources", "periods"), "available units", "units", "c_{rt}", (
            ("of {0} there are", "{value} units in {1}"), ("the units of {0} at hand are", "{value} in {1}"),
        )),
    ),
    contract=Contract(
        variables=(
            Variables("begin", BINARY, "x_{at}", "1 if {activity} $a$ begins at the start of {period} $t$",
                      "{activity} {0} begins in {1}"),
            Variables("completion", CONTINUOUS, "C", "number of {periods} until everything is finished",
                      "everything is finished after {value} {periods}"),
        ),
        sense="minimize",
        goal=("time until everything is finished", "{periods}"),
        objective=(Term("makespan", "C", (
            "What counts is the number of {periods} from the start of the first one listed to the end of the last "
            "{activity}.",
            "The plan is judged by how many {periods}, from the first one listed on, pass until all {activities} are "
            "finished.",
        )),),
        constraints=(
            Clause("once", r"\sum_{t \in T : t + d_a \le |T| + 1} x_{at} = 1", r"a \in A", (
                "Every {activity} is done once, without interruption, and ends within the {periods} listed.",
                "Each {activity} begins once, at the start of a {period}, runs without a break and is over by the end "
                "of the last {period} listed.",
            )),
            Clause("precedence", r"\sum_{t \in T} t x_{at} \ge \sum_{t \in T} t x_{bt} + d_b", r"a \in A,\ b \in B_a", (
                "No {activity} begins before all of its predecessors are finished; it may begin in the {period} right "
                "after.",
                "Each {activity} waits for the end of all its predecessors and can begin with the {period} that "
                "follows.",
            )),
            Clause("available", r"\sum_{a \in A} n_{ar} \sum_{s = t - d_a + 1}^{t} x_{as} \le c_{rt}",
                   r"r \in R,\ t \in T", (
                "At no time may the {activities} under way together occupy more of a resource than there is.",
                "All {activities} that run in a {period} share what there is of each resource in that {period}.",
            )),
            Clause("finish", r"C \ge \sum_{t \in T} t x_{at} + d_a - 1", r"a \in A", (
                "Everything is finished only when every {activity} is.",
                "The end is not before the end of any {activity}.",
            )),
        ),
        integrality=(
            "For each {activity} and {period} it is a yes-or-no decision whether the {activity} begins there; the time "
            "of the end is a number that is not negative.",
            "{activities} begin with whole {periods}, which are yes-or-no decisions; the end is a non-negative number.",
        ),
        fixed=("durations and predecessors", "that no {activity} is interrupted",
               "what there is of each resource in each {period}"),
        mistakes=(
            Mistake("begins in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("successors begin together with their predecessors", "first[b] + duration[b]", "first[b]"),
            Mistake("resources occupied in the first period only", "<= number[t] < number[s] + duration[a]",
                    "== number[t]"),
            Mistake("the end when the last activity begins", "first[a] + duration[a] - 1", "first[a]"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "The {activities} of {project} have to be scheduled.",
        "For {project}, it has to be decided when each of the {activities} begins.",
        "{project} consists of {activities} that share scarce resources.",
    ),
    questions=(
        "When should each {activity} begin so that everything is finished as early as possible?",
        "Find the schedule that ends earliest.",
        "Minimise the number of {periods} until everything is finished.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="step variables (has begun) and disaggregated precedence instead of pulses",
    optimum=optimum,
)  # fmt: skip
