"""What a family hands over: an instance, and the words around its numbers."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

DIFFICULTIES = (1, 2, 3)


class DataError(ValueError):
    """A problem, document or file of documents that is not what it should be."""


@dataclass(frozen=True)
class Problem:
    """One instance. `data` holds plain JSON types only and decides the optimum; `words` decide only how it reads.

    data: index sets as lists of names; numbers as a scalar, `{name: number}` or `{name: {name: number}}`.
    """

    family: str
    seed: int
    difficulty: int  # one of DIFFICULTIES
    data: dict[str, Any]
    words: dict[str, str]


@dataclass(frozen=True)
class IndexSet:
    """An index set of an instance: its key in `data` and what its members are called."""

    key: str
    singular: str
    plural: str


@dataclass(frozen=True)
class Field:
    """The numbers below one key of `data`: the index sets they run over (none, one or two), meaning and unit."""

    key: str
    index: tuple[str, ...]
    title: str
    unit: str

    @property
    def heading(self) -> str:
        """Title with unit, as written in tables."""
        return f"{self.title} ({self.unit})"


@dataclass(frozen=True)
class Story:
    """The words of one problem, from which each of the three renderings takes what it needs.

    Only `facts` hold numbers: every number of the instance once, and no other.
    """

    setting: str
    facts: tuple[str, ...]
    rules: tuple[str, ...]
    domains: str  # which decisions are continuous, whole or yes-or-no
    question: str
    sets: tuple[IndexSet, ...]
    fields: tuple[Field, ...]


def generator(family: str, seed: int, difficulty: int, purpose: str = "data") -> random.Random:
    """The random generator of one instance. Raises DataError for a negative seed or an unknown difficulty."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise DataError(f"seed {seed!r}; accepted: whole numbers from 0")
    if difficulty not in DIFFICULTIES:
        raise DataError(f"difficulty {difficulty!r}; accepted: {', '.join(map(str, DIFFICULTIES))}")
    return random.Random(f"{family}/{purpose}/{seed}/{difficulty}")


def nice(value: float) -> int | float:
    """The number as JSON should hold it: whole numbers as int, others rounded to 6 decimals."""
    rounded = round(float(value), 6)
    return int(rounded) if rounded.is_integer() else rounded


def listing(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def sentence(text: str) -> str:
    """The text with its first letter raised."""
    return text[:1].upper() + text[1:]
