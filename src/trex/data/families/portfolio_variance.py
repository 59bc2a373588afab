"""Portfolio by variance: the least variance of the gain for a required expected gain, a convex quadratic program.

Markowitz's problem with Sharpe's factors: common factors move all choices, the rest of each one's risk is its own.
"""

import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data import exact_finance
from trex.data.contract import CONTINUOUS, FREE, Clause, Contract, Mistake, Term, Variables
from trex.data.exact import fraction
from trex.data.family import Family
from trex.data.problem import Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import PLACES, Names, Scenario, code, words

SIZES = {
    1: {"assets": (4, 6), "factors": (1, 2)},
    2: {"assets": (18, 28), "factors": (2, 3)},
    3: {"assets": (100, 120), "factors": (3, 3)},
    4: {"assets": (200, 230), "factors": (3, 4)},
}
SMALL = 30  # assets up to which the optimum is proved in fractions


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: the target lies below what the best choices bring when filled up to their limits.

    Every choice has a risk of its own, so that the variance is strictly convex. What responds more gains more.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    assets, factors = sets["assets"], sets["factors"]
    budget = 10 * rng.randint(4, 20)
    response = {a: {f: nice(rng.randint(-4, 16) / 10) for f in factors} for a in assets}
    mean = {
        a: nice(max(1, round(2 * (3 + 2 * sum(response[a].values()) / len(factors) + rng.uniform(-2, 3)))) / 2)
        for a in assets
    }
    limit = {a: max(2, math.ceil(budget * rng.uniform(1.6, 4) / min(len(assets), 20))) for a in assets}
    left, best = budget, 0.0
    for a in sorted(assets, key=mean.__getitem__, reverse=True):
        best += mean[a] * min(left, limit[a])
        left -= min(left, limit[a])
    even = sum(limit[a] * mean[a] for a in assets) * budget / sum(limit.values())
    return {
        **sets, "mean": mean, "response": response,
        "swing": {f: nice(rng.randint(2, 16) / 2) for f in factors},
        "own_risk": {a: nice(rng.randint(4, 40) / 2) for a in assets},
        "limit": limit, "budget": budget, "target": math.floor(even + rng.uniform(0.3, 0.8) * (best - even)),
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Amounts and exposures to the factors; the variance is a sum of squares."""
    assets, factors, response = data["assets"], data["factors"], data["response"]
    m = pyo.ConcreteModel()
    m.invest = pyo.Var(assets, domain=pyo.NonNegativeReals)
    m.exposure = pyo.Var(factors, domain=pyo.Reals)
    m.common_risk = pyo.Expression(expr=sum(data["swing"][f] * m.exposure[f] ** 2 for f in factors))
    m.specific_risk = pyo.Expression(expr=sum(data["own_risk"][a] * m.invest[a] ** 2 for a in assets))
    m.objective = pyo.Objective(expr=m.common_risk + m.specific_risk, sense=pyo.minimize)
    m.exposed = pyo.Constraint(
        factors, rule=lambda m, f: sum(response[a][f] * m.invest[a] for a in assets) == m.exposure[f]
    )
    m.budget = pyo.Constraint(expr=sum(m.invest[a] for a in assets) == data["budget"])
    m.target = pyo.Constraint(expr=sum(data["mean"][a] * m.invest[a] for a in assets) >= data["target"])
    m.limit = pyo.Constraint(assets, rule=lambda m, a: m.invest[a] <= data["limit"][a])
    return m


def reformulated(data: dict) -> gp.Model:
    """With the covariance of every pair and no exposures; the headroom below each limit instead of the amount."""
    assets, response, limit, mean = data["assets"], data["response"], data["limit"], data["mean"]
    m = gp.Model("covariances")
    room = m.addVars(assets, ub=limit, name="room")
    amount = {a: limit[a] - room[a] for a in assets}
    covariance = {
        (a, b): sum(response[a][f] * data["swing"][f] * response[b][f] for f in data["factors"])
        + (data["own_risk"][a] if a == b else 0)
        for a in assets
        for b in assets
    }
    m.setObjective(
        gp.quicksum(amount[a] * gp.quicksum(covariance[a, b] * amount[b] for b in assets) for a in assets),
        gp.GRB.MINIMIZE,
    )
    m.addConstr(room.sum() == sum(limit.values()) - data["budget"], name="not_used")
    forgone = sum(mean[a] * limit[a] for a in assets) - data["target"]
    m.addConstr(room.prod(mean) <= forgone, name="gain_forgone")
    return m


def optimum(data: dict) -> float | None:
    """By principal pivoting, proved in exact arithmetic; None for more than 30 assets."""
    assets, swing = data["assets"], {f: fraction(v) for f, v in data["swing"].items()}
    if len(assets) > SMALL:
        return None
    respond = {a: {f: fraction(v) for f, v in row.items()} for a, row in data["response"].items()}
    own = {a: fraction(v) for a, v in data["own_risk"].items()}
    covariance = [
        [sum(respond[a][f] * swing[f] * respond[b][f] for f in swing) + (own[a] if a == b else 0) for b in assets]
        for a in assets
    ]
    mean, limits = [data["mean"][a] for a in assets], [data["limit"][a] for a in assets]
    found = exact_finance.least_variance(covariance, mean, limits, data["budget"], data["target"])
    return None if found is None else float(found)


def _scenario(domain: str, business: str, assets: str, units: str, put: str, factor: str, gain: str, money: str,
              assets_named: Names, factors_named: str) -> Scenario:  # fmt: skip
    asset, unit = assets.removesuffix("s"), units if " " in units else units.removesuffix("s")
    told = {
        "business": business, "asset": asset, "assets": assets, "unit": unit, "units": units, "put": put,
        "factor": factor, "gain": gain, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"assets": assets_named, "factors": words(factors_named, "F")})


SCENARIOS = (
    _scenario("pensions", "pension fund", "shares", "million euros", "invested in", "market factor",
              "return", "ten thousand euros", code("S"), "market interest oil currency"),
    _scenario("insurance", "life insurer", "bonds", "million francs", "placed in", "risk factor", "yield",
              "ten thousand francs", code("B"), "interest credit inflation liquidity"),
    _scenario("agriculture", "farming cooperative", "fields", "hectares", "set aside for wheat on",
              "growing condition", "profit", "ten dollars", code("F"), "rain frost heat pests"),
    _scenario("energy", "wind farm developer", "sites", "megawatts", "built at", "weather factor", "revenue",
              "thousand euros", PLACES, "west-wind storms icing drought"),
    _scenario("retail", "fashion retailer", "collections", "thousand garments", "ordered from",
              "fashion factor", "profit", "thousand pounds", code("C"), "weather season income colour"),
    _scenario("venture capital", "venture fund", "start-ups", "million dollars", "put into",
              "business factor", "return", "ten thousand dollars", code("V"), "growth rates regulation talent"),
    _scenario("advertising", "media agency", "channels", "thousand dollars", "spent on", "audience factor",
              "profit", "ten dollars", code("K"), "holidays sports news weather"),
)  # fmt: skip

FAMILY = Family(
    title="Portfolio selection by variance, with common factors",
    area="finance",
    source="H. Markowitz, Portfolio selection, 1952; W. F. Sharpe, A simplified model for portfolio analysis, 1963",
    sizes=SIZES,
    sets=(
        IndexSet("assets", "{asset}", "{assets}", "a", "A"),
        IndexSet("factors", "{factor}", "{factor}s", "f", "F"),
    ),
    fields=(
        Field("mean", ("assets",), "expected {gain}", "{money} per {unit}", r"\mu_a", (
            "the expected {gain} of each {unit} {put} {0} is {value} {money}",
            "{0} is expected to bring {value} {money} per {unit}",
            "one {unit} {put} {0} has an expected {gain} of {value} {money}",
        )),
        Field("response", ("assets", "factors"), "response to a {factor}", "per {unit}", "b_{af}", (
            ("the response of each {unit} {put} {0} is", "{value} to {1}"),
            ("one {unit} {put} {0} responds with", "{value} to {1}"),
        )),
        Field("swing", ("factors",), "variance of the {factor}", "", "v_f", (
            "the {factor} {0} has a variance of {value}", "{0} has variance {value}",
            "the variance of the {factor} {0} is {value}",
        )),
        Field("own_risk", ("assets",), "specific variance", "per squared {unit}", "d_a", (
            "the specific variance of one {unit} {put} {0} is {value}",
            "{0} has a specific variance of {value} for one {unit}",
        )),
        Field("limit", ("assets",), "largest amount", "{units}", "l_a", (
            "at most {value} {units} may be {put} {0}", "no more than {value} {units} can be {put} {0}",
        )),
        Field("budget", (), "total amount", "{units}", "B", (
            "the {business} has {value} {units} to distribute",
            "in all, {value} {units} are to be distributed over the {assets}",
        )),
        Field("target", (), "least expected total {gain}", "{money}", "G", (
            "an expected total {gain} of at least {value} {money} is asked for",
            "the total {gain} must be expected to reach {value} {money} or more",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("invest", CONTINUOUS, "x_a", "{units} {put} $a$", "{value} {units} {put} {0}"),
            Variables("exposure", FREE, "y_f", "exposure of the whole plan to the {factor} $f$"),
        ),
        sense="minimize",
        goal=("variance of the total {gain}", ""),
        objective=(
            Term("common_risk", r"\sum_{f \in F} v_f y_f^2", (
                "Each {factor} contributes its variance times the square of the plan's exposure to it; the {factor}s "
                "are independent of each other, so these contributions add up.",
                "The {factor}s are uncorrelated: to the variance of the total, each one adds the square of the plan's "
                "exposure, multiplied by its variance.",
            )),
            Term("specific_risk", r"\sum_{a \in A} d_a x_a^2", (
                "Every {asset} also adds its specific variance times the square of the amount; specific risks are "
                "independent of everything else.",
                "Independent of all that, the specific variance of each {asset} counts with the square of the amount.",
            )),
        ),
        constraints=(
            Clause("exposed", r"\sum_{a \in A} b_{af} x_a = y_f", r"f \in F", (
                "The plan's exposure to a {factor} is the sum of the responses, each times its amount; it can have "
                "either sign.",
                "Exposure to a {factor} is the total over all {assets} of amount times response, and may be negative.",
            )),
            Clause("budget", r"\sum_{a \in A} x_a = B", "", (
                "The amounts have to add up exactly to the total.",
                "The whole amount has to be distributed: nothing may be left over, nothing borrowed.",
            )),
            Clause("target", r"\sum_{a \in A} \mu_a x_a \ge G", "", (
                "The expected total {gain}, in proportion to the amounts, must reach what is required.",
                "Expected {gain} is proportional to the amounts and adds up; its total must not be below the "
                "requirement.",
            )),
            Clause("limit", r"x_a \le l_a", r"a \in A", (
                "Each {asset} has an upper limit of its own.",
                "No {asset} may get more than its largest amount.",
            )),
        ),
        integrality=(
            "Amounts cannot be negative and need not be whole numbers.",
            "Amounts may be fractional but not negative.",
        ),
        fixed=("that the {factor}s are uncorrelated", "that the whole amount is distributed", "the required {gain}"),
        mistakes=(
            Mistake("standard deviation's linear shape instead of squares", "m.invest[a] ** 2", "m.invest[a]"),
            Mistake("exposures cannot be negative", "domain=pyo.Reals", "domain=pyo.NonNegativeReals"),
            Mistake("the amount need not be used up", '== data["budget"]', '<= data["budget"]'),
            Mistake("the target met exactly", '>= data["target"]', '== data["target"]'),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A {business} spreads its means over many {assets} and wants as little risk as possible.",
        "What the {assets} of a {business} bring is uncertain and moves with common {factor}s.",
        "The {business} has to divide a given total among {assets} whose results are random.",
    ),
    questions=(
        "How much should go to each of the {assets} so that the variance of the total {gain} is as small as possible?",
        "Find the plan whose total {gain} has the least variance.",
        "Minimise the variance of the total {gain}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="covariances of all pairs and the headroom below the limits, without exposures",
    optimum=optimum,
)  # fmt: skip
