"""A problem told in other words by a language model: what it is shown, and the check that nothing was lost or changed.

Only prose is rewritten: tables and the description of the data file are taken out before and put back after. Sentence
by sentence, numbers and names keep their order, units and things of the scenario stay, and so does the logic.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trex.data import families
from trex.data.documents import Document
from trex.data.logic_words import Terms, changed
from trex.data.rendering import DATA_FILE
from trex.data.wording import NUMERAL, filled, numbers

CHECKS = ("blocks", "form", "length", "sentences", "numbers and names", "directions", "units and things", "logic")
SHORTEST, LONGEST = 0.5, 2.0  # of the prose, against the original's
BLOCK = re.compile(
    r"^Table \d+: .+\n\n(?:\|.*\|(?:\n|\Z))+"
    rf"|^The data are in the file `{re.escape(DATA_FILE)}`.*\n(?:- `.*(?:\n|\Z))+",
    re.MULTILINE,
)
PLACE = re.compile(r"^\[\[(TABLE|DATA) (\d+)\]\]$", re.MULTILINE)
_SENTENCES = re.compile(r"(?<=[.!?;])\s+|\n+")
_BEFORE = re.compile(
    r"\b(from|out of|leaving|to|into|towards?)\W+(?:the\W+)?(?:[\w-]+\W+)?(?:in\W+)?$", re.IGNORECASE
)  # up to two words before a name
_AWAY = ("from", "out of", "leaving")
_AFTER_NUMBERS = frozenset(re.findall(r"\w+", """
    a an and any are as at be but by can do does each every exceed for from has have if in is it its must may of on only
    or over per should so than that the then there these they this to up via when where which while with
"""))  # fmt: skip
_NO_UNITS = ("per", "and", "of", "the", "a", "an", "each", "needed", "other")
_TALK = ("answer", "solution", "optimal", "optimum", "rewritten", "rewrite", "paraphrase")
_PUNCTUATION = frozenset("\u2018\u2019\u201c\u201d")

INSTRUCTIONS = """\
You put an optimisation problem into other words. Reply with the new text alone: no introduction, no answer, no markup.
Change the wording of every sentence as freely as these rules allow; the problem must stay exactly the same.
- Keep the sentences in their order, one for one: merge none, split none (also at semicolons), add none, drop none.
- Keep every number, in digits, and every name, spelled as it is, in the order in which they stand in their sentence.
- Keep every unit, and call the things of the problem by the same nouns.
- Keep what is allowed, required or forbidden: at most, at least, exactly, each, only, must, may, not, whole, \
yes or no, fractions, and what is to be made small or large.
- A line such as [[TABLE 1]] or [[DATA 1]] stands for data that you are not shown: leave it as it is, on its own line.
- Plain letters and punctuation only; no new numbers, names, symbols or abbreviations."""


@dataclass(frozen=True)
class Prose:
    """A problem's text without its blocks, which placeholders on lines of their own stand for."""

    text: str
    blocks: tuple[str, ...]

    @classmethod
    def of(cls, problem: str) -> "Prose":
        """Take tables and the description of the data file out of a text."""
        blocks: list[str] = []

        def place(match: re.Match[str]) -> str:
            blocks.append(match[0].rstrip("\n"))
            end = match[0][len(blocks[-1]) :]
            return f"[[{'TABLE' if match[0].startswith('Table') else 'DATA'} {len(blocks)}]]{end}"

        return cls(BLOCK.sub(place, problem), tuple(blocks))

    def whole(self, reply: str) -> str:
        """A reply with the blocks in their places. A placeholder that is not there is left for the check to find."""
        lines = [line.strip() for line in reply.replace("\r\n", "\n").strip().split("\n")]
        text = "\n".join(
            f"\n{self.blocks[int(match[2]) - 1]}\n"
            if (match := PLACE.fullmatch(line)) and 0 < int(match[2]) <= len(self.blocks)
            else line
            for line in lines
        )
        return _spaced(text)


