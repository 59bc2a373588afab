"""The intermediate representation of a problem: what an author writes from and what a gate holds an answer to.

It is plain JSON with a validated schema, so that any author may propose one: a model that is asked, or the embedded.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from trex.data.problem import DataError

STRICT = ConfigDict(extra="forbid")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST = 2_000_000  # characters of one in JSON
Domain = Literal["continuous", "integer", "binary", "free"]


@with_config(STRICT)
@dataclass(frozen=True)
class Members:
    """An index set: its key in the data, what its members are, its symbol and a member's letter in formulas."""

    name: str
    meaning: str
    symbol: str = ""
    letter: str = ""


@with_config(STRICT)
@dataclass(frozen=True)
class Parameter:
    """A key of the data over none, one or two index sets, with its unit."""

    name: str
    index: tuple[str, ...]  # names of index sets
    meaning: str
    unit: str = ""
    symbol: str = ""


@with_config(STRICT)
@dataclass(frozen=True)
class Decision:
    """One family of variables; a program's variables carry its name. Only `free` ones may be negative."""

    name: str
    domain: Domain
    meaning: str
    symbol: str = ""


@with_config(STRICT)
@dataclass(frozen=True)
class Rule:
    """A term of the objective, or a family of constraints that a program's rows carry the name of."""

    name: str
    formula: str  # LaTeX
    over: str = ""  # what it holds for
    meaning: str = ""


@with_config(STRICT)
@dataclass(frozen=True)
class Change:
    """What was changed of a family: a clause left out, one added, a term of the objective weighted or left out.

    kind: drop | require | forbid | exclude | imply | cap | weigh. target: the clause, variables or term.
    members: of the variables that an added clause names, one list for each. value: the number that it needs.
    """

    kind: Literal["drop", "require", "forbid", "exclude", "imply", "cap", "weigh"]
    target: str
    members: tuple[tuple[str, ...], ...] = ()
    value: int | float | None = None


@with_config(STRICT)
@dataclass(frozen=True)
class Origin:
    """The instance of a family that a representation was made from, for the embedded author's own."""

    family: str
    seed: int
    difficulty: int
    changes: tuple[Change, ...] = ()
    domain: str = ""  # "" where the seed alone decides it


