"""Tokens of one answer to its text: UTF-8 put together, stop strings cut out, reasoning and tool calls told apart."""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trex.data.chat_answer import Answer, ChatError, ToolCall, parse
from trex.data.chat_format import CALLS, DSML, END_THINK
from trex.data.vocabulary import END, AnyTokenizer
from trex.model.generate import Token


@dataclass(frozen=True)
class Delta:
    """What one token adds to an answer."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str | None = None  # stop, length or tool_calls, at the answer's last token


@dataclass(frozen=True)
class Entry:
    """One generated token by itself."""

    text: str
    bytes: bytes
    logprob: float
    offset: int  # characters of the answer's tokens before it


class Writer:
    """Takes the tokens of one answer, in order, until `finish` is set."""

    def __init__(
        self, tokenizer: AnyTokenizer, stop: Sequence[str] = (), thinking: bool = False, tools: bool = False
    ) -> None:
        """stop: strings that end the answer and are not part of it. tools: tool calls are looked for."""
        self.finish: str | None = None
        self.count = 0  # tokens taken
        self._tokenizer, self._stop, self._tools = tokenizer, tuple(stop), tools
        self._names = {i: name for name, i in tokenizer.special.items()}
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._part = "reasoning" if thinking else "content"  # then "calls"
        self._held = ""  # text that may yet be cut
        self._characters = 0

    def add(self, token: Token) -> tuple[Delta, Entry]:
        """What a token adds, and the token by itself. Special tokens leave no text."""
        name = self._names.get(token.id)
        raw = self._bytes(token.id)
        entry = Entry(raw.decode(errors="replace"), raw, token.logprob, self._characters)
        self.count += 1
        delta = self._text(raw) if name is None else self._special(name)
        if self.finish is None and token.finish is not None:
            delta = self._add(delta, self._end(token.finish))
        return replace(delta, finish=self.finish), entry

    def _bytes(self, token: int) -> bytes:
        """A model may have more ids than its tokenizer: those that it lacks are the replacement character."""
        return self._tokenizer.to_bytes(token) if token < self._tokenizer.vocab_size else "\ufffd".encode()

    def _text(self, raw: bytes, last: bool = False) -> Delta:
        new = self._decoder.decode(raw, last)
        self._characters += len(new)
        return self._feed(new)

    def _special(self, name: str) -> Delta:
        delta = self._text(b"", last=True)  # no character goes on behind a special token
        if self.finish is not None:
            return delta
        if name == END_THINK and self._part == "reasoning":
            delta = self._add(delta, self._release(len(self._held)))
            self._part = "content"
        elif name == DSML and self._tools and self._part != "reasoning":
            delta = self._add(delta, self._feed(DSML))
        return delta

    def _feed(self, text: str) -> Delta:
        """Take text; let go of what no stop string and no tool call can begin in any more."""
        self._held += text
        if self._part == "calls":
            return Delta()
        needles = (*self._stop, CALLS) if self._tools and self._part == "content" else self._stop
        found = [(at + len(needle), at, needle) for needle in needles if (at := self._held.find(needle)) >= 0]
        if not found:
            return self._release(len(self._held) - max((_overlap(self._held, needle) for needle in needles), default=0))
        _, at, needle = min(found)  # which ends first does not depend on how the text is cut into tokens
        delta = self._release(at)
        if needle in self._stop:
            self.finish, self._held = "stop", ""
        else:
            self._part = "calls"
        return delta

    def _release(self, length: int) -> Delta:
        text, self._held = self._held[:length], self._held[length:]
        return Delta(reasoning=text) if self._part == "reasoning" else Delta(content=text)

    def _end(self, finish: str) -> Delta:
        """What is left at the last token. Tool calls that cannot be read, or are cut off, are content."""
        delta = self._text(b"", last=True)
        if self.finish is not None:
            return delta
        self.finish = finish
        if self._part == "calls" and finish == "stop":
            try:
                answer = parse(self._held + END)
            except ChatError:
                answer = Answer(self._held)
            if answer.tool_calls:
                self.finish = "tool_calls"
                return self._add(delta, Delta(tool_calls=answer.tool_calls))
        return self._add(delta, self._release(len(self._held)))

    @staticmethod
    def _add(first: Delta, then: Delta) -> Delta:
        return Delta(first.content + then.content, first.reasoning + then.reasoning, first.tool_calls + then.tool_calls)


def _overlap(text: str, needle: str) -> int:
    """Length of the longest end of `text` that `needle` begins with, without being it."""
    return next((size for size in range(min(len(needle) - 1, len(text)), 0, -1) if text.endswith(needle[:size])), 0)
