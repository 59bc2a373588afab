"""How facts, rules and numbers are put into words: grammars that a problem's seed chooses from."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trex.data.family import Family
from trex.data.problem import LABEL, LABELS, NUMBER, DataError, Field, Problem, generator, listing, sentence

NUMERAL = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)")
CAPTION = re.compile(r"^Table \d+:", re.MULTILINE)
IRREGULAR = {"people": "person", "shelves": "shelf", "gases": "gas", "buses": "bus"}
MANY = ("million", "thousand", "hundred", "ten")  # before a unit, which stays a plural
_PLURAL = re.compile(rf"[a-z-]*[a-z](?<![sui])(?<!ga)(?<!work)(?<!serie)s|{'|'.join(IRREGULAR)}")
_SIBILANT = re.compile(r"(?:ss|x|ch|sh)es$")
NONE = "none"  # an empty list of members
_ARTICLE = re.compile(r"\b(a)n? \{(\w+)\}", re.IGNORECASE)
_VOWEL_SOUND = re.compile(r"(?!uni|us[aeiu]|util|eu|one\b)[aeiou]|hour|hono|heir", re.IGNORECASE)
# what has nothing to do with the question; each holds numbers of its own
DISTRACTORS: tuple[tuple[str, tuple[int, int]], ...] = (
    ("The business was founded in {}.", (1890, 2015)),
    ("About {} people work there.", (12, 900)),
    ("Last year's plan was drawn up by hand and took {} days.", (2, 30)),
    ("A consultant who looked at the question before had been paid for {} hours.", (11, 120)),
    ("The manager in charge has been in the post for {} years.", (2, 25)),
    ("The report is due in {} weeks and will be read by the board.", (2, 12)),
    ("An earlier version of the spreadsheet had {} columns, most of them empty.", (13, 60)),
    ("The office has moved to a building with {} floors.", (2, 20)),
    ("The newsletter that will announce the plan goes to {} subscribers.", (150, 9500)),
    ("A survey of last spring, which {} customers answered, plays no part here.", (60, 4000)),
    ("Lunch for the planning meeting was ordered for {} guests.", (4, 40)),
    ("The previous software licence ran out {} months ago.", (2, 30)),
)


@dataclass(frozen=True)
class Style:
    """How the numbers of one text are written."""

    grouped: bool  # 12,500 rather than 12500

    def number(self, value: float) -> str:
        """The number in digits, exactly."""
        return f"{value:,}" if self.grouped else str(value)


@dataclass(frozen=True)
class Telling:
    """The sentences of one problem, from which each representation takes what it needs.

    Only facts and distractors hold numbers: facts every number of the data once, distractors those of `others`.
    """

    setting: str
    facts: tuple[str, ...]
    rules: tuple[str, ...]
    integrality: str
    question: str
    distractors: tuple[str, ...]
    others: tuple[float, ...]
    style: Style


def tell(family: Family, problem: Problem) -> Telling:
    """The sentences of a problem, each chosen among its alternatives by the problem's seed."""
    rng = generator(problem.family, problem.seed, problem.difficulty, "wording")
    words = problem.words
    style = Style(rng.random() < 0.5)

    def one(alternatives: Sequence[str]) -> str:
        return sentence(filled(rng.choice(alternatives), words))

    fields = list(family.fields)
    rng.shuffle(fields)
    contract = family.contract
    says = [*(term.says for term in contract.objective), *(clause.says for clause in contract.constraints)]
    rules = [one(alternatives) for alternatives in says if alternatives]
    rng.shuffle(rules)
    chosen = rng.sample(DISTRACTORS, rng.choice((0, 0, 1, 2)))
    others = [rng.randint(*bounds) for _, bounds in chosen]
    return Telling(
        setting=one(family.settings),
        facts=tuple(fact for field in fields for fact in _facts(family, field, problem, style, rng)),
        rules=tuple(rules),
        integrality=one(contract.integrality),
        question=one(family.questions),
        distractors=tuple(text.format(other) for (text, _), other in zip(chosen, others, strict=True)),
        others=tuple(map(float, others)),
        style=style,
    )


def filled(template: str, words: Mapping[str, str], *members: str, value: str = "") -> str:
    """A template with the scenario's words, members and value. Raises DataError for a word that is not there.

    An article before a word of the scenario is the one that the word asks for.
    """

    def article(match: re.Match[str]) -> str:
        n = "n" if _VOWEL_SOUND.match(words.get(match[2], "")) else ""
        return f"{match[1]}{n} {{{match[2]}}}"

    try:
        text = _ARTICLE.sub(article, template).format(*members, **{**words, "value": value})
    except (KeyError, IndexError) as error:
        raise DataError(f"template {template!r} asks for {error}; accepted: {', '.join(words)}") from None
    return _counted(text, words) if value == "1" else text


def _counted(text: str, words: Mapping[str, str]) -> str:
    """A text in which the scenario's plurals behind a 1 are singular."""
    plurals = sorted((word for word in set(words.values()) if singular(word) != word), key=len, reverse=True)
    for plural in plurals:
        text = re.sub(rf"\b1 {re.escape(plural)}\b", f"1 {singular(plural)}", text)
    return text


def singular(words: str) -> str:
    """`minutes` -> `minute`, `boxes per day` -> `box per day`; what is no plural, and millions, stay."""
    first, per, rest = words.partition(" per ")
    start, _, noun = first.rpartition(" ")
    if first.split(" ")[0] in MANY or not _PLURAL.fullmatch(noun):
        return words
    noun = IRREGULAR.get(noun) or (
        f"{noun[:-3]}y" if noun.endswith("ies") else noun[: -2 if _SIBILANT.search(noun) else -1]
    )
    return f"{start} {noun}".strip() + per + rest


def numbers(text: str) -> list[float]:
    """Every number of a text, in order; digits inside words such as item codes, and numbers of tables, are none."""
    return [float(match.replace(",", "")) for match in NUMERAL.findall(CAPTION.sub("", text))]


def spoken(field: Field, value: Any, style: Style) -> str:
    """A value in words: a number in the text's style, a member, or a list of members."""
    if field.kind == NUMBER:
        return style.number(value)
    if field.kind == LABEL:
        return str(value)
    if field.kind == LABELS:
        return listing(value) if value else NONE
    raise DataError(f"kind {field.kind!r} of field {field.key!r}; accepted: {NUMBER}, {LABEL}, {LABELS}")


def _facts(family: Family, field: Field, problem: Problem, style: Style, rng: random.Random) -> Iterator[str]:
    """The sentences that hold the values of one field."""
    phrase, words, values = rng.choice(field.phrases), problem.words, problem.data[field.key]
    if not field.index:
        assert isinstance(phrase, str)
        yield sentence(filled(phrase, words, value=spoken(field, values, style))) + "."
    elif len(field.index) == 1:
        assert isinstance(phrase, str)
        parts = [filled(phrase, words, name, value=spoken(field, value, style)) for name, value in values.items()]
        if rng.random() < 0.5:
            yield sentence("; ".join(parts)) + "."
        else:
            yield from (sentence(part) + "." for part in parts)
    else:
        assert not isinstance(phrase, str)
        head, tail = phrase
        for first, row in values.items():
            parts = [filled(tail, words, first, second, value=spoken(field, v, style)) for second, v in row.items()]
            if parts:
                yield sentence(f"{filled(head, words, first)} {listing(parts)}") + "."
