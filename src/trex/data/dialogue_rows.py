"""Dialogues as rows for fine-tuning: the loss is on what the assistant writes, and on nothing else."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trex.data.chat import encode, tokenize
from trex.data.problem import DataError
from trex.data.tokens import Rows, pack
from trex.data.vocabulary import AnyTokenizer

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Packed:
    """Rows of dialogues, and how many were left out because a row cannot hold them: cut off, an answer has no end."""

    rows: Rows
    left_out: int


def packed(dialogues: Iterable[Messages], tokenizer: AnyTokenizer, seq_len: int) -> Packed:
    """Lay dialogues out in rows of `seq_len` positions, each whole and seeing itself alone.

    Targets are the tokens that the assistant writes, the end of its turn among them. Raises DataError (ChatError for
    messages that the chat format has no place for) where none fits, and where a dialogue has no answer.
    """
    chosen: list[tuple[list[int], list[bool]]] = []
    left_out = 0
    for number, messages in enumerate(dialogues):
        ids, trained = tokenize(encode(messages), tokenizer)
        if not any(trained):
            raise DataError(f"dialogue {number} has no message of the assistant; accepted: one or more")
        if len(ids) - 1 > seq_len:
            left_out += 1
        else:
            chosen.append((ids, trained))
    if not chosen:
        raise DataError(f"{left_out} dialogues, none of which a row of {seq_len} positions can hold")
    return Packed(pack((ids for ids, _ in chosen), seq_len, [trained for _, trained in chosen]), left_out)


def texts(messages: Messages) -> Iterator[str]:
    """The texts of a dialogue as a tokenizer sees them, to fit one to."""
    return (piece.text for piece in encode(messages) if not piece.special)


def holds_dialogues(path: Path) -> bool:
    """Whether the first line of a file that is not blank is a dialogue's."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        first = next((line for line in stream if line.strip()), b"")
    try:
        body = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and "messages" in body


def read_dialogues(path: Path) -> list[Messages]:
    """The dialogues of a JSONL file with `messages` per line, as `trex data dialogues --format openai` writes them.

    Raises DataError that names the first bad line.
    """
    found: list[Messages] = []
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    found.append(_messages(line, f"{path}, line {number}"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    if not found:
        raise DataError(f"{path} holds no line")
    return found


def _messages(line: bytes, where: str) -> Messages:
    try:
        body = json.loads(line)
        messages = body.get("messages") if isinstance(body, dict) else None
        if not isinstance(messages, list):
            raise DataError(f'{line[:60].decode(errors="replace")!r}; accepted: {{"messages": […]}}')
        encode(messages)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: {error}") from None
    return messages
