"""Staff scheduling: how many people of each group work each shift pattern, so that every period has enough of them.

Patterns cover some of the periods; what staff do not cover is bought in from an agency, up to a limit.
"""

import itertools
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import INTEGER, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABELS, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import HOURS, WEEKDAYS, Names, Scenario, code, words

SIZES = {
    1: {"groups": (2, 2), "patterns": (3, 4), "periods": (4, 4)},
    2: {"groups": (2, 3), "patterns": (6, 9), "periods": (6, 6)},
    3: {"groups": (4, 4), "patterns": (25, 30), "periods": (7, 7)},
    4: {"groups": (5, 5), "patterns": (44, 48), "periods": (7, 7)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: needs, headcounts and the agency's limit fit a plan that was drawn at random.

    Patterns are runs of periods with at most one gap, no two alike. Prices follow the number of periods with noise.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    groups, patterns, periods = sets["groups"], sets["patterns"], sets["periods"]
    count = len(periods)
    shapes = [s for n in range(2, count) for s in itertools.combinations(range(count), n) if _gaps(s) <= 1]
    chosen = rng.sample(shapes, len(patterns))
    covers = {p: [periods[k] for k in shape] for p, shape in zip(patterns, chosen, strict=True)}
    rate = {g: rng.randint(7, 14) for g in groups}
    pay = {g: {p: rate[g] * len(covers[p]) + rng.randint(-4, 12) for p in patterns} for g in groups}
    headcount = {g: rng.randint(4, 9) for g in groups}
    plan = {g: [rng.choice(patterns) for _ in range(headcount[g])] for g in groups}
    present = {g: {t: sum(t in covers[p] for p in plan[g]) for t in periods} for g in groups}
    agency = {t: rng.choice((0, 0, 1, 2)) for t in periods}
    return {
        **sets, "covers": covers, "pay": pay, "headcount": headcount,
        "need": {t: sum(present[g][t] for g in groups) + agency[t] for t in periods},
        "core": {g: {t: max(0, present[g][t] - rng.randint(0, 2)) for t in periods} for g in groups},
        "agency_price": rng.randint(12, 30), "agency_limit": max(1, *agency.values()),
    }  # fmt: skip


def _gaps(shape: tuple[int, ...]) -> int:
    return sum(later - earlier > 1 for earlier, later in itertools.pairwise(shape))


def model(data: dict) -> pyo.ConcreteModel:
    """Numbers of people by group and pattern as an integer program."""
    groups, patterns, periods = data["groups"], data["patterns"], data["periods"]
    serving = {t: [p for p in patterns if t in data["covers"][p]] for t in periods}
    m = pyo.ConcreteModel()
    m.staff = pyo.Var(groups, patterns, domain=pyo.NonNegativeIntegers)
    m.agency = pyo.Var(periods, domain=pyo.NonNegativeIntegers)
    m.wages = pyo.Expression(expr=sum(data["pay"][g][p] * m.staff[g, p] for g in groups for p in patterns))
    m.agency_cost = pyo.Expression(expr=data["agency_price"] * sum(m.agency[t] for t in periods))
    m.objective = pyo.Objective(expr=m.wages + m.agency_cost, sense=pyo.minimize)
    m.need = pyo.Constraint(
        periods,
        rule=lambda m, t: sum(m.staff[g, p] for g in groups for p in serving[t]) + m.agency[t] >= data["need"][t],
    )
    m.core = pyo.Constraint(
        groups,
        periods,
        rule=lambda m, g, t: (
            sum(m.staff[g, p] for p in serving[t]) >= data["core"][g][t] if serving[t] else pyo.Constraint.Skip
        ),
    )
    m.headcount = pyo.Constraint(groups, rule=lambda m, g: sum(m.staff[g, p] for p in patterns) <= data["headcount"][g])
    m.agency_limit = pyo.Constraint(periods, rule=lambda m, t: m.agency[t] <= data["agency_limit"])
    return m


def reformulated(data: dict) -> gp.Model:
    """Who is present, followed from one period to the next: those whose pattern sets in come, the others leave."""
    m = gp.Model("presence")
    sent = m.addVars(data["groups"], data["patterns"], vtype=gp.GRB.INTEGER, name="sent")
    present = m.addVars(data["groups"], data["periods"], name="present")
    bought = m.addVars(data["periods"], ub=data["agency_limit"], vtype=gp.GRB.INTEGER, name="bought")
    m.setObjective(
        gp.quicksum(sent[g, p] * data["pay"][g][p] for g, p in sent) + bought.sum() * data["agency_price"],
        gp.GRB.MINIMIZE,
    )
    for g in data["groups"]:
        m.addConstr(data["headcount"][g] >= sent.sum(g, "*"), name=f"people[{g}]")
        for k, t in enumerate(data["periods"]):
            change = gp.LinExpr()
            for p in data["patterns"]:
                now, then = t in data["covers"][p], k > 0 and data["periods"][k - 1] in data["covers"][p]
                change += (now - then) * sent[g, p]
            level = present[g, data["periods"][k - 1]] if k else 0
            m.addConstr(present[g, t] - level == change, name=f"change[{g},{t}]")
            m.addConstr(present[g, t] >= data["core"][g][t], name=f"own[{g},{t}]")
    m.addConstrs((data["need"][t] - bought[t] <= present.sum("*", t) for t in data["periods"]), name="enough")
    return m


def _scenario(domain: str, place: str, person: str, people: str, groups: str, period: str, periods: Names,
              money: str) -> Scenario:  # fmt: skip
    told = {
        "place": place, "person": person, "people": people, "period": period, "periods": period + "s", "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"groups": words(groups, "G"), "patterns": code("P"), "periods": periods})


SCENARIOS = (
    _scenario("call centres", "a call centre", "agent", "agents", "sales service billing technical retention", "hour",
              HOURS, "euros"),
    _scenario("retail", "a department store", "assistant", "assistants", "fashion food household sports garden", "day",
              WEEKDAYS, "pounds"),
    _scenario("health", "an outpatient centre", "clinician", "clinicians",
              "physicians nurses therapists radiographers midwives", "day", WEEKDAYS, "francs"),
    _scenario("airports", "an airport's ground service", "worker", "workers", "check-in boarding baggage ramp lounge",
              "hour", HOURS, "euros"),
    _scenario("post", "a sorting centre", "sorter", "sorters", "letters parcels express registered returns", "hour",
              HOURS, "dollars"),
    _scenario("museums", "a museum", "attendant", "attendants", "galleries entrance shop cloakroom tours", "day",
              WEEKDAYS, "euros"),
    _scenario("public transport", "a tram depot", "employee", "employees",
              "drivers conductors inspectors mechanics cleaners", "day", WEEKDAYS, "dollars"),
)  # fmt: skip

FAMILY = Family(
    title="Staff scheduling with shift patterns and agency staff",
    area="scheduling",
    source="G. B. Dantzig, A comment on Edie's traffic delays at toll booths, 1954",
    sizes=SIZES,
    sets=(
        IndexSet("groups", "group", "groups of {people}", "g", "G"),
        IndexSet("patterns", "pattern", "shift patterns", "p", "P"),
        IndexSet("periods", "{period}", "{periods}", "t", "T"),
    ),
    fields=(
        Field("covers", ("patterns",), "{periods} worked", "", "T_p", (
            "whoever works pattern {0} is present on {value}", "pattern {0} covers {value}",
            "the {periods} of pattern {0} are {value}",
        ), LABELS),
        Field("pay", ("groups", "patterns"), "pay", "{money} per {person}", "c_{gp}", (
            ("one {person} of the group {0} is paid", "{value} {money} for pattern {1}"),
            ("in {0}, the {money} paid per {person} are", "{value} for pattern {1}"),
        )),
        Field("headcount", ("groups",), "headcount", "{people}", "h_g", (
            "the group {0} has {value} {people}", "there are {value} {people} in {0}",
        )),
        Field("need", ("periods",), "{people} needed in all", "{people}", "b_t", (
            "on {0} there have to be {value} {people} in all", "{0} needs {value} {people}, all groups together",
        )),
        Field("core", ("groups", "periods"), "own {people} needed of the group", "{people}", "k_{gt}", (
            ("of the group {0} at least this many own {people} must be present:", "{value} on {1}"),
            ("the smallest number of own {people} of {0} is", "{value} on {1}"),
        )),
        Field("agency_price", (), "price of an agency {person} for one {period}", "{money}", "a", (
            "agency {people} cost {value} {money} each per {period}",
            "one {person} from the agency costs {value} {money} for one {period}",
        )),
        Field("agency_limit", (), "most agency {people} at a time", "{people}", "u", (
            "the agency can send at most {value} {people} for any {period}",
            "at no time can there be more than {value} {people} from the agency",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("staff", INTEGER, "x_{gp}", "{people} of group $g$ who work pattern $p$",
                      "{value} of group {0} work pattern {1}"),
            Variables("agency", INTEGER, "z_t", "agency {people} in {period} $t$", "{value} from the agency on {0}"),
        ),
        sense="minimize",
        goal=("total cost of pay and agency", "{money}"),
        objective=(
            Term("wages", r"\sum_{g \in G} \sum_{p \in P} c_{gp} x_{gp}", (
                "Each {person} is paid for the whole pattern worked; those who are not called cost nothing.",
                "Pay is due per {person} and pattern, and only for {people} who are given a pattern.",
            )),
            Term("agency_cost", r"a \sum_{t \in T} z_t", (
                "The agency is paid for each {person} and each {period}.",
                "Agency {people} are booked for single {periods} and paid for each of them.",
            )),
        ),
        constraints=(
            Clause("need", r"\sum_{g \in G} \sum_{p \in P : t \in T_p} x_{gp} + z_t \ge b_t", r"t \in T", (
                "In every {period} own and agency {people} together must at least reach the number needed in all.",
                "The total number of {people} present, with those from the agency, must not be below the need of the "
                "{period}.",
            )),
            Clause("core", r"\sum_{p \in P : t \in T_p} x_{gp} \ge k_{gt}", r"g \in G,\ t \in T", (
                "Every group must have at least its smallest number of own {people} present in each {period}; agency "
                "{people} do not count for this.",
                "For each group and {period}, enough of the group's own {people} have to be present, without the "
                "agency.",
            )),
            Clause("headcount", r"\sum_{p \in P} x_{gp} \le h_g", r"g \in G", (
                "Nobody works more than one pattern, so a group cannot fill more patterns than it has {people}.",
                "Each {person} can be given at most one pattern; the headcount limits every group.",
            )),
            Clause("agency_limit", r"z_t \le u", r"t \in T", (
                "The agency's limit holds for every {period} by itself.",
                "In each {period} the number of agency {people} stays within what the agency can send.",
            )),
        ),
        integrality=(
            "Numbers of {people} are whole, for own staff as well as for the agency's.",
            "Only whole {people} can be called or hired: all numbers are non-negative whole numbers.",
        ),
        fixed=("which {periods} a pattern covers", "that agency {people} do not count for a group's own number",
               "the headcount of each group"),
        mistakes=(
            Mistake("fractions of people", "m.staff = pyo.Var(groups, patterns, domain=pyo.NonNegativeIntegers)",
                    "m.staff = pyo.Var(groups, patterns, domain=pyo.NonNegativeReals)"),
            Mistake("agency staff forgotten in the need", " + m.agency[t] >=", " >="),
            Mistake("agency limit over all periods",
                    "pyo.Constraint(periods, rule=lambda m, t: m.agency[t] <=",
                    "pyo.Constraint(expr=sum(m.agency[t] for t in periods) <="),
            Mistake("needs met exactly", '>= data["need"][t]', '== data["need"][t]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "{place} calls its {people} to work in fixed shift patterns.",
        "The {people} of {place} belong to different groups and work in shift patterns.",
        "For the coming {periods}, {place} decides how many {people} of each group work which pattern.",
    ),
    questions=(
        "How many {people} of each group should work each pattern, and how many should come from the agency, so that "
        "the total cost is as small as possible?",
        "Find the staffing of least total cost.",
        "Minimise the total cost of pay and agency in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="presence followed from period to period instead of sums over patterns",
)  # fmt: skip
