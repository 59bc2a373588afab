"""Downloads through the clients of both hubs from a hub on this machine: resumed, hashed, refused when altered."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.checkpoint.local_hub import COMMIT, LocalHub, serve

from trex.checkpoint import download as implementation
from trex.checkpoint.download import choose, download
from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.hubs import HuggingFace, ModelScope, Remote, open_hub
from trex.checkpoint.manifest import MANIFEST, problems, read_manifest

SHARD, OTHER = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
WANTED = {"LICENSE", "README.md", "config.json", "encoding/encoding_dsv4.py", SHARD, OTHER, "tokenizer.json"}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LocalHub]:
    source = tmp_path / "hub"
    (source / "encoding").mkdir(parents=True)
    (source / "inference").mkdir()
    generator = torch.Generator().manual_seed(1)
    save_file({"a": torch.randn(300, 1000, generator=generator), "b": torch.arange(7)}, source / SHARD)
    save_file({"c": torch.randn(50, 100, generator=generator)}, source / OTHER)
    small = ("LICENSE", "README.md", "config.json", "encoding/encoding_dsv4.py", "inference/model.py", "image.png")
    for name in small:
        (source / name).write_text(f'{{"this": "is {name}"}}')
    (source / "tokenizer.json").write_text(json.dumps({"vocab": list(range(1000))}))
    (source / "pytorch_model.bin").write_bytes(b"pickled" * 1000)
    with serve(LocalHub(source)) as running:
        yield running


@pytest.fixture(params=["huggingface", "modelscope"])
def client(request: pytest.FixtureRequest, hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Opens a repository of the local hub through the real client."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "HF_TOKEN", "MODELSCOPE_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1 << 16)  # what it may lose when cut
    if request.param == "modelscope":
        inner = pytest.importorskip("modelscope_hub._download", reason="the extra modelscope is not installed")
        monkeypatch.setenv("MODELSCOPE_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("MODELSCOPE_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(inner, "DOWNLOAD_INTEGRITY_RETRY_BACKOFF", 0.01)
        return lambda repo="lab/tiny", revision=None, at=None: ModelScope(repo, revision, at or hub.address)
    return lambda repo="lab/tiny", revision=None, at=None: HuggingFace(repo, revision, at or hub.address)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_weights_and_tokenizer_arrive_with_a_manifest(hub: LocalHub, client: Any, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    got = download(client(), folder)
    assert names(folder) == WANTED | {MANIFEST} and set(got.files) == WANTED and got.unhashed == ()
    assert all((folder / name).read_bytes() == (hub.folder / name).read_bytes() for name in WANTED)
    files = read_manifest(folder)
    assert files is not None and set(files) == WANTED and set(files[SHARD]["tensors"]) == {"a", "b"}
    assert list(problems(folder)) == []
    with (folder / SHARD).open("r+b") as stream:
        stream.seek(5000)
        byte = stream.read(1)
        stream.seek(5000)
        stream.write(bytes([byte[0] ^ 4]))
    assert list(problems(folder)) == [f"a in {SHARD} was altered"]
    hub.asked.clear()
    download(client(), folder)  # the altered file alone is large and wrong
    assert list(problems(folder)) == [] and OTHER not in {name for name, _ in hub.asked}


def test_a_dropped_connection_is_resumed_where_it_stopped(hub: LocalHub, client: Any, tmp_path: Path) -> None:
    hub.cut[SHARD] = 400_000
    download(client(), tmp_path / "model")
    ranges = [wanted for name, wanted in hub.asked if name == SHARD]
    assert len(ranges) == 2 and ranges[0] is None and ranges[1] is not None
    start = int(ranges[1].removeprefix("bytes=").rstrip("-"))
    assert 0 < start <= 400_000
    assert (tmp_path / "model" / SHARD).read_bytes() == (hub.folder / SHARD).read_bytes()


def test_a_killed_download_goes_on(hub: LocalHub, client: Any, tmp_path: Path) -> None:
    """SIGKILL in the middle of a file: whole files are not fetched again; ModelScope's client goes on in the file."""
    folder, run = tmp_path / "model", client()
    hub.halted[SHARD] = 1_150_000
    program = (
        "import sys; from pathlib import Path; from trex.checkpoint import download, hubs\n"
        "download.download(getattr(hubs, sys.argv[1])('lab/tiny', None, sys.argv[2]), Path(sys.argv[3]))"
    )
    command = [sys.executable, "-c", program, type(run).__name__, hub.address, str(folder)]
    part = folder / f"{SHARD}.incomplete"  # of ModelScope's client

    def known(name: str) -> bool:
        """Whether Hugging Face's client has written down what it knows of a file, three lines behind the file."""
        path = folder / ".cache" / "huggingface" / "download" / f"{name}.metadata"
        return path.is_file() and len(path.read_text().splitlines()) == 3

    def arrived() -> bool:
        if not names(folder) >= WANTED - {SHARD}:
            return False
        if isinstance(run, ModelScope):
            return part.is_file() and part.stat().st_size > 0
        return all(known(name) for name in WANTED - {SHARD})

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            assert hub.reached.wait(120)
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not arrived():
                time.sleep(0.05)
        finally:
            process.kill()
    hub.go_on.set()
    assert WANTED - {SHARD} <= names(folder) and not {SHARD, MANIFEST} & names(folder)
    hub.asked.clear()
    download(run, folder)
    assert {name for name, _ in hub.asked} == {SHARD} and list(problems(folder)) == []
    assert names(folder) == WANTED | {MANIFEST}
    if isinstance(run, ModelScope):
        ((_, wanted),) = hub.asked
        assert wanted is not None and 0 < int(wanted.removeprefix("bytes=").rstrip("-")) <= 1_150_000


