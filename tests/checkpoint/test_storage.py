"""The storage for torch.distributed.checkpoint: what torch saves comes back under any sharding, and never pickled."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from trex.checkpoint import manifest
from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.storage import Reader, Writer
from trex.checkpoint.tensors import DTYPES, Written, read_header
from trex.checkpoint.together import Together
from trex.launch import ranks

ALONE = Together(alone=True)


def matrix(rows: int = 7, columns: int = 5) -> Tensor:
    return torch.arange(rows * columns, dtype=torch.float32).view(rows, columns)


def save(folder: Path, state: dict[str, object]) -> Path:
    ALONE.checkpoint(dcp.save, state, storage_writer=Writer(folder))
    return folder


def load(folder: Path, state: dict[str, object]) -> None:
    ALONE.checkpoint(dcp.load, state, storage_reader=Reader(folder))


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_every_dtype_and_shape_comes_back(tmp_path: Path, dtype: torch.dtype) -> None:
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (6, 8), generator=torch.Generator().manual_seed(1))
    one = raw.to(torch.uint8).view(dtype)
    tensors = {"matrix": one, "part": one[1:5, :1], "turned": one.t(), "scalar": one[0, 0].clone(), "none": one[:0]}
    save(tmp_path, {"nested": dict(tensors)})
    found = {"nested": {name: torch.zeros_like(value) for name, value in tensors.items()}}
    load(tmp_path, found)
    for name, value in tensors.items():
        ours, theirs = (t.contiguous().reshape(-1).view(torch.uint8) for t in (value, found["nested"][name]))
        assert torch.equal(ours, theirs), name


def test_the_files_are_safetensors_and_json_with_the_hash_of_every_tensor(tmp_path: Path) -> None:
    save(tmp_path, {"a.weight": matrix(), "step": torch.tensor(3)})
    assert {p.name for p in tmp_path.iterdir()} == {
        "rank-00000.safetensors",
        "trex_manifest.json",
        "trex_metadata.json",
    }
    theirs = load_file(tmp_path / "rank-00000.safetensors")
    assert torch.equal(theirs["a.weight"], matrix()) and theirs["step"] == 3
    said = json.loads((tmp_path / "trex_manifest.json").read_text())["files"]["rank-00000.safetensors"]["tensors"]
    assert said["a.weight"] == ["F32", [7, 5], hashlib.sha256(matrix().numpy().tobytes()).hexdigest()]
    assert list(manifest.problems(tmp_path)) == []


def test_what_would_be_pickled_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"bad is no tensor .*pickled; worse is no tensor.*; z is torch.complex64"
    ):
        save(
            tmp_path / "x", {"a": matrix(), "bad": {1, 2}, "worse": "text", "z": torch.zeros(2, dtype=torch.complex64)}
        )
    assert list((tmp_path / "x").iterdir()) == []


def test_only_what_is_asked_for_is_read_and_all_damage_to_it_is_named(tmp_path: Path) -> None:
    save(tmp_path, {name: matrix() + k for k, name in enumerate(("first", "second", "third"))})
    path = tmp_path / "rank-00000.safetensors"
    raw, entries = bytearray(path.read_bytes()), read_header(path)
    for name in ("first", "third"):
        raw[entries[name].end - 1] ^= 1
    path.write_bytes(raw)
    found = {"second": torch.zeros(7, 5)}
    load(tmp_path, found)
    assert torch.equal(found["second"], matrix() + 1)
    with pytest.raises(CheckpointError, match=r"is damaged: first in rank-.* was altered; third in .* was altered$"):
        load(tmp_path, {name: torch.zeros(7, 5) for name in entries})
    assert Reader(tmp_path).problems() == [f"{n} in rank-00000.safetensors was altered" for n in ("first", "third")]


LIES = [
    {"format": "other"},
    {"tensors": 1},
    {"tensors": {"a": {"dtype": "F64", "shape": [2], "chunks": [{"offsets": [0], "sizes": [2], "key": "a"}]}}},
    {"tensors": {"a": {"dtype": "F32", "shape": [3], "chunks": [{"offsets": [0], "sizes": [3], "key": "a"}]}}},
    {"tensors": {"a": {"dtype": "F32", "shape": [2], "chunks": [{"offsets": [0], "sizes": [2], "key": "b"}]}}},
]


@pytest.mark.parametrize("lie", LIES)
def test_metadata_that_does_not_fit_the_manifest_is_refused(tmp_path: Path, lie: dict[str, object]) -> None:
    save(tmp_path, {"a": torch.ones(2)})
    path = tmp_path / "trex_metadata.json"
    text = json.dumps({**json.loads(path.read_text()), **lie}).replace(
        '"key"', '"file": "rank-00000.safetensors", "key"'
    )
    path.write_text(text)
    with pytest.raises(CheckpointError, match=r"trex_metadata\.json was altered"):
        Reader(tmp_path).read_metadata()
    tensors = {name: (e.dtype, e.shape, "0") for name, e in read_header(tmp_path / "rank-00000.safetensors").items()}
    manifest.write_manifest(tmp_path, {"rank-00000.safetensors": Written(1, "0", tensors)})
    with pytest.raises(CheckpointError, match=r"trex_metadata\.json describes no tensors"):
        Reader(tmp_path).read_metadata()


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        Reader(tmp_path / "nothing").read_metadata()
    with pytest.raises(CheckpointError, match="no manifest that lists"):
        Reader(tmp_path).read_metadata()


@pytest.mark.slow
def test_shards_are_put_together_under_any_placement(tmp_path: Path) -> None:
    """Saved by 3 ranks in rows, uneven and with an empty shard; read by 2 in columns and replicated, and by 1."""

    def write(rank: int, folder: Path) -> None:
        mesh = init_device_mesh("cpu", (3,))
        state = {"seven": distribute_tensor(matrix(), mesh, [Shard(0)]), "two": distribute_tensor(
            matrix(2, 5), mesh, [Shard(0)]), "same": matrix(3, 3)}  # fmt: skip
        Together().checkpoint(dcp.save, state, storage_writer=Writer(folder))

    def read(rank: int, folder: Path) -> dict[str, Tensor]:
        mesh = init_device_mesh("cpu", (2,))
        state = {"seven": distribute_tensor(torch.zeros(7, 5), mesh, [Shard(1)]), "two": distribute_tensor(
            torch.zeros(2, 5), mesh, [Replicate()]), "same": torch.zeros(3, 3)}  # fmt: skip
        Together().checkpoint(dcp.load, state, storage_reader=Reader(folder))
        return {name: t.full_tensor() if isinstance(t, DTensor) else t for name, t in state.items()}

    ranks.run(write, 3, tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 3 and list(manifest.problems(tmp_path)) == []
    assert "seven@3,0" in read_header(tmp_path / "rank-00001.safetensors")
    alone = {"seven": torch.zeros(7, 5), "two": torch.zeros(2, 5), "same": torch.zeros(3, 3)}
    load(tmp_path, alone)
    for found in [alone, *ranks.run(read, 2, tmp_path)]:
        assert torch.equal(found["seven"], matrix()) and torch.equal(found["two"], matrix(2, 5))
        assert torch.equal(found["same"], matrix(3, 3))
