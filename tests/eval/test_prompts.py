"""Prompts: what they say, what they hash, and examples that never give an item away."""

import ast
from pathlib import Path

import pytest

import trex.paths
from trex.data import families
from trex.data.extraction import program
from trex.eval import benchmarks, sets
from trex.eval.clusters import clustered
from trex.eval.items import Item, plain
from trex.eval.prompts import (
    DEFAULT,
    INTERFACES,
    Example,
    PromptError,
    benchmark_examples,
    family_examples,
    messages,
    near,
    shots,
    version,
)

SHARED = Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks"


def item(name, question="", **over):
    return Item(name, "nl4opt", question or f"question of {name}", 1.0, **over)


def example(name, question="", interface="pyomo", **over):
    return Example(item(name, question, **over), interface, f"print({name!r})")


@pytest.mark.parametrize("interface", INTERFACES)
def test_messages_ask_for_one_program_with_the_interface(interface):
    system, user = messages(item("a", "How many {buses}?"), interface)
    assert (system["role"], user["role"]) == ("system", "user")
    assert f"import {interface}" in system["content"] and "```python" in system["content"]
    assert user["content"] == "How many {buses}?" and "data.json" not in system["content"]
    assert program(system["content"]).code == ""


def test_data_files_are_named_where_there_are_some():
    (_, user) = messages(item("a", "How {files}?", files={"data.json": "{}", "a.csv": ""}))
    assert user["content"].startswith("How {files}?") and "`a.csv` and `data.json`" in user["content"]


def test_examples_are_earlier_turns_whose_program_is_extracted():
    shot = example("b", files={"data.json": "{}"})
    turns = messages(item("a"), DEFAULT, [shot])
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant", "user"]
    assert "`data.json`" in turns[1]["content"] and program(turns[2]["content"]).code.strip() == shot.code


def test_a_version_is_a_name_and_a_hash_of_the_words():
    found = {interface: version(interface) for interface in INTERFACES}
    assert len({row["sha256"] for row in found.values()}) == 3 and found["pyomo"] == version()
    assert all(len(row["sha256"]) == 64 and row["name"] for row in found.values())


def test_wrong_examples_and_interfaces_are_refused():
    one = item("a", cluster="c")
    for bad, message in (
        (example("b", interface="highspy"), "uses 'highspy'"),
        (example("b", cluster="c"), "b is related to a"),
        (example("b", "QUESTION of a"), "b is related to a"),
    ):
        with pytest.raises(PromptError, match=message):
            messages(one, "pyomo", [bad])
    for call in (lambda: messages(one, "cplex"), lambda: version("cplex")):
        with pytest.raises(PromptError, match="'cplex'; accepted: pyomo, gurobipy, highspy"):
            call()


def test_shots_leave_out_all_that_is_related():
    one = item("a", "Text of a.", files={"data.json": "{1}"}, reference_code="m", cluster="A")
    pool = [
        Example(one, "pyomo", ""), example("twin", cluster="A"), example("copy", "text of A"),
        example("data", files={"data.json": "{1}"}), example("code", reference_code="m"),
        example("x", cluster="X"), example("x2", cluster="X"), example("y", cluster="Y"), example("z"),
    ]  # fmt: skip
    for seed in range(30):
        chosen = shots(one, pool, 3, seed)
        assert len({each.item.id[0] for each in chosen}) == 3 and {each.item.id[0] for each in chosen} == set("xyz")
        assert chosen == shots(one, pool[::-1], 3, seed)
    assert len({shots(one, pool, 2, seed)[0].item.id for seed in range(30)}) >= 3
    assert shots(one, [], 0) == ()
    with pytest.raises(PromptError, match="4 examples for a: the pool of 9 holds 3 problems"):
        shots(one, pool, 4)
    with pytest.raises(PromptError, match="-1 examples"):
        shots(one, pool, -1)


def test_a_program_that_differs_in_a_few_words_is_no_example():
    code = " ".join(f"word{k}" for k in range(40))
    one = item("a", reference_code=code)
    pool = [
        Example(item(name), "pyomo", text)
        for name, text in (("copy", code + " x = 5"), ("other", code[: len(code) // 2]))
    ]
    assert {shots(one, pool, 1, seed)[0].item.id for seed in range(20)} == {"other"}
    assert near(code, code) and near(code, code + " 5") and not near("", "") and not near(code, code[: len(code) // 2])


def test_family_examples_are_of_other_families_than_the_item():
    pool = family_examples(9)
    for one in sets.family_items(3):
        chosen = shots(one, pool, 4)
        assert {each.item.family for each in chosen} <= set(families.names()) - {one.family} and len(chosen) == 4
        assert len({plain(each.item.question) for each in chosen}) == 4
    for each in pool:
        assert ("data.json" in each.code) == bool(each.item.files)
        assert program(f"```python\n{each.code}```").code == each.code


@pytest.mark.skipif(not SHARED.is_dir(), reason="the benchmark folder is not here")
def test_no_prompt_of_the_folder_holds_a_twin():
    """The published five-shot prompts hold the twin's program for 374 of 394 rows; ours for none."""
    found = benchmarks.read(SHARED)
    items = sets.items(found, found.found)
    pool = benchmark_examples(items)
    assert len(pool) == sum(bool(one.reference_code) for one in items)
    for each in pool:
        ast.parse(each.code)
        assert each.code.count(".optimize(") == 1
    for one in items[::3]:
        chosen = shots(one, pool, 5, seed=1)
        assert len({each.item.cluster for each in chosen} | {one.cluster}) == 6
        for each in chosen:
            assert plain(each.item.question) != plain(one.question)
            assert each.item.reference != one.reference or not one.reference
            assert not near(each.code, one.reference_code)
        assert len(messages(one, "gurobipy", chosen)) == 12
    assert clustered(items) == items
