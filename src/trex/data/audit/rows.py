"""Rows of a JSONL file in any of the usual shapes: problem and answer, chat messages, ShareGPT, benchmark rows.

A row that is none of these is kept with what is wrong with it, so that every line of the file has its verdict.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trex.data.audit import attached
from trex.data.problem import DataError

PROBLEMS = ("problem", "question", "en_question")
ANSWERS = ("answer", "en_answer")
ASKED, ANSWERED = frozenset({"user", "human"}), frozenset({"assistant", "gpt"})
OTHERS = frozenset({"system", "developer", "tool"})
SHAPES = '{"problem", "answer"}, {"messages"}, {"conversations"}, {"en_question", "en_answer"}'
NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:[eE][-+]?\d+)?")
LONGEST = 2**26  # bytes of a line


@dataclass(frozen=True)
class Row:
    """One line: what is asked, what is answered, the optimum where the row names one, and the problem's data files."""

    number: int  # of the line, from 1; blank lines count
    id: str
    problem: str = ""
    answer: str = ""
    label: str | None = None  # as written: its digits say how it was rounded
    files: Mapping[str, str] = field(default_factory=dict)  # name -> content
    fault: str = ""  # why it is no row


def check(path: Path) -> None:
    """Raise DataError where a file cannot be read, or none of its lines is a JSON object."""
    try:
        with path.open("rb") as stream:
            if any(isinstance(_value(line)[0], dict) for line in stream if line.strip()):
                return
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; accepted: a JSONL file, one row per line") from None
    raise DataError(f"{path}: none of its lines is a JSON object; accepted: JSONL, a row per line as one of {SHAPES}")


def read(path: Path) -> Iterator[Row]:
    """The rows of a file in order; a blank line is none. A line that is no row comes with its `fault`."""
    seen: dict[str, int] = {}
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                row = parse(line, number)
                if row.id in seen and not row.fault:
                    row = Row(number, row.id, fault=f"its id {row.id!r:.80} is that of line {seen[row.id]} too")
                seen.setdefault(row.id, number)
                yield row


def parse(line: bytes, number: int) -> Row:
    """The row that a line holds. Never raises: what is wrong is the row's `fault`."""
    value, fault = _value(line)
    if fault:
        return Row(number, f"line {number}", fault=fault)
    if not isinstance(value, dict):
        return Row(number, f"line {number}", fault=f"a JSON {type(value).__name__}; accepted: an object as {SHAPES}")
    given = value.get("id")
    name = _plain(str(given)) if isinstance(given, str | int) and str(given).strip() else f"line {number}"
    try:
        problem, answer, label = _parts(value)
        files = _files(value, problem)
    except DataError as error:
        return Row(number, name, fault=str(error))
    return Row(number, name, problem, answer, label, files)


def _value(line: bytes) -> tuple[Any, str]:
    """The JSON value of a line, or why it has none."""
    if len(line) > LONGEST:
        return None, f"a line of {len(line):,} bytes; accepted: up to {LONGEST:,}"
    try:
        return json.loads(line.decode("utf-8-sig")), ""
    except UnicodeDecodeError as error:
        return None, f"byte {error.start} is not UTF-8"
    except json.JSONDecodeError as error:
        return None, f"no JSON: {error.msg} at character {error.pos}"
    except (ValueError, RecursionError) as error:
        return None, f"no JSON that can be read: {error}"


def _parts(row: dict[str, Any]) -> tuple[str, str, str | None]:
    """Problem, answer and label. Raises DataError for what is missing or of another type."""
    problem: Any
    answer: Any
    for key in ("messages", "conversations"):
        if key in row:
            problem, answer = _turns(row[key], key)
            break
    else:
        asked = [key for key in PROBLEMS if key in row]
        if not asked:
            raise DataError(f"its keys are {', '.join(map(str, list(row)[:8])) or 'none'}; accepted: {SHAPES}")
        problem, answer = row[asked[0]], next((row[key] for key in ANSWERS if key in row), None)
    if not isinstance(problem, str) or not problem.strip():
        raise DataError(f"its problem is {problem!r:.60}; accepted: a text")
    label = number_text(row["label"], "label") if row.get("label") is not None else None
    if isinstance(answer, int | float) or (isinstance(answer, str) and _is_number(answer)):
        return _plain(problem), "", label or number_text(answer, "answer")
    if not isinstance(answer, str) or not answer.strip():
        raise DataError(f"its answer is {answer!r:.60}; accepted: a text with a program, or a number")
    return _plain(problem), _plain(answer), label


def _turns(turns: Any, key: str) -> tuple[str, str]:
    """What was asked before the last answer, and that answer. Raises DataError for turns that are none."""
    role, text = ("role", "content") if key == "messages" else ("from", "value")
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise DataError(f'its {key} are {turns!r:.60}; accepted: a list of {{"{role}", "{text}"}}')
    told = [(turn.get(role), _text(turn.get(text))) for turn in turns]
    for place, (who, said) in enumerate(told):
        if not isinstance(who, str) or who not in ASKED | ANSWERED | OTHERS or said is None:
            raise DataError(
                f"{key}[{place}] is {turns[place]!r:.60}; accepted: {role} of user or human, assistant or gpt, "
                f"system, and a text as {text}"
            )
    answers = [k for k, (who, _) in enumerate(told) if who in ANSWERED]
    if not answers:
        raise DataError(f"none of its {len(told)} {key} is an answer")
    asked = [said for who, said in told[: answers[-1]] if who in ASKED and said]
    return "\n\n".join(asked), told[answers[-1]][1] or ""


def _text(content: Any) -> str | None:
    """A message's text, also where it comes in parts; None for what is no text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in content):
        return "\n".join(part["text"] for part in content)
    return None


def _files(row: dict[str, Any], problem: str) -> dict[str, str]:
    """The files of a row: those in its text, and its own `files`, which come first. Raises DataError for others."""
    own = row.get("files") or {}
    if isinstance(own, str):  # as JSON, where all rows of a set are to have the same type
        own = _value(own.encode("utf-8", "surrogatepass"))[0]
    if not isinstance(own, dict) or not all(isinstance(content, str) for content in own.values()):
        raise DataError(f"its files are {own!r:.60}; accepted: an object of texts by name")
    return {**attached.split(problem)[1], **{_plain(name): _plain(content) for name, content in own.items()}}


def number_text(value: Any, what: str) -> str:
    """A number as it was written. Raises DataError for what is none, or not finite."""
    text = repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not _is_number(text) or not math.isfinite(float(text.replace(",", ""))):
        raise DataError(f"its {what} is {value!r:.60}; accepted: a finite number")
    return text.strip().replace(",", "")


def _is_number(text: str) -> bool:
    return len(text) < 400 and bool(NUMBER.fullmatch(text.strip())) and any(map(str.isdigit, text))


def _plain(text: str) -> str:
    """A text with plain line breaks, and without halves of characters, which no file takes."""
    return text.replace("\r\n", "\n").encode(errors="replace").decode()
