"""A family of problems: how instances are drawn, modelled twice and told, and the contract that holds for all."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trex.data.contract import Contract
from trex.data.problem import DataError, Field, IndexSet, Instance, Problem, Sizes, generator
from trex.data.scenario import Scenario, dress


@dataclass(frozen=True)
class Family:
    """What the module of a family defines.

    sample: an instance (data only) of a difficulty whose sizes are stated in `sizes`.
    model: the Pyomo model. Its source is printed in documents: it uses `pyo`, `math` and `data` and nothing else.
    reformulated: the same problem written independently with gurobipy's interface; it uses `gp` and `data`. Where
    `other_form` says how (`flow instead of Miller-Tucker-Zemlin`), its rows and columns are not those of `model`.
    optimum: the optimum by a combinatorial algorithm that owes nothing to a solver; None where it would take too long.
    settings, questions: alternatives for the first and the last sentence; templates over the scenario's words.
    """

    title: str
    area: str
    source: str
    sizes: Sizes
    sets: tuple[IndexSet, ...]
    fields: tuple[Field, ...]
    contract: Contract
    scenarios: tuple[Scenario, ...]
    settings: tuple[str, ...]
    questions: tuple[str, ...]
    sample: Callable[[random.Random, int], Instance]
    model: Callable[[Instance], Any]
    reformulated: Callable[[Instance], Any]
    other_form: str = ""
    optimum: Callable[[Instance], float | None] | None = None

    @property
    def name(self) -> str:
        """The family's name: that of its module."""
        return self.model.__module__.rsplit(".", 1)[-1]

    @property
    def domains(self) -> tuple[str, ...]:
        """The businesses that its problems are set in."""
        return tuple(dict.fromkeys(scenario.domain for scenario in self.scenarios))

    def problem(self, seed: int, difficulty: int, domain: str = "") -> Problem:
        """The instance of a seed, with its scenario, one of `domain` where that is given.

        Raises DataError for an unknown difficulty or domain, or a bad seed.
        """
        instance = self.sample(generator(self.name, seed, difficulty), difficulty)
        rng = generator(self.name, seed, difficulty, "scenario")
        scenarios = [scenario for scenario in self.scenarios if domain in ("", scenario.domain)]
        if not scenarios:
            raise DataError(f"domain {domain!r:.60} of {self.name}; accepted: {', '.join(self.domains)}")
        scenario = rng.choice(scenarios)
        data = dress(instance, self.sets, scenario, rng)
        return Problem(self.name, seed, difficulty, data, scenario.domain, dict(scenario.words))
