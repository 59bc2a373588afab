"""Knapsack: choose items of largest total value within one or two limits, each item whole or not at all."""

import math
from collections.abc import Iterator

import pyomo.environ as pyo

from trex.data import exact
from trex.data.matrix import Matrix
from trex.data.problem import Field, IndexSet, Problem, Story, generator, listing, nice, sentence
from trex.solver.model import Model

SIZES = {1: (6, 9), 2: (14, 20), 3: (90, 110)}  # items
LIMITS = {1: 1, 2: 2, 3: 2}
# what is filled, item, items, code letter, resources with units, what counts, its unit
THEMES: tuple[tuple[str, str, str, str, dict[str, str], str, str], ...] = (
    ("a cargo aircraft", "crate", "crates", "C", {"weight": "kg", "floor_area": "m²"}, "revenue", "hundred euros"),
    ("a research satellite", "instrument", "instruments", "S", {"mass": "kg", "power": "W"}, "science score", "points"),
    (
        "next year's investment plan", "project", "projects", "P",
        {"budget": "thousand euros", "staff": "person-months"}, "net present value", "thousand euros",
    ),
    ("a compute cluster's night run", "job", "jobs", "J", {"memory": "GB", "compute": "cores"}, "priority", "points"),
    ("a relief convoy", "pallet", "pallets", "R", {"load": "hundred kg", "volume": "m³"}, "benefit", "points"),
    (
        "a museum's new hall", "exhibit", "exhibits", "E",
        {"floor_area": "m²", "lighting": "lamps"}, "expected attendance", "hundred visitors",
    ),
    (
        "a hospital's purchase", "device", "devices", "D",
        {"budget": "thousand euros", "floor_area": "m²"}, "benefit", "points",
    ),
    (
        "an evening of television advertising", "spot", "spots", "T",
        {"airtime": "seconds", "studio_time": "hours"}, "fee", "thousand euros",
    ),
)  # fmt: skip


def sample(seed: int, difficulty: int) -> Problem:
    """Every item fits alone and all together never do: the limits are 35 to 55 % of what all items would use."""
    rng = generator("knapsack", seed, difficulty)
    container, item, items_word, letter, resources, gain, gain_unit = rng.choice(THEMES)
    keys = rng.sample(list(resources), LIMITS[difficulty])
    words = {"container": container, "item": item, "items": items_word, "gain": gain, "gain_unit": gain_unit}
    words |= {key: resources[key] for key in keys}
    first = rng.randint(1, 40)
    items = [f"{letter}{number:02d}" for number in range(first, first + rng.randint(*SIZES[difficulty]))]
    use = {i: {r: rng.randint(2, 15) for r in keys} for i in items}
    # values follow the amounts used with noise, so that the best choice is not plain to see
    value = {i: max(2, sum(use[i].values()) + rng.randint(-4, 8)) for i in items}
    totals = {r: sum(use[i][r] for i in items) for r in keys}
    share = rng.uniform(0.35, 0.55)
    limit = {r: max(math.floor(totals[r] * share), *(use[i][r] for i in items)) for r in keys}
    data = {"items": items, "resources": keys, "value": value, "use": use, "limit": limit}
    return Problem("knapsack", seed, difficulty, data, words)


def build(data: dict) -> pyo.ConcreteModel:
    """Choice of items as a binary program."""
    items, resources = data["items"], data["resources"]
    m = pyo.ConcreteModel()
    m.take = pyo.Var(items, domain=pyo.Binary)
    m.objective = pyo.Objective(expr=sum(data["value"][i] * m.take[i] for i in items), sense=pyo.maximize)
    m.limit = pyo.Constraint(
        resources, rule=lambda m, r: sum(data["use"][i][r] * m.take[i] for i in items) <= data["limit"][r]
    )
    return m


def second(data: dict) -> Model:
    """What to leave behind: at least the excess of every resource, at the least loss of value."""
    matrix = Matrix("max", offset=sum(data["value"].values()))
    for i in data["items"]:
        matrix.column(f"leave[{i}]", -data["value"][i], upper=1.0, kind="integer")
    for r in data["resources"]:
        excess = sum(data["use"][i][r] for i in data["items"]) - data["limit"][r]
        matrix.row(f"excess[{r}]", {f"leave[{i}]": data["use"][i][r] for i in data["items"]}, lower=excess)
    return matrix.model()


def optimum(data: dict) -> float | None:
    """By dynamic programming over the amounts used."""
    uses = [[data["use"][i][r] for r in data["resources"]] for i in data["items"]]
    limits = [data["limit"][r] for r in data["resources"]]
    return float(exact.knapsack([data["value"][i] for i in data["items"]], uses, limits))


def variables(data: dict) -> Iterator[tuple[str, str]]:
    """One yes-or-no decision per item."""
    yield from ((f"take[{i}]", "binary") for i in data["items"])


