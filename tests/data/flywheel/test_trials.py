"""The gates on trial, small: faults are refused, good dialogues are not, and cleaning exports what is right."""

import random

import pytest

from trex.data.flywheel.bucket import CLEAN_COT, EXPLAINED, Wanted
from trex.data.flywheel.embedded import Attempt, Parent
from trex.data.flywheel.faults import KINDS, Planted, plant
from trex.data.flywheel.making import make
from trex.data.flywheel.trials import Caught, Trial, cleaned, cleanings, gate, refused_good, table, trials, yields
from trex.report import flywheel as figures


def good(count: int, families=("production_planning", "blending", "transportation"), **kinds):
    wanted = Wanted.of(count, 1, families, difficulties=(1,), tasks=("formulate-and-implement",), **kinds)
    found = [make(Attempt(f"t{k}", wanted.bucket(k), k, Parent("s", "s", wanted.bucket(k), ""))) for k in range(count)]
    assert not any(made.gate for made in found), [made.reason for made in found if made.gate]
    return [made.row for made in found]


def test_faults_are_refused_and_good_dialogues_are_not():
    rows = good(9)
    found = trials(rows, 5, seed=3, processes=2)
    assert [trial.gate for trial in found if not trial.kind] == [""] * 4
    assert all(trial.gate and trial.reason and trial.what for trial in found if trial.kind)
    assert sum(row.planted for row in table(found)) == 5 and refused_good(found) == (4, 0)
    again = trials(rows, 5, seed=3, processes=1)
    assert again == found


def test_the_table_counts_what_was_planted_and_who_caught_it():
    found = [
        Trial("a", KINDS[0], "x", "contract", "y"),
        Trial("b", KINDS[0], "x", "", ""),
        Trial("c", "", "", "units", "z"),
    ]
    rows = table(found)
    assert rows[0] == Caught(KINDS[0], 2, 1, (("contract", 1),)) and len(rows) == len(KINDS)
    assert refused_good(found) == (1, 1)
    assert f"| {KINDS[0]} | 2 | 1 | contract 1 |" in figures.table(rows)
    bars = figures.caught(rows).data[0]
    assert list(bars.x) == [50.0] and list(bars.y) == [KINDS[0]]


@pytest.mark.slow  # notebook 04/04 asserts the same
def test_what_the_cleaner_can_repair_is_exported_and_what_it_cannot_is_not():
    rows = [row for row in good(6, styles=(EXPLAINED,)) if row.bucket.style == EXPLAINED]
    rng = random.Random(0)
    for row in rows[:3]:
        assert cleaned(row.line) == ("", "", 0)
        for kind in ("wrong domain", "wrong sign", "dropped constraints"):
            fault = plant(row, kind, rng)
            assert isinstance(fault, Planted)
            refused, reason, repairs = cleaned(fault.row.line)
            assert bool(refused) != bool(repairs), (kind, fault.what, refused, reason)
    found = cleanings(rows, 2, seed=1, processes=2)
    ours = yields(found)
    assert ours["input"] == 6 >= ours["reviewed"] >= ours["exported"] >= 4 and ours["faults"] == 2


def test_a_row_is_judged_as_it_was_when_it_was_let_through():
    row = good(3, styles=(CLEAN_COT,))[0]
    assert gate(row.line) == ("", "")
    assert gate(row.line.replace("**Modelling checklist**", "**Checklist**", 1))[0] in ("schema", "reviewer")


@pytest.mark.slow
def test_of_many_faults_at_least_95_percent_are_caught_and_at_most_3_percent_of_good_rows_refused():
    wanted = Wanted.of(200, 5)
    made = [make(Attempt(f"t{k}", wanted.bucket(k), k, Parent("s", "s", wanted.bucket(k), ""))) for k in range(200)]
    rows = [found.row for found in made if not found.gate]
    assert len(rows) >= 190
    found = trials(rows, 90)
    caught = sum(row.caught for row in table(found))
    count, refused = refused_good(found)
    assert caught >= 0.95 * 90 and refused <= 0.03 * count
