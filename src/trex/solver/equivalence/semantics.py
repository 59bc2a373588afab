"""Two models whose canonical forms differ: a solver looks for what tells them apart, or proves that nothing does."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from trex.solver import exact
from trex.solver.equivalence.canonical import Canonical
from trex.solver.equivalence.fractional import fractional_differs
from trex.solver.equivalence.implied import Finding, others_alike, same_set
from trex.solver.equivalence.invariants import (
    Affine,
    Difference,
    Signatures,
    apart,
    mappings,
    signatures,
    total_differs,
    witness,
)
from trex.solver.equivalence.matched import match, rewritten
from trex.solver.equivalence.nearly import near_mapping
from trex.solver.equivalence.redundant import without_redundant
from trex.solver.equivalence.region import Extreme, Linear, Region, to_model
from trex.solver.equivalence.verdict import Evidence, Verdict, Witness
from trex.solver.model import Model
from trex.solver.second import DECIDED
from trex.solver.solve import Solution, solve

EXACTLY = 1e-9  # of the largest term of the objective: rational optima that differ by more are different
DRAWN = 20  # objectives of the evidence
INFEASIBLE = (
    "both models are infeasible: their feasible sets are empty, whatever the rows say, and the rows are not the same"
)


def compare_sets(
    a: Model, b: Model, form_a: Canonical, form_b: Canonical, in_form: Verdict, deadline: float
) -> Verdict:
    """Compare two models that are not isomorphic; `form_a` and `form_b` are rewritten canonical forms.

    `in_form` is the verdict on the forms as they were; its witness stays where no solver finds a better one.
    """
    unknown = Verdict("unknown", "no solver found a difference, and no mapping was proved", witness=in_form.witness)
    first, second = _solve(a, deadline), _solve(b, deadline)
    if found := _optimum(a, b, first, second, deadline):
        return found
    if first.status == second.status == "infeasible":
        return replace(unknown, reason=INFEASIBLE)
    if first.status not in ("optimal", "unbounded") or second.status != first.status:
        return replace(unknown, reason=f"the solvers end with {first.status} and {second.status}")
    if not form_a.linear or not form_b.linear:
        return replace(unknown, reason="the forms differ, the optima do not, and the models are not linear")
    region_a, region_b = Region(form_a, deadline), Region(form_b, deadline)
    candidates = (("name", _by_name(form_a, form_b)), ("structure", near_mapping(form_a, form_b, deadline)))
    guesses = {how: mapping for how, mapping in candidates if mapping is not None}
    for mapping in guesses.values():
        finding = same_set(mapping, region_a, region_b)
        if finding.holds:
            return _proved(mapping, finding, form_a, form_b)
    if by := _invariants(region_a, region_b, deadline):
        return by
    for bounds_too in (False, True):
        lean_a, lean_b = (without_redundant(form, deadline, bounds_too) for form in (form_a, form_b))
        if (verdict := match(lean_a, lean_b, deadline)).kind == "equal":
            return verdict
        if not bounds_too and (by := _all_mappings(region_a, region_b, deadline)):
            return by
    for how, mapping in guesses.items():
        return replace(unknown, evidence=_evidence(mapping, how, region_a, region_b))
    return unknown


def _solve(model: Model, deadline: float) -> Solution:
    left = deadline - time.perf_counter()
    return solve(model, max(left / 5, 0.05), check="second")


def _value(model: Model, solution: Solution) -> float | None:
    """Optimum as a minimum."""
    if solution.objective is None:
        return None
    return solution.objective if model.sense == "min" else -solution.objective


def _optimum(a: Model, b: Model, first: Solution, second: Solution, deadline: float) -> Verdict | None:
    """Different status, or different optimum, both confirmed by a second solver."""
    if first.status not in DECIDED or second.status not in DECIDED:
        return None
    confirmed = _confirmed((a, first), (b, second))
    if not confirmed:
        return None
    if first.status != second.status:
        found = Witness("status", first.status, second.status, first.values, second.values, confirmed)
        return Verdict("different", f"one model is {first.status}, the other {second.status}", witness=found)
    x, y = _value(a, first), _value(b, second)
    if x is None or y is None:
        return None
    if not apart(x, y):
        rational = _exactly_apart(a, b, first, second, deadline)
        if rational is None:
            return None
        (x, y), confirmed = rational, (*confirmed, "rational arithmetic")
    found = Witness("optimum, as a minimum", x, y, first.values, second.values, confirmed)
    return Verdict("different", f"the optima differ: {x:.17g} and {y:.17g} (as minima)", witness=found)


def _exactly_apart(
    a: Model, b: Model, first: Solution, second: Solution, deadline: float
) -> tuple[float, float] | None:
    """Optima of linear programs that are close as floats, where their rational values differ."""
    if len(a.integers) or len(b.integers) or a.beyond_linear or b.beyond_linear:
        return None
    values, size = [], 0.0
    for model, solution in ((a, first), (b, second)):
        point = np.array([solution.values[name] for name in model.variables])
        value, _ = exact.value(model, point, max((deadline - time.perf_counter()) / 4, 0.05))
        if value is None:
            return None
        values.append(value if model.sense == "min" else -value)
        size = max(size, float(np.abs(model.cost * point).max(initial=abs(model.offset))))
    apart_by = abs(values[0] - values[1])
    return (float(values[0]), float(values[1])) if apart_by > Fraction(EXACTLY * size) else None


def _confirmed(*solved: tuple[Model, Solution]) -> tuple[str, ...]:
    """The solvers that agree on all of these; none where a second one does not, or was too slow.

    What only SCIP takes (quadratic rows, ordered sets, …) is confirmed by SCIP and the exact check of its point alone.
    """
    names: list[str] = []
    for model, solution in solved:
        if solution.agreement is None and not model.beyond_linear:
            return ()
        if solution.agreement is not None and not solution.agreement.agrees:
            return ()
        names += [solution.solver, *([] if solution.agreement is None else [solution.agreement.solver])]
    return tuple(dict.fromkeys(names))


def _by_name(a: Canonical, b: Canonical) -> NDArray[np.int64] | None:
    """Columns matched by name, where all names are the same."""
    place = {name: j for j, name in enumerate(b.names)}
    if set(a.names) != set(place):
        return None
    return np.array([place[name] for name in a.names], dtype=np.int64)


def _proved(mapping: NDArray[np.int64], finding: Finding, a: Canonical, b: Canonical) -> Verdict:
    names = b.names
    return Verdict(
        "equal",
        "each model implies the rows of the other, and the objectives agree on all feasible points",
        variables={name: names[j] for name, j in zip(a.names, mapping.tolist(), strict=True)}
        | (others_alike(mapping.tolist(), a, b) or {}),
        rows=finding.rows,
        rewritten=rewritten(a, b),
    )


def _renamable(a: Region, b: Region) -> bool:
    """Whether the columns that are left are the same on both sides, if the models are: no choice was open."""
    return len(a.form.columns) == len(b.form.columns) and not (a.form.ambiguous or b.form.ambiguous)


def _invariants(a: Region, b: Region, deadline: float) -> Verdict | None:
    """The first difference that both solvers see, or that a point shows."""
    for difference in total_differs(a, b):
        if difference.needs_renaming and not _renamable(a, b):
            continue
        if confirmed := _confirm(difference, a, b, deadline):
            return _different(witness(difference, a, b, confirmed))
    fractional = fractional_differs(a, b) if _renamable(a, b) else None
    return None if fractional is None else _different(fractional)


def _different(found: Witness) -> Verdict:
    return Verdict("different", f"{found.invariant}: {found.a:.12g} and {found.b:.12g}", witness=found)


def _confirm(difference: Difference, a: Region, b: Region, deadline: float) -> tuple[str, ...]:
    """Ask a second solver for both values."""
    names = [
        _confirmed_value(region, function, extreme, deadline)
        for region, function, extreme in (
            (a, difference.a, difference.extreme_a),
            (b, difference.b, difference.extreme_b),
        )
    ]
    return tuple(dict.fromkeys((*names[0], *names[1]))) if all(names) else ()


def _confirmed_value(region: Region, function: Affine, extreme: Extreme, deadline: float) -> tuple[str, ...]:
    """The solvers that find the largest value of a function again; none where they do not agree."""
    model = to_model(region.form, function.terms)
    solution = _solve(model, deadline)
    value = {"optimal": solution.objective, "unbounded": np.inf}.get(solution.status)
    if value is None or extreme.value is None or apart(value, extreme.value):
        return ()
    return _confirmed((model, solution))


def _all_mappings(a: Region, b: Region, deadline: float) -> Verdict | None:
    """Each matching of variables that their own values allow is proved or refuted by a point."""
    if not _renamable(a, b):
        return None
    found = Signatures()
    for item in signatures(a, b):
        if isinstance(item, Signatures):
            found = item
        elif confirmed := _confirm(item, a, b, deadline):
            return _different(witness(item, a, b, confirmed))
    candidates, complete = mappings(found, a.form, b.form)
    if not candidates and found.a:
        return _no_matching(found, a, b, deadline)
    refuted: list[Finding] = []
    for mapping in candidates:
        finding = same_set(mapping, a, b)
        if finding.holds:
            return _proved(mapping, finding, a.form, b.form)
        complete &= finding.holds is False
        refuted.append(finding)
    return _refuted(refuted, a, b) if refuted and complete and found.complete else None


def _no_matching(found: Signatures, a: Region, b: Region, deadline: float) -> Verdict | None:
    """Different: a variable of one model has values of which the other model has too few, as two solvers find."""
    first, second = found.classes()
    j = next(j for j, look in enumerate(first) if first.count(look) > second.count(look))
    confirmed: tuple[str, ...] = ()
    for region, kinds in ((a, found.a), (b, found.b)):
        for function, extreme in (item for kind in kinds for item in kind):
            if time.perf_counter() > deadline or not (names := _confirmed_value(region, function, extreme, deadline)):
                return None
            confirmed = tuple(dict.fromkeys((*confirmed, *names)))
    look = ", ".join(f"{kind[j][1].value:.6g}" for kind in found.a)
    what = f"variables like {a.form.names[j]} (largest value, smallest times -1, best objective with a reward"
    what += f" and with a price on it: {look})"
    count_a, count_b = first.count(first[j]), second.count(first[j])
    return Verdict(
        "different", f"{what}: {count_a} and {count_b}", witness=Witness(what, count_a, count_b, {}, {}, confirmed)
    )


def _refuted(findings: Sequence[Finding], a: Region, b: Region) -> Verdict:
    """Different: every matching is refuted by a point of one model that breaks the other."""
    first = findings[0]
    region, other = (a, "b") if first.within == "a" else (b, "a")
    assert first.point is not None
    point = dict(zip(region.form.names, first.point.tolist(), strict=True))
    left, side = first.values
    what = f"a point of {first.within} breaks {first.what} of {other}"
    many = "" if len(findings) == 1 else f", and each of the {len(findings) - 1} other matchings has such a point"
    found = Witness(
        what,
        left,
        side,
        point if first.within == "a" else {},
        point if first.within == "b" else {},
        ("exact check of the point",),
    )
    return Verdict(
        "different", f"the only matching of variables that their values allow is refuted: {what}{many}", witness=found
    )


def _evidence(mapping: NDArray[np.int64], how: str, a: Region, b: Region) -> Evidence:
    """Optima under objectives drawn at random, the same for matched variables."""
    generator = np.random.default_rng(0)
    agreed = drawn = 0
    for costs in _draws(generator, len(a.form.columns)):
        over_b = {int(mapping[j]): value for j, value in costs.items()}
        first, second = a.largest(costs), b.largest(over_b)
        if first.value is not None and second.value is not None:
            drawn += 1
            agreed += not apart(first.value, second.value)
    return Evidence(agreed, drawn, how)


def _draws(generator: np.random.Generator, columns: int) -> Iterator[Linear]:
    for _ in range(DRAWN):
        yield dict(enumerate(generator.normal(size=columns).tolist()))
