"""A program's source by the places of its syntax tree, so that an edit leaves all else as it is written."""

import ast
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from trex.data.flywheel.dialogue import Dialogue, Message
from trex.data.problem import DataError

COMPONENTS = ("Var", "Expression", "Objective", "Constraint")
LITERAL = "data"  # the name that a program holds its data under


@dataclass(frozen=True)
class Component:
    """One statement `m.<name> = pyo.<kind>(…)`."""

    name: str
    kind: str  # one of COMPONENTS
    statement: ast.Assign
    call: ast.Call

    def keyword(self, *names: str) -> ast.keyword | None:
        """The first argument that is given by one of these names."""
        return next((part for part in self.call.keywords if part.arg in names), None)


@dataclass(frozen=True)
class Source:
    """A program. What needs its tree raises DataError for one that does not parse."""

    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            shown = f"{self.text[:80]!r} ({error})"
            raise DataError(f"a program that does not parse: {shown}; accepted: Python source") from None

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """Variables, terms, objectives and constraints in the order of the source."""
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                call = node.value
                if isinstance(call, ast.Call) and called(call) in COMPONENTS:
                    found.append(Component(node.targets[0].attr, called(call), node, call))
        return tuple(sorted(found, key=lambda part: part.statement.lineno))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node above each node."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def literal(self) -> ast.Dict | None:
        """The data that the program holds, None where it holds none."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                target = node.targets[0]
                if isinstance(target, ast.Name) and target.id == LITERAL:
                    return node.value
        return None

    @property
    def data(self) -> dict[str, Any]:
        """The data that the program holds; empty where it holds none that is plain."""
        try:
            return ast.literal_eval(self.literal) if self.literal is not None else {}
        except ValueError:
            return {}

    def of(self, *kinds: str) -> list[Component]:
        """Components of these kinds."""
        return [part for part in self.components if part.kind in kinds]

    def span(self, node: Any) -> tuple[int, int]:
        """Where a node begins and ends in the text, in characters."""
        return self._place(node.lineno, node.col_offset), self._place(node.end_lineno, node.end_col_offset)

    def cut(self, node: Any) -> str:
        """A node's text."""
        start, end = self.span(node)
        return self.text[start:end]

    def put(self, *edits: tuple[Any, str]) -> str:
        """The text with nodes, or (start, end) in characters, replaced."""
        places = [(place if isinstance(place, tuple) else self.span(place), new) for place, new in edits]
        text = self.text
        for (start, end), new in sorted(places, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def lines(self, node: Any) -> tuple[int, int]:
        """The whole lines of a statement, in characters."""
        return self._starts[node.lineno - 1], (
            self._starts[node.end_lineno] if node.end_lineno < len(self._starts) else len(self.text)
        )

    def operator(self, left: ast.AST, right: ast.AST, symbols: tuple[str, ...]) -> tuple[int, int] | None:
        """Where the one operator between two nodes stands."""
        start, end = self.span(left)[1], self.span(right)[0]
        between = self.text[start:end]
        found = [(symbol, between.find(symbol)) for symbol in symbols if between.count(symbol) == 1]
        return (start + found[0][1], start + found[0][1] + len(found[0][0])) if len(found) == 1 else None

    def above(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Pairs of a node and the one above it, up to the module."""
        while node in self.parents:
            yield node, self.parents[node]
            node = self.parents[node]

    def is_index(self, node: ast.AST) -> bool:
        """Whether a node is part of an index, a condition or what a loop runs over, and so is no term of the model."""
        for child, parent in self.above(node):
            if (
                (isinstance(parent, ast.Subscript) and child is parent.slice)
                or (isinstance(parent, ast.comprehension) and child is not parent.target)
                or (isinstance(parent, ast.IfExp) and child is parent.test)
                or (isinstance(parent, ast.Call) and called(parent) == "Constraint" and child in parent.args)
            ):
                return True
        return False

    def depth(self, node: ast.Subscript) -> tuple[str, int]:
        """Key and number of indices of `data[key][i]…`; ("", 0) for what is none."""
        count, base = 0, node.value
        key: ast.AST = node.slice
        while isinstance(base, ast.Subscript):
            count, key, base = count + 1, base.slice, base.value
        if isinstance(base, ast.Name) and base.id == LITERAL and isinstance(key, ast.Constant):
            return str(key.value), count
        return "", 0

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    def _place(self, line: int, column: int) -> int:
        start = self._starts[line - 1]
        text = self.text[start : self._starts[line]]
        return start + len(text.encode()[:column].decode())


def called(call: ast.Call) -> str:
    """The last part of what is called: `Var` of `pyo.Var(…)`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def with_answer(row: Dialogue, answer: str) -> Dialogue:
    """The row with another last message of the assistant."""
    last = max(k for k, message in enumerate(row.messages) if message.role == "assistant")
    messages = list(row.messages)
    messages[last] = Message("assistant", answer)
    return replace(row, messages=tuple(messages))


def with_program(row: Dialogue, program: str) -> Dialogue:
    """The row with another program: in its answer too, and in what its cleaner was given."""
    old, new = row.program.rstrip(), program.rstrip()
    changed = replace(with_answer(row, row.answer.replace(old, new)), program=program)
    if row.cleaning is None:
        return changed
    return replace(changed, cleaning=replace(row.cleaning, before=row.cleaning.before.replace(old, new)))


def with_problem(row: Dialogue, problem: str) -> Dialogue:
    """The row with another text of the problem, in the user's message too."""
    messages = tuple(
        Message(m.role, m.content.replace(row.problem, problem)) if m.role == "user" else m for m in row.messages
    )
    return replace(row, problem=problem, messages=messages)


def shows_program(row: Dialogue) -> bool:
    """Whether the answer holds the program: what only formulates does not."""
    return bool(row.program.strip()) and row.program.rstrip() in row.answer


def domains(row: Dialogue) -> Mapping[str, str]:
    """Domain of each family of variables."""
    return {part.name: part.domain for part in row.representation.decisions}
