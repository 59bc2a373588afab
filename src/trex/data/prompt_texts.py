"""The sentences that DeepSeek-V4's chat format adds to a prompt, read as data from the release's Python file.

The file is parsed, and three strings are taken from it; nothing of it is run or imported.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from string import Formatter
from typing import Self

from trex.data.chat_format import TOKEN_FIELDS
from trex.data.problem import DataError

PLACE = "encoding/encoding_dsv4.py"  # in the release's folder, and in a conversion of it
LARGEST = 1_000_000  # bytes; the release's file has some 30 thousand
NAMES = {"max_effort": "REASONING_EFFORT_MAX", "tools": "TOOLS_TEMPLATE", "response_format": "response_format_template"}


@dataclass(frozen=True)
class PromptTexts:
    """Text for the most reasoning, as it is; templates in `str.format`'s notation for tools and a response's format.

    tools: has {tool_schemas} and may have the fields of TOKEN_FIELDS. response_format: has {schema}. Raises DataError
    for a template with other fields, or without its own.
    """

    max_effort: str
    tools: str
    response_format: str

    def __post_init__(self) -> None:
        """Check the templates."""
        _check("tools", self.tools, "tool_schemas", tuple(TOKEN_FIELDS))
        _check("response_format", self.response_format, "schema", ())

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """Take the texts from the release's `encoding_dsv4.py`. Raises DataError for a file that does not have them."""
        try:
            with Path(path).open("rb") as file:
                source = file.read(LARGEST + 1)
        except OSError as error:
            raise DataError(f"{path}: {error}") from None
        if len(source) > LARGEST:
            raise DataError(f"{path} has more than {LARGEST} bytes; accepted: up to that")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise DataError(f"{path} is not Python: {error}") from None
        try:
            return cls(**{field: _constant(tree, name) for field, name in NAMES.items()})
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


def parts(template: str) -> Iterator[tuple[str, str | None]]:
    """Text and the field behind it, None where there is none. Raises DataError for what is more than a field's name."""
    try:
        found = list(Formatter().parse(template))
    except ValueError as error:
        raise DataError(f"no template: {error}") from None
    for text, field, form, conversion in found:
        if form or conversion:
            raise DataError(f"field {field!r} with {form or conversion!r}; accepted: a name alone")
        yield text, field


def _check(name: str, template: str, needed: str, others: tuple[str, ...]) -> None:
    try:
        fields = {field for _, field in parts(template) if field is not None}
    except DataError as error:
        raise DataError(f"{NAMES[name]}: {error}") from None
    for field in sorted(fields - {needed, *others}):
        raise DataError(f"{NAMES[name]} has the field {field!r}; accepted: {', '.join((needed, *others))}")
    if needed not in fields:
        raise DataError(f"{NAMES[name]} has no field {needed!r}")


def _constant(tree: ast.Module, name: str) -> str:
    """The string that a module gives a name. Raises DataError unless it does so once, and written out."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    stored = [node for node in names if isinstance(node.ctx, ast.Store)]
    if not stored:
        raise DataError(f"no {name}; accepted: an assignment of a string to it")
    for statement in tree.body if len(stored) == 1 else ():
        if isinstance(statement, ast.Assign):
            targets: list[ast.expr] = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        value = statement.value
        if stored[0] in targets and isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    raise DataError(f"{name} is computed, nested or assigned twice; accepted: one assignment of a string in the module")
