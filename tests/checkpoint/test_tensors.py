"""safetensors files by pieces, against the library."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from trex.checkpoint import CheckpointError, manifest
from trex.checkpoint import tensors as implementation
from trex.checkpoint.manifest import problems, read_manifest, write_manifest
from trex.checkpoint.tensors import DTYPES, New, raw_bytes, read, read_header, read_tensor, whole, write

SAMPLES = {
    "matrix": torch.arange(15.0).view(3, 5).bfloat16(),
    "transposed": torch.arange(6.0).view(2, 3).T,
    "scale": torch.arange(16, dtype=torch.uint8).view(4, 4).view(torch.float8_e8m0fnu),
    "codes": torch.arange(256, dtype=torch.int64).to(torch.uint8).view(2, 128).view(torch.float8_e4m3fn),
    "table": torch.arange(7),
    "flag": torch.tensor([True, False]),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
    "empty": torch.empty(0, 3),
}


def equal(left: Tensor, right: Tensor) -> bool:
    same = left.dtype == right.dtype and left.shape == right.shape
    return same and torch.equal(raw_bytes(left.contiguous()), raw_bytes(right.contiguous()))


def craft(path: Path, header: object, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    written = write(path, [whole(name, tensor) for name, tensor in SAMPLES.items()], {"format": "pt"})
    read_back = load_file(path)
    assert read_back.keys() == SAMPLES.keys()
    assert all(equal(read_back[name], tensor) for name, tensor in SAMPLES.items())
    assert written.bytes == path.stat().st_size and list(tmp_path.iterdir()) == [path]
    assert written.from_dict(json.loads(json.dumps(written.to_dict()))) == written


@pytest.mark.parametrize("most", [1, 3, 1 << 20])
def test_what_the_library_writes_is_read(tmp_path: Path, most: int) -> None:
    path = tmp_path / "a.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in SAMPLES.items()}, path, {"format": "pt"})
    entries = read_header(path)
    assert entries.keys() == SAMPLES.keys()
    for name, tensor in SAMPLES.items():
        entry = entries[name]
        assert equal(read_tensor(path, entry), tensor)
        pieces = list(read(path, entry, most=most))
        assert all(len(piece) == most for piece in pieces[:-1])
        assert torch.equal(torch.cat([torch.empty(0, dtype=torch.uint8), *pieces]), raw_bytes(tensor.contiguous()))
    middle = torch.cat(list(read(path, entries["codes"], 7, 40, most=10)))
    assert torch.equal(middle, raw_bytes(SAMPLES["codes"])[7:40])


def test_every_dtype_that_is_named_is_the_librarys(tmp_path: Path) -> None:
    for name, dtype in DTYPES.items():
        path = tmp_path / f"{name}.safetensors"
        save_file({"x": torch.zeros(2, dtype=torch.uint8).view(torch.bool) if name == "BOOL"
                   else torch.zeros(16, dtype=torch.uint8).view(dtype)}, path)  # fmt: skip
        assert read_header(path)["x"].dtype == name


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (b"{{", b"", "not the JSON"),
        (b"[1]", b"", "it is no object"),
        (b'{"a":1,"a":2}', b"", "a name is there twice"),
        ({"a": 3}, b"", "a has dtype 3"),
        ({"a": {**GOOD, "dtype": "Q4"}}, bytes(8), "a has dtype 'Q4'; accepted: BOOL"),
        ({"a": {**GOOD, "dtype": ["F32"]}}, bytes(8), "a has dtype"),
        ({"a": {**GOOD, "shape": [-2]}}, bytes(8), r"a has shape \[-2\]"),
        ({"a": {**GOOD, "shape": [True]}}, bytes(8), r"a has shape \[True\]"),
        ({"a": {**GOOD, "shape": [10**4000, 10**4000]}}, bytes(8), "a has shape"),
        ({"a": {**GOOD, "shape": [1] * 20}}, bytes(8), "a has shape"),
        (json.dumps({"a": GOOD}).encode("utf-16"), bytes(8), "not the JSON"),
        (b'{"\\ud800":3}', b"", "not the JSON"),
        ({"a": {**GOOD, "data_offsets": [0]}}, bytes(8), r"data_offsets \[0\]"),
        ({"a": {**GOOD, "shape": [3]}}, bytes(8), r"a takes 8 bytes, not the 12 of F32 \[3\]"),
        ({"a": GOOD}, bytes(7), "a is truncated"),
        ({"a": GOOD}, bytes(9), "1 bytes belong to no tensor"),
        ({"a": GOOD, "b": {**GOOD, "data_offsets": [12, 20]}}, bytes(20), "b begins at byte"),
        ({"a": GOOD, "b": {**GOOD, "data_offsets": [4, 12]}}, bytes(12), "b begins at byte"),
    ],
)  # fmt: skip
def test_damaged_headers_are_refused(tmp_path: Path, header: object, data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_header(craft(tmp_path / "a.safetensors", header, data))


def test_files_that_are_no_safetensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for content, message in ((b"", "first 8 bytes"), (b"PK\x03\x04" * 4, "first 8 bytes"),
                             (struct.pack("<Q", 90) + b"{}", "header has 2 bytes, not 90")):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=message):
            read_header(path)
    with pytest.raises(CheckpointError, match="cannot be read: No such file"):
        read_header(tmp_path / "none.safetensors")


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write(path, [whole("a", torch.zeros(100))])
    entry = read_header(path)["a"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="ended while it was read"):
        list(read(path, entry))
    with pytest.raises(CheckpointError, match="ended while it was read"):
        read_tensor(path, entry)


def test_nothing_is_left_of_a_file_that_could_not_be_written(tmp_path: Path) -> None:
    def broken() -> Iterator[Tensor]:
        yield torch.zeros(1)
        raise RuntimeError("no more")

    path = tmp_path / "a.safetensors"
    for pieces, error in (
        (broken, RuntimeError),
        (lambda: iter([torch.zeros(1)]), CheckpointError),  # too few
        (lambda: iter([torch.zeros(3)]), CheckpointError),  # too many
        (lambda: iter([torch.zeros(2, dtype=torch.int32)]), CheckpointError),
    ):
        with pytest.raises(error):
            write(path, [New("a", "F32", (2,), pieces)])
        assert not list(tmp_path.iterdir())
    with pytest.raises(CheckpointError, match="a would be written twice"):
        write(path, [whole("a", torch.zeros(1)), whole("a", torch.zeros(1))])


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a raw file's write may do: take fewer bytes than it was given."""

    class Slow:
        def __init__(self) -> None:
            self.got = b""

        def write(self, view: memoryview) -> int:
            self.got += bytes(view[:7])
            return min(7, len(view))

        def tell(self) -> int:
            return len(self.got)

    stream, tensor = Slow(), torch.arange(10.0)
    implementation._write(stream, whole("a", tensor))
    assert stream.got == tensor.numpy().tobytes()


