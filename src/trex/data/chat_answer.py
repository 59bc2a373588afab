"""An answer of the assistant in DeepSeek-V4's chat format: from its text to reasoning, content and tool calls."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from trex.data.chat_format import CALLS, DSML, END_THINK, THINK
from trex.data.problem import DataError
from trex.data.vocabulary import BEGIN, END


class ChatError(DataError):
    """Messages that the format cannot hold, or an answer that does not follow it."""


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


def compact(value: object) -> str:
    """JSON as the format has it: one line, letters as they are. Raises ChatError where it is nested too deep."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise ChatError("JSON that is nested too deep") from None


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
            arguments[key] = compact(value) if is_text == "true" else _checked_json(key, value)
        written = ", ".join(f"{compact(key)}: {value}" for key, value in arguments.items())
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
    except (ValueError, RecursionError):
        raise ChatError(f'parameter {key!r} = {value[:80]!r}; accepted with string="false": JSON') from None
    return value
