"""What a comparison says: equal with a mapping as proof, different with a witness, or unknown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SHOWN = 12  # pairs that a text lists; all are in the record


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
    """Outcome of `compare`. `variables` and `rows` are the proof of "equal", `witness` that of "different".

    The witness of "unknown" is where the canonical forms differ.
    """

    kind: str  # "equal", "different" or "unknown"
    reason: str
    variables: Mapping[str, str] = field(default_factory=dict)  # variable of a -> variable of b
    rows: tuple[tuple[str, str], ...] = ()  # row of a, row of b that says the same (or "bounds of x", "implied by b")
    largest_difference: float = 0.0  # relative, between numbers that were taken as equal
    rewritten: tuple[str, ...] = ()  # what was rewritten in either model before they matched
    witness: Witness | None = None
    evidence: Evidence | None = None
    seconds: float = 0.0


def record(verdict: Verdict) -> dict[str, Any]:
    """The verdict as what JSON can hold; infinite values as text."""
    return {
        **{key: value for key, value in vars(verdict).items() if key not in ("witness", "evidence")},
        "variables": dict(verdict.variables),
        "rows": [list(pair) for pair in verdict.rows],
        "rewritten": list(verdict.rewritten),
        "witness": None if verdict.witness is None else _plain(verdict.witness),
        "evidence": None if verdict.evidence is None else _plain(verdict.evidence),
    }


def text(verdict: Verdict) -> str:
    """The verdict in lines for a reader."""
    lines = [f"{verdict.kind}: {verdict.reason}"]
    if verdict.variables:
        pairs = [f"{name} = {image}" for name, image in verdict.variables.items()]
        lines += ["variables of a = of b:", *_first(pairs)]
    if verdict.rows:
        lines += ["rows of a = of b:", *_first([f"{row} = {image}" for row, image in verdict.rows])]
    if verdict.rewritten:
        lines += ["rewritten:", *_first(verdict.rewritten)]
    if verdict.largest_difference:
        lines.append(f"largest relative difference of matched numbers: {verdict.largest_difference:.1e}")
    if found := verdict.witness:
        lines += [f"witness: {found.invariant}", f"  a: {found.a}", f"  b: {found.b}"]
        for which, point in (("a", found.point_a), ("b", found.point_b)):
            used = [f"{name} = {value:.10g}" for name, value in point.items() if value]
            lines += [f"at the point of {which}:", *_first(used)] if point else []
        lines += [f"confirmed by {', '.join(found.confirmed_by)}"] if found.confirmed_by else []
    if verdict.evidence and verdict.evidence.drawn:
        seen = verdict.evidence
        drawn = f"{seen.agreed} of {seen.drawn} objectives drawn at random have the same optimum"
        lines.append(f"evidence, no proof: {drawn}, variables matched by {seen.matched_by}")
    return "\n".join([*lines, f"{verdict.seconds:.3f} s"])


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"  and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return [f"  {line}" for line in lines[:SHOWN]] + more


def _plain(found: Witness | Evidence) -> dict[str, Any]:
    plain = {key: dict(value) if isinstance(value, Mapping) else value for key, value in vars(found).items()}
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in plain.items()
    }
