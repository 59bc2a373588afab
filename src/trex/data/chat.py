"""The chat format of DeepSeek-V4: from messages to the pieces of a prompt. (`chat_answer` reads what comes back.)

The release has no template; its `encoding/encoding_dsv4.py` defines the format. A piece is either one special token or
plain text. Joined, the pieces are the string that the release makes of the messages; as ids (`tokenize`), text that
someone wrote stays text even where it spells a special token. The sentences that the format adds for tools and the like
are read from the release (`trex.data.prompt_texts`). Its classification tasks are left out.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from trex.data.chat_answer import ChatError, compact
from trex.data.chat_format import (
    ASSISTANT,
    CALLS,
    DSML,
    EFFORTS,
    END_THINK,
    REMINDER,
    SPECIAL,
    THINK,
    TOKEN_FIELDS,
    USER,
)
from trex.data.prompt_texts import PLACE, PromptTexts, parts
from trex.data.vocabulary import BEGIN, END, AnyTokenizer

KEYS = {  # what a message of each role may hold beside its role
    "system": {"content", "tools", "response_format"},
    "developer": {"content", "tools", "response_format"},
    "user": {"content"},
    "latest_reminder": {"content"},
    "assistant": {"content", "reasoning_content", "tool_calls"},
    "tool": {"content", "tool_call_id"},
}


@dataclass(frozen=True)
class Piece:
    """A part of a prompt: one special token, or plain text."""

    text: str
    special: bool = False
    trained: bool = False  # the assistant writes it: what a loss is counted over


def encode(
    messages: Sequence[Mapping[str, Any]], *, thinking: bool = False, tools: Sequence[Mapping[str, Any]] = (),
    keep_reasoning: bool = False, effort: str | None = None, texts: PromptTexts | None = None,
) -> list[Piece]:  # fmt: skip
    """The pieces of a conversation, to be answered where a user, developer or tool has the last word.

    messages: as OpenAI's API has them, with `reasoning_content` of an assistant and `tools` of a system message.
    thinking: the answer begins with reasoning. tools: as if the leading system message (empty where there is none)
    had them. keep_reasoning: also of turns before the last user's; tools keep it in any case. effort: None or one of
    EFFORTS. texts: the release's, needed for tools, a response_format and the effort `max` of an answer with thinking.
    Raises ChatError for messages that the format has no place for, and where it needs texts that are not given.
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
        pieces += _fixed(_needed(texts, "reasoning effort 'max'").max_effort)
    for place, turn in enumerate(turns):
        if turn["role"] == "assistant":
            written = _assistant(turn, with_reasoning=thinking and (not drop or place > last))
            pieces += [replace(piece, trained=True) for piece in written]
        else:
            pieces += _others(turn, texts)
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


def _checked(number: int, message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without what is None, its content as text."""
    if not isinstance(message, Mapping):
        raise ChatError(f"message {number} is {message!r}; accepted: an object with role and content")
    held = {key: value for key, value in message.items() if value is not None and key != "name"}
    role = held.pop("role", None)
    if not isinstance(role, str) or role not in KEYS:
        raise ChatError(f"message {number} has role {role!r}; accepted: {', '.join(KEYS)}")
    for key in held:
        if key not in KEYS[role]:
            raise ChatError(f"message {number} of role {role} has {key!r}; accepted: {', '.join(sorted(KEYS[role]))}")
    content = _text(number, held.pop("content", ""))
    if not content and role in ("developer", "latest_reminder"):
        raise ChatError(f"message {number} of role {role} has no content; accepted: some")
    for key in ("reasoning_content", "tool_call_id"):
        if not isinstance(held.get(key, ""), str):
            raise ChatError(f"message {number} has {key} {held[key]!r}; accepted: text")
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


def _others(turn: Mapping[str, Any], texts: PromptTexts | None) -> list[Piece]:
    """The pieces of a turn that is not the assistant's."""
    if turn["role"] == "user":
        blocks = [
            f"<tool_result>{block['content']}</tool_result>" if block["role"] == "tool" else block["content"]
            for block in turn["blocks"]
        ]
        return [Piece(USER, special=True), Piece("\n\n".join(blocks))]
    if turn["role"] == "latest_reminder":
        return [Piece(REMINDER, special=True), Piece(turn["content"])]
    pieces = [Piece(USER, special=True)] if turn["role"] == "developer" else []
    pieces.append(Piece(turn["content"]))
    if turn.get("tools"):
        schemas = "\n".join(compact(_function(tool)) for tool in turn["tools"])
        pieces += [Piece("\n\n"), *_filled(_needed(texts, "tools").tools, tool_schemas=schemas)]
    if turn.get("response_format"):
        template, schema = _needed(texts, "response_format").response_format, compact(turn["response_format"])
        pieces += [Piece("\n\n"), *_filled(template, schema=schema)]
    return pieces


def _needed(texts: PromptTexts | None, what: str) -> PromptTexts:
    if texts is None:
        raise ChatError(
            f"{what}: needs prompt texts, which are in the release's {PLACE}; "
            f"`trex serve FOLDER` looks for them in FOLDER/{PLACE}"
        )
    return texts


def _filled(template: str, **values: str) -> list[Piece]:
    """Pieces of a template of the format: in its own text special tokens are meant, values are plain text."""
    pieces: list[Piece] = []
    for text, field in parts(template):
        pieces += _fixed(text)
        if field is not None:
            pieces += [Piece(values[field])] if field in values else _fixed(TOKEN_FIELDS[field])
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
    except RecursionError:
        raise ChatError(f"arguments of tool call {name} are nested too deep") from None
    if not isinstance(values, dict):
        raise ChatError(f"arguments {arguments!r} of tool call {name}; accepted: a JSON object")
    pieces = [*_fixed(f"\n<{DSML}invoke name="), Piece(f'"{name}">\n')]
    for place, (key, value) in enumerate(values.items()):
        is_text = isinstance(value, str)
        written = value if is_text else compact(value)
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
