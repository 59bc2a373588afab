"""Pairs and trials of the equivalence chapter: right verdicts by hand, counts by hand, and models that do change."""

import random

import numpy as np
import pytest

from trex.eval import equivalence_trials
from trex.eval.equivalence_trials import RENAMED, REWRITTEN, Trial, summary, table, trials
from trex.eval.pairs import PAIRS
from trex.eval.rewriting import KINDS, mutated, renamed, rewritten
from trex.report import equivalence as figures
from trex.solver import lp
from trex.solver.equivalence import compare

MODEL = lp.read("Maximize\n 3 x + 2 y + z\nSubject To\n c: x + y <= 4\n d: x + z <= 3\nBounds\n y <= 2\nEnd\n")


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_ours_is_right_on_each_pair_and_the_published_checker_is_not(pair):
    right = "equal" if pair.equal else "different"
    assert compare(pair.a, pair.b).kind == right
    assert compare(pair.a, pair.b, mode="as-published").kind != right


def test_renamed_models_have_the_same_rows_and_rewritten_ones_do_not():
    rng = random.Random(0)
    other = renamed(MODEL, rng)
    assert sorted(other.cost) == sorted(MODEL.cost) and other.sense == MODEL.sense
    assert sorted(other.row_upper) == sorted(MODEL.row_upper) and not set(other.variables) & set(MODEL.variables)
    assert sorted(rewritten(MODEL, rng).value) != sorted(MODEL.value)


def test_every_kind_of_change_changes_one_thing():
    seen = {}
    rng = random.Random(0)
    while len(seen) < len(KINDS):
        kind, changed = mutated(MODEL, rng)
        parts = {
            name: getattr(changed, name)
            for name in ("sense", "kinds", "cost", "value", "upper", "row_lower", "row_upper")
        }
        seen[kind] = {name for name, part in parts.items() if not np.array_equal(part, getattr(MODEL, name))}
    assert all(seen.values())
    assert seen["cost"] == {"cost"} and seen["type"] == {"kinds"} and seen["coefficient"] == {"value"}
    assert seen["bound"] == {"upper"} and seen["objective sense"] == {"sense"}


def test_trials_and_their_counts():
    found = trials([("model", MODEL)] * 4, seed=0, changes=2)
    counts = summary(found)
    assert counts["only_renamed"] == counts["only_renamed_equal"] == counts["only_renamed_equal_as_published"] == 4
    assert counts["rewritten"] == counts["rewritten_equal"] == 4
    assert counts["changed"] == 8 == sum(counts["changed_verdicts"].values())
    assert {len(column) for column in table(found).values()} == {16}
    assert sum(sum(bar.x) for bar in figures.verdicts(found).data) == 2 * 16


def test_counts_by_hand():
    found = [
        Trial("m", RENAMED, "equal", "", False, "different", 0.1),
        Trial("m", REWRITTEN, "equal", "", False, "equal", 0.3),
        Trial("m", "cost", "different", "optimum", False, "equal", 0.2),
        Trial("m", "drop", "unknown", "", True, "equal", 0.4),
    ]
    counts = summary(found)
    assert counts["only_renamed_equal_as_published"] == 0 and counts["rewritten_equal_as_published"] == 1
    assert counts["changed_verdicts"] == {"different": 1, "unknown": 1}
    assert counts["changed_both_infeasible"] == 1
    assert counts["different_called_equal_as_published"] == 1 and counts["timings"]["largest_seconds"] == 0.4
    assert equivalence_trials.summary([])["changed"] == 0
