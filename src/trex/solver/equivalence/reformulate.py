"""Rewriting that keeps a model's meaning but not its form: slack and defined columns leave, redundant rows leave.

A column that leaves is a function of those that stay, so feasible points correspond one to one.
"""

import math
import time
from collections.abc import Callable

from trex.solver.equivalence.draft import SNAP, Draft, DraftRow, shifted, simplify

MOST_ENTRIES = 50  # of a row whose free column is substituted elsewhere: more would fill the matrix


def reformulate(work: Draft, deadline: float) -> None:
    """Apply every rule until none applies or the time is over; `work.steps` says what was done."""
    rules: tuple[Callable[[Draft], bool], ...] = (_implied_integers, _copies, _slacks, _defined)
    while any(rule(work) for rule in rules):
        simplify(work)
        if time.perf_counter() > deadline:
            work.ambiguous = True
            return


def unused(work: Draft) -> set[int]:
    """Columns in no row and not in the objective: their values mean nothing."""
    used = {j for row in work.rows for j in row.terms}
    return {j for j in _open(work) - used if not work.cost[j] and work.lower[j] <= work.upper[j]}


def drop_unused(work: Draft) -> None:
    """Take unused columns out: for models of which one has more of them, otherwise they are variables as all others."""
    gone = unused(work)
    work.alive -= gone
    work.steps += [f"{_name(work, j)} is used nowhere" for j in sorted(gone)]


def _open(work: Draft) -> set[int]:
    """Columns that may leave: in linear terms only."""
    return work.alive - work.special - work.squared


def _name(work: Draft, j: int) -> str:
    return work.model.variables[j]


def _implied_integers(work: Draft) -> bool:
    """A continuous column that an equality over integers, with integer coefficients, leaves only integer values."""
    changed = False
    for row in work.rows:
        open_ones = [j for j in row.terms if not work.whole[j]]
        if not row.equality or row.quadratic or len(open_ones) != 1 or work.semi[open_ones[0]]:
            continue
        (j,) = open_ones
        numbers = [value / row.terms[j] for value in (*row.terms.values(), row.upper)]
        if all(abs(number - round(number)) <= SNAP * max(1.0, abs(number)) for number in numbers):
            work.whole[j] = changed = True
            work.steps.append(f"{_name(work, j)} is an integer by row {row.name}")
    return changed


def _copies(work: Draft) -> bool:
    """x = y: one column for both, with the tighter bounds."""
    for row in work.rows:
        if not row.equality or row.upper != 0 or len(row.terms) != 2 or row.quadratic:
            continue
        (i, first), (j, second) = row.terms.items()
        if first != -second or not {i, j} <= _open(work) or work.whole[i] != work.whole[j]:
            continue
        if work.model.lower[i] == -math.inf and work.model.upper[i] == math.inf:
            i, j = j, i  # the one that stays is not to be taken for free
        work.lower[i], work.upper[i] = max(work.lower[i], work.lower[j]), min(work.upper[i], work.upper[j])
        work.rows = [other for other in work.rows if other is not row]
        _substitute(work, j, {i: 1.0}, 0.0)
        work.steps.append(f"{_name(work, j)} is {_name(work, i)} by row {row.name}")
        return True
    return False


def _slacks(work: Draft) -> bool:
    """A column that occurs in one equality alone, and costs nothing or all there is, is the row's slack: a range."""
    uses = work.uses()
    costly = {j for j in work.alive if work.cost[j]}
    may_leave = {j for j in _open(work) if not work.cost[j] or costly == {j}}
    changed = False
    for row in work.rows:
        if not row.equality or row.quadratic or len(row.terms) < 2:
            continue
        found = [j for j in row.terms if len(uses[j]) == 1 and j in may_leave and _fits(work, row, j)]
        if not found:
            continue
        _note_choice(work, row, [j for j in row.terms if j in may_leave])
        j = min(found, key=lambda j: (work.cost[j] != 0, abs(work.lower[j]), -work.upper[j], abs(row.terms[j])))
        _to_range(work, row, j)
        work.steps.append(f"{_name(work, j)} is the slack of row {row.name}")
        changed = True
        if j in costly:
            break  # its cost has moved: others may not leave any more
    return changed