def objective(data: dict, values: dict[str, float]) -> float:
    """Total value of the chosen items."""
    return sum(data["value"][i] * values.get(f"take[{i}]", 0.0) for i in data["items"])


def slacks(data: dict, values: dict[str, float]) -> Iterator[tuple[str, float]]:
    """What is left of every resource."""
    for r in data["resources"]:
        used = sum(data["use"][i][r] * values.get(f"take[{i}]", 0.0) for i in data["items"])
        yield f"limit[{r}]", data["limit"][r] - used


def story(problem: Problem) -> Story:
    """A choice told in one of eight trades."""
    d, w = problem.data, problem.words
    pick = generator("knapsack", problem.seed, problem.difficulty, "story").choice
    item, items, gain, unit = w["item"], w["items"], w["gain"], w["gain_unit"]
    limits = listing([f"{d['limit'][r]} {w[r]} of {_reads(r)}" for r in d["resources"]])
    limit_fact = pick((
        f"Available in all: {limits}.", f"The {items} chosen may together use at most {limits}.",
        f"In total there is room for {limits}.",
    ))  # fmt: skip
    form = pick((
        "{item} {code} takes {uses} and brings {value} {unit} of {gain}.",
        "with {item} {code} comes a {gain} of {value} {unit}; it needs {uses}.",
        "{code} uses {uses} and adds {value} {unit} to the {gain}.",
    ))  # fmt: skip
    facts = [
        sentence(
            form.format(
                item=item, code=i, value=d["value"][i], unit=unit, gain=gain,
                uses=listing([f"{d['use'][i][r]} {w[r]} of {_reads(r)}" for r in d["resources"]]),
            )
        )
        for i in d["items"]
    ]  # fmt: skip
    container = w["container"]
    setting = pick((
        f"There are more {items} on the list for {container} than can be accepted.",
        f"A planner selects {items} for {container}.",
        f"Candidates for {container} are {items} of different {gain}.",
        f"For {container}, a choice among several {items} has to be made.",
    ))  # fmt: skip
    total = " and of ".join(map(_reads, d["resources"]))
    rules = (
        f"The total use of {total} by the chosen {items} cannot exceed what is available.",
        f"Each {item} exists once, and its {gain} counts only if it is chosen; what the chosen {items} bring adds up.",
    )
    question = pick((
        f"Which {items} should be chosen so that the total {gain} is as large as possible?",
        f"Select the {items} that give the largest total {gain}, and state it in {unit}.",
        f"Maximise the total {gain} of the chosen {items}.",
    ))  # fmt: skip
    return Story(
        setting, (limit_fact, *facts), rules,
        f"Each {item} is chosen whole or not at all: there is one yes-or-no decision per {item}.", question,
        (IndexSet("items", item, items), IndexSet("resources", "resource", "resources")),
        (
            Field("value", ("items",), gain, unit),
            Field("use", ("items", "resources"), "use of resources", _units(w, d["resources"])),
            Field("limit", ("resources",), "available in all", _units(w, d["resources"])),
        ),
    )  # fmt: skip


def formulation(problem: Problem) -> str:
    """Sets, parameters, variables, objective and constraints."""
    d, w = problem.data, problem.words
    resources = _units(w, d["resources"])
    return rf"""Sets:
- $I$: the {w["items"]}
- $R$: the limited resources ({listing([_reads(r) for r in d["resources"]])})

Parameters:
- $v_i$: {w["gain"]} of {w["item"]} $i$ ({w["gain_unit"]})
- $a_{{ir}}$: use of resource $r$ by {w["item"]} $i$ ({resources})
- $b_r$: available amount of resource $r$ ({resources})

Variables:
- $x_i \in \{{0, 1\}}$: 1 if {w["item"]} $i$ is chosen

$$
\begin{{aligned}}
\max\ & \sum_{{i \in I}} v_i x_i \\
\text{{s.t.}}\ & \sum_{{i \in I}} a_{{ir}} x_i \le b_r && r \in R && \text{{(available amount)}} \\
& x_i \in \{{0, 1\}} && i \in I
\end{{aligned}}
$$

This is a binary linear program."""


def answer(problem: Problem, objective: float, values: dict[str, float]) -> str:
    """Total value, the chosen items, and what they use."""
    d, w = problem.data, problem.words
    chosen = [i for i in d["items"] if values.get(f"take[{i}]", 0.0) > 0.5]
    used = [f"{sum(d['use'][i][r] for i in chosen)} of {d['limit'][r]} {w[r]} of {_reads(r)}" for r in d["resources"]]
    return (
        f"The largest total {w['gain']} is {nice(objective)} {w['gain_unit']}. "
        f"Chosen {w['items']}: {', '.join(chosen)}. They use {listing(used)}."
    )


def _reads(resource: str) -> str:
    return resource.replace("_", " ")


def _units(words: dict[str, str], resources: list[str]) -> str:
    return ", ".join(f"{_reads(r)} in {words[r]}" for r in resources)
