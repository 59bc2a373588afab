"""Names between our state dict and transformers', against the real model and transformers' own reader of our names."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.model.oracle import random_weights
from torch import Tensor

from trex.checkpoint import CheckpointError
from trex.checkpoint.names import STATE, TRANSFORMERS, from_transformers, names_of, place, to_transformers
from trex.checkpoint.released import expected
from trex.model.config import ModelConfig
from trex.model.weights import layer_weights

TINY = ModelConfig.tiny()
EXPERTS = "layers.0.ffn.experts"


@pytest.fixture(scope="module")
def ours() -> dict[str, Tensor]:
    return random_weights(TINY, seed=5)


@pytest.fixture(scope="module")
def theirs() -> dict[str, Tensor]:
    """State dict of transformers' own model, every value different."""
    from transformers import DeepseekV4ForCausalLM

    state = DeepseekV4ForCausalLM(TINY.to_hf()).state_dict()
    draw = torch.Generator().manual_seed(6)
    return {name: torch.rand(value.shape, generator=draw).to(value.dtype) for name, value in state.items()}


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(value, right[name]) for name, value in left.items())


def released(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """As in the released files: one tensor per expert."""
    result: dict[str, Tensor] = {}
    for name, tensor in state.items():
        prefix, found, matrix = name.rpartition(".experts.")
        experts = enumerate(tensor) if found else ()
        result |= {f"{prefix}.experts.{e}.{matrix}.weight": one.contiguous() for e, one in experts} or {name: tensor}
    return result


def test_names_and_shapes_are_those_of_the_real_model(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    mapped = to_transformers(ours)
    assert {name: value.shape for name, value in mapped.items()} == {name: v.shape for name, v in theirs.items()}
    back = from_transformers(theirs)
    trunk = {name: value.shape for name, value in ours.items() if not name.startswith("mtp.")}
    assert {name: value.shape for name, value in back.items()} == trunk


def test_round_trips_are_exact(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    trunk = {name: value for name, value in ours.items() if not name.startswith("mtp.")}
    assert len(trunk) < len(ours) and same(from_transformers(to_transformers(ours)), trunk)
    assert same(to_transformers(from_transformers(theirs)), theirs)


def test_transformers_reads_the_released_names_as_we_do(ours: dict[str, Tensor], tmp_path: Path) -> None:
    """It has a converter of its own for the released names; tensors of one shape could be swapped without notice."""
    import transformers

    reader: Any = transformers.DeepseekV4ForCausalLM
    TINY.to_hf().save_pretrained(tmp_path)
    files = released(ours)
    assert set(files) > {weight.name for weight in layer_weights(TINY, 4) if "*" not in weight.name}
    save_file(files, tmp_path / "model.safetensors", metadata={"format": "pt"})
    model, report = reader.from_pretrained(tmp_path, dtype=torch.float32, output_loading_info=True)
    assert not report["missing_keys"] and not report["mismatched_keys"]
    assert same(dict(model.state_dict()), to_transformers(ours))


def test_dtypes_are_kept_and_halves_own_their_memory(theirs: dict[str, Tensor]) -> None:
    half = {name: value.bfloat16() if value.is_floating_point() else value for name, value in theirs.items()}
    mine = from_transformers(half)
    assert {value.dtype for value in mine.values()} == {torch.bfloat16, torch.int64}
    assert all(value.is_contiguous() for value in mine.values())
    storages = [value.untyped_storage().data_ptr() for value in mine.values()]
    assert len(set(storages)) == len(storages)  # safetensors saves no shared memory


def test_gate_comes_first() -> None:
    gate, up = torch.zeros(2, 3, 4), torch.ones(2, 3, 4)
    stacked = to_transformers({f"{EXPERTS}.w3": up, f"{EXPERTS}.w1": gate})
    assert stacked.keys() == {"model.layers.0.mlp.experts.gate_up_proj"}
    assert torch.equal(stacked.popitem()[1], torch.cat([gate, up], dim=1))


@pytest.mark.parametrize(
    "name",
    [
        "layers.0.attn.wq_c.weight", "layers.0.attn.wq_a.bias", "layers.x.attn.wq_a.weight", "layers.01.attn.attn_sink",
        "layers.0.ffn.experts.7.w1.weight", "attn.wq_a.weight", "ffn.experts.w1", "model.embed_tokens.weight",
        "lm_head.weight", "layers.0.mlp.gate.weight", "embed", "",
    ],
)  # fmt: skip
def test_a_name_of_no_weight_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match=r"no weights of DeepSeek-V4: .*, other"):
        to_transformers({"norm.weight": torch.ones(1), name: torch.ones(1), "other": torch.ones(1)})


@pytest.mark.parametrize(
    "name",
    [
        "layers.0.self_attn.q_a_proj.weight", "layers.0.mlp.experts.gate_up_proj", "embed_tokens.weight",
        "model.lm_head.weight", "model.layers.0.mlp.experts.up_proj", "model.layers.0.attn.wq_a.weight",
        "model.rotary_emb.main_inv_freq", "mtp.0.norm.weight", "norm.weight",
    ],
)  # fmt: skip
def test_a_name_that_is_not_transformers_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match=f"no weights of transformers' DeepseekV4ForCausalLM: {name}$"):
        from_transformers({"model.norm.weight": torch.ones(1), name: torch.ones(2, 2, 2)})


@pytest.mark.parametrize(
    "state",
    [
        {f"{EXPERTS}.w1": torch.zeros(2, 3, 4)},
        {f"{EXPERTS}.w3": torch.zeros(2, 3, 4)},
        {f"{EXPERTS}.w1": torch.zeros(2, 3, 4), f"{EXPERTS}.w3": torch.zeros(2, 5, 4)},
        {f"{EXPERTS}.w1": torch.zeros(3), f"{EXPERTS}.w3": torch.zeros(3)},
    ],
)
def test_experts_without_their_other_half_are_refused(state: dict[str, Tensor]) -> None:
    with pytest.raises(CheckpointError, match=rf"{EXPERTS}\.w1 and {EXPERTS}\.w3 must be there both"):
        to_transformers(state)


@pytest.mark.parametrize("shape", [(2, 3, 4), (6, 4)])
def test_experts_that_are_no_two_halves_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(CheckpointError, match=r"gate_up_proj is \[.*\]; accepted: \[experts, 2 \* hidden, channels\]"):
        from_transformers({"model.layers.0.mlp.experts.gate_up_proj": torch.zeros(shape)})


def test_places_are_those_of_the_stacked_tensors(ours: dict[str, Tensor]) -> None:
    """Every tensor of the released layout, found as a slice of ours and of transformers'."""
    theirs, e = to_transformers(ours), TINY.num_experts
    seen: dict[str, set[int]] = {}
    for official, want in expected(TINY).items():
        mine, other = (place(official, want.shape, names, e) for names in (STATE, TRANSFORMERS))
        part = ours[mine.name].reshape(mine.slices, -1)[mine.slice]
        assert ours[mine.name].shape == mine.shape and part.numel() == want.size
        if official.startswith("mtp."):
            assert other.name.startswith("mtp.0.") and "attn.w" not in other.name
            continue
        assert theirs[other.name].shape == other.shape
        assert torch.equal(theirs[other.name].reshape(other.slices, -1)[other.slice], part), official
        seen.setdefault(other.name, set()).add(other.slice)
    assert seen.keys() == theirs.keys()
    assert all(
        slices == set(range(2 * e if "gate_up" in name else e)) for name, slices in seen.items() if ".experts." in name
    )


def test_names_that_are_no_models_are_refused() -> None:
    assert names_of(["embed.weight"]) == "official"
    assert names_of(["model.embed_tokens.weight", "lm_head.weight"]) == "transformers"
    assert names_of(["model.embed_tokens.weight", "head.weight"]) == "save_pretrained"
    with pytest.raises(CheckpointError, match=r"neither embed.weight nor model.embed_tokens.weight"):
        names_of(["transformer.wte.weight"])