def _note_choice(work: Draft, row: DraftRow, candidates: list[int]) -> None:
    """Note where a row has several columns that might leave, here or in other words, and they do not look alike."""
    looks = {(work.cost[j], work.lower[j], work.upper[j], row.terms[j]) for j in candidates}
    work.ambiguous |= len(looks) > 1


def _fits(work: Draft, row: DraftRow, j: int) -> bool:
    """Whether the row leaves column j any value within its bounds: an integer needs a row over integers."""
    if not work.whole[j]:
        return True
    if not all(work.whole[k] for k in row.terms):
        return False
    numbers = [value / row.terms[j] for value in (*row.terms.values(), row.upper)]
    return all(abs(number - round(number)) <= SNAP * max(1.0, abs(number)) for number in numbers)


def _to_range(work: Draft, row: DraftRow, j: int) -> None:
    """Column j leaves an equality, and the objective; its bounds become the sides of the row."""
    value, side = row.terms.pop(j), row.upper
    low, high = (
        shifted(side, [-value * bound]) if math.isfinite(bound) else -value * bound
        for bound in (work.upper[j], work.lower[j])
    )
    row.lower, row.upper = (low, high) if value > 0 else (high, low)
    _leave(work, j, {k: -other / value for k, other in row.terms.items()}, side / value)


def _defined(work: Draft) -> bool:
    """A column declared free that occurs in an equality is replaced by the row everywhere else."""
    uses, model = work.uses(), work.model
    declared_free = (model.lower == -math.inf) & (model.upper == math.inf)
    for row in work.rows:
        if not row.equality or row.quadratic or not 2 <= len(row.terms) <= MOST_ENTRIES:
            continue
        free = [j for j in row.terms if declared_free[j] and j in _open(work) and _fits(work, row, j)]
        if not free:
            continue
        _note_choice(work, row, [j for j in row.terms if declared_free[j] or (j in _open(work) and not work.cost[j])])
        j = min(free, key=lambda j: (len(uses[j]), work.cost[j]))
        value = row.terms[j]
        terms, constant = {k: -other / value for k, other in row.terms.items() if k != j}, row.upper / value
        work.rows = [other for other in work.rows if other is not row]
        if math.isfinite(work.lower[j]) or math.isfinite(work.upper[j]):  # from rows over this column alone
            name = work.bounds_from.get(j, [f"bounds of {_name(work, j)}"])[0]
            low, high = (shifted(bound, [-constant]) for bound in (work.lower[j], work.upper[j]))
            work.rows.append(DraftRow(name, dict(terms), low, high))
        _substitute(work, j, terms, constant)
        work.steps.append(f"{_name(work, j)} is defined by row {row.name}")
        return True
    return False


def _substitute(work: Draft, j: int, terms: dict[int, float], constant: float) -> None:
    """Write terms + constant for column j, in all rows and the objective."""
    for row in work.rows:
        value = row.terms.pop(j, 0.0)
        if not value:
            continue
        for k, other in terms.items():
            row.terms[k] = shifted(row.terms.get(k, 0.0), [value * other])
        row.terms = {k: other for k, other in row.terms.items() if other}
        row.lower, row.upper = (shifted(side, [-value * constant]) for side in (row.lower, row.upper))
    _leave(work, j, terms, constant)


def _leave(work: Draft, j: int, terms: dict[int, float], constant: float) -> None:
    """Column j is terms + constant: it is noted so, and its cost moves to the others."""
    work.alive.discard(j)
    work.defined[j] = (terms, constant)
    cost, work.cost[j] = work.cost[j], 0.0
    for k, other in terms.items() if cost else ():
        work.cost[k] = shifted(work.cost[k], [cost * other])
    work.offset = shifted(work.offset, [cost * constant])
