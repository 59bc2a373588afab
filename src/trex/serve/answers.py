"""Answers in OpenAI's form: whole, and chunk by chunk. Both are made of the same deltas."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from trex.data.chat_answer import ToolCall
from trex.serve.writer import Delta, Entry


@dataclass
class Choice:
    """One answer as it grows."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    entries: list[Entry] = field(default_factory=list)

    def add(self, delta: Delta, entry: Entry) -> None:
        """Take what a token adds."""
        self.content += delta.content
        self.reasoning += delta.reasoning
        self.tool_calls += delta.tool_calls
        self.finish = delta.finish
        self.entries.append(entry)


class Form(Protocol):
    """How one endpoint writes its answers."""

    whole: str  # the name of the kind of object that an answer is
    chunk: str  # and a part of a stream
    prefix: str  # of ids

    def begin(self) -> dict[str, Any] | None:
        """The first part of each choice in a stream; None for none."""
        ...

    def part(self, delta: Delta, entries: Sequence[Entry] | None) -> dict[str, Any]:
        """A part of a choice; entries: None where logprobs are not asked for."""
        ...

    def choice(self, choice: Choice, entries: Sequence[Entry] | None) -> dict[str, Any]:
        """A whole choice."""
        ...


class ChatForm:
    """/v1/chat/completions."""

    whole, chunk, prefix = "chat.completion", "chat.completion.chunk", "chatcmpl-"

    def begin(self) -> dict[str, Any] | None:
        """The role."""
        return {"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}

    def part(self, delta: Delta, entries: Sequence[Entry] | None) -> dict[str, Any]:
        """Text, reasoning and tool calls that are new."""
        new: dict[str, Any] = {"content": delta.content} if delta.content else {}
        if delta.reasoning:
            new["reasoning_content"] = delta.reasoning
        if delta.tool_calls:
            new["tool_calls"] = [{"index": at, **_call(call)} for at, call in enumerate(delta.tool_calls)]
        return {"delta": new, "logprobs": _chat_logprobs(entries), "finish_reason": delta.finish}

    def choice(self, choice: Choice, entries: Sequence[Entry] | None) -> dict[str, Any]:
        """The message."""
        content = None if choice.tool_calls and not choice.content else choice.content
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if choice.reasoning:
            message["reasoning_content"] = choice.reasoning
        if choice.tool_calls:
            message["tool_calls"] = [_call(call) for call in choice.tool_calls]
        return {"message": message, "logprobs": _chat_logprobs(entries), "finish_reason": choice.finish}


class TextForm:
    """/v1/completions."""

    whole, chunk, prefix = "text_completion", "text_completion", "cmpl-"

    def begin(self) -> dict[str, Any] | None:
        """Nothing."""
        return None

    def part(self, delta: Delta, entries: Sequence[Entry] | None) -> dict[str, Any]:
        """Text that is new."""
        return {"text": delta.content, "logprobs": _text_logprobs(entries), "finish_reason": delta.finish}

    def choice(self, choice: Choice, entries: Sequence[Entry] | None) -> dict[str, Any]:
        """The text."""
        return {"text": choice.content, "logprobs": _text_logprobs(entries), "finish_reason": choice.finish}


@dataclass(frozen=True)
class Envelope:
    """What every part of one answer repeats."""

    form: Form
    model: str
    id: str
    created: int  # seconds since 1970

    @classmethod
    def new(cls, form: Form, model: str) -> "Envelope":
        """A new answer."""
        return cls(form, model, form.prefix + secrets.token_hex(12), int(time.time()))

    def around(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """An object of OpenAI's with these choices."""
        return {
            "id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices, **more
        }  # fmt: skip


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Counts of tokens; those that end an answer count."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": function}


def _chat_logprobs(entries: Sequence[Entry] | None) -> dict[str, Any] | None:
    if entries is None:
        return None
    content = [
        {"token": entry.text, "logprob": entry.logprob, "bytes": list(entry.bytes), "top_logprobs": []}
        for entry in entries
    ]
    return {"content": content, "refusal": None}


def _text_logprobs(entries: Sequence[Entry] | None) -> dict[str, Any] | None:
    if entries is None:
        return None
    return {
        "tokens": [entry.text for entry in entries],
        "token_logprobs": [entry.logprob for entry in entries],
        "top_logprobs": None,
        "text_offset": [entry.offset for entry in entries],
    }
