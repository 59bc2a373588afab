"""What an instance must pass before it becomes a document: solved twice, bounded, not trivial, stated and used whole.

Gates raise `Refused`, which names the gate and the reason: refusals are data too.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from trex.data.contract import BINARY, CONTINUOUS, FREE, INTEGER
from trex.data.family import Family
from trex.data.problem import DataError, Instance, Problem, data_numbers
from trex.data.rendering import Text
from trex.data.wording import numbers
from trex.solver.check import RELATIVE, violation
from trex.solver.model import Model, ModelError
from trex.solver.pyomo_model import from_pyomo
from trex.solver.solution import Solution
from trex.solver.solve import solve
from trex.solver.uniqueness import uniqueness

TOLERANCE = 1e-6  # relative, of optima that are to be equal
DECIMALS = 6  # of recorded values
HALF = 0.5 * 10.0**-DECIMALS  # by how much rounding moves a recorded value
SECONDS = 60.0  # for one solve; a refusal where it is not enough
OF_INSTANCE = ("contract", "solver", "second solver", "trivial", "algorithm", "reformulation", "use", "text")
OF_PROGRAMS = ("program", "structure")
OF_COLLECTION = ("duplicate", "near-duplicate", "benchmark")
GATES = OF_INSTANCE + OF_PROGRAMS + OF_COLLECTION  # in this order


class Refused(DataError):
    """An instance that a gate does not let through."""

    def __init__(self, gate: str, reason: str) -> None:
        super().__init__(f"{gate}: {reason}")
        self.gate, self.reason = gate, reason


@dataclass(frozen=True)
class Admitted:
    """What is known of an instance that was let through."""

    model: Model
    reformulated: Model
    objective: float
    values: dict[str, float]  # of the variables that are not zero, by name
    unique: str  # unique | multiple | unknown
    confirmed_by: tuple[str, ...]  # what else found the same optimum, but for the second formulation
    skipped: tuple[str, ...]  # gates that the instance has not: no second solver, no combinatorial algorithm
    solver: str


def admit(family: Family, problem: Problem) -> Admitted:
    """The gates on the model: contract, optimum, second solver, combinatorial algorithm. Raises Refused."""
    try:
        built = family.model(problem.data)
        components(family, built)
        model = from_pyomo(built)
        reformulated = family.reformulated(problem.data).trex_model()
    except ModelError as error:
        raise Refused("contract", str(error)) from None
    found = solve(model, SECONDS, check=None if model.beyond_linear else "second")
    objective = _optimum(found)
    if not any(value for value in found.values.values()) or abs(objective) < TOLERANCE:
        raise Refused("trivial", f"objective {objective!r} with {len(found.values)} variables at or near zero")
    confirmed, skipped = [], ["second solver", "algorithm"]
    if found.agreement is not None:
        confirmed.append(found.agreement.solver)
        skipped.remove("second solver")
    if family.optimum is not None and (value := family.optimum(problem.data)) is not None:
        same("algorithm", "the combinatorial algorithm", value, objective)
        confirmed.append("combinatorial algorithm")
        skipped.remove("algorithm")
    point = np.array([found.values[name] for name in model.variables])
    rounded = {name: round(value, DECIMALS) + 0.0 for name, value in found.values.items()}
    return Admitted(
        model, reformulated, round(objective, DECIMALS) + 0.0, {n: v for n, v in rounded.items() if v},
        uniqueness(model, point), tuple(confirmed), tuple(skipped), found.solver,
    )  # fmt: skip


def reformulation(admitted: Admitted) -> None:
    """The second formulation has the same optimum. Raises Refused."""
    found = solve(admitted.reformulated, SECONDS)
    if found.status != "optimal" or found.objective is None:
        raise Refused("reformulation", f"{found.status} {found.message}".strip())
    same("reformulation", "the second formulation", found.objective, admitted.objective)


def components(family: Family, built: Any) -> None:
    """The Pyomo model has the contract's variables, with their domains, its terms and its clauses, and no others."""
    import pyomo.environ as pyo

    contract = family.contract
    expected = {
        pyo.Var: [v.name for v in contract.variables],
        pyo.Constraint: [c.name for c in contract.constraints],
        pyo.Expression: [t.name for t in contract.objective],
        pyo.Objective: ["objective"],
    }
    for kind, names in expected.items():
        found = [component.local_name for component in built.component_objects(kind)]
        if sorted(found) != sorted(names):
            raise Refused("contract", f"the model's {kind.__name__} components are {found}; the contract has {names}")
    for variables in contract.variables:
        for name, variable in built.component(variables.name).items():
            if (domain := _domain(variable)) != variables.domain:
                raise Refused("contract", f"{variables.name}[{name}] is {domain}; the contract says {variables.domain}")
    sense = "minimize" if built.objective.sense == pyo.minimize else "maximize"
    if sense != contract.sense:
        raise Refused("contract", f"the model is to {sense}; the contract says {contract.sense}")


