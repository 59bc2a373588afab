"""The chat format of DeepSeek-V4: messages to the pieces of a prompt, and an answer's text to its parts.

The release has no template; its `encoding/encoding_dsv4.py` defines the format. A piece is either one special token or
plain text. Joined, the pieces are the string that the release makes of the messages; as ids (`tokenize`), text that
someone wrote stays text even where it spells a special token. The release's classification tasks are left out.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from trex.data.chat_format import (
    ASSISTANT,
    CALLS,
    DSML,
    EFFORTS,
    END_THINK,
    MAX_EFFORT,
    REMINDER,
    RESPONSE_FORMAT,
    SPECIAL,
    THINK,
    TOOLS_HEAD,
    TOOLS_TAIL,
    USER,
)
from trex.data.problem import DataError
from trex.data.vocabulary import BEGIN, END, AnyTokenizer

KEYS = {  # what a message of each role may hold beside its role
    "system": {"content", "tools", "response_format"},
    "developer": {"content", "tools", "response_format"},
    "user": {"content"},
    "latest_reminder": {"content"},
    "assistant": {"content", "reasoning_content", "tool_calls"},
    "tool": {"content", "tool_call_id"},
}


class ChatError(DataError):
    """Messages that the format cannot hold, or an answer that does not follow it."""


@dataclass(frozen=True)
class Piece:
    """A part of a prompt: one special token, or plain text."""

    text: str
    special: bool = False
    trained: bool = False  # the assistant writes it: what a loss is counted over


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool by the assistant; arguments: a JSON object, written out."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Answer:
    """What the assistant wrote, by its parts."""

    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


def encode(
    messages: Sequence[Mapping[str, Any]], *, thinking: bool = False, tools: Sequence[Mapping[str, Any]] = (),
    keep_reasoning: bool = False, effort: str | None = None,
) -> list[Piece]:  # fmt: skip
    """The pieces of a conversation, to be answered where a user, developer or tool has the last word.

    messages: as OpenAI's API has them, with `reasoning_content` of an assistant and `tools` of a system message.
    thinking: the answer begins with reasoning. tools: as if the leading system message (empty where there is none)
    had them. keep_reasoning: also of turns before the last user's; tools keep it in any case. effort: None or one of
    EFFORTS. Raises ChatError for messages that the format has no place for.
    """
    if effort not in (None, *EFFORTS):
        raise ChatError(f"reasoning effort {effort!r}; accepted: None, {', '.join(EFFORTS)}")
    checked = [_checked(number, message) for number, message in enumerate(messages)]
    if tools:
        first = checked.pop(0) if checked and checked[0]["role"] == "system" else {"role": "system", "content": ""}
        checked.insert(0, {**first, "tools": [*first.get("tools", ()), *tools]})
    turns = _merged(checked)
    if not turns:
        raise ChatError("no messages; accepted: at least one")
    drop = thinking and not keep_reasoning and not any(turn.get("tools") for turn in turns)
    if drop:
        last = _last_user(turns)
        turns = [turn for place, turn in enumerate(turns) if turn["role"] != "developer" or place >= last]
    last = _last_user(turns)
    pieces = [Piece(BEGIN, special=True)]
    if thinking and effort == "max":
        pieces.append(Piece(MAX_EFFORT))
    for place, turn in enumerate(turns):
        if turn["role"] == "assistant":
            written = _assistant(turn, with_reasoning=thinking and (not drop or place > last))
            pieces += [replace(piece, trained=True) for piece in written]
        else:
            pieces += _others(turn)
        answered = place + 1 == len(turns) or turns[place + 1]["role"] in ("assistant", "latest_reminder")
        if turn["role"] in ("user", "developer") and answered:
            opened = thinking and (not drop or place >= last)
            pieces += [Piece(ASSISTANT, special=True), Piece(THINK if opened else END_THINK, special=True)]
    return _joined(pieces)


def tokenize(pieces: Iterable[Piece], tokenizer: AnyTokenizer) -> tuple[list[int], list[bool]]:
    """Ids of pieces, and of each whether the assistant writes it. Raises DataError for special tokens it lacks."""
    ids: list[int] = []
    trained: list[bool] = []
    for piece in pieces:
        new = [tokenizer.special_id(piece.text)] if piece.special else tokenizer.encode(piece.text)
        ids += new
        trained += [piece.trained] * len(new)
    return ids, trained


def parse(text: str, thinking: bool = False) -> Answer:
    """The parts of an answer, from behind the prompt to its end token, special tokens as their names.

    thinking: it begins with reasoning. Raises ChatError, naming what is wrong, for text not of the format.
    """
    reasoning, body = "", text
    if thinking:
        reasoning, found, body = text.partition(END_THINK)
        if not found:
            raise ChatError(f"answer without {END_THINK}: {text[:80]!r}")
    if not body.endswith(END):
        raise ChatError(f"answer without {END} at its end: {text[-80:]!r}")
    content, found, rest = body.removesuffix(END).partition(CALLS)
    for part in (reasoning, content):
        for name in (BEGIN, END, THINK, END_THINK, DSML):
            if name in part:
                raise ChatError(f"answer with {name} inside of its text: {part[:80]!r}")
    return Answer(content, reasoning, _parse_calls(f"{CALLS}{rest}".lstrip("\n")) if found else ())


_NAME, _VALUE = '([^"]+)', f"((?:(?!{DSML}).)*)"
_BLOCK = re.compile(f"<{DSML}tool_calls>\n(.*)\n</{DSML}tool_calls>", re.DOTALL)
_CALL = re.compile(f'<{DSML}invoke name="{_NAME}">\n(.*?)\n</{DSML}invoke>(?:\n|$)', re.DOTALL)
_PARAMETER = re.compile(
    f'<{DSML}parameter name="{_NAME}" string="(true|false)">{_VALUE}</{DSML}parameter>(?:\n|$)', re.DOTALL
)


def _parse_calls(text: str) -> tuple[ToolCall, ...]:
    block = _BLOCK.fullmatch(text)
    if block is None:
        raise ChatError(f"tool calls {text[:80]!r}; accepted: one <{DSML}tool_calls> block at the end of the answer")
    calls = []
    for name, body in _all(_CALL, block[1], "tool call"):
        arguments: dict[str, str] = {}
        for key, is_text, value in _all(_PARAMETER, body, f"parameter of {name}") if body else ():
            if key in arguments:
                raise ChatError(f"tool call of {name} with two parameters {key!r}")
            arguments[key] = _json(value) if is_text == "true" else _checked_json(key, value)
        written = ", ".join(f"{_json(key)}: {value}" for key, value in arguments.items())
        calls.append(ToolCall(name, f"{{{written}}}"))
    return tuple(calls)


def _all(pattern: re.Pattern[str], text: str, what: str) -> Iterator[tuple[str, ...]]:
    """The groups of matches that follow each other from the text's begin to its end."""
    place = 0
    while place < len(text) or not place:
        match = pattern.match(text, place)
        if match is None:
            raise ChatError(f"{what} that cannot be read: {text[place : place + 80]!r}")
        place = match.end()
        yield match.groups()


