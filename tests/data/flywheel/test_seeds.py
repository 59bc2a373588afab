"""What a run begins from: rows of files, representations, the embedded families."""

import json
from pathlib import Path

import pytest

from trex.data import families
from trex.data.flywheel.embedded import Attempt, write
from trex.data.flywheel.recombine import recombine, representation
from trex.data.flywheel.representation import Origin
from trex.data.flywheel.seeds import embedded_seeds, holds_representations, read_representations, read_seeds
from trex.data.problem import DIFFICULTIES, DataError


def file(folder: Path, *lines: str | bytes) -> Path:
    """A file of these lines."""
    path = folder / "seeds.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines) + b"\n")
    return path


def made(family: str = "transportation") -> str:
    """The JSON of a representation, with its origin."""
    return representation(recombine(Origin(family, 1, 1))).line


def test_rows_of_every_shape_are_seeds_and_what_is_none_says_why(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        json.dumps({"problem": "p", "answer": "a"}),
        "",
        json.dumps({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "r"}]}),
        json.dumps({"conversations": [{"from": "human", "value": "q2"}, {"from": "gpt", "value": "r2"}]}),
        json.dumps({"en_question": "q3", "en_answer": 12.5}),
        "no json",
        json.dumps({"problem": 7}),
    )
    found = read_seeds(path)
    assert [(row.number, row.problem, row.answer) for row in found[:3]] == [
        (1, "p", "a"),
        (3, "q", "r"),
        (4, "q2", "r2"),
    ]
    assert found[3].label == "12.5" and [bool(row.fault) for row in found] == [False] * 4 + [True] * 2
    assert not holds_representations(file(tmp_path, json.dumps({"problem": "p", "answer": "a"})))


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, file(tmp_path, "nothing")):
        with pytest.raises(DataError, match="accepted"):
            read_seeds(path)


def test_representations_and_dialogues_are_seeds_without_their_origins(tmp_path: Path) -> None:
    seed = embedded_seeds(["knapsack"])[0]
    row = write(Attempt("row/1", seed.bucket, 5, seed))
    path = file(tmp_path, json.dumps({"representation": json.loads(made())}), "", row.line)
    assert holds_representations(path)
    one, two = read_representations(path)
    assert (one.id, one.problem) == ("seeds.jsonl/1", "") and (two.id, two.problem) == ("row/1", row.problem)
    assert one.representation.origin is None and two.representation.origin is None
    assert (
        one.representation.data == json.loads(made())["data"] and two.representation.title == row.representation.title
    )


@pytest.mark.parametrize(("line", "word"), [
    ("nothing", "no JSON"),
    (b"\xff", "no JSON"),
    ("[" * 100_000, "no JSON"),
    ("[]", "accepted"),
    ('{"problem": "p"}', "representation"),
    ('{"representation": 1}', "representation"),
    ('{"representation": {"title": 1}}', "representation"),
    (f'{{"id": 5, "representation": {made()}}}', "id 5"),
    (f'{{"id": "a", "representation": {made()}}}', "'a' is there twice"),
    (f'{{"representation": {made()}}}'.replace('"dollars"', '"\\ud800"'), "line 2"),
])  # fmt: skip
def test_a_line_that_holds_no_representation_is_named(tmp_path: Path, line: str | bytes, word: str) -> None:
    path = file(tmp_path, f'{{"id": "a", "representation": {made()}}}', line)
    with pytest.raises(DataError, match=word) as error:
        read_representations(path)
    assert "line 2" in str(error.value) and len(str(error.value)) < 1000


def test_a_line_that_is_no_json_does_not_hide_what_a_file_holds(tmp_path: Path) -> None:
    assert not holds_representations(file(tmp_path, "no json", json.dumps({"problem": "p", "answer": "a"}), "{"))
    assert holds_representations(file(tmp_path, "no json", f'{{"representation": {made()}}}'))


def test_files_without_representations_are_refused(tmp_path: Path) -> None:
    for path in (file(tmp_path, ""), tmp_path / "none", tmp_path):
        with pytest.raises(DataError, match="accepted"):
            read_representations(path)


def test_every_family_is_a_seed_at_every_difficulty() -> None:
    found = embedded_seeds()
    assert len({seed.id for seed in found}) == len(found) == len(families.names()) * len(DIFFICULTIES)
    for seed in found:
        assert seed.id == seed.lineage == f"seed/{seed.bucket.structure}/{seed.bucket.difficulty}"
        assert seed.generation == 0 and seed.domain and not seed.changes
    assert [seed.bucket.structure for seed in embedded_seeds(["diet"])] == ["diet"] * len(DIFFICULTIES)
    with pytest.raises(DataError, match="nothing"):
        embedded_seeds(["nothing"])
