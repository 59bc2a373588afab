"""Rational optima against integers found by enumeration of bases, by hand, and by another exact solver."""

import itertools
import math
import random
import shutil
import time
from fractions import Fraction

import numpy as np
import pytest

from trex.solver import exact, lp, qsopt, rational
from trex.solver.builder import Builder, Row
from trex.solver.exact import Program, decimal
from trex.solver.solve import solve

INF = math.inf


def random_program(draw, n, m, decimals=1):
    """A bounded, feasible program with decimal data, of both senses and with all kinds of sides."""
    built = Builder(draw.choice(("min", "max")), offset=0.1)
    inside = [draw.randint(0, 5) for _ in range(n)]
    scale = 10**decimals
    for j in range(n):
        built.variable(f"x{j}")
        column = built.columns[f"x{j}"]
        column.cost = draw.randint(-50, 50) / scale
        column.lower, column.upper = draw.choice(((0, 7), (-3, 9), (-7.3, 8.1)))
    for i in range(m):
        terms = {j: draw.randint(-50, 50) / scale for j in draw.sample(range(n), min(n, 4))}
        at = sum(decimal(c) * inside[j] for j, c in terms.items())
        below, above = draw.choice(((0, INF), (INF, 1), (0, 0), (2, 3)))
        low = -INF if below == INF else float(at - below)
        high = INF if above == INF else float(at + above)
        built.rows.append(Row(f"r{i}", terms, low, high))
    return built.model()


def best_of_bases(program):
    """The optimum over all points where as many sides as variables hold with equality, in fractions."""
    n = len(program.cost)
    planes = [({j: Fraction(1)}, sides) for j, sides in enumerate(program.columns)]
    planes += [(row, sides) for row, sides in zip(program.rows, program.sides, strict=True)]
    equal = [(row, side) for row, sides in planes for side in set(sides) if side is not None]
    best = None
    for chosen in itertools.combinations(equal, n):
        matrix = [[row.get(j, Fraction(0)) for j in range(n)] + [side] for row, side in chosen]
        point = gauss(matrix)
        if point is None:
            continue
        sums = [sum(c * point[j] for j, c in row.items()) for row, _ in planes]
        if all(
            (lo is None or lo <= s) and (hi is None or s <= hi) for s, (_, (lo, hi)) in zip(sums, planes, strict=True)
        ):
            value = program.offset + sum(c * x for c, x in zip(program.cost, point, strict=True))
            better = best is None or (value < best if program.sense == "min" else value > best)
            best = value if better else best
    return best


def gauss(a):
    n = len(a)
    for k in range(n):
        pivot = next((i for i in range(k, n) if a[i][k]), None)
        if pivot is None:
            return None
        a[k], a[pivot] = a[pivot], a[k]
        a[k] = [x / a[k][k] for x in a[k]]
        for i in range(n):
            if i != k and a[i][k]:
                a[i] = [x - a[i][k] * y for x, y in zip(a[i], a[k], strict=True)]
    return [row[n] for row in a]


def test_small_programs_equal_their_best_vertex_in_fractions():
    draw = random.Random(0)
    for _ in range(40):
        model = random_program(draw, 3, draw.randint(1, 3))
        solution = solve(model, check="exact")
        assert solution.status == "optimal" and solution.exact is not None, solution.message
        assert solution.exact == best_of_bases(Program.of(model))
        assert float(solution.exact) == pytest.approx(solution.objective, abs=1e-7)


def test_decimals_are_what_was_written():
    solution = solve(lp.read("max\n 0.1 x + 0.2 y\nst\n c: 0.3 x + y <= 0.7\n d: x + 3 y <= 1.1\nend\n"), check="exact")
    assert solution.exact == Fraction(11, 100)  # x = 1.1, y = 0
    assert decimal(0.1) == Fraction(1, 10) and decimal(-0.0) == 0 and decimal(1e-7) == Fraction(1, 10**7)
    assert decimal(1e22) == 10**22 and decimal(123456.75) == Fraction("123456.75")


def test_thirds_come_out_as_thirds_and_free_variables_rest_at_zero():
    model = lp.read("min\n x + y + 2 z\nst\n c: 3 x + y >= 1\n d: x + 3 y >= 1\nbounds\n x free\n y free\nend\n")
    assert solve(model, check="exact").exact == Fraction(1, 2)
    model = lp.read("min\n x\nst\n c: 3 x + 7 y >= 1\nbounds\n x >= -1\n y <= 0.1\nend\n")
    assert solve(model, check="exact").exact == Fraction(1, 10)
    assert solve(lp.read("min\n 0 x\nst\n c: x + y >= 1\nbounds\n x free\n y free\nend\n"), check="exact").exact == 0


