"""The verdict of the paper's own LP equivalence checker, flaws included, so that its numbers can stand beside ours.

The paper's public evaluator reads both LP files with Gurobi, turns rows of one variable into bounds, turns rows with
right side 0 to one sign, and compares colour refinements of the bipartite graph of variables and rows (ORGEval, arXiv
2510.27610). This module follows that procedure on a `Model`; it must never be used to decide what is right.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from trex.solver.model import WHOLE, Model

DROPPED = 1e-13  # Gurobi's readers leave out a coefficient of this size or less
INFINITE = 1e20  # from here on Gurobi takes a bound for infinite
WHOLE_TOLERANCE = 1e-5  # Gurobi's readers round bounds of integer variables inwards, but for this much
SINGLE, ZERO_SIDE, ZERO_SUM = 1e-12, 1e-9, 1e-12  # the evaluator's own tolerances

BINARY_HEADINGS = frozenset({"bin", "binary", "binaries"})
HEADINGS = BINARY_HEADINGS | {
    *("bound", "bounds", "gen", "general", "generals", "int", "integer", "integers", "end", "sos", "pwlobj"),
    *("semi-continuous", "semi", "semis", "subject", "s.t.", "st", "st.", "such", "lazy", "user", "scenario"),
    *("min", "max", "minimize", "maximize", "minimum", "maximum", "gencons", "gens", "lazycons"),
}
CONTINUOUS, BINARY, INTEGER = 0.0, 1.0, 2.0
SENSES = {"<": -1.0, "=": 0.0, ">": 1.0}


@dataclass(frozen=True)
class _Row:
    terms: tuple[tuple[int, float], ...]  # variable, coefficient; by rising variable
    sense: str
    side: float


@dataclass(frozen=True)
class _Form:
    """What the evaluator sees of a model."""

    cost: tuple[float, ...]
    types: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    rows: tuple[_Row, ...]


@dataclass(frozen=True)
class _Graph:
    """Variables first, then rows: the text each node starts with, and its neighbours with the text of the edge."""

    texts: tuple[str, ...]
    edges: tuple[tuple[tuple[int, str], ...], ...]


def published_verdict(
    a: Model, b: Model, binaries: tuple[Collection[str] | None, Collection[str] | None] = (None, None)
) -> tuple[bool, str]:
    """Whether the paper's public evaluator calls two models equivalent, and which of its steps decides. Never raises.

    A `Model` does not say whether an integer variable within [0, 1] was declared binary, and the evaluator tells the
    two apart. `binaries` names each model's declared binaries (see `declared_binaries`); where it is None every integer
    variable within [0, 1] counts as binary.

    Source: the evaluator published with the paper, which follows ORGEval (arXiv 2510.27610). Reproduced flaws:

    1. The objective's sense is ignored: min f equals max f.
    2. A row of one variable with a negative coefficient becomes a bound on the wrong side.
    3. Such a row overwrites a tighter bound of the variable.
    4. Sets of colours are compared, not how often each occurs.
    5. Quadratic terms, quadratic rows, SOS, indicators, general constraints, semi-continuity, the constant are dropped.
    6. Numbers count to six decimals of their float32 value, in which -0 differs from 0.
    7. Scaled or negated rows, redundant rows, slack form, min f and max -f, binary and integer [0, 1] are different.
    8. Models with symmetry that does not fall apart into distinct pieces differ from themselves.

    A model without variables and rows crashes the evaluator; here that is "not equivalent".
    """
    form_a, form_b = (_turn(_move_singles(_form(*pair))) for pair in zip((a, b), binaries, strict=True))
    for what, count_a, count_b in (
        ("variables", len(form_a.cost), len(form_b.cost)),
        ("rows", len(form_a.rows), len(form_b.rows)),
    ):
        if count_a != count_b:
            return False, f"number of {what}: {count_a} and {count_b}"
    graphs = _graph(form_a), _graph(form_b)
    if not graphs[0].texts:
        return False, "no variables and no rows: the evaluator fails"
    colours = _refine(*graphs)
    if colours is None:
        return False, "the sets of colours differ"
    found = [_decidable(graph, colour) for graph, colour in zip(graphs, colours, strict=True)]
    for name, (decidable, reason) in zip("ab", found, strict=True):
        if not decidable:
            return False, f"equal sets of colours, but not decidable: {reason} in model {name}"
    return True, "equal sets of colours; " + "; ".join(sorted({reason for _, reason in found}))


def declared_binaries(text: str) -> frozenset[str]:
    """Names that an LP or MPS text, one that can be read, declares binary: after such a heading, or by BV bounds."""
    names: set[str] = set()
    inside = False
    for line in text.splitlines():
        words = line.split("\\", 1)[0].split()
        if words[:1] and words[0].upper() == "BV" and len(words) in (3, 4):  # MPS: BV, name, variable, maybe a number
            names.add(words[2])
            continue
        for word in words:
            if word.lower() in HEADINGS:
                inside = word.lower() in BINARY_HEADINGS
            elif inside:
                names.add(word)
    return frozenset(names)


def _form(model: Model, binaries: Collection[str] | None) -> _Form:
    """The model as Gurobi would have read it, as far as the evaluator asks (flaws 1 and 5 are what is not asked)."""
    count = len(model.variables)
    cost = [c + 0.0 for c in model.cost.tolist()]  # + 0.0: a coefficient of -0 is read as 0
    lower, upper = model.lower.tolist(), model.upper.tolist()
    types = [CONTINUOUS] * count
    for j, kind in enumerate(model.kinds):
        if kind not in WHOLE:
            continue
        declared = binaries is not None and model.variables[j] in binaries
        if declared:
            lower[j], upper[j] = max(lower[j], 0.0), min(upper[j], 1.0)
        lower[j] = _rounded(lower[j], np.ceil, -WHOLE_TOLERANCE)
        upper[j] = _rounded(upper[j], np.floor, WHOLE_TOLERANCE)
        within = binaries is None and 0 <= lower[j] <= upper[j] <= 1
        if kind == "integer":  # semi-integer counts as continuous
            types[j] = BINARY if declared or within else INTEGER
    rows = []
    for r, (low, high) in enumerate(zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True)):
        if r in model.quadratic_rows:
            continue
        terms = [(j, c) for j, c in sorted(model.row(r)) if abs(c) > DROPPED]
        if low != high and math.isfinite(low) and math.isfinite(high):
            # a row with two sides is read as an equality with a further variable
            terms.append((len(cost), -1.0))
            for column, value in ((cost, 0.0), (types, CONTINUOUS), (lower, 0.0), (upper, high - low)):
                column.append(value)
            rows.append(_Row(tuple(terms), "=", low))
        elif low == high:
            rows.append(_Row(tuple(terms), "=", low))
        elif math.isfinite(high):
            rows.append(_Row(tuple(terms), "<", high))
        else:
            rows.append(_Row(tuple(terms), ">", low))
    return _Form(tuple(cost), tuple(types), tuple(lower), tuple(upper), tuple(rows))


def _rounded(bound: float, rounding: np.ufunc, slack: float) -> float:
    """An integer variable's bound as Gurobi reads it. A lower bound in (-1, 0) becomes -0, which six decimals show."""
    return bound if math.isinf(bound) or bound == math.floor(bound) else float(rounding(bound + slack))


