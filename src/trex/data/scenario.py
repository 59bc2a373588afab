"""Scenarios: the business that a problem is told in, with its words and the names of its things."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trex.data.problem import DataError, IndexSet, Instance


@dataclass(frozen=True)
class Names:
    """Where the names of an index set come from.

    pool: words to draw from, without spaces. code: a letter for codes such as C07, used where there is no pool or too
    few words. In order: a run of consecutive words from the pool (months), or from its first word on (weekdays).
    """

    pool: tuple[str, ...] = ()
    code: str = "N"
    order: str = "any"  # any | cyclic | first

    def draw(self, rng: random.Random, count: int, taken: set[str]) -> list[str]:
        """So many names, none of them taken."""
        free = [name for name in self.pool if name not in taken]
        if count <= len(free):
            if self.order == "any":
                return rng.sample(free, count)
            start = rng.randrange(len(free)) if self.order == "cyclic" else 0
            return [free[(start + k) % len(free)] for k in range(count)]
        first = 1 if self.order != "any" else rng.randint(1, 40)
        width = len(str(first + count - 1))
        return [f"{self.code}{number:0{max(2, width)}d}" for number in range(first, first + count)]


def words(text: str, code: str = "N") -> Names:
    """Names from the words of a text."""
    return Names(tuple(text.split()), code)


def code(letter: str) -> Names:
    """Codes: a letter with a number of two or more digits."""
    return Names(code=letter)


PLACES = words(
    "Aachen Aarhus Basel Bergen Bilbao Bologna Bordeaux Bremen Bruges Brno Cardiff Cologne Cordoba Cork Dijon "
    "Dresden Dundee Eindhoven Essen Faro Freiburg Galway Geneva Genoa Ghent Graz Grenoble Haarlem Hamburg "
    "Innsbruck Kassel Kiel Krakow Lausanne Leeds Leipzig Liege Lille Linz Lisbon Ljubljana Lublin Lucerne Lyon "
    "Malaga Malmo Metz Milan Modena Munich Namur Nantes Odense Oulu Padua Parma Pisa Porto Poznan Rennes Riga "
    "Rouen Salzburg Seville Siena Split Stavanger Tampere Tartu Tilburg Toledo Toulouse Trento Trieste Turin "
    "Turku Uppsala Utrecht Verona Vienna Vilnius York Zagreb Zurich",
    "L",
)
PEOPLE = words(
    "Ada Aiko Amir Anja Bela Bruno Carla Chen Dario Dina Elif Emil Esra Farid Femi Greta Hana Hugo Ines Ivan Jana "
    "Jonas Kaya Kofi Lena Luca Maja Malik Mira Nadia Nils Noor Olga Omar Petra Rafa Rosa Sami Selma Sven Tara "
    "Timo Uma Vera Wim Yara Yusuf Zoe",
    "P",
)
MONTHS = Names(
    tuple("January February March April May June July August September October November December".split()),  # noqa: SIM905
    "M",
    "cyclic",
)
WEEKDAYS = Names(tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()), "D", "first")  # noqa: SIM905
WEEKS, DAYS, HOURS, SHIFTS = (Names(code=letter, order="first") for letter in "WDHS")


@dataclass(frozen=True)
class Scenario:
    """A business domain, the words that the family's templates name, and where each index set's names come from."""

    domain: str
    words: Mapping[str, str]
    names: Mapping[str, Names] = field(default_factory=dict)  # index set -> names; codes by its letter where missing


def dress(instance: Instance, sets: Sequence[IndexSet], scenario: Scenario, rng: random.Random) -> Instance:
    """The instance with names in place of its labels. Raises DataError for a label that is in no index set."""
    names: dict[str, str] = {}
    for index_set in sets:
        labels = instance[index_set.key]
        source = scenario.names.get(index_set.key) or code(index_set.letter[0].upper())
        names |= dict(zip(labels, source.draw(rng, len(labels), set(names.values())), strict=True))

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {(names.get(key) or _plain(key)): named(item) for key, item in value.items()}
        if isinstance(value, list):
            return [named(item) for item in value]
        return (names.get(value) or _plain(value)) if isinstance(value, str) else value

    return {key: named(value) for key, value in instance.items()}


def _plain(key: str) -> str:
    if ":" in key:
        raise DataError(f"label {key!r} is in no index set")
    return key
