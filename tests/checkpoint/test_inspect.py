"""What a folder holds is told from headers alone: kinds, parts, names that are missing, extra, misshapen, misplaced."""

import json
import random
import resource
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tests.checkpoint import sparse

from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.inspect import Inspection, inspect, layout, report
from trex.checkpoint.released import expected
from trex.checkpoint.source import open_source
from trex.checkpoint.tensors import read_header
from trex.model.config import ModelConfig
from trex.model.count import parameters

CONFIG = ModelConfig.tiny()


@pytest.fixture
def tensors() -> dict[str, tuple[str, tuple[int, ...]]]:
    return dict(sparse.released(CONFIG))


def groups(found: Inspection) -> dict[str, tuple[str, ...]]:
    """Everything that is wrong."""
    names = ("missing", "extra", "misshapen", "misplaced", "absent", "damaged")
    return {name: value for name in names if (value := getattr(found, name))}


@pytest.mark.parametrize("config", [CONFIG, ModelConfig.flash(), ModelConfig.pro()], ids=lambda config: config.name)
def test_expected_is_our_network(config: ModelConfig) -> None:
    """Names and shapes of the network's own state dict, experts taken apart; kinds as the released layout says."""
    stored = sparse.released(config)
    kinds = {"F8_E4M3": "fp8", "I8": "fp4", "BF16": "bf16", "F32": "f32", "I64": "i64"}
    known = {
        name: (kinds[dtype], (shape[0], 2 * shape[1]) if dtype == "I8" else shape)
        for name, (dtype, shape) in stored.items()
        if dtype != "F8_E8M0"
    }
    assert {name: (tensor.kind, tensor.shape) for name, tensor in expected(config).items()} == known


def test_a_released_folder_is_whole(tmp_path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    found = inspect(sparse.folder(tmp_path / "tiny", CONFIG, tensors, files=3))
    assert groups(found) == {} and found.problems == []
    assert found.names == "official" and found.model == CONFIG and len(found.files) == 3
    counts = parameters(CONFIG)
    assert dict(found.parts) == dict(counts.parts) and found.mtp == counts.mtp
    dtypes = [dtype for dtype, _ in tensors.values()]
    stored = {kind: row.tensors for kind, row in found.stored.items()}
    assert stored == {
        "FP8 with scale": dtypes.count("F8_E4M3"), "FP4 with scale": dtypes.count("I8"), "BF16": dtypes.count("BF16"),
        "F32": dtypes.count("F32"), "I64": dtypes.count("I64"),
    }  # fmt: skip
    experts = 7 * CONFIG.num_experts * 3 * 64 * 32
    assert found.stored["FP4 with scale"].parameters == experts
    assert found.stored["FP4 with scale"].bytes == experts // 2 + experts // 32


def test_the_config_does_not_tell_the_kinds(tmp_path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    """Experts in FP8, as the base models have them, though the config says FP4."""
    for name in list(tensors):
        if ".experts." in name and name.endswith(".weight"):
            rows, half = tensors[name][1]
            tensors[name] = "F8_E4M3", (rows, 2 * half)
            tensors[name.replace("weight", "scale")] = "F8_E8M0", (1, 1)
    folder = sparse.folder(tmp_path / "base", CONFIG, tensors)
    body = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**body, "expert_dtype": "fp4"}))
    found = inspect(folder)
    assert groups(found) == {} and "FP4 with scale" not in found.stored


