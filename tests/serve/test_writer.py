"""Text from tokens: however it is cut into tokens, what is said is the same; stop strings never show."""

import itertools
import random

import pytest

from trex.data.chat_answer import ToolCall
from trex.data.chat_format import DSML, SPECIAL
from trex.data.tokens import EOS, Tokenizer
from trex.model.generate import Token
from trex.serve.writer import Delta, Entry, Writer

TOKENIZER = Tokenizer.fit([], special=SPECIAL)  # every byte is a token


def spelt(text: str) -> list[int]:
    """Ids of a text in which special tokens are meant."""
    ids = []
    while text:
        name = next((name for name in SPECIAL if text.startswith(name)), None)
        ids += [TOKENIZER.special_id(name)] if name else TOKENIZER.encode(text[0])
        text = text[len(name or "x") :]
    return ids


def written(ids: list[int], **how: object) -> tuple[list[Delta], list[Entry], Writer]:
    """What a writer makes of tokens, of which the last ends the answer."""
    writer, deltas, entries = Writer(TOKENIZER, **how), [], []  # type: ignore[arg-type]
    for at, i in enumerate(ids):
        last = at + 1 == len(ids)
        delta, entry = writer.add(Token(0, i, -1.0, ("stop" if i == EOS else "length") if last else None))
        deltas.append(delta)
        entries.append(entry)
        if writer.finish:
            break
    return deltas, entries, writer


def said(text: str, **how: object) -> tuple[str, str, str | None]:
    deltas, _, writer = written(spelt(text), **how)
    assert all(delta.finish is None for delta in deltas[:-1]) and deltas[-1].finish == writer.finish
    return "".join(d.reasoning for d in deltas), "".join(d.content for d in deltas), writer.finish


END = "<｜end▁of▁sentence｜>"


@pytest.mark.parametrize(
    ("text", "how", "expected"),
    [
        ("Grüße 👩‍🔬", {}, ("", "Grüße 👩‍🔬", "length")),
        (f"Hi{END}", {}, ("", "Hi", "stop")),
        (f"Why?</think>So{END}", {"thinking": True}, ("Why?", "So", "stop")),
        ("only thought", {"thinking": True}, ("only thought", "", "length")),
        ("a</think><｜User｜><think>b", {}, ("", "ab", "length")),
        ("one two three", {"stop": ["two"]}, ("", "one ", "stop")),
        ("one two three", {"stop": ["twofold", "three."]}, ("", "one two three", "length")),
        ("aabaac", {"stop": ["aac"]}, ("", "aab", "stop")),
        ("abc", {"stop": ["abc", "b"]}, ("", "a", "stop")),
        ("x\u00e9y", {"stop": ["\u00e9"]}, ("", "x", "stop")),
        ("stop here</think>no", {"stop": ["here"], "thinking": True}, ("stop ", "", "stop")),
        ("ends in st", {"stop": ["stop"]}, ("", "ends in st", "length")),
        (f"ends in st{END}", {"stop": ["stop"]}, ("", "ends in st", "stop")),
        ("</think>x", {"thinking": True, "stop": ["k>x"]}, ("", "x", "length")),
    ],
)
def test_what_is_said(text: str, how: dict[str, object], expected: tuple[str, str, str]) -> None:
    assert said(text, **how) == expected


def test_a_stop_string_never_shows_and_little_is_held_back() -> None:
    """At every moment the text shown is the text so far without the longest end that a stop string may begin with."""
    stops, drawn = ["ababc", "bb", "caa"], random.Random(0)
    for _ in range(300):
        text = "".join(drawn.choice("abc") for _ in range(20))
        ends = [(at + len(stop), at) for stop in stops if (at := text.find(stop)) >= 0]
        cut = min(ends) if ends else (len(text), len(text))
        deltas, _, _ = written(spelt(text), stop=stops)
        shown = ""
        for count, delta in enumerate(deltas, start=1):
            shown += delta.content
            if count < min(cut[0], len(text)):
                so_far = text[:count]
                held = max(n for n in range(count + 1) if any(so_far.endswith(s[:n]) and n < len(s) for s in stops))
                assert shown == so_far[: count - held]
        assert shown == text[: cut[1]]


def test_a_character_shows_once_it_is_whole() -> None:
    ids = spelt("€")
    deltas, entries, _ = written([*ids, *spelt("x")])
    assert [delta.content for delta in deltas] == ["", "", "€", "x"]
    assert b"".join(entry.bytes for entry in entries) == "€x".encode()
    assert [entry.offset for entry in entries] == [0, 0, 0, 1]
    deltas, _, _ = written(ids[:2])
    assert "".join(delta.content for delta in deltas) == "\ufffd"


def test_an_id_beyond_the_tokenizer_is_the_replacement_character() -> None:
    deltas, _, _ = written([TOKENIZER.vocab_size + 3])
    assert deltas[0].content == "\ufffd"


CALLS = (
    f'\n\n<{DSML}tool_calls>\n<{DSML}invoke name="f">\n<{DSML}parameter name="x" string="false">[1]</{DSML}parameter>\n'
    f"</{DSML}invoke>\n</{DSML}tool_calls>"
)


def test_tool_calls() -> None:
    deltas, _, writer = written(spelt(f"Calling\n{CALLS}{END}"), tools=True)
    assert "".join(delta.content for delta in deltas) == "Calling\n" and writer.finish == "tool_calls"
    assert deltas[-1].tool_calls == (ToolCall("f", '{"x": [1]}'),)
    assert list(itertools.chain(*(delta.tool_calls for delta in deltas[:-1]))) == []


@pytest.mark.parametrize("text", [CALLS, f"{CALLS[:60]}{END}", f"{CALLS} and more{END}"])
def test_tool_calls_that_cannot_be_read_are_content(text: str) -> None:
    finish = "stop" if text.endswith(END) else "length"
    assert said(text, tools=True) == ("", text.removesuffix(END), finish)


def test_without_tools_special_tokens_leave_no_text() -> None:
    assert said(f"{CALLS}{END}") == ("", CALLS.replace(DSML, ""), "stop")
