"""Gates that run nothing: the messages' schema, the layout of a style, and the export."""

import ast
import json
import math
import re
import unicodedata
from collections.abc import Iterator

from trex.data.audit.facts import parse
from trex.data.chat import encode
from trex.data.extraction import program
from trex.data.flywheel.bucket import CLEAN_COT, CODE, EXPLAINED, FORMULATE, REPAIR
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.embedded import NAME as EMBEDDED
from trex.data.flywheel.writing import (
    ANSWER,
    ASKED,
    CHECKLIST,
    FAULT,
    MODEL,
    PROGRAM,
    SYSTEM,
    fenced,
    model_text,
    question,
    reply,
)
from trex.data.gates import Refused
from trex.data.problem import DataError
from trex.data.rendering import DATA_FILE

LONGEST = 200_000  # characters of a dialogue's messages
FENCE = re.compile(r"^```\w*\n.*?^```$", re.MULTILINE | re.DOTALL)
TOLD_TO_MODELS = re.compile(
    r"\b(?:ignore|disregard|forget)\s+(?:all\s+|any\s+|the\s+|your\s+)*(?:previous|prior|above|earlier)\s+instructions\b"
    r"|\bsystem prompt\b|\bas an AI\b",
    re.IGNORECASE,
)
NAMED = re.compile(r"[\w.:-]{1,100}")  # an id
LONGEST_NAME = 200  # characters of parent and lineage, which may be anyone's ids


def schema(row: Dialogue) -> str:
    """System, user and assistant take turns; the problem is in the question; the answer has its style's layout."""
    roles = [message.role for message in row.messages]
    if roles != ["system", "user", "assistant"]:
        raise Refused("schema", f"roles {roles}; accepted: system, user, assistant")
    for text in (*(message.content for message in row.messages), row.problem, *row.files.values()):
        if odd := next((letter for letter in text if _is_odd(letter)), ""):
            raise Refused("schema", f"a text has the character U+{ord(odd):04X}, which nobody writes or sees")
        if found := TOLD_TO_MODELS.search(text):
            raise Refused("schema", f"a text speaks to a model, or of one: {found[0]!r}")
    if empty := [message.role for message in row.messages if not message.content.strip()]:
        raise Refused("schema", f"the message of the {empty[0]} is empty")
    for reason in _descent(row):
        raise Refused("schema", reason)
    if not math.isfinite(row.optimum):
        raise Refused("schema", f"the optimum is {row.optimum!r}")
    if not row.problem.strip() or row.problem not in row.asked:
        raise Refused("schema", "the user's message does not hold the problem")
    if row.messages[0].content != SYSTEM:
        raise Refused("schema", f"the system's message is {row.messages[0].content!r:.80}")
    if list(row.files) != ([DATA_FILE] if row.bucket.mode == "DPS" else []):
        raise Refused("schema", f"mode {row.bucket.mode} with the files {sorted(row.files)}")
    told = row.representation
    if told.structure != row.bucket.structure or row.bucket.domain not in ("", told.domain):
        raise Refused("schema", f"{told.structure} in {told.domain!r:.60} is not of its bucket")
    origin = told.origin
    if (origin is None) == (row.author == EMBEDDED):
        raise Refused("schema", f"a dialogue of {row.author!r:.60} {'without' if origin is None else 'with'} an origin")
    if origin is not None and (origin.family, origin.difficulty) != (row.bucket.structure, row.bucket.difficulty):
        raise Refused("schema", f"{origin.family} of difficulty {origin.difficulty} is not of its bucket")
    for reason in (*_layout(row), *_asks(row)):
        raise Refused("schema", reason)
    return f"{len(roles)} messages, {row.bucket.task} in style {row.bucket.style}"


def _descent(row: Dialogue) -> Iterator[str]:
    """A row has a name of its own, an author, and comes of another row or of a seed."""
    for name in ("lineage", "parent", "author"):
        value = getattr(row, name)
        if not value.strip() or len(value) > LONGEST_NAME or any(map(_is_odd, value)) or "\n" in value:
            yield f"the {name} is {value!r:.80}; accepted: a line of up to {LONGEST_NAME} characters"
    if not NAMED.fullmatch(row.id):
        yield f"the id is {row.id!r:.80}; accepted: {NAMED.pattern}"
    if row.id in (row.parent, row.lineage) or row.generation < 1:
        yield f"{row.id!r} of generation {row.generation} comes of {row.parent!r:.60} and {row.lineage!r:.60}"


