"""Job shop: jobs pass through machines, each in its own order, between a release and a deadline; finish early.

Starting times are continuous; which of two jobs is first on a machine is yes-or-no (Manne's disjunctive model).
"""

import itertools
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_scheduling
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABELS, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import Scenario, code, words

SIZES = {
    1: {"jobs": (2, 3), "machines": (2, 2)},
    2: {"jobs": (4, 4), "machines": (3, 3)},
    3: {"jobs": (7, 8), "machines": (4, 4)},
    4: {"jobs": (9, 9), "machines": (5, 5)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: deadlines are at or shortly after the ends of a schedule that was dispatched at random.

    With more than two machines some jobs leave one out.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    jobs, machines = sets["jobs"], sets["machines"]
    route = {}
    for j in jobs:
        fewest = len(machines) if len(machines) == 2 or rng.random() < 0.7 else len(machines) - 1
        route[j] = rng.sample(machines, fewest)
    duration = {j: {i: rng.randint(2, 8) for i in machines if i in route[j]} for j in jobs}
    release = {j: rng.randint(0, (2 if difficulty <= 2 else 5) * len(jobs)) for j in jobs}
    free, end = dict.fromkeys(machines, 0), dict(release)
    waiting = {j: list(route[j]) for j in jobs}
    while any(waiting.values()):
        able = {j: max(end[j], free[steps[0]]) for j, steps in waiting.items() if steps}
        j = rng.choice([j for j, start in able.items() if start <= min(able.values()) + 1])
        machine = waiting[j].pop(0)
        end[j] = free[machine] = able[j] + duration[j][machine]
    deadline = {j: end[j] + rng.randint(0, 2) for j in jobs}
    return {**sets, "route": route, "duration": duration, "release": release, "deadline": deadline}


def model(data: dict) -> pyo.ConcreteModel:
    """Starting times and the order of jobs on machines, with big M from releases and the last deadline."""
    route, duration = data["route"], data["duration"]
    steps = [(j, i) for j, machines in route.items() for i in machines]
    links = [(j, a, b) for j, machines in route.items() for a, b in itertools.pairwise(machines)]
    pairs = [(j, k, i) for j, k in itertools.combinations(data["jobs"], 2) for i in route[j] if i in route[k]]
    earliest = {
        (j, i): data["release"][j] + sum(duration[j][a] for a in route[j][: route[j].index(i)]) for j, i in steps
    }
    horizon = max(data["deadline"].values())
    latest = {(j, i): horizon - sum(duration[j][a] for a in route[j][route[j].index(i) + 1 :]) for j, i in steps}
    m = pyo.ConcreteModel()
    m.start = pyo.Var(steps, domain=pyo.NonNegativeReals)
    m.first = pyo.Var(pairs, domain=pyo.Binary)
    m.completion = pyo.Var(domain=pyo.NonNegativeReals)
    m.makespan = pyo.Expression(expr=m.completion)
    m.objective = pyo.Objective(expr=m.makespan, sense=pyo.minimize)
    m.release = pyo.Constraint(data["jobs"], rule=lambda m, j: m.start[j, route[j][0]] >= data["release"][j])
    m.order = pyo.Constraint(links, rule=lambda m, j, a, b: m.start[j, b] >= m.start[j, a] + duration[j][a])
    m.deadline = pyo.Constraint(
        data["jobs"],
        rule=lambda m, j: m.start[j, route[j][-1]] + duration[j][route[j][-1]] <= data["deadline"][j],
    )
    m.wait = pyo.Constraint(
        pairs,
        rule=lambda m, j, k, i: (
            m.start[k, i]
            >= m.start[j, i] + duration[j][i] - max(0, latest[j, i] - earliest[k, i]) * (1 - m.first[j, k, i])
        ),
    )
    m.wait_other = pyo.Constraint(
        pairs,
        rule=lambda m, j, k, i: (
            m.start[j, i] >= m.start[k, i] + duration[k][i] - max(0, latest[k, i] - earliest[j, i]) * m.first[j, k, i]
        ),
    )
    m.finish = pyo.Constraint(
        data["jobs"], rule=lambda m, j: m.completion >= m.start[j, route[j][-1]] + duration[j][route[j][-1]]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """Time-indexed: a yes-or-no variable for every step and every whole time at which it could begin."""
    m = gp.Model("time_indexed")
    begin, goal = {}, m.addVar(name="goal")
    m.setObjective(goal, gp.GRB.MINIMIZE)
    for j in data["jobs"]:
        todo, clock, previous = sum(data["duration"][j].values()), data["release"][j], None
        for i in data["route"][j]:
            length = data["duration"][j][i]
            times = range(clock, data["deadline"][j] - todo + 1)
            begin[j, i] = m.addVars(times, vtype=gp.GRB.BINARY, name=f"begin[{j},{i}]")
            m.addConstr(begin[j, i].sum() == 1, name=f"once[{j},{i}]")
            if previous is not None:  # what has begun by t has its predecessor begun so much earlier
                before, lag = previous
                for t in times:
                    done = gp.quicksum(before[s] for s in before if s <= t - lag)
                    m.addConstr(gp.quicksum(begin[j, i][s] for s in times if s <= t) <= done, f"after[{j},{i},{t}]")
            previous, clock, todo = (begin[j, i], length), clock + length, todo - length
        m.addConstr(gp.quicksum((t + length) * begin[j, i][t] for t in times) <= goal, name=f"goal[{j}]")
    for i in data["machines"]:
        for t in range(max(data["deadline"].values())):
            running = [
                begin[j, i][s]
                for j in data["jobs"]
                if (j, i) in begin
                for s in begin[j, i]
                if s <= t < s + data["duration"][j][i]
            ]
            if len(running) > 1:
                m.addConstr(gp.quicksum(running) <= 1, name=f"one[{i},{t}]")
    return m


def optimum(data: dict) -> float | None:
    """By enumeration of active schedules; for few jobs only."""
    if len(data["jobs"]) > 5:
        return None
    jobs = data["jobs"]
    routes = [[(i, data["duration"][j][i]) for i in data["route"][j]] for j in jobs]
    release, deadline = ([data[key][j] for j in jobs] for key in ("release", "deadline"))
    return float(exact_scheduling.job_shop(routes, release, deadline))


def _scenario(domain: str, place: str, job: str, jobs: str, letter: str, machine: str, machines: str, unit: str,
              names: str) -> Scenario:  # fmt: skip
    told = {"place": place, "job": job, "jobs": jobs, "machine": machine, "machines": machines, "unit": unit}
    return Scenario(domain, told, {"jobs": code(letter), "machines": words(names, "M")})


SCENARIOS = (
    _scenario("metalworking", "a machine shop", "workpiece", "workpieces", "W", "machine", "machines", "hours",
              "lathe mill drill grinder polisher press saw"),
    _scenario("printing", "a printing house", "print job", "print jobs", "P", "station", "stations", "hours",
              "cutter folder binder laminator stitcher puncher"),
    _scenario("vehicle repair", "a garage", "car", "cars", "C", "bay", "bays", "half-hours",
              "lift body-shop paint-booth alignment electrics tyre-bench"),
    _scenario("health", "an outpatient clinic", "patient", "patients", "P", "room", "rooms", "five-minute slots",
              "x-ray ultrasound laboratory consultation ecg treatment"),
    _scenario("laboratories", "a materials laboratory", "specimen", "specimens", "S", "device", "devices", "minutes",
              "furnace microscope balance centrifuge spectrometer shaker"),
    _scenario("furniture", "a joinery", "piece", "pieces", "J", "workplace", "workplaces", "hours",
              "sawing planing gluing sanding varnishing assembly"),
    _scenario("textiles", "a finishing mill", "batch", "batches", "B", "line", "lines", "hours",
              "bleaching dyeing rinsing drying pressing cutting"),
)  # fmt: skip

FAMILY = Family(
    title="Job shop with releases and deadlines",
    area="scheduling",
    source="A. S. Manne, On the job-shop scheduling problem, 1960",
    sizes=SIZES,
    sets=(
        IndexSet("jobs", "{job}", "{jobs}", "j", "J"),
        IndexSet("machines", "{machine}", "{machines}", "i", "I"),
    ),
    fields=(
        Field("route", ("jobs",), "order of {machines}", "", "R_j", (
            "{job} {0} passes through, in this order: {value}",
            "the {machines} of {0} are, one after the other, {value}",
            "{0} visits in turn {value}",
        ), LABELS),
        Field("duration", ("jobs", "machines"), "duration", "{unit}", "p_{ji}", (
            ("{job} {0} occupies", "{1} for {value} {unit}"), ("for {0} the work takes", "{value} {unit} at {1}"),
            ("the {unit} needed by {0} are", "{value} at {1}"),
        )),
        Field("release", ("jobs",), "earliest start", "{unit} after opening", "r_j", (
            "{0} is there {value} {unit} after opening", "{job} {0} cannot start before {value} {unit} after opening",
            "work on {0} may begin {value} {unit} after opening",
        )),
        Field("deadline", ("jobs",), "latest end", "{unit} after opening", "d_j", (
            "{0} has to be finished {value} {unit} after opening at the latest",
            "the deadline of {job} {0} is {value} {unit} after opening",
            "for {0}, all work must have ended by {value} {unit} after opening",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("start", CONTINUOUS, "s_{ji}", "start of {job} $j$ on {machine} $i$, in {unit} after opening",
                      "{0} starts on {1} at {value} {unit}"),
            Variables("first", BINARY, "y_{jki}", "1 if {job} $j$ is before {job} $k$ on {machine} $i$"),
            Variables("completion", CONTINUOUS, "C", "end of the last {job}, in {unit} after opening",
                      "the last {job} ends at {value} {unit}"),
        ),
        sense="minimize",
        goal=("time from opening until everything is finished", "{unit}"),
        objective=(Term("makespan", "C", (
            "The plan is judged by the time from opening until the last {job} is finished.",
            "What counts is when the last of the {jobs} leaves its last {machine}, counted from opening.",
        )),),
        constraints=(
            Clause("release", r"s_{j,\mathrm{first}(R_j)} \ge r_j", r"j \in J", (
                "No {job} starts before its earliest start.", "A {job} cannot begin before its earliest start.",
            )),
            Clause("order", r"s_{jb} \ge s_{ja} + p_{ja}", r"j \in J,\ b\ \text{follows}\ a\ \text{in}\ R_j", (
                "Every {job} passes through its {machines} in the stated order, and is finished on one before it "
                "starts on the next; it may wait in between.",
                "The order in which a {job} visits its {machines} is fixed; it leaves one before the next begins, and "
                "pauses between them are allowed.",
            )),
            Clause("deadline", r"s_{j,\mathrm{last}(R_j)} + p_{j,\mathrm{last}(R_j)} \le d_j", r"j \in J", (
                "Every {job} must be finished by its latest end.", "All deadlines have to be kept.",
            )),
            Clause("wait", r"s_{ki} \ge s_{ji} + p_{ji} - M_{jki} (1 - y_{jki})",
                   r"j < k \in J,\ i \in R_j \cap R_k,\ M\ \text{large enough}", (
                "A {machine} works on one {job} at a time.", "No {machine} can take two {jobs} at the same time.",
            )),
            Clause("wait_other", r"s_{ji} \ge s_{ki} + p_{ki} - M_{kji} y_{jki}",
                   r"j < k \in J,\ i \in R_j \cap R_k,\ M\ \text{large enough}", (
                "Work that has begun on a {machine} is not interrupted: of two {jobs} that need the same {machine}, "
                "the later one waits until the other is done there.",
                "Of two {jobs} that need the same {machine}, one is completed there, without interruption, before the "
                "other begins; which one is open.",
            )),
            Clause("finish", r"C \ge s_{j,\mathrm{last}(R_j)} + p_{j,\mathrm{last}(R_j)}", r"j \in J", (
                "Everything is finished only when every {job} has ended on its last {machine}.",
                "The end of the plan is not before the end of any {job}.",
            )),
        ),
        integrality=(
            "Starting times are continuous and not negative; which of two {jobs} is first on a {machine} is a "
            "yes-or-no decision.",
            "Times may be any non-negative numbers of {unit}, while the order of two {jobs} on a {machine} is a matter "
            "of yes or no.",
        ),
        fixed=("the order in which each {job} visits its {machines}", "that no work is interrupted",
               "releases and deadlines"),
        mistakes=(
            Mistake("the next step starts with the previous one", "m.start[j, a] + duration[j][a]", "m.start[j, a]"),
            Mistake("the order on machines in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("deadlines for the start of the last step",
                    "m.start[j, route[j][-1]] + duration[j][route[j][-1]] <=", "m.start[j, route[j][-1]] <="),
            Mistake("the sense of the order variable mixed up", "(1 - m.first[j, k, i])", "m.first[j, k, i]"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "At {place}, several {jobs} have to pass through the same {machines}, each in an order of its own.",
        "{place} draws up a timetable of its {jobs} on the {machines}.",
        "The {jobs} waiting at {place} need different {machines} in different orders.",
    ),
    questions=(
        "When should each {job} start on each {machine} so that everything is finished as early as possible?",
        "Find the timetable that ends earliest, and state its end in {unit} after opening.",
        "Minimise the time from opening until the last {job} is finished.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="time-indexed instead of disjunctive",
    optimum=optimum,
)  # fmt: skip
