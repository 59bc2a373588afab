"""Permutation flow shop: all jobs pass through the machines in the same order and never overtake each other.

Jobs take positions of a sequence; positions have starting times on every machine (Wilson's model).
"""

import itertools
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_scheduling
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets
from trex.data.scenario import Names, Scenario, code

SIZES = {
    1: {"jobs": (2, 3), "machines": (2, 2)},
    2: {"jobs": (4, 4), "machines": (3, 3)},
    3: {"jobs": (7, 8), "machines": (3, 3)},
    4: {"jobs": (9, 9), "machines": (3, 3)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Every sequence is feasible. One machine is slower than the others; later machines become free later."""
    sets = draw_sets(rng, SIZES[difficulty])
    jobs, machines = sets["jobs"], sets["machines"]
    heavy = rng.choice(machines)
    time = {j: {i: rng.randint(2, 9) + (2 if i == heavy else 0) for i in machines} for j in jobs}
    return {**sets, "time": time, "free": {i: rng.randint(1, 4) + 3 * k for k, i in enumerate(machines)}}


def model(data: dict) -> pyo.ConcreteModel:
    """Positions of the jobs, and starting times of the positions on the machines."""
    jobs, machines, time = data["jobs"], data["machines"], data["time"]
    places = [k + 1 for k, _ in enumerate(jobs)]
    m = pyo.ConcreteModel()
    m.at = pyo.Var(jobs, places, domain=pyo.Binary)
    length = {(k, i): sum(time[j][i] * m.at[j, k] for j in jobs) for k in places for i in machines}
    m.start = pyo.Var(places, machines, domain=pyo.NonNegativeReals)
    m.completion = pyo.Var(places, domain=pyo.NonNegativeReals)
    m.flow_time = pyo.Expression(expr=sum(m.completion[k] for k in places))
    m.objective = pyo.Objective(expr=m.flow_time, sense=pyo.minimize)
    m.one_place = pyo.Constraint(jobs, rule=lambda m, j: sum(m.at[j, k] for k in places) == 1)
    m.one_job = pyo.Constraint(places, rule=lambda m, k: sum(m.at[j, k] for j in jobs) == 1)
    m.free = pyo.Constraint(machines, rule=lambda m, i: m.start[places[0], i] >= data["free"][i])
    m.in_turn = pyo.Constraint(
        list(itertools.pairwise(places)),
        machines,
        rule=lambda m, k, n, i: m.start[n, i] >= m.start[k, i] + length[k, i],
    )
    m.route = pyo.Constraint(
        places,
        list(itertools.pairwise(machines)),
        rule=lambda m, k, a, b: m.start[k, b] >= m.start[k, a] + length[k, a],
    )
    m.finish = pyo.Constraint(
        places, rule=lambda m, k: m.completion[k] >= m.start[k, machines[-1]] + length[k, machines[-1]]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """Ends alone: that of a position is not before the length of any path of work through positions and machines."""
    jobs, machines = data["jobs"], data["machines"]
    count = len(jobs)
    m = gp.Model("critical_paths")
    slot = m.addVars(count, jobs, vtype=gp.GRB.BINARY, name="slot")
    done = m.addVars(count, name="done")
    m.setObjective(done.sum(), gp.GRB.MINIMIZE)
    m.addConstrs((slot.sum("*", j) == 1 for j in jobs), name="job")
    m.addConstrs((slot.sum(p, "*") == 1 for p in range(count)), name="position")
    starts = range(len(machines))  # a path begins when this machine is free, at the first position
    for last, first in itertools.product(range(count), starts):
        used = machines[first:]
        for turns in itertools.combinations_with_replacement(range(last + 1), len(used) - 1):
            bends = [0, *turns, last]  # positions at which the path comes to a machine and leaves it
            path = gp.quicksum(
                data["time"][j][i] * slot[p, j]
                for n, i in enumerate(used)
                for p in range(bends[n], bends[n + 1] + 1)
                for j in jobs
            )
            m.addConstr(done[last] >= data["free"][used[0]] + path)
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over the sets of jobs done; for few jobs only."""
    if len(data["jobs"]) > 8:
        return None
    times = [[data["time"][j][i] for i in data["machines"]] for j in data["jobs"]]
    return float(exact_scheduling.flow_shop(times, [data["free"][i] for i in data["machines"]]))


def _scenario(domain: str, place: str, job: str, jobs: str, letter: str, machine: str, machines: str, unit: str,
              names: str) -> Scenario:  # fmt: skip
    told = {"place": place, "job": job, "jobs": jobs, "machine": machine, "machines": machines, "unit": unit}
    return Scenario(domain, told, {"jobs": code(letter), "machines": Names(tuple(names.split()), "M", "first")})


SCENARIOS = (
    _scenario("paints", "a paint factory", "batch", "batches", "B", "station", "stations", "minutes",
              "mixing milling tinting filling sealing"),
    _scenario("furniture", "a furniture factory", "lot", "lots", "L", "station", "stations", "minutes",
              "cutting drilling edging painting packing"),
    _scenario("printing", "a book printer", "title", "titles", "T", "department", "departments", "hours",
              "printing folding stitching trimming wrapping"),
    _scenario("laundries", "an industrial laundry", "load", "loads", "L", "machine", "machines", "minutes",
              "washer extractor dryer ironer folder"),
    _scenario("food", "a bakery", "dough", "doughs", "D", "station", "stations", "minutes",
              "kneading proofing baking cooling slicing"),
    _scenario("electronics", "a board assembler", "series", "series", "S", "line", "lines", "minutes",
              "paste placement reflow inspection coating"),
    _scenario("health", "a check-up centre", "visitor", "visitors", "V", "room", "rooms", "minutes",
              "blood-test x-ray eye-test interview cardiogram"),
)  # fmt: skip

FAMILY = Family(
    title="Permutation flow shop, total completion time",
    area="scheduling",
    source="M. L. Pinedo, Scheduling: Theory, Algorithms, and Systems, 2016",
    sizes=SIZES,
    sets=(
        IndexSet("jobs", "{job}", "{jobs}", "j", "J"),
        IndexSet("machines", "{machine}", "{machines}, in the order in which they are passed", "i", "I"),
    ),
    fields=(
        Field("time", ("jobs", "machines"), "working time", "{unit}", "p_{ji}", (
            ("{job} {0} takes, in the order of the {machines},", "{value} {unit} at {1}"),
            ("the way of {0} is, one after the other,", "{value} {unit} at {1}"),
            ("the {unit} that {0} needs on its way are in turn", "{value} at {1}"),
        )),
        Field("free", ("machines",), "free from", "{unit} after the start", "f_i", (
            "{0} is free from {value} {unit} after the start on",
            "the {machine} {0} cannot be used before {value} {unit} after the start",
            "earlier work keeps {0} occupied until {value} {unit} after the start",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("at", BINARY, "x_{jk}", "1 if {job} $j$ is at position $k$ of the sequence",
                      "{job} {0} is number {1} of the sequence"),
            Variables("start", CONTINUOUS, "s_{ki}", "start of position $k$ at {machine} $i$, in {unit} from the start",
                      "number {0} of the sequence starts at {1} after {value} {unit}"),
            Variables("completion", CONTINUOUS, "C_k", "end of position $k$ at the last {machine}, in {unit}",
                      "number {0} of the sequence is finished after {value} {unit}"),
        ),
        sense="minimize",
        goal=("sum of the times at which the {jobs} are finished", "{unit}"),
        objective=(Term("flow_time", r"\sum_{k = 1}^{|J|} C_k", (
            "For each {job}, the time from the start until it is finished counts, and these times are added up.",
            "The plan is judged by the sum, over all {jobs}, of the time from the start until the {job} is finished.",
        )),),
        constraints=(
            Clause("one_place", r"\sum_{k = 1}^{|J|} x_{jk} = 1", r"j \in J", (
                "Every {job} has exactly one place in the sequence.", "Each {job} is done exactly once.",
            )),
            Clause("one_job", r"\sum_{j \in J} x_{jk} = 1", r"k = 1, \dots, |J|", (
                "There is one sequence of the {jobs}, the same at all {machines}: no {job} may overtake another.",
                "The {jobs} keep one and the same sequence at every {machine}, so that none overtakes another.",
            )),
            Clause("free", r"s_{1i} \ge f_i", r"i \in I", (
                "No {machine} can be used before it is free.", "Work at a {machine} begins when it is free or later.",
            )),
            Clause("in_turn", r"s_{k+1,i} \ge s_{ki} + \sum_{j \in J} p_{ji} x_{jk}", r"k < |J|,\ i \in I", (
                "At each {machine} only one {job} is worked on at a time, without interruption.",
                "A {machine} takes the next {job} only after the one before is done there; work is not interrupted.",
            )),
            Clause("route", r"s_{k,i+1} \ge s_{ki} + \sum_{j \in J} p_{ji} x_{jk}", r"k = 1, \dots, |J|,\ i < |I|", (
                "All {jobs} pass through the {machines} in the order in which these are listed; a {job} may wait "
                "between two {machines}.",
                "Every {job} visits the {machines} in the order listed, is finished at one before it begins at the "
                "next, and may wait in between.",
            )),
            Clause("finish", r"C_k \ge s_{k,|I|} + \sum_{j \in J} p_{j,|I|} x_{jk}", r"k = 1, \dots, |J|", (
                "A {job} is finished when it is done at the last {machine}.",
                "The end of a {job} is the moment at which its work at the last {machine} is done.",
            )),
        ),
        integrality=(
            "Whether a {job} has a certain place in the sequence is a yes-or-no decision; starting times may be any "
            "non-negative numbers of {unit}.",
            "Places in the sequence are yes-or-no decisions, times are continuous and not negative.",
        ),
        fixed=("the order of the {machines}", "that the sequence is the same at all {machines}",
               "that no work is interrupted"),
        mistakes=(
            Mistake("a job on all machines at once", "m.start[k, a] + length[k, a]", "m.start[k, a]"),
            Mistake("several jobs at a time", "m.start[k, i] + length[k, i]", "m.start[k, i]"),
            Mistake("jobs in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("ends when the last machine begins", " + length[k, machines[-1]]", ""),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "At {place} all {jobs} pass through the same {machines}.",
        "{place} has to decide in which sequence its {jobs} go through the {machines}.",
        "Several {jobs} are waiting at {place}; each of them goes through all {machines}.",
    ),
    questions=(
        "In which sequence should the {jobs} be done so that the sum of the times at which they are finished is least?",
        "Find the sequence of the {jobs} and the starting times for which the {jobs} are finished earliest on average.",
        "Minimise the sum of the times, in {unit}, at which the {jobs} are finished.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the lengths of all critical paths instead of starting times",
    optimum=optimum,
)  # fmt: skip
