"""Recombined families: the program's text and the Pyomo model are changed by two routes and agree."""

import inspect
import math
import random
import re

import pyomo.environ as pyo
import pytest

from trex.data import families, gates
from trex.data.flywheel.bucket import CODE, EXPLAINED, STYLES, TASKS, Bucket, answerable
from trex.data.flywheel.embedded import Attempt, Parent, write
from trex.data.flywheel.making import make
from trex.data.flywheel.recombine import DROPPABLE, compiled, recombine, representation, statement, weighable
from trex.data.flywheel.representation import Change, Origin
from trex.data.flywheel.writing import checklist, model_text
from trex.data.formulation import formulation
from trex.data.gates import stated
from trex.data.problem import DataError
from trex.data.rendering import MODES, render
from trex.data.wording import filled
from trex.solver.pyomo_model import from_pyomo
from trex.solver.solve import solve

DROPS = [(family, clause) for family, clauses in DROPPABLE.items() for clause in clauses]
WEIGHED = [
    (name, term)
    for name in families.names()
    for term in weighable(inspect.getsource(families.get(name).model), families.get(name).contract)
]


def better(family: str, value: float, other: float) -> bool:
    if math.isclose(value, other, rel_tol=1e-6, abs_tol=1e-6):
        return True
    return value < other if families.get(family).contract.sense == "minimize" else value > other


@pytest.mark.parametrize(("family", "clause"), DROPS)
def test_a_clause_left_out_leaves_text_program_and_model_of_one_problem(family, clause):
    for difficulty in (1, 2):
        found = recombine(Origin(family, 3, difficulty, (Change("drop", clause),)))
        assert clause not in [c.name for c in found.family.contract.constraints] and f"m.{clause} =" not in found.source
        changed = from_pyomo(found.model())
        assert from_pyomo(compiled(found.source)(found.problem.data)).same(changed)
        gates.used(type("Family", (), {"model": staticmethod(compiled(found.source))}), found.problem.data)
        for mode in MODES:
            stated(found.problem, mode, render(found.problem, mode, found.family))
        whole = solve(from_pyomo(families.get(family).model(found.whole)))
        without = solve(changed)
        assert without.status == "optimal" and better(family, without.objective, whole.objective)


@pytest.mark.parametrize(("family", "term"), WEIGHED)
def test_a_weighted_term_counts_that_many_times_in_the_objective(family, term):
    found = recombine(Origin(family, 5, 1, (Change("weigh", term, (), 3),)))
    model = from_pyomo(found.model())
    assert from_pyomo(compiled(found.source)(found.problem.data)).same(model)
    plain, rng = families.get(family).model(found.whole), random.Random(1)
    built = found.model()
    for a, b in zip(plain.component_data_objects(pyo.Var), built.component_data_objects(pyo.Var), strict=True):
        value = rng.randint(0, 9)
        a.set_value(value, skip_validation=True)
        b.set_value(value, skip_validation=True)
    base, part = pyo.value(plain.objective), pyo.value(plain.component(term))
    sign = round((pyo.value(built.objective) - base) / (2 * part)) if part else 1
    assert sign in (-1, 1) and pyo.value(built.objective) == pytest.approx(base + 2 * sign * part)


