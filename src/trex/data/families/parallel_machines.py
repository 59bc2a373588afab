"""Unrelated parallel machines: give every job to a machine so that the last machine is free as early as possible.

Machines differ in which jobs they can do and how long they take, are free from different times on, and take a limited
number of jobs each.
"""

import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_scheduling
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets
from trex.data.scenario import Scenario, code, words

SIZES = {
    1: {"jobs": (4, 5), "machines": (2, 2)},
    2: {"jobs": (8, 10), "machines": (3, 3)},
    3: {"jobs": (29, 32), "machines": (4, 4)},
    4: {"jobs": (46, 50), "machines": (5, 5)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: a random plan gives each job to a machine that can do it, and its counts fit the slots.

    About one pair in eight does not exist; every job has two machines at least. The free slots are few, so that some
    machine cannot have all the jobs that it would be best for.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    jobs, machines = sets["jobs"], sets["machines"]
    time: dict[str, dict[str, int]] = {}
    plan = []
    for j in jobs:
        size = rng.randint(4, 15)
        able = [i for i in machines if rng.random() < 0.85]
        able = able if len(able) >= 2 else machines
        time[j] = {i: max(2, round(size * rng.uniform(0.6, 1.5))) for i in able}
        plan.append(rng.choice(able))
    spare = rng.choice(machines)
    return {
        **sets, "time": time, "ready": {i: rng.randint(1, 6) for i in machines},
        "slots": {i: max(1, plan.count(i)) + (1 if i == spare else 0) for i in machines},
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Assignment of jobs to machines as a mixed-integer linear program."""
    jobs, machines, time = data["jobs"], data["machines"], data["time"]
    pairs = [(j, i) for j in jobs for i in machines if i in time[j]]
    m = pyo.ConcreteModel()
    m.assign = pyo.Var(pairs, domain=pyo.Binary)
    m.completion = pyo.Var(domain=pyo.NonNegativeReals)
    m.makespan = pyo.Expression(expr=m.completion)
    m.objective = pyo.Objective(expr=m.makespan, sense=pyo.minimize)
    m.once = pyo.Constraint(jobs, rule=lambda m, j: sum(m.assign[j, i] for i in machines if i in time[j]) == 1)
    m.busy = pyo.Constraint(
        machines,
        rule=lambda m, i: (
            m.completion >= data["ready"][i] + sum(time[j][i] * m.assign[j, i] for j in jobs if i in time[j])
        ),
    )
    m.slots = pyo.Constraint(
        machines, rule=lambda m, i: sum(m.assign[j, i] for j in jobs if i in time[j]) <= data["slots"][i]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """All jobs start on their fastest machine; what is decided is which of them move to another one."""
    fast = {j: min(row, key=row.get) for j, row in data["time"].items()}
    m = gp.Model("moves")
    move = m.addVars([(j, i) for j, row in data["time"].items() for i in row if i != fast[j]], vtype="B", name="move")
    last = m.addVar(name="last")
    m.setObjective(last, gp.GRB.MINIMIZE)
    m.addConstrs((move.sum(j, "*") <= 1 for j in data["jobs"]), name="at_most_one_move")
    for i in data["machines"]:
        at_home = [j for j in data["jobs"] if fast[j] == i]
        arrive = [j for j, k in move if k == i]
        busy = data["ready"][i] + gp.quicksum(data["time"][j][i] * (1 - move.sum(j, "*")) for j in at_home)
        m.addConstr(busy + gp.quicksum(data["time"][j][i] * move[j, i] for j in arrive) <= last, f"free[{i}]")
        leave = gp.quicksum(move.sum(j, "*") for j in at_home)
        m.addConstr(move.sum("*", i) - leave <= data["slots"][i] - len(at_home), f"room[{i}]")
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over the machines' loads; for few machines and jobs only."""
    if len(data["machines"]) > 3 or len(data["jobs"]) > 12:
        return None
    times = [[data["time"][j].get(i) for i in data["machines"]] for j in data["jobs"]]
    ready, slots = ([data[key][i] for i in data["machines"]] for key in ("ready", "slots"))
    return float(exact_scheduling.parallel_machines(times, ready, slots))


def _scenario(domain: str, place: str, job: str, jobs: str, letter: str, machine: str, machines: str, unit: str,
              names: str) -> Scenario:  # fmt: skip
    told = {"place": place, "job": job, "jobs": jobs, "machine": machine, "machines": machines, "unit": unit}
    return Scenario(domain, told, {"jobs": code(letter), "machines": words(names, "M")})


SCENARIOS = (
    _scenario("printing", "a printing house", "print job", "print jobs", "P", "press", "presses", "minutes",
              "Falcon Heron Kestrel Osprey Merlin Condor"),
    _scenario("computing", "a computing centre", "batch job", "batch jobs", "B", "server", "servers", "minutes",
              "Alpha Bravo Delta Echo Foxtrot Sierra"),
    _scenario("metalworking", "a machine shop", "part order", "part orders", "O", "lathe", "lathes", "hours",
              "North South East West Centre Annex"),
    _scenario("laboratories", "a testing laboratory", "sample series", "sample series", "T", "spectrometer",
              "spectrometers",
              "minutes", "Curie Hahn Nobel Planck Bohr Fermi"),
    _scenario("textiles", "a dyeing works", "dye lot", "dye lots", "L", "vat", "vats", "hours",
              "Amber Crimson Indigo Jade Ochre Violet"),
    _scenario("crafts", "a furniture restorer", "restoration", "restorations", "R", "workbench", "workbenches",
              "hours", "Oak Beech Walnut Cherry Maple Ash"),
    _scenario("ports", "an inland port", "barge", "barges", "V", "crane", "cranes", "hours",
              "Atlas Titan Hercules Samson Goliath Ajax"),
    _scenario("surveying", "a surveying office", "survey flight", "survey flights", "F", "drone", "drones",
              "minutes", "Wasp Hornet Dragonfly Swift Lark Finch"),
)  # fmt: skip

FAMILY = Family(
    title="Unrelated parallel machines with ready times and slots",
    area="scheduling",
    source="M. L. Pinedo, Scheduling: Theory, Algorithms, and Systems, 2016",
    sizes=SIZES,
    sets=(
        IndexSet("jobs", "{job}", "{jobs}", "j", "J"),
        IndexSet("machines", "{machine}", "{machines}", "i", "I"),
    ),
    fields=(
        Field("time", ("jobs", "machines"), "working time", "{unit}", "p_{ji}", (
            ("{job} {0} takes", "{value} {unit} on {machine} {1}"), ("for {0} one needs", "{value} {unit} on {1}"),
            ("the {unit} that {0} occupies a {machine} are", "{value} on {1}"),
        )),
        Field("ready", ("machines",), "free from", "{unit} after the start", "r_i", (
            "{machine} {0} is still occupied and becomes free {value} {unit} after the start",
            "{0} is free from {value} {unit} after the start on",
            "work on {machine} {0} can begin {value} {unit} after the start",
        )),
        Field("slots", ("machines",), "most {jobs} on the {machine}", "{jobs}", "n_i", (
            "at most {value} of the {jobs} may go to {machine} {0}", "{0} can be given no more than {value} {jobs}",
            "for {0}, the largest number of {jobs} is {value}",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("assign", BINARY, "x_{ji}", "1 if {job} $j$ goes to {machine} $i$", "{job} {0} goes to {1}"),
            Variables("completion", CONTINUOUS, "C", "time at which the last {machine} is free, in {unit}",
                      "the last {machine} is free after {value} {unit}"),
        ),
        sense="minimize",
        goal=("time until all {machines} are free", "{unit}"),
        objective=(Term("makespan", "C", (
            "What counts is the time from the start until the last {machine} is free.",
            "The plan is judged by the moment at which the last of the {machines} becomes free, counted from the "
            "start.",
        )),),
        constraints=(
            Clause("once", r"\sum_{i \in I : p_{ji}\ \text{given}} x_{ji} = 1", r"j \in J", (
                "Every {job} has to be done on exactly one {machine}; where no time is given for a {job} and a "
                "{machine}, that {machine} cannot do it.",
                "Each {job} goes to exactly one of the {machines} for which a time is given; the others cannot do it.",
            )),
            Clause("busy", r"C \ge r_i + \sum_{j \in J : p_{ji}\ \text{given}} p_{ji} x_{ji}", r"i \in I", (
                "A {machine} does its {jobs} one after the other without a pause, beginning when it becomes free; one "
                "without any of the {jobs} is free from that same moment.",
                "On a {machine} only one of the {jobs} is done at a time, without gaps and not before the {machine} "
                "becomes free; a {machine} that gets nothing to do also has to become free before the plan ends.",
            )),
            Clause("slots", r"\sum_{j \in J : p_{ji}\ \text{given}} x_{ji} \le n_i", r"i \in I", (
                "No {machine} may be given more {jobs} than its largest number.",
                "The number of {jobs} on each {machine} is limited, whatever their length.",
            )),
        ),
        integrality=(
            "Whether a {job} goes to a {machine} is a yes-or-no decision, for no {job} can be split; the time at the "
            "end may be any non-negative number of {unit}.",
            "The {jobs} cannot be divided among {machines}: each assignment is yes or no, while times are continuous.",
        ),
        fixed=("which {machines} can do which {jobs}", "that no {job} is split",
               "that a {machine} cannot begin before it is free"),
        mistakes=(
            Mistake("jobs in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("machines free from the start", 'data["ready"][i] + sum', "sum"),
            Mistake("the average instead of the largest load", "m.completion >=",
                    "len(machines) * m.completion >="),
            Mistake("slots for all machines together",
                    'sum(m.assign[j, i] for j in jobs if i in time[j]) <= data["slots"][i]',
                    'sum(m.assign[p] for p in pairs) <= sum(data["slots"].values())'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "The {jobs} of the day at {place} have to be divided among the {machines}, which differ in speed.",
        "At {place} several {machines} are to share a list of {jobs}.",
        "{place} plans which {machine} does which of the waiting {jobs}.",
    ),
    questions=(
        "Which {job} should go to which {machine} so that the last {machine} is free as early as possible?",
        "Find the assignment of {jobs} to {machines} that is finished earliest, and state the time in {unit}.",
        "Minimise the time until all {machines} are free.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="moves away from each job's fastest machine instead of assignments",
    optimum=optimum,
)  # fmt: skip
