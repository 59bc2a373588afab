"""Every family: its words and instances, its two formulations against two solvers, its contract clause by clause."""

import json
import os
import re
from collections.abc import Iterator
from statistics import median

import pytest

from trex.data import execution, families, gates
from trex.data.contract import DOMAINS
from trex.data.family import Family
from trex.data.formulation import answer, formulation
from trex.data.problem import DIFFICULTIES, DataError, data_numbers
from trex.data.rendering import MODES, read_tables, render
from trex.data.trials import breach_trials, caught, effects
from trex.data.wording import filled
from trex.solver import lp
from trex.solver.equivalence import compare
from trex.solver.pyomo_model import from_pyomo
from trex.solver.sandbox.host import Sandbox

NAMES = families.names()
SEEDS = range(int(os.environ.get("TREX_FAMILY_SEEDS", "1")))  # of the slow grid; 5 for the whole one
FEWEST = 40
DOMAINS_OF_WORK = 6
CAUGHT = 0.95  # of the breaches of a clause


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.fixture(params=NAMES)
def family(request: pytest.FixtureRequest) -> Family:
    return families.get(request.param)


def templates(family: Family) -> Iterator[tuple[str, int]]:
    """Every template of a family, with how many members it may name."""
    yield from ((text, 0) for text in (*family.settings, *family.questions, *family.contract.integrality))
    yield from ((text, 0) for text in family.contract.goal)
    yield from ((text, 0) for s in family.sets for text in (s.singular, s.plural))
    for part in (*family.contract.objective, *family.contract.constraints):
        yield from ((text, 0) for text in part.says)
    for field in family.fields:
        yield from ((text, 0) for text in (field.title, field.unit))
        for phrase in field.phrases:
            for number, text in enumerate((phrase,) if isinstance(phrase, str) else phrase):
                yield text, len(field.index) if number or isinstance(phrase, str) else 1
    for variables in family.contract.variables:
        yield variables.says, 3


def test_there_are_enough() -> None:
    assert len(NAMES) >= FEWEST
    assert sum(bool(families.get(name).other_form) for name in NAMES) >= 15


def test_unknown_names_and_modules_without_a_family_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"'hanoi'; accepted: "):
        families.get("hanoi")
    monkeypatch.delattr("trex.data.families.knapsack.FAMILY")
    with pytest.raises(DataError, match="defines no FAMILY"):
        families.get("knapsack")


def test_words_are_there_in_every_scenario_and_hold_no_numbers(family: Family) -> None:
    assert len({scenario.domain for scenario in family.scenarios}) >= DOMAINS_OF_WORK
    assert len(family.settings) >= 3 and len(family.questions) >= 3 and len(family.contract.fixed) >= 2
    assert all(len(f.phrases) >= 2 for f in family.fields) and len(family.contract.mistakes) >= 2
    keys = {s.key for s in family.sets}
    for scenario in family.scenarios:
        assert set(scenario.names) <= keys
        for names in scenario.names.values():
            assert not re.search(r"[\s,\[\]{}|:]", "".join(names.pool)) and len(set(names.pool)) == len(names.pool)
        assert all(filled(v.meaning, scenario.words) for v in family.contract.variables)
        for template, count in templates(family):
            text = filled(template, scenario.words, *["MEMBER"] * count, value="VALUE")
            assert "  " not in text and not re.search(r"\d", text.replace("m²", "").replace("m³", "")), text


