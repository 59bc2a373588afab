"""Words: the article that a scenario's word asks for."""

import re

import pytest

from trex.data import families
from trex.data.plan import Plan
from trex.data.rendering import render
from trex.data.wording import filled, singular

WORDS = {
    "a": ("unit", "user", "utility", "one-way trip", "euro", "house", "plant", "uniform"),
    "an": ("upgrade", "hour", "onion", "oven", "egg", "inn", "order", "assembly line", "heir"),
}


@pytest.mark.parametrize(("article", "word"), [(article, word) for article, words in WORDS.items() for word in words])
def test_article(article: str, word: str) -> None:
    assert filled("of a {thing}", {"thing": word}) == f"of {article} {word}"
    assert filled("An {thing}", {"thing": word}) == f"{article.capitalize()} {word}"


@pytest.mark.parametrize("family", families.names())
def test_articles_of_texts(family: str) -> None:
    """Before a vowel that is no member's name, in every scenario of the family that twelve seeds meet."""
    wrong = re.compile(r"\b[Aa] (?!uni|us[aeiu]|util|eu|one\b|are\b)[aeiou]\w|\b[Aa]n (?!hour)[^aeiouAEIOU\W]")
    for k in range(12):
        item = Plan.of(12, 3, [family], difficulty=1).item(k)
        problem = families.get(family).problem(item.seed, 1)
        assert wrong.search(render(problem, "DT").problem) is None


@pytest.mark.parametrize(("plural", "expected"), [
    ("minutes", "minute"), ("boxes", "box"), ("five-minute slots", "five-minute slot"), ("nurses", "nurse"),
    ("bakeries", "bakery"), ("bags per minute", "bag per minute"), ("people", "person"), ("passes", "pass"),
    ("million euros", "million euros"), ("machine works", "machine works"), ("natural gas", "natural gas"),
    ("test series", "test series"), ("glass", "glass"), ("rice", "rice"), ("warehouses", "warehouse"),
])  # fmt: skip
def test_singular(plural: str, expected: str) -> None:
    assert singular(plural) == expected


def test_one_of_a_unit() -> None:
    words = {"unit": "hours", "money": "million euros", "site": "depots"}
    text = "{0} takes {value} {unit} of the {unit}, {value} {money}"
    assert filled(text, words, "A1", value="1") == "A1 takes 1 hour of the hours, 1 million euros"
    assert filled(text, words, "A1", value="11") == "A1 takes 11 hours of the hours, 11 million euros"
