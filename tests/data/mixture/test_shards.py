"""Packed rows: the documents come back, whatever their lengths."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from trex.data.mixture import shards
from trex.data.problem import DataError


@settings(max_examples=80, deadline=None)
@given(
    lengths=st.lists(st.integers(2, 40), min_size=1, max_size=12), seq_len=st.integers(1, 16), first=st.integers(0, 9)
)
def test_documents_come_back_and_every_position_is_where_it_was(lengths: list[int], seq_len: int, first: int) -> None:
    made = [np.array([100 * k + i for i in range(n)], dtype=np.int32) for k, n in enumerate(lengths)]
    content = shards.packed(made, first, seq_len)
    for token, label, document, position in zip(
        *(getattr(content, name).reshape(-1).tolist() for name in shards.COLUMNS), strict=True
    ):
        if document < 0:
            assert label == -100 and position == 0
        else:  # a token says which document and place it is of
            assert (document - first, position) == divmod(token, 100) and label == token + 1
    assert (content.doc_ids >= 0).sum() == sum(lengths) - len(lengths)
    found = list(shards.documents(content))
    assert [number for number, _ in found] == list(range(first, first + len(made)))
    assert all((one == other).all() for (_, one), other in zip(found, made, strict=True))


def test_a_file_holds_them(tmp_path: Path) -> None:
    made = [np.arange(n, dtype=np.int32) for n in (5, 70, 9, 33)]
    content = shards.packed(made, 7, 16)
    shards.write(tmp_path / "a.parquet", content)
    read = shards.read(tmp_path / "a.parquet")
    assert all((getattr(read, name) == getattr(content, name)).all() for name in shards.COLUMNS)
    table = parquet.read_table(tmp_path / "a.parquet")  # as others see it
    assert table["tokens"].to_pylist() == content.tokens.tolist()
    assert read.rows.targets == sum(len(d) - 1 for d in made)


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({name: [[1, 2], [3]] for name in shards.COLUMNS}), tmp_path / "ragged.parquet")
    parquet.write_table(pa.table({"text": ["a"]}), tmp_path / "other.parquet")
    (tmp_path / "bytes.parquet").write_bytes(b"PAR1")
    for name in ("ragged", "other", "bytes", "none"):
        with pytest.raises(DataError, match=r"holds no packed rows|cannot be read"):
            shards.read(tmp_path / f"{name}.parquet")
