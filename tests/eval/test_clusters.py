"""Clusters: links by text, data, program and model; counts on the benchmark folder against brute force."""

import itertools
import re
from collections import Counter
from pathlib import Path

import pytest

import trex.paths
from trex.eval import benchmarks, sets
from trex.eval.clusters import clustered, related
from trex.eval.items import Item, plain

SHARED = Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks"
LP = "Minimize\n obj: 2 x + 3 y\nSubject To\n c: x + y >= 4\n d: x - y <= 1\nEnd\n"
RENAMED = "Minimize\n obj: 3 a + 2 b\nSubject To\n r: b - a <= 1\n s: a + b >= 4\nEnd\n"
OTHER = RENAMED.replace(">= 4", ">= 5")


def item(name, question="", **over):
    return Item(name, "nl4opt", question or f"question of {name}", 1.0, **over)


def names(*items):
    return [each.cluster for each in clustered(items)]


def test_links_connect_and_the_least_id_names_a_cluster():
    chain = [
        item("d", "A bus takes 1.5 hours."),
        item("c", "a BUS takes  1.5 hours", files={"data.json": "{1}"}),
        item("b", files={"data.json": "{1}"}, reference_code="m = 1\n"),
        item("a", reference_code="m = 1"),
        item("e", "A bus takes 15 hours."),
        item("f", "A bus takes 1 5 hours."),
    ]
    assert names(*chain) == ["a", "a", "a", "a", "e", "f"]
    for order in itertools.islice(itertools.permutations(chain), 0, 720, 37):
        assert {each.id: each.cluster for each in clustered(order)} == dict(zip("dcbaef", "aaaaef", strict=True))


def test_isomorphic_models_are_linked_and_others_of_their_size_are_not():
    assert names(item("a", reference=LP), item("b", reference=RENAMED), item("c", reference=OTHER)) == ["a", "a", "c"]
    assert names(item("c", reference=OTHER), item("b", reference=RENAMED), item("a", reference=LP)) == ["c", "a", "a"]


def test_references_that_cannot_be_read_link_as_text():
    broken = "Minimize\n obj: x *"
    assert names(item("a", reference=broken), item("b", reference=broken + " "), item("c", reference="?")) == list(
        "aac"
    )


def test_data_files_are_compared_with_their_names():
    assert names(item("a", files={"x": "1", "y": "2"}), item("b", files={"x": "2", "y": "1"})) == ["a", "b"]


def test_related_needs_no_clusters():
    one = item("a", "How many buses?")
    assert related(one, one) and related(one, item("b", "how many buses")) and not related(one, item("c"))
    assert related(item("a", family="knapsack"), item("b", family="knapsack"))
    assert not related(item("a"), item("b"))
    assert related(item("a", cluster="z"), item("b", cluster="z"))


@pytest.fixture(scope="module")
def folder():
    if not SHARED.is_dir():
        pytest.skip("the benchmark folder is not here")
    return benchmarks.read(SHARED)


@pytest.fixture(scope="module")
def found(folder):
    return sets.items(folder, folder.found)


def test_counts_are_those_of_brute_force(folder, found):
    def bare(text):
        return re.sub(r"\s+", "", text.lower())

    questions = {bare(q.question) for name in benchmarks.QUESTION_SETS for q in folder.questions[name]}
    orgeval = folder.problems["b4o_orgeval"]
    models = {row.reference_lp.read_text() for row in orgeval}  # all of B4O-F is in B4O-O
    count = {name: len({each.cluster for each in found if each.set == name}) for name in folder.found}
    texts = {name: len({bare(q.question) for q in folder.questions[name]}) for name in benchmarks.QUESTION_SETS}
    assert count["nl4opt"] == texts["nl4opt"] and count["optibench"] == texts["optibench"]
    assert count["b4o_orgeval"] == len(models) == len(orgeval) / 2
    assert count["b4o_feasible"] == len(folder.problems["b4o_feasible"]) / 2
    assert len({each.cluster for each in found}) == len(questions) + len(models)


def test_no_twin_ends_in_another_cluster(folder, found):
    """Rows 2k and 2k + 1 are the two texts of one model; a text, program or LP never stands in two clusters."""
    by_id = {each.id: each for each in found}
    for name in benchmarks.PROBLEM_SETS:
        for row in folder.problems[name]:
            stem, number = row.id.rsplit("_", 1)
            twin = by_id[f"{name}/{stem}_{int(number) ^ 1}"]
            assert by_id[f"{name}/{row.id}"].cluster == twin.cluster
    for part in (lambda i: plain(i.question), lambda i: i.reference, lambda i: i.reference_code):
        where = {(part(each), each.cluster) for each in found if part(each)}
        assert max(Counter(key for key, _ in where).values()) == 1
    sizes = Counter(each.cluster for each in found if each.set in benchmarks.PROBLEM_SETS)
    assert set(sizes.values()) == {2, 4}
