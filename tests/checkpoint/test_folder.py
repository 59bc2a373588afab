"""A checkpoint comes back bit for bit, appears whole or not at all, and is refused when damaged."""

import json
import os
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from trex import checkpoint
from trex.checkpoint import Checkpoint, CheckpointError
from trex.checkpoint import folder as implementation
from trex.checkpoint.names import to_transformers
from trex.model.config import HEAVY, SPARSE, ModelConfig
from trex.model.transformer import Transformer

CONFIG = ModelConfig.tiny(num_layers=2, compress_ratios=(SPARSE, HEAVY), hash_layers=1, vocab_size=300)
TOKENS = torch.randint(0, 300, (2, 140), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def model() -> Transformer:
    return Transformer(CONFIG, seed=4)


@pytest.fixture
def saved(model: Transformer, tmp_path: Path) -> Path:
    tensors = {"optimizer": {"exp_avg/a": torch.arange(6.0).view(2, 3).t(), "step/a": torch.tensor(3.0)}}
    return checkpoint.save(Checkpoint(model, {"tokenizer": {"ids": [0, 1]}}, tensors), tmp_path / "one")


def reseal(folder: Path) -> None:
    """Make the manifest agree with the files again, as someone would who alters a checkpoint on purpose."""
    names = [p.name for p in folder.iterdir() if p.name != "manifest.json"]
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = {name: implementation._fingerprint(folder / name) for name in names}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_reload_gives_identical_logits_and_everything_else(model: Transformer, saved: Path) -> None:
    loaded = checkpoint.load(saved)
    assert loaded.model.config == CONFIG
    with torch.no_grad():
        found, expected = loaded.model(TOKENS), model(TOKENS)
    assert torch.equal(found.logits, expected.logits) and torch.equal(found.mtp_logits, expected.mtp_logits)
    assert loaded.documents == {"tokenizer": {"ids": [0, 1]}}
    assert torch.equal(loaded.tensors["optimizer"]["exp_avg/a"], torch.arange(6.0).view(2, 3).t())
    state = model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in loaded.model.state_dict().items())
    assert all(p.requires_grad for p in loaded.model.parameters())


def test_the_dtype_is_kept(model: Transformer, tmp_path: Path) -> None:
    folder = checkpoint.save(Checkpoint(model.double()), tmp_path / "double")
    assert checkpoint.load(folder).model.head.weight.dtype == torch.float64


def test_save_load_save_is_byte_identical(saved: Path, tmp_path: Path) -> None:
    again = checkpoint.save(checkpoint.load(saved), tmp_path / "two")
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == {p.name: p.read_bytes() for p in again.iterdir()}
    assert {p.name for p in saved.iterdir()} == {
        "config.json", "manifest.json", "model.safetensors", "optimizer.safetensors", "tokenizer.json",
    }  # fmt: skip


def test_weights_are_plain_safetensors_that_make_transformers_model(model: Transformer, saved: Path) -> None:
    """The file's trunk, renamed, in transformers' own implementation: no name missing, none extra, the same logits."""
    from transformers import DeepseekV4ForCausalLM

    weights = load_file(saved / "model.safetensors")
    assert {"embed.weight", "layers.1.ffn.experts.w1", "mtp.0.e_proj.weight"} < weights.keys()
    theirs = DeepseekV4ForCausalLM(CONFIG.to_hf())
    theirs.load_state_dict(to_transformers(weights))
    with torch.no_grad():
        difference = theirs(input_ids=TOKENS).logits - model(TOKENS).logits
    assert difference.abs().max() < 1e-5


def test_a_folder_of_another_format_is_refused(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps({**manifest, "format": "trex-checkpoint-1"}))
    with pytest.raises(CheckpointError, match="not a manifest of format 'trex-checkpoint-2'"):
        checkpoint.load(saved)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.999])
def test_a_truncated_file_is_refused_by_name(saved: Path, name: str, kept: float) -> None:
    size = (saved / name).stat().st_size
    os.truncate(saved / name, int(size * kept))
    with pytest.raises(CheckpointError, match=f"{name} has {int(size * kept)} bytes, not {size}"):
        checkpoint.load(saved)


def test_flipped_bits_are_refused(saved: Path) -> None:
    draw = random.Random(0)
    for _ in range(40):
        path = draw.choice(sorted(saved.iterdir()))
        before = path.read_bytes()
        place, bit = draw.randrange(len(before)), draw.randrange(8)
        path.write_bytes(before[:place] + bytes([before[place] ^ 1 << bit]) + before[place + 1 :])
        with pytest.raises(CheckpointError, match=r"\." if path.name == "manifest.json" else path.name):
            implementation._verified(saved)
        path.write_bytes(before)
    checkpoint.load(saved)


