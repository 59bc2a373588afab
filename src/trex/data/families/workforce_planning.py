"""Workforce planning: hire, train and dismiss so that every grade has the people it needs, at least cost.

A flow of people through grades and periods; whole numbers. Training takes one period.
"""

import itertools
import random

import networkx as nx
import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import INTEGER, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABEL, Field, IndexSet, Instance, draw_sets
from trex.data.scenario import MONTHS, WEEKS, Names, Scenario, code, words

SIZES = {
    1: {"grades": (2, 2), "courses": (1, 1), "periods": (2, 2)},
    2: {"grades": (2, 3), "courses": (1, 1), "periods": (4, 5)},
    3: {"grades": (4, 4), "courses": (3, 3), "periods": (8, 9)},
    4: {"grades": (5, 6), "courses": (4, 5), "periods": (12, 12)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: the needs are those of a drawn plan, less a few, and the limits allow the plan.

    Grades later in the list are paid more and cost more to hire, so that training into them can be worth while.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    grades, courses, periods = sets["grades"], sets["courses"], sets["periods"]
    steps = rng.sample(list(itertools.combinations(range(len(grades)), 2)), len(courses))
    initial = {g: rng.randint(8, 30) for g in grades}
    hire_limit = {g: rng.randint(3, 8) for g in grades}
    places = {c: rng.randint(2, 4) for c in courses}
    need: dict[str, dict[str, int]] = {g: {} for g in grades}
    staff, arriving = dict(initial), dict.fromkeys(grades, 0)
    for k, t in enumerate(periods):
        for g in grades:
            staff[g] += arriving[g] + (rng.randint(0, hire_limit[g]) if rng.random() < 0.7 else -(staff[g] // 4))
        arriving = dict.fromkeys(grades, 0)
        for c, (tail, head) in zip(courses, steps, strict=True):
            trained = min(staff[grades[tail]] - 1, rng.randint(0, places[c])) if k + 1 < len(periods) else 0
            staff[grades[tail]] -= trained
            arriving[grades[head]] += trained
        for g in grades:
            need[g][t] = max(1, staff[g] - rng.randint(0, 2))
    base = rng.randint(8, 15)
    return {
        **sets, "need": need, "initial": initial,
        "wage": {g: base + rng.randint(3, 5) * k for k, g in enumerate(grades)},
        "hiring": {g: rng.randint(6, 14) + 7 * k for k, g in enumerate(grades)},
        "dismissal": {g: rng.randint(4, 24) for g in grades}, "hire_limit": hire_limit,
        "source": {c: grades[tail] for c, (tail, _) in zip(courses, steps, strict=True)},
        "target": {c: grades[head] for c, (_, head) in zip(courses, steps, strict=True)},
        "fee": {c: rng.randint(5, 14) for c in courses}, "places": places,
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Headcounts, hires, dismissals and trainees as an integer program."""
    grades, courses, periods = data["grades"], data["courses"], data["periods"]
    starts = [(c, t) for c in courses for t in periods[:-1]]
    m = pyo.ConcreteModel()
    m.staff = pyo.Var(grades, periods, domain=pyo.NonNegativeIntegers)
    m.hire = pyo.Var(grades, periods, domain=pyo.NonNegativeIntegers)
    m.dismiss = pyo.Var(grades, periods, domain=pyo.NonNegativeIntegers)
    m.train = pyo.Var(starts, domain=pyo.NonNegativeIntegers)
    m.wages = pyo.Expression(expr=sum(data["wage"][g] * m.staff[g, t] for g in grades for t in periods))
    m.hiring = pyo.Expression(expr=sum(data["hiring"][g] * m.hire[g, t] for g in grades for t in periods))
    m.dismissals = pyo.Expression(expr=sum(data["dismissal"][g] * m.dismiss[g, t] for g in grades for t in periods))
    m.training = pyo.Expression(expr=sum(data["fee"][c] * m.train[c, t] for c, t in starts))
    m.objective = pyo.Objective(expr=m.wages + m.hiring + m.dismissals + m.training, sense=pyo.minimize)

    following = dict(itertools.pairwise(periods))
    before = {
        (g, t): m.staff[g, periods[k - 1]] if k else data["initial"][g] for g in grades for k, t in enumerate(periods)
    }
    m.balance = pyo.Constraint(
        grades,
        periods,
        rule=lambda m, g, t: (
            before[g, t]
            + m.hire[g, t]
            + sum(m.train[c, s] for c, s in starts if data["target"][c] == g and following[s] == t)
            == m.staff[g, t]
            + m.dismiss[g, t]
            + sum(m.train[c, s] for c, s in starts if data["source"][c] == g and s == t)
        ),
    )
    m.need = pyo.Constraint(grades, periods, rule=lambda m, g, t: m.staff[g, t] >= data["need"][g][t])
    m.hire_limit = pyo.Constraint(grades, periods, rule=lambda m, g, t: m.hire[g, t] <= data["hire_limit"][g])
    m.places = pyo.Constraint(starts, rule=lambda m, c, t: m.train[c, t] <= data["places"][c])
    return m


def reformulated(data: dict) -> gp.Model:
    """No headcounts: everyone who ever came or left counts with the wages of all periods that follow."""
    periods = data["periods"]
    m = gp.Model("movements")
    came = m.addVars(data["grades"], periods, vtype=gp.GRB.INTEGER, name="came")
    went = m.addVars(data["grades"], periods, vtype=gp.GRB.INTEGER, name="went")
    pupils = m.addVars(data["courses"], periods[:-1], vtype=gp.GRB.INTEGER, name="pupils")
    total = gp.LinExpr()
    for g in data["grades"]:
        count = gp.LinExpr(data["initial"][g])
        for k, t in enumerate(periods):
            count = count + came[g, t] - went[g, t]
            for c in data["courses"]:
                if data["target"][c] == g and k > 0:
                    count = count + pupils[c, periods[k - 1]]
                if data["source"][c] == g and k < len(periods) - 1:
                    count = count - pupils[c, t]
            m.addConstr(count >= data["need"][g][t], name=f"enough[{g},{t}]")
            m.addConstr(came[g, t] <= data["hire_limit"][g], name=f"recruits[{g},{t}]")
            total = total + data["wage"][g] * count
            total = total + data["hiring"][g] * came[g, t] + data["dismissal"][g] * went[g, t]
    for c in data["courses"]:
        for t in periods[:-1]:
            m.addConstr(pupils[c, t] <= data["places"][c], name=f"places[{c},{t}]")
            total = total + data["fee"][c] * pupils[c, t]
    m.setObjective(total, gp.GRB.MINIMIZE)
    return m


def optimum(data: dict) -> float | None:
    """By a cheapest flow of people through grades and periods; all numbers are whole."""
    graph, periods, need = nx.MultiDiGraph(), data["periods"], data["need"]
    balance: dict[object, int] = {}  # what has to leave a node, less what has to enter it
    fixed = 0
    for g in data["grades"]:
        balance["in", g, 0] = balance.get(("in", g, 0), 0) + data["initial"][g]
        for k, t in enumerate(periods):
            graph.add_edge("outside", ("in", g, k), capacity=data["hire_limit"][g], weight=data["hiring"][g])
            graph.add_edge(("in", g, k), "outside", weight=data["dismissal"][g])
            after = ("in", g, k + 1) if k + 1 < len(periods) else "outside"
            graph.add_edge(("in", g, k), after, weight=data["wage"][g])  # those beyond the need
            balance["in", g, k] = balance.get(("in", g, k), 0) - need[g][t]
            balance[after] = balance.get(after, 0) + need[g][t]
            fixed += data["wage"][g] * need[g][t]
    for c in data["courses"]:
        for k in range(len(periods) - 1):
            tail, head = ("in", data["source"][c], k), ("in", data["target"][c], k + 1)
            graph.add_edge(tail, head, capacity=data["places"][c], weight=data["fee"][c])
    balance["outside"] = balance.get("outside", 0) - sum(data["initial"].values())
    for node, leaves in balance.items():
        graph.nodes[node]["demand"] = -leaves
    return float(fixed + nx.network_simplex(graph)[0])


def _scenario(domain: str, business: str, people: str, grade: str, task: str, period: str, money: str, grades: Names,
              periods: Names) -> Scenario:  # fmt: skip
    told = {"business": business, "people": people, "grade": grade, "task": task, "period": period, "money": money}
    return Scenario(domain, told, {"grades": grades, "courses": code("K"), "periods": periods})


SCENARIOS = (
    _scenario("airlines", "regional airline", "cabin crew", "rank", "flights", "month", "hundred euros",
              words("stewards seniors pursers instructors supervisors managers", "R"), MONTHS),
    _scenario("health", "nursing service", "nurses", "qualification", "wards", "month", "hundred pounds",
              words("assistants carers nurses specialists sisters matrons", "Q"), MONTHS),
    _scenario("industry", "machine works", "workers", "skill level", "orders", "month", "hundred euros",
              words("helpers fitters turners millers toolmakers foremen", "S"), MONTHS),
    _scenario("software", "software house", "staff", "grade", "projects", "month", "hundred dollars",
              words("trainees developers testers architects leads principals", "G"), MONTHS),
    _scenario("call centres", "call centre", "agents", "tier", "hotlines", "week", "ten dollars",
              words("novices juniors regulars experts coaches leaders", "T"), WEEKS),
    _scenario("railways", "tram company", "drivers and guards", "licence", "lines", "month", "hundred crowns",
              words("guards shunters drivers examiners dispatchers inspectors", "L"), MONTHS),
)  # fmt: skip

FAMILY = Family(
    title="Workforce planning with training",
    area="production",
    source="H. P. Williams, Model Building in Mathematical Programming, 1978 (manpower planning)",
    sizes=SIZES,
    sets=(
        IndexSet("grades", "{grade}", "{grade}s", "g", "G"),
        IndexSet("courses", "course", "courses", "c", "C"),
        IndexSet("periods", "{period}", "{period}s in their order", "t", "T"),
    ),
    fields=(
        Field("need", ("grades", "periods"), "people needed", "", "d_{gt}", (
            ("the number of {0} that the {task} need is", "{value} in {1}"),
            ("of the {0}, the least number at work is", "{value} in {1}"),
        )),
        Field("initial", ("grades",), "people at the beginning", "", "n_g", (
            "at the beginning there are {value} {0}", "the {business} starts with {value} {0}",
        )),
        Field("wage", ("grades",), "wage", "{money} per {period}", "w_g", (
            "each of the {0} is paid {value} {money} a {period}", "the wage of {0} is {value} {money} per {period}",
        )),
        Field("hiring", ("grades",), "cost of hiring", "{money} each", "h_g", (
            "hiring one of the {0} costs {value} {money}", "each hire among the {0} costs {value} {money}",
        )),
        Field("dismissal", ("grades",), "cost of a dismissal", "{money} each", "f_g", (
            "dismissing one of the {0} costs {value} {money}", "each dismissal among the {0} costs {value} {money}",
        )),
        Field("hire_limit", ("grades",), "most hires in a {period}", "", "H_g", (
            "no more than {value} {0} can be hired in a {period}", "in any {period}, at most {value} {0} can be hired",
        )),
        Field("source", ("courses",), "{grade} of those who attend", "", "a_c", (
            "course {0} takes people from the {value}", "those who attend course {0} come from the {value}",
        ), kind=LABEL),
        Field("target", ("courses",), "{grade} that the course leads to", "", "b_c", (
            "course {0} leads to the {value}", "whoever has attended course {0} joins the {value}",
        ), kind=LABEL),
        Field("fee", ("courses",), "cost of the course", "{money} each", "k_c", (
            "course {0} costs {value} {money} for each who attends, pay included",
            "training one person on course {0} costs {value} {money}, pay included",
        )),
        Field("places", ("courses",), "places in a {period}", "", "p_c", (
            "course {0} has {value} places in each {period}",
            "per {period}, at most {value} people can attend course {0}",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("staff", INTEGER, "x_{gt}", "number of $g$ at work in {period} $t$",
                      "{value} {0} at work in {1}"),
            Variables("hire", INTEGER, "u_{gt}", "number of $g$ hired at the beginning of {period} $t$",
                      "hire {value} {0} in {1}"),
            Variables("dismiss", INTEGER, "v_{gt}", "number of $g$ dismissed at the beginning of {period} $t$",
                      "dismiss {value} {0} in {1}"),
            Variables("train", INTEGER, "y_{ct}", "number of people on course $c$ in {period} $t$",
                      "{value} on course {0} in {1}"),
        ),
        sense="minimize",
        goal=("total cost of wages, hiring, dismissals and courses", "{money}"),
        objective=(
            Term("wages", r"\sum_{g \in G} \sum_{t \in T} w_g x_{gt}", (
                "Wages are paid to all who are at work in a {period}; people on a course are paid out of its cost.",
                "Everyone at work gets the wage of the {grade} for each {period}; on a course no wage is due besides "
                "the cost of the course.",
            )),
            Term("hiring", r"\sum_{g \in G} \sum_{t \in T} h_g u_{gt}", ("Every hire has its cost.",)),
            Term("dismissals", r"\sum_{g \in G} \sum_{t \in T} f_g v_{gt}", ("Every dismissal has its cost.",)),
            Term("training", r"\sum_{c \in C} \sum_{t < |T|} k_c y_{ct}", (
                "The cost of a course is due for each person who attends.",
                "Courses are charged by the number of people who attend.",
            )),
        ),
        constraints=(
            Clause("balance", r"x_{g,t-1} + u_{gt} + \sum_{c : b_c = g} y_{c,t-1} = x_{gt} + v_{gt} + "
                   r"\sum_{c : a_c = g} y_{ct}", r"g \in G,\ t \in T", (
                "People are hired, dismissed or sent on a course at the beginning of a {period}. A course lasts one "
                "{period}, in which those who attend are not at work; from the next {period} on they belong to the "
                "{grade} that the course leads to. No course is held in the last {period}. Nobody leaves otherwise.",
                "Hires, dismissals and courses begin with a {period}. Whoever attends a course is away from work for "
                "exactly that {period} and joins the {grade} that it leads to at the beginning of the next. In the "
                "last {period} there are no courses. Numbers change in no other way.",
            )),
            Clause("need", r"x_{gt} \ge d_{gt}", r"g \in G,\ t \in T", (
                "In each {period} at least as many people of each {grade} must be at work as are needed; no {grade} "
                "can stand in for another.",
                "The need of every {grade} has to be met in every {period} by its own people.",
            )),
            Clause("hire_limit", r"u_{gt} \le H_g", r"g \in G,\ t \in T", (
                "Hiring is limited for each {grade} in each {period}.",
                "Only a limited number of each {grade} can be hired in a {period}.",
            )),
            Clause("places", r"y_{ct} \le p_c", r"c \in C,\ t < |T|", (
                "A course takes no more people in a {period} than it has places.",
                "Nobody can be sent on a course that is full.",
            )),
        ),
        integrality=(
            "All numbers of people are whole numbers.",
            "People come in whole numbers, whether at work, hired, dismissed or on a course.",
        ),
        fixed=("that a course takes a whole {period}", "that no {grade} stands in for another",
               "the numbers of people at the beginning"),
        mistakes=(
            Mistake("nobody is there at the beginning", 'if k else data["initial"][g]', "if k else 0"),
            Mistake("people on a course are still at work", 'if data["source"][c] == g and s == t)', "if False)"),
            Mistake("people in parts", "m.staff = pyo.Var(grades, periods, domain=pyo.NonNegativeIntegers)",
                    "m.staff = pyo.Var(grades, periods, domain=pyo.NonNegativeReals)"),
            Mistake("a course takes no time", "following[s] == t", "s == t"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A {business} plans the numbers of its {people} over the coming {period}s.",
        "The {task} of a {business} need different numbers of {people} from {period} to {period}.",
        "How many {people} a {business} should hire, train and dismiss is to be settled for some {period}s ahead.",
    ),
    questions=(
        "How many people should be hired, dismissed and trained in each {period} so that the total cost is least?",
        "Find the cheapest plan of hiring, courses and dismissals.",
        "Minimise the total cost of wages, hiring, dismissals and courses in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="movements of people only, without headcounts",
    optimum=optimum,
)  # fmt: skip
