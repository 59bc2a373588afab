"""What is known after solving, and how it is told."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

STATUSES = (
    "optimal",
    "infeasible",
    "unbounded",
    "infeasible_or_unbounded",
    "time_limit",
    "memory_limit",
    "unknown",
    "error",
)
SHOWN = 12  # values that a text lists; all are in the record


@dataclass(frozen=True)
class Agreement:
    """What a second solver says of the same model; `agrees` is None where it decides nothing."""

    solver: str  # name and version
    status: str
    objective: float | None
    agrees: bool | None


@dataclass(frozen=True)
class Solution:
    """What is known after solving. `objective` and `values` belong to a checked point and are absent without one."""

    status: str  # one of STATUSES
    objective: float | None
    bound: float | None  # proved bound on the optimum
    seconds: float
    solver: str  # name and version
    values: dict[str, float]  # variable name -> value
    message: str  # reason, where the status alone does not say it
    agreement: Agreement | None = None  # where a second solver was asked
    exact: Fraction | None = None  # rational objective, where it was asked for and found

    @property
    def point(self) -> dict[str, float]:
        """Variable name -> value."""
        return self.values


def joined(*messages: str) -> str:
    """Messages one after the other, each once, empty ones left out."""
    return "; ".join(dict.fromkeys(filter(None, messages)))


def record(solution: Solution) -> dict[str, Any]:
    """The solution as what JSON can hold; the exact value as "numerator/denominator"."""
    agreement = solution.agreement
    return {
        "status": solution.status,
        "objective": solution.objective,
        "exact": None if solution.exact is None else str(solution.exact),
        "bound": solution.bound,
        "seconds": solution.seconds,
        "solver": solution.solver,
        "message": solution.message,
        "agreement": None if agreement is None else dict(vars(agreement)),
        "values": solution.values,
    }


def text(solution: Solution) -> str:
    """The solution in lines for a reader: the largest SHOWN values that are not zero, in the model's order."""
    lines = [f"status     {solution.status}"]
    if solution.objective is not None:
        lines.append(f"objective  {solution.objective!r}")
    if solution.exact is not None:
        lines.append(f"exact      {solution.exact}")
    if solution.bound is not None and solution.bound != solution.objective:
        lines.append(f"bound      {solution.bound!r}")
    lines.append(f"solver     {solution.solver}, {solution.seconds:.3f} s")
    if solution.agreement is not None:
        second = solution.agreement
        verdict = {True: "agrees", False: "disagrees", None: "decides nothing"}[second.agrees]
        value = "" if second.objective is None else f" {second.objective!r}"
        lines.append(f"second     {second.solver} {verdict}: {second.status}{value}")
    if solution.message:
        lines.append(f"message    {solution.message}")
    used = {name: value for name, value in solution.values.items() if value}
    largest = set(sorted(used, key=lambda name: -abs(used[name]))[:SHOWN])
    lines += [f"  {name} = {value:.10g}" for name, value in used.items() if name in largest]
    if len(used) > SHOWN:
        lines.append(f"  and {len(used) - SHOWN} smaller values that are not zero")
    return "\n".join(lines)
