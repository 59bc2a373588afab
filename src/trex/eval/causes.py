"""What single change makes a wrong model its reference: a search over repairs, each one proved by an isomorphism.

Order: the objective's sense; kinds of variables; the objective's numbers; rows and bounds that one model has and the
other has not; rows that differ, by a factor or otherwise; two of these; sense and kinds of models that are written
differently. The first that is proved is the cause.
"""

import time
from collections.abc import Mapping

import numpy as np

from trex.eval import repairs
from trex.eval.factors import as_text, common
from trex.eval.repairs import named
from trex.eval.row_causes import bounds, one_sided, turned_rows, two_sided, unlike
from trex.eval.search import DIRECTION, DISCRETE, OBJECTIVE, RATIO, Cause, Search, among, images, spare
from trex.solver.model import Model

SHARE = 4  # of the time, one part in so many for each of the two proofs beyond isomorphism


def cause(answer: Model, reference: Model, time_s: float = 2.0) -> Cause | None:
    """The first single change, in the order above, that makes the answer's model the reference; None without one."""
    search = Search(answer, reference, time.perf_counter() + time_s)
    rules = (
        _direction,
        _kinds,
        _objective,
        unlike,
        bounds,
        turned_rows,
        two_sided,
        _two_changes,
        one_sided,
        _beyond_form,
    )
    for rule in rules:
        if search.over:
            return None
        if (found := rule(search)) is not None:
            return found
    return None


def _direction(s: Search) -> Cause | None:
    if s.same(repairs.turned(s.answer), s.reference):
        return Cause(DIRECTION, f"with the sense turned to {repairs.TURNED[s.answer.sense]} the model is the reference")
    if s.answer.offset and s.same(repairs.negated(s.answer), s.reference):
        return Cause(DIRECTION, "with the signs of the objective's terms turned the model is the reference")
    return None


def _kinds(s: Search) -> Cause | None:
    for wider in (False, True):
        a, b = (repairs.of_kind(model, "continuous", wider=wider) for model in (s.answer, s.reference))
        if (verdict := s.match(a, b)) is not None:
            return Cause(DISCRETE, _kinds_differ(s, images(a, b, verdict)))
    return None


def _kinds_differ(s: Search, mapping: Mapping[str, str]) -> str:
    """Which variables are of another kind than their images."""
    first, second = (
        {
            name: f"{'binary' if kind == 'integer' and (low, high) == (0, 1) else kind}"
            for name, kind, low, high in zip(m.variables, m.kinds, m.lower, m.upper, strict=True)
        }
        for m in (s.answer, s.reference)
    )
    differ: dict[tuple[str, str], list[str]] = {}
    for name, image in mapping.items():
        if first[name] != second[image]:
            differ.setdefault((first[name], second[image]), []).append(name)
    texts = [
        f"{named('variable', names)} {'is' if len(names) == 1 else 'are'} {one}, {other} in the reference"
        for (one, other), names in differ.items()
    ]
    return "; ".join(texts[:3]) or "the models are equal but for the kinds of variables"


def _objective(s: Search) -> Cause | None:
    """Factors of the whole objective or of some costs; the whole of a column in other units; other costs."""
    a, b = s.answer, s.reference
    largest = [float(np.abs(m.cost).max(initial=max(map(abs, m.quadratic.values()), default=0.0))) for m in (a, b)]
    if all(largest) and largest[0] != largest[1]:
        factor = largest[0] / largest[1]
        for constant in (True, False) if a.offset else (True,):
            if s.same(repairs.scaled_objective(a, 1 / factor, constant), b):
                return Cause(RATIO, f"the objective is {as_text(factor)} times the reference's")
    if a.quadratic == b.quadratic == {} and (found := _costs(s)) is not None:
        return found
    plain = [repairs.without_objective(model) for model in (a, b)]
    if (verdict := s.match(plain[0], plain[1])) is not None:
        differ = _costs_differ(s, images(plain[0], plain[1], verdict))
        if not differ and a.offset != b.offset:
            differ = f": its constant is {a.offset:.12g}, {b.offset:.12g} in the reference"
        return Cause(OBJECTIVE, f"the constraints are the reference's, the objective is not{differ}")
    return None


