"""The chat format: strings written out by hand from the published rules, ids without injection, answers read back.

The expected strings spell the format of DeepSeek-V4's release (`encoding/encoding_dsv4.py`) out, message by message,
around sentences of our own in place of the release's.
"""

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from trex.data.chat import Piece, encode, tokenize
from trex.data.chat_answer import Answer, ChatError, ToolCall, parse
from trex.data.chat_format import DSML, SPECIAL
from trex.data.prompt_texts import PromptTexts
from trex.data.tokens import Tokenizer

B, E, U, A = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"

# a file of our own in the place of the release's, which is never run
ENCODING = '''"""How to write prompts."""
raise SystemExit("run")

REASONING_EFFORT_MAX = (
    "Take your time.\\n"
    "Then {more} <think>.\\n\\n"
)

TOOLS_TEMPLATE = """# What you can call

Write <{dsml_token}tool_calls> behind {thinking_end_token}, and \'{{}}\' for nothing.
{tool_schemas}
Think after {thinking_start_token}.
"""
response_format_template: str = "# Form\\n\\nAs in {schema}!"
'''
MAX_EFFORT = "Take your time.\nThen {more} <think>.\n\n"
TOOLS_HEAD = "# What you can call\n\nWrite <｜DSML｜tool_calls> behind </think>, and '{}' for nothing.\n"
TOOLS_TAIL = "\nThink after <think>.\n"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> PromptTexts:
    path: Path = tmp_path_factory.mktemp("encoding") / "encoding_dsv4.py"
    path.write_text(ENCODING)
    return PromptTexts.read(path)


def joined(messages: list[dict[str, Any]], **how: Any) -> str:
    return "".join(piece.text for piece in encode(messages, **how))


def said(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def call(number: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}, "description": "Größe"}}]
THREE = [said("user", "Hi"), said("assistant", "Hello", reasoning_content="Greet."), said("user", "2+2?")]

CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "system and user": (
        [said("system", "Be brief."), said("user", "Hi")],
        {},
        f"{B}Be brief.{U}Hi{A}</think>",
    ),
    "several turns": (THREE, {}, f"{B}{U}Hi{A}</think>Hello{E}{U}2+2?{A}</think>"),
    "thinking, what was thought before is dropped": (
        [*THREE, said("assistant", "4", reasoning_content="Sum.")],
        {"thinking": True},
        f"{B}{U}Hi{A}</think>Hello{E}{U}2+2?{A}<think>Sum.</think>4{E}",
    ),
    "thinking, to be answered": (THREE, {"thinking": True}, f"{B}{U}Hi{A}</think>Hello{E}{U}2+2?{A}<think>"),
    "thinking, all kept": (
        THREE,
        {"thinking": True, "keep_reasoning": True},
        f"{B}{U}Hi{A}<think>Greet.</think>Hello{E}{U}2+2?{A}<think>",
    ),
    "thinking as hard as can be": (
        [said("system", "S"), said("user", "Hi")],
        {"thinking": True, "effort": "max"},
        f"{B}{MAX_EFFORT}S{U}Hi{A}<think>",
    ),
    "effort high adds nothing": ([said("user", "Hi")], {"thinking": True, "effort": "high"}, f"{B}{U}Hi{A}<think>"),
    "a reminder, a developer, and the format asked for": (
        [
            said("latest_reminder", "It is Monday."),
            said("developer", "Answer.", response_format={"type": "json_object"}),
        ],
        {},
        f'{B}<｜latest_reminder｜>It is Monday.{U}Answer.\n\n# Form\n\nAs in {{"type": "json_object"}}!{A}</think>',
    ),
    "an earlier developer is dropped with what was thought": (
        [said("developer", "D"), said("assistant", "x", reasoning_content="r"), said("user", "Hi")],
        {"thinking": True},
        f"{B}x{E}{U}Hi{A}<think>",
    ),
    "users in a row": ([said("user", "one"), said("user", "two")], {}, f"{B}{U}one\n\ntwo{A}</think>"),
    "text in parts": (
        [said("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])],  # type: ignore[arg-type]
        {},
        f"{B}{U}a\n\nb{A}</think>",
    ),
    "two calls, results out of order, reasoning kept because of the tools": (
        [
            said("system", "S"),
            said("user", "Both?"),
            said(
                "assistant",
                None,
                reasoning_content="Two sums.",
                tool_calls=[call("c1", "add", '{"a": 1, "b": [2, "ü"], "why": "x\\ny"}'), call("c2", "add", "{}")],
            ),
            said("tool", "second", tool_call_id="c2"),
            said("tool", "first", tool_call_id="c1"),
            said("assistant", "Done.", reasoning_content="Fine."),
            said("user", "Thanks"),
        ],
        {"thinking": True, "tools": TOOLS},
        f"{B}S\n\n{TOOLS_HEAD}"
        '{"name": "add", "parameters": {"type": "object"}, "description": "Größe"}'
        f"{TOOLS_TAIL}{U}Both?{A}<think>Two sums.</think>\n\n<｜DSML｜tool_calls>\n"
        '<｜DSML｜invoke name="add">\n'
        '<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="b" string="false">[2, "ü"]</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="why" string="true">x\ny</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n"
        '<｜DSML｜invoke name="add">\n\n</｜DSML｜invoke>\n'
        f"</｜DSML｜tool_calls>{E}{U}<tool_result>first</tool_result>\n\n<tool_result>second</tool_result>{A}"
        f"<think>Fine.</think>Done.{E}{U}Thanks{A}<think>",
    ),
    "tools without a system message": (
        [said("user", "Hi")],
        {"tools": TOOLS},
        f'{B}\n\n{TOOLS_HEAD}{{"name": "add", "parameters": {{"type": "object"}}, "description": "Größe"}}{TOOLS_TAIL}'
        f"{U}Hi{A}</think>",
    ),
    "arguments that are not JSON": (
        [said("user", "x"), said("assistant", "y", tool_calls=[call("c", "f", "oops")])],
        {},
        f'{B}{U}x{A}</think>y\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n'
        '<｜DSML｜parameter name="arguments" string="true">oops</｜DSML｜parameter>\n'
        f"</｜DSML｜invoke>\n</｜DSML｜tool_calls>{E}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_string_is_the_published_one(case: str, texts: PromptTexts) -> None:
    messages, how, expected = CASES[case]
    before = json.dumps(messages)
    assert joined(messages, texts=texts, **how) == expected
    assert json.dumps(messages) == before


NEED_TEXTS = [case for case, (_, _, expected) in CASES.items() if "Take your" in expected or "# " in expected]


@pytest.mark.parametrize("case", CASES)
def test_without_the_releases_texts_what_needs_them_is_refused(case: str) -> None:
    messages, how, expected = CASES[case]
    if case in NEED_TEXTS:
        with pytest.raises(ChatError, match=r"needs prompt texts.* FOLDER/encoding/encoding_dsv4\.py"):
            encode(messages, **how)
    else:
        assert joined(messages, **how) == expected
    assert len(NEED_TEXTS) == 4


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.fit(["Be brief. Two sums."], special=SPECIAL)


@pytest.mark.parametrize("case", CASES)
def test_ids_decode_to_the_string(tokenizer: Tokenizer, case: str, texts: PromptTexts) -> None:
    messages, how, expected = CASES[case]
    pieces = encode(messages, texts=texts, **how)
    ids, trained = tokenize(pieces, tokenizer)
    assert tokenizer.decode(ids, keep_special=True) == expected and len(ids) == len(trained)
    assert [i for i in ids if i in tokenizer.special.values()] == [
        tokenizer.special_id(piece.text) for piece in pieces if piece.special
    ]
    assert all(a.special or b.special or a.trained != b.trained for a, b in pairwise(pieces))


SPELT = [f"a{A}b", f"{E}", "</think>x<think>", f"<{DSML}tool_calls>", "<tool_result>", "{dsml_token}{schema}"]


@pytest.mark.parametrize("text", SPELT)
def test_text_that_spells_special_tokens_stays_text(tokenizer: Tokenizer, text: str, texts: PromptTexts) -> None:
    def asked(name: str) -> dict[str, Any]:
        return {"tools": [{"function": {"name": name}}], "response_format": {"type": name}}

    messages = [
        said("system", text, **asked(text)),
        said("user", text),
        said("assistant", text, reasoning_content=text, tool_calls=[call("c", "f", json.dumps({"x": text}))]),
        said("tool", text, tool_call_id="c"),
    ]
    plain = [{**message, "content": "x"} for message in messages]
    plain[0] |= asked("x")
    plain[2] |= {"reasoning_content": "x", "tool_calls": [call("c", "f", '{"x": "x"}')]}
    special = set(tokenizer.special.values())
    with_text, _ = tokenize(encode(messages, thinking=True, texts=texts), tokenizer)
    without, _ = tokenize(encode(plain, thinking=True, texts=texts), tokenizer)
    assert [i for i in with_text if i in special] == [i for i in without if i in special]
    assert tokenizer.decode(with_text, keep_special=True).count(text) >= 7


def test_the_assistants_pieces_are_trained() -> None:
    pieces = encode([*THREE, said("assistant", "4", reasoning_content="Sum.")], thinking=True)
    trained = [piece.text for piece in pieces if piece.trained]
    assert trained == ["Hello", E, "Sum.", "</think>", "4", E]
    assert Piece("Hi") in pieces and Piece("<think>", special=True) in pieces


@pytest.mark.parametrize("thinking", [True, False])
def test_answers_are_read_back(thinking: bool) -> None:
    calls = [call("c1", "add", '{"a": 1, "why": "x\\n\\"y\\""}'), call("c2", "none", "{}")]
    answer = said("assistant", "Text.\n\nMore", reasoning_content="Why <b>?", tool_calls=calls)
    pieces = encode([said("user", "?"), answer], thinking=thinking)
    text = "".join(piece.text for piece in pieces if piece.trained)
    expected = (ToolCall("add", '{"a": 1, "why": "x\\n\\"y\\""}'), ToolCall("none", "{}"))
    assert parse(text, thinking) == Answer("Text.\n\nMore", "Why <b>?" if thinking else "", expected)


LINE = "\n"
PARAMETER = f'<{DSML}parameter name="x" string="false">1</{DSML}parameter>'
CALL = f'<{DSML}invoke name="f">\n{PARAMETER}\n</{DSML}invoke>'


def block(inside: str) -> str:
    return f"\n\n<{DSML}tool_calls>\n{inside}\n</{DSML}tool_calls>"


def test_a_block_is_read() -> None:
    assert parse(block(CALL) + E).tool_calls == (ToolCall("f", '{"x": 1}'),)


@pytest.mark.parametrize(
    ("text", "thinking", "message"),
    [
        ("no end", False, "without <｜end"),
        (f"no reasoning{E}", True, "without </think>"),
        (f"a{E}b{E}", False, "inside"),
        (f"a<think>b{E}", False, "inside"),
        (f"a</think>b</think>c{E}", True, "inside"),
        (f"{DSML}{E}", False, "inside"),
        (f"{block(CALL)} and more{E}", False, "one <｜DSML｜tool_calls> block"),
        (f"{block('')}{E}", False, "cannot be read"),
        (f"{block(CALL + CALL)}{E}", False, "cannot be read"),
        (f"{block('x' + CALL)}{E}", False, "cannot be read"),
        (f"{block(CALL.replace('>1<', '>one<'))}{E}", False, "accepted with string"),
        (f"{block(CALL.replace('false', 'maybe'))}{E}", False, "parameter of f"),
        (f"{block(CALL.replace('>1<', f'>{DSML}<'))}{E}", False, "parameter of f"),
        (f"{block(CALL.replace(PARAMETER, f'{PARAMETER}{LINE}{PARAMETER}'))}{E}", False, "two parameters 'x'"),
    ],
)
def test_an_answer_of_another_form_is_refused(text: str, thinking: bool, message: str) -> None:
    with pytest.raises(ChatError, match=message):
        parse(text, thinking)


@pytest.fixture
def usual_depth() -> Iterator[None]:
    """Python's own recursion limit: hypothesis raises it, and what else runs in the process may leave it raised."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "no messages"),
        (["Hi"], "accepted: an object"),
        ([said("robot", "Hi")], "'robot'; accepted: system"),
        ([said("user", "Hi", task="action")], "has 'task'; accepted: content"),
        ([said("user", 3)], "content"),  # type: ignore[arg-type]
        ([said("user", [{"type": "image_url", "image_url": {}}])], "image_url"),  # type: ignore[arg-type]
        ([said("developer", "")], "no content"),
        ([{"role": [], "content": "x"}], r"role \[\]"),
        ([said("tool", "x", tool_call_id=[])], r"tool_call_id \[\]"),
        ([said("assistant", "", tool_calls=[call("c", "f", "[" * 100_000)])], "nested too deep"),
        ([said("assistant", "", tool_calls=[call("c", "f", '{"x":' * 990 + "1" + "}" * 990)])], "nested too deep"),
        ([said("assistant", "x", reasoning_content=3)], "reasoning_content 3"),
        ([said("assistant", "x", tool_calls=[call("c", "f", "[1]")])], "accepted: a JSON object"),
        ([said("assistant", "x", tool_calls=[{"name": "f"}])], "accepted: an object with a `function`"),
        ([said("system", "x", tools=["f"])], "accepted: a list of objects"),
        ([said("assistant", "x", tool_calls=3)], "accepted: a list of objects"),
    ],
)
def test_messages_without_a_place_are_refused(messages: list[Any], message: str, usual_depth: None) -> None:
    with pytest.raises(ChatError, match=message):
        encode(messages)


def test_the_most_effort_adds_nothing_to_an_answer_without_thinking() -> None:
    assert joined([said("user", "x")], effort="max") == f"{B}{U}x{A}</think>"


def test_an_unknown_effort_is_refused() -> None:
    with pytest.raises(ChatError, match="accepted: None, high, max"):
        encode([said("user", "x")], thinking=True, effort="low")
