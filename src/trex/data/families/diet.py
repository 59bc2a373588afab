"""Diet: feed several groups from common stocks, within limits on nutrients, at least cost (Stigler's problem)."""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import Scenario, words

SIZES = {
    1: {"foods": (4, 5), "nutrients": (2, 2), "groups": (2, 2)},
    2: {"foods": (7, 9), "nutrients": (3, 4), "groups": (3, 4)},
    3: {"foods": (17, 20), "nutrients": (4, 5), "groups": (6, 7)},
    4: {"foods": (25, 30), "nutrients": (5, 6), "groups": (9, 10)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: limits on nutrients and stocks leave room for a random ration of every group.

    What is cheap is rich in the last nutrient, whose maximum is tight; the minima of the others are.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    foods, nutrients, groups = sets["foods"], sets["nutrients"], sets["groups"]
    content = {f: {n: rng.randint(1, 24) for n in nutrients} for f in foods}
    *good, bad = nutrients
    price = {}
    for f in foods:
        worth = sum(content[f][n] for n in good) / len(good) + 24 - content[f][bad]
        price[f] = nice(max(1, round(worth * rng.uniform(0.6, 1.4))) * 0.5)
    ration = {g: {f: rng.choice((0, 0, 5, 10, 15, 20)) for f in foods} for g in groups}
    for g in groups:
        ration[g][rng.choice(foods)] += 10
    least: dict[str, dict[str, int]] = {g: {} for g in groups}
    most: dict[str, dict[str, int]] = {g: {} for g in groups}
    for g in groups:
        for n in nutrients:
            amount = sum(content[f][n] * ration[g][f] for f in foods)
            share = rng.uniform(0.4, 0.7) if n == bad else rng.uniform(0.9, 1.0)
            least[g][n] = 10 * math.floor(amount * share / 10)
            most[g][n] = 10 * math.ceil(amount * rng.uniform(1.0, 1.1) / 10)
    stock = {f: sum(ration[g][f] for g in groups) + rng.randint(2, 10) for f in foods}
    return {**sets, "price": price, "stock": stock, "content": content, "least": least, "most": most}


def model(data: dict) -> pyo.ConcreteModel:
    """Cheapest rations as a linear program."""
    foods, nutrients, groups = data["foods"], data["nutrients"], data["groups"]
    m = pyo.ConcreteModel()
    m.feed = pyo.Var(foods, groups, domain=pyo.NonNegativeReals)
    m.purchase = pyo.Expression(expr=sum(data["price"][f] * m.feed[f, g] for f in foods for g in groups))
    m.objective = pyo.Objective(expr=m.purchase, sense=pyo.minimize)
    intake = {(g, n): sum(data["content"][f][n] * m.feed[f, g] for f in foods) for g in groups for n in nutrients}
    m.least = pyo.Constraint(groups, nutrients, rule=lambda m, g, n: intake[g, n] >= data["least"][g][n])
    m.most = pyo.Constraint(groups, nutrients, rule=lambda m, g, n: intake[g, n] <= data["most"][g][n])
    m.stock = pyo.Constraint(foods, rule=lambda m, f: sum(m.feed[f, g] for g in groups) <= data["stock"][f])
    return m


def reformulated(data: dict) -> gp.Model:
    """The dual program: what a pill maker can charge for nutrients. Equal optimum by strong duality."""
    m = gp.Model("diet_dual")
    worth = m.addVars(data["groups"], data["nutrients"], name="worth")
    fine = m.addVars(data["groups"], data["nutrients"], name="fine")
    rent = m.addVars(data["foods"], name="rent")
    m.setObjective(
        gp.quicksum(
            data["least"][g][n] * worth[g, n] - data["most"][g][n] * fine[g, n]
            for g in data["groups"]
            for n in data["nutrients"]
        )
        - rent.prod(data["stock"]),
        gp.GRB.MAXIMIZE,
    )
    for f, contents in data["content"].items():
        for g in data["groups"]:
            earned = gp.quicksum(amount * (worth[g, n] - fine[g, n]) for n, amount in contents.items())
            m.addConstr(earned - rent[f] <= data["price"][f], name=f"food[{f},{g}]")
    return m


def _scenario(domain: str, place: str, food: str, foods: str, group: str, groups: str, unit: str, money: str,
              food_names: str, nutrient_names: str, group_names: str) -> Scenario:  # fmt: skip
    told = {
        "place": place, "food": food, "foods": foods, "group": group, "groups": groups, "unit": unit,
        "units": unit + "s", "money": money,
    }  # fmt: skip
    names = {
        "foods": words(food_names, "F"),
        "nutrients": words(nutrient_names, "N"),
        "groups": words(group_names, "G"),
    }
    return Scenario(domain, told, names)


_FEEDS = (
    "barley oats maize wheat-bran soya-meal hay silage beet-pulp rapeseed-meal peas lupins molasses straw "
    "linseed-cake sunflower-meal malt-germs alfalfa rye triticale grass-pellets whey-powder brewers-grains"
)
_MEALS = (
    "rice pasta bread potatoes lentils beans chicken trout eggs milk cheese yoghurt carrots spinach cabbage apples "
    "bananas oats tofu pork beef peas"
)
_BODY = "protein iron calcium fibre zinc magnesium"
_FARM = "protein fibre calcium phosphorus lysine starch"

SCENARIOS = (
    _scenario("farming", "mixed farm", "feed", "feeds", "herd", "herds", "kilogram", "euros", _FEEDS, _FARM,
              "heifers dairy-cows bulls calves ewes lambs goats sows piglets horses"),
    _scenario("catering", "school kitchen", "food", "foods", "school", "schools", "kilogram", "pounds", _MEALS, _BODY,
              "Northfield Southgate Eastbrook Westhill Millpond Oakdene Riverside Parkway Highbury Lakeside"),
    _scenario("health", "hospital kitchen", "food", "foods", "ward", "wards", "kilogram", "francs", _MEALS, _BODY,
              "surgery cardiology oncology paediatrics neurology geriatrics urology maternity orthopaedics burns"),
    _scenario("zoos", "zoo", "feed", "feeds", "enclosure", "enclosures", "kilogram", "dollars",
              "hay apples carrots lettuce maize bananas sweet-potatoes herring mackerel beef chicken eggs pellets "
              "browse oats bran beets spinach melons peas", _BODY,
              "bears lemurs tapirs zebras camels otters baboons bison seals parrots"),
    _scenario("fish farming", "fish farm", "feed ingredient", "feed ingredients", "pond", "ponds", "kilogram", "euros",
              "fish-meal soya-meal wheat-flour krill-meal algae maize-gluten rapeseed-oil fish-oil yeast pea-protein "
              "blood-meal feather-meal", _FARM, "trout carp salmon perch tilapia sturgeon char eel pike tench"),
    _scenario("expeditions", "polar expedition", "provision", "provisions", "party", "parties", "kilogram", "dollars",
              "pemmican biscuits chocolate butter oatmeal raisins almonds cheese salami rice pasta milk-powder sugar "
              "lentils", _BODY, "base-camp traverse drilling-team divers geologists pilots radio-team advance-party"),
    _scenario("crop nutrition", "greenhouse company", "fertiliser", "fertilisers", "house", "houses", "litre", "euros",
              "urea-solution potash-lye bone-extract seaweed-extract fish-emulsion nettle-broth nitrate-mix "
              "phosphate-mix compost-tea vinasse lime-milk gypsum-slurry",
              "nitrogen potassium phosphorus sulphur boron manganese",
              "tomatoes cucumbers peppers roses lettuce orchids aubergines basil melons strawberries"),
)  # fmt: skip

FAMILY = Family(
    title="Diet of several groups from common stocks",
    area="blending",
    source="G. J. Stigler, The cost of subsistence, 1945",
    sizes=SIZES,
    sets=(
        IndexSet("foods", "{food}", "{foods}", "f", "F"),
        IndexSet("nutrients", "nutrient", "nutrients", "n", "N"),
        IndexSet("groups", "{group}", "{groups}", "g", "G"),
    ),
    fields=(
        Field("price", ("foods",), "price", "{money} per {unit}", "p_f", (
            "one {unit} of {0} costs {value} {money}", "a {unit} of {0} is bought at {value} {money}",
            "the price of {0} is {value} {money} per {unit}",
        )),
        Field("stock", ("foods",), "largest purchase per day", "{units}", "s_f", (
            "at most {value} {units} of {0} can be bought per day", "the dealer has {value} {units} of {0} a day",
            "the daily supply of {0} is {value} {units}",
        )),
        Field("content", ("foods", "nutrients"), "nutrient content", "grams per {unit}", "a_{fn}", (
            ("one {unit} of {0} contains, in grams,", "{value} of {1}"),
            ("in a {unit} of {0} there are", "{value} grams of {1}"),
            ("each {unit} of {0} provides", "{value} grams of {1}"),
        )),
        Field("least", ("groups", "nutrients"), "least daily amount", "grams", "l_{gn}", (
            ("the {group} {0} needs per day at least", "{value} grams of {1}"),
            ("for {0} the daily minimum, in grams, is", "{value} of {1}"),
        )),
        Field("most", ("groups", "nutrients"), "largest daily amount", "grams", "u_{gn}", (
            ("the {group} {0} may get per day at most", "{value} grams of {1}"),
            ("for {0} the daily maximum, in grams, is", "{value} of {1}"),
        )),
    ),
    contract=Contract(
        variables=(Variables("feed", CONTINUOUS, "x_{fg}", "{units} of {food} $f$ given to {group} $g$ per day",
                             "{0} to {1}: {value} {units}"),),
        sense="minimize",
        goal=("daily cost of all rations", "{money}"),
        objective=(Term("purchase", r"\sum_{f \in F} \sum_{g \in G} p_f x_{fg}", (
            "What is given out is paid for by the {unit}, at the same price for every {group}.",
            "The cost is the price in {money} per {unit} times the quantity given out, over all {groups}.",
        )),),
        constraints=(
            Clause("least", r"\sum_{f \in F} a_{fn} x_{fg} \ge l_{gn}", r"g \in G,\ n \in N", (
                "The ration of each {group} must contain at least the minimum of every nutrient; minima and maxima "
                "are for the {group} as a whole.",
                "Of no nutrient may a {group} as a whole get less than its daily minimum.",
            )),
            Clause("most", r"\sum_{f \in F} a_{fn} x_{fg} \le u_{gn}", r"g \in G,\ n \in N", (
                "The ration of a {group} as a whole may not contain more of a nutrient than its maximum.",
                "The maximum of each nutrient must not be exceeded in the ration of any {group} as a whole.",
            )),
            Clause("stock", r"\sum_{g \in G} x_{fg} \le s_f", r"f \in F", (
                "The daily supply of each {food} is shared by all {groups}.",
                "All {groups} together cannot get more of a {food} than can be bought in a day.",
            )),
        ),
        integrality=(
            "Quantities are measured in {units}, cannot be negative and need not be whole numbers.",
            "Any non-negative quantity is possible, also fractions of a {unit}.",
        ),
        fixed=("that minima and maxima hold for each {group} by itself", "that all {groups} share one supply"),
        mistakes=(
            Mistake("minimum as a maximum", 'intake[g, n] >= data["least"][g][n]',
                    'intake[g, n] <= data["least"][g][n]'),
            Mistake("nutrients have to meet the minimum exactly", 'intake[g, n] >= data["least"][g][n]',
                    'intake[g, n] == data["least"][g][n]'),
            Mistake("the supply for each group by itself",
                    "m.stock = pyo.Constraint(foods, rule=lambda m, f: sum(m.feed[f, g] for g in groups) <=",
                    "m.stock = pyo.Constraint(foods, groups, rule=lambda m, f, g: m.feed[f, g] <="),
            Mistake("whole units only", "domain=pyo.NonNegativeReals", "domain=pyo.NonNegativeIntegers"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A {place} buys {foods} every day and makes up a ration for each of its {groups}.",
        "At a {place}, the daily rations of several {groups} are put together from the same {foods}.",
        "The manager of a {place} decides each day which {foods} go to which {group}.",
    ),
    questions=(
        "How many {units} of each {food} should each {group} get so that the daily cost is as small as possible?",
        "Find the rations of least total cost.",
        "Determine the daily quantities that minimise the total cost in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the dual linear program",
)  # fmt: skip
