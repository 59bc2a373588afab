"""What a search for the cause of a wrong model tries and finds: comparisons within a time."""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trex.solver.equivalence import Verdict, compare
from trex.solver.equivalence.graph import Classes
from trex.solver.model import Model

DIRECTION, DISCRETE, CONSTRAINTS, RATIO, OBJECTIVE = "direction", "discrete", "constraints", "ratio", "objective"
NEAR = 1e-11  # relative: what rescaled rows leave of equal numbers


@dataclass(frozen=True)
class Cause:
    """What kind of change it is, and the change in words."""

    kind: str  # one of DIRECTION, DISCRETE, CONSTRAINTS, RATIO, OBJECTIVE
    evidence: str


@dataclass
class Search:
    """Answer and reference, with a time after which nothing more is tried."""

    answer: Model
    reference: Model
    deadline: float

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() > self.deadline

    def match(self, a: Model, b: Model, full: bool = False, share: float = 1.0) -> Verdict | None:
        """The verdict where both are equal, None where they are not or time is up."""
        left = (self.deadline - time.perf_counter()) * share
        if left <= 0:
            return None
        verdict = compare(a, b, "full" if full else "isomorphism", left)
        return verdict if verdict.kind == "equal" else None

    def same(self, a: Model, b: Model) -> bool:
        """Whether both are isomorphic."""
        return self.match(a, b) is not None


def spare(first: Sequence[float], second: Sequence[float]) -> tuple[list[float], list[float]]:
    """The numbers of each list that the other has fewer of, each list sorted."""
    classes = Classes((*first, *second))
    one, other = (Counter(classes.of(x) for x in numbers) for numbers in (first, second))
    found = []
    for numbers, more in ((first, one - other), (second, other - one)):
        value = {classes.of(x): x for x in numbers}
        found.append(sorted(value[each] for each in more.elements()))
    return found[0], found[1]


def among(number: float, numbers: Sequence[float]) -> bool:
    """Whether a number is one of these, but for rounding."""
    return any(math.isclose(number, each, rel_tol=NEAR) for each in numbers)


def images(a: Model, b: Model, verdict: Verdict) -> Mapping[str, str]:
    """Variables of a to those of b: by name where that is a mapping too, because others of symmetric models confuse."""
    return {name: name for name in a.variables} if _parts(a) == _parts(b) else verdict.variables


def _parts(model: Model) -> object:
    """A model whatever the order of its variables and rows."""
    columns = zip(
        model.variables, model.kinds, *(map(_key, part) for part in (model.cost, model.lower, model.upper)), strict=True
    )
    rows = Counter(
        (frozenset((model.variables[j], _key(value)) for j, value in model.row(row)), _key(low), _key(high))
        for row, (low, high) in enumerate(zip(model.row_lower, model.row_upper, strict=True))
    )
    return model.sense, set(columns), rows


def _key(number: float) -> str:
    return f"{number + 0.0:.10g}"
