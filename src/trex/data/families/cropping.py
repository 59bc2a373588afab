"""Cropping: which crops to grow on which fields and on how much land, with rotation, water and labour.

Areas are continuous; a crop that is grown on a field needs a least plot there. Labour may be hired in every season.
"""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import BINARY, CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABEL, LABELS, Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import Names, Scenario, code, words

SIZES = {
    1: {"fields": (2, 2), "crops": (3, 3), "seasons": (1, 1)},
    2: {"fields": (3, 5), "crops": (4, 4), "seasons": (2, 2)},
    3: {"fields": (9, 10), "crops": (6, 6), "seasons": (3, 3)},
    4: {"fields": (15, 17), "crops": (7, 7), "seasons": (4, 4)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Always feasible, for fields may lie fallow. Water, own labour and sales fall short of what the land could take.

    Every crop bars itself as its own successor, so that each field has at least one crop that may not follow.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    fields, crops, seasons = sets["fields"], sets["crops"], sets["seasons"]
    area = {f: rng.randint(8, 40) for f in fields}
    land = sum(area.values())
    barred = {c: [d for d in crops if d == c or rng.random() < 0.15] for c in crops}
    water = {c: rng.randint(4, 14) * 0.5 for c in crops}
    work = {c: {t: rng.randint(2, 16) for t in seasons} for c in crops}
    quality = {f: rng.uniform(0.85, 1.15) for f in fields}
    base = {c: 20 * water[c] + 8 * sum(work[c].values()) / len(seasons) + rng.randint(60, 140) for c in crops}
    mean = {t: sum(work[c][t] for c in crops) / len(crops) for t in seasons}
    previous = {f: rng.choice(crops) for f in fields}
    allowed = {c: sum(area[f] for f in fields if previous[f] not in barred[c]) for c in crops}
    most = {c: max(8, round(min(land * rng.uniform(0.25, 0.5), allowed[c] * 0.8))) for c in crops}
    largest = {c: min(most[c], allowed[c]) for c in crops}
    thirst = min(land * sum(water.values()) / len(crops), sum(water[c] * largest[c] for c in crops))
    return {
        **sets, "area": area, "previous": previous, "barred": barred,
        "margin": {f: {c: 5 * round(base[c] * quality[f] * rng.uniform(0.9, 1.1) / 5) for c in crops} for f in fields},
        "plot": rng.randint(4, 7), "water": {c: nice(value) for c, value in water.items()},
        "water_limit": max(5, 5 * round(thirst * rng.uniform(0.6, 0.85) / 5)),
        "work": work, "own_labour": {t: 10 * math.ceil(land * mean[t] * rng.uniform(0.4, 0.7) / 10) for t in seasons},
        "hired_limit": {t: 10 * math.ceil(land * mean[t] * rng.uniform(0.05, 0.2) / 10) for t in seasons},
        "wage": {t: rng.randint(4, 12) for t in seasons},
        "most": most,
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Areas, plots and hired labour as a mixed-integer linear program."""
    fields, crops, seasons = data["fields"], data["crops"], data["seasons"]
    m = pyo.ConcreteModel()
    m.grow = pyo.Var(fields, crops, domain=pyo.NonNegativeReals)
    m.sow = pyo.Var(fields, crops, domain=pyo.Binary)
    m.hire = pyo.Var(seasons, domain=pyo.NonNegativeReals)
    m.margin = pyo.Expression(expr=sum(data["margin"][f][c] * m.grow[f, c] for f in fields for c in crops))
    m.wages = pyo.Expression(expr=-sum(data["wage"][t] * m.hire[t] for t in seasons))
    m.objective = pyo.Objective(expr=m.margin + m.wages, sense=pyo.maximize)

    total = {c: sum(m.grow[f, c] for f in fields) for c in crops}
    m.land = pyo.Constraint(fields, rule=lambda m, f: sum(m.grow[f, c] for c in crops) <= data["area"][f])
    m.sown = pyo.Constraint(fields, crops, rule=lambda m, f, c: m.grow[f, c] <= data["area"][f] * m.sow[f, c])
    m.plot = pyo.Constraint(fields, crops, rule=lambda m, f, c: m.grow[f, c] >= data["plot"] * m.sow[f, c])
    m.rotation = pyo.Constraint(
        fields,
        crops,
        rule=lambda m, f, c: m.sow[f, c] <= 0 if data["previous"][f] in data["barred"][c] else pyo.Constraint.Skip,
    )
    m.water = pyo.Constraint(expr=sum(data["water"][c] * total[c] for c in crops) <= data["water_limit"])
    m.labour = pyo.Constraint(
        seasons,
        rule=lambda m, t: sum(data["work"][c][t] * total[c] for c in crops) <= data["own_labour"][t] + m.hire[t],
    )
    m.hiring = pyo.Constraint(seasons, rule=lambda m, t: m.hire[t] <= data["hired_limit"][t])
    m.market = pyo.Constraint(crops, rule=lambda m, c: total[c] <= data["most"][c])
    return m


def reformulated(data: dict) -> gp.Model:
    """Only allowed pairs of field and crop; a plot has its least size by itself, and variables are what it has more."""
    m = gp.Model("plots")
    least = data["plot"]
    used = {c: gp.LinExpr() for c in data["crops"]}
    profit = gp.LinExpr()
    for f, size in data["area"].items():
        taken = gp.LinExpr()
        for c in data["crops"]:
            if data["previous"][f] not in data["barred"][c]:
                chosen = m.addVar(vtype=gp.GRB.BINARY, name=f"chosen[{f},{c}]")
                more = m.addVar(name=f"more[{f},{c}]")
                m.addConstr(more <= (size - least) * chosen, name=f"rest[{f},{c}]")
                hectares = least * chosen + more
                taken += hectares
                used[c] += hectares
                profit += data["margin"][f][c] * hectares
        m.addConstr(taken <= size, name=f"field[{f}]")
    m.addConstr(gp.quicksum(data["water"][c] * used[c] for c in used) <= data["water_limit"], name="irrigation")
    for t in data["seasons"]:
        hired = m.addVar(ub=data["hired_limit"][t], name=f"hired[{t}]")
        needed = gp.quicksum(data["work"][c][t] * used[c] for c in used)
        m.addConstr(needed - hired <= data["own_labour"][t], name=f"hours[{t}]")
        profit -= data["wage"][t] * hired
    for c, area in used.items():
        m.addConstr(area <= data["most"][c], name=f"sales[{c}]")
    m.setObjective(profit, gp.GRB.MAXIMIZE)
    return m


SEASONS = Names(("spring", "summer", "autumn", "winter"), "S", "first")


def _scenario(domain: str, owner: str, field: str, letter: str, pool: str, measure: str, water: str, volume: str,
              money: str) -> Scenario:  # fmt: skip
    told = {
        "owner": owner, "field": field, "fields": field + "s", "measure": measure, "measures": measure + "s",
        "water": water, "volume": volume, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"fields": code(letter), "crops": words(pool, "C"), "seasons": SEASONS})


SCENARIOS = (
    _scenario("arable farming", "a family farm", "field", "F", "wheat barley rapeseed maize peas oats rye beets",
              "hectare", "irrigation water", "megalitres", "euros"),
    _scenario("vegetables", "a vegetable cooperative", "parcel", "P",
              "carrots onions cabbage leeks potatoes beans lettuce celery", "hectare", "water from the canal",
              "megalitres", "pounds"),
    _scenario("flowers", "a flower grower", "bed", "B", "tulips lilies dahlias asters roses irises peonies gladioli",
              "rood", "well water", "kilolitres", "euros"),
    _scenario("seed growing", "a seed company", "plot", "S",
              "clover alfalfa ryegrass fescue mustard phacelia vetch lupins", "acre", "irrigation water", "acre-feet",
              "dollars"),
    _scenario("dryland farming", "an outback station", "paddock", "K",
              "sorghum cotton chickpeas millet sunflower canola lentils oats", "hectare", "bore water", "megalitres",
              "dollars"),
    _scenario("herbs", "a producer of medicinal herbs", "terrace", "T",
              "mint sage thyme fennel chamomile lavender arnica basil", "are", "water from the cistern", "kilolitres",
              "francs"),
)  # fmt: skip

FAMILY = Family(
    title="Cropping with rotation, water and labour",
    area="agriculture",
    source="P. B. R. Hazell and R. D. Norton, Mathematical Programming for Economic Analysis in Agriculture, 1986",
    sizes=SIZES,
    sets=(
        IndexSet("fields", "{field}", "{fields}", "f", "F"),
        IndexSet("crops", "crop", "crops", "c", "C"),
        IndexSet("seasons", "season", "seasons", "t", "T"),
    ),
    fields=(
        Field("area", ("fields",), "area", "{measures}", "a_f", (
            "{field} {0} has {value} {measures}", "the area of {field} {0} is {value} {measures}",
        )),
        Field("previous", ("fields",), "crop of last year", "", "b_f", (
            "last year {value} grew on {field} {0}", "the previous crop on {field} {0} was {value}",
        ), LABEL),
        Field("barred", ("crops",), "crops that it may not follow", "", "B_c", (
            "{0} may not follow any of these: {value}", "the crops after which {0} is ruled out: {value}",
        ), LABELS),
        Field("margin", ("fields", "crops"), "contribution", "{money} per {measure}", "g_{fc}", (
            ("on {field} {0}, in {money} per {measure}, a crop brings", "{value} with {1}"),
            ("the contribution of a {measure} on {field} {0} in {money} is", "{value} for {1}"),
        )),
        Field("plot", (), "least plot", "{measures}", "m", (
            "a crop needs at least {value} {measures} on any {field} where it is grown",
            "no crop is grown on less than {value} {measures} of a {field}",
        )),
        Field("water", ("crops",), "use of {water}", "{volume} per {measure}", "w_c", (
            "a {measure} of {0} needs {value} {volume}", "{0} takes {value} {volume} of {water} per {measure}",
        )),
        Field("water_limit", (), "available {water}", "{volume}", "W", (
            "there are {value} {volume} of {water}", "the right to {water} is limited to {value} {volume}",
        )),
        Field("work", ("crops", "seasons"), "labour needed", "hours per {measure}", "h_{ct}", (
            ("a {measure} of {0} takes, in hours of labour,", "{value} in {1}"),
            ("the hours of labour for a {measure} of {0} are", "{value} in {1}"),
        )),
        Field("own_labour", ("seasons",), "own labour", "hours", "L_t", (
            "{value} hours of own labour are available in {0}", "the staff can work {value} hours in {0}",
        )),
        Field("hired_limit", ("seasons",), "labour for hire", "hours", "H_t", (
            "in {0} up to {value} hours of labour can be hired",
            "helpers offer at most {value} hours in {0}",
        )),
        Field("wage", ("seasons",), "wage of hired labour", "{money} per hour", "v_t", (
            "an hour of hired labour costs {value} {money} in {0}", "helpers are paid {value} {money} an hour in {0}",
        )),
        Field("most", ("crops",), "largest area of a crop", "{measures}", "u_c", (
            "no more than {value} {measures} of {0} can be sold", "buyers take {0} from {value} {measures} at most",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("grow", CONTINUOUS, "x_{fc}", "{measures} of crop $c$ on {field} $f$",
                      "grow {1} on {value} {measures} of {field} {0}"),
            Variables("sow", BINARY, "y_{fc}", "1 if crop $c$ is grown on {field} $f$"),
            Variables("hire", CONTINUOUS, "z_t", "hours hired in season $t$", "hire {value} hours in {0}"),
        ),
        sense="maximize",
        goal=("contribution of all crops less wages", "{money}"),
        objective=(
            Term("margin", r"\sum_{f \in F} \sum_{c \in C} g_{fc} x_{fc}", (
                "The contribution of a crop is proportional to its area and depends on the {field}; hired labour has "
                "not been taken off.",
                "Every {measure} brings the contribution of its {field} and crop, before hired labour is paid.",
            )),
            Term("wages", r"-\sum_{t \in T} v_t z_t", (
                "Only hired hours are paid; own labour costs nothing extra.",
                "Wages are due for hired labour alone, not for the staff.",
            )),
        ),
        constraints=(
            Clause("land", r"\sum_{c \in C} x_{fc} \le a_f", r"f \in F", (
                "Several crops may share a {field}, and part of it may lie fallow.",
                "A {field} can be divided among crops within its area and need not be used in full.",
            )),
            Clause("sown", r"x_{fc} \le a_f y_{fc}", r"f \in F,\ c \in C", (
                "A crop either is grown on a {field} or takes up nothing of it.",
                "Land of a {field} is given only to crops chosen for it.",
            )),
            Clause("plot", r"x_{fc} \ge m y_{fc}", r"f \in F,\ c \in C", (
                "Where a crop is chosen for a {field}, it gets at least the least plot there.",
                "Plots smaller than the least plot are not worked, on any {field}.",
            )),
            Clause("rotation", r"y_{fc} = 0", r"f \in F,\ c \in C : b_f \in B_c", (
                "A crop must not be grown on a {field}, not even on part of it, if it may not follow last year's crop.",
                "Rotation is respected: what may not follow last year's crop of a {field} is not grown on it at all.",
            )),
            Clause("water", r"\sum_{f \in F} \sum_{c \in C} w_c x_{fc} \le W", "", (
                "All {fields} together share the {water}.",
                "The {water} has to suffice for all crops on all {fields}.",
            )),
            Clause("labour", r"\sum_{f \in F} \sum_{c \in C} h_{ct} x_{fc} \le L_t + z_t", r"t \in T", (
                "The work of each season is done by own and hired labour of the same season.",
                "In every season own and hired hours must cover the work of all crops; hours do not carry over.",
            )),
            Clause("hiring", r"z_t \le H_t", r"t \in T", (
                "The hours that can be hired in a season are limited.",
                "In no season can more hours be hired than are on offer.",
            )),
            Clause("market", r"\sum_{f \in F} x_{fc} \le u_c", r"c \in C", (
                "The area of each crop on all {fields} together is limited by its sales.",
                "Sales limit the area of a crop, over all {fields}.",
            )),
        ),
        integrality=(
            "Areas and hired hours may be any non-negative quantity; whether a crop is grown on a {field} is a "
            "yes-or-no decision.",
            "Whether a crop gets a plot on a {field} is yes or no; areas and hours may be fractional, not negative.",
        ),
        fixed=("which crops may follow which", "that a least plot holds for each crop on each {field}",
               "that labour is counted season by season"),
        mistakes=(
            Mistake("plots in parts", "m.sow = pyo.Var(fields, crops, domain=pyo.Binary)",
                    "m.sow = pyo.Var(fields, crops, bounds=(0, 1))"),
            Mistake("a least plot for every crop on every field", 'data["plot"] * m.sow[f, c]', 'data["plot"]'),
            Mistake("hired labour left out", '<= data["own_labour"][t] + m.hire[t]', '<= data["own_labour"][t]'),
            Mistake("fields have to be used in full", '<= data["area"][f])', '== data["area"][f])'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "{owner} plans next year's crops.",
        "For the coming year, {owner} divides its {fields} among several crops.",
        "At {owner}, land, water and labour are scarce, and the crops of the coming year have to be chosen.",
    ),
    questions=(
        "Which crops should be grown on which {fields}, and on how much land, for the largest contribution less wages?",
        "Find the cropping plan whose contribution less wages, in {money}, is as large as possible.",
        "Maximise the contribution of all crops after the wages of hired labour.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="allowed pairs only, and areas beyond the least plot",
)  # fmt: skip
