"""The changelog of labels: every decision found again by enumeration of integer points, or by solving both models."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

import trex.paths
from trex.eval import benchmarks, sets
from trex.eval.items import Item
from trex.eval.labels import (
    DECISIONS,
    LabelError,
    applies,
    changelog,
    disputed,
    fingerprint,
    labels,
    latest,
    parse,
)
from trex.solver import lp
from trex.solver.builder import Builder, Row
from trex.solver.solve import solve

SHARED = Path(trex.paths.CHECKOUT).parent / "shared"
CASES = SHARED / "cases" / "or" / "labels.json"
needs_folder = pytest.mark.skipif(not (SHARED / "benchmarks").is_dir(), reason="the benchmark folder is not here")

# What the texts say of two counts x and y: what is minimised (maximised where negative), and what must hold.
TEXTS = {
    "nl4opt_168": (lambda x, y: x, lambda x, y: 2 * x + 3 * y >= 300 and 10 * y <= 4 * (x + y)),  # scooters, rickshaws
    "nl4opt_178": (lambda x, y: x, lambda x, y: 3 * x + 5 * y >= 500 and 10 * y <= 4 * (x + y)),  # bikes, cars
    "optibench_260": (  # goat, chicken
        lambda x, y: 6 * x + 5 * y,
        lambda x, y: 3 * x <= 1500 and 5 * y <= 2000 and 4 * y >= x + y and x > y,
    ),
    "nl4opt_172": (  # buses, cars
        lambda x, y: 2 * x + 1.5 * y,
        lambda x, y: x <= 10 and 10 * y >= 6 * (x + y) and 100 * x + 40 * y >= 1200,
    ),
    "nl4opt_220": (  # full-weighted, semi-weighted
        lambda x, y: -(2800 * x + 2400 * y),
        lambda x, y: 20 * x + 15 * y <= 3500 and 12 * (x + y) <= 60,
    ),
    "nl4opt_286": (  # wine, kombucha
        lambda x, y: 3 * x + 5 * y,
        lambda x, y: 8 * x <= 7000 and 7 * y <= 9000 and x > y and 5 * y >= x + y,
    ),
    "optibench_284": (  # peach, cherry
        lambda x, y: 5 * x + 4 * y,
        lambda x, y: 3 * x <= 3000 and 5 * y <= 4000 and x > y and 10 * y >= 3 * (x + y),
    ),
}
NUMBERS = {  # of the texts, as far as the rows above use them: what ties a model here to the text of the folder
    "nl4opt_168": "2 3 40 300", "nl4opt_178": "3 5 40 500", "optibench_260": "3 6 5 5 1500 2000 25",
    "nl4opt_172": "100 2 40 1.5 10 60 1200", "nl4opt_220": "2800 2400 3500 20 15 6 1.2",
    "nl4opt_286": "3 8 5 7 7000 9000 20", "optibench_284": "3 5 5 4 3000 4000 30",
}  # fmt: skip
COPIES = {"nl4opt_89": "optibench_260", "optibench_145": "nl4opt_178", "optibench_16": "nl4opt_172",
          "optibench_470": "nl4opt_168", "optibench_536": "nl4opt_286"}  # fmt: skip
LARGEST = 1300  # of either count: beyond the feasible points, or dearer than what lies below


def optimum(row):
    """The least objective over all integer points."""
    objective, feasible = TEXTS[row]
    return abs(min(objective(x, y) for x in range(LARGEST) for y in range(LARGEST) if feasible(x, y)))


@pytest.fixture(scope="module")
def items():
    found = benchmarks.read(SHARED / "benchmarks")
    return {item.id: item for item in sets.items(found, found.found)}


@pytest.mark.parametrize("row", TEXTS)
def test_enumeration_finds_what_the_changelog_calls_right(row):
    found = optimum(row)
    rows = [row, *(copy for copy, of in COPIES.items() if of == row)]
    entries = [dispute for dispute in changelog() if dispute.row in rows]
    assert len(entries) == len(rows) and len({dispute.text for dispute in entries}) == 1 and entries[0].text
    for dispute in entries:
        assert dispute.right == found
        assert dispute.decision == ("confirmed" if dispute.recorded == found else "changed")


@needs_folder
@pytest.mark.parametrize("row", TEXTS)
def test_the_enumerated_models_have_the_numbers_of_the_texts(items, row):
    item = items[f"{row.split('_')[0]}/{row}"]
    assert re.findall(r"\d+(?:\.\d+)?", item.question) == NUMBERS[row].split()


@needs_folder
def test_every_entry_about_a_row_of_the_folder_applies_to_it(items):
    for dispute in changelog():
        item = items.get(f"{dispute.set}/{dispute.row}")
        if item is not None:
            assert dispute.text and applies(dispute, item), dispute.row
            assert labels(item, 0).current == item.answer == labels(item).recorded
    assert sum(f"{dispute.set}/{dispute.row}" in items for dispute in changelog()) == 17


@needs_folder
def test_all_copies_with_two_values_are_in_the_changelog_and_agree_today(items):
    groups = disputed(items.values())
    assert [[item.id for item in group] for group in groups] == [["nl4opt/nl4opt_172", "optibench/optibench_16"]]
    for group in groups:
        assert len({labels(item).current for item in group}) == 1 and all(labels(item).decision for item in group)


@needs_folder
def test_the_theme_park_is_found_by_its_text(items):
    found = [item for item in items.values() if "scooter or rickshaw" in item.question]
    assert [item.set for item in found] == ["nl4opt", "optibench"]
    assert [(labels(item).recorded, labels(item).current) for item in found] == [(125.0, 75.0)] * 2


@pytest.mark.skipif(not CASES.is_file(), reason="the cases are not here")
def test_the_cases_have_their_right_values():
    for case in json.loads(CASES.read_text())["cases"]:
        names = [(name.lower(), int(row)) for name, row in re.findall(r"(NL4OPT|OptiBench) (\d+)", case["set"])]
        for (name, row), recorded in zip(names, case.get("labels", ()), strict=True):
            found = labels(Item(f"{name}/{name}_{row}", name, "", float(recorded)))
            entries = [dispute for dispute in changelog() if dispute.row == f"{name}_{row}"]
            assert [dispute.right for dispute in entries] == [case["right"]] and entries[0].recorded == recorded
            assert found.recorded == recorded
    by_row = {(dispute.set, dispute.row): dispute for dispute in changelog()}
    for row in (380, 381):
        assert by_row["b4o_feasible", f"BENCH4OPT_{row}"].decision == "dropped"
        assert by_row["b4o_orgeval", f"BENCH4OPT_{row}"].decision == "dropped"
    for row in (144, 145):
        assert by_row["b4o_orgeval", f"BENCH4OPT_{row}"].decision == "reference"


@needs_folder
@pytest.mark.parametrize("name", ["b4o_feasible", "b4o_orgeval"])
@pytest.mark.parametrize("row", [380, 381])
def test_model_and_program_of_the_cutting_stock_are_two_problems(items, name, row):
    item = items[f"{name}/BENCH4OPT_{row}"]
    assert solve(lp.read(item.reference)).objective == pytest.approx(30)
    data = json.loads(item.files["data.json"])
    widths, demands = data["small_roll_widths"], data["demands"]
    assert "GRB.CONTINUOUS" in item.reference_code and "GRB.INTEGER" not in item.reference_code
    build = Builder()  # as the program has it: all rows of demand are the same sum
    for k in range(len(widths)):
        build.column(f"x{k}").cost = 1.0
    terms = dict(enumerate(widths))
    build.rows = [Row(f"demand{k}", terms, demand, math.inf) for k, demand in enumerate(demands)]
    build.rows.append(Row("width", terms, -math.inf, data["large_roll_width"]))
    optimum = solve(build.model()).objective
    assert optimum == pytest.approx(max(demands) / max(widths)) == pytest.approx(0.14448, abs=5e-6)
    label = labels(item)
    assert label.dropped and label.reference_wrong and (label.recorded, label.current) == (30.0, None)


@needs_folder
@pytest.mark.parametrize("row", [144, 145])
def test_free_flows_alone_make_the_reference_unbounded(items, row):
    item = items[f"b4o_orgeval/BENCH4OPT_{row}"]
    model = lp.read(item.reference)
    assert solve(model).status == "unbounded" and ".optimize(" not in item.reference_code
    flows = [name.startswith("X") for name in model.variables]
    assert all(math.isinf(low) for low, flow in zip(model.lower, flows, strict=True) if flow)
    bounded = solve(replace(model, lower=model.lower.clip(min=0.0)))
    assert bounded.status == "optimal" and bounded.objective == pytest.approx(0.0, abs=1e-9)
    label = labels(item)
    assert label.reference_wrong and not label.dropped and label.recorded is label.current is None


def test_an_open_dispute_keeps_the_recorded_value():
    """The lawn: 2500 square feet need 2 units of fuel each at least, of 450; without them 0 is the least time."""
    assert not any(3 * h + 2 * (2500 - h) <= 450 for h in range(2501))
    (entry,) = [dispute for dispute in changelog() if dispute.decision == "open"]
    assert (entry.row, entry.right, entry.others) == ("nl4opt_284", None, (0, "infeasible"))


def item(**over):
    return Item(**{"id": "nl4opt/nl4opt_131", "set": "nl4opt", "question": "A text.", "answer": 440.0} | over)


def test_entries_apply_to_their_row_value_and_text_only():
    entry = next(dispute for dispute in changelog() if dispute.row == "optibench_457")
    mine = item(id="optibench/optibench_457", set="optibench", answer=456.0)
    assert (labels(mine).recorded, labels(mine).current, labels(mine).decision) == (456.0, 440.0, "changed")
    assert labels(mine, 0).current == 456.0 and labels(mine, latest()) == labels(mine)
    for other in (replace(mine, answer=440.0), replace(mine, answer=None), replace(mine, id="optibench/optibench_45")):
        assert not applies(entry, other) and labels(other).decision == "" and labels(other).current == other.answer
    known = next(dispute for dispute in changelog() if dispute.text)
    assert not applies(known, item(id=f"{known.set}/{known.row}", answer=known.recorded, question="Another text."))
    assert fingerprint("A  Bus, of 1.5") == fingerprint("a bus of 1.5") != fingerprint("a bus of 15")
    with pytest.raises(LabelError, match="version 2; accepted: 0"):
        labels(mine, latest() + 1)


def test_the_changelog_says_where_each_entry_comes_from():
    assert {dispute.decision for dispute in changelog()} == set(DECISIONS)
    assert all(dispute.reason and dispute.evidence and dispute.source for dispute in changelog())


GOOD = {"set": "nl4opt", "row": "1", "version": 1, "recorded": 1, "decision": "changed", "right": 2, "reason": "r",
        "evidence": "e", "source": "s"}  # fmt: skip


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"set": "mamo"}, "entry 1: mamo"),
        ({"decision": "maybe"}, "accepted decisions"),
        ({"right": None}, "right = None with 'changed'"),
        ({"right": 1.0}, "'changed' from 1 to 1.0"),
        ({"decision": "confirmed"}, "'confirmed' from 1 to 2"),
        ({"decision": "dropped"}, "right = 2 with 'dropped'"),
        ({"version": 0}, "version 0"),
        ({"recorded": "one"}, "recorded is 'one'"),
        ({"evidence": ""}, "texts for"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_entry_is_named(over, message):
    assert len(parse(json.dumps([GOOD]))) == 1
    with pytest.raises(LabelError, match=message):
        parse(json.dumps([GOOD | over]))


@pytest.mark.parametrize("text", ["{", "a: 1", json.dumps([GOOD, GOOD]), json.dumps([GOOD | {"version": 2}, GOOD])])
def test_a_bad_changelog_is_refused(text):
    with pytest.raises(LabelError, match="labels"):
        parse(text)
