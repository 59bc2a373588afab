"""What every solution of a family must satisfy, checked in plain Python from the instance alone."""

import math
from dataclasses import dataclass

from trex.data import families
from trex.data.problem import DataError, Problem
from trex.solver.solve import solve

TOLERANCE = 1e-4  # of a constraint, in its own unit: recorded values are rounded to 6 decimals
OBJECTIVE_TOLERANCE = 1e-6  # relative


@dataclass(frozen=True)
class Check:
    """What a point is worth and what it breaks."""

    objective: float
    violated: tuple[str, ...]  # variables outside their domain and constraints, by name


def check(problem: Problem, values: dict[str, float]) -> Check:
    """Evaluate a point; variables that `values` leaves out are zero.

    Raises DataError for a variable that the problem does not have and for a value that is not a finite number.
    """
    family = families.get(problem.family)
    domains = dict(family.variables(problem.data))
    violated = []
    for name, value in values.items():
        if name not in domains:
            raise DataError(f"{problem.family} has no variable {name!r}")
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise DataError(f"{name} = {value!r}; a finite number is accepted")
        inside = value >= -TOLERANCE if domains[name] == "nonnegative" else value in (0, 1)
        if not inside:
            violated.append(name)
    violated += [name for name, slack in family.slacks(problem.data, values) if slack < -TOLERANCE]
    return Check(family.objective(problem.data, values), tuple(violated))


def require(problem: Problem, objective: float, values: dict[str, float]) -> Check:
    """Check that a point is feasible and worth `objective`. Raises DataError that names the first breach."""
    found = check(problem, values)
    where = f"{problem.family} (seed {problem.seed}, difficulty {problem.difficulty})"
    if found.violated:
        raise DataError(f"{where}: the solution breaks {', '.join(found.violated[:3])}")
    if not math.isclose(found.objective, objective, rel_tol=OBJECTIVE_TOLERANCE, abs_tol=OBJECTIVE_TOLERANCE):
        raise DataError(f"{where}: objective {objective!r} recorded, the solution is worth {found.objective!r}")
    return found


def confirm(problem: Problem, objective: float) -> tuple[str, ...]:
    """Find the optimum again by independent ways and return their names; raises DataError where one disagrees.

    The ways: the family's second formulation, solved from its matrix; and, where the family has one that is quick
    enough, a combinatorial algorithm in exact arithmetic.
    """
    family = families.get(problem.family)
    again = solve(family.second(problem.data))
    if again.objective is None or again.status != "optimal":
        raise DataError(f"{problem.family}, seed {problem.seed}: second formulation is {again.status} {again.message}")
    exact = family.optimum(problem.data)
    found = {"second formulation": again.objective} | ({} if exact is None else {"combinatorial algorithm": exact})
    for way, value in found.items():
        if not math.isclose(value, objective, rel_tol=OBJECTIVE_TOLERANCE, abs_tol=OBJECTIVE_TOLERANCE):
            raise DataError(f"{problem.family}, seed {problem.seed}: {objective!r} recorded, {way} gives {value!r}")
    return tuple(found)