def test_an_altered_file_is_named_and_removed_alone(hub: LocalHub, client: Any, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    hub.altered |= {OTHER, "config.json"}
    with pytest.raises(CheckpointError) as caught:
        download(client(), folder)
    assert OTHER in str(caught.value) and "config.json" in str(caught.value) and SHARD not in str(caught.value)
    assert not names(folder) & {OTHER, "config.json", MANIFEST}
    assert (folder / SHARD).read_bytes() == (hub.folder / SHARD).read_bytes()
    hub.altered.clear()
    download(client(), folder)
    assert list(problems(folder)) == []


def test_clear_errors(hub: LocalHub, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(CheckpointError, match="no model 'lab/none'"):
        download(client("lab/none"), tmp_path / "a")
    with pytest.raises(CheckpointError, match=r"could not be fetched from http://127.0.0.1:9"):
        download(client(at="http://127.0.0.1:9"), tmp_path / "b")
    hub.gated = True
    with pytest.raises(CheckpointError, match=r"is gated.*log in"):
        download(client(), tmp_path / "c")
    hub.gated = False
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 90, 10))
    with pytest.raises(CheckpointError, match=r"needs 0.3 GiB and its disk has 0.0 GiB free"):
        download(client(), tmp_path / "d")
    assert not (tmp_path / "d").exists() and hub.asked == []


def test_errors_of_hugging_face_alone(hub: LocalHub) -> None:
    with pytest.raises(CheckpointError, match="has no revision 'v9'"):
        HuggingFace("lab/tiny", "v9", hub.address).files()
    with pytest.raises(CheckpointError, match="'a/b/c' names no repository"):
        HuggingFace("a/b/c", None, hub.address).files()
    with pytest.raises(CheckpointError, match="hub = 'github'; accepted: huggingface, modelscope"):
        open_hub("github", "lab/tiny")
    run = HuggingFace("lab/tiny", None, hub.address)
    files = {file.name: file for file in run.files()}
    assert run.revision == COMMIT
    assert files[SHARD].sha256 and not files[SHARD].blob and files["config.json"].blob


def test_what_is_chosen() -> None:
    files = [Remote(name, 1) for name in ("a.safetensors", "b.bin", "c.py", "encoding/d.py", "e.pt", "f[1].json")]
    assert [file.name for file in choose(files)] == ["a.safetensors", "encoding/d.py", "f[1].json"]
    assert [file.name for file in choose(files, include=["*"])] == [
        "a.safetensors",
        "c.py",
        "encoding/d.py",
        "f[1].json",
    ]
    assert [file.name for file in choose(files, exclude=["*.json", "enc*"])] == ["a.safetensors"]
    with pytest.raises(CheckpointError, match="none of the 6 files"):
        choose(files, include=["*.bin"])
    with pytest.raises(CheckpointError, match="outside of the folder"):
        choose([Remote("../a.json", 1)])


def test_a_wrong_hash_is_found_whatever_the_kind(tmp_path: Path) -> None:
    """A hub that gives SHA-256, git's SHA-1 or nothing; only sizes are left to compare in the last case."""
    (tmp_path / "a.json").write_bytes(b"hello\n")
    # printf 'hello\n' | sha256sum; printf 'hello\n' | git hash-object --stdin
    right = (
        "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        "ce013625030ba8dba906f756967f9e9ca394464a",
    )

    def problem(size: int = 6, sha256: str | None = None, blob: str | None = None) -> str | None:
        return implementation._problem(tmp_path / "a.json", Remote("a.json", size, sha256, blob), {}, lambda size: None)

    assert problem() is None and problem(sha256=right[0]) is None and problem(blob=right[1]) is None
    assert "SHA-256" in str(problem(sha256=right[0][::-1])) and "SHA-1" in str(problem(blob=right[1][::-1]))
    assert problem(size=7) == "a.json has 6 bytes, not 7"
