"""The gates on trial: does a clause matter, and is it noticed when the code of a model breaks it?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trex.data import gates
from trex.data.breaches import breaches
from trex.data.execution import LIMITS, judge
from trex.data.family import Family
from trex.data.problem import Problem
from trex.data.program import program
from trex.solver.pyomo_model import from_pyomo
from trex.solver.sandbox.host import Sandbox
from trex.solver.solve import solve


@dataclass(frozen=True)
class Trial:
    """One breach in one instance: what the gates made of it, and whether the optimum alone would have told."""

    family: str
    clause: str
    what: str  # as `Breach.what`
    gate: str  # that refused it, "" where none did
    by_value: bool  # the program fails, or its optimum is not the right one


def breach_trials(family: Family, problems: Sequence[Problem], sandbox: Sandbox) -> Iterator[Trial]:
    """Every clause broken in the code of the family's model, run on every instance."""
    for problem in problems:
        admitted = gates.admit(family, problem)
        for breach in breaches(family):
            execution = sandbox.run(program(problem, "DP", breach.source), {}, LIMITS)
            value = execution.claimed
            same = value is not None and math.isclose(
                value, admitted.objective, rel_tol=gates.TOLERANCE, abs_tol=gates.TOLERANCE
            )
            try:
                judge(execution, admitted.model, admitted.objective)
                gate = ""
            except gates.Refused as error:
                gate = error.gate
            yield Trial(family.name, breach.clause, breach.what, gate, not same)


def effects(family: Family, problem: Problem) -> dict[str, float]:
    """By how much the optimum changes where a clause or a term is left out, relative; infinite where none is left."""
    whole = solve(from_pyomo(family.model(problem.data))).objective
    assert whole is not None
    found = {}
    for name in (*(t.name for t in family.contract.objective), *(c.name for c in family.contract.constraints)):
        built = family.model(problem.data)
        component = built.component(name)
        if name in {term.name for term in family.contract.objective}:
            component.set_value(0.0)
        else:
            component.deactivate()
        without = solve(from_pyomo(built))
        change = math.inf if without.objective is None else abs(without.objective - whole) / max(1.0, abs(whole))
        found[name] = change
    return found


def caught(trials: Sequence[Trial]) -> dict[tuple[str, str, str], float]:
    """Share of the trials of each family, clause and kind of breach that a gate noticed."""
    shares: dict[tuple[str, str, str], list[bool]] = {}
    for trial in trials:
        shares.setdefault((trial.family, trial.clause, trial.what), []).append(bool(trial.gate))
    return {key: sum(found) / len(found) for key, found in shares.items()}
