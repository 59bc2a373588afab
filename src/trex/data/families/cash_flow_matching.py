"""Cash flow matching: bonds whose coupons and redemptions pay a series of liabilities, bought at least cost.

Also called dedication. Surplus cash earns interest from one year to the next; borrowing is not possible.
"""

import itertools
import math
import random

import pyomo.environ as pyo

import trex.solver.recorder as gp
from trex.data.contract import CONTINUOUS, Clause, Contract, Mistake, Term, Variables
from trex.data.family import Family
from trex.data.problem import LABEL, Field, IndexSet, Instance, draw_sets, nice
from trex.data.scenario import Names, Scenario, code

SIZES = {
    1: {"bonds": (4, 6), "years": (3, 4)},
    2: {"bonds": (14, 20), "years": (5, 8)},
    3: {"bonds": (85, 100), "years": (15, 18)},
    4: {"bonds": (180, 210), "years": (22, 26)},
}


def sample(rng: random.Random, difficulty: int) -> Instance:
    """Feasible by construction: the opening deposit may be as large as is needed.

    Prices are near the present value of the payments at a rate that rises with the years, so that bonds beat cash. No
    more of a bond is for sale than a fraction of what the liabilities of its last years need.
    """
    sets = draw_sets(rng, SIZES[difficulty])
    bonds, years = sets["bonds"], sets["years"]
    face = rng.choice((50, 100, 200))
    growth = nice(1 + rng.randint(2, 12) / 1000)
    liability = {t: 100 * rng.randint(10, 60) for t in years}
    last = {b: rng.randrange(len(years)) for b in bonds}
    for k, b in enumerate(rng.sample(bonds, min(len(bonds), len(years) - 1)), start=1):
        last[b] = k  # the years after the first have a bond each, as far as there are bonds
    coupon = {b: nice(face * rng.randint(4, 14) / 200) for b in bonds}
    price = {}
    for b in bonds:
        rate = 0.02 + 0.03 * last[b] / len(years) + rng.uniform(-0.004, 0.008)
        worth = sum(coupon[b] / (1 + rate) ** (k + 1) for k in range(last[b] + 1)) + face / (1 + rate) ** (last[b] + 1)
        price[b] = nice(round(2 * worth) / 2)
    pay = {b: math.ceil(liability[years[last[b]]] / face * rng.uniform(0.3, 0.9)) for b in bonds}
    return {
        **sets, "price": price, "coupon": coupon, "maturity": {b: years[last[b]] for b in bonds}, "available": pay,
        "liability": liability, "face": face, "growth": growth,
    }  # fmt: skip


def model(data: dict) -> pyo.ConcreteModel:
    """Numbers of bonds and balances of cash as a linear program."""
    bonds, years, growth = data["bonds"], data["years"], data["growth"]
    last = {b: years.index(data["maturity"][b]) for b in bonds}
    payment = {
        (b, t): data["coupon"][b] + (data["face"] if k == last[b] else 0)
        for b in bonds
        for k, t in enumerate(years)
        if k <= last[b]
    }
    m = pyo.ConcreteModel()
    m.buy = pyo.Var(bonds, domain=pyo.NonNegativeReals)
    m.deposit = pyo.Var(domain=pyo.NonNegativeReals)
    m.cash = pyo.Var(years, domain=pyo.NonNegativeReals)
    m.bond_cost = pyo.Expression(expr=sum(data["price"][b] * m.buy[b] for b in bonds))
    m.deposit_cost = pyo.Expression(expr=m.deposit)
    m.objective = pyo.Objective(expr=m.bond_cost + m.deposit_cost, sense=pyo.minimize)
    before = {t: m.cash[years[k - 1]] if k else m.deposit for k, t in enumerate(years)}
    m.balance = pyo.Constraint(
        years,
        rule=lambda m, t: (
            growth * before[t] + sum(payment[b, t] * m.buy[b] for b in bonds if (b, t) in payment)
            == data["liability"][t] + m.cash[t]
        ),
    )
    m.available = pyo.Constraint(bonds, rule=lambda m, b: m.buy[b] <= data["available"][b])
    return m


