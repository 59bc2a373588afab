"""The three texts of a problem: no number is lost, none is added, and wording varies."""

import json
import re
from collections import Counter

import pytest

from trex.data import families
from trex.data.problem import DIFFICULTIES, DataError, Problem
from trex.data.rendering import MODES, data_numbers, literal, numbers, read_tables, render

GRID = [(name, difficulty, seed) for name in families.names() for difficulty in DIFFICULTIES for seed in range(6)]


@pytest.fixture(params=GRID, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def problem(request: pytest.FixtureRequest) -> Problem:
    name, difficulty, seed = request.param
    return families.get(name).sample(seed, difficulty)


def test_prose_holds_each_number_once_and_no_other(problem: Problem) -> None:
    assert Counter(numbers(render(problem, "DP"))) == Counter(data_numbers(problem.data))


def test_prose_names_every_entity_and_unit(problem: Problem) -> None:
    text = render(problem, "DP")
    story = families.get(problem.family).story(problem)
    for index_set in story.sets:
        for name in problem.data[index_set.key]:
            assert name.replace("_", " ").lower() in text.lower()
    for word in re.findall(r"\w{4,}", " ".join(field.unit for field in story.fields)):
        assert word.rstrip("s") in text


def test_tables_give_the_instance_back(problem: Problem) -> None:
    story = families.get(problem.family).story(problem)
    assert read_tables(render(problem, "DT"), story) == problem.data


def test_separate_data_leaves_no_number_in_the_text(problem: Problem) -> None:
    text = render(problem, "DPS")
    assert numbers(text) == []
    assert {key.split("[")[0] for key in re.findall(r"^- `([^`]+)`:", text, flags=re.MULTILINE)} == set(problem.data)
    assert json.loads(literal(problem.data)) == problem.data
    assert eval(literal(problem.data), {"__builtins__": {}}) == problem.data


def test_integrality_and_question_are_in_every_mode(problem: Problem) -> None:
    story = families.get(problem.family).story(problem)
    domains = {domain for _, domain in families.get(problem.family).variables(problem.data)}
    for mode in MODES:
        text = render(problem, mode)
        assert all(part in text for part in (story.setting, story.domains, story.question, *story.rules))
        assert ("yes-or-no" in text) == ("binary" in domains)
        assert ("need not be whole" in text) == ("nonnegative" in domains)


@pytest.mark.parametrize("name", families.names())
def test_wording_and_trade_change_with_the_seed(name: str) -> None:
    """Names and numbers blanked out, at least half of 40 texts still differ from all others."""
    family = families.get(name)
    problems = [family.sample(seed, 1) for seed in range(40)]
    skeletons = {re.sub(r"[A-Z]\d+|\d+(\.\d+)?|[A-Z][a-z]+", "_", render(p, "DPS")) for p in problems}
    assert len(skeletons) >= 20
    assert len({json.dumps(p.words) for p in problems}) >= 8


def test_numbers_are_found_as_a_reader_would() -> None:
    assert numbers("C07 takes 3 kg, 2.5 m² and -4 of x2. In all 12.") == [3, 2.5, -4, 12]


def test_faults_are_named(problem: Problem) -> None:
    with pytest.raises(DataError, match=r"'TEX'; accepted: DP, DT, DPS"):
        render(problem, "TEX")
    story = families.get(problem.family).story(problem)
    text = render(problem, "DT")
    cell = next(re.finditer(r"\| (\d+(?:\.\d+)?) \|", text))
    with pytest.raises(DataError, match="'many' is not a number"):
        read_tables(text[: cell.start(1)] + "many" + text[cell.end(1) :], story)
    field = next(f for f in story.fields if len(f.index) == 1)
    with pytest.raises(DataError, match="expected one of"):
        read_tables(text.replace(field.heading, "colour (shade)"), story)
