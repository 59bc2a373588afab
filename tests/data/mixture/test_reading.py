"""Sources: the same texts whatever the format, and what is wrong with a file is said with its row."""

import gzip
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from trex.data.documents import generate, write_jsonl
from trex.data.mixture.embedded import NOT_OPEN, embedded
from trex.data.mixture.reading import texts
from trex.data.mixture.recipe import Source
from trex.data.mixture.text import Text
from trex.data.problem import DataError

ROWS = [
    {"text": "first\nline", "source": "a book", "licence": "MIT"},
    {"text": "ünï", "source": None, "licence": None},
    {"text": " ", "source": "blank", "licence": None},
    {"text": "last", "source": "b", "licence": ""},
]


def lines() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def stream(path: Path, rows: list[dict[str, str | None]]) -> None:
    table = pa.Table.from_pylist(rows)
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def saved(folder: Path, rows: list[dict[str, str | None]]) -> None:
    """A folder as `datasets.Dataset.save_to_disk` leaves it."""
    folder.mkdir(parents=True)
    stream(folder / "data-00000-of-00002.arrow", rows[:1])
    stream(folder / "data-00001-of-00002.arrow", rows[1:])
    files = [{"filename": f"data-0000{k}-of-00002.arrow"} for k in range(2)]
    (folder / "state.json").write_text(json.dumps({"_data_files": files, "_split": None}))
    (folder / "dataset_info.json").write_text("{}")


def as_jsonl(root: Path) -> Path:
    (root / "a.jsonl").write_bytes(lines())
    return root / "a.jsonl"


def as_gzip(root: Path) -> Path:
    (root / "a.jsonl.gz").write_bytes(gzip.compress(lines()))
    return root / "a.jsonl.gz"


def as_parquet(root: Path) -> Path:
    parquet.write_table(pa.Table.from_pylist(ROWS), root / "a.parquet", row_group_size=1)
    return root / "a.parquet"