def reformulated(data: dict) -> gp.Model:
    """The dual program: what a payment in each year is worth today, and what the scarcity of each bond is worth."""
    years = data["years"]
    m = gp.Model("present_values")
    worth = m.addVars(years, name="worth")
    scarcity = m.addVars(data["bonds"], name="scarcity")
    m.setObjective(worth.prod(data["liability"]) - scarcity.prod(data["available"]), gp.GRB.MAXIMIZE)
    m.addConstr(data["growth"] * worth[years[0]] <= 1, name="today")
    for earlier, later in itertools.pairwise(years):
        m.addConstr(data["growth"] * worth[later] <= worth[earlier], name=f"keep[{earlier}]")
    for b in data["bonds"]:
        life = years[: years.index(data["maturity"][b]) + 1]
        value = data["coupon"][b] * gp.quicksum(worth[t] for t in life) + data["face"] * worth[life[-1]]
        m.addConstr(value - scarcity[b] <= data["price"][b], name=f"price[{b}]")
    return m


def _scenario(domain: str, business: str, bond: str, bonds: str, issuer: str, liability: str, money: str,
              bonds_named: Names) -> Scenario:  # fmt: skip
    told = {
        "business": business, "bond": bond, "bonds": bonds, "issuer": issuer, "liability": liability, "money": money,
    }  # fmt: skip
    return Scenario(domain, told, {"bonds": bonds_named, "years": Names(code="Y", order="first")})


SCENARIOS = (
    _scenario("pensions", "pension fund", "bond", "bonds", "the treasury", "pensions to be paid", "euros", code("B")),
    _scenario("insurance", "life insurer", "note", "notes", "several banks", "annuities due", "francs", code("N")),
    _scenario("public works", "city", "bond", "bonds", "neighbouring states", "instalments for a new bridge", "dollars",
              code("M")),
    _scenario("law", "court-appointed trustee", "bond", "bonds", "public issuers", "settlements to victims", "dollars",
              code("T")),
    _scenario("education", "scholarship foundation", "gilt", "gilts", "the government", "stipends promised", "pounds",
              code("G")),
    _scenario("nuclear power", "decommissioning fund", "debenture", "debentures", "utilities", "dismantling costs",
              "crowns", code("D")),
    _scenario("mining", "mining company", "corporate bond", "corporate bonds", "industrial firms",
              "costs of restoring a quarry", "dollars", code("C")),
)  # fmt: skip

