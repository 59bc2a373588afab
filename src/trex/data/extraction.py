"""The program in a model's answer, whatever it is wrapped in. The text is data: it is parsed, never run.

Blocks are what stands in <python> tags and in fences of backticks or tildes, of any language tag. Of these the last
complete program wins: it parses, imports a modelling library and solves, with the names that it solves with defined.
A program in several blocks is joined with the fewest blocks before it that define all it uses, but never over a block
that is complete by itself, so that remarks on how to use a program do not replace it. Blocks in tags are tried before
fences; what stands in <think> tags only where the rest holds no program.
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from trex.data.python_facts import Budget, Facts, facts

LARGEST = 1 << 24  # characters of an answer
MOST_BLOCKS = 2_000  # the last ones count
MOST_JOINED = 8  # blocks of one program
MOST_TRIMMED = 8  # lines that are cut off an unclosed block, one syntax error at a time
PYTHON = frozenset({"python", "python3", "py", "py3", "python2", "ipython", "ipython3", "gurobi", "gurobipy", "pyomo"})
THINK = re.compile(r"<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE)
TAG = re.compile(r"<(/?)(?:python3?|py)>", re.IGNORECASE)
FENCE = re.compile(r"(`{3,}|~{3,})")
LANGUAGE = re.compile(r"[\s{.]*([A-Za-z][\w+#-]*)")


@dataclass(frozen=True)
class Program:
    """Python source with where it was found; without one `code` is "" and `how` says why."""

    code: str
    how: str


@dataclass(frozen=True)
class _Block:
    code: str
    language: str  # in lower case, "" where none is named
    how: str
    closed: bool = True


@lru_cache(maxsize=8)  # several gates ask for that of one answer
def program(text: str) -> Program:
    """The program of an answer.

    Without a complete one: the last Python block that parses, then any that is called Python or imports a modelling
    library, so that its error is seen where it is run. Time grows with the text's length only.
    """
    if len(text) > LARGEST:
        return Program("", f"the answer has {len(text):,} characters; accepted: up to {LARGEST:,}")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        return Program("", "the answer is empty")
    answer, reasoning = _split_reasoning(text)
    budget = Budget()
    for part, where in ((answer, ""), (reasoning, " in the reasoning")):
        found = _best(part, budget)
        if found:
            return Program(found.code, found.how + where)
    if not answer.strip():
        return Program("", "the answer holds reasoning only, without a program")
    if budget.spent:
        return Program("", f"none of the first {Budget.limit:,} characters of code is a Python program")
    return Program("", "the answer holds no Python program")


def _split_reasoning(text: str) -> tuple[str, str]:
    """What is outside and inside of the reasoning. A first closing tag without opening one ends reasoning too."""
    outside: list[str] = []
    inside: list[str] = []
    depth = place = 0
    for number, tag in enumerate(THINK.finditer(text)):
        between, closing = text[place : tag.start()], bool(tag[1])
        if depth or (closing and number == 0):
            inside.append(between)
        else:
            outside.append(between)
        depth = max(depth - 1, 0) if closing else 1
        place = tag.end()
    (inside if depth else outside).append(text[place:])
    return "\n".join(outside), "\n".join(inside)


def _best(text: str, budget: Budget) -> Program | None:
    """The program of one part of an answer."""
    tagged, fenced = _tagged(text), _fenced(text)
    groups = [[(block, facts(block.code, budget)) for block in reversed(group)][::-1] for group in (tagged, fenced)]
    for group in groups:
        if found := _complete(group, budget):
            return found
    named = any(block.language in PYTHON for block in (*tagged, *fenced))
    bare = None if named else _bare(text, budget)
    return bare or next((found for group in groups if (found := _fallback(group))), None)


def _tagged(text: str) -> list[_Block]:
    """Blocks in <python> tags; an unclosed one ends at the next tag, or the text's end. Fences inside are opened."""
    blocks = []
    tags = list(TAG.finditer(text))[-MOST_BLOCKS:]
    for k, tag in enumerate(tags):
        if tag[1]:
            continue
        last = k + 1 == len(tags)
        content = text[tag.end() : len(text) if last else tags[k + 1].start()]
        inner = _fenced(content)
        closed = not last and bool(tags[k + 1][1])
        blocks += [_Block(block.code, "python", "tag", block.closed) for block in inner] or [
            _Block(_clean(content), "python", "tag" if closed else "unclosed tag", closed)
        ]
    return [block for block in blocks if block.code.strip("`~ \t\n")]


def _fenced(text: str) -> list[_Block]:
    """Blocks between fences. A fence with a language ends the block before it; one may stand behind other text."""
    found: list[tuple[str, str, bool]] = []  # text, language, whether closed
    lines: list[str] = []
    opened, language = "", ""

    def close(closed: bool) -> None:
        found.append(("\n".join(lines), language, closed))
        lines.clear()

    for line in text.split("\n"):
        if "```" not in line and "~~~" not in line:
            if opened:
                lines.append(line)
            continue
        marks = list(FENCE.finditer(line))
        if not opened:
            info = _info(line[marks[0].end() :], line[: marks[0].start()]) if len(marks) == 1 else None
            if info is not None:
                opened, language = marks[0][0], info
            continue
        mark = marks[0] if len(marks) == 1 else None
        before, after = (line[: mark.start()], line[mark.end() :]) if mark else (line, "")
        if mark is None or mark[0][0] != opened[0]:
            lines.append(line)
        elif not before.strip(" \t>") and after.strip() and _info(after):
            close(False)
            opened, language = mark[0], _info(after) or ""
        elif not after.strip() and len(mark[0]) >= len(opened) and _ends(before):
            lines.append(before)
            close(True)
            opened = ""
        else:
            lines.append(line)
    if opened:
        close(False)
    return [
        _Block(_clean(code), language, "fence" if closed else "unclosed fence", closed)
        for code, language, closed in [block for block in found if block[0].strip()][-MOST_BLOCKS:]
    ]


