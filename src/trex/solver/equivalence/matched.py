"""Two canonical forms are isomorphic, with the mapping as proof, or not, with the part that has no twin."""

import time
from collections.abc import Sequence

from trex.solver.equivalence.canonical import Canonical, Defined
from trex.solver.equivalence.graph import COLUMN, HALF, TOLERANCE, Graph, graphs
from trex.solver.equivalence.refine import Isomorphism, isomorphism, largest_difference
from trex.solver.equivalence.verdict import Verdict, Witness

ISOMORPHIC = "the canonical forms are isomorphic"
LEAST_S = 0.1  # seconds for the search even where the time is over: refinement alone decides nearly all


def match(a: Canonical, b: Canonical, deadline: float) -> Verdict:
    """Equal, different in form, or unknown where the search ran out of time."""
    first, second = graphs(a, b)
    if difference := _counts(first, second):
        return Verdict("different", "the canonical forms are not isomorphic", witness=difference)
    found = isomorphism(first, second, max(deadline - time.perf_counter(), LEAST_S))
    if found.undecided:
        return Verdict(
            "unknown", "the canonical forms are alike under refinement, and the search for a mapping was cut"
        )
    if found.mapping is None:
        return Verdict("different", "the canonical forms are not isomorphic", witness=_structure(found, first, second))
    images = found.mapping.tolist()
    a, b = first.canonical, second.canonical
    columns = len(a.columns)
    rows = [
        pair
        for k, half in enumerate(a.halves)
        for pair in _pairs(half.rows, b.halves[images[columns + k] - columns].rows)
    ]
    for j, names in sorted(a.bounds_from.items()):
        image = images[j]
        rows += _pairs(names, b.bounds_from.get(image) or [f"bounds of {b.names[image]}"])
    variables = {name: b.names[images[j]] for j, name in enumerate(a.names)}
    last, start = len(images), len(images) - len(a.defined)
    variables |= {a.defined[k - start].name: b.defined[images[k] - start].name for k in range(start, last)}
    return Verdict(
        "equal",
        f"{ISOMORPHIC} after rewriting" if a.steps or b.steps else ISOMORPHIC,
        variables=variables | (fixed_alike(a, b) or {}),
        rows=tuple(dict.fromkeys(rows)),
        largest_difference=largest_difference(found.mapping, first, second),
        rewritten=rewritten(a, b),
    )


def rewritten(a: Canonical, b: Canonical) -> tuple[str, ...]:
    """What was rewritten in either model, as a verdict tells it."""
    return tuple(f"{which}: {step}" for which, form in (("a", a), ("b", b)) for step in form.steps)


def _pairs(rows: Sequence[str], images: Sequence[str]) -> list[tuple[str, str]]:
    """Rows of one half-space with those of its image: one to one where they are as many, else all with the first."""
    if len(rows) == len(images):
        return list(zip(rows, images, strict=True))
    return [(row, images[min(k, len(images) - 1)]) for k, row in enumerate(rows)]


def _counts(a: Graph, b: Graph) -> Witness | None:
    first, second = a.canonical, b.canonical
    for what, one, other in (
        ("number of variables that are not fixed", len(first.columns), len(second.columns)),
        ("number of half-spaces", len(first.halves), len(second.halves)),
        ("number of quadratic terms in the objective", len(first.quadratic), len(second.quadratic)),
        ("number of indicator constraints", len(first.implications), len(second.implications)),
        ("number of ordered sets", len(first.sos), len(second.sos)),
        ("number of general constraints", len(first.functions), len(second.functions)),
        ("number of variables that others define", len(first.defined), len(second.defined)),
    ):
        if one != other:
            return Witness(what, one, other)
    if abs(first.offset - second.offset) > TOLERANCE * max(abs(first.offset), abs(second.offset)):
        return Witness("the objective's constant, as a minimum", first.offset, second.offset)
    if first.comparable(second) and fixed_alike(first, second) is None:
        return Witness("values of the fixed variables", sorted(first.fixed.values()), sorted(second.fixed.values()))
    return None


def fixed_alike(a: Canonical, b: Canonical) -> dict[str, str] | None:
    """Fixed variables of a to those of b with the same values; None where the values differ."""
    pairs = list(zip(_by_value(a), _by_value(b), strict=False))
    if len(a.fixed) != len(b.fixed) or any(abs(x - y) > TOLERANCE * max(abs(x), abs(y)) for (x, _), (y, _) in pairs):
        return None
    return {name: image for (_, name), (_, image) in pairs}


def defined_alike(mapping: Sequence[int], a: Canonical, b: Canonical) -> dict[str, str] | None:
    """Defined variables of a to those of b that the mapped columns define alike; None where one has no such twin."""
    left, found = list(b.defined), {}
    for defined in a.defined:
        terms = sorted((mapping[j], value) for j, value in defined.terms)
        twin = next((other for other in left if _same_definition(defined, terms, other)), None)
        if twin is None:
            return None
        left.remove(twin)
        found[defined.name] = twin.name
    return None if left else found


def _same_definition(defined: Defined, terms: list[tuple[int, float]], other: Defined) -> bool:
    if defined.whole != other.whole or [j for j, _ in terms] != [j for j, _ in other.terms]:
        return False
    numbers = zip(
        [defined.constant, *(v for _, v in terms)], [other.constant, *(v for _, v in other.terms)], strict=True
    )
    return all(abs(x - y) <= TOLERANCE * max(abs(x), abs(y)) for x, y in numbers)


def _by_value(form: Canonical) -> list[tuple[float, str]]:
    return sorted((value, name) for name, value in form.fixed.items())


def _structure(found: Isomorphism, a: Graph, b: Graph) -> Witness:
    where = "" if found.rounds == 0 else f", seen {found.rounds} step{'s' * (found.rounds > 1)} far"
    if found.node_a is None and found.node_b is None:
        return Witness("colours agree, but no mapping keeps all of them", "", "")
    return Witness(f"a part without a twin in the other model{where}", _words(a, found.node_a), _words(b, found.node_b))


def _words(graph: Graph, node: int | None) -> str:
    if node is None:
        return ""
    form, kind = graph.canonical, graph.keys[node][0]
    if kind == COLUMN:
        low, high = form.lower[node], form.upper[node]
        whole = "integer" if form.whole[node] else "continuous"
        return f"{whole} variable {form.names[node]} in [{low:.12g}, {high:.12g}] with cost {form.cost[node]:.12g}"
    if kind == HALF:
        half = form.halves[node - len(form.columns)]
        return f"row {half.rows[0]}, scaled: … <= {half.side:.12g} over {len(half.terms)} variables"
    return (
        "",
        "",
        "an indicator constraint",
        "a product of variables",
        "an ordered set",
        "an ordered set",
        "a general constraint",
        "a variable that others define",
    )[kind]
