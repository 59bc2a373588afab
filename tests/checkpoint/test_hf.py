"""Models to and from the layout of Hugging Face, against transformers' own reader and writer."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.checkpoint.folders import ODD, SMALL, TINY, contents, differing, model_of, same_state, weights
from tests.model.oracle import hf_model

from trex.checkpoint import CheckpointError, convert, load_hf, save_hf
from trex.checkpoint.names import to_transformers
from trex.checkpoint.tensors import read_header
from trex.model.config import ModelConfig
from trex.model.generate import generate

NAMES = ["official", "transformers"]


def auto_model(folder: Path, **options: Any) -> Any:
    """What transformers makes of a folder; every name must be accounted for."""
    from transformers import AutoModelForCausalLM

    model, info = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", experts_implementation="eager", output_loading_info=True, **options
    )
    assert not any(info.values()), info
    return model.eval()


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("shard_bytes", [10**9, 100_000, 1])
def test_saved_loaded_and_saved_again_is_byte_identical(tmp_path: Path, names: str, shard_bytes: int) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    extra = {"trex_tokenizer.json": {"ids": [1, 2]}}
    assert save_hf(model_of(SMALL), first, names=names, shard_bytes=shard_bytes, extra=extra) == first
    loaded = load_hf(first)
    assert loaded.config == SMALL and same_state(loaded.state_dict(), weights(SMALL))
    assert any(name.startswith("mtp.") for name in loaded.state_dict())
    save_hf(loaded, second, names=names, shard_bytes=shard_bytes, extra=extra)
    assert differing(first, second) == []
    files = sorted(path.name for path in first.glob("*.safetensors"))
    if shard_bytes == 10**9:
        assert files == ["model.safetensors"]
    else:
        index = json.loads((first / "model.safetensors.index.json").read_bytes())
        assert sorted(set(index["weight_map"].values())) == files and len(files) > 3
        assert all((first / file).stat().st_size < max(shard_bytes, 100_000) + 10_000 for file in files)


@pytest.mark.parametrize("names", NAMES)
def test_the_library_reads_every_tensor(tmp_path: Path, names: str) -> None:
    save_hf(model_of(SMALL), tmp_path / "a", names=names)
    state = load_file(tmp_path / "a" / "model.safetensors")
    if names == "transformers":
        expected = to_transformers(weights(SMALL))
        assert {name for name in state if not name.startswith("mtp.")} == expected.keys()
        assert all(torch.equal(state[name], tensor) for name, tensor in expected.items())
    else:
        stacked = weights(SMALL)["layers.1.ffn.experts.w2"]
        assert torch.equal(state["layers.1.ffn.experts.3.w2.weight"], stacked[3])
        assert torch.equal(state["mtp.0.ffn.experts.0.w1.weight"], weights(SMALL)["mtp.0.ffn.experts.w1"][0])


@pytest.mark.slow
@pytest.mark.parametrize("names", NAMES)
def test_exports_load_in_transformers_with_equal_logits(tmp_path: Path, names: str) -> None:
    save_hf(model_of(TINY), tmp_path / "a", names=names, shard_bytes=300_000)
    theirs = auto_model(tmp_path / "a", dtype=torch.float32)
    tokens = torch.randint(0, TINY.vocab_size, (2, 300), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = theirs(tokens, use_cache=False).logits
        assert torch.equal(logits, hf_model(TINY, weights(TINY), torch.float32)(tokens, use_cache=False).logits)
        ours = model_of(TINY)(tokens).logits
    assert ours is not None and (ours - logits).abs().max() <= 1e-5  # of logits up to 5, in float32
    prompt = tokens[:1, :40]
    chosen = theirs.generate(prompt, max_new_tokens=12, do_sample=False, use_cache=True, eos_token_id=None)
    assert chosen[0, 40:].tolist() == generate(load_hf(tmp_path / "a"), prompt, max_new_tokens=12)[0].tokens


def test_what_transformers_saves_is_read(tmp_path: Path) -> None:
    """Its own names, which differ with how the model was made; MTP weights it does not keep."""
    trunk = {name: tensor for name, tensor in weights(SMALL).items() if not name.startswith("mtp.")}
    hf_model(SMALL, weights(SMALL), torch.float32).save_pretrained(tmp_path / "made")
    for names in NAMES:
        save_hf(model_of(SMALL), tmp_path / names, names=names)
        auto_model(tmp_path / names, dtype=torch.float32).save_pretrained(tmp_path / f"{names}-saved")
    for folder in ("made", *(f"{names}-saved" for names in NAMES)):
        with pytest.warns(UserWarning, match="no weights of the MTP block"):
            loaded = load_hf(tmp_path / folder)
        assert loaded.config.mtp_layers == 0 and same_state(loaded.state_dict(), trunk), folder


def test_dtypes_keep_what_training_needs_wide(tmp_path: Path) -> None:
    save_hf(model_of(SMALL), tmp_path / "a")
    state = weights(SMALL)
    wide = [name for name in state if name.endswith(("gate.bias", "attn_sink", ".ape")) or "hc_" in name]
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        loaded = load_hf(tmp_path / "a", dtype).state_dict()
        for name, tensor in loaded.items():
            expected = torch.int64 if name.endswith("tid2eid") else dtype
            expected = torch.promote_types(dtype, torch.float32) if name in wide else expected
            assert tensor.dtype == expected and torch.equal(tensor, state[name].to(expected)), name
    for other in (torch.int64, torch.float8_e4m3fn, "float32"):
        with pytest.raises(CheckpointError, match=r"dtype = .*; accepted: None, torch.float16, torch.bfloat16, torch"):
            load_hf(tmp_path / "a", other)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_configs_say_the_dtype_that_transformers_is_to_take(tmp_path: Path, dtype: torch.dtype) -> None:
    save_hf(model_of(SMALL).to(dtype), tmp_path / "a")
    assert next(auto_model(tmp_path / "a", dtype="auto").parameters()).dtype == dtype
    quantised = convert(tmp_path / "a", tmp_path / "b", precision="fp4")
    assert json.loads((quantised / "config.json").read_bytes())["dtype"] == "bfloat16"


def test_damage_at_200_places_is_refused_by_name(tmp_path: Path) -> None:
    """Bit flips and truncations anywhere in the folder: the tensor that is hit, or the file where none is."""
    folder = save_hf(model_of(SMALL), tmp_path / "a", shard_bytes=100_000)
    whole = contents(folder)
    draw = random.Random(0)
    files = [name for name, content in whole.items() for _ in range(1 + len(content) // 2000)]
    hit_tensors = 0
    for number in range(200):
        name = draw.choice(files)
        content, place = bytearray(whole[name]), draw.randrange(len(whole[name]))
        if number % 4:
            content[place] ^= 1 << draw.randrange(8)
        else:
            del content[place:]
        hit = {name}
        if name.endswith(".safetensors"):
            (folder / name).write_bytes(whole[name])
            entries = read_header(folder / name)
            inside = {tensor for tensor, e in entries.items() if e.end > place and (e.start <= place or not number % 4)}
            header = min(entry.start for entry in entries.values())
            hit = inside if place >= header else set(entries)
            hit_tensors += 1
        (folder / name).write_bytes(content)
        with pytest.raises(CheckpointError) as refusal:
            load_hf(folder)
        said = str(refusal.value)
        if name.endswith(".safetensors") and number % 4 and place < header:
            assert any(tensor in said for tensor in hit), (name, place, said)
        else:
            assert all(tensor in said for tensor in hit), (name, place, said)
        (folder / name).write_bytes(whole[name])
    assert hit_tensors > 100
    assert same_state(load_hf(folder).state_dict(), weights(SMALL))


def change(folder: Path, **changes: Any) -> None:
    """Replace tensors of model.safetensors, or remove those that are None; the manifest goes."""
    path = folder / "model.safetensors"
    state = load_file(path)
    for name, tensor in changes.items():
        state.pop(name, None)
        if tensor is not None:
            state[name] = tensor
    save_file(state, path, {"format": "pt"})
    (folder / "trex_manifest.json").unlink(missing_ok=True)


def test_one_error_lists_all_tensors_at_fault(tmp_path: Path) -> None:
    folder = save_hf(model_of(SMALL), tmp_path / "a")
    change(folder, **{
        "layers.1.attn.wkv.weight": torch.zeros(32, 32, dtype=torch.int8),
        "norm.weight": None, "layers.0.attn.wq_a.weight": torch.zeros(3, 4), "extra.weight": torch.zeros(1),
        "layers.0.ffn.gate.tid2eid": torch.zeros(64, 2), "mtp.0.enorm.weight": None,
    })  # fmt: skip
    with pytest.raises(CheckpointError) as refusal:
        load_hf(folder)
    for part in (
        "norm.weight is missing", "layers.0.attn.wq_a.weight is F32 [3, 4], not F64, F32, F16 or BF16 [24, 32]",
        "extra.weight belongs to no part of the model", "layers.0.ffn.gate.tid2eid is F32 [64, 2], not I64 [64, 2]",
        "layers.1.attn.wkv.weight is I8 [32, 32] without a scale", "mtp.0.enorm.weight is missing",
    ):  # fmt: skip
        assert part in str(refusal.value)


def test_numbers_that_are_not_finite_are_refused_by_name(tmp_path: Path) -> None:
    folder = save_hf(model_of(SMALL), tmp_path / "a")
    change(folder, **{"norm.weight": torch.full((32,), torch.nan),
                      "layers.1.ffn.experts.2.w3.weight": torch.full((16, 32), torch.inf)})  # fmt: skip
    with pytest.raises(CheckpointError, match=r"layers.1.ffn.experts.2.w3.weight is not finite; norm.weight is not"):
        load_hf(folder)
    model = model_of(SMALL)
    with torch.no_grad():
        model.norm.weight[3] = torch.nan
        model.head.weight[0] = torch.inf
    with pytest.raises(CheckpointError, match=r"norm.weight is not finite; head.weight is not finite"):
        save_hf(model, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_folders_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no folder at"):
        load_hf(tmp_path / "none")
    folder = save_hf(model_of(SMALL), tmp_path / "a")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"no .safetensors files; pickled files are never opened: pytorch_model"):
        load_hf(folder, verify=False)
    (folder / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="describes no DeepSeek-V4"):
        load_hf(folder, verify=False)


def test_indexes_that_disagree_with_the_files(tmp_path: Path) -> None:
    folder = save_hf(model_of(SMALL), tmp_path / "a", shard_bytes=200_000)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_bytes())
    (folder / "trex_manifest.json").unlink()

    def refused(weight_map: Any, message: str) -> None:
        path.write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(CheckpointError, match=message):
            load_hf(folder)

    places = index["weight_map"]
    last = max(places.values())
    refused({**places, "embed.weight": last}, r"embed.weight is in .*; the index says model-00002")
    refused({**places, "x": "../x.safetensors"}, r"names files outside of its folder: '../x.safetensors'")
    refused({**places, "x": "x.bin"}, "x.bin is missing, with x")
    refused({**places, "x": 3}, "no weight_map")
    refused({}, "embed.weight is in model-00001.* and not in the index")
    (folder / last).unlink()
    refused(places, rf"{last} is missing, with .*mtp.0.norm.weight")


def test_bad_requests_are_refused(tmp_path: Path) -> None:
    model = model_of(SMALL)
    folder = save_hf(model, tmp_path / "a")
    before = contents(folder)
    with pytest.raises(CheckpointError, match="a exists; it is replaced only on request"):
        save_hf(model, folder)
    with pytest.raises(CheckpointError, match="names = 'mine'; accepted: official, transformers"):
        save_hf(model, tmp_path / "b", names="mine")
    with pytest.raises(CheckpointError, match="bytes of a shard = 0"):
        save_hf(model, tmp_path / "b", shard_bytes=0)
    with pytest.raises(CheckpointError, match="JSON cannot hold it"):
        save_hf(model, folder, extra={"x.json": {1, 2}}, replace=True)
    for name in ("../x.json", "config.json", "trex_manifest.json", "x.bin"):
        with pytest.raises(CheckpointError, match=f"{name}' names no document beside the weights"):
            save_hf(model, tmp_path / "b", extra={name: {}})
    assert contents(folder) == before and [path.name for path in tmp_path.iterdir()] == ["a"]
    save_hf(model_of(SMALL, seed=1), folder, replace=True)
    assert same_state(load_hf(folder).state_dict(), weights(SMALL, 1))


@pytest.mark.parametrize("config", [SMALL, TINY, ODD, ModelConfig.nano(mtp_layers=0), ModelConfig.flash()])
def test_config_files_say_the_model(tmp_path: Path, config: ModelConfig) -> None:
    from transformers import AutoConfig

    from trex.model import hf

    path = tmp_path / "config.json"
    path.write_text(json.dumps(hf.released(config)))
    assert ModelConfig.from_hf(path, config.name) == config
    theirs, ours = AutoConfig.from_pretrained(tmp_path).to_dict(), config.to_hf().to_dict()
    aside = {"_name_or_path", "model_name", "architectures", "use_cache", "rope_parameters"}
    assert {k: v for k, v in theirs.items() if k not in aside} == {k: v for k, v in ours.items() if k not in aside}
    compress = {k: v for k, v in theirs["rope_parameters"]["compress"].items() if k != "type"}
    assert {**theirs["rope_parameters"], "compress": compress} == ours["rope_parameters"]


def test_scales_are_compared_with_the_manifest_too(tmp_path: Path) -> None:
    save_hf(model_of(SMALL), tmp_path / "a")
    folder = convert(tmp_path / "a", tmp_path / "b", precision="fp4")
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[read_header(path)["layers.0.attn.wq_a.scale"].start] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"layers.0.attn.wq_a.scale in model.safetensors was altered"):
        load_hf(folder)
    load_hf(folder, verify=False)


def test_experts_of_several_dtypes_need_one(tmp_path: Path) -> None:
    folder = save_hf(model_of(SMALL), tmp_path / "a")
    name = "layers.1.ffn.experts.2.w3.weight"
    change(folder, **{name: weights(SMALL)["layers.1.ffn.experts.w3"][2].bfloat16()})
    with pytest.raises(CheckpointError, match=f"{name} is BF16, unlike the other experts"):
        load_hf(folder)
    load_hf(folder, torch.float32)


def test_configs_of_absurd_size_and_training_checkpoints_are_refused(tmp_path: Path) -> None:
    folder = save_hf(model_of(SMALL), tmp_path / "a")
    (folder / "trex_manifest.json").unlink()
    config = json.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps({**config, "n_routed_experts": 10**6}))
    with pytest.raises(CheckpointError, match="tells of 3,000,000 experts; accepted: up to 1,000,000"):
        load_hf(folder)
    (folder / "trex_metadata.json").write_text("{}")
    with pytest.raises(CheckpointError, match="is a training checkpoint; export it"):
        load_hf(folder)
