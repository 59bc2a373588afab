"""Rows in every shape that is accepted, and every way in which a line can be none: no line is lost."""

import json
from pathlib import Path

import pytest

from trex.data.audit.rows import check, parse, read
from trex.data.problem import DataError


def row(value: object):
    return parse(json.dumps(value).encode(), 7)


@pytest.mark.parametrize(
    "value",
    [
        {"problem": "P?", "answer": "A!"},
        {"question": "P?", "answer": "A!"},
        {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "P?"},
                      {"role": "assistant", "content": "A!"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "P?"}]},
                      {"role": "assistant", "content": "A!"}]},
        {"conversations": [{"from": "system", "value": "S"}, {"from": "human", "value": "P?"},
                           {"from": "gpt", "value": "A!"}]},
    ],
)  # fmt: skip
def test_shapes_that_say_the_same(value):
    found = row(value)
    assert (found.problem, found.answer, found.label, found.fault, found.id) == ("P?", "A!", None, "", "line 7")


def test_the_last_answer_counts_with_all_that_was_asked_before():
    turns = [("user", "one"), ("assistant", "A"), ("user", "two"), ("assistant", "B"), ("user", "three")]
    found = row({"messages": [{"role": who, "content": said} for who, said in turns]})
    assert (found.problem, found.answer) == ("one\n\ntwo", "B")


@pytest.mark.parametrize(
    ("answer", "label"),
    [("3000.0", "3000.0"), (75, "75"), (17.71, "17.71"), ("1,234.50", "1234.50"), ("-2e3", "-2e3"), (" 0 ", "0")],
)
def test_a_number_as_answer_is_a_label(answer, label):
    found = row({"id": "x", "en_question": "P?", "en_answer": answer})
    assert (found.id, found.answer, found.label, found.fault) == ("x", "", label, "")


def test_a_label_beside_an_answer_is_kept():
    found = row({"problem": "P?", "answer": "A!", "label": 12.50})
    assert (found.answer, found.label) == ("A!", "12.5")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1], "a JSON list"),
        ("text", "a JSON str"),
        ({}, "its keys are none"),
        ({"text": "T"}, "its keys are text"),
        ({"problem": "P?"}, "its answer is None"),
        ({"problem": "P?", "answer": ["A!"]}, "its answer is ['A!']"),
        ({"problem": "P?", "answer": " "}, "its answer is ' '"),
        ({"problem": "P?", "answer": True}, "its answer is True"),
        ({"problem": 3, "answer": "A!"}, "its problem is 3"),
        ({"problem": "", "answer": "A!"}, "its problem is ''"),
        ({"problem": "P?", "answer": "A!", "label": "ten"}, "its label is 'ten'"),
        ({"problem": "P?", "answer": "A!", "label": float("nan")}, "its label is nan"),
        ({"problem": "P?", "answer": float("inf")}, "its answer is inf"),
        ({"problem": "P?", "answer": "1e999"}, "its answer is '1e999'"),
        ({"problem": "P?", "answer": "A!", "files": ["a.csv"]}, "its files are"),
        ({"messages": "hello"}, "its messages are 'hello'"),
        ({"messages": [{"role": "user", "content": "P?"}]}, "none of its 1 messages is an answer"),
        ({"messages": [{"role": "assistant", "content": "A!"}]}, "its problem is ''"),
        ({"messages": [{"role": "bot", "content": "P?"}]}, "messages[0] is"),
        ({"messages": [{"role": ["user"], "content": "P?"}]}, "messages[0] is"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0] is"),
        ({"conversations": [{"from": "human"}]}, "conversations[0] is"),
    ],
)  # fmt: skip
def test_what_is_no_row_says_why(value, says):
    assert says in row(value).fault


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"problem": "P?", "ans', "no JSON: Unterminated string"),
        (b"\xff\xfe{}", "byte 0 is not UTF-8"),
        (b"[" * 100_000, "no JSON that can be read"),
        (b'{"problem": ' + b"9" * 5000 + b"}", "no JSON that can be read"),
    ],
)
def test_what_is_no_json_says_why(line, says):
    found = parse(line, 3)
    assert says in found.fault and found.id == "line 3"


def test_half_characters_are_replaced():
    found = parse(b'{"id": "\\ud800", "problem": "P\\udfff?", "answer": "A"}', 1)
    assert (found.id, found.problem) == ("?", "P??")


def test_every_line_of_a_file_is_a_row_but_blank_ones(tmp_path: Path):
    good = {"id": "a", "problem": "P?", "answer": "A!"}
    lines = [json.dumps(good), "", "broken", json.dumps({**good, "id": "b"}), "  ", json.dumps(good)]
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(lines))
    check(path)
    found = [(r.number, r.id, bool(r.fault)) for r in read(path)]
    assert found == [(1, "a", False), (3, "line 3", True), (4, "b", False), (6, "a", True)]
    assert "its id 'a' is that of line 1 too" in list(read(path))[-1].fault


@pytest.mark.parametrize("content", [b"", b"\n\n", b"a,b\n1,2\n", b"\x00\x01\xff", b'"text"\n', b"[\n1\n]\n"])
def test_a_file_that_is_no_jsonl_is_one_error(tmp_path: Path, content: bytes):
    path = tmp_path / "set.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match="none of its lines is a JSON object; accepted: JSONL"):
        check(path)


def test_a_missing_file_and_a_folder_are_one_error(tmp_path: Path):
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(DataError, match="accepted: a JSONL file"):
            check(path)


def test_files_in_the_text_are_found_by_their_names():
    text = (
        "Use the files.\n\n### data/costs.csv\n\n```csv\nid,cost\n1,10\n```\n\n"
        "**`instance.json`**\n~~~json\n{\"n\": 3}\n~~~\n\nPlan:\n```\nx = 1\n```\n"
    )  # fmt: skip
    found = row({"problem": text, "answer": "A!"})
    assert found.files == {"data/costs.csv": "id,cost\n1,10\n", "instance.json": '{"n": 3}\n'}
    assert row({"problem": text.replace("\n", "\r\n"), "answer": "A!"}).files == found.files
    own = row({"problem": text, "answer": "A!", "files": {"instance.json": "{}"}})
    assert own.files["instance.json"] == "{}" and "data/costs.csv" in own.files


@pytest.mark.parametrize("text", ["a.csv\n```x\n", "data.json ", "```\n", "~~~~\n", "| a | b |\n", "a.", "optimal "])
def test_texts_that_repeat_without_end_take_no_time_to_read(text: str):
    """Each would take hours where time grew with the square of the length; the runner's limit would end it."""
    found = row({"problem": text * (2_000_000 // len(text)), "answer": "A!"})
    assert (found.fault, found.files) == ("", {})


def test_a_fence_that_nothing_closes_is_none():
    assert row({"problem": "### a.csv\n```\n1,2\n", "answer": "A!"}).files == {}
    assert row({"problem": "### a.csv\n````\n1\n```\n2\n````\n", "answer": "A!"}).files == {"a.csv": "1\n```\n2\n"}
