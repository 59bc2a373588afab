"""Exports for Megatron, read by a reader of the test's own and, where it is installed, by Megatron's."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trex.commands.data_export import export
from trex.data.mixture import megatron
from trex.data.mixture.build import build
from trex.data.mixture.folder import Mixture
from trex.data.mixture.recipe import Recipe, Source
from trex.data.problem import DataError

Write = Callable[..., Path]
DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}  # of the format


def entries(prefix: Path) -> list[list[int]]:
    """The documents of PREFIX.bin and PREFIX.idx, read byte by byte as the format has them."""
    index, data = prefix.with_suffix(".idx").read_bytes(), prefix.with_suffix(".bin").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0"
    version, code, sequences, bounds = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    place = 9 + 25
    lengths = struct.unpack_from(f"<{sequences}i", index, place)
    pointers = struct.unpack_from(f"<{sequences}q", index, place + 4 * sequences)
    documents = struct.unpack_from(f"<{bounds}q", index, place + 12 * sequences)
    assert len(index) == place + 12 * sequences + 8 * bounds
    kind = np.dtype(DTYPES[code])
    assert sum(lengths) * kind.itemsize == len(data)
    assert documents == tuple(range(sequences + 1))
    return [
        np.frombuffer(data, kind, length, pointer).tolist() for length, pointer in zip(lengths, pointers, strict=True)
    ]


@pytest.fixture
def mixture(write: Write, tmp_path: Path) -> Mixture:
    write("or", 30)
    base = write("web", 10).parent
    sources = (Source("or", 2.0, "or.jsonl"), Source("web", 1.0, "web.jsonl"))
    return build(Recipe("m", sources, 32, held_out=0.1, shard_tokens=300), tmp_path / "mixture", base)


def test_the_same_tokens_come_back(mixture: Mixture, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(mixture.folder, tmp_path / "out", "megatron") == 0
    assert "train_text_document" in capsys.readouterr().out
    stated = json.loads((tmp_path / "out" / "megatron.json").read_text())
    for split in ("train", "validation"):
        found = entries(tmp_path / "out" / f"{split}_text_document")
        assert found == [ids.tolist() for ids in mixture.documents(split)]
        assert all(ids[-1] == stated["tokenizer"]["end"] for ids in found)
        assert (
            stated["splits"][split]["tokens"] == sum(map(len, found)) and stated["splits"][split]["dtype"] == "uint16"
        )
    assert (tmp_path / "out" / "trex_tokenizer.json").read_bytes() == mixture.tokenizer().body


def test_megatron_core_reads_the_same(mixture: Mixture, tmp_path: Path) -> None:
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    megatron.export(mixture, tmp_path / "out")
    documents = [np.array([0, 70_000 + k, 1], dtype=np.int32) for k in range(5)]
    megatron.write(tmp_path / "large", documents, 129_280)
    for prefix, expected in (
        (tmp_path / "out" / "train_text_document", list(mixture.documents("train"))),
        (tmp_path / "out" / "validation_text_document", list(mixture.documents("validation"))),
        (tmp_path / "large", documents),
    ):
        for mmap in (True, False):
            read = indexed.IndexedDataset(str(prefix), mmap=mmap)
            assert len(read) == len(expected)
            assert [read[k].tolist() for k in range(len(read))] == [ids.tolist() for ids in expected]
            assert read.document_indices.tolist() == list(range(len(expected) + 1))


@pytest.mark.parametrize(("vocab_size", "code"), [(65_499, 8), (65_500, 4), (129_280, 4)])
def test_ids_of_any_vocabulary_fit(vocab_size: int, code: int, tmp_path: Path) -> None:
    documents = [np.array([0, vocab_size - 1, 1], dtype=np.int32), np.array([0, 1], dtype=np.int32)]
    megatron.write(tmp_path / "a.b", documents, vocab_size)
    assert (tmp_path / "a.b.idx").read_bytes()[17] == code
    (tmp_path / "a.b.idx").rename(tmp_path / "c.idx")
    (tmp_path / "a.b.bin").rename(tmp_path / "c.bin")
    assert entries(tmp_path / "c") == [[0, vocab_size - 1, 1], [0, 1]]


def test_a_recipe_becomes_both_formats(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("or", 12)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("{name: a, seq_len: 16, sources: [{name: or, path: or.jsonl, weight: 1}]}")
    assert export(recipe, tmp_path / "rows") == 0
    assert "train" in capsys.readouterr().out
    assert export(recipe, tmp_path / "pairs", "megatron") == 0
    found = entries(tmp_path / "pairs" / "train_text_document")
    assert found == [ids.tolist() for ids in Mixture.open(tmp_path / "rows").documents("train")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["or.jsonl", "pairs", "recipe.yaml", "rows"]
    with pytest.raises(FileExistsError, match="accepted: another folder, or --replace"):
        export(recipe, tmp_path / "rows")
    assert export(recipe, tmp_path / "rows", replace=True) == 0
    with pytest.raises(DataError, match="a mixture already"):
        export(tmp_path / "rows", tmp_path / "more")
