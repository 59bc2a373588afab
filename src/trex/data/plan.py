"""Which document has which family, mode, difficulty and seed: decided by its number and attempt alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from trex.data.families import names
from trex.data.problem import DIFFICULTIES, DataError
from trex.data.rendering import MODES

MOST = 10_000_000  # documents of a plan
ATTEMPTS = 100  # instances that are drawn for a document until one passes
SEED_STRIDE = MOST * ATTEMPTS  # so that no two documents, of whatever seeds and attempts, share an instance's seed
FLYWHEEL = 900_000  # seeds of plans from here to HELD_OUT are those of dialogues
HELD_OUT = 1_000_000  # seeds of plans from here on are for evaluation; documents for training have smaller ones


@dataclass(frozen=True)
class Item:
    """What one document is made from."""

    family: str
    mode: str
    seed: int  # of the instance
    difficulty: int


@dataclass(frozen=True)
class Plan:
    """`count` documents over all combinations of families, modes and difficulties, each equally often."""

    count: int
    seed: int
    families: tuple[str, ...]
    modes: tuple[str, ...]
    difficulties: tuple[int, ...]

    @classmethod
    def of(
        cls,
        count: int,
        seed: int = 0,
        families: Sequence[str] | None = None,
        modes: Sequence[str] | None = None,
        difficulty: int | Sequence[int] | None = None,
    ) -> Self:
        """A plan over what is named; all that exist where nothing is named.

        Raises DataError for an unknown or repeated family, mode or difficulty, and for a count or seed out of range.
        """
        if not 1 <= count <= MOST:
            raise DataError(f"count {count}; accepted: from 1 to {MOST:,}")
        if seed < 0:
            raise DataError(f"seed {seed}; accepted: whole numbers from 0")
        levels = (difficulty,) if isinstance(difficulty, int) else difficulty
        return cls(
            count,
            seed,
            chosen("family", families, names()),
            chosen("mode", modes, MODES),
            chosen("difficulty", levels, DIFFICULTIES),
        )

    def item(self, k: int, attempt: int = 0) -> Item:
        """Document k: the family changes with each, mode and difficulty from round to round of all families.

        Families begin with different modes and difficulties, so that a short plan already has all of them.
        """
        turn, family = divmod(k, len(self.families))
        turns, mode = divmod(turn + family, len(self.modes))
        difficulty = self.difficulties[turns % len(self.difficulties)]
        seed = self.seed * SEED_STRIDE + attempt * MOST + k
        return Item(self.families[family], self.modes[mode], seed, difficulty)


def chosen(what: str, given: Sequence | None, known: Sequence) -> tuple:
    """The given names, each checked; all known ones for None."""
    chosen = tuple(known if given is None else (given,) if isinstance(given, str) else given)
    for item in chosen:
        if item not in known or chosen.count(item) > 1:
            raise DataError(f"{what} {item!r}; accepted, each once: {', '.join(map(str, known))}")
    if not chosen:
        raise DataError(f"no {what} is named; accepted: {', '.join(map(str, known))}")
    return chosen
