"""Conversions between folders of weights, against transformers' dequantising load; stopped anywhere and resumed."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.checkpoint.folders import ODD, SMALL, TINY, contents, differing, model_of, randomise, same_state, weights
from tests.checkpoint.test_quantized import same_bits
from torch import Tensor

from trex.checkpoint import CheckpointError, convert, dequantize, load_hf, save_hf
from trex.checkpoint import convert as convert_function
from trex.checkpoint.names import to_transformers
from trex.checkpoint.synthetic import write_released
from trex.checkpoint.tensors import read_header
from trex.model.config import ModelConfig

implementation = sys.modules[convert_function.__module__]
SHARD = 100_000


def all_tensors(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a folder, by safetensors' own reader."""
    return {name: tensor for path in folder.glob("*.safetensors") for name, tensor in load_file(path).items()}


def dequantised_by_transformers(folder: Path) -> dict[str, Tensor]:
    from transformers import AutoModelForCausalLM, FineGrainedFP8Config

    model, info = AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=FineGrainedFP8Config(dequantize=True), output_loading_info=True
    )
    assert not any(info.values()), info
    state: dict[str, Tensor] = model.state_dict()
    return state


@pytest.mark.parametrize(("config", "scales"), [(TINY, (0, 255)), (ODD, (0, 255)), (TINY, (254, 255)), (TINY, (0, 3))])
def test_dequantised_is_what_transformers_loads(tmp_path: Path, config: ModelConfig, scales: tuple[int, int]) -> None:
    """Every tensor of a folder with every kind of tensor, random codes and scales: NaN, overflow, subnormals, -0."""
    source = write_released(tmp_path / "released", config, shard_bytes=SHARD)
    randomise(source, seed=1, scales=scales)
    kinds = {entry.dtype for path in source.glob("*.safetensors") for entry in read_header(path).values()}
    assert kinds == {"F8_E4M3", "F8_E8M0", "I8", "BF16", "F32", "I64"}
    target = dequantize(source, tmp_path / "bf16", allow_nan=True)
    ours, theirs = all_tensors(target), dequantised_by_transformers(source)
    stacked = to_transformers(
        {**{n: t for n, t in ours.items() if ".experts." not in n}, **stack(ours, config.num_experts)}
    )
    assert stacked.keys() == theirs.keys()
    seen = 0
    for name, tensor in stacked.items():
        if tensor.dtype == torch.int64:
            assert torch.equal(tensor, theirs[name])
            continue
        assert tensor.dtype in (torch.bfloat16, torch.float32)
        assert same_bits(tensor.float(), theirs[name].float()), name  # norms are float32 in transformers' model
        seen += int(tensor.isnan().sum())
    assert (seen > 1000) == (scales[1] == 255)
    read = load_hf_state(source)
    assert all(
        same_bits(read[name], tensor) if tensor.is_floating_point() else torch.equal(read[name], tensor)
        for name, tensor in {**{n: t for n, t in ours.items() if ".experts." not in n}, **stack(ours, 8)}.items()
    )


def stack(state: dict[str, Tensor], experts: int) -> dict[str, Tensor]:
    """The routed experts, one tensor per layer and matrix."""
    prefixes = {name.split(".experts.")[0] for name in state if ".experts." in name}
    return {
        f"{prefix}.experts.{w}": torch.stack([state[f"{prefix}.experts.{e}.{w}.weight"] for e in range(experts)])
        for prefix in prefixes for w in ("w1", "w2", "w3")
    }  # fmt: skip


def load_hf_state(folder: Path) -> dict[str, Tensor]:
    """What load_hf reads, without its refusal of NaN."""
    hf = sys.modules[load_hf.__module__]
    kept: list[list[str]] = []
    original = hf.refuse
    try:
        hf.refuse = lambda problems, what: kept.append(problems)  # type: ignore[attr-defined]
        return load_hf(folder).state_dict()
    finally:
        hf.refuse = original  # type: ignore[attr-defined]


