"""What a comparison says: equal with a mapping as proof, different with a witness, or unknown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Witness:
    """Why two models are not the same: what no renaming and no rewriting of rows changes, and its two values."""

    invariant: str  # what was compared, in words
    a: Any  # its value in the first model
    b: Any  # and in the second
    point_a: Mapping[str, float] = field(default_factory=dict)  # a point of the first model that shows it, by variable
    point_b: Mapping[str, float] = field(default_factory=dict)
    confirmed_by: tuple[
        str, ...
    ] = ()  # the solvers that found both values; none for an invariant of the canonical form


@dataclass(frozen=True)
class Evidence:
    """How often two models had the same optimum under objectives drawn at random: no proof."""

    agreed: int
    drawn: int
    matched_by: str  # how variables were matched


@dataclass(frozen=True)
class Verdict:
    """Outcome of `compare`. `variables` and `rows` are the proof of "equal", `witness` that of "different"."""

    kind: str  # "equal", "different" or "unknown"
    reason: str
    variables: Mapping[str, str] = field(default_factory=dict)  # variable of a -> variable of b
    rows: tuple[tuple[str, str], ...] = ()  # row of a, row of b that says the same (or "bounds of …", "implied")
    largest_difference: float = 0.0  # relative, between numbers that were taken as equal
    rewritten: tuple[str, ...] = ()  # what was rewritten in either model before they matched
    witness: Witness | None = None
    evidence: Evidence | None = None
    seconds: float = 0.0
