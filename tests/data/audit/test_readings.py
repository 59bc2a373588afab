"""The readings of the public seeds: what the loader refuses, and whether they fit the file and the audit's verdicts.

What must hold between a reading and a verdict is written here once more, from the words of the file's header.
"""

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

import trex.paths
from trex.data.audit import readings
from trex.data.audit.readings import FILE, Reading, against, parse
from trex.data.audit.run import VERDICTS, audit
from trex.data.problem import DataError

SEEDS = Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks" / "public_seeds.jsonl"
needs_seeds = pytest.mark.skipif(not SEEDS.is_file(), reason="the public seeds are not here")
RIGHT = {"id": "a", "reading": "right", "kind": "", "reason": "", "audit": "agrees"}
WRONG = {"id": "b", "reading": "wrong", "kind": "unit", "reason": "Hours, not minutes.", "audit": "misses"}
# gates that compare text and program: only a note of theirs says that something is wrong
COMPARE = {"claim", "tables", "numbers", "direction", "integrality"}


def entries(*rows: dict) -> str:
    return json.dumps(rows)


def without(row: dict, key: str) -> dict:
    return {k: v for k, v in row.items() if k != key}


def test_what_is_written_is_what_is_read():
    assert parse(entries(RIGHT, WRONG)) == (
        Reading("a", "right", "", "", "agrees"),
        Reading("b", "wrong", "unit", "Hours, not minutes.", "misses"),
    )
    assert parse("[]") == ()


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({**WRONG, "reading": "fine"}, "'fine'"),
        ({**WRONG, "kind": "typo"}, "'typo'"),
        ({**WRONG, "kind": ""}, "''"),
        ({**RIGHT, "kind": "unit"}, "'unit'"),
        ({**WRONG, "audit": "perhaps"}, "'perhaps'"),
        ({**WRONG, "audit": "too strict"}, "'too strict'"),
        ({**RIGHT, "audit": "misses"}, "'misses'"),
        ({**WRONG, "reason": "  "}, "no reason"),
        ({**WRONG, "id": ""}, "id is ''"),
        ({**WRONG, "id": 7}, "texts for id, reading"),
        ({**WRONG, "line": "3"}, "texts for id, reading"),
        *((without(WRONG, key), "texts for id, reading") for key in WRONG),
        ("wrong", "texts for id, reading"),
    ],
)
def test_an_entry_that_is_none_is_refused_by_its_number_and_value(row, named: str):
    with pytest.raises(DataError, match=r"notes, entry 2") as refused:
        parse(json.dumps([RIGHT, row]), "notes")
    assert named in str(refused.value) and "\n" not in str(refused.value)


def test_an_id_that_is_there_twice_is_refused():
    with pytest.raises(DataError, match="entry 3: id 'a' is that of entry 1 too"):
        parse(entries(RIGHT, WRONG, RIGHT))


@pytest.mark.parametrize(("text", "named"), [("{a: 1}", "dict"), ("", "NoneType"), ("- [", "not YAML")])
def test_what_is_no_list_is_refused(text: str, named: str):
    with pytest.raises(DataError, match=named):
        parse(text)


def test_a_python_object_in_the_file_is_refused(tmp_path: Path):
    mark = tmp_path / "mark"
    with pytest.raises(DataError, match="not YAML"):
        parse(f"- !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{mark}']]")
    assert not mark.exists()


def test_verdicts_are_counted_by_reading_and_accepted_wrong_rows_are_named():
    read = parse(entries(RIGHT, WRONG, {**WRONG, "id": "c"}, {**WRONG, "id": "d", "reading": "doubtful"}))
    verdicts = [
        {"id": "a", "verdict": "refused"},
        {"id": "b", "verdict": "accepted"},
        {"id": "c", "verdict": "refused"},
        {"id": "d", "verdict": "accepted"},
        {"id": "e", "verdict": "accepted"},
    ]
    assert against(iter(verdicts), iter(read)) == {
        "table": {
            "accepted": {"right": 0, "wrong": 1, "doubtful": 1},
            "refused": {"right": 1, "wrong": 1, "doubtful": 0},
            "unchecked": {"right": 0, "wrong": 0, "doubtful": 0},
        },
        "accepted_wrong": ["b"],
        "unread": ["e"],
    }


@pytest.mark.parametrize("row", [{"id": "a"}, {"verdict": "accepted"}, {"id": "a", "verdict": "fine"}])
def test_what_is_no_verdict_is_refused(row: dict):
    with pytest.raises(DataError, match="accepted, refused, unchecked"):
        against([row])


def test_every_packaged_reason_is_one_sentence_and_no_two_are_the_same():
    read = readings.readings()
    assert len(read) == 100
    reasons = [one.reason for one in read if one.reason]
    assert all(reason.endswith(".") and ". " not in reason for reason in reasons)
    assert len(set(reasons)) == len(reasons)


@needs_seeds
def test_the_file_that_was_read_is_the_one_that_is_named_and_every_row_has_its_reading_in_order():
    content = SEEDS.read_bytes()
    assert hashlib.sha256(content).hexdigest() in FILE.read_text(encoding="utf-8")
    assert [one.id for one in readings.readings()] == [json.loads(line)["id"] for line in content.splitlines()]


@needs_seeds
def test_no_reason_copies_a_sentence_of_the_seeds():
    text = " ".join(SEEDS.read_text(encoding="utf-8").replace("\\n", " ").split())
    for one in readings.readings():
        words = one.reason.split()
        runs = {" ".join(words[k : k + 8]) for k in range(len(words) - 7)}
        assert not [run for run in runs if run in text], one.id


@needs_seeds
@pytest.mark.slow
def test_what_is_said_of_the_audit_is_what_its_verdicts_are(tmp_path: Path):
    audit(SEEDS, tmp_path / "out", processes=2, seconds=60.0)
    verdicts = [json.loads(line) for line in (tmp_path / "out" / VERDICTS).read_text().splitlines()]
    for one, verdict in zip(readings.readings(), verdicts, strict=True):
        assert one.id == verdict["id"]
        noted = any(found["gate"] in COMPARE for found in verdict["findings"])
        refused = {found["gate"] for found in verdict["findings"] if found["severity"] == "refuse"}
        if one.reading == "right":
            assert one.audit == ("too strict" if refused else "agrees"), one
        elif refused:
            assert one.audit == "agrees", one
        else:
            # a note may be of something else, but without any there is nothing to agree with
            assert noted or one.audit == "misses", one
        if one.kind in ("infeasible", "trivial") and refused:
            assert refused == {"optimum" if one.kind == "infeasible" else "trivial"}, one
    counted = against(verdicts)
    said = Counter((one.reading, one.audit) for one in readings.readings())
    assert counted["unread"] == []
    assert counted["table"]["refused"]["right"] == said["right", "too strict"]
    assert counted["table"]["accepted"]["right"] == said["right", "agrees"]
    named = {one.id for one in readings.readings() if one.reading == "wrong" and one.audit == "misses"}
    assert named <= set(counted["accepted_wrong"])
