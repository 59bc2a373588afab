"""The README's figures and tables are those of results/."""

import json
import re
import shutil
from pathlib import Path

import pytest

from trex import paths
from trex.labels import ResultError
from trex.launch import readme
from trex.launch.manifest import sha256
from trex.published import load as published
from trex.results import load

TEXT = (paths.CHECKOUT / "README.md").read_text(encoding="utf-8")


def test_generated_parts_are_those_of_the_results() -> None:
    assert readme.rendered(TEXT, paths.results()) == TEXT, "README.md is out of date: run `trex publish RUN`"


def test_every_figure_and_table_is_generated() -> None:
    assert set(readme.PARTS) == set(readme.PART.findall(TEXT))
    by_hand = readme.PART.sub("", TEXT)
    assert not re.search(r"^\s*\|", by_hand, re.MULTILINE), "a table outside the generated parts"
    assert "![" not in by_hand and "<img" not in by_hand, "a figure outside the generated parts"


def test_every_link_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link]
    assert len(links) > 10
    assert not [link for link in links if not (paths.CHECKOUT / link).exists()]


@pytest.mark.parametrize("line", readme.lines(), ids=lambda line: f"{line.record}: {line.claim[:30]}")
def test_a_changed_value_changes_the_readme(line: readme.Line, tmp_path: Path) -> None:
    results = shutil.copytree(paths.results(), tmp_path / "results")
    path = results / line.chapter / f"{line.record}.json"
    body = json.loads(path.read_text())
    body["values"] = _shifted(body["values"])
    path.write_text(json.dumps(body))
    before, after = line.value(load(line.chapter, line.record).values), line.value(body["values"])
    assert before in TEXT and before != after
    assert after in readme.rendered(TEXT, results) != TEXT


def test_a_missing_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="mfu_ladder"):
        readme.rendered(TEXT, tmp_path)
    with pytest.raises(ResultError, match="README part 'bogus'; there are: claims, headline"):
        readme.rendered("<!-- trex: bogus -->\n<!-- /trex -->", paths.results())


def test_update_rewrites_once(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("a\n<!-- trex: notebooks -->\nold\n<!-- /trex -->\nb\n")
    assert readme.update(page, paths.results()) and not readme.update(page, paths.results())
    assert page.read_text().startswith("a\n<!-- trex: notebooks -->\n| notebook |") and page.read_text().endswith("b\n")


def _shifted(value: object) -> object:
    """Every number doubled and one more."""
    if isinstance(value, dict):
        return {key: _shifted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shifted(item) for item in value]
    return 2 * value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else value


def test_results_hold_only_what_records_name_and_nothing_has_been_altered() -> None:
    named = set()
    for path in paths.results().glob("*/*.json"):
        record = load(path.parent.name, path.stem)
        assert set(record.sha256) == set(record.files), path
        named |= {path, *(path.parent / name for name in record.files)}
        for name, digest in record.sha256.items():
            assert sha256(path.parent / name) == digest, f"{path.parent.name}/{name} is not the file that was published"
    assert {path for path in paths.results().rglob("*") if path.is_file()} == named


def test_published_records_are_those_of_the_tables() -> None:
    ladder = {row.id: row["mfu"].value for row in published("mfu_ladder")}
    gain = published("headline")["mfu_gain"]["value"].value
    assert load("06_eval", "mfu_ladder").values == {**ladder, "gain": gain}
    scores = {row.id: {k: n.value for k, n in row.numbers.items()} for row in published("or_scores")}
    for row, values in load("06_eval", "or_scores").values.items():
        assert values.items() <= scores[row].items()
    steps = {row.id: round(row["step_s"].value, 2) for row in published("mfu_ladder")}
    assert load("06_eval", "mfu_ladder_steps").values["step_s"] == steps
