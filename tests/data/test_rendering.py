"""The three texts of a problem: no number is lost, none is added, and wording varies."""

import ast
import json
import re
from collections import Counter

import pytest

from trex.data import families
from trex.data.contract import BINARY, CONTINUOUS
from trex.data.problem import DIFFICULTIES, DataError, Problem, data_numbers
from trex.data.rendering import MODES, literal, read_tables, render
from trex.data.wording import filled, numbers, tell

GRID = [(name, DIFFICULTIES[k % 3], k) for k, name in enumerate(families.names())]


@pytest.fixture(params=GRID, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def problem(request: pytest.FixtureRequest) -> Problem:
    name, difficulty, seed = request.param
    return families.get(name).problem(seed, difficulty)


def test_prose_holds_each_number_once_and_no_other(problem: Problem) -> None:
    text = render(problem, "DP")
    assert Counter(numbers(text.problem)) == Counter(data_numbers(problem.data)) + Counter(text.others)


def test_prose_names_every_entity_and_unit(problem: Problem) -> None:
    text, family = render(problem, "DP").problem, families.get(problem.family)
    named = {key for field in family.fields for key in field.index}
    for key in named:
        assert [name for name in problem.data[key] if not re.search(rf"(?i)(?<!\w){re.escape(name)}", text)] == []
    for field in family.fields:
        words = re.findall(r"[a-z]{4,}", filled(field.unit, problem.words))
        assert not words or any(word.rstrip("s") in text for word in words), field.key


def test_separate_data_leaves_no_number_in_the_text(problem: Problem) -> None:
    text = render(problem, "DPS")
    assert Counter(numbers(text.problem)) == Counter(text.others)
    keys = {key.split("[")[0] for key in re.findall(r"^- `([^`]+)`:", text.problem, flags=re.MULTILINE)}
    assert keys == set(problem.data)
    assert json.loads(literal(problem.data)) == problem.data == ast.literal_eval(literal(problem.data))


def test_rules_integrality_and_question_are_in_every_mode(problem: Problem) -> None:
    family = families.get(problem.family)
    telling = tell(family, problem)
    assert len(telling.rules) >= len(family.contract.constraints)
    for mode in MODES:
        text = render(problem, mode).problem
        parts = (telling.setting, *telling.rules, telling.integrality, telling.question, *telling.distractors)
        assert all(part in text for part in parts)


@pytest.mark.parametrize("name", families.names())
def test_integrality_is_stated_in_every_wording(name: str) -> None:
    family = families.get(name)
    domains = {variables.domain for variables in family.contract.variables if variables.says}
    for template in family.contract.integrality:
        text = filled(template, family.scenarios[0].words).lower()
        if BINARY in domains:
            assert re.search(
                r"yes|either|whole|split|divided|not at all|decision|shared|exactly|in part|or not", text
            ), text
        if domains == {CONTINUOUS}:
            assert re.search(r"fraction|need not be whole|part|any amount|continuous|divi|any ", text), text


@pytest.mark.parametrize("name", families.names())
def test_wording_and_trade_change_with_the_seed(name: str) -> None:
    """Names and numbers blanked out, at least half of 40 texts still differ from all others."""
    family = families.get(name)
    problems = [family.problem(seed, 1) for seed in range(40)]
    skeletons = {re.sub(r"[A-Z]\d+|\d+(\.\d+)?|[A-Z][a-z]+", "_", render(p, "DPS").problem) for p in problems}
    assert len(skeletons) >= 20
    assert len({p.domain for p in problems}) >= 5


def test_numbers_are_found_as_a_reader_would() -> None:
    assert numbers("C07 takes 3 kg, 2.5 m² and -4 of x2. In all 12.") == [3, 2.5, -4, 12]
    assert numbers("Table 3: rows\n\n12,500 of 1,250.5, 40, 50 and W01") == [12500, 1250.5, 40, 50]


@pytest.mark.parametrize("name", ["transportation", "knapsack"])
def test_faults_are_named(name: str) -> None:
    family = families.get(name)
    problem = family.problem(0, 1)
    with pytest.raises(DataError, match=r"'TEX'; accepted: DP, DT, DPS"):
        render(problem, "TEX")
    text = render(problem, "DT").problem
    cell = next(re.finditer(r"\| (\d+(?:\.\d+)?) \|", text))
    with pytest.raises(DataError, match="'many' is not a number"):
        read_tables(text[: cell.start(1)] + "many" + text[cell.end(1) :], family, problem.words)
    singular = filled(family.sets[0].singular, problem.words)
    with pytest.raises(DataError, match="expected one of"):
        read_tables(text.replace(f"| {singular} |", "| colour |"), family, problem.words)