def test_every_part_can_be_told(family: Family) -> None:
    contract = family.contract
    assert all(clause.says for clause in contract.constraints) and contract.integrality
    assert all(v.domain in DOMAINS for v in contract.variables) and contract.sense in ("minimize", "maximize")
    for field in family.fields:
        assert len(field.index) <= 2
        assert all(isinstance(p, tuple) == (len(field.index) == 2) for p in field.phrases)
        placed = ["".join(p) for p in field.phrases]
        assert all("{value}" in p and all(f"{{{k}}}" in p for k in range(len(field.index))) for p in placed), field.key


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_instances_repeat_are_plain_and_read_back_from_tables(family: Family, difficulty: int) -> None:
    first = [family.problem(seed, difficulty) for seed in range(10)]
    assert first == [family.problem(seed, difficulty) for seed in range(10)]
    assert len({json.dumps(problem.data) for problem in first}) == 10
    for problem in first:
        assert json.loads(json.dumps(problem.data)) == problem.data
        assert all(len(f"{number:.10g}") <= 8 for number in data_numbers(problem.data))
        assert set(problem.data) == {s.key for s in family.sets} | {f.key for f in family.fields}
        for key, bounds in family.sizes[difficulty].items():
            assert bounds[0] <= len(problem.data[key]) <= bounds[1], key
    for problem in first[:3]:
        assert read_tables(render(problem, "DT").problem, family, problem.words) == problem.data
        for mode in MODES:
            gates.stated(problem, mode, render(problem, mode))
        gates.used(family, problem.data)


def test_instances_grow_with_difficulty(family: Family) -> None:
    sizes = []
    for difficulty in DIFFICULTIES:
        models = [from_pyomo(family.model(family.problem(seed, difficulty).data)) for seed in range(3)]
        sizes.append(median(len(model.variables) for model in models))
    assert sizes == sorted(set(sizes)) and sizes[2] >= 40


@pytest.mark.parametrize("difficulty", (1, 2))
def test_two_solvers_two_formulations_and_the_sandbox_agree(family: Family, sandbox: Sandbox, difficulty: int) -> None:
    problem = family.problem(difficulty, difficulty)
    admitted = gates.admit(family, problem)
    assert admitted.confirmed_by
    gates.reformulation(admitted)
    execution.execute(sandbox, problem, "DPS", admitted)
    assert lp.read(lp.write(admitted.model)).variables == admitted.model.variables  # no name is a word of the format
    form = compare(admitted.model, admitted.reformulated, mode="isomorphism").kind
    assert form == ("different" if family.other_form else "equal")
    text = answer(family, problem, admitted.objective, admitted.values, admitted.unique)
    assert f"{admitted.objective:g}"[:4] in text
    assert formulation(family, problem.words).count("$$") == 2


def test_every_clause_matters(family: Family) -> None:
    """Each constraint family and each term of the objective, taken out, changes the optimum of some instance."""
    needed = {clause.name for clause in family.contract.constraints} | {t.name for t in family.contract.objective}
    for seed, difficulty in ((seed, difficulty) for difficulty in (1, 2) for seed in range(6)):
        if not needed:
            break
        needed -= {name for name, change in effects(family, family.problem(seed, difficulty)).items() if change > 1e-6}
    assert not needed


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_instances_of_the_grid_are_verified(name: str, sandbox: Sandbox) -> None:
    """Every seed, difficulty and representation: admitted, stated, executed; nothing is refused after admission."""
    family, admitted = families.get(name), 0
    for difficulty in DIFFICULTIES:
        for seed in SEEDS:
            problem = family.problem(seed, difficulty)
            try:
                known = gates.admit(family, problem)
            except gates.Refused as error:
                print(f"{name}, difficulty {difficulty}, seed {seed}: {error}")
                continue
            admitted += 1
            gates.used(family, problem.data)
            for mode in MODES:
                gates.stated(problem, mode, render(problem, mode))
                execution.execute(sandbox, problem, mode, known)
    assert admitted >= 0.8 * len(SEEDS) * len(DIFFICULTIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_breaches_are_caught_in_many_instances(name: str, sandbox: Sandbox) -> None:
    family = families.get(name)
    problems = [family.problem(seed, difficulty) for seed in SEEDS for difficulty in (1, 2)]
    shares = caught(list(breach_trials(family, problems, sandbox)))
    assert all(share >= CAUGHT for share in shares.values()), shares
