"""Fenced blocks of a text, and the data files among them: a line that names the file, then its content in a fence.

Line by line, so that time grows with the text's length only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

NAME = r"[\w][\w./-]*\.(?:json|jsonl|csv|tsv|txt|dat|xlsx?|ya?ml|xml|npy|parquet|pkl)\b"
NAMED = re.compile(rf"(?<![\w./-])(?P<name>{NAME})")
FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<rest>[^`]*)")


@dataclass(frozen=True)
class Block:
    """Lines first to last of a text, its fences among them; `heading` is the line that may name it, -1 for none."""

    heading: int
    first: int
    last: int


def split(text: str) -> tuple[str, dict[str, str]]:
    """The text without the files that stand in it, and the files: name -> content.

    Of two blocks under one name the first is the file, and both are taken out of the text.
    """
    lines = text.split("\n")
    files: dict[str, str] = {}
    dropped: set[int] = set()
    for block in blocks(lines):
        named = NAMED.search(lines[block.heading]) if block.heading >= 0 else None
        if named:
            files.setdefault(named["name"], "".join(f"{line}\n" for line in lines[block.first + 1 : block.last]))
            dropped.update(range(block.heading, block.last + 1))
    return "\n".join(line for k, line in enumerate(lines) if k not in dropped), files


def outside(text: str) -> str:
    """The text without its fenced blocks."""
    lines = text.split("\n")
    dropped = {k for block in blocks(lines) for k in range(block.first, block.last + 1)}
    return "\n".join(line for k, line in enumerate(lines) if k not in dropped)


def blocks(lines: list[str]) -> Iterator[Block]:
    """The fenced blocks of a text; a fence that nothing closes is none."""
    marks = [FENCE.fullmatch(line) for line in lines]
    unclosed = {"`": 1 << 30, "~": 1 << 30}  # lengths from which no later fence closes one
    heading, k = -1, 0
    while k < len(lines):
        mark = marks[k]
        last = _closing(marks, k, mark["mark"]) if mark and len(mark["mark"]) < unclosed[mark["mark"][0]] else -1
        if mark and last >= 0:
            yield Block(heading, k, last)
            heading, k = -1, last
        elif mark:
            unclosed[mark["mark"][0]] = min(unclosed[mark["mark"][0]], len(mark["mark"]))
        elif lines[k].strip():
            heading = k
        k += 1


def _closing(marks: list[re.Match[str] | None], first: int, opened: str) -> int:
    """The line that closes a fence, -1 where none does."""
    for k in range(first + 1, len(marks)):
        mark = marks[k]
        if mark and not mark["rest"].strip() and mark["mark"][0] == opened[0] and len(mark["mark"]) >= len(opened):
            return k
    return -1