@pytest.mark.parametrize("names", ["official", "transformers"])
def test_conversion_is_what_saving_under_other_names_gives(tmp_path: Path, names: str) -> None:
    for given in ("official", "transformers"):
        save_hf(model_of(SMALL), tmp_path / given, names=given, shard_bytes=SHARD)
        target = tmp_path / f"from-{given}"
        assert convert(tmp_path / given, target, names=names, shard_bytes=SHARD, workers=3) == target
        save_hf(model_of(SMALL), tmp_path / "direct", names=names, shard_bytes=SHARD, replace=True)
        assert differing(target, tmp_path / "direct") == []


@pytest.mark.parametrize("precision", ["fp8", "fp4"])
def test_quantising_and_dequantising_again_changes_nothing(tmp_path: Path, precision: Any) -> None:
    save_hf(model_of(ODD), tmp_path / "fp32", shard_bytes=SHARD)
    first = convert(tmp_path / "fp32", tmp_path / "q1", precision=precision)
    kinds = {entry.dtype for path in first.glob("*.safetensors") for entry in read_header(path).values()}
    assert ("I8" in kinds) == (precision == "fp4") and {"F8_E4M3", "F8_E8M0", "BF16", "F32", "I64"} <= kinds
    dequantize(first, tmp_path / "d1")
    second = convert(tmp_path / "d1", tmp_path / "q2", precision=precision)
    dequantize(second, tmp_path / "d2")
    assert differing(tmp_path / "d1", tmp_path / "d2") == []
    convert(second, tmp_path / "q3", precision=precision)  # FP8 that stays FP8 is copied, bit by bit
    assert differing(second, tmp_path / "q3") == []
    assert same_state(load_hf(first).state_dict(), load_hf(tmp_path / "d1").state_dict())
    loaded = load_hf(first).state_dict()
    error = max(float((loaded[name].float() - t).abs().max() / t.abs().max()) for name, t in weights(ODD).items()
                if t.dim() > 1)  # fmt: skip
    # half a step beside the largest number, which stands for 225 to 448 in FP8 and for 3 to 6 in FP4
    assert 0.02 < error < (16 / 225 if precision == "fp8" else 1 / 4)


def test_released_layout_of_the_export(tmp_path: Path) -> None:
    """Quantised and named as the synthetic released folder: the same names, dtypes, shapes and config."""
    released = write_released(tmp_path / "released", TINY)
    save_hf(model_of(TINY), tmp_path / "fp32")
    exported = convert(tmp_path / "fp32", tmp_path / "exported", precision="fp4")
    one, other = (read_header(folder / "model.safetensors") for folder in (released, exported))
    assert {n: (e.dtype, e.shape) for n, e in one.items()} == {n: (e.dtype, e.shape) for n, e in other.items()}
    assert list(one) == list(other)
    assert (released / "config.json").read_bytes() == (exported / "config.json").read_bytes()
    both = dequantised_by_transformers(exported)
    assert all(same_bits(t.float(), both[n].float()) for n, t in to_transformers(load_hf(exported).state_dict()).items()
               if t.is_floating_point())  # fmt: skip


def test_what_lies_beside_the_weights_goes_along(tmp_path: Path) -> None:
    source = write_released(tmp_path / "a", SMALL)
    (source / "tokenizer.json").write_text("{}")
    (source / "encoding").mkdir()
    (source / "encoding" / "rules.py").write_text("pass")
    (source / "optimizer.pt").write_bytes(b"pickle")
    config = (source / "config.json").read_text()
    (source / "config.json").write_text(config.replace('"eos_token_id": 1', '"eos_token_id": [1, 7], "mine": true'))
    target = dequantize(source, tmp_path / "b")
    names = {"config.json", "encoding/rules.py", "model.safetensors", "tokenizer.json", "trex_manifest.json"}
    assert contents(target).keys() == names
    written = (target / "config.json").read_text()
    assert (
        '"mine": true' in written and "quantization" not in written and "7" in written and "expert_dtype" not in written
    )


