"""Isomorphism of canonical forms: rewritten models are equal by a mapping that is checked without graphs and colours;
the search agrees with two other programs on graphs."""

import random
from pathlib import Path

import numpy as np
import pytest

import trex.paths
from trex.eval.rewriting import rewritten
from trex.solver import lp
from trex.solver.equivalence import compare
from trex.solver.equivalence.canonical import Canonical, canonical
from trex.solver.equivalence.draft import draft, simplify
from trex.solver.equivalence.graph import graphs
from trex.solver.equivalence.refine import isomorphism
from trex.solver.model import Model

SHARED = Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks"
BENCHMARKS = sorted(SHARED.glob("b4o_*/lp/*.lp"))


def assignment(n: int) -> Model:
    """n jobs, n machines, all costs 1: every permutation of either is a symmetry."""
    rows = [f" j{i}: {' + '.join(f'x[{i},{k}]' for k in range(n))} = 1" for i in range(n)]
    rows += [f" m{k}: {' + '.join(f'x[{i},{k}]' for i in range(n))} = 1" for k in range(n)]
    names = [f"x[{i},{k}]" for i in range(n) for k in range(n)]
    return read(" + ".join(names), rows, f"Binaries\n {' '.join(names)}")


def bin_packing(sizes: list[int], bins: int, capacity: int) -> Model:
    """Items of given sizes into bins, all of which are alike."""
    rows = [f" i{i}: {' + '.join(f'x[{i},{k}]' for k in range(bins))} = 1" for i in range(len(sizes))]
    rows += [
        f" b{k}: {' + '.join(f'{size} x[{i},{k}]' for i, size in enumerate(sizes))} - {capacity} y[{k}] <= 0"
        for k in range(bins)
    ]
    names = [f"y[{k}]" for k in range(bins)] + [f"x[{i},{k}]" for i in range(len(sizes)) for k in range(bins)]
    return read(" + ".join(f"y[{k}]" for k in range(bins)), rows, f"Binaries\n {' '.join(names)}")


def colouring(edges: list[tuple[int, int]], nodes: int, colours: int) -> Model:
    """Colour a graph; colours are alike."""
    rows = [f" n{v}: {' + '.join(f'x[{v},{c}]' for c in range(colours))} = 1" for v in range(nodes)]
    rows += [f" e{u}_{v}_{c}: x[{u},{c}] + x[{v},{c}] - w[{c}] <= 0" for u, v in edges for c in range(colours)]
    names = [f"w[{c}]" for c in range(colours)] + [f"x[{v},{c}]" for v in range(nodes) for c in range(colours)]
    return read(" + ".join(f"w[{c}]" for c in range(colours)), rows, f"Binaries\n {' '.join(names)}")


def read(objective: str, rows: list[str], rest: str) -> Model:
    return lp.read("\n".join(["Minimize", f" obj: {objective}", "Subject To", *rows, rest, "End", ""]))