@with_config(STRICT)
@dataclass(frozen=True)
class Representation:
    """A problem before it is told: sets, parameters, decisions, objective, constraints and data.

    data: for each index set the list of its members; for each parameter a value, or {member: value}, or two levels
    (members and pairs may be missing); a value is a number, a member's name or a list of them. Raises DataError where
    the parts do not fit together.
    """

    title: str
    structure: str  # the kind of problem, such as `knapsack`
    domain: str  # the business that it is set in
    sets: tuple[Members, ...]
    parameters: tuple[Parameter, ...]
    decisions: tuple[Decision, ...]
    sense: Literal["minimize", "maximize"]
    objective: tuple[Rule, ...]
    constraints: tuple[Rule, ...]
    data: dict[str, Any]
    unit: str = ""  # of the objective
    asides: tuple[str, ...] = ()  # sentences of the text, to be written as they are, that do not matter
    origin: Origin | None = field(default=None)

    def __post_init__(self) -> None:
        """Check what the types do not say."""
        _named(self)
        if not self.decisions or not self.objective or not self.constraints:
            raise DataError(
                f"{self.title!r:.60} has {len(self.decisions)} decisions, {len(self.objective)} terms and "
                f"{len(self.constraints)} constraints; accepted: one or more of each"
            )
        sets = {part.name: _members(self.data, part.name) for part in self.sets}
        for part in self.parameters:
            if part.name not in self.data:
                raise DataError(f"the data have no {part.name!r}; accepted: a key for each parameter and index set")
            _values(self.data[part.name], part, sets)
        if unknown := sorted(set(self.data) - set(sets) - {part.name for part in self.parameters}):
            raise DataError(f"the data have {unknown[0]!r}, which is no index set and no parameter")
        try:
            self.line.encode()
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise DataError(
                f"representation: half a character, {half!r}; accepted: texts that UTF-8 can hold"
            ) from None

    @property
    def line(self) -> str:
        """It as JSON on one line."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def of(cls, value: Any) -> "Representation":
        """From JSON text or what JSON held. Raises DataError that names the first part that is not of the schema."""
        try:
            if isinstance(value, str):
                if len(value) > LONGEST:
                    raise DataError(f"a representation of {len(value):,} characters; accepted: up to {LONGEST:,}")
                value = json.loads(value)
            return _adapter(Representation).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "it"
            shown = "" if first["type"] == "missing" else f": {first['input']!r:.80}"
            raise DataError(f"representation, {place}: {first['msg']}{shown}") from None
        except RecursionError:
            raise DataError("a representation that is nested too deep") from None
        except ValueError as error:
            raise error if isinstance(error, DataError) else DataError(f"representation: no JSON: {error}") from None

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """The JSON schema, as an author that is asked for a representation is shown it."""
        return _adapter(Representation).json_schema()


def as_origin(value: Any) -> Origin:
    """An origin from what JSON held of it. Raises DataError for what is none."""
    try:
        return _adapter(Origin).validate_python(value)
    except ValidationError as error:
        raise DataError(f"an origin: {error.errors(include_url=False)[0]['msg']}") from None


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def numbers_of(value: Any) -> Iterator[float]:
    """Every number of data."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from numbers_of(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def _named(whole: Representation) -> None:
    """Names are such as a program can use, and each stands for one thing only."""
    data = [*(s.name for s in whole.sets), *(p.name for p in whole.parameters)]
    model = [*(d.name for d in whole.decisions), *(r.name for r in (*whole.objective, *whole.constraints))]
    for group in (data, model):
        for name in group:
            if not NAME.fullmatch(name):
                raise DataError(f"name {name!r:.60}; accepted: letters, digits and _, not beginning with a digit")
            if group.count(name) > 1:
                raise DataError(f"name {name!r} stands for two things")


def _members(data: dict[str, Any], name: str) -> set[str]:
    found = data.get(name)
    if not isinstance(found, list) or not found or not all(isinstance(member, str) and member for member in found):
        raise DataError(f"members of {name}: {found!r:.80}; accepted: a list of names")
    if len(set(found)) < len(found):
        raise DataError(f"members of {name}: {next(m for m in found if found.count(m) > 1)!r:.60} is there twice")
    return set(found)


def _values(value: Any, part: Parameter, sets: dict[str, set[str]]) -> None:
    """A value for the members of the index sets; of two sets, pairs may be missing."""
    if len(part.index) > 2:
        raise DataError(f"{part.name} runs over {len(part.index)} index sets; accepted: up to 2")
    for depth, name in enumerate(part.index):
        if name not in sets:
            raise DataError(f"{part.name} runs over {name!r}; accepted: {', '.join(sets) or 'no index set is there'}")
        levels = [value] if depth == 0 else list(value.values())
        for level in levels:
            if not isinstance(level, dict) or not set(level) <= sets[name]:
                raise DataError(f"{part.name}: {level!r:.80}; accepted: an object with members of {name}")
    leaves = [value]
    for _ in part.index:
        leaves = [item for level in leaves for item in level.values()]
    for leaf in leaves:
        names = leaf if isinstance(leaf, list) else [leaf]
        try:
            accepted = all(isinstance(name, str) or _is_finite(name) for name in names)
        except OverflowError as error:
            raise DataError(f"{part.name}: {error} (OverflowError); accepted: numbers that a float can hold") from None
        if not accepted:
            raise DataError(f"{part.name}: {leaf!r:.80}; accepted: a finite number, a member's name or a list of them")


def _is_finite(value: Any) -> bool:
    """Whether it is a number, and finite. Raises OverflowError for one that no float can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