def test_tensors_at_fault_are_all_named_and_nothing_is_left(tmp_path: Path) -> None:
    source = write_released(tmp_path / "a", SMALL)
    path = source / "model.safetensors"
    state, names = load_file(path), ["layers.0.attn.wq_a", "layers.1.ffn.experts.2.w3"]

    def spoil(**changes: Tensor) -> None:
        save_file({**state, **changes}, path, {"format": "pt"})

    scales = {f"{name}.scale": state[f"{name}.scale"].view(torch.uint8).clone() for name in names}
    for scale in scales.values():
        scale[0, 0] = 255
    spoil(**{name: scale.view(torch.float8_e8m0fnu) for name, scale in scales.items()})
    with pytest.raises(
        CheckpointError, match=r"wq_a.weight has a scale that is NaN; .*experts.2.w3.weight has a scale"
    ):
        dequantize(source, tmp_path / "b")
    codes = state["layers.0.attn.wq_b.weight"].view(torch.uint8).clone()
    codes[3, 3] = 0x7F
    norm = state["norm.weight"].clone()
    norm[0] = torch.inf
    spoil(**{"layers.0.attn.wq_b.weight": codes.view(torch.float8_e4m3fn), "norm.weight": norm})
    with pytest.raises(CheckpointError, match=r"layers.0.attn.wq_b.weight has numbers .*; norm.weight has numbers"):
        dequantize(source, tmp_path / "b")
    spoil(**{"norm.weight": torch.zeros(3), "strange": torch.zeros(1)})
    with pytest.raises(CheckpointError, match=r"norm.weight is F32 \[3\].*; strange belongs to no part"):
        dequantize(source, tmp_path / "b")
    save_file({name: tensor for name, tensor in state.items() if name != "layers.0.attn.wkv.scale"}, path)
    with pytest.raises(CheckpointError, match=r"wkv.weight is F8_E4M3 .* without a scale"):
        dequantize(source, tmp_path / "b")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="is truncated"):
        dequantize(source, tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_source_that_differs_from_its_manifest_is_refused(tmp_path: Path) -> None:
    source = save_hf(model_of(SMALL), tmp_path / "a")
    path = source / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[read_header(path)["layers.1.ffn.experts.3.w1.weight"].start + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"layers.1.ffn.experts.3.w1.weight in model.safetensors was altered"):
        convert(source, tmp_path / "b", names="transformers")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_bad_requests_are_refused(tmp_path: Path) -> None:
    source = write_released(tmp_path / "a", SMALL)
    for request, message in (
        ({"names": "mine"}, "names = 'mine'"), ({"precision": "int8"}, "precision = 'int8'; accepted: keep, bf16"),
        ({"names": "transformers"}, "under official names only: .*layers.0.self_attn.q_a_proj.weight would be FP8"),
        ({"precision": "fp8", "names": "transformers"}, "under official names only"),
        ({"shard_bytes": 0}, "bytes of a shard"), ({"workers": 0}, "workers = 0; accepted"),
    ):  # fmt: skip
        with pytest.raises(CheckpointError, match=message):
            convert(source, tmp_path / "b", **request)  # type: ignore[arg-type]
    for inside in (source, source / "b"):
        with pytest.raises(CheckpointError, match="is in the source"):
            dequantize(source, inside)
    (tmp_path / "b").mkdir()
    with pytest.raises(CheckpointError, match="b exists; conversions write new folders only"):
        dequantize(source, tmp_path / "b")
    with pytest.raises(CheckpointError, match="no folder at"):
        dequantize(tmp_path / "none", tmp_path / "c")


def test_a_full_disk_is_told_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_released(tmp_path / "a", SMALL)
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(implementation.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(CheckpointError, match="are to be written, 1,000 are free on the disk"):
        dequantize(source, tmp_path / "b")


class Stopped(Exception):
    """What a test raises in the middle of a conversion."""


def test_stopped_at_every_step_it_goes_on_to_identical_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_released(tmp_path / "a", SMALL, shard_bytes=SHARD)
    expected = convert(source, tmp_path / "expected", precision="bf16", shard_bytes=SHARD, workers=1)
    steps = ["write", "write_atomic", "write_manifest", "put_folder", "_copy_rest", "_finish"]
    calls: list[str] = []
    fatal = -1

    def counted(name: str, original: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            if len(calls) == fatal:
                raise Stopped
            return original(*arguments, **options)

        return call

    for step in steps:
        monkeypatch.setattr(implementation, step, counted(step, getattr(implementation, step)))
    arguments = dict(precision="bf16", shard_bytes=SHARD, workers=1)
    convert(source, tmp_path / "b", **arguments)  # type: ignore[arg-type]
    total, redone = len(calls), 0
    assert set(calls) == set(steps)
    for fatal in range(1, total + 1):
        shutil.rmtree(tmp_path / "b")
        calls.clear()
        with pytest.raises(Stopped):
            convert(source, tmp_path / "b", **arguments)  # type: ignore[arg-type]
        files = calls.count("write")
        calls.clear()
        limit, fatal = fatal, -1
        convert(source, tmp_path / "b", **arguments)  # type: ignore[arg-type]
        redone += files + calls.count("write")
        fatal = limit
        assert differing(tmp_path / "b", expected) == []
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "expected"]
    files = len(list(expected.glob("*.safetensors")))
    assert files > 2 and redone <= total * (files + 1)  # at most the file that was stopped is made again


def test_an_unfinished_conversion_of_something_else_is_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_released(tmp_path / "a", SMALL, shard_bytes=SHARD)

    def stop(*arguments: Any, **options: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(implementation, "write_manifest", stop)
        with pytest.raises(Stopped):
            dequantize(source, tmp_path / "b")
    with pytest.raises(CheckpointError, match=r"b.partial is the unfinished conversion of another source"):
        convert(source, tmp_path / "b", precision="fp32")
    shard = sorted(source.glob("*.safetensors"))[0]
    os.utime(shard, ns=(1, 1))
    with pytest.raises(CheckpointError, match=r"b.partial is the unfinished conversion of another source"):
        dequantize(source, tmp_path / "b")
    with implementation._locked(tmp_path / "b.partial"), pytest.raises(CheckpointError, match="another process is at"):
        dequantize(source, tmp_path / "b")


CONVERT = (
    "import sys; from pathlib import Path; from trex.checkpoint import dequantize; dequantize(*map(Path, sys.argv[1:]))"
)


@pytest.mark.slow
def test_killed_at_random_moments_it_goes_on_to_identical_bytes(tmp_path: Path) -> None:
    """SIGKILL, each time into the same conversion, until one is let through."""
    config = ModelConfig.tiny(hidden_size=512, expert_size=512, num_experts=32, vocab_size=4096)
    source = write_released(tmp_path / "a", config, shard_bytes=10_000_000)
    command = [sys.executable, "-c", CONVERT, str(source), str(tmp_path / "b")]
    begin = time.monotonic()
    expected = dequantize(source, tmp_path / "expected")
    taken = time.monotonic() - begin
    draw, killed = random.Random(0), 0
    while killed < int(os.environ.get("TREX_KILLS", "6")):  # 20 for the whole trial
        process = subprocess.Popen(command)
        partial = tmp_path / "b.partial"
        while process.poll() is None and not partial.exists():
            time.sleep(0.005)
        time.sleep(draw.uniform(0, taken / 4))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        if (tmp_path / "b").exists():  # it was done, or all but
            subprocess.run(command, check=(tmp_path / "b" / ".conversion").exists(), capture_output=True)
            assert differing(tmp_path / "b", expected) == []
            shutil.rmtree(tmp_path / "b")
    if not (tmp_path / "b").exists():
        subprocess.run(command, check=True)
    assert differing(tmp_path / "b", expected) == []