def _move_singles(form: _Form) -> _Form:
    """Rows of one variable as bounds: by the row's sense alone (flaw 2), in place of the old bound (flaw 3)."""
    lower: dict[int, float] = {}
    upper: dict[int, float] = {}
    kept = []
    for row in form.rows:
        if len(row.terms) != 1 or abs(row.terms[0][1]) < SINGLE:
            kept.append(row)
            continue
        j, coefficient = row.terms[0]
        bound = row.side / coefficient
        if row.sense in (">", "="):
            lower[j] = max(lower.get(j, -math.inf), bound)
        if row.sense in ("<", "="):
            upper[j] = min(upper.get(j, math.inf), bound)
    low = (lower.get(j, value) for j, value in enumerate(form.lower))
    high = (upper.get(j, value) for j, value in enumerate(form.upper))
    return replace(
        form,
        lower=tuple(-math.inf if value <= -INFINITE else value for value in low),
        upper=tuple(math.inf if value >= INFINITE else value for value in high),
        rows=tuple(kept),
    )


def _turn(form: _Form) -> _Form:
    """Rows with right side 0: `<=` becomes `>=`, an equality gets a positive sum of coefficients if it has a sum."""
    rows = []
    for row in form.rows:
        zero = abs(row.side) < ZERO_SIDE
        total = sum(c for _, c in row.terms)
        if zero and (row.sense == "<" or (row.sense == "=" and total <= -ZERO_SUM)):
            sense = ">" if row.sense == "<" else "="
            row = _Row(tuple((j, -c) for j, c in row.terms), sense, 0.0)
        rows.append(row)
    return replace(form, rows=tuple(rows))