def _costs(s: Search) -> Cause | None:
    """Costs that the reference lacks, all off by one factor: in the objective alone, or columns in other units."""
    sign = 1.0 if s.answer.sense == s.reference.sense else -1.0
    costs_a, costs_b = s.answer.cost.tolist(), (sign * s.reference.cost).tolist()
    spare_a, spare_b = spare(costs_a, costs_b)
    factor = common(spare_a, spare_b)
    if factor is None:
        return None
    alike = [j for j, c in enumerate(costs_a) if among(c, spare_a)]
    chosen = [alike] if len(alike) == len(spare_a) else [[j] for j in alike] if len(spare_a) == 1 else []
    for columns in chosen:
        names = named("variable", [s.answer.variables[j] for j in columns])
        if s.same(repairs.with_costs(s.answer, {j: costs_a[j] / factor for j in columns}), s.reference):
            return Cause(RATIO, f"the cost of {names} is {as_text(factor)} times the reference's")
        if factor > 0 and s.same(repairs.scaled_column(s.answer, columns, 1 / factor), s.reference):
            return Cause(RATIO, f"{names} counted in units of {as_text(factor)} of the reference's")
    return None


def _costs_differ(s: Search, mapping: Mapping[str, str]) -> str:
    """The first costs that differ from those of the images."""
    sign = 1.0 if s.answer.sense == s.reference.sense else -1.0
    first = dict(zip(s.answer.variables, s.answer.cost.tolist(), strict=True))
    second = dict(zip(s.reference.variables, (sign * s.reference.cost + 0.0).tolist(), strict=True))
    pairs = [
        (name, first[name], second[image]) for name, image in mapping.items() if not among(first[name], [second[image]])
    ]
    shown = ", ".join(f"{name} costs {x:.12g}, {y:.12g} in the reference" for name, x, y in pairs[:3])
    return f": {shown}" + (f" and {len(pairs) - 3} more" if len(pairs) > 3 else "") if pairs else ""


def _two_changes(s: Search) -> Cause | None:
    """Two changes at once, where one comparison shows them."""
    a, b = (repairs.of_kind(model, "continuous", wider=True) for model in (s.answer, s.reference))
    if (verdict := s.match(repairs.turned(a), b)) is not None:
        return Cause(DIRECTION, f"the sense is turned, and {_kinds_differ(s, images(repairs.turned(a), b, verdict))}")
    a, b = repairs.without_bounds(a), repairs.without_bounds(b)
    if (verdict := s.match(a, b)) is not None:
        return Cause(DISCRETE, f"{_kinds_differ(s, images(a, b, verdict))}; bounds of variables differ too")
    return None


def _beyond_form(s: Search) -> Cause | None:
    """Sense and kinds once more, with rewriting and solvers for models that are written differently."""
    if (verdict := s.match(repairs.turned(s.answer), s.reference, True, 1 / SHARE)) is not None:
        to = repairs.TURNED[s.answer.sense]
        return Cause(DIRECTION, f"with the sense turned to {to} the model is equal to the reference ({verdict.reason})")
    if s.answer.integers.size == s.reference.integers.size == 0:
        return None
    relaxed = [repairs.of_kind(model, "continuous") for model in (s.answer, s.reference)]
    if (verdict := s.match(relaxed[0], relaxed[1], True, 1 / SHARE)) is not None:
        counts = f"{s.answer.integers.size} integer variables, {s.reference.integers.size} in the reference"
        return Cause(DISCRETE, f"the relaxed models are equal ({verdict.reason}); {counts}")
    return None