def test_manifests_name_what_was_altered(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    written = write(path, [whole(name, tensor) for name, tensor in SAMPLES.items()])
    (tmp_path / "note.json").write_text("{}")
    write_manifest(tmp_path, {path.name: written})
    counted: list[int] = []
    assert list(problems(tmp_path, counted.append)) == []
    assert sum(counted) == sum(tensor.nbytes for tensor in SAMPLES.values()) + 2
    content = bytearray(path.read_bytes())
    place = read_header(path)["table"].start
    content[place] ^= 4
    path.write_bytes(content)
    (tmp_path / "note.json").write_text("[]")
    assert list(problems(tmp_path)) == ["table in a.safetensors was altered", "note.json was altered"]
    (tmp_path / "note.json").unlink()
    path.unlink()
    gone = list(problems(tmp_path))
    assert gone[1] == "note.json is missing" and all(name in gone[0] for name in SAMPLES)


def test_damaged_manifests_are_refused(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    with pytest.raises(CheckpointError, match="has no trex_manifest"):
        list(problems(tmp_path))
    (tmp_path / "note.json").write_text("{}")
    write_manifest(tmp_path, {})
    path = tmp_path / "trex_manifest.json"
    whole_text = path.read_text()
    for text in (whole_text.replace('"bytes": 2', '"bytes": 3'), whole_text[:-4], whole_text[:-1], "[]"):
        path.write_text(text)
        with pytest.raises(CheckpointError, match="trex_manifest"):
            read_manifest(tmp_path)


@pytest.mark.parametrize(
    "files",
    [3, {"a": 3}, {"a": {}}, {"a": {"bytes": 1}}, {"a": {"bytes": 1, "tensors": {}}},
     {"../a": {"bytes": 1, "sha256": ""}},
     {"a": {"bytes": 1, "header": "", "tensors": {"b": 3}}}, {"/a": {"bytes": 1, "sha256": ""}}],
)  # fmt: skip
def test_manifests_of_another_structure_are_refused(tmp_path: Path, files: object) -> None:
    body = {"format": manifest.FORMAT, "files": files}
    (tmp_path / "trex_manifest.json").write_bytes(manifest.to_json({**body, "sha256": manifest._own_digest(body)}))
    with pytest.raises(CheckpointError, match=r"trex_manifest.json(: .* is outside| is no manifest)"):
        read_manifest(tmp_path)
