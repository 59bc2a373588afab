"""`trex checkpoint …` as a user types it: what is printed where, exit codes, and one-line errors."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from tests.checkpoint import sparse
from tests.checkpoint.local_hub import LocalHub, serve

from trex import cli
from trex.checkpoint import load_hf
from trex.checkpoint.tensors import read_header, read_tensor
from trex.checkpoint.training import TrainingState, save
from trex.model.config import ModelConfig
from trex.model.count import parameters
from trex.model.transformer import Transformer

CONFIG = ModelConfig.tiny()
Run = Callable[..., int]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def command(*words: object) -> int:
        monkeypatch.setattr(sys, "argv", ["trex", "checkpoint", *map(str, words)])
        return cli.main()

    return command


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A folder in the released layout, of random bytes that stand for finite numbers."""
    folder = sparse.folder(tmp_path / "released", CONFIG, sparse.released(CONFIG), files=2)
    generator = torch.Generator().manual_seed(3)
    ranges = {"F8_E8M0": (120, 130), "I8": (0, 256), "F8_E4M3": (0, 120)}
    for path in folder.glob("*.safetensors"):
        with path.open("r+b") as stream:
            for entry in read_header(path).values():
                stream.seek(entry.start)
                low, high = ranges.get(entry.dtype, (0, 1))
                stream.write(bytes(torch.randint(low, high, (entry.size,), generator=generator).tolist()))
    return folder


@pytest.fixture
def hub(released: Path) -> Iterator[LocalHub]:
    with serve(LocalHub(released)) as running:
        yield running


def test_inspect_prints_a_table_or_json(run: Run, released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", released) == 0
    text = capsys.readouterr().out
    assert f"{parameters(CONFIG).total:,} parameters" in text and "official" in text and "FP4 with scale" in text
    assert "no problems" in text
    assert run("inspect", released, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == "official" and found["model"]["hidden_size"] == 64 and found["problems"] == []
    next(released.glob("*-00002-*")).unlink()
    assert run("inspect", released) == 1
    assert "model-00002-of-00002.safetensors" in capsys.readouterr().out


def test_dequantize_convert_verify(
    run: Run, released: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FP4 and FP8 to BF16 under transformers' names and back to FP4: the numbers are those that were stored."""
    bf16, theirs, again = (tmp_path / name for name in ("bf16", "theirs", "again"))
    assert run("dequantize", released, bf16, "--workers", 1) == 0
    assert run("convert", bf16, theirs, "--names", "transformers") == 0
    assert run("convert", theirs, again, "--names", "official", "--precision", "fp4") == 0
    assert run("dequantize", again, tmp_path / "last") == 0
    capsys.readouterr()
    for folder, kinds in (
        (bf16, {"BF16", "F32", "I64"}),
        (again, {"FP8 with scale", "FP4 with scale", "BF16", "F32", "I64"}),
    ):
        assert run("inspect", folder, "--json") == 0
        assert set(json.loads(capsys.readouterr().out)["stored"]) == kinds
    before, after = (
        {n: (p, e) for p in f.glob("*.safetensors") for n, e in read_header(p).items()}
        for f in (bf16, tmp_path / "last")
    )
    assert before.keys() == after.keys()
    for name in before:
        assert torch.equal(read_tensor(*before[name]), read_tensor(*after[name])), name
    assert run("verify", bf16) == 0
    victim = next(bf16.glob("*.safetensors"))
    with victim.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last[0] ^ 1]))
    (bf16 / "config.json").unlink()
    capsys.readouterr()
    assert run("verify", bf16) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and "config.json is missing" in lines[0] and lines[1].endswith("was altered")


def test_export_writes_a_training_checkpoint_as_a_folder_of_weights(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Transformer(CONFIG, seed=1)
    folder = save(tmp_path / "step-1", TrainingState(model, documents={"config": asdict(CONFIG)}))
    target = tmp_path / "theirs"
    assert run("export", folder, target, "--names", "transformers") == 0
    assert capsys.readouterr().out == f"{target}\n"
    loaded = load_hf(target).state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in model.state_dict().items())
    assert "model.embed_tokens.weight" in read_header(target / "model.safetensors")
    for words, said in (((folder, target), "exists"), ((tmp_path / "none", tmp_path / "x"), "no checkpoint at")):
        assert run("export", *words) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and said in captured.err and captured.err.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_verify_without_a_manifest_says_so(run: Run, released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", released) == 0
    captured = capsys.readouterr()
    assert "no hashes" in captured.err and captured.out == f"{released}: no problems\n"
    path = next(released.glob("*-00001-*"))
    os.truncate(path, path.stat().st_size - 8)
    assert run("verify", released) == 1
    assert "is truncated" in capsys.readouterr().out


def test_errors_are_one_line_and_exit_code_2(
    run: Run, released: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(released, tmp_path / "other")
    (tmp_path / "other" / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "trex_manifest.json").write_text("{}")
    for words, said in (
        (("inspect", tmp_path / "none"), "no folder at"),
        (("verify", tmp_path / "none"), "no folder at"),
        (("verify", tmp_path / "damaged"), "is damaged"),
        (("dequantize", tmp_path / "other", tmp_path / "x"), "model_type = 'llama'"),
        (("convert", tmp_path / "none", tmp_path / "x"), "no folder at"),
    ):
        assert run(*words) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and said in captured.err, captured
        assert captured.err.count("\n") == 1 and captured.err.startswith("trex: ")
    assert not (tmp_path / "x").exists()


def test_an_error_that_is_not_ours_is_not_hidden(run: Run, released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trex.checkpoint.inspect.report", lambda found: int("a mistake in the program"))
    with pytest.raises(ValueError, match="a mistake"):
        run("inspect", released)


def shell(*words: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    plain = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    command = [sys.executable, "-m", "trex", *map(str, words)]
    return subprocess.run(command, env={**plain, **environment}, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("name", ["huggingface", "modelscope"])
def test_download_from_the_command_line(name: str, hub: LocalHub, tmp_path: Path) -> None:
    """A process of its own, pointed at the local hub by the environment as a user would."""
    if name == "modelscope":
        pytest.importorskip("modelscope_hub", reason="the extra modelscope is not installed")
    environment = {
        "HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "MODELSCOPE_ENDPOINT": hub.address,
        "MODELSCOPE_HOME": str(tmp_path / "home"), "MODELSCOPE_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip
    folder = tmp_path / "model"
    words = (
        "checkpoint",
        "download",
        "lab/tiny",
        folder,
        "--hub",
        name,
        "--exclude",
        "*.index.json",
        "--exclude",
        "*-00002-*",
    )
    done = shell(*words, **environment)
    assert done.returncode == 0 and "2 files" in done.stdout, done.stderr
    got = {path.name for path in folder.iterdir()}
    assert got == {"config.json", "model-00001-of-00002.safetensors", "trex_manifest.json"}
    lost = shell("checkpoint", "download", "lab/none", tmp_path / "lost", "--hub", name, **environment)
    assert lost.returncode == 2 and "trex: no model 'lab/none'" in lost.stderr.splitlines()[-1]
    assert "Traceback" not in lost.stderr


def test_help_imports_neither_torch_nor_transformers() -> None:
    watched = (
        "import runpy, sys\n"
        "sys.argv = ['trex', 'checkpoint', '--help']\n"
        "try:\n"
        "    runpy.run_module('trex', run_name='__main__')\n"
        "finally:\n"
        "    print(sorted({'torch', 'transformers', 'huggingface_hub'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, timeout=120)
    assert "dequantize" in done.stdout and done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