def _is_odd(letter: str) -> bool:
    """Whether a character is a control, half of one, or one that shows only in how others are set."""
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn") and letter not in "\n\t"


def _layout(row: Dialogue) -> Iterator[str]:
    answer, task, style = row.answer, row.bucket.task, row.bucket.style
    fences = FENCE.findall(answer)
    if style == CODE and (len(fences) != 1 or fences[0].strip() != answer.strip()):
        yield "an answer in code alone is one fenced program and nothing else"
    if task == FORMULATE and program(answer).code:
        yield "a formulation is asked for, and the answer holds a program"
    if task == FORMULATE and "$" not in answer:
        yield "a formulation is asked for, and the answer holds no formula"
    if style == CLEAN_COT and answer.removeprefix(FAULT).count(CHECKLIST) != 1:
        yield f"a Clean-CoT answer has one {CHECKLIST!r}"
    if style == EXPLAINED and answer.count(MODEL) != 1:
        yield f"an explained answer has one part {MODEL!r}"
    if task == REPAIR and (not row.wrong or fenced(row.wrong) not in row.asked):
        yield "a program is to be repaired, and the user's message does not hold it"
    if task == REPAIR and style != CODE and not re.match(rf"{re.escape(FAULT)} \S", answer):
        yield f"a repaired program comes with its {FAULT!r}"
    if len(fences) != (task != FORMULATE):
        yield f"the answer has {len(fences)} programs"
    if _parts(row).strip() != answer.strip():
        yield f"the answer has other parts than one in style {style} has"


def _asks(row: Dialogue) -> Iterator[str]:
    """The user's message is the problem, what is given with it, and one of the requests for the row's task."""
    task, given = row.bucket.task, (row.problem, model_text(row.representation), row.wrong)
    if row.asked not in {question(task, turn, *given) for turn in range(len(ASKED[task]))}:
        last = row.asked.rpartition("\n")[2]
        yield f"what is asked is {last!r:.80}; accepted: the problem, then a request to {task} in a line"
    if row.wrong and task != REPAIR:
        yield f"a program that is to be repaired in a dialogue to {task}"


def _parts(row: Dialogue) -> str:
    """The answer as it is laid out from its parts: one that has others, or others' order, comes out different."""
    answer, task = row.answer, row.bucket.task
    fault = answer.partition("\n")[0].removeprefix(f"{FAULT} ") if task == REPAIR else ""
    model = answer.partition(f"{MODEL}\n\n")[2].partition(f"\n\n{PROGRAM}\n")[0]
    result = answer.partition(f"\n\n{ANSWER}\n\n")[2]
    checklist = answer.partition(f"{CHECKLIST}\n")[2].partition("\n\n")[0].split("\n")
    return reply(task, row.bucket.style, model, program(answer).code, result, checklist, fault)


def code(row: Dialogue) -> str:
    """The answer's program is the one that is judged, it parses, and it uses what it defines."""
    if row.bucket.task != FORMULATE and program(row.answer).code.strip() != row.program.strip():
        raise Refused("code", "the program of the answer is not the one that the row records")
    tree, syntax = parse(row.program)
    if tree is None:
        raise Refused("code", f"the program does not parse: {syntax}")
    if unused := _unused(tree):
        raise Refused("code", f"the program defines {unused[0]!r} and never uses it")
    return f"{len(row.program.splitlines())} lines"


def _unused(tree: ast.Module) -> list[str]:
    """Functions that nothing of the program names; a decorator such as `@m.Constraint` may use the one below it."""
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return [name for name in defined if name not in named]


def export(row: Dialogue) -> str:
    """The messages survive JSON and the chat format, and are not longer than what is accepted."""
    size = sum(len(message.content) for message in row.messages)
    if size > LONGEST:
        raise Refused("export", f"messages of {size:,} characters; accepted: up to {LONGEST:,}")
    messages = [{"role": message.role, "content": message.content} for message in row.messages]
    try:
        line = json.dumps(messages, ensure_ascii=False)
        line.encode()
        pieces = encode(messages)
    except (DataError, UnicodeEncodeError) as error:
        raise Refused("export", str(error)) from None
    trained = "".join(piece.text for piece in pieces if piece.trained and not piece.special)
    if json.loads(line) != messages or trained != "".join(m["content"] for m in messages if m["role"] == "assistant"):
        raise Refused("export", "the messages do not come back as they were")
    return f"{size:,} characters"