PETERSEN = [(i, (i + 1) % 5) for i in range(5)] + [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
PETERSEN += [(i, i + 5) for i in range(5)]
PRISM = [(i, (i + 1) % 5) for i in range(5)] + [(5 + i, 5 + (i + 1) % 5) for i in range(5)]
PRISM += [(i, i + 5) for i in range(5)]
CELLS = [(i, j) for i in range(4) for j in range(4)]
# two strongly regular graphs with the same parameters (16, 6, 2, 2), which refinement cannot tell apart
ROOK = [(CELLS.index(p), CELLS.index(q)) for p in CELLS for q in CELLS
        if p < q and (p[0] == q[0] or p[1] == q[1])]  # fmt: skip
SHRIKHANDE = [
    (CELLS.index(p), CELLS.index(q))
    for p in CELLS
    for q in CELLS
    if p < q and ((q[0] - p[0]) % 4, (q[1] - p[1]) % 4) in {(0, 1), (1, 0), (1, 1), (0, 3), (3, 0), (3, 3)}
]
SYMMETRIC = {
    "assignment 30 x 30": assignment(30),
    "bin packing, 20 items": bin_packing([7, 3, 9, 4, 4, 8, 2, 6, 5, 1, 3, 7, 9, 2, 2, 6, 8, 5, 4, 1], 20, 20),
    "bin packing, 20 items alike": bin_packing([3] * 20, 20, 10),
    "colouring, Petersen's graph": colouring(PETERSEN, 10, 4),
    "colouring, the rook's graph": colouring(ROOK, 16, 4),
}


def assert_same(a: Model, b: Model, mapping: dict[str, str], rng: random.Random) -> None:
    """Objective, and how far from feasible random points are, do not change under a mapping.

    Fixed variables take their values: those of one value may be matched in any order.
    """
    place = {name: j for j, name in enumerate(b.variables)}
    fixed = form(a).fixed
    for _ in range(10):
        point = np.array([fixed.get(name, rng.gauss(0, 5)) for name in a.variables])
        image = np.zeros(len(point))
        for j, name in enumerate(a.variables):
            image[place[mapping[name]]] = point[j]
        values = [m.objective(x) * (1 if m.sense == "min" else -1) for m, x in ((a, point), (b, image))]
        assert values[0] == pytest.approx(values[1], rel=1e-9, abs=1e-9)
        assert distance(a, point) == pytest.approx(distance(b, image), rel=1e-7, abs=1e-8)


def form(model: Model) -> Canonical:
    work = draft(model)
    simplify(work)
    return canonical(work)


def distance(model: Model, point: np.ndarray) -> float:
    """How far the point is beyond the row or bound that it breaks most, in units of the row's largest coefficient."""
    found = [*(model.lower - point), *(point - model.upper)]
    for row in range(len(model.rows)):
        numbers = [value for _, value in model.row(row)] + list(model.quadratic_rows.get(row, {}).values())
        scale = max(map(abs, numbers), default=0.0)
        if not scale:
            continue
        activity = sum(model.terms(row, point))
        found += [(model.row_lower[row] - activity) / scale, (activity - model.row_upper[row]) / scale]
    return max(found)


def full_mapping(a: Model, b: Model, mapping: dict[str, str]) -> dict[str, str]:
    assert set(mapping) == set(a.variables) and set(mapping.values()) == set(b.variables)
    return dict(mapping)


@pytest.mark.skipif(not BENCHMARKS, reason="shared benchmarks are not here")
def test_every_reference_model_equals_itself_rewritten():
    rng = random.Random(0)
    for path in BENCHMARKS:
        model = lp.read(path)
        other = rewritten(model, rng)
        verdict = compare(model, other)
        assert verdict.kind == "equal", path
        assert verdict.largest_difference < 1e-14
        assert_same(model, other, full_mapping(model, other, verdict.variables), rng)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_models(name):
    rng = random.Random(1)
    model = SYMMETRIC[name]
    other = rewritten(model, rng)
    verdict = compare(model, other)
    assert verdict.kind == "equal"
    assert_same(model, other, full_mapping(model, other, verdict.variables), rng)


@pytest.mark.parametrize(("one", "other", "nodes"), [(PETERSEN, PRISM, 10), (ROOK, SHRIKHANDE, 16)])
def test_alike_under_refinement_but_not_isomorphic(one, other, nodes):
    verdict = compare(colouring(one, nodes, 2), colouring(other, nodes, 2), mode="isomorphism")
    assert verdict.kind == "different"
    assert verdict.witness.invariant == "colours agree, but no mapping keeps all of them"


def random_graph(rng: random.Random, nodes: int, degree: int) -> list[tuple[int, int]]:
    """A random graph in which every node has about the same degree."""
    ends = [v for v in range(nodes) for _ in range(degree)]
    rng.shuffle(ends)
    return sorted({(min(u, v), max(u, v)) for u, v in zip(ends[::2], ends[1::2], strict=False) if u != v})


def found(a: Model, b: Model) -> bool:
    result = isomorphism(*graphs(form(a), form(b)), time_s=60.0)
    assert not result.undecided
    return result.mapping is not None


@pytest.mark.parametrize("oracle", ["pynauty", "igraph"])
def test_agrees_with_other_programs_on_graphs(oracle):
    package = pytest.importorskip(oracle)

    def isomorphic(first, second, nodes):
        if oracle == "igraph":
            return package.Graph(nodes, first).isomorphic(package.Graph(nodes, second))
        graphs_ = [package.Graph(nodes) for _ in range(2)]
        for graph, edges in zip(graphs_, (first, second), strict=True):
            for u, v in edges:
                graph.connect_vertex(u, [v])
        return package.isomorphic(*graphs_)

    rng = random.Random(2)
    outcomes = []
    for _ in range(60):
        nodes = rng.randint(4, 7)
        first, second = random_graph(rng, nodes, 2), random_graph(rng, nodes, 2)
        if len(first) != len(second):
            continue
        right = isomorphic(first, second, nodes)
        outcomes.append(right)
        assert found(colouring(first, nodes, 2), colouring(second, nodes, 2)) == right
    assert any(outcomes) and not all(outcomes)


def test_the_search_stops_in_time():
    """Graphs that only a search tells apart: without time for it nothing is decided, with time they are different."""
    forms = graphs(form(colouring(ROOK, 16, 2)), form(colouring(SHRIKHANDE, 16, 2)))
    assert isomorphism(*forms, time_s=0.0).undecided
    result = isomorphism(*forms, time_s=60.0)
    assert result.mapping is None and not result.undecided