def point(family: Family, problem: Problem, objective: float, values: dict[str, float]) -> None:
    """A recorded point satisfies the model, rounded as it is, and is worth the recorded objective. Raises Refused."""
    model = from_pyomo(family.model(problem.data))
    if unknown := sorted(set(values) - set(model.variables)):
        raise Refused("solver", f"the model has no variable {unknown[0]!r}")
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values.values()):
        raise Refused("solver", "a value that is no number")
    x = np.array([float(values.get(name, 0.0)) for name in model.variables])
    for j in model.integers:
        if x[j] != round(x[j]):
            raise Refused("solver", f"the recorded point: {model.variables[j]} = {x[j]!r} is no whole number")
    moved = np.abs(model.value) * ~np.isin(model.index, model.integers)
    room = HALF * max(np.add.reduceat(np.append(moved, 0.0), model.start[:-1]), default=0.0)
    if (breach := violation(model, x, TOLERANCE + room)) is not None:
        raise Refused("solver", f"the recorded point: {breach}")
    worth = model.objective(x)
    moved = HALF * (1 + np.abs(np.delete(model.cost, model.integers)).sum())
    room = TOLERANCE * abs(worth) if model.quadratic else moved + RELATIVE * abs(worth)
    if abs(worth - objective) > room:
        raise Refused("solver", f"the recorded point gives {worth!r}, not {objective!r}")


def stated(problem: Problem, mode: str, text: Text) -> None:
    """The text, or in mode DPS the data file, holds every number of the instance, and no other."""
    expected = Counter(text.others)
    if mode != "DPS":
        expected += Counter(data_numbers(problem.data))
    found = Counter(numbers(text.problem))
    if missing := list((expected - found).elements()):
        raise Refused("text", f"{missing[:5]} of the instance are not in the text")
    if added := list((found - expected).elements()):
        raise Refused("text", f"{added[:5]} of the text are not in the instance")


def used(family: Family, data: Instance) -> None:
    """Building the model reads every number of the instance."""
    read = reads(family.model, data)
    unread = [path for path in _paths(data) if path not in read]
    if unread:
        raise Refused("use", f"{'.'.join(unread[0])} and {len(unread) - 1} other numbers are not used by the model")


def reads(build: Callable[[Instance], Any], data: Instance) -> set[tuple[str, ...]]:
    """The places of the data that building a model reads: paths of keys, those of whole levels among them."""
    read: set[tuple[str, ...]] = set()
    build(_watched(data, (), read))
    return read


class _Watched(dict[str, Any]):
    """A level of the data that notes which numbers are read."""

    def __init__(self, level: Instance, path: tuple[str, ...], read: set[tuple[str, ...]]) -> None:
        super().__init__({key: _watched(value, (*path, key), read) for key, value in level.items()})
        self._path, self._read = path, read

    def __getitem__(self, key: str) -> Any:
        self._read.add((*self._path, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As a dict's, noted."""
        self._read.add((*self._path, key))
        return super().get(key, default)

    def values(self) -> Any:
        """All values, each noted."""
        return [self[key] for key in self]

    def items(self) -> Any:
        """All items, each noted."""
        return [(key, self[key]) for key in self]


def _watched(value: Any, path: tuple[str, ...], read: set[tuple[str, ...]]) -> Any:
    return _Watched(value, path, read) if isinstance(value, dict) else value


def _paths(data: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(data, dict):
        return [found for key, value in data.items() for found in _paths(value, (*path, key))]
    return [path] if isinstance(data, int | float) else []


def _optimum(found: Solution) -> float:
    if found.status != "optimal" or found.objective is None:
        raise Refused("solver", f"{found.status} {found.message}".strip())
    if found.agreement is not None and found.agreement.agrees is not True:
        other = found.agreement
        raise Refused(
            "second solver", f"{other.solver} says {other.status} {other.objective}; {found.objective!r} here"
        )
    return found.objective


def same(gate: str, way: str, value: float, objective: float) -> None:
    """Raise Refused for an optimum that is not, within TOLERANCE, the one that is known."""
    if not math.isclose(value, objective, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        raise Refused(gate, f"{way} gives {value!r}, the model {objective!r}")


def _domain(variable: Any) -> str:
    """The domain of a Pyomo variable; bounds other than at zero are constraints of the contract, not of the domain."""
    lower, upper = variable.bounds
    if variable.is_binary() or (variable.is_integer() and (lower, upper) == (0, 1)):
        return BINARY
    if upper is not None or lower not in (0, None):
        return f"bounded by {lower} and {upper}"
    if variable.is_integer():
        return INTEGER if lower == 0 else "integer of either sign"
    return CONTINUOUS if lower == 0 else FREE
