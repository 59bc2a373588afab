"""The problem families, one module each: a module put into this folder is a family once it has what `Family` lists."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, Protocol, cast

from trex.data.problem import DataError, Problem, Story
from trex.solver.model import Model


class Family(Protocol):
    """What the module of a family defines. `data` is `Problem.data`; `values` map variable names to numbers."""

    def sample(self, seed: int, difficulty: int) -> Problem:
        """A feasible instance; the same arguments give the same instance."""

    def build(self, data: dict) -> Any:
        """The Pyomo ConcreteModel. Its source is printed in documents: it uses `pyo`, `data` and nothing else."""

    def second(self, data: dict) -> Model:
        """Another formulation with the same optimum, in matrix form."""

    def optimum(self, data: dict) -> float | None:
        """The optimum by a combinatorial algorithm, exact and without a solver; None where it would take too long."""

    def variables(self, data: dict) -> Iterator[tuple[str, str]]:
        """Name and domain (`nonnegative` or `binary`) of every variable."""

    def objective(self, data: dict, values: dict[str, float]) -> float:
        """The objective at a point, in plain Python."""

    def slacks(self, data: dict, values: dict[str, float]) -> Iterator[tuple[str, float]]:
        """Name and slack of every constraint at a point: negative where it is violated, zero where it binds."""

    def story(self, problem: Problem) -> Story:
        """The words of the problem; wording chosen by the problem's seed."""

    def formulation(self, problem: Problem) -> str:
        """The model in words and LaTeX."""

    def answer(self, problem: Problem, objective: float, values: dict[str, float]) -> str:
        """The solution in words, with units."""


PARTS = tuple(name for name in vars(Family) if not name.startswith("_"))


def names() -> tuple[str, ...]:
    """All families, in alphabetical order."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def get(name: str) -> Family:
    """The family called `name`. Raises DataError for an unknown name and for a module that lacks a part."""
    if name not in names():
        raise DataError(f"family {name!r}; accepted: {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    missing = [part for part in PARTS if not callable(getattr(module, part, None))]
    if missing:
        raise DataError(f"family {name!r} lacks {', '.join(missing)}")
    return cast(Family, module)