def _graph(form: _Form) -> _Graph:
    count = len(form.cost)
    texts = [_text(numbers) for numbers in zip(form.cost, form.types, form.lower, form.upper, strict=True)]
    edges: list[list[tuple[int, str]]] = [[] for _ in range(count + len(form.rows))]
    for node, row in enumerate(form.rows, start=count):
        texts.append(_text((row.side, SENSES[row.sense])))
        for j, c in row.terms:
            text = _text((c,))
            edges[node].append((j, text))
            edges[j].append((node, text))
    return _Graph(tuple(texts), tuple(map(tuple, edges)))


def _text(numbers: tuple[float, ...]) -> str:
    """Six decimals of float32 values (flaw 6)."""
    with np.errstate(over="ignore"):
        return " ".join(f"{x:.6f}" for x in np.array(numbers).astype(np.float32).tolist())


def _refine(a: _Graph, b: _Graph) -> tuple[list[int], list[int]] | None:
    """Stable colours of both graphs' nodes, None where the sets of colours differ (sets, not multisets: flaw 4).

    The evaluator recolours all nodes of one graph round by round until the number of colours stays the same, and
    compares the two sets at the end. A colour contains those it came from, so sets that differ once differ from then
    on; while they are equal both graphs stop in the same round, at what is stable for both together. That is the
    coarsest stable partition of both, found here by splitting classes, with the largest piece left out of the queue.
    """
    count = len(a.texts)
    edges = [*a.edges, *(tuple((j + count, text) for j, text in node) for node in b.edges)]
    numbers: dict[str, int] = {}
    colours = [numbers.setdefault(text, len(numbers)) for text in (*a.texts, *b.texts)]
    classes: list[set[int]] = [set() for _ in numbers]
    for i, colour in enumerate(colours):
        classes[colour].add(i)
    queue = list(range(len(classes)))
    while queue:
        near: dict[int, list[str]] = {}
        for i in classes[queue.pop()]:
            for j, text in edges[i]:
                near.setdefault(j, []).append(text)
        pieces: dict[int, dict[tuple[str, ...], set[int]]] = {}
        for j, texts in near.items():
            pieces.setdefault(colours[j], {}).setdefault(tuple(sorted(texts)), set()).add(j)
        for colour, alike in pieces.items():
            split = list(alike.values())
            for piece in split:
                classes[colour] -= piece
            split.append(classes[colour])
            split.sort(key=len)
            classes[colour] = split.pop()
            for piece in filter(None, split):
                queue.append(len(classes))
                for j in piece:
                    colours[j] = len(classes)
                classes.append(piece)
    if set(colours[:count]) != set(colours[count:]):
        return None
    return colours[:count], colours[count:]


def _decidable(graph: _Graph, colours: list[int]) -> tuple[bool, str]:
    """Whether, without the nodes of unique colour, no component has a colour twice (else flaw 8)."""
    sizes = np.bincount(colours)
    left = {i for i, colour in enumerate(colours) if sizes[colour] > 1}
    if not left:
        return True, "all colours are unique"
    while left:
        stack, held = [left.pop()], set()
        while stack:
            i = stack.pop()
            if colours[i] in held:
                return False, "a component has a colour twice"
            held.add(colours[i])
            near = {j for j, _ in graph.edges[i]} & left
            left -= near
            stack += near
    return True, "components have distinct colours"