def test_integers_are_fixed_and_the_rest_is_solved():
    model = lp.read("max\n x + 3 y\nst\n c: 3 x + 9 y <= 20.5\n d: y <= 1.7\ngenerals\n y\nend\n")
    assert solve(model, check="exact").exact == Fraction(205, 30)
    knapsack = lp.read("max\n 0.1 a + 0.2 b\nst\n c: a + b <= 3\nbounds\n a <= 2\n b <= 2\ngenerals\n a b\nend\n")
    assert solve(knapsack, check="exact").exact == Fraction(1, 2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("min\n x + [ x^2 ] / 2\nst\n c: x >= 1\nend\n", "a quadratic objective"),
        ("min\n x\nst\n c: x >= 1\n d: x <= 0\nend\n", None),
        ("max\n x\nst\n c: x >= 1\nend\n", None),
    ],
)
def test_no_exact_value_without_an_optimum_or_beyond_linear(text, reason):
    solution = solve(lp.read(text), check="exact")
    assert solution.exact is None
    assert reason is None or reason in solution.message


def test_a_basis_that_is_wrong_is_not_believed():
    from highspy import HighsBasisStatus as Status

    program = Program.of(lp.read("min\n x + y\nst\n c: x + 2 y >= 2\nbounds\n x <= 5\n y <= 5\nend\n"))
    soon = time.perf_counter() + 60
    right = exact.on_basis(program, [Status.kLower, Status.kBasic], [Status.kLower], soon)
    assert right == 1
    assert exact.on_basis(program, [Status.kBasic, Status.kLower], [Status.kLower], soon) is None  # 2: not optimal
    assert exact.on_basis(program, [Status.kUpper, Status.kUpper], [Status.kBasic], soon) is None
    assert exact.on_basis(program, [Status.kLower, Status.kLower], [Status.kBasic], soon) is None  # infeasible
    with pytest.raises(rational.SingularError):
        exact.on_basis(program, [Status.kBasic, Status.kBasic], [Status.kLower], soon)


def test_rational_systems_equal_elimination_in_fractions():
    draw = random.Random(1)
    for size in (1, 2, 5, 12):
        for _ in range(10):
            dense = [[Fraction(draw.randint(-9, 9), draw.randint(1, 9)) for _ in range(size)] for _ in range(size)]
            right = [Fraction(draw.randint(-99, 99), draw.randint(1, 9)) for _ in range(size)]
            expected = gauss([[*row, side] for row, side in zip(dense, right, strict=True)])
            rows = [{j: c for j, c in enumerate(row) if c} for row in dense]
            if expected is None:
                with pytest.raises(rational.SingularError):
                    rational.solve(rows, right)
            else:
                assert rational.solve(rows, right) == expected
    with pytest.raises(rational.SingularError):
        rational.solve([{0: Fraction(1), 1: Fraction(2)}, {0: Fraction(2), 1: Fraction(4)}], [Fraction(1), Fraction(2)])
    multiple = Fraction(rational.PRIMES[0])  # singular modulo the first prime only
    assert rational.solve([{0: multiple}], [Fraction(1)]) == [1 / multiple]
    with pytest.raises(rational.SingularError, match="in time"):
        rational.solve([{0: Fraction(1)}], [Fraction(1)], deadline=0.0)


@pytest.mark.skipif(shutil.which(qsopt.PROGRAM) is None, reason="QSopt_ex is not installed")
def test_programs_of_all_sizes_equal_qsopt():
    draw = random.Random(2)
    for n, m in ((4, 3), (10, 12), (30, 20), (60, 70)):
        for _ in range(3):
            model = random_program(draw, n, m, decimals=3)
            program = Program.of(model)
            other, reason = qsopt.value(program, 60)
            assert other is not None, reason
            assert solve(model, check="exact").exact == other


@pytest.mark.skipif(shutil.which(qsopt.PROGRAM) is None, reason="QSopt_ex is not installed")
def test_qsopt_takes_over_where_the_basis_does_not_hold(monkeypatch):
    model = random_program(random.Random(3), 8, 6)
    expected = exact.value(model, np.zeros(8), 60)
    assert expected[0] is not None
    monkeypatch.setattr(exact, "on_basis", lambda *_: None)
    assert exact.value(model, np.zeros(8), 60) == expected
    monkeypatch.setattr(qsopt, "PROGRAM", "no such program")
    value, reason = exact.value(model, np.zeros(8), 60)
    assert value is None and "not exactly optimal" in reason and "not installed" in reason


def test_a_dense_basis_of_two_hundred_rows():
    random_numbers = np.random.default_rng(4)
    size = 200
    built = Builder("max")
    matrix = random_numbers.integers(1, 100, size=(size, size))
    for j in range(size):
        built.variable(f"x{j}")
        built.columns[f"x{j}"].cost = 1.0
    for i in range(size):
        built.rows.append(Row(f"r{i}", {j: float(matrix[i, j]) for j in range(size)}, -INF, 1000.0))
    solution = solve(built.model(), check="exact")
    assert solution.exact is not None, solution.message
    assert float(solution.exact) == pytest.approx(solution.objective, rel=1e-9)
