"""Quality by the usual heuristics, on the prose of a document (code, tables and formulae are not counted).

Gopher: Rae et al., Scaling Language Models, 2021, appendix A.1.1, table A1. C4: Raffel et al., 2020, section 2.2.
FineWeb: Penedo et al., 2024, section 3.6.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trex.data.ingest.language import UNSPACED, prose

STOP_WORDS = {"en": frozenset(["the", "be", "to", "of", "and", "that", "have", "with"])}  # Gopher's
BULLETS = ("-", "*", "•", "‣", "–", "●", "▪", "o ")
ENDS = (".", "!", "?", ":", ";", '"', "'", "”", "’", ")", "。", "！", "？", "：", "；", "」")
SYMBOLS = re.compile(r"#(?!#* )|\.\.\.|…")  # not the marks of headings
BLANK_LINE = re.compile(r"\n\s*\n")
CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


@dataclass(frozen=True)
class Thresholds:
    """From where on a document is refused. Values are the sources' but where a reason is given."""

    least_words: int = 50  # Gopher
    most_words: int = 500_000  # Gopher has 100,000, of web pages: textbooks are longer
    least_word_length: float = 3.0  # Gopher: mean
    most_word_length: float = 10.0
    symbols: float = 0.1  # Gopher: # and … per word
    bullets: float = 0.9  # Gopher: share of lines
    ellipses: float = 0.3  # Gopher: share of lines that end so
    alphabetic: float = 0.6  # Gopher has 0.8: variables and numbers inside of sentences are none
    stop_words: int = 2  # Gopher: different ones
    ended_lines: float = 0.12  # FineWeb: share of lines with punctuation at the end
    short_lines: float = 0.67  # FineWeb: share of lines with fewer than 30 characters
    repeated_lines: float = 0.3  # Gopher
    repeated_paragraphs: float = 0.3  # Gopher
    repeated_line_characters: float = 0.2  # Gopher; FineWeb has 0.1
    repeated_paragraph_characters: float = 0.2  # Gopher
    common_grams: tuple[tuple[int, float], ...] = ((2, 0.2), (3, 0.18), (4, 0.16))  # Gopher: share of characters
    repeated_grams: tuple[tuple[int, float], ...] = (
        (5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10),
    )  # fmt: skip


def words(text: str, language: str) -> list[str]:
    """Words as spaces set them apart; each sign is one in languages without spaces."""
    return CJK.findall(text) if language in UNSPACED else text.split()


def fault(text: str, language: str, limits: Thresholds) -> str:
    """The first rule that a text breaks, with the measure and what is accepted; "" for a good one."""
    for name, measure, least, most in _measures(prose(text), language, limits):
        if measure < least:
            return f"{name} {measure:.3g}; accepted: from {least:g}"
        if measure > most:
            return f"{name} {measure:.3g}; accepted: up to {most:g}"
    return ""


def _measures(text: str, language: str, t: Thresholds) -> Iterator[tuple[str, float, float, float]]:
    """Name, measure, least and most of each rule."""
    found = words(text, language)
    count = max(1, len(found))
    yield "words", len(found), t.least_words, t.most_words
    if language not in UNSPACED:
        yield "mean word length", sum(map(len, found)) / count, t.least_word_length, t.most_word_length
    yield "symbols per word", len(SYMBOLS.findall(text)) / count, 0.0, t.symbols
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    yield "share of bullet lines", _share(lines, lambda line: line.startswith(BULLETS)), 0.0, t.bullets
    yield "share of lines ending in an ellipsis", _share(lines, lambda line: line.endswith(("...", "…"))), 0, t.ellipses
    yield "share of words with a letter", _share(found, _alphabetic), t.alphabetic, 1.0
    if stop := STOP_WORDS.get(language):
        yield "stop words", len(stop & {word.lower().strip(",.;:()") for word in found}), t.stop_words, len(stop)
    plain = [line for line in lines if not line.startswith("#")]
    yield "share of lines with an end", _share(plain, lambda line: line.endswith(ENDS)), t.ended_lines, 1.0
    yield "share of short lines", _share(plain, lambda line: len(line) < 30), 0.0, t.short_lines
    paragraphs = [part.strip() for part in BLANK_LINE.split(text) if part.strip()]
    for name, parts, most, most_characters in (
        ("lines", lines, t.repeated_lines, t.repeated_line_characters),
        ("paragraphs", paragraphs, t.repeated_paragraphs, t.repeated_paragraph_characters),
    ):
        again = _repeated(parts)
        yield f"share of repeated {name}", len(again) / max(1, len(parts)), 0.0, most
        yield f"characters in repeated {name}", sum(map(len, again)) / max(1, len(text)), 0.0, most_characters
    lower = [word.lower() for word in found]
    for size, most in t.common_grams:
        yield f"characters in the commonest {size}-gram", _commonest(lower, size), 0.0, most
    for size, most in t.repeated_grams:
        yield f"characters in repeated {size}-grams", _in_repeated(lower, size), 0.0, most


def _share(parts: Sequence[str], holds: Callable[[str], bool]) -> float:
    return sum(map(holds, parts)) / max(1, len(parts))


def _alphabetic(word: str) -> bool:
    return any(map(str.isalpha, word))


def _repeated(parts: list[str]) -> list[str]:
    """The parts that were there before."""
    seen: set[str] = set()
    return [part for part in parts if part in seen or seen.add(part)]  # type: ignore[func-returns-value]


def _commonest(found: list[str], size: int) -> float:
    """Share of the characters of words in the run of words that takes most, where it comes more than once."""
    runs = Counter(zip(*(found[k:] for k in range(size)), strict=False))
    most = max((count * sum(map(len, run)) for run, count in runs.items() if count > 1), default=0)
    return most / max(1, sum(map(len, found)))


def _in_repeated(found: list[str], size: int) -> float:
    """Share of the characters of words in runs that were there before; none is counted twice."""
    seen: set[tuple[str, ...]] = set()
    k = repeated = 0
    while k + size <= len(found):
        run = tuple(found[k : k + size])
        if run in seen:
            repeated += sum(map(len, run))
            k += size
        else:
            seen.add(run)
            k += 1
    return repeated / max(1, sum(map(len, found)))
