"""Buckets: what kinds of dialogues are wanted, and how many of each.

The T-Rex report names four task categories and lists them nowhere; those here are ours.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from trex.data import families
from trex.data.families import names
from trex.data.plan import chosen
from trex.data.problem import DIFFICULTIES, DataError
from trex.data.rendering import MODES

FORMULATE, IMPLEMENT, BOTH, REPAIR = "formulate", "implement", "formulate-and-implement", "find-and-repair"
TASKS = (FORMULATE, IMPLEMENT, BOTH, REPAIR)
CODE, CLEAN_COT, EXPLAINED = "code-only", "clean-cot", "explained"
STYLES = (CODE, CLEAN_COT, EXPLAINED)
MOST = 1_000_000  # dialogues of a run


@dataclass(frozen=True)
class Bucket:
    """One kind of dialogue.

    mode: how the data are given. structure: the kind of problem. task: what is asked. style: how it is answered.
    """

    mode: str  # one of MODES
    structure: str
    difficulty: int  # one of DIFFICULTIES
    task: str  # one of TASKS
    style: str  # one of STYLES
    domain: str = ""  # the business that the problem is set in; "" for any

    def __post_init__(self) -> None:
        """Raise DataError for a value that there is none of, and for code alone where a model is asked for."""
        for name, value, accepted in (
            ("mode", self.mode, MODES), ("difficulty", self.difficulty, DIFFICULTIES),
            ("task", self.task, TASKS), ("style", self.style, STYLES),
        ):  # fmt: skip
            if value not in accepted:
                raise DataError(f"{name} {value!r:.60}; accepted: {', '.join(map(str, accepted))}")
        if not answerable(self.task, self.style):
            raise DataError(f"task {self.task} in style {self.style}: a model in words is no program")


def answerable(task: str, style: str) -> bool:
    """Whether a task can be answered in a style: a formulation is no code."""
    return not (task == FORMULATE and style == CODE)


def domains_of(structure: str, named: Sequence[str]) -> tuple[str, ...]:
    """The domains that problems of a structure are to be set in: of those named, a family's own; any ("") for none."""
    if not named or structure not in names():
        return tuple(named) or ("",)
    return tuple(domain for domain in families.get(structure).domains if domain in named)


def every_domain(structures: Sequence[str] = ()) -> tuple[str, ...]:
    """The domains of families, of all where none is named."""
    return tuple(sorted({domain for name in structures or names() for domain in families.get(name).domains}))


@dataclass(frozen=True)
class Wanted:
    """How many dialogues of which kinds: every combination as often as every other, up to one.

    Raises DataError for a count out of range and for names that there are none of.
    """

    count: int
    seed: int
    structures: tuple[str, ...]
    modes: tuple[str, ...]
    difficulties: tuple[int, ...]
    tasks: tuple[str, ...]
    styles: tuple[str, ...]
    domains: tuple[str, ...] = ()  # any where none is named

    @classmethod
    def of(
        cls, count: int, seed: int = 0, structures: Sequence[str] | None = None, modes: Sequence[str] | None = None,
        difficulties: Sequence[int] | None = None, tasks: Sequence[str] | None = None,
        styles: Sequence[str] | None = None, known: Sequence[str] | None = None, domains: Sequence[str] = (),
    ) -> Self:  # fmt: skip
        """What is named; all that there are where nothing is named. known: structures, those of the families.

        Families that have no problem in one of the domains are left out.
        """
        if not 1 <= count <= MOST:
            raise DataError(f"count {count}; accepted: from 1 to {MOST:,}")
        if seed < 0:
            raise DataError(f"seed {seed}; accepted: whole numbers from 0")
        named = chosen("structure", structures, names() if known is None else known)
        if set(named) <= set(names()) and (unknown := sorted(set(domains) - set(every_domain(named)))):
            raise DataError(f"domain {unknown[0]!r:.60}; accepted: {', '.join(every_domain(named))}")
        set_in = tuple(name for name in named if not domains or domains_of(name, domains))
        wanted = cls(
            count, seed, set_in, chosen("mode", modes, MODES), chosen("difficulty", difficulties, DIFFICULTIES),
            chosen("task", tasks, TASKS), chosen("style", styles, STYLES), tuple(dict.fromkeys(domains)),
        )  # fmt: skip
        if not wanted.answers:
            raise DataError("no task that is named can be answered in a style that is named: formulate in code-only")
        return wanted

    @property
    def answers(self) -> list[tuple[str, str]]:
        """Pairs of task and style."""
        return [(task, style) for task in self.tasks for style in self.styles if answerable(task, style)]

    def bucket(self, k: int) -> Bucket:
        """The bucket of dialogue k: structures take turns, and within each every other combination in an own order.

        Domains take turns within a structure.
        """
        turn, place = divmod(k, len(self.structures))
        structure = self.structures[place]
        combinations = len(self.modes) * len(self.difficulties) * len(self.answers)
        set_in = domains_of(structure, self.domains)
        domain = set_in[turn % len(set_in)]
        again, turn = divmod(turn, combinations)
        order = list(range(combinations))
        random.Random(f"buckets/{structure}/{self.seed}/{again}").shuffle(order)
        rest, mode = divmod(order[turn], len(self.modes))
        rest, level = divmod(rest, len(self.difficulties))
        task, style = self.answers[rest]
        return Bucket(self.modes[mode], structure, self.difficulties[level], task, style, domain)

    def quotas(self) -> dict[Bucket, int]:
        """How many dialogues each bucket has."""
        found: dict[Bucket, int] = {}
        for k in range(self.count):
            bucket = self.bucket(k)
            found[bucket] = found.get(bucket, 0) + 1
        return found
