"""The loader: what it reads, and every malformed file that it must refuse."""

from pathlib import Path

import pytest
import yaml

from trex.labels import LABELS
from trex.published import PublishedError, load, names
from trex.published.formula import evaluate
from trex.published.tables import FOLDER

SOURCES = {"page": {"cite": "a page"}, "relay": {"cite": "another page", "second_hand": True}}
GOOD = {
    "title": "Times",
    "source": "page",
    "label": "published",
    "columns": {"time": {"unit": "s"}, "rate": {"unit": "1/s", "label": "derived"}},
    "attributes": ["kind", "places", "sizes"],
    "rows": [
        {"id": "first", "time": 4, "rate": {"formula": "1 / time"}, "kind": "a", "places": [3, 62], "sizes": {"k": 1}},
        {"id": "second", "name": "Second", "time": {"value": 2.5, "source": "relay", "note": "about"}},
        {
            "id": "third",
            "missing": {"time": "never printed"},
            "rate": {"formula": "first.rate + 1 / times.second.time"},
        },
    ],
}


def folder(tmp_path: Path, table: object = GOOD, sources: object = SOURCES) -> Path:
    text = table if isinstance(table, str) else yaml.safe_dump(table, sort_keys=False)
    (tmp_path / "times.yaml").write_text(text)
    (tmp_path / "sources.yaml").write_text(yaml.safe_dump(sources))
    return tmp_path


def test_reads_values_units_sources_notes_and_formulas(tmp_path: Path) -> None:
    table = load("times", folder(tmp_path))
    first, second, third = table
    assert (first["time"].value, first["time"].unit, first["time"].label) == (4, "s", "published")
    assert first["time"].source == "a page" and first.name == "first"
    assert (first["rate"].value, first["rate"].label, first["rate"].formula) == (0.25, "derived", "1 / time")
    assert second["time"].source == "another page" and second["time"].note == "about; second-hand page"
    assert third["rate"].value == pytest.approx(0.25 + 0.4, abs=1e-15)
    assert first.attributes == {"kind": "a", "places": (3, 62), "sizes": {"k": 1}}
    assert table["second"] is second and table.where(kind="a") == (first,)


def test_missing_number_says_what_is_known_of_it(tmp_path: Path) -> None:
    with pytest.raises(PublishedError, match=r"third.time is not publicly findable: never printed"):
        load("times", folder(tmp_path))["third"]["time"]


def test_unknown_names_are_answered_with_what_exists(tmp_path: Path) -> None:
    table = load("times", folder(tmp_path))
    with pytest.raises(PublishedError, match="no table 'tims'; there are: times"):
        load("tims", tmp_path)
    with pytest.raises(PublishedError, match="no row 'fourth'; there are: first, second, third"):
        table["fourth"]
    with pytest.raises(PublishedError, match="no number 'speed'; there are: time, rate"):
        table["first"]["speed"]
    with pytest.raises(PublishedError, match="no row with"):
        table.where(kind="b")
    with pytest.raises(PublishedError, match="kernel_speedups"):
        load("no_such_table")


def without(key: str) -> dict:
    return {k: v for k, v in GOOD.items() if k != key}


def rows(*extra: dict, **over: object) -> dict:
    return {**GOOD, "rows": [*GOOD["rows"], *extra], **over}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (without("source"), "source 'None'; sources.yaml has: page, relay"),
        (without("label"), r"label None; accepted: published, derived"),
        (rows({"id": "x", "time": {"value": 1, "label": "guessed"}}), "times.x.time: label 'guessed'"),
        (rows({"id": "x", "time": 1, "source": "nowhere"}), "source 'nowhere'"),
        (rows({"id": "first", "time": 1}), "two rows have the id 'first'"),
        (rows({"id": "a-b", "time": 1}), "id 'a-b'; accepted"),
        (rows({"time": 1}), "id None"),
        (rows({"id": "x", "tiem": 1}), "times.x: unknown tiem; accepted"),
        (rows({"id": "x", "time": "4"}), "times.x.time: '4' is not a number"),
        (rows({"id": "x", "time": True}), "True is not a number"),
        (rows({"id": "x", "time": {"value": 1, "formula": "2"}}), "a cell has value or formula"),
        (rows({"id": "x", "time": {"value": 1, "units": "s"}}), "a cell has value or formula"),
        (rows({"id": "x", "time": {"value": 1, "label": "derived"}}), "a derived number has a formula or a note"),
        (rows({"id": "x", "time": {"formula": "1 + 1"}}), "a formula is derived"),
        (rows({"id": "x", "time": {"value": 1, "label": "measured"}}), "a measured number has a note"),
        (rows({"id": "x", "time": {"formula": "1", "label": "measured", "note": "n"}}), "a formula is derived"),
        (rows({"id": "x", "kind": 3}), "times.x.kind: 3 is not text"),
        (rows({"id": "x"}), "times.x says nothing"),
        (rows({"id": "x", "rate": {"formula": "1 / tme"}}), "no number times.x.tme"),
        (rows({"id": "x", "rate": {"formula": "1 / 0"}}), "times.x.rate: .*division by zero"),
        (rows({"id": "x", "rate": {"formula": "x.rate + 1"}}), "in a circle: times.x.rate → times.x.rate"),
        (rows({"id": "x", "rate": {"formula": "open('f')"}}), "is not accepted"),
        (rows(columns={"time": None, "rate": {"unit": "1/s", "label": "derived"}}), "times.first.time: no unit"),
        (rows(header=1), "times: unknown header"),
        (without("rows"), "a table has a title and rows"),
        ("- 1", "times: a mapping is expected, not list"),
        ("title: [", "times.yaml cannot be read"),
        ("!!python/object/apply:os.getcwd []", "times.yaml cannot be read"),
    ],
)
def test_malformed_files_are_refused_by_name(tmp_path: Path, table: object, message: str) -> None:
    with pytest.raises(PublishedError, match=message):
        load("times", folder(tmp_path, table))


@pytest.mark.parametrize("text", ["__import__('os')", "'a'", "x if 1 else 2", "[1]", "abs(1)", "mean()", "1 +", "a[0]"])
def test_formulas_are_arithmetic_only(text: str) -> None:
    with pytest.raises(ValueError, match="accepted"):
        evaluate(text, lambda path: 1.0)


def test_formulas_follow_the_usual_precedence() -> None:
    values = {("a",): 3.0, ("t", "r", "c"): 0.5}
    assert evaluate("2 * a ** 2 - mean(a, 5) / t.r.c + sum(1, 2)", values.__getitem__) == 2 * 9 - 4 / 0.5 + 3


def test_every_committed_number_has_unit_label_and_source() -> None:
    assert {"mfu_ladder", "or_scores", "kernel_speedups", "layouts", "peers", "article_mistakes"} <= set(names())
    for name in names():
        for row in load(name):
            assert row.label in LABELS and row.source, (name, row.id)
            for column, number in row.numbers.items():
                assert number.label in ("published", "derived", "measured"), (name, row.id, column)
                assert number.source and isinstance(number.unit, str), (name, row.id, column)


def test_every_source_is_used() -> None:
    cited = {number.source for name in names() for row in load(name) for number in row.numbers.values()}
    cited |= {row.source for name in names() for row in load(name)}
    assert {entry["cite"] for entry in yaml.safe_load((FOLDER / "sources.yaml").read_text()).values()} == cited
