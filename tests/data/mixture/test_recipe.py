"""Recipes: read strictly, each wrong field named."""

from pathlib import Path

import pytest

from trex.data.mixture.recipe import Recipe, Source
from trex.data.problem import DataError

GOOD = """
name: or_cpt
seed: 3
seq_len: 64
tokens: 1000
sources:
  - {name: or, path: documents, weight: 3}
  - {name: mathematics, embedded: mathematics, weight: 1, limit: 5, max_epochs: 2}
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(GOOD)
    recipe = Recipe.read(path)
    mathematics = Source("mathematics", 1.0, embedded="mathematics", limit=5, max_epochs=2)
    assert recipe == Recipe("or_cpt", (Source("or", 3.0, "documents"), mathematics), 64, seed=3, tokens=1000)
    assert [recipe.share(source) for source in recipe.sources] == [0.75, 0.25]
    assert [recipe.epochs(source) for source in recipe.sources] == [4, 2]
    assert Recipe.of(recipe.to_dict(), "again") == recipe


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("seed: 3", "sead: 3", "field 'sead'; accepted: name, sources, seq_len, seed"),
        ("limit: 5", "limits: 5", "source 2: field 'limits'; accepted: name, weight, path"),
        ("seq_len: 64\n", "", "lacks seq_len"),
        ("weight: 3", "weight: 0", "source or: weight 0.0; accepted: above 0"),
        ("weight: 3", "weight: .nan", "source or: weight nan"),
        ("weight: 3", "weight: '3'", "source 1: weight = '3'; accepted: a number"),
        ("seed: 3", "seed: true", "seed = True; accepted: a whole number"),
        ("seed: 3", "held_out: 0.7", "held_out 0.7; accepted: 0 to 0.5"),
        ("embedded: mathematics", "embedded: physics", "embedded 'physics'; accepted: mathematics, code, text"),
        ("path: documents", "path: documents, embedded: code", "accepted is one of path and embedded"),
        ("name: mathematics", "name: or", "source or is there twice"),
        ("seq_len: 64", "seq_len: 0", "seq_len 0; accepted: from 1 to 2,147,483,647"),
        ("seq_len: 64", "seq_len: 10000000000", "seq_len 10000000000; accepted: from 1 to 2,147,483,647"),
        ("limit: 5", "limit: 10000000000", "limit 10000000000; accepted: from 0 to 2,147,483,647"),
        ("weight: 3", "weight: 1e-12", "weight = '1e-12'; accepted: a number; YAML reads this as text: write 1.0e-12"),
        ("weight: 3", "weight: 2.5e3", "YAML reads this as text: write 2500.0"),
        ("tokens: 1000", "tokens: 1e9", "tokens = '1e9'; accepted: a whole number; YAML reads this as text: write 100"),
        ("sources:", "sources: 3\nothers:", "field 'others'"),
    ],
)
def test_a_wrong_field_is_named(before: str, after: str, said: str, tmp_path: Path) -> None:
    assert before in GOOD
    path = tmp_path / "recipe.yaml"
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(DataError) as error:
        Recipe.read(path)
    assert said in str(error.value)


@pytest.mark.parametrize(("word", "number"), [("1e-12", 1e-12), ("2.5e3", 2500.0), ("1E+300", 1e300), ("0x", None)])
def test_the_advice_on_numbers_is_right(word: str, number: float | None, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(GOOD.replace("weight: 3", f"weight: {word}"))
    with pytest.raises(DataError) as error:
        Recipe.read(path)
    _, told, advice = str(error.value).partition("write ")
    assert bool(told) == (number is not None)
    if told:
        path.write_text(GOOD.replace("weight: 3", f"weight: {advice}"))
        assert Recipe.read(path).sources[0].weight == number


@pytest.mark.parametrize("text", ["", "[1, 2]", "name: [", "\0", "name: &a [*a]\nsources: *a\nseq_len: 1"])
def test_what_is_no_recipe_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(DataError):
        Recipe.read(path)