def as_arrow_file(root: Path) -> Path:
    table = pa.Table.from_pylist(ROWS)
    with ipc.new_file(root / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    return root / "a.arrow"


def as_saved(root: Path) -> Path:
    saved(root / "saved", ROWS)
    return root / "saved"


def as_saved_splits(root: Path) -> Path:
    saved(root / "splits" / "test", ROWS[:1])
    saved(root / "splits" / "train", ROWS)
    (root / "splits" / "dataset_dict.json").write_text('{"splits": ["test", "train"]}')
    return root / "splits"


def as_folder(root: Path) -> Path:
    (root / "many" / "deep").mkdir(parents=True)
    (root / "many" / "a.jsonl").write_bytes(lines()[: lines().index(b"\n") + 1])
    parquet.write_table(pa.Table.from_pylist(ROWS[1:]), root / "many" / "deep" / "b.parquet")
    return root / "many"


@pytest.mark.parametrize(
    "made",
    [as_jsonl, as_gzip, as_parquet, as_arrow_file, as_saved, as_saved_splits, as_folder],
    ids=lambda f: f.__name__,
)
def test_all_formats_give_the_same_texts(made: Callable[[Path], Path], tmp_path: Path) -> None:
    found = list(texts(Source("s", 1.0, made(tmp_path).name, licence="CC0-1.0"), tmp_path))
    assert [(t.text, t.licence) if t else None for t in found] == [
        ("first\nline", "MIT"), ("ünï", "CC0-1.0"), None, ("last", "CC0-1.0"),
    ]  # fmt: skip
    assert found[0] and found[0].name == "a book" and found[3] and found[3].name == "b"


def test_the_datasets_library_s_own_folders(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_list(ROWS)
    data.select([3, 0]).save_to_disk(tmp_path / "saved", num_shards=2)
    assert [t and t.text for t in texts(Source("s", 1.0, "saved"), tmp_path)] == ["last", "first\nline"]
    datasets.DatasetDict({"train": data, "test": data.select([0])}).save_to_disk(tmp_path / "splits")
    assert len(list(texts(Source("s", 1.0, "splits"), tmp_path))) == 4
    assert len(list(texts(Source("s", 1.0, "splits", split="test"), tmp_path))) == 1


def test_documents_and_ingested_texts(tmp_path: Path) -> None:
    made = list(generate(2, seed=5, families=["knapsack"], difficulty=1))
    write_jsonl(tmp_path / "or" / "documents.jsonl", made)
    with (tmp_path / "or" / "documents.jsonl").open("ab") as file:
        file.write(json.dumps({"text": "a page", "source": "pages/1.html", "licence": "CC-BY-4.0"}).encode() + b"\n")
    found = list(texts(Source("or", 1.0, "or"), tmp_path))
    assert [t and t.text for t in found] == [made[0].text, made[1].text, "a page"]
    assert found[2] == Text("a page", "pages/1.html", "CC-BY-4.0")
    assert found[0] and found[0].licence == "MIT" and "knapsack" in found[0].name
    (tmp_path / "or" / "plan.json").write_text('{"plan": {"count": 9}}')
    with pytest.raises(DataError, match="holds 3 of the 9 documents"):
        list(texts(Source("or", 1.0, "or"), tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"body": "y"}\n', "a.jsonl, line 2 is"),
        ("a.jsonl", b'{"text": "x"}\nnot JSON\n', "a.jsonl, line 2"),
        ("a.jsonl", b'{"text": 3}\n', "a.jsonl, line 1: text is a int; accepted: text"),
        ("a.jsonl", b"[" * 100_000 + b"\n", "a.jsonl, line 1"),
        ("a.jsonl.gz", b"no gzip at all", "a.jsonl.gz cannot be read"),
        ("a.jsonl.gz", gzip.compress(lines() * 50)[:-20], "a.jsonl.gz cannot be read"),
        ("a.parquet", b"PAR1 nothing PAR1", "a.parquet cannot be read"),
        ("a.arrow", b"ARROW1 nothing", "a.arrow cannot be read"),
        ("a.txt", b"text", "accepted: files that end in .jsonl"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        list(texts(Source("s", 1.0, name), tmp_path))
    assert said in str(error.value)


@pytest.mark.parametrize("licence", [5, ["GPL-3.0"], {"name": "MIT"}, False])
def test_a_licence_that_is_no_text_is_not_replaced_by_another(licence: object, tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text(json.dumps({"text": "a page", "licence": licence}) + "\n")
    with pytest.raises(DataError, match=r"its licence is .*; accepted: a text"):
        list(texts(Source("s", 1.0, "own.jsonl", licence="MIT"), tmp_path))


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    as_parquet(tmp_path)
    with pytest.raises(DataError, match="no column 'content'; it has text, source, licence"):
        list(texts(Source("s", 1.0, "a.parquet", field="content"), tmp_path))


def test_splits_are_not_mixed_by_accident(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    for name in ("train-00000-of-00001", "test-00000-of-00001"):
        parquet.write_table(pa.table({"text": [name]}), tmp_path / "web" / f"{name}.parquet")
    with pytest.raises(DataError, match="the splits 'test', 'train'; accepted: one"):
        list(texts(Source("web", 1.0, "web"), tmp_path))
    found = list(texts(Source("web", 1.0, "web", split="train"), tmp_path))
    assert [t and t.text for t in found] == ["train-00000-of-00001"]
    with pytest.raises(DataError, match="split 'dev'"):
        list(texts(Source("web", 1.0, "web", split="dev"), tmp_path))


def test_a_saved_folder_leads_to_no_other_folder(tmp_path: Path) -> None:
    saved(tmp_path / "saved", ROWS)
    as_arrow_file(tmp_path)
    (tmp_path / "saved" / "state.json").write_text('{"_data_files": [{"filename": "../a.arrow"}]}')
    with pytest.raises(DataError, match="accepted: names of files in its folder"):
        list(texts(Source("s", 1.0, "saved"), tmp_path))


def test_a_limit_reads_the_first(tmp_path: Path) -> None:
    as_jsonl(tmp_path)
    assert [t and t.text for t in texts(Source("s", 1.0, "a.jsonl", limit=2), tmp_path)] == ["first\nline", "ünï"]


@pytest.mark.parametrize("kind", ["mathematics", "code", "text"])
def test_embedded_texts_state_package_version_and_licence(kind: str) -> None:
    found = list(islice(embedded(kind), 15))
    assert len(found) == 15 and found == list(islice(embedded(kind), 15))
    for text in found:
        name, version = text.package.rsplit(" ", 1)
        assert name and version[0].isdigit() and len(text.text) > 100
        assert text.licence and not NOT_OPEN.search(text.licence)