def _checked_json(key: str, value: str) -> str:
    try:
        json.loads(value)
    except ValueError:
        raise ChatError(f'parameter {key!r} = {value[:80]!r}; accepted with string="false": JSON') from None
    return value


def _checked(number: int, message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without what is None, its content as text."""
    if not isinstance(message, Mapping):
        raise ChatError(f"message {number} is {message!r}; accepted: an object with role and content")
    held = {key: value for key, value in message.items() if value is not None and key != "name"}
    role = held.pop("role", None)
    if role not in KEYS:
        raise ChatError(f"message {number} has role {role!r}; accepted: {', '.join(KEYS)}")
    for key in held:
        if key not in KEYS[role]:
            raise ChatError(f"message {number} of role {role} has {key!r}; accepted: {', '.join(sorted(KEYS[role]))}")
    content = _text(number, held.pop("content", ""))
    if not content and role in ("developer", "latest_reminder"):
        raise ChatError(f"message {number} of role {role} has no content; accepted: some")
    if not isinstance(held.get("reasoning_content", ""), str):
        raise ChatError(f"message {number} has reasoning_content {held['reasoning_content']!r}; accepted: text")
    for key in ("tools", "tool_calls"):
        value = held.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
            raise ChatError(f"message {number} has {key} {value!r}; accepted: a list of objects")
    return {"role": role, "content": content, **held}


def _text(number: int, content: object) -> str:
    """Text, or OpenAI's list of text parts, which a blank line separates."""
    parts: list[Any] = content if isinstance(content, list) else [{"type": "text", "text": content}]
    for part in parts:
        if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise ChatError(f"message {number} has content {part!r}; accepted: text, or a list of parts of type text")
    return "\n\n".join(str(part["text"]) for part in parts)


def _merged(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turns: tools' results and users' messages in a row are blocks of one user's turn, results in the calls' order."""
    turns: list[dict[str, Any]] = []
    order: dict[str, int] = {}
    for is_user, group in groupby(messages, lambda message: message["role"] in ("user", "tool")):
        if not is_user:
            for turn in group:
                turns.append(dict(turn))
                calls = turn.get("tool_calls")
                if calls:
                    order = {str(call.get("id")): place for place, call in enumerate(calls) if call.get("id")}
            continue
        blocks = list(group)
        results = [block for block in blocks if block["role"] == "tool"]
        in_order = iter(sorted(results, key=lambda result: order.get(result.get("tool_call_id", ""), 0)))
        blocks = [next(in_order) if block["role"] == "tool" else block for block in blocks]
        turns.append({"role": "user", "blocks": blocks})
    return turns


def _last_user(turns: Sequence[Mapping[str, Any]]) -> int:
    return max((place for place, turn in enumerate(turns) if turn["role"] in ("user", "developer")), default=-1)


def _others(turn: Mapping[str, Any]) -> list[Piece]:
    """The pieces of a turn that is not the assistant's."""
    if turn["role"] == "user":
        texts = [
            f"<tool_result>{block['content']}</tool_result>" if block["role"] == "tool" else block["content"]
            for block in turn["blocks"]
        ]
        return [Piece(USER, special=True), Piece("\n\n".join(texts))]
    if turn["role"] == "latest_reminder":
        return [Piece(REMINDER, special=True), Piece(turn["content"])]
    pieces = [Piece(USER, special=True)] if turn["role"] == "developer" else []
    pieces.append(Piece(turn["content"]))
    if turn.get("tools"):
        schemas = "\n".join(_json(_function(tool)) for tool in turn["tools"])
        pieces += [Piece("\n\n"), *_fixed(TOOLS_HEAD), Piece(schemas), *_fixed(TOOLS_TAIL)]
    if turn.get("response_format"):
        pieces.append(Piece(f"\n\n{RESPONSE_FORMAT}{_json(turn['response_format'])}"))
    return pieces


def _assistant(turn: Mapping[str, Any], with_reasoning: bool) -> list[Piece]:
    pieces = []
    if with_reasoning:
        pieces += [Piece(turn.get("reasoning_content", "")), Piece(END_THINK, special=True)]
    pieces.append(Piece(turn["content"]))
    if turn.get("tool_calls"):
        pieces += _fixed(f"{CALLS}>")
        for call in turn["tool_calls"]:
            pieces += _call(_function(call))
        pieces += _fixed(f"\n</{DSML}tool_calls>")
    return [*pieces, Piece(END, special=True)]


def _call(call: Mapping[str, Any]) -> list[Piece]:
    """One call of a tool; arguments that are not JSON are one parameter of that name."""
    name, arguments = call.get("name"), call.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise ChatError(f"tool call {dict(call)!r}; accepted: a name and, written as JSON, arguments")
    try:
        values = json.loads(arguments)
    except ValueError:
        values = {"arguments": arguments}
    if not isinstance(values, dict):
        raise ChatError(f"arguments {arguments!r} of tool call {name}; accepted: a JSON object")
    pieces = [*_fixed(f"\n<{DSML}invoke name="), Piece(f'"{name}">\n')]
    for place, (key, value) in enumerate(values.items()):
        is_text = isinstance(value, str)
        written = value if is_text else _json(value)
        pieces += _fixed(("\n" if place else "") + f"<{DSML}parameter name=")
        pieces += [
            Piece(f'"{key}" string="{"true" if is_text else "false"}">{written}'),
            *_fixed(f"</{DSML}parameter>"),
        ]
    return [*pieces, *_fixed(f"\n</{DSML}invoke>")]


def _function(tool: object) -> Mapping[str, Any]:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        raise ChatError(f"tool {tool!r}; accepted: an object with a `function`")
    return function


def _fixed(text: str) -> list[Piece]:
    """Pieces of a text of the format itself, in which special tokens are meant."""
    parts = re.split(f"({'|'.join(map(re.escape, SPECIAL))})", text)
    return [Piece(part, special=part in SPECIAL) for part in parts]


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbouring texts as one, as a tokenizer sees them; none empty."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and not piece.special and not joined[-1].special and joined[-1].trained == piece.trained:
            joined[-1] = replace(piece, text=joined[-1].text + piece.text)
        elif piece.text:
            joined.append(piece)
    return joined


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