def test_added_clauses_are_rows_that_say_what_they_mean():
    changes = (Change("forbid", "ship", (("a", "b"),)),)
    with pytest.raises(DataError, match="cannot be said"):
        recombine(Origin("transportation", 1, 1, changes))
    plain = recombine(Origin("transportation", 1, 1))
    first, second = plain.problem.data["sources"][0], plain.problem.data["destinations"][0]
    found = recombine(Origin("transportation", 1, 1, (Change("cap", "ship", ((first, second),), 7),)))
    model = from_pyomo(found.model())
    row = model.rows.index("cap_ship")
    assert [model.variables[j] for j, _ in model.row(row)] == [f"ship[{first},{second}]"]
    assert model.row_upper[row] == 7 and found.problem.data["cap_ship"] == 7
    text = render(found.problem, "DP", found.family).problem
    assert f"from {first} to {second}" in text and "7" in text
    taken = recombine(Origin("knapsack", 1, 1)).problem.data["items"][:2]
    for kind, low, high in (("forbid", 0, 0), ("require", 1, 1)):
        model = from_pyomo(recombine(Origin("knapsack", 1, 1, (Change(kind, "take", ((taken[0],),)),))).model())
        row = model.rows.index(f"{kind}_take")
        assert (model.row_lower[row], model.row_upper[row]) == (low, high)
    for kind, entries, high in (("exclude", [1.0, 1.0], 1), ("imply", [1.0, -1.0], 0)):
        change = Change(kind, "take", ((taken[0],), (taken[1],)))
        model = from_pyomo(recombine(Origin("knapsack", 1, 1, (change,))).model())
        row = model.rows.index(f"{kind}_take")
        assert [value for _, value in model.row(row)] == entries and model.row_upper[row] == high


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((Change("drop", "supply"),), "without 'supply'; accepted: route"),
        ((Change("weigh", "freight", (), 2),), "one of several"),
        ((Change("cap", "ship", (("x",),), 1),), "cannot be said"),
        ((Change("require", "ship", (("x", "y"),)),), "cannot be said"),
        ((Change("forbid", "none", (("x",),)),), "cannot be said"),
    ],
)
def test_a_change_that_cannot_be_made_is_named(changes, said):
    with pytest.raises(DataError, match=said):
        recombine(Origin("transportation", 1, 1, changes))


@pytest.mark.parametrize("family", families.names())
def test_the_model_in_words_is_that_of_the_family(family):
    found = recombine(Origin(family, 11, 1))
    told = representation(found)
    assert model_text(told) == formulation(found.family, found.problem.words)
    assert type(told).of(told.line) == told


def attempt(family: str, task: str, style: str, mode: str = "DP", seed: int = 1) -> Attempt:
    bucket = Bucket(mode, family, 1, task, style)
    return Attempt(f"t{seed}", bucket, seed, Parent("seed", "seed", bucket, ""))


def test_the_embedded_author_writes_every_task_in_every_style_the_same_each_time():
    for task in TASKS:
        for style in STYLES:
            if answerable(task, style):
                row = write(attempt("blending", task, style))
                assert row.line == write(attempt("blending", task, style)).line
                assert row.problem in row.asked and (row.program.strip() in row.answer) == (task != "formulate")
                assert ("## Model" in row.answer) == (style != CODE)
                assert row.bucket.style == style and EXPLAINED in STYLES


@pytest.mark.parametrize("family", families.names())
def test_a_statement_names_each_member_where_its_letter_stands(family):
    found = families.get(family)
    words = found.scenarios[0].words
    for variables in found.contract.variables:
        letters = re.findall("[a-z]", variables.symbol.partition("_")[2])
        said = statement(variables, tuple(f"MEMBER-{letter}" for letter in letters), words)
        if said:
            meaning = filled(variables.meaning, words).removeprefix("1 if ")
            assert re.sub(r"MEMBER-([a-z])", r"$\1$", said) == meaning


def test_a_weight_stands_behind_the_sign_of_its_term():
    found = recombine(Origin("blending", 1, 1, (Change("weigh", "purchase", (), 2),)))
    formulas = [term.formula for term in found.family.contract.objective]
    assert formulas[1].startswith(r"-\omega\, \sum")
    lines = checklist(representation(found), "DP", None)
    assert "- Objective: maximize `revenue` minus `weight_purchase` times `purchase`." in lines


def test_nothing_that_only_the_data_file_tells_is_in_an_answer():
    for task in TASKS:
        for style in ("explained", "clean-cot"):
            row = make(attempt("blending", task, style, "DPS")).row
            text = row.answer.replace(row.program.rstrip(), "")
            assert not re.search(r"Result|## Answer", text)
            assert f"{row.optimum:g}" not in text and "- Sets: the" not in text
            counted = re.search(r"- Sets: (\d+)", text)
            assert counted is None
