"""Portfolio by mean absolute deviation: spread capital so that the gain varies little between scenarios of returns.

Konno and Yamazaki's linear model: no covariances, only what each choice brings in each scenario.
"""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import Names, Scenario, code, words

SIZES = {
    1: {"assets": (3, 5), "scenarios": (4, 5)},
    2: {"assets": (5, 7), "scenarios": (9, 14)},
    3: {"assets": (10, 12), "scenarios": (46, 50)},
    4: {"assets": (13, 15), "scenarios": (96, 100)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: the target lies below what the best choices bring when filled up to their limits.

    All gains share a common swing, so that no mixture is free of deviation.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    assets, scenarios = sets["assets"], sets["scenarios"]
    budget = 10 * rng.randint(4, 18)
    least = 500 // len(scenarios)  # thousandths: half the probability is spread evenly, half at random
    rest = 1000 - least * len(scenarios)
    cuts = sorted(rng.randint(0, rest) for _ in scenarios[1:])
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, rest], strict=True)]
    chance = {s: nice((least + part) / 1000) for s, part in zip(scenarios, parts, strict=True)}
    swing = {s: rng.uniform(-1, 1) for s in scenarios}
    gain, mean = {}, {}
    for a in assets:
        level, risk = rng.uniform(4, 16), rng.uniform(0.6, 1.4)
        outcome = {s: level + level * risk * (swing[s] + rng.uniform(-1, 1)) for s in scenarios}
        gain[a] = {s: nice(round(2 * outcome[s]) / 2) for s in scenarios}
        mean[a] = sum(chance[s] * gain[a][s] for s in scenarios)
    limit = {a: math.ceil(budget * rng.uniform(1.4, 2.6) / len(assets)) for a in assets}
    left, best = budget, 0.0
    for a in sorted(assets, key=mean.__getitem__, reverse=True):
        best += mean[a] * min(left, limit[a])
        left -= min(left, limit[a])
    even = sum(limit[a] * mean[a] for a in assets) * budget / sum(limit.values())
    target = math.floor(even + rng.uniform(0.3, 0.8) * (best - even))
    return {**sets, "gain": gain, "chance": chance, "limit": limit, "budget": budget, "target": target}


def model(data: dict) -> pyo.ConcreteModel:
    """Amounts, and the gain's deviation from its mean in each scenario, as a linear program."""
    assets, scenarios, chance = data["assets"], data["scenarios"], data["chance"]
    mean = {a: sum(chance[s] * data["gain"][a][s] for s in scenarios) for a in assets}
    m = pyo.ConcreteModel()
    m.invest = pyo.Var(assets, domain=pyo.NonNegativeReals)
    m.above = pyo.Var(scenarios, domain=pyo.NonNegativeReals)
    m.below = pyo.Var(scenarios, domain=pyo.NonNegativeReals)
    m.deviation = pyo.Expression(expr=sum(chance[s] * (m.above[s] + m.below[s]) for s in scenarios))
    m.objective = pyo.Objective(expr=m.deviation, sense=pyo.minimize)
    m.difference = pyo.Constraint(
        scenarios,
        rule=lambda m, s: sum((data["gain"][a][s] - mean[a]) * m.invest[a] for a in assets) == m.above[s] - m.below[s],
    )
    m.budget = pyo.Constraint(expr=sum(m.invest[a] for a in assets) == data["budget"])
    m.target = pyo.Constraint(expr=sum(mean[a] * m.invest[a] for a in assets) >= data["target"])
    m.limit = pyo.Constraint(assets, rule=lambda m, a: m.invest[a] <= data["limit"][a])
    return m


def reformulated(data: dict) -> gp.Model:
    """Twice the expected shortfall below the mean: what lies above it weighs as much as what lies below."""
    gain, chance = data["gain"], data["chance"]
    m = gp.Model("twice_the_shortfall")
    amount = m.addVars(data["assets"], ub=data["limit"], name="amount")
    expected = m.addVar(lb=data["target"], name="expected_gain")
    short = m.addVars(data["scenarios"], name="short")
    m.setObjective(2 * short.prod(chance), gp.GRB.MINIMIZE)
    m.addConstr(amount.sum() == data["budget"], name="all_of_it")
    outcome = {s: gp.quicksum(gain[a][s] * amount[a] for a in data["assets"]) for s in data["scenarios"]}
    m.addConstr(expected == gp.quicksum(chance[s] * outcome[s] for s in data["scenarios"]), name="mean")
    m.addConstrs((short[s] >= expected - outcome[s] for s in data["scenarios"]), name="short")
    return m


def _scenario(domain: str, business: str, asset: str, assets: str, unit: str, units: str, put: str, scenario: str,
              money: str, names: Names) -> Scenario:  # fmt: skip
    told = {
        "business": business, "asset": asset, "assets": assets, "unit": unit, "units": units, "put": put,
        "scenario": scenario, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"assets": names, "scenarios": code(scenario[0].upper())})


SCENARIOS = (
    _scenario("pensions", "pension fund", "fund", "funds", "million euros", "million euros", "invested in",
              "market scenario", "thousand euros", code("F")),
    _scenario("insurance", "mutual insurer", "class of assets", "classes of assets", "million francs", "million francs",
              "placed in", "scenario", "thousand francs", words(
                  "equities bonds property gold infrastructure forestry cash-deposits private-debt mortgages "
                  "commodities small-caps emerging-markets utilities covered-bonds railways", "A")),
    _scenario("agriculture", "farm", "crop", "crops", "hectare", "hectares", "sown with", "weather outlook",
              "hundred dollars", words(
                  "wheat barley rye oats maize soya rapeseed sunflowers potatoes beets lentils peas flax hemp lupins",
                  "C")),
    _scenario("fisheries", "fishing cooperative", "ground", "fishing grounds", "boat day", "boat days", "spent on",
              "season", "hundred crowns", code("G")),
    _scenario("film", "film studio", "genre", "genres", "million dollars", "million dollars", "put into",
              "box-office forecast", "hundred thousand dollars", words(
                  "comedy drama thriller western horror animation documentary musical romance fantasy "
                  "science-fiction biography adventure mystery family-films", "G")),
    _scenario("energy", "power trader", "contract type", "contract types", "million euros", "million euros",
              "committed to", "price path", "thousand euros", code("K")),
    _scenario("education", "university endowment", "holding", "holdings", "million pounds", "million pounds",
              "held in", "economic outlook", "thousand pounds", code("H")),
)  # fmt: skip