def statement_sha256(document: Document) -> str:
    """What a rewriting was made from: the SHA-256 of the document's statement."""
    return hashlib.sha256(document.statement.encode()).hexdigest()


def messages(document: Document, refused: Sequence[tuple[str, Sequence[str]]] = ()) -> list[dict[str, str]]:
    """The chat that asks for a rewriting. refused: earlier replies and the reasons against each; the last is shown."""
    asked = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": Prose.of(document.problem).text},
    ]
    for reply, reasons in refused[-1:]:
        said = "\n".join(f"- {reason}" for reason in reasons[:12])
        asked += [
            {"role": "assistant", "content": reply or "(nothing)"},
            {"role": "user", "content": f"This changed the problem:\n{said}\nWrite the whole text again without that."},
        ]
    return asked


def preserved(original: str, rewritten: str, document: Document) -> list[str]:
    """Why `rewritten` cannot stand for `original`, the problem's text of `document`; empty where nothing was lost."""
    old, new = Prose.of(original), Prose.of(rewritten)
    if old.blocks != new.blocks or PLACE.findall(old.text) != PLACE.findall(new.text):
        return ["blocks: tables and the description of the data file must stay as they are, in their order"]
    if found := [*_length(old.text, new.text)]:  # before all that may take long
        return found
    found = [*_form(old.text, new.text)]
    before, after = ([s for s in _SENTENCES.split(prose.text.strip()) if s] for prose in (old, new))
    if len(before) != len(after):
        found.append(f"sentences: {len(after)}, not {len(before)}")
    elif Counter(numbers(original)) != Counter(numbers(rewritten)):
        found.append("numbers: they are not the same")
    if found:
        return found
    vocabulary = Vocabulary.of(document)
    for number, pair in enumerate(zip(before, after, strict=True), start=1):
        found += [f"{reason} (sentence {number}: {pair[1]!r:.160})" for reason in vocabulary.lost(*pair)]
    return found


@dataclass(frozen=True)
class Vocabulary:
    """The names, units and things of one problem, each with the pattern that finds it."""

    names: re.Pattern[str]  # also finds numbers
    terms: Terms

    @classmethod
    def of(cls, document: Document) -> "Vocabulary":
        """From the document's data and the words of its scenario. Raises DataError for an unknown family or origin."""
        family, origin = families.get(document.family), document.provenance
        words = family.problem(origin["seed"], origin["difficulty"]).words
        members = {str(name) for index_set in family.sets for name in document.data[index_set.key]}
        spelled = {name[:1].upper() + name[1:] for name in members} | members  # as at the start of a sentence
        ordered = "|".join(re.escape(name) for name in sorted(spelled, key=lambda name: (-len(name), name)))
        groups = [{filled(s.singular, words), filled(s.plural, words)} for s in family.sets]
        groups += [{word, words.get(f"{key}s", word)} for key, word in words.items()]
        for field in family.fields:
            groups += [{word} for word in filled(field.unit, words).split() if word not in _NO_UNITS]
        forms = {frozenset(map(_bare, group)) for group in groups if all(group)}
        terms = [("/".join(sorted(group)), _pattern(group)) for group in forms]
        return cls(
            re.compile(rf"(?<![\w-])(?:{ordered})(?![\w-])|{NUMERAL.pattern}"), sorted(terms, key=lambda t: t[0])
        )

    def lost(self, old: str, new: str) -> Iterator[str]:
        """What a sentence has lost, gained or turned round."""
        if PLACE.fullmatch(old) or PLACE.fullmatch(new):
            if old != new:
                yield f"blocks: {old!r:.80} must stay where it is"
            return
        was, now = self._tokens(old), self._tokens(new)
        if was != now:
            yield f"numbers and names: {_shown(now)}, not {_shown(was)}"
            return
        yield from self._turned(old, new)
        for name, pattern in self.terms:
            if pattern.search(old) and not pattern.search(new):
                yield f"units and things: {name!r} is lost"
        known = {_stem(word) for word in re.findall(r"[^\W\d_][\w'-]*", old)} | _AFTER_NUMBERS
        for match in re.finditer(rf"{NUMERAL.pattern}\s+([^\W\d_][\w'-]*)", new):
            if _stem(match[1]) not in known:
                yield f"units and things: {match[0]!r} has another unit"
        for name in changed(old, new, self.terms):
            yield f"logic: {name!r} is not as it was"

    def _tokens(self, sentence: str) -> list[float | str]:
        found: list[float | str] = []
        for match in self.names.finditer(sentence):
            text = match[0].replace(",", "")
            found.append(float(text) if NUMERAL.fullmatch(match[0]) else match[0][:1].lower() + match[0][1:])
        return found

    def _turned(self, old: str, new: str) -> Iterator[str]:
        """Names that something goes to in one text and from in the other."""
        pairs = zip(self.names.finditer(old), self.names.finditer(new), strict=True)
        for was, now in pairs:
            ways = [_way(text[max(0, match.start() - 80) : match.start()]) for text, match in ((old, was), (new, now))]
            if set(ways) == {"from", "to"}:
                yield f"directions: {ways[1]} {now[0]}, not {ways[0]} it"