def test_everything_wrong_is_named(tmp_path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    del tensors["layers.2.attn.wq_a.weight"], tensors["layers.2.attn.wq_a.scale"]
    del tensors["layers.0.ffn.experts.3.w1.scale"]
    tensors["layers.9.attn_norm.weight"] = "BF16", (64,)
    tensors["layers.1.attn_norm.weight"] = "BF16", (63,)
    tensors["layers.0.ffn.gate.tid2eid"] = "F32", (512, 2)
    tensors["layers.3.attn.wkv.scale"] = "F8_E8M0", (2, 1)
    tensors["layers.7.attn.wkv.scale"] = "F8_E8M0", (1, 1)
    found = inspect(sparse.folder(tmp_path / "wrong", CONFIG, tensors))
    assert groups(found) == {
        "missing": ("layers.2.attn.wq_a.weight",),
        "extra": ("layers.9.attn_norm.weight",),
        "misshapen": (
            "layers.0.ffn.experts.3.w1.weight is I8 and has no scale",
            "layers.3.attn.wkv.weight is F8_E4M3 [32, 64] with a scale F8_E8M0 [2, 1]: neither FP8 nor FP4",
            "layers.7.attn.wkv.scale is the scale of no weight",
            "layers.0.ffn.gate.tid2eid is F32, not I64",
            "layers.0.ffn.experts.3.w1.weight is [32, 32], not [32, 64]",
            "layers.1.attn_norm.weight is [63], not [64]",
        ),
    }
    assert "layers.9.attn_norm.weight" in report(found)


def test_what_the_index_says_is_compared(tmp_path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    folder = sparse.folder(tmp_path / "moved", CONFIG, tensors, files=2)
    index = folder / "model.safetensors.index.json"
    places = json.loads(index.read_text())["weight_map"]
    one, two = sorted(set(places.values()))
    assert places["embed.weight"] == one
    places["embed.weight"] = two
    del places["norm.weight"]
    index.write_text(json.dumps({"weight_map": places}))
    (folder / "pytorch_model.bin").write_bytes(b"never opened")
    found = inspect(folder)
    assert found.ignored == ("pytorch_model.bin",)
    misplaced = found.misplaced
    assert f"embed.weight is in {one}; the index says {two}" in misplaced
    assert any(line.startswith("norm.weight is in") and line.endswith("not in the index") for line in misplaced)
    assert set(groups(found)) == {"misplaced"}


def test_a_partly_downloaded_folder_is_described(
    tmp_path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]
) -> None:
    """Names of truncated files are told by file; missing are those of absent files, and those that are in no file."""
    del tensors["head.weight"]
    folder = sparse.folder(tmp_path / "part", CONFIG, tensors, files=4)
    files = sorted(folder.glob("*.safetensors"))
    absent = set(read_header(files[1]))
    files[1].unlink()
    with files[2].open("r+b") as stream:
        stream.truncate(files[2].stat().st_size - 1)
    found = inspect(folder)
    assert found.absent == (files[1].name,) and not found.extra
    assert set(found.missing) == {name for name in absent if not name.endswith(".scale")} | {"head.weight"}
    assert len(found.damaged) == 1 and files[2].name in found.damaged[0] and "truncated" in found.damaged[0]
    assert found.files == (files[0].name, files[3].name) and found.stored


def test_it_agrees_with_what_opens_a_folder_for_conversion(
    tmp_path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]
) -> None:
    """Whatever is done to a random tensor, both have a problem or neither has, and both name the tensor."""
    generator = random.Random(5)
    names = [name for name in tensors if not name.startswith("embed")]
    outcomes = []
    for trial in range(40):
        changed, name = dict(tensors), generator.choice(names)
        dtype, shape = changed[name]
        what = ("remove", "rename", "longer", "dtype", "nothing")[trial % 5]
        if what in ("remove", "rename"):
            del changed[name]
        if what == "rename":
            changed[f"{name}.other"] = dtype, shape
        elif what == "longer":
            changed[name] = dtype, (shape[0] + 1, *shape[1:])
        elif what == "dtype":
            changed[name] = "I64" if dtype != "I64" else "F32", shape
        folder = sparse.folder(tmp_path / str(trial), CONFIG, changed)
        found = inspect(folder).problems
        try:
            open_source(folder)
            refused = ""
        except CheckpointError as error:
            refused = str(error)
        stem = name.removesuffix(".scale").removesuffix(".weight")
        assert bool(found) == bool(refused) == (what != "nothing"), (what, name, found, refused)
        assert not found or (stem in refused and any(stem in line for line in found))
        outcomes.append(bool(found))
    assert outcomes.count(True) == 32


def test_absent_mtp_blocks_are_one_problem(tmp_path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    count = sum(name.startswith("mtp.") for name in expected(CONFIG))
    trunk = {name: value for name, value in tensors.items() if not name.startswith("mtp.")}
    found = inspect(sparse.folder(tmp_path / "trunk", CONFIG, trunk))
    assert found.missing == (f"mtp.* (all {count} tensors of MTP blocks)",) and found.mtp == 0
    none = inspect(sparse.folder(tmp_path / "none", replace(CONFIG, mtp_layers=0), trunk))
    assert none.problems == []


def test_folders_that_transformers_writes(tmp_path: Path) -> None:
    """What save_pretrained writes, and the state dict itself: both whole, both counted to the last parameter."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(CONFIG.to_hf())
    model.save_pretrained(tmp_path / "saved")
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    (tmp_path / "state").mkdir()
    save_file(state, tmp_path / "state" / "model.safetensors")
    (tmp_path / "state" / "config.json").write_bytes((tmp_path / "saved" / "config.json").read_bytes())
    parts = dict(parameters(CONFIG).parts)
    for folder, scheme in (("saved", "save_pretrained"), ("state", "transformers")):
        found = inspect(tmp_path / folder)
        assert (found.names, groups(found), dict(found.parts)) == (scheme, {}, parts)
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == {
        name: tensor.shape for name, tensor in layout(CONFIG, "transformers").items()
    }


def test_a_folder_that_says_little(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no folder at"):
        inspect(tmp_path / "nowhere")
    found = inspect(tmp_path)
    assert found.model is None and "config.json" in found.damaged[0] and "no problems" not in report(found)
    save_file({"weight": torch.zeros(2, 3)}, tmp_path / "a.safetensors")
    found = inspect(tmp_path)
    assert found.names is None and found.stored["F32"].parameters == 6
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"weight": "../a.safetensors"}}')
    assert any("outside of its folder" in line for line in inspect(tmp_path).damaged)


def test_the_released_flash_has_its_70_thousand_tensors(tmp_path: Path) -> None:
    """Headers of the real model in sparse files; memory grows by headers, not by weights."""
    config = ModelConfig.flash()
    stored = sparse.released(config)
    folder = sparse.folder(tmp_path / "flash", config, stored, files=46)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = inspect(folder)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
    assert groups(found) == {} and found.model == config and grown < 500, grown
    assert sum(found.parts.values()) == 284_332_240_471 and found.mtp == 6_610_048_891
    assert sum(row.tensors for row in found.stored.values()) == 35_020 and len(stored) > 69_000
