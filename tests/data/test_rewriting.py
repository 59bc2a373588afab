"""Rewritten problems: what keeps everything passes, and whatever changes the problem is refused."""

import re
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trex.data import families
from trex.data.documents import Document
from trex.data.rendering import MODES, render
from trex.data.rewriting import Prose, messages, preserved
from trex.data.wording import NUMERAL, filled

NAMES = families.names()


def document(family: str, seed: int, difficulty: int, mode: str) -> Document:
    """A document whose model, programs and answer are left out: rewriting does not look at them."""
    problem = families.get(family).problem(seed, difficulty)
    return Document(
        family, mode, problem.domain, render(problem, mode).problem, [], problem.data, "", "", "", "both", "optimal",
        1.0, {}, "unknown", "", {"seed": seed, "difficulty": difficulty},
    )  # fmt: skip


def replaced(text: str, match: re.Match[str], new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]


def chosen(pattern: str, text: str, rng: Random) -> re.Match[str] | None:
    """One occurrence outside the blocks, which have tests of their own."""
    prose = [match for match in re.finditer(pattern, text) if not in_block(text, match.start())]
    return rng.choice(prose) if prose else None


def in_block(text: str, place: int) -> bool:
    line = text[text.rfind("\n", 0, place) + 1 : (text + "\n").index("\n", place)]
    return line.startswith(("|", "Table ", "- `", "The data are in"))


def swapped_numbers(text: str, document: Document, rng: Random) -> str | None:
    found = [match for match in NUMERAL.finditer(text) if not in_block(text, match.start())]
    value = {match: float(match[0].replace(",", "")) for match in found}
    pairs = [(a, b) for a in found for b in found if a.start() < b.start() and value[a] != value[b]]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return text[: a.start()] + b[0] + text[a.end() : b.start()] + a[0] + text[b.end() :]


def dropped_unit(text: str, document: Document, rng: Random) -> str | None:
    """All occurrences of a unit in one sentence of facts."""
    family, origin = families.get(document.family), document.provenance
    words = family.problem(origin["seed"], origin["difficulty"]).words
    units = {filled(field.unit, words).split(" per ")[0] for field in family.fields} - {""}
    pattern = "|".join(re.escape(unit) for unit in sorted(units, key=len, reverse=True))
    match = chosen(rf"{NUMERAL.pattern} ({pattern})(?!\w)", text, rng)
    if match is None:
        return None
    start, end = text.rfind("\n", 0, match.start()) + 1, (text + "\n").index("\n", match.start())
    one = match[1].rstrip("s")
    return text[:start] + re.sub(rf" ?\b{re.escape(one)}(?:s|es)?\b", "", text[start:end]) + text[end:]