def _form(old: str, new: str) -> Iterator[str]:
    """What no rewriting may hold: markup, symbols, talk about itself, names that are not the problem's."""
    if any(mark in new for mark in ("```", "|", "**")) or re.search(r"^\s*(?:[#>]|[-*] )", new, re.MULTILINE):
        yield "form: markup outside the tables"
    if strange := sorted(
        {c for c in new if c not in "\n" and not (c.isascii() and c.isprintable())} - {*old, *_PUNCTUATION}
    ):
        yield f"form: characters {''.join(strange)!r:.40}"
    if symbols := sorted({c for c in new if c in "$%&*+/<=>@\\^_~#{}"} - set(old)):
        yield f"form: symbols {''.join(symbols)!r}"
    for word in _TALK:
        if word in new.lower() and word not in old.lower():
            yield f"form: it speaks of {word!r}"
    known = set(re.findall(r"\w[\w-]*", old)) | {"I"}
    for sentence in _SENTENCES.split(new):
        for before, word in pairwise(re.findall(r"\S+", sentence)):
            bare = word.strip("\"'.,;:!?()\u2018\u2019\u201c\u201d").removesuffix("'s")
            if bare[:1].isupper() and bare not in known and not before.endswith(":"):
                yield f"form: {bare!r} is no name of the problem"
    for word in re.findall(r"\w[\w-]*", new):
        if word not in known and any(map(str.isdigit, word)) and any(map(str.isalpha, word)):
            yield f"form: {word!r} is not in the problem"


def _length(old: str, new: str) -> Iterator[str]:
    ratio = len(new.strip()) / max(1, len(old.strip()))
    if not SHORTEST <= ratio <= LONGEST:
        yield f"length: {ratio:.2f} of the original; accepted: {SHORTEST} to {LONGEST}"


def _spaced(text: str) -> str:
    """One empty line at most between two lines."""
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def _way(before: str) -> str:
    match = _BEFORE.search(before)
    return "" if match is None else "from" if match[1].lower() in _AWAY else "to"


def _bare(term: str) -> str:
    """A term without article and plural."""
    term = re.sub(r"^(?:an?|the) ", "", term.lower())
    return term[:-1] if term.endswith("s") and not term.endswith("ss") and len(term) > 3 else term


def _pattern(forms: frozenset[str]) -> re.Pattern[str]:
    ordered = "|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
    return re.compile(rf"(?<![\w-])(?:{ordered})(?:s|es)?(?![\w-])", re.IGNORECASE)


def _stem(word: str) -> str:
    return word.lower().removesuffix("'s").rstrip("s")


def _shown(tokens: Sequence[float | str]) -> str:
    text = ", ".join(f"{token:g}" if isinstance(token, float) else token for token in tokens) or "none"
    return text if len(text) <= 120 else f"{text[:120]}…"
