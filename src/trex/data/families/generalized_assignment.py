"""Generalised assignment: give every job to one agent within the agents' capacities, at least cost."""

import itertools
import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import BINARY, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets
from trex.data.scenario import PEOPLE, PLACES, Names, Scenario, code

SIZES = {
    1: {"agents": (2, 3), "jobs": (4, 5)},
    2: {"agents": (3, 4), "jobs": (7, 10)},
    3: {"agents": (5, 6), "jobs": (20, 22)},
    4: {"agents": (6, 7), "jobs": (34, 38)},
}
ENUMERATED = 1000  # assignments that are tried one by one


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: capacities are at least what the jobs of a random assignment need.

    Redrawn until giving every job to its cheapest agent would overload some agent.
    """
    while True:
        sets = draw_sets(rng, SIZES[difficulty])
        agents, jobs = sets["agents"], sets["jobs"]
        need = {a: {j: rng.randint(4, 20) for j in jobs} for a in agents}
        cost = {a: {j: 10 * rng.randint(3, 30) for j in jobs} for a in agents}
        load = dict.fromkeys(agents, 0)
        for j in rng.sample(jobs, len(jobs)):
            a = min(rng.sample(agents, 2), key=lambda a: load[a] + need[a][j])
            load[a] += need[a][j]
        capacity = {a: math.ceil(load[a] * rng.uniform(1.08, 1.3)) for a in agents}
        greedy = dict.fromkeys(agents, 0)
        for j in jobs:
            a = min(agents, key=lambda a: cost[a][j])
            greedy[a] += need[a][j]
        if min(load.values()) and any(greedy[a] > capacity[a] for a in agents):
            return {**sets, "cost": cost, "need": need, "capacity": capacity}


def model(data: dict) -> pyo.ConcreteModel:
    """One binary variable for each agent and job."""
    agents, jobs = data["agents"], data["jobs"]
    m = pyo.ConcreteModel()
    m.assign = pyo.Var(agents, jobs, domain=pyo.Binary)
    m.total = pyo.Expression(expr=sum(data["cost"][a][j] * m.assign[a, j] for a in agents for j in jobs))
    m.objective = pyo.Objective(expr=m.total, sense=pyo.minimize)
    m.every_job = pyo.Constraint(jobs, rule=lambda m, j: sum(m.assign[a, j] for a in agents) == 1)
    m.capacity = pyo.Constraint(
        agents, rule=lambda m, a: sum(data["need"][a][j] * m.assign[a, j] for j in jobs) <= data["capacity"][a]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """With the agents in a row: is a job given to one of the first k? The last of them takes what is left."""
    m = gp.Model("among_the_first")
    jobs, row = data["jobs"], data["agents"]
    among = m.addVars(jobs, row[:-1], vtype=gp.GRB.BINARY, name="among_the_first")
    share = {}
    for job in jobs:
        up_to = [0, *(among[job, agent] for agent in row[:-1]), 1]
        for k, agent in enumerate(row):
            share[job, agent] = up_to[k + 1] - up_to[k]
        for k in range(1, len(row) - 1):
            m.addConstr(up_to[k + 1] >= up_to[k], name=f"order[{job},{k}]")
    for agent in row:
        load = gp.quicksum(data["need"][agent][job] * share[job, agent] for job in jobs)
        m.addConstr(load <= data["capacity"][agent], name=f"load[{agent}]")
    m.setObjective(gp.quicksum(data["cost"][agent][job] * share[job, agent] for job in jobs for agent in row))
    return m


def optimum(data: dict) -> float | None:
    """By trying all assignments, where they are few."""
    agents, jobs = data["agents"], data["jobs"]
    if len(agents) ** len(jobs) > ENUMERATED:
        return None
    costs = []
    for chosen in itertools.product(agents, repeat=len(jobs)):
        pairs = list(zip(chosen, jobs, strict=True))
        loads = {a: sum(data["need"][a][j] for b, j in pairs if b == a) for a in agents}
        if all(loads[a] <= data["capacity"][a] for a in agents):
            costs.append(sum(data["cost"][a][j] for a, j in pairs))
    return float(min(costs))


def _scenario(domain: str, agent: str, agents: str, job: str, jobs: str, resource: str, unit: str, money: str,
              names: Names, letter: str) -> Scenario:  # fmt: skip
    told = {
        "agent": agent, "agents": agents, "job": job, "jobs": jobs, "resource": resource, "unit": unit, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"agents": names, "jobs": code(letter)})


SCENARIOS = (
    _scenario("machining", "machine", "machines", "batch", "batches", "machine time", "hours", "euros", code("M"), "B"),
    _scenario("consulting", "consultant", "consultants", "project", "projects", "working time", "days", "dollars",
              PEOPLE, "P"),
    _scenario("cloud computing", "server", "servers", "web service", "web services", "memory", "gigabytes", "dollars",
              code("S"), "W"),
    _scenario("road haulage", "lorry", "lorries", "consignment", "consignments", "loading space", "pallet places",
              "euros", code("L"), "C"),
    _scenario("laboratories", "laboratory", "laboratories", "test series", "test series", "bench time", "hours",
              "francs", PLACES, "T"),
    _scenario("warehousing", "warehouse", "warehouses", "product line", "product lines", "floor space",
              "square metres", "pounds", PLACES, "P"),
    _scenario("insurance", "claims office", "claims offices", "case file", "case files", "clerk time", "hours",
              "pounds", PLACES, "F"),
    _scenario("printing", "press", "presses", "print job", "print jobs", "press time", "hours", "euros", code("D"),
              "J"),
)  # fmt: skip

FAMILY = Family(
    title="Generalised assignment within capacities",
    area="assignment",
    source="S. Martello and P. Toth, Knapsack Problems: Algorithms and Computer Implementations, 1990",
    sizes=SIZES,
    sets=(
        IndexSet("agents", "{agent}", "{agents}", "a", "A"),
        IndexSet("jobs", "{job}", "{jobs}", "j", "J"),
    ),
    fields=(
        Field("cost", ("agents", "jobs"), "cost", "{money}", "c_{aj}", (
            ("given to {agent} {0},", "{job} {1} costs {value} {money}"),
            ("with {agent} {0} the cost is", "{value} {money} for {job} {1}"),
            ("what {agent} {0} charges is", "{value} {money} for {1}"),
        )),
        Field("need", ("agents", "jobs"), "{resource} needed", "{unit}", "r_{aj}", (
            ("of the {resource} of {agent} {0}, what is needed is", "{value} {unit} for {job} {1}"),
            ("on {agent} {0},", "{job} {1} takes {value} {unit} of {resource}"),
            ("the {resource} used at {agent} {0} would be", "{value} {unit} for {1}"),
        )),
        Field("capacity", ("agents",), "{resource} available", "{unit}", "b_a", (
            "{agent} {0} has {value} {unit} of {resource}", "available at {agent} {0} are {value} {unit} of {resource}",
            "the {resource} of {agent} {0} is limited to {value} {unit}",
        )),
    ),
    contract=Contract(
        variables=(Variables("assign", BINARY, "x_{aj}", "1 if {agent} $a$ gets {job} $j$",
                             "{agent} {0} gets {job} {1}"),),
        sense="minimize",
        goal=("total cost", "{money}"),
        objective=(Term("total", r"\sum_{a \in A} \sum_{j \in J} c_{aj} x_{aj}", (
            "The cost of a {job} is that of the {agent} that it is given to, and costs add up.",
            "What counts is the sum of the costs of all {jobs}, each at the {agent} chosen for it.",
        )),),
        constraints=(
            Clause("every_job", r"\sum_{a \in A} x_{aj} = 1", r"j \in J", (
                "Every {job} has to be given to exactly one {agent}.",
                "No {job} may be left out, and none may be given to more than one {agent}.",
            )),
            Clause("capacity", r"\sum_{j \in J} r_{aj} x_{aj} \le b_a", r"a \in A", (
                "The {jobs} given to one {agent} may together need no more {resource} than there is; any "
                "number of {jobs} is allowed, also none.",
                "Each {agent} can take several {jobs}, or none, as long as its {resource} is enough for all of them.",
            )),
        ),
        integrality=(
            "A {job} cannot be divided: for each {agent} and {job} the decision is yes or no.",
            "Each {job} goes to its {agent} whole; all decisions are yes or no.",
        ),
        fixed=("that every {job} is given to one {agent}", "that a {job}'s need depends on the {agent}",
               "that the need of all {jobs} of an {agent} adds up"),
        mistakes=(
            Mistake("jobs may be left out", "for a in agents) == 1)", "for a in agents) <= 1)"),
            Mistake("jobs divided between agents", "domain=pyo.Binary", "domain=pyo.NonNegativeReals"),
            Mistake("the capacity for each job by itself",
                    "agents, rule=lambda m, a: sum(data[\"need\"][a][j] * m.assign[a, j] for j in jobs)",
                    "agents, jobs, rule=lambda m, a, j: data[\"need\"][a][j] * m.assign[a, j]"),
            Mistake("one job for each agent at most", "data[\"need\"][a][j] * m.assign[a, j] for j in jobs) <= "
                    "data[\"capacity\"][a]", "m.assign[a, j] for j in jobs) <= 1"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "The {jobs} of the coming period are to be shared out among {agents} whose {resource} is limited.",
        "A planner has to decide which of the {agents} takes which {jobs}.",
        "Several {agents} can do the same {jobs}, but at different cost and with different use of {resource}.",
        "All {jobs} on a list have to be placed with {agents}.",
    ),
    questions=(
        "Which {job} should go where so that the total cost is as small as possible?",
        "Find the cheapest way to give all {jobs} to {agents}, and state its cost in {money}.",
        "Minimise the total cost in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="yes or no to one of the first agents of the row, instead of one variable for each agent",
    optimum=optimum,
)  # fmt: skip
