"""Nurse rostering: nurses, days and shifts; cover every shift, keep rests and contracts, respect wishes.

Each nurse works at most one shift a day; some shifts must not follow others on the next day.
"""

import itertools
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_scheduling
from trex.data.contract import BINARY, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABELS, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import PEOPLE, WEEKDAYS, Names, Scenario

SIZES = {
    1: {"nurses": (3, 3), "days": (2, 2), "shifts": (2, 2)},
    2: {"nurses": (4, 4), "days": (3, 5), "shifts": (2, 2)},
    3: {"nurses": (6, 7), "days": (6, 7), "shifts": (3, 3)},
    4: {"nurses": (10, 12), "days": (7, 7), "shifts": (3, 3)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: demand, contracts and forbidden sequences fit a roster that was drawn at random.

    In that roster nobody works a shift that must not follow the one of the day before.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    nurses, days, shifts = sets["nurses"], sets["days"], sets["shifts"]
    forbidden = {
        s: [e for k, e in enumerate(shifts) if k < n] for n, s in enumerate(shifts)
    }  # earlier than the day before
    forbidden[shifts[1]] = [shifts[0]] if len(shifts) == 2 or rng.random() < 0.5 else []
    roster: dict[tuple[str, str], str] = {}
    for n in nurses:
        before = None
        for d in days:
            able = [s for s in shifts if before is None or s not in forbidden[before]]
            before = rng.choice(able) if rng.random() < 0.7 else None
            if before is not None:
                roster[n, d] = before
    worked = {n: sum((n, d) in roster for d in days) for n in nurses}
    wishes = {n: {d: rng.randint(2, 20) for d in days if rng.random() < 0.6} for n in nurses}
    return {
        **sets, "forbidden": forbidden,
        "demand": {d: {s: sum(roster.get((n, d)) == s for n in nurses) for s in shifts} for d in days},
        "least": {n: max(0, worked[n] - rng.randint(0, 1)) for n in nurses},
        "most": {n: min(len(days), worked[n] + rng.randint(0, 1)) for n in nurses},
        "day_penalty": wishes, "shift_penalty": {n: {s: rng.randint(1, 9) for s in shifts} for n in nurses},
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """One yes-or-no variable for each nurse, day and shift."""
    nurses, days, shifts = data["nurses"], data["days"], data["shifts"]
    follows = [(s, e) for s in shifts for e in data["forbidden"][s]]
    m = pyo.ConcreteModel()
    m.work = pyo.Var(nurses, days, shifts, domain=pyo.Binary)
    m.day_wishes = pyo.Expression(
        expr=sum(v * m.work[n, d, s] for n in nurses for d, v in data["day_penalty"][n].items() for s in shifts)
    )
    m.shift_wishes = pyo.Expression(
        expr=sum(data["shift_penalty"][n][s] * m.work[n, d, s] for n in nurses for d in days for s in shifts)
    )
    m.objective = pyo.Objective(expr=m.day_wishes + m.shift_wishes, sense=pyo.minimize)
    m.cover = pyo.Constraint(
        days, shifts, rule=lambda m, d, s: sum(m.work[n, d, s] for n in nurses) >= data["demand"][d][s]
    )
    m.one_a_day = pyo.Constraint(nurses, days, rule=lambda m, n, d: sum(m.work[n, d, s] for s in shifts) <= 1)
    m.rest = pyo.Constraint(
        nurses,
        list(itertools.pairwise(days)),
        follows,
        rule=lambda m, n, d, t, s, e: m.work[n, d, s] + m.work[n, t, e] <= 1,
    )
    m.least = pyo.Constraint(
        nurses, rule=lambda m, n: sum(m.work[n, d, s] for d in days for s in shifts) >= data["least"][n]
    )
    m.most = pyo.Constraint(
        nurses, rule=lambda m, n: sum(m.work[n, d, s] for d in days for s in shifts) <= data["most"][n]
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """Each nurse walks from state to state, day by day; a state is a shift or a day off (the empty name)."""
    states = [*data["shifts"], ""]
    ban = {(s, e) for s in data["shifts"] for e in data["forbidden"][s]}
    days, count = data["days"], len(data["days"])
    m = gp.Model("walks")
    enter = m.addVars(data["nurses"], states, vtype=gp.GRB.BINARY, name="enter")
    steps = [
        (n, k, a, b)
        for n in data["nurses"]
        for k in range(1, count)
        for a in states
        for b in states
        if (a, b) not in ban
    ]
    step = m.addVars(steps, vtype=gp.GRB.BINARY, name="step")
    spent = {}  # in which state is which nurse on which day
    for n in data["nurses"]:
        m.addConstr(enter.sum(n, "*") == 1, name=f"enter[{n}]")
        for k in range(count):
            for a in states:
                spent[n, k, a] = step.sum(n, k, "*", a) if k else enter[n, a]
                if k + 1 < count:
                    m.addConstr(step.sum(n, k + 1, a, "*") == spent[n, k, a], name=f"walk[{n},{k},{a}]")
        off = gp.quicksum(spent[n, k, ""] for k in range(count))
        m.addConstr(off <= count - data["least"][n], name=f"enough[{n}]")
        m.addConstr(off >= count - data["most"][n], name=f"free[{n}]")
    total = gp.LinExpr()
    for k, d in enumerate(days):
        for s in data["shifts"]:
            m.addConstr(
                gp.quicksum(spent[n, k, s] for n in data["nurses"]) >= data["demand"][d][s], name=f"need[{d},{s}]"
            )
            for n in data["nurses"]:
                total += (data["day_penalty"][n].get(d, 0) + data["shift_penalty"][n][s]) * spent[n, k, s]
    m.setObjective(total, gp.GRB.MINIMIZE)
    return m


def optimum(data: dict) -> float | None:
    """By dynamic programming over the days, with all nurses' last shifts and shifts so far; for few nurses only."""
    if len(data["nurses"]) > 4:
        return None
    shifts, nurses = data["shifts"], data["nurses"]
    bans = {(a, b) for a, s in enumerate(shifts) for b, e in enumerate(shifts) if e in data["forbidden"][s]}
    price = [
        [[data["day_penalty"][n].get(d, 0) + data["shift_penalty"][n][s] for s in shifts] for n in nurses]
        for d in data["days"]
    ]
    demand = [[data["demand"][d][s] for s in shifts] for d in data["days"]]
    least, most = ([data[key][n] for n in nurses] for key in ("least", "most"))
    return float(exact_scheduling.roster(price, demand, bans, least, most))


def _scenario(domain: str, place: str, person: str, people: str, shifts: str) -> Scenario:
    told = {"place": place, "person": person, "people": people}
    names = {"nurses": PEOPLE, "days": WEEKDAYS, "shifts": Names(tuple(shifts.split()), "S", "first")}
    return Scenario(domain, told, names)


SCENARIOS = (
    _scenario("hospitals", "a hospital ward", "nurse", "nurses", "early late night"),
    _scenario("emergency services", "a rescue station", "paramedic", "paramedics", "morning evening night"),
    _scenario("hotels", "a hotel reception", "receptionist", "receptionists", "day evening night"),
    _scenario("security", "a museum's security office", "guard", "guards", "opening closing overnight"),
    _scenario("industry", "a glass furnace", "technician", "technicians", "early late night"),
    _scenario("care", "a care home", "carer", "carers", "morning afternoon night"),
    _scenario("railways", "a signal box", "signaller", "signallers", "dawn daytime night"),
)

FAMILY = Family(
    title="Nurse rostering with wishes",
    area="scheduling",
    source="E. K. Burke et al., The state of the art of nurse rostering, 2004",
    sizes=SIZES,
    sets=(
        IndexSet("nurses", "{person}", "{people}", "n", "N"),
        IndexSet("days", "day", "days, in the order of the calendar", "d", "D"),
        IndexSet("shifts", "shift", "shifts, in the order of the day", "s", "S"),
    ),
    fields=(
        Field("forbidden", ("shifts",), "shifts not allowed on the next day", "", "F_s", (
            "not allowed on the day after a shift of kind {0}: {value}",
            "shifts that the same {person} must not work on the day after {0}: {value}",
        ), LABELS),
        Field("demand", ("days", "shifts"), "{people} needed", "{people}", "b_{ds}", (
            ("on {0} the number of {people} needed is", "{value} for the shift {1}"),
            ("{0} calls for", "{value} {people} in the shift {1}"),
        )),
        Field("least", ("nurses",), "least number of shifts", "shifts", "l_n", (
            "{0} has to work at least {value} shifts", "the least number of shifts for {0} is {value}",
        )),
        Field("most", ("nurses",), "largest number of shifts", "shifts", "u_n", (
            "{0} may work at most {value} shifts", "the largest number of shifts for {0} is {value}",
        )),
        Field("day_penalty", ("nurses", "days"), "penalty for working on the day", "points", "p_{nd}", (
            ("{0} would like to have days off; working on them counts", "{value} points for {1}"),
            ("the penalty for {0} working is", "{value} points on {1}"),
        )),
        Field("shift_penalty", ("nurses", "shifts"), "penalty for each shift of the kind", "points", "q_{ns}", (
            ("for {0}, each shift worked counts", "{value} points if it is the shift {1}"),
            ("shifts are not equally liked: to {0} each costs", "{value} points for {1}"),
        )),
    ),
    contract=Contract(
        variables=(Variables("work", BINARY, "x_{nds}", "1 if {person} $n$ works shift $s$ on day $d$",
                             "{0} works on {1}: {2}"),),
        sense="minimize",
        goal=("total penalty", "points"),
        objective=(
            Term("day_wishes", r"\sum_{n \in N} \sum_{d \in D} \sum_{s \in S} p_{nd} x_{nds}", (
                "The penalty of a day is due if the {person} works any shift on that day; days without a penalty for a "
                "{person} cost nothing.",
                "Whoever works on a day for which a penalty is given to them adds that penalty, whatever the shift.",
            )),
            Term("shift_wishes", r"\sum_{n \in N} \sum_{d \in D} \sum_{s \in S} q_{ns} x_{nds}", (
                "The penalty of a shift is due each time the {person} works that shift, in addition to the day's.",
                "Every single shift worked adds the penalty that the {person} has for its kind; both penalties add up.",
            )),
        ),
        constraints=(
            Clause("cover", r"\sum_{n \in N} x_{nds} \ge b_{ds}", r"d \in D,\ s \in S", (
                "Every shift on every day needs at least the stated number of {people}.",
                "The number of {people} in a shift must not be below what is needed.",
            )),
            Clause("one_a_day", r"\sum_{s \in S} x_{nds} \le 1", r"n \in N,\ d \in D", (
                "Nobody works more than one shift on a day.", "A {person} has no more than one shift a day.",
            )),
            Clause("rest", r"x_{nds} + x_{n,d+1,e} \le 1", r"n \in N,\ d, d + 1 \in D,\ s \in S,\ e \in F_s", (
                "For the sake of rest, a {person} who works a shift must not work one of the shifts that are not "
                "allowed after it on the day that follows.",
                "Nobody may have a shift on one day and, on the next day, a shift that is not allowed after it.",
            )),
            Clause("least", r"\sum_{d \in D} \sum_{s \in S} x_{nds} \ge l_n", r"n \in N", (
                "Everyone works at least their least number of shifts over all days.",
                "Over all days together, nobody has fewer shifts than their least number.",
            )),
            Clause("most", r"\sum_{d \in D} \sum_{s \in S} x_{nds} \le u_n", r"n \in N", (
                "Nobody works more than their largest number of shifts over all days.",
                "Over all days together, the number of shifts of a {person} must not exceed the largest number.",
            )),
        ),
        integrality=(
            "Whether a {person} works a shift on a day is a yes-or-no decision; no shift can be divided.",
            "Shifts are worked whole or not at all: each decision for a {person}, a day and a shift is yes or no.",
        ),
        fixed=("how many {people} each shift needs", "which shifts may follow each other",
               "the least and largest numbers of shifts"),
        mistakes=(
            Mistake("shifts in parts", "domain=pyo.Binary", "bounds=(0, 1)"),
            Mistake("a limit of one shift over all days",
                    "nurses, days, rule=lambda m, n, d: sum(m.work[n, d, s] for s in shifts) <= 1",
                    "nurses, rule=lambda m, n: sum(m.work[n, d, s] for d in days for s in shifts) <= 1"),
            Mistake("rest on the same day instead of the next", "m.work[n, t, e] <= 1", "m.work[n, d, e] <= 1"),
            Mistake("needs as upper limits", '>= data["demand"][d][s]', '<= data["demand"][d][s]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "The roster of {place} for the coming days has to be drawn up.",
        "At {place}, {people} with different contracts and wishes share the shifts.",
        "{place} is staffed in shifts, and the {people} have said what they would rather not work.",
    ),
    questions=(
        "Who should work which shift on which day so that the total penalty is as small as possible?",
        "Find the roster of least total penalty.",
        "Minimise the sum of all penalty points.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="walks of the nurses through shifts and days off instead of assignments",
    optimum=optimum,
)  # fmt: skip
