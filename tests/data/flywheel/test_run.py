"""Buckets, pool, rounds and the run: the same bytes after any interruption, quotas met, parents spread."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from trex.data.flywheel import run as runs
from trex.data.flywheel.bucket import Bucket, Wanted
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.embedded import Parent
from trex.data.flywheel.making import Made
from trex.data.flywheel.pool import GROWTHS, Pool
from trex.data.flywheel.report import text
from trex.data.flywheel.representation import Representation
from trex.data.flywheel.rounds import Candidate, Progress, Rounds, candidates, due
from trex.data.flywheel.run import CANDIDATES, DIALOGUES, PLAN, SUMMARY, Here, Settings, run
from trex.data.flywheel.seeds import embedded_seeds
from trex.data.problem import DataError

FAMILIES = ("knapsack", "transportation")


def wanted(count=6, **kinds) -> Wanted:
    return Wanted.of(count, structures=FAMILIES, difficulties=(1,), **kinds)


def made(folder, count=6, **settings):
    return run(folder, Settings(wanted(count), **settings), embedded_seeds(FAMILIES), jobs=Here)


def test_a_run_fills_every_slot_of_its_buckets_and_says_where_each_dialogue_comes_from(tmp_path):
    summary = made(tmp_path, 8, rounds=Rounds(2, 1.25))
    rows = [Dialogue.from_line(line) for line in (tmp_path / DIALOGUES).read_text().splitlines()]
    assert Counter(row.bucket for row in rows) == wanted(8).quotas() and summary.missing == 0
    assert len({row.id for row in rows}) == 8
    lineages = {seed.id for seed in embedded_seeds(FAMILIES)}
    assert {row.lineage for row in rows} <= lineages and any(row.parent not in lineages for row in rows)
    written = json.loads((tmp_path / SUMMARY).read_text())
    assert written["dialogues"] == 8 and written["attempts"] == 10 and written["surplus"] == 2
    assert "8 of 8 dialogues" in text(written)


def test_a_run_that_was_cut_anywhere_ends_in_the_same_bytes(tmp_path):
    made(tmp_path / "whole", 6)
    whole = {p.name: p.read_bytes() for p in (tmp_path / "whole").iterdir()}
    log = whole[CANDIDATES]
    for cut in (0, 1, len(log) // 3, len(log) // 2, len(log) - 1):
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        (folder / PLAN).write_bytes(whole[PLAN])
        (folder / CANDIDATES).write_bytes(log[:cut])
        made(folder, 6)
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == whole


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_ends_in_the_same_bytes(tmp_path):
    command = [
        sys.executable, "-c",
        "import sys; from pathlib import Path; from trex.data.flywheel.run import *; "
        "from trex.data.flywheel.seeds import *; "
        "run(Path(sys.argv[1]), Settings(Wanted.of(60)), embedded_seeds(), processes=2)",
    ]  # fmt: skip
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    for kill in range(int(os.environ.get("TREX_KILLS", "5"))):
        process = subprocess.Popen([*command, str(tmp_path / "killed")])
        time.sleep(3 + 1.3 * kill)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([*command, str(tmp_path / "killed")], check=True)
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "killed" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"growth": "seed-only"}, "another plan: growth is 'snowball' there, 'seed-only' here"),
        ({"near": 0.8}, "another plan: near is 0.9 there"),
        ({"rounds": Rounds(3)}, "another plan: rounds.count is 4 there, 3 here"),
    ],
)
def test_a_folder_of_another_plan_is_left_alone(tmp_path, change, said):
    made(tmp_path, 2)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(DataError, match=said):
        made(tmp_path, 2, **change)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_rows_that_are_not_the_runs_own_are_named(tmp_path):
    made(tmp_path, 2)
    for text_, said in (("{}\n", "it is no candidate"), ("x\n", "row 1"), ("[1]\n", "it is no candidate")):
        (tmp_path / CANDIDATES).write_text(text_)
        with pytest.raises(DataError, match=said):
            made(tmp_path, 2)


def test_every_bucket_comes_as_often_as_every_other():
    every = Wanted.of(3 * 4 * 11 * 2, structures=FAMILIES)
    assert set(every.quotas().values()) == {1} and len(every.quotas()) == every.count
    assert Wanted.of(100, 1).bucket(5) != Wanted.of(100, 2).bucket(5) or Wanted.of(100, 1).bucket(50) != Wanted.of(
        100, 2
    ).bucket(50)


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ({"count": 0}, "count 0; accepted: from 1"),
        ({"count": 1, "modes": ("XX",)}, "mode 'XX'"),
        ({"count": 1, "tasks": ("formulate",), "styles": ("code-only",)}, "formulate in code-only"),
        ({"count": 1, "structures": ("knapsack", "knapsack")}, "each once"),
        ({"count": 1, "seed": -1}, "seed -1"),
    ],
)
def test_what_cannot_be_wanted_is_named(kinds, said):
    with pytest.raises(DataError, match=said):
        Wanted.of(**kinds)
    with pytest.raises(DataError):
        Bucket("DP", "knapsack", 1, "formulate", "code-only")
    with pytest.raises(DataError):
        Rounds(oversampling=0.5)


def test_domains_take_turns_within_each_structure_and_are_those_of_the_problems():
    from trex.data import families
    from trex.data.flywheel.bucket import every_domain

    every = Wanted.of(64, structures=FAMILIES, domains=every_domain(FAMILIES))
    for name in FAMILIES:
        counted = Counter(every.bucket(k).domain for k in range(64) if every.bucket(k).structure == name)
        assert set(counted) == set(families.get(name).domains) and max(counted.values()) - min(counted.values()) <= 1
    some = Wanted.of(8, structures=FAMILIES, domains=("air freight",))
    assert some.structures == ("knapsack",) and {some.bucket(k).domain for k in range(8)} == {"air freight"}
    with pytest.raises(DataError, match=r"domain 'nowhere'; accepted: .*air freight"):
        Wanted.of(8, structures=FAMILIES, domains=("nowhere",))
    found = families.get("knapsack").problem(3, 1, "air freight")
    assert found.domain == "air freight" and found.words["item"] == "crate"
    with pytest.raises(DataError, match=r"domain 'nowhere' of knapsack; accepted: air freight"):
        families.get("knapsack").problem(3, 1, "nowhere")


def test_parents_fit_the_bucket_and_are_used_evenly():
    bucket = Bucket("DP", "knapsack", 2, "implement", "code-only")
    for growth in GROWTHS:
        pool = Pool(embedded_seeds(FAMILIES), growth)
        for k in range(4):
            pool.add(Parent(f"row{k}", "seed", bucket, ""))
        chosen = [pool.choose(bucket, k) for k in range(40)]
        assert {parent.bucket.structure for parent in chosen} == {"knapsack"}
        grown = sum(parent.id.startswith("row") for parent in chosen)
        assert grown == {"seed-only": 0, "hybrid": 20, "snowball": 40}[growth]
        uses = Counter(parent.id for parent in chosen)
        assert max(uses.values()) - min(uses.values()) <= 4
    with pytest.raises(DataError, match="growth 'x'"):
        Pool(embedded_seeds(FAMILIES), "x")
    with pytest.raises(DataError, match="no seeds"):
        Pool([], "hybrid")


def test_surplus_fills_a_slot_of_its_bucket_in_a_later_round():
    asked, rounds = Wanted.of(2, structures=("knapsack",), modes=("DP",), difficulties=(1,), tasks=("implement",),
                              styles=("code-only",)), Rounds(1, 2.0)  # fmt: skip
    progress, pool = Progress(), Pool(embedded_seeds(("knapsack",)), "seed-only")
    first = list(candidates(asked, rounds, 0, progress, pool))
    assert [c.slot for c in first] == [0, 1, 0, 1]
    progress.accept(first[0])
    progress.accept(first[2])  # slot 0 is filled: left over
    progress.settle(due(asked, rounds, 0, progress), asked)
    assert progress.filled == {0: 0, 1: 2} and not any(progress.surplus.values())


def test_attempts_of_all_rounds_and_runs_have_instances_of_their_own():
    pool = Pool(embedded_seeds(FAMILIES), "seed-only")
    seeds = []
    for seed in (0, 1):
        for number in (0, 1, 7):
            seeds += [
                c.attempt.seed for c in candidates(Wanted.of(9, seed, FAMILIES), Rounds(1), number, Progress(), pool)
            ]
    assert len(set(seeds)) == len(seeds) == 54
    assert isinstance(Candidate(0, 0, 0, None).number, int)


def test_a_dialogue_like_another_or_like_a_seed_is_refused(tmp_path):
    made(tmp_path / "a", 2)
    row = Dialogue.from_line((tmp_path / "a" / DIALOGUES).read_text().splitlines()[0])
    from trex.data.collection import Collection
    from trex.data.decontamination import Benchmarks
    from trex.data.flywheel.making import made_again
    from trex.data.near_duplicates import signature

    first = json.loads((tmp_path / "a" / CANDIDATES).read_text().splitlines()[0])
    found = made_again(first, 0)
    assert (isinstance(found, Made) and found.row.id == row.id) or found.gate
    other = Collection(0.9, Benchmarks(), runs.model_of)
    assert other.refusal(found) is None
    other.add(found)
    assert other.refusal(found)[0] == "duplicate"
    seeds = Collection(0.9, Benchmarks(), runs.model_of)
    seeds.add_text(signature(found.statement).tobytes())
    assert seeds.refusal(found)[0] == "near-duplicate"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.pop("sense"), "sense: Field required"),
        (lambda r: r.update(sense="max"), "sense"),
        (lambda r: r.update(extra=1), "extra"),
        (lambda r: r["data"].pop("items"), "members of items"),
        (lambda r: r["data"].update(limit={"nobody": 1}), "accepted: an object with members of resources"),
        (lambda r: r["data"].update(other=3), "no index set and no parameter"),
        (lambda r: r.update(constraints=[]), "0 constraints"),
        (lambda r: r["decisions"][0].update(name="a b"), "name 'a b'"),
        (lambda r: r["data"].update(value=dict.fromkeys(r["data"]["items"], True)), "True; accepted"),
        (lambda r: r["parameters"].append(r["parameters"][0]), "stands for two things"),
    ],
)
def test_a_representation_that_is_none_is_refused_by_the_name_of_its_fault(change, said):
    from trex.data.flywheel.recombine import recombine, representation
    from trex.data.flywheel.representation import Origin

    row = json.loads(representation(recombine(Origin("knapsack", 1, 1))).line)
    assert Representation.of(row) == Representation.of(json.dumps(row))
    change(row)
    with pytest.raises(DataError, match=said):
        Representation.of(row)
    with pytest.raises(DataError, match="no JSON"):
        Representation.of("{")
