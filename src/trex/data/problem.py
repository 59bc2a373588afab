"""What an instance is: plain data over index sets, and the parts that every family describes it with."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DIFFICULTIES = (1, 2, 3, 4)
NUMBER, LABEL, LABELS = "number", "label", "labels"
Instance = dict[str, Any]  # plain JSON: index sets as lists of labels; fields as a value, {label: value} or two levels
Sizes = Mapping[int, Mapping[str, tuple[int, int]]]  # difficulty -> index set -> least and largest number of members


class DataError(ValueError):
    """A problem, document or file of documents that is not what it should be."""


@dataclass(frozen=True)
class IndexSet:
    """An index set: its key in the data, what its members are called, and its symbols.

    singular, plural: templates over the scenario's words. symbol: of the set; letter: of a member, in formulas.
    """

    key: str
    singular: str
    plural: str
    letter: str
    symbol: str


@dataclass(frozen=True)
class Field:
    """What one key of the data holds for the members of the index sets that it runs over (none, one or two).

    title, unit and phrases are templates over the scenario's words; in phrases `{0}` and `{1}` are the members and
    `{value}` is the value. A phrase is a sentence without its full stop where there is no index, a clause for one
    member where there is one (`{0} holds {value} crates`), and where there are two a pair: the head of a sentence on a
    member of the first set, and what follows for each of the second
    (`Moving a crate from {0} costs`, `{value} euros to {1}`).

    kind: NUMBER; LABEL, a member of an index set; LABELS, a list of such members.
    """

    key: str
    index: tuple[str, ...]
    title: str
    unit: str
    symbol: str
    phrases: tuple[str | tuple[str, str], ...]
    kind: str = NUMBER


@dataclass(frozen=True)
class Problem:
    """One instance with the words around it. `data` alone decides the optimum; the rest decides only how it reads."""

    family: str
    seed: int
    difficulty: int  # one of DIFFICULTIES
    data: Instance
    domain: str  # the business that the scenario is set in
    words: dict[str, str]


def generator(family: str, seed: int, difficulty: int, purpose: str = "data") -> random.Random:
    """The random generator of one instance. Raises DataError for a negative seed or an unknown difficulty."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise DataError(f"seed {seed!r}; accepted: whole numbers from 0")
    if difficulty not in DIFFICULTIES or isinstance(difficulty, bool):
        raise DataError(f"difficulty {difficulty!r}; accepted: {', '.join(map(str, DIFFICULTIES))}")
    return random.Random(f"{family}/{purpose}/{seed}/{difficulty}")


def draw_sets(rng: random.Random, sizes: Mapping[str, tuple[int, int]]) -> dict[str, list[str]]:
    """Index sets of drawn sizes with the labels that the scenario's names take the place of: `sources:1`, …"""
    return {key: members(key, rng.randint(*bounds)) for key, bounds in sizes.items()}


def members(key: str, count: int) -> list[str]:
    """The labels of an index set before it gets names."""
    return [f"{key}:{number}" for number in range(1, count + 1)]


def nice(value: float) -> int | float:
    """The number as JSON should hold it: whole numbers as int, others rounded to 6 decimals."""
    rounded = round(float(value), 6)
    return int(rounded) if rounded.is_integer() else rounded


def data_numbers(data: Any) -> Iterator[float]:
    """Every number of an instance."""
    if isinstance(data, dict):
        for value in data.values():
            yield from data_numbers(value)
    elif isinstance(data, int | float):
        yield float(data)


def listing(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def sentence(text: str) -> str:
    """The text with its first letter raised."""
    return text[:1].upper() + text[1:]