def renamed(text: str, document: Document, rng: Random) -> str | None:
    names = [name for s in families.get(document.family).sets for name in document.data[s.key]]
    match = chosen("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names), text, rng)
    if match is None:
        return None
    new = rng.choice([name for name in [*names, "Xanadu"] if name != match[0]])
    return replaced(text, match, new) if rng.random() < 0.5 else text.replace(match[0], "Xanadu")


def denied(text: str, document: Document, rng: Random) -> str | None:
    """Without one word that denies."""
    match = chosen(r"\b(?:not |no |cannot|nothing|[Nn]one|never |[Nn]o )", text, rng)
    return None if match is None else replaced(text, match, "can" if match[0] == "cannot" else "")


def added_number(text: str, document: Document, rng: Random) -> str | None:
    match = chosen(r"(?<=\w) (?=\w)", text, rng)
    return None if match is None else replaced(text, match, f" {rng.choice(['17', '1,250', '0.5', '-3'])} ")


def other_words(*pairs: tuple[str, str]) -> Callable[[str, Document, Random], str | None]:
    def change(text: str, document: Document, rng: Random) -> str | None:
        found = [(old, new) for old, new in pairs if chosen(rf"\b{old}\b", text, rng)]
        if not found:
            return None
        old, new = rng.choice(found)
        match = chosen(rf"\b{old}\b", text, rng)
        assert match is not None
        return replaced(text, match, new)

    return change


CHANGES: dict[str, Callable[[str, Document, Random], str | None]] = {
    "two numbers swapped": swapped_numbers,
    "a unit dropped": dropped_unit,
    "a name changed": renamed,
    "a negation dropped": denied,
    "a number added": added_number,
    "a bound turned round": other_words(
        ("at most", "at least"), ("at least", "at most"), ("no more than", "no less than"), ("up to", "at least"),
        ("exactly", "at least"),
    ),
    "a rule weakened": other_words(("must(?! not)", "may"), ("has to", "can"), ("have to", "can"), ("only", "also")),
    "another decision": other_words(
        ("yes-or-no decision", "real number"), ("yes or no", "free"), ("whole", "fractional"),
        ("need not be", "must be"), ("fractions? of", "multiple of"), ("non-negative", "arbitrary"),
    ),
    "another sense": other_words(
        ("small", "large"), ("large", "small"), ("least", "largest"), ("largest", "least"), ("Minimise", "Maximise"),
        ("Maximise", "Minimise"), ("cheapest", "dearest"), ("early", "late"),
    ),
    "a sentence dropped": lambda text, document, rng: (
        None if (m := chosen(r"(?<=[.?!] )[^.?!\n]*[.?!](?=\s|$)", text, rng)) is None else replaced(text, m, "")
    ),
    "an answer given": lambda text, document, rng: f"{text}\n\nAnswer: the first one.",
}  # fmt: skip


@pytest.mark.parametrize("family", NAMES)
def test_the_text_itself_passes(family: str) -> None:
    for k, mode in enumerate(MODES):
        found = document(family, 11 + k, 1 + k, mode)
        assert preserved(found.problem, found.problem, found) == []
        prose = Prose.of(found.problem)
        assert prose.whole(prose.text) == found.problem
        assert bool(prose.blocks) == (mode != "DP")
        shown = messages(found)[1]["content"]
        assert "|" not in shown and "`" not in shown
        if mode == "DP":
            assert shown == found.problem


@pytest.mark.parametrize("change", CHANGES)
@given(family=st.sampled_from(NAMES), seed=st.integers(0, 999), mode=st.sampled_from(MODES), choice=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_what_changes_the_problem_is_refused(change: str, family: str, seed: int, mode: str, choice: int) -> None:
    found = document(family, seed, 1, mode)
    text = CHANGES[change](found.problem, found, Random(choice))
    if text is not None and text != found.problem:
        assert preserved(found.problem, text, found), text


def test_every_change_is_made_somewhere() -> None:
    """So that the test before this one does not pass for want of anything to change."""
    found = [document(name, 3, 1, "DP") for name in NAMES]
    for name, change in CHANGES.items():
        made = sum(change(d.problem, d, Random(0)) not in (None, d.problem) for d in found)
        assert made >= len(NAMES) / 4, name


@given(family=st.sampled_from(NAMES), seed=st.integers(0, 999), choice=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_no_byte_of_a_block_may_change(family: str, seed: int, choice: int) -> None:
    for mode in ("DT", "DPS"):
        found = document(family, seed, 1, mode)
        text = found.problem
        places = [k for k, letter in enumerate(text) if letter.isalnum() and in_block(text, k)]
        k = places[choice % len(places)]
        other = "7" if text[k] != "7" else "8"
        assert preserved(text, text[:k] + other + text[k + 1 :], found)
        prose = Prose.of(text)
        assert preserved(text, prose.whole(prose.text.replace("[[", "[")), found)
        assert preserved(text, prose.whole(f"{prose.text}\n\n[[TABLE 1]]"), found)


BLENDING = """\
A paper mill blends grades of different price and specification from the pulps at hand. The business dates from 1948. \
Which blending plan yields the largest profit, that is revenue less purchases?

Up to 120 tonnes of magazine in all are taken by the market; up to 85 tonnes of copy in all are taken by the market. \
There are orders for 50 tonnes of magazine; there are orders for 35 tonnes of copy. Purchases can be no more than 35 \
tonnes of eucalyptus; purchases can be no more than 100 tonnes of cotton-linters; purchases can be no more than 70 \
tonnes of office-waste. For a tonne of eucalyptus 31 francs are paid; for a tonne of cotton-linters 28 francs are \
paid; for a tonne of office-waste 23 francs are paid. In one tonne of eucalyptus there are 9 kilograms of fines and 32 \
kilograms of specks. In one tonne of cotton-linters there are 39 kilograms of fines and 16 kilograms of specks. In one \
tonne of office-waste there are 54 kilograms of fines and 45 kilograms of specks. The average tonne of magazine must \
not contain more than 43 kilograms of fines and 31 kilograms of specks. The average tonne of copy must not contain \
more than 37 kilograms of fines and 23 kilograms of specks. The selling price of a tonne of magazine is 24 francs; the \
selling price of a tonne of copy is 32 francs.

For every grade, the orders must be delivered in full. How much is made of each grade is limited by the largest sales. \
Revenue is, for each grade, the quantity made times the selling price; all that is made finds a buyer. Over all \
grades, the use of a pulp is limited to what is there. Nothing but the purchase prices of the pulps used counts as \
costs. A grade has the average content of its pulps, by quantity, and no property may be higher than its limit allows. \
Quantities are in tonnes, must not be negative and do not have to be whole numbers; how much there is of a grade \
is the sum of what goes into it, for nothing is lost."""
PACKING = """\
A congress office can hire, for its workshops, halls that differ in capacity and price. The newsletter \
with the plan will be sent to 7,693 subscribers.

Use is made of hired halls only, of each up to its capacity. No workshop can be left out, and each is put into one \
hall as a whole. For a hall the full hire is paid as soon as something is put into it. Nobody can divide the \
workshops, and each hall is there once: the decisions are all yes or no.

[[TABLE 1]]

[[TABLE 2]]

For which halls should there be a hire, and into which of them should the workshops go, to make the total hire as \
small as possible?"""


def test_a_paraphrase_by_hand_is_accepted() -> None:
    found = document("blending", 3, 1, "DP")
    assert preserved(found.problem, BLENDING, found) == []
    found = document("bin_packing", 3, 1, "DT")
    whole = Prose.of(found.problem).whole(PACKING)
    assert [line for line in whole.split("\n") if "|" in line] == [
        line for line in found.problem.split("\n") if "|" in line
    ]
    assert preserved(found.problem, whole, found) == []
