"""Sparse linear systems solved in rational numbers: p-adic lifting (Dixon, 1982), checked by substitution.

The inverse modulo a prime gives the solution's digits in base p one by one, each by one multiplication; fractions are
recovered from the digits as soon as these satisfy the system, which takes few digits where the fractions are short.
"""

import math
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

PRIMES = (33554393, 33554383, 33554371)  # below 2^25: 2^50 times LARGEST_SIZE fits into 63 bits
LARGEST_SIZE = 4000


class SingularError(ValueError):
    """A system without a unique solution, or one that is not found within its limits."""


def solve(
    rows: Sequence[Mapping[int, Fraction]], right: Sequence[Fraction], deadline: float = math.inf
) -> list[Fraction]:
    """x with sum of rows[i][j] x[j] = right[i] for a square system; `deadline` is on the clock of time.perf_counter.

    Raises SingularError for a singular system, one above LARGEST_SIZE and one not solved by the deadline.
    """
    size = len(rows)
    if size == 0:
        return []
    if size > LARGEST_SIZE:
        raise SingularError(f"a basis of {size} rows; at most {LARGEST_SIZE} are accepted")
    whole, target = [], []
    for row, side in zip(rows, right, strict=True):
        scale = math.lcm(side.denominator, *(c.denominator for c in row.values()))
        whole.append([(j, int(c * scale)) for j, c in row.items() if c])
        target.append(int(side * scale))
    for prime in PRIMES:
        matrix = np.zeros((size, size), dtype=np.int64)
        for i, entries in enumerate(whole):
            for j, c in entries:
                matrix[i, j] = c % prime
        inverse = _inverse(matrix, prime, deadline)
        if inverse is not None:
            return _lift(whole, target, inverse, prime, deadline)
    raise SingularError("the basis is singular")


def _inverse(matrix: NDArray[np.int64], prime: int, deadline: float) -> NDArray[np.int64] | None:
    """Inverse modulo a prime by Gauss-Jordan elimination in place; None where there is none."""
    size = len(matrix)
    a = matrix.copy()
    order = np.arange(size)
    for k in range(size):
        if time.perf_counter() > deadline:
            raise SingularError("not solved in time")
        candidates = np.flatnonzero(a[k:, k])
        if not len(candidates):
            return None
        pivot = k + int(candidates[0])
        if pivot != k:
            a[[k, pivot]] = a[[pivot, k]]
            order[[k, pivot]] = order[[pivot, k]]
        reciprocal = pow(int(a[k, k]), -1, prime)
        a[k, k] = 1
        a[k] = a[k] * reciprocal % prime
        touched = np.flatnonzero(a[:, k])
        touched = touched[touched != k]
        if len(touched):
            factors = a[touched, k].copy()
            a[touched, k] = 0
            columns = np.flatnonzero(a[k])
            block = np.ix_(touched, columns)
            a[block] = (a[block] - factors[:, None] * a[k, columns]) % prime
    inverse = np.empty_like(a)
    inverse[:, order] = a  # rows swapped in the matrix are columns swapped in its inverse
    return inverse


def _lift(
    whole: list[list[tuple[int, int]]], target: list[int], inverse: NDArray[np.int64], prime: int, deadline: float
) -> list[Fraction]:
    size = len(target)
    rest, solution, power = list(target), [0] * size, 1
    # Cramer and Hadamard: neither numerators nor denominators are above this
    norms = [max(1, sum(c * c for _, c in row)) for row in whole]
    bits = sum(norm.bit_length() for norm in norms) // 2 + size + max(abs(b) for b in target).bit_length() + 2
    done, attempt = 0, 2
    while True:
        digits = (inverse @ np.array([r % prime for r in rest], dtype=np.int64) % prime).tolist()
        rest = [(r - sum(c * digits[j] for j, c in entries)) // prime for r, entries in zip(rest, whole, strict=True)]
        solution = [x + power * digit for x, digit in zip(solution, digits, strict=True)]
        power *= prime
        done += 1
        if done == attempt or power.bit_length() > 2 * bits + 2:
            found = _fractions(solution, power)
            if found is not None and _solves(whole, target, found):
                return found
            if power.bit_length() > 2 * bits + 2:
                raise SingularError("no rational solution was found")
            attempt = attempt * 3 // 2 + 1
        if time.perf_counter() > deadline:
            raise SingularError("not solved in time")


def _fractions(residues: list[int], modulus: int) -> list[Fraction] | None:
    """The fractions with small numerators and denominators that have these residues; None where one has none."""
    limit = math.isqrt(modulus // 2)
    common, found = 1, []
    for residue in residues:
        # most share one denominator: the rest after it is short, and quick to find
        residue = residue * common % modulus
        signed = residue - modulus if residue > modulus // 2 else residue
        if abs(signed) <= limit:
            found.append(Fraction(signed, common))
            continue
        before, now, s_before, s_now = modulus, residue, 0, 1
        while now > limit:
            quotient = before // now
            before, now = now, before - quotient * now
            s_before, s_now = s_now, s_before - quotient * s_now
        if s_now == 0 or abs(s_now) > limit:
            return None
        found.append(Fraction(now, s_now) / common)
        common *= abs(s_now) // math.gcd(now, abs(s_now))
    return found


def _solves(whole: list[list[tuple[int, int]]], target: list[int], found: list[Fraction]) -> bool:
    common = math.lcm(*(x.denominator for x in found))
    scaled = [x.numerator * (common // x.denominator) for x in found]
    return all(sum(c * scaled[j] for j, c in entries) == b * common for entries, b in zip(whole, target, strict=True))
