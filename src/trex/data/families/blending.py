"""Blending: mix components into blends that keep within quality limits, for the largest profit.

Qualities blend in proportion to quantity, so that a limit on a blend's average, times its quantity, is linear.
"""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import Scenario, words

SIZES = {
    1: {"components": (3, 4), "blends": (2, 2), "qualities": (1, 2)},
    2: {"components": (6, 7), "blends": (4, 5), "qualities": (2, 2)},
    3: {"components": (13, 15), "blends": (8, 9), "qualities": (3, 3)},
    4: {"components": (18, 22), "blends": (12, 14), "qualities": (4, 4)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: limits, orders and markets leave room for a random recipe of every blend.

    Components with good qualities cost more, and blends sell above the cost of that recipe.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    components, blends, qualities = sets["components"], sets["blends"], sets["qualities"]
    quality = {c: {q: rng.randint(5, 60) for q in qualities} for c in components}
    cost = {}
    for c in components:
        average = sum(quality[c].values()) / len(qualities)
        cost[c] = nice(max(4, round((90 - average) * rng.uniform(0.8, 1.2))) * 0.5)
    recipe = {b: dict.fromkeys(components, 0) for b in blends}
    for b in blends:
        for c in rng.sample(components, min(len(components), rng.randint(2, 4))):
            recipe[b][c] = 5 * rng.randint(2, 12)
    most: dict[str, dict[str, int]] = {b: {} for b in blends}
    price, order, market = {}, {}, {}
    for b in blends:
        amount = sum(recipe[b].values())
        for q in qualities:
            most[b][q] = math.ceil(sum(quality[c][q] * recipe[b][c] for c in components) / amount)
        paid = sum(cost[c] * recipe[b][c] for c in components) / amount
        price[b] = nice(round(2 * paid * rng.uniform(0.9, 1.35)) * 0.5)
        order[b] = 5 * math.floor(amount * rng.uniform(0.5, 0.9) / 5)
        market[b] = 5 * math.ceil(amount * rng.uniform(1.05, 1.5) / 5)
    available = {c: sum(recipe[b][c] for b in blends) + 5 * rng.randint(1, 6) for c in components}
    return {
        **sets, "cost": cost, "available": available, "quality": quality, "most": most, "price": price, "order": order,
        "market": market,
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Quantities of every component in every blend, as a linear program."""
    components, blends, qualities = data["components"], data["blends"], data["qualities"]
    m = pyo.ConcreteModel()
    m.mix = pyo.Var(components, blends, domain=pyo.NonNegativeReals)
    m.revenue = pyo.Expression(expr=sum(data["price"][b] * m.mix[c, b] for c in components for b in blends))
    m.purchase = pyo.Expression(expr=sum(-data["cost"][c] * m.mix[c, b] for c in components for b in blends))
    m.objective = pyo.Objective(expr=m.revenue + m.purchase, sense=pyo.maximize)
    m.available = pyo.Constraint(components, rule=lambda m, c: sum(m.mix[c, b] for b in blends) <= data["available"][c])
    m.order = pyo.Constraint(blends, rule=lambda m, b: sum(m.mix[c, b] for c in components) >= data["order"][b])
    m.market = pyo.Constraint(blends, rule=lambda m, b: sum(m.mix[c, b] for c in components) <= data["market"][b])
    m.quality = pyo.Constraint(
        blends,
        qualities,
        rule=lambda m, b, q: sum((data["quality"][c][q] - data["most"][b][q]) * m.mix[c, b] for c in components) <= 0,
    )
    return m


def reformulated(data: dict) -> gp.Model:
    """With the quantity of each blend, and of each quality in it, as variables that rows tie to the recipe."""
    m = gp.Model("blend_totals")
    part = m.addVars(data["blends"], data["components"], name="part")
    total = m.addVars(data["blends"], lb=data["order"], ub=data["market"], name="total")
    carried = m.addVars(data["blends"], data["qualities"], name="carried")
    bought = m.addVars(data["components"], ub=data["available"], name="bought")
    m.setObjective(total.prod(data["price"]) - bought.prod(data["cost"]), gp.GRB.MAXIMIZE)
    m.addConstrs((part.sum(b, "*") == total[b] for b in data["blends"]), name="made")
    m.addConstrs((part.sum("*", c) == bought[c] for c in data["components"]), name="used")
    for b, limits in data["most"].items():
        for q, limit in limits.items():
            brought = gp.quicksum(data["quality"][c][q] * part[b, c] for c in data["components"])
            m.addConstr(carried[b, q] == brought, name=f"carried[{b},{q}]")
            m.addConstr(carried[b, q] <= limit * total[b], name=f"limit[{b},{q}]")
    return m


def _scenario(domain: str, place: str, component: str, components: str, blend: str, blends: str, unit: str,
              money: str, component_names: str, blend_names: str, quality_names: str,
              mass: str = "kilograms") -> Scenario:  # fmt: skip
    told = {
        "place": place, "component": component, "components": components, "blend": blend, "blends": blends,
        "unit": unit, "units": unit + "s", "money": money, "mass": mass,
    }  # fmt: skip
    names = {
        "components": words(component_names, "C"), "blends": words(blend_names, "B"),
        "qualities": words(quality_names, "Q"),
    }  # fmt: skip
    return Scenario(domain, told, names)


SCENARIOS = (
    _scenario("refining", "refinery", "stream", "streams", "fuel", "fuels", "tonne", "dollars",
              "naphtha reformate alkylate isomerate butane kerosene raffinate gas-oil light-crude toluene "
              "cracked-spirit platformate pentane vacuum-residue",
              "regular premium super jet marine heating farm-diesel racing",
              "sulphur benzene olefins aromatics", "grams"),
    _scenario("metals", "foundry", "charge material", "charge materials", "alloy", "alloys", "tonne", "euros",
              "pig-iron shavings old-rails sheet-scrap castings wire-scrap briquettes ingots turnings dross plate-ends "
              "pipe-scrap", "grey ductile tool spring bearing hull boiler rail axle", "carbon phosphorus sulphur tin",
              "grams"),
    _scenario("coal", "coal terminal", "coal", "coals", "mixture", "mixtures", "tonne", "dollars",
              "Alder Birch Cedar Elm Fir Hazel Juniper Larch Maple Oak Pine Rowan Spruce Walnut Willow",
              "steam coking export cement sugar-works domestic briquette foundry", "ash sulphur moisture chlorine"),
    _scenario("wine", "winery", "base wine", "base wines", "cuvée", "cuvées", "hectolitre", "euros",
              "hill-plot river-plot old-vines young-vines south-slope terrace gravel-plot chalk-plot cask-lot "
              "press-lot late-harvest north-slope", "classic reserve estate village table festival cellar harvest",
              "acid sulphite sediment tannin", "grams"),
    _scenario("animal feed", "feed mill", "raw material", "raw materials", "feed", "feeds", "tonne", "pounds",
              "barley bran maize lupins hulls molasses gluten middlings oats rapeseed-cake beet-pulp sorghum",
              "starter grower finisher layer lamb calf pony game", "fibre ash salt fat"),
    _scenario("paper", "paper mill", "pulp", "pulps", "grade", "grades", "tonne", "francs",
              "birch-pulp pine-pulp eucalyptus newsprint-waste office-waste board-waste straw-pulp rags kraft-pulp "
              "groundwood bagasse cotton-linters", "copy magazine book poster carton label sack tissue-base",
              "specks ash lignin fines"),
    _scenario("cement", "cement works", "mineral", "minerals", "binder", "binders", "tonne", "euros",
              "clinker slag fly-ash limestone pozzolan gypsum trass silica-fume burnt-clay chalk marl kiln-dust",
              "rapid standard low-heat marine masonry tunnel screed road", "chloride alkali sulphate magnesia"),
)  # fmt: skip

FAMILY = Family(
    title="Blending within quality limits",
    area="blending",
    source="A. Charnes, W. W. Cooper and B. Mellon, Blending aviation gasolines, 1952",
    sizes=SIZES,
    sets=(
        IndexSet("components", "{component}", "{components}", "c", "C"),
        IndexSet("blends", "{blend}", "{blends}", "b", "B"),
        IndexSet("qualities", "property", "properties", "q", "Q"),
    ),
    fields=(
        Field("cost", ("components",), "purchase price", "{money} per {unit}", "k_c", (
            "a {unit} of {0} costs {value} {money}", "{0} is bought at {value} {money} per {unit}",
            "the purchase price of {0} is {value} {money} per {unit}",
        )),
        Field("available", ("components",), "available", "{units}", "a_c", (
            "{value} {units} of {0} are available", "of {0} there are {value} {units}",
            "at most {value} {units} of {0} can be bought",
        )),
        Field("quality", ("components", "qualities"), "content", "{mass} per {unit}", "e_{cq}", (
            ("a {unit} of {0} contains", "{value} {mass} of {1}"),
            ("the laboratory found in each {unit} of {0}", "{value} {mass} of {1}"),
            ("{0} brings, in {mass} per {unit},", "{value} of {1}"),
        )),
        Field("most", ("blends", "qualities"), "largest average content", "{mass} per {unit}", "u_{bq}", (
            ("on average, a {unit} of {0} may contain at most", "{value} {mass} of {1}"),
            ("the specification of {0} allows, in {mass} per {unit},", "up to {value} of {1}"),
        )),
        Field("price", ("blends",), "selling price", "{money} per {unit}", "p_b", (
            "a {unit} of {0} sells for {value} {money}", "{0} brings {value} {money} per {unit}",
            "customers pay {value} {money} per {unit} of {0}",
        )),
        Field("order", ("blends",), "ordered", "{units}", "l_b", (
            "{value} {units} of {0} are on order", "contracts oblige to deliver at least {value} {units} of {0}",
            "firm orders for {0} amount to {value} {units}",
        )),
        Field("market", ("blends",), "largest sales", "{units}", "m_b", (
            "no more than {value} {units} of {0} can be sold", "the market takes up to {value} {units} of {0} in all",
            "sales of {0}, orders included, are limited to {value} {units}",
        )),
    ),
    contract=Contract(
        variables=(Variables("mix", CONTINUOUS, "x_{cb}", "{units} of {component} $c$ put into {blend} $b$",
                             "{value} {units} of {0} go into {1}"),),
        sense="maximize",
        goal=("profit", "{money}"),
        objective=(
            Term("revenue", r"\sum_{c \in C} \sum_{b \in B} p_b x_{cb}", (
                "Everything that is blended is sold, at the selling price of the {blend}.",
                "Revenue is the selling price times the quantity made of each {blend}; all of it is sold.",
            )),
            Term("purchase", r"-\sum_{c \in C} \sum_{b \in B} k_c x_{cb}", (
                "Only what is put into {blends} is paid for, at its purchase price; blending itself costs nothing.",
                "The costs are the purchase prices of the {components} used and nothing else.",
            )),
        ),
        constraints=(
            Clause("available", r"\sum_{b \in B} x_{cb} \le a_c", r"c \in C", (
                "All {blends} together cannot use more of any {component} than is available.",
                "What is used of a {component}, over all {blends}, is limited to what is available.",
            )),
            Clause("order", r"\sum_{c \in C} x_{cb} \ge l_b", r"b \in B", (
                "The orders for every {blend} must be filled in full.",
                "Of each {blend} at least the quantity on order has to be made.",
            )),
            Clause("market", r"\sum_{c \in C} x_{cb} \le m_b", r"b \in B", (
                "No more of a {blend} may be made than can be sold.",
                "The largest sales limit what is made of each {blend}.",
            )),
            Clause("quality", r"\sum_{c \in C} (e_{cq} - u_{bq}) x_{cb} \le 0", r"b \in B,\ q \in Q", (
                "Contents mix in proportion to quantity: the average over what is put into a {blend} must stay within "
                "the limit of every property.",
                "The content of a {blend} is the average of its {components}, weighted by quantity, and no property "
                "may exceed its limit.",
            )),
        ),
        integrality=(
            "Quantities are measured in {units}, cannot be negative and need not be whole numbers; the quantity "
            "of a {blend} is the sum of what is put into it, for nothing is lost.",
            "Any fraction of a {unit} can be blended, and what goes into a {blend} comes out of it without loss; "
            "negative quantities are impossible.",
        ),
        fixed=("that limits hold for the average of each {blend}", "that orders are filled",
               "that contents mix in proportion to quantity"),
        mistakes=(
            Mistake("limits for the sum of contents instead of the average",
                    '(data["quality"][c][q] - data["most"][b][q]) * m.mix[c, b] for c in components) <= 0',
                    'data["quality"][c][q] * m.mix[c, b] for c in components) <= data["most"][b][q]'),
            Mistake("limits for each component by itself",
                    "qualities,\n        rule=lambda m, b, q: sum((data[\"quality\"][c][q] - data[\"most\"][b][q]) * "
                    "m.mix[c, b] for c in components)",
                    "qualities, components,\n        rule=lambda m, b, q, c: (data[\"quality\"][c][q] - "
                    "data[\"most\"][b][q]) * m.mix[c, b]"),
            Mistake("orders as an upper limit", '>= data["order"][b]', '<= data["order"][b]'),
            Mistake("the price of the purchase added to the profit", '-data["cost"][c]', 'data["cost"][c]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A {place} mixes {components} into {blends}.",
        "From the {components} at hand, a {place} makes {blends} that differ in price and specification.",
        "The blending plan of a {place} says how much of each {component} goes into each of its {blends}.",
    ),
    questions=(
        "Which blending plan brings the largest profit, revenue less purchases?",
        "How many {units} of each {component} should go into each {blend} so that revenue minus purchase cost is as "
        "large as possible?",
        "Maximise the profit in {money}: revenue from the {blends} less the cost of the {components} used.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="totals of blends, purchases and contents as variables of their own",
)  # fmt: skip