FAMILY = Family(
    title="Portfolio selection by mean absolute deviation",
    area="finance",
    source="H. Konno and H. Yamazaki, Mean-absolute deviation portfolio optimization model, 1991",
    sizes=SIZES,
    sets=(
        IndexSet("assets", "{asset}", "{assets}", "a", "A"),
        IndexSet("scenarios", "{scenario}", "{scenario}s", "s", "S"),
    ),
    fields=(
        Field("gain", ("assets", "scenarios"), "gain", "{money} per {unit}", "r_{as}", (
            ("each {unit} {put} {0} brings", "{value} {money} in {1}"),
            ("for {0}, the gain per {unit} in {money} is", "{value} in {1}"),
            ("one {unit} {put} {0} is reckoned to gain", "{value} {money} if {1} comes true"),
        )),
        Field("chance", ("scenarios",), "probability", "", "p_s", (
            "{scenario} {0} has a probability of {value}", "{0} comes true with probability {value}",
            "the probability of {0} is {value}",
        )),
        Field("limit", ("assets",), "largest amount", "{units}", "l_a", (
            "at most {value} {units} may be {put} {0}", "{0} is limited to {value} {units}",
            "no more than {value} {units} can be {put} {0}",
        )),
        Field("budget", (), "total amount", "{units}", "B", (
            "the {business} has {value} {units} to distribute",
            "in all, {value} {units} are to be distributed over the {assets}",
        )),
        Field("target", (), "least expected gain", "{money}", "G", (
            "the board asks for an expected total gain of at least {value} {money}",
            "on average over the {scenario}s, a total gain of at least {value} {money} is required",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("invest", CONTINUOUS, "x_a", "{units} {put} $a$", "{value} {units} {put} {0}"),
            Variables("above", CONTINUOUS, "u_s", "{money} by which the total gain in $s$ exceeds its expected value"),
            Variables("below", CONTINUOUS, "v_s", "{money} by which the total gain in $s$ is below its expected value"),
        ),
        sense="minimize",
        goal=("mean absolute deviation of the total gain", "{money}"),
        objective=(Term("deviation", r"\sum_{s \in S} p_s (u_s + v_s)", (
            "The risk is the mean absolute deviation: the distance of the total gain from its expected value, upwards "
            "or downwards, averaged over the {scenario}s with their probabilities.",
            "Risk is measured as the expected absolute difference, whatever its sign, between the total gain of a "
            "{scenario} and the expected total gain; probabilities are the weights.",
        )),),
        constraints=(
            Clause("difference", r"\sum_{a \in A} \Bigl(r_{as} - \sum_{q \in S} p_q r_{aq}\Bigr) x_a = u_s - v_s",
                   r"s \in S", (
                "The total gain in a {scenario} is the sum of what the {assets} bring in it, in proportion to the "
                "amounts; a negative gain is a loss. The expected gain weighs the {scenario}s by their probabilities.",
                "Gains are proportional to the amounts and add up over the {assets}, losses counting as negative; "
                "expected values are means over the {scenario}s, weighted by probability.",
            )),
            Clause("budget", r"\sum_{a \in A} x_a = B", "", (
                "The whole amount has to be distributed, no more and no less.",
                "Nothing may be left over: the amounts add up exactly to what there is to distribute.",
            )),
            Clause("target", r"\sum_{a \in A} \sum_{s \in S} p_s r_{as} x_a \ge G", "", (
                "The expected total gain must not fall short of what is required.",
                "The plan must reach at least the required total gain in expectation.",
            )),
            Clause("limit", r"x_a \le l_a", r"a \in A", (
                "Each {asset} has an upper limit of its own.",
                "No {asset} may get more than its largest amount.",
            )),
        ),
        integrality=(
            "Amounts cannot be negative and need not be whole numbers.",
            "Any fraction of a {unit} is allowed, but no negative amount.",
        ),
        fixed=("that deviations on both sides of the expected gain count", "that the whole amount is distributed",
               "the probabilities of the {scenario}s"),
        mistakes=(
            Mistake("only deviations below the mean", "(m.above[s] + m.below[s])", "m.below[s]"),
            Mistake("the amount need not be used up", '== data["budget"]', '<= data["budget"]'),
            Mistake("probabilities left out of the objective", "chance[s] * (m.above", "(m.above"),
            Mistake("deviation from zero instead of from the mean", '(data["gain"][a][s] - mean[a])',
                    'data["gain"][a][s]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A {business} spreads its means over several {assets} whose gains differ from {scenario} to {scenario}.",
        "The {business} does not know which {scenario} will come true and wants a mixture of {assets} that fits all.",
        "Several {assets} are open to a {business}; what they bring depends on the {scenario}.",
    ),
    questions=(
        "How much should go to each of the {assets} so that the mean absolute deviation is as small as possible?",
        "Find the distribution of least risk in this sense.",
        "Which amounts, in {units}, minimise the mean absolute deviation of the total gain in {money}?",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="twice the expected shortfall below the mean instead of deviations on both sides",
)  # fmt: skip
