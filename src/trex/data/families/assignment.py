"""Assignment: give every task to a worker of its own so that the total effort is least; not every pair is possible."""

import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_flows
from trex.data.contract import BINARY, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import PEOPLE, Names, Scenario, code

SIZES = {
    1: {"workers": (3, 4), "tasks": (3, 3)},
    2: {"workers": (6, 7), "tasks": (5, 6)},
    3: {"workers": (13, 15), "tasks": (11, 13)},
    4: {"workers": (19, 21), "tasks": (17, 19)},
}
POSSIBLE = 0.85  # share of the pairs


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: the pairs of one random assignment are always possible.

    Redrawn until some worker is the best for two tasks, so that the best for each task would not do.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        workers, tasks = sets["workers"], sets["tasks"]
        step = rng.choice((1, 0.5))
        partner = dict(zip(rng.sample(workers, len(workers)), rng.sample(tasks, len(tasks)), strict=False))
        skill = {w: rng.randint(0, 12) for w in workers}
        effort: dict[str, dict[str, float]] = {w: {} for w in workers}
        for w in workers:
            only = partner.get(w) or rng.choice(tasks)
            for t in tasks:
                if t == only or rng.random() < POSSIBLE:
                    effort[w][t] = nice((rng.randint(12, 48) - skill[w]) * step)
        best = {min((w for w in workers if t in effort[w]), key=lambda w: effort[w][t]) for t in tasks}
        if len(best) < len(tasks):
            return {**sets, "effort": effort}


def model(data: dict) -> pyo.ConcreteModel:
    """One binary variable for each pair that is possible."""
    effort = data["effort"]
    pairs = [(w, t) for w in data["workers"] for t in effort[w]]
    m = pyo.ConcreteModel()
    m.assign = pyo.Var(pairs, domain=pyo.Binary)
    m.total = pyo.Expression(expr=sum(effort[w][t] * m.assign[w, t] for w, t in pairs))
    m.objective = pyo.Objective(expr=m.total, sense=pyo.minimize)
    m.every_task = pyo.Constraint(data["tasks"], rule=lambda m, t: sum(m.assign[w, s] for w, s in pairs if s == t) == 1)
    m.one_at_most = pyo.Constraint(data["workers"], rule=lambda m, w: sum(m.assign[w, t] for t in effort[w]) <= 1)
    return m


def reformulated(data: dict) -> gp.Model:
    """The dual program: what each task may pay and each worker keep. Equal, as the relaxation has whole corners."""
    m = gp.Model("assignment_dual")
    price = m.addVars(data["tasks"], lb=-gp.GRB.INFINITY, name="price")
    rent = m.addVars(data["workers"], name="rent")
    m.setObjective(price.sum() - rent.sum(), gp.GRB.MAXIMIZE)
    for worker, row in data["effort"].items():
        for task, effort in row.items():
            m.addConstr(price[task] <= effort + rent[worker], name=f"pair[{worker},{task}]")
    return m


def optimum(data: dict) -> float | None:
    """By maximum-weight matching in whole numbers."""
    return float(exact_flows.matching(data["effort"], data["tasks"]))


def _scenario(domain: str, worker: str, workers: str, task: str, tasks: str, effort: str, unit: str,
              names: Names, letter: str) -> Scenario:  # fmt: skip
    told = {"worker": worker, "workers": workers, "task": task, "tasks": tasks, "effort": effort, "unit": unit}
    return Scenario(domain, told, {"workers": names, "tasks": code(letter)})


SCENARIOS = (
    _scenario("translation", "translator", "translators", "manuscript", "manuscripts", "working time", "hours",
              PEOPLE, "M"),
    _scenario("home care", "nurse", "nurses", "patient", "patients", "travel time", "minutes", PEOPLE, "P"),
    _scenario("taxi dispatch", "taxi", "taxis", "customer", "customers", "empty run", "kilometres", code("T"), "C"),
    _scenario("machining", "lathe", "lathes", "workpiece", "workpieces", "machining time", "hours", code("L"), "A"),
    _scenario("ports", "berth", "berths", "vessel", "vessels", "handling time", "hours", code("B"), "V"),
    _scenario("software", "developer", "developers", "module", "modules", "development time", "days", PEOPLE, "M"),
    _scenario("sports", "referee", "referees", "match", "matches", "journey", "kilometres", PEOPLE, "G"),
    _scenario("repair service", "technician", "technicians", "call-out", "call-outs", "time on the road", "minutes",
              PEOPLE, "R"),
)  # fmt: skip

FAMILY = Family(
    title="Assignment with pairs that are not possible",
    area="assignment",
    source="H. W. Kuhn, The Hungarian method for the assignment problem, 1955",
    sizes=SIZES,
    sets=(
        IndexSet("workers", "{worker}", "{workers}", "w", "W"),
        IndexSet("tasks", "{task}", "{tasks}", "t", "T"),
    ),
    fields=(
        Field("effort", ("workers", "tasks"), "{effort}, where the pair is possible", "{unit}", "c_{wt}", (
            ("with {worker} {0} the {effort} is", "{value} {unit} for {task} {1}"),
            ("for {worker} {0} the {effort} in {unit} is", "{value} with {task} {1}"),
            ("the {effort} of {worker} {0} comes to", "{value} {unit} for {1}"),
        )),
    ),
    contract=Contract(
        variables=(Variables("assign", BINARY, "x_{wt}", "1 if {worker} $w$ gets {task} $t$",
                             "{worker} {0} gets {task} {1}"),),
        sense="minimize",
        goal=("total {effort}", "{unit}"),
        objective=(Term("total", r"\sum_{(w,t)} c_{wt} x_{wt}", (
            "A {worker} can get a {task} only if a figure for the two is given; the figures of the pairs chosen add "
            "up.",
            "A pair of {worker} and {task} without a figure is not possible; the total is taken over the pairs chosen.",
        )),),
        constraints=(
            Clause("every_task", r"\sum_{w} x_{wt} = 1", r"t \in T", (
                "Every {task} must be given to exactly one {worker}.",
                "No {task} may be left over, and none is shared between {workers}.",
            )),
            Clause("one_at_most", r"\sum_{t} x_{wt} \le 1", r"w \in W", (
                "Each {worker} can get one {task} at most; a {worker} may be left without.",
                "No {worker} gets more than one {task}, and some may get none.",
            )),
        ),
        integrality=(
            "For each possible pair of {worker} and {task} there is a yes-or-no decision.",
            "A {task} goes to a {worker} whole or not at all: all decisions are yes or no.",
        ),
        fixed=("which pairs are possible", "that no {worker} gets more than one {task}", "that every {task} is given"),
        mistakes=(
            Mistake("tasks may be left over", "if s == t) == 1", "if s == t) <= 1"),
            Mistake("every worker must get a task", "for t in effort[w]) <= 1", "for t in effort[w]) == 1"),
            Mistake("tasks in parts", "domain=pyo.Binary", "domain=pyo.NonNegativeReals"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "The {tasks} of a day are to be distributed among {workers}.",
        "A dispatcher decides which of the {workers} gets which {task}.",
        "Several {tasks} are waiting, and the {workers} suit them differently.",
        "For a list of {tasks}, {workers} have to be named.",
    ),
    questions=(
        "Who gets which {task} so that the total {effort} is as small as possible?",
        "Find the assignment with the least total {effort}, and state it in {unit}.",
        "Minimise the total {effort}, in {unit}, of giving all {tasks} to {workers}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the dual linear program",
    optimum=optimum,
)  # fmt: skip