def test_a_missing_file_is_named(saved: Path, tmp_path: Path) -> None:
    (saved / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is missing"):
        checkpoint.load(saved)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        checkpoint.load(tmp_path / "nothing")


def test_all_wrong_tensors_are_listed(saved: Path) -> None:
    weights = load_file(saved / "model.safetensors")
    del weights["head.weight"]
    weights["extra"] = torch.zeros(1)
    weights["norm.weight"] = torch.ones(7)
    weights["hc_head_base"] = torch.full((4,), float("nan"))
    save_file(weights, saved / "model.safetensors")
    reseal(saved)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(saved)
    for part in (
        "head.weight is missing",
        "extra belongs to no part",
        "norm.weight is torch.float32 [7]",
        "hc_head_base is not finite",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize("change", [{"num_heads": -1}, {"unknown": 1}, {"compress_ratios": 4}])
def test_a_config_of_no_model_is_refused(saved: Path, change: dict[str, object]) -> None:
    body = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**body, **change}))
    reseal(saved)
    with pytest.raises(CheckpointError, match="describes no model"):
        checkpoint.load(saved)


def test_no_pickle_is_read(saved: Path) -> None:
    torch.save({"head.weight": torch.zeros(1)}, saved / "model.safetensors")
    reseal(saved)
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        checkpoint.load(saved)


def test_a_path_outside_the_folder_is_refused(saved: Path) -> None:
    (saved.parent / "outside.json").write_text("{}")
    manifest = json.loads((saved / "manifest.json").read_text())
    manifest["files"]["../outside.json"] = implementation._fingerprint(saved.parent / "outside.json")
    (saved / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=r"outside\.json is missing"):
        checkpoint.load(saved)


def test_an_existing_checkpoint_is_replaced_only_on_request(model: Transformer, saved: Path) -> None:
    with pytest.raises(CheckpointError, match="exists"):
        checkpoint.save(Checkpoint(model), saved)
    checkpoint.save(Checkpoint(Transformer(CONFIG, seed=9)), saved, replace=True)
    assert not torch.equal(checkpoint.load(saved).model.head.weight, model.head.weight)
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize("broken", ["save_file", "_fingerprint", "_sync", "_put"])
@pytest.mark.parametrize("replace", [False, True])
def test_an_interrupted_save_leaves_what_was_there(
    model: Transformer, saved: Path, monkeypatch: pytest.MonkeyPatch, broken: str, replace: bool
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    target = saved if replace else saved.with_name("new")
    monkeypatch.setattr(implementation, broken, fail)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(Checkpoint(Transformer(CONFIG, seed=9)), target, replace=replace)
    monkeypatch.undo()
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]
    assert torch.equal(checkpoint.load(saved).model.head.weight, model.head.weight)


def test_a_failed_rename_puts_the_old_one_back(
    model: Transformer, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, calls = os.rename, []

    def fail_second(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == 2:
            raise OSError("disk gone")
        rename(source, target)

    monkeypatch.setattr(implementation.os, "rename", fail_second)
    with pytest.raises(OSError, match="disk gone"):
        checkpoint.save(Checkpoint(Transformer(CONFIG, seed=9)), saved, replace=True)
    assert torch.equal(checkpoint.load(saved).model.head.weight, model.head.weight)
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_what_cannot_be_kept_is_refused_before_writing(model: Transformer, tmp_path: Path) -> None:
    for documents in ({"a": float("nan")}, {"a": object()}, {"../a": 1}, {"manifest": 1}):
        with pytest.raises(CheckpointError):
            checkpoint.save(Checkpoint(model, documents), tmp_path / "x")
    with torch.no_grad():
        model.head.weight[0, 0] = float("inf")
    with pytest.raises(CheckpointError, match=r"not finite: head\.weight"):
        checkpoint.save(Checkpoint(model), tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_newest_passes_over_a_damaged_one(model: Transformer, tmp_path: Path) -> None:
    assert checkpoint.newest(tmp_path / "none") is None
    for step in (1, 2):
        checkpoint.save(Checkpoint(model, {"trainer": {"step": step}}), tmp_path / f"step-{step:08d}")
    os.truncate(tmp_path / "step-00000002" / "model.safetensors", 1000)
    with pytest.warns(UserWarning, match=r"step-00000002 is damaged: model\.safetensors has 1000 bytes"):
        found = checkpoint.newest(tmp_path)
    assert found is not None and found[0].name == "step-00000001" and found[1].documents["trainer"] == {"step": 1}