def _info(after: str, before: str = "") -> str | None:
    """The language behind an opening fence, "" for none; None where the line is no such thing.

    Behind other text on its line a fence has at most one word after it.
    """
    if not after.strip():
        return ""
    match = LANGUAGE.match(after) if len(after) < 80 else None
    if match is None or (before.strip(" \t>") and after[match.end() :].strip(" \t}")):
        return None
    return match[1].lower()


def _ends(before: str) -> bool:
    """Whether a fence behind this text on its line closes a block: not within a comment or a string."""
    return not before.strip() or ("#" not in before and before.count('"') % 2 == before.count("'") % 2 == 0)


def _clean(code: str) -> str:
    """Code without common indentation and blank lines around it, ending in a line break."""
    if not code.strip():
        return ""
    lines = code.split("\n")
    if all(line.lstrip().startswith(">") for line in lines if line.strip()):  # a quotation
        lines = [line.lstrip()[1:] for line in lines]
    return textwrap.dedent("\n".join(lines)).strip("\n").rstrip() + "\n"


Known = Sequence[tuple[_Block, Facts | None]]


def _complete(blocks: Known, budget: Budget) -> Program | None:
    """The last complete program of these blocks, of one block or joined."""
    for k in range(len(blocks) - 1, -1, -1):
        block, found = blocks[k]
        if found is None and not block.closed:
            block, found = _trimmed(block, budget)
        if found is None or not found.solves:
            continue
        if found.complete and not found.undefined:
            later = _called_later(blocks, k, budget) if found.dormant else None
            return later or Program(block.code, block.how)
        if joined := _joined(blocks, k, block, budget):
            return joined
        if found.complete:
            return Program(block.code, block.how)
    return None


def _joined(blocks: Known, last: int, block: _Block, budget: Budget) -> Program | None:
    """Block `last` behind the fewest blocks before it that make it complete, none of which solves a model by itself."""
    code = block.code
    count = 1
    for before, found in reversed(blocks[max(0, last - MOST_JOINED + 1) : last]):
        if found is None:
            continue
        if found.complete and not found.undefined and not found.dormant:
            return None
        code, count = f"{before.code}\n{code}", count + 1
        whole = facts(code, budget)
        if whole and whole.complete and not whole.undefined:
            return Program(code, f"{count} blocks joined")
    return None


def _called_later(blocks: Known, first: int, budget: Budget) -> Program | None:
    """A block whose functions solve but are not called, with a later block that calls one of them."""
    block, own = blocks[first]
    for after, found in blocks[first + 1 :]:
        if own and found and found.undefined and found.undefined <= own.bound and found.undefined & own.functions:
            code = f"{block.code}\n{after.code}"
            whole = facts(code, budget)
            if whole and whole.complete and not whole.undefined:
                return Program(code, "2 blocks joined")
    return None


def _trimmed(block: _Block, budget: Budget) -> tuple[_Block, Facts | None]:
    """An unclosed block without the prose behind its program; unchanged where what is left does not solve."""
    lines = block.code.split("\n")
    for _ in range(MOST_TRIMMED):
        error = budget.error_line("\n".join(lines))
        if not error or error > len(lines):
            break
        lines = lines[: error - 1]
        code = _clean("\n".join(lines))
        found = facts(code, budget)
        if found:
            good = found.complete and not found.undefined
            return (_Block(code, block.language, f"{block.how}, cut", False), found) if good else (block, None)
    return block, None


def _bare(text: str, budget: Budget) -> Program | None:
    """A program that stands in the text without any wrapping, from the first import on."""
    lines = text.split("\n")
    for k, line in enumerate(lines):
        if re.match(r"[ \t]*(?:import|from)[ \t]+[A-Za-z_]", line):
            block = _Block(_clean("\n".join(lines[k:])), "python", "plain text", False)
            found = facts(block.code, budget)
            if found is None:
                block, found = _trimmed(block, budget)
            if found and found.library:
                return Program(block.code, block.how if found.complete else f"{block.how}, incomplete")
            if found is not None or budget.spent:
                return None
    return None


def _fallback(blocks: Known) -> Program | None:
    """Where nothing is complete: what most looks like the program, so that it fails, or not, where it is run."""
    python = [(block, found) for block, found in blocks if block.language in PYTHON]
    unnamed = [(block, found) for block, found in blocks if not block.language and found and found.statements]
    for candidates in (
        [pair for pair in blocks if pair[1] and pair[1].library],
        [pair for pair in python if pair[1] and not pair[1].undefined],
        [pair for pair in python if _mentions(pair[0].code)],
        [pair for pair in python if pair[1]],
        python,
        unnamed,
        [pair for pair in blocks if not pair[0].language and _mentions(pair[0].code)],
    ):
        if candidates:
            block = candidates[-1][0]
            return Program(block.code, f"{block.how}, incomplete")
    return None


def _mentions(code: str) -> bool:
    return (
        re.search(r"^[ \t]*(?:import|from)[ \t]+(?:pyomo|gurobipy|highspy|scipy|pulp)\b", code, re.MULTILINE)
        is not None
    )