FAMILY = Family(
    title="Matching liabilities with bonds",
    area="finance",
    source="G. Cornuéjols and R. Tütüncü, Optimization Methods in Finance, 2007",
    sizes=SIZES,
    sets=(
        IndexSet("bonds", "{bond}", "{bonds}", "b", "B"),
        IndexSet("years", "year", "years in their order", "t", "T"),
    ),
    fields=(
        Field("price", ("bonds",), "price today", "{money} each", "p_b", (
            "{bond} {0} costs {value} {money} today", "today's price of {0} is {value} {money}",
            "one {0} can be bought for {value} {money}",
        )),
        Field("coupon", ("bonds",), "yearly coupon", "{money} each", "c_b", (
            "the yearly coupon of {0} is {value} {money}", "one {0} pays a coupon of {value} {money} a year",
        )),
        Field("maturity", ("bonds",), "year of redemption", "", "m_b", (
            "{0} is redeemed in {value}", "the redemption of {0} falls into {value}", "{0} matures in {value}",
        ), kind=LABEL),
        Field("available", ("bonds",), "largest number for sale", "", "u_b", (
            "of {0}, no more than {value} are for sale", "at most {value} of {0} can be bought",
        )),
        Field("liability", ("years",), "amount to be paid", "{money}", "l_t", (
            "in {0}, {value} {money} have to be paid", "the amount due in {0} is {value} {money}",
            "{value} {money} fall due in {0}",
        )),
        Field("face", (), "redemption of one {bond}", "{money}", "f", (
            "every {bond} is redeemed at {value} {money}", "the redemption of one {bond}, whichever it is, brings "
            "{value} {money}",
        )),
        Field("growth", (), "growth of cash in a year", "factor", r"\gamma", (
            "cash kept for a year grows by the factor {value}", "the factor by which cash grows in a year is {value}",
        )),
    ),
    contract=Contract(
        variables=(
            Variables("buy", CONTINUOUS, "x_b", "number of {bond} $b$ that is bought", "buy {value} of {0}"),
            Variables("deposit", CONTINUOUS, "s_0", "{money} put aside as cash today",
                      "put aside {value} {money} today"),
            Variables("cash", CONTINUOUS, "s_t", "{money} of cash left after the payment of year $t$",
                      "{value} {money} of cash are left after {0}"),
        ),
        sense="minimize",
        goal=("total outlay today", "{money}"),
        objective=(
            Term("bond_cost", r"\sum_{b \in B} p_b x_b", (
                "The {bonds} are paid for today, at today's prices.", "All {bonds} are bought today.",
            )),
            Term("deposit_cost", "s_0", (
                "Besides {bonds}, any amount of cash can be put aside today; it is part of the outlay.",
                "Today's outlay consists of the {bonds} and of the cash that is put aside with them.",
            )),
        ),
        constraints=(
            Clause("balance", r"\gamma s_{t-1} + \sum_{b : m_b \ge t} (c_b + [m_b = t] f) x_b = l_t + s_t",
                   r"t \in T", (
                "In each year the cash of the year before, grown by its factor, and what the {bonds} pay must cover "
                "the amount due; the rest is kept as cash. Cash put aside today grows for a year before the first "
                "payment. A {bond} pays its coupon in every year up to that of its redemption, that one included, and "
                "nothing afterwards.",
                "The amounts due are paid out of coupons, redemptions and cash; nothing can be borrowed, and what is "
                "left is kept as cash for the next year and grows. This also holds for today's cash, whose first year "
                "ends with the first payment. Coupons are paid each year from the first on, for the last time in the "
                "year of redemption.",
            )),
            Clause("available", r"x_b \le u_b", r"b \in B", (
                "Of no {bond} can more be bought than is for sale.",
                "The number bought of each {bond} is limited by what is for sale.",
            )),
        ),
        integrality=(
            "Numbers of {bonds} and amounts of cash cannot be negative and need not be whole.",
            "Parts of a {bond} can be bought; no quantity may be negative.",
        ),
        fixed=("that every amount due is paid in its year", "that nothing can be borrowed",
               "the year in which each {bond} is redeemed"),
        mistakes=(
            Mistake("no redemption", 'data["face"] if k == last[b] else 0', "0"),
            Mistake("coupons also after redemption", "if k <= last[b]", "if k <= len(years)"),
            Mistake("no coupon in the last year", "if k <= last[b]", "if k <= last[b] and k != last[b]"),
            Mistake("cash does not grow", "growth * before[t]", "before[t]"),
        ),
    ),
    scenarios=SCENARIOS,
    settings=(
        "A {business} wants to be sure of future payments ({liability}) and buys {bonds} of {issuer} today.",
        "Payments of a known size ({liability}) lie ahead of a {business}; {bonds} of {issuer} are to pay for them.",
        "Today a {business} sets up a portfolio of {bonds}, issued by {issuer}, that pays for {liability}.",
    ),
    questions=(
        "How many of each of the {bonds} should be bought so that the total outlay today is as small as possible?",
        "Find the cheapest way to make all payments certain.",
        "Minimise today's outlay for {bonds} and cash, in {money}.",
    ),
    sample=sample,
    model=model,
    reformulated=reformulated,
    other_form="the dual linear program",
)  # fmt: skip
