"""Configs to and from Hugging Face's two spellings: the released `config.json` and what transformers writes."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trex.model.config import HEAVY, SPARSE, WINDOW, ConfigError, ModelConfig

# The released files' fields, from the model cards' config.json; lists written out by their pattern.
FLASH: dict[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "expert_dtype": "fp4",
    "hc_eps": 1e-06,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "head_dim": 512,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 512,
    "initializer_range": 0.02,
    "max_position_embeddings": 1048576,
    "model_type": "deepseek_v4",
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 64,
    "num_experts_per_tok": 6,
    "num_hash_layers": 3,
    "num_hidden_layers": 43,
    "num_key_value_heads": 1,
    "num_nextn_predict_layers": 1,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "q_lora_rank": 1024,
    "qk_rope_head_dim": 64,
    "quantization_config": {"quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [128, 128]},
    "rms_norm_eps": 1e-06,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 16,
        "original_max_position_embeddings": 65536,
        "type": "yarn",
    },
    "rope_theta": 10000,
    "routed_scaling_factor": 1.5,
    "scoring_func": "sqrtsoftplus",
    "sliding_window": 128,
    "swiglu_limit": 10.0,
    "tie_word_embeddings": False,
    "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "vocab_size": 129280,
    "compress_rope_theta": 160000,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
}
PRO = {
    **FLASH,
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "q_lora_rank": 1536,
    "o_groups": 16,
    "n_routed_experts": 384,
    "moe_intermediate_size": 3072,
    "routed_scaling_factor": 2.5,
    "index_topk": 1024,
    "compress_ratios": [128, 128, *[4, 128] * 29, 4, 0],
}
NEEDED = [
    "hidden_size", "num_hidden_layers", "num_attention_heads", "q_lora_rank", "o_groups", "n_routed_experts",
    "moe_intermediate_size", "routed_scaling_factor", "index_topk", "compress_ratios", "vocab_size", "head_dim",
    "qk_rope_head_dim", "o_lora_rank", "num_experts_per_tok", "n_shared_experts", "num_hash_layers", "index_n_heads",
    "index_head_dim", "sliding_window", "hc_mult", "hc_sinkhorn_iters", "num_nextn_predict_layers", "swiglu_limit",
    "rms_norm_eps", "hc_eps", "rope_theta", "compress_rope_theta", "rope_scaling",
]  # fmt: skip
# every field differs from that of tiny, Flash and Pro
VARIANT = ModelConfig(
    "variant", hidden_size=48, num_layers=3, num_heads=6, q_lora_rank=20, o_groups=3, num_experts=7, expert_size=24,
    route_scale=2.0, index_topk=5, compress_ratios=(SPARSE, WINDOW, HEAVY), vocab_size=300, head_dim=24, rope_dim=6,
    o_lora_rank=10, experts_per_token=3, hash_layers=1, index_heads=12, index_dim=14, window=11, hc_mult=3,
    sinkhorn_iters=7, mtp_layers=2, swiglu_limit=7.0, eps=1e-5, rope_theta=5e3, compress_rope_theta=9e4,
    yarn_factor=8.0, yarn_original=4096, yarn_beta_fast=16.0, yarn_beta_slow=2.0,
)  # fmt: skip
MODELS = [
    ModelConfig.flash(),
    ModelConfig.pro(),
    ModelConfig.tiny(),
    VARIANT,
    ModelConfig.tiny(hash_layers=0, mtp_layers=0, compress_ratios=(WINDOW,) * 6),
    ModelConfig.tiny(hash_layers=6, eps=1e-5, rope_dim=6, swiglu_limit=7),
]


def ids(config: ModelConfig) -> str:
    return f"{config.name}-{config.hash_layers}"


def yarn(**over: Any) -> dict[str, Any]:
    return {"rope_scaling": {**FLASH["rope_scaling"], **over}}


@pytest.mark.parametrize(("released", "ours"), [(FLASH, ModelConfig.flash()), (PRO, ModelConfig.pro())])
def test_released_files_give_flash_and_pro(released: dict[str, Any], ours: ModelConfig, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(released))
    for source in (released, tmp_path, str(tmp_path), tmp_path / "config.json"):
        read = ModelConfig.from_hf(source, name=ours.name)
        assert read == ours
        assert repr(read) == repr(ours)  # 10000.0, not 10000: transformers is strict about the type
    assert ModelConfig.from_hf(released).name == "DeepSeek-V4"


def test_without_the_ratio_of_the_mtp_block() -> None:
    shorter = {**FLASH, "compress_ratios": FLASH["compress_ratios"][:43]}
    assert ModelConfig.from_hf(shorter) == ModelConfig.from_hf(FLASH)
    without = ModelConfig.from_hf({**FLASH, "num_nextn_predict_layers": 0})  # weights of the block left out, list kept
    assert without == replace(ModelConfig.from_hf(FLASH), mtp_layers=0)


@pytest.mark.parametrize(("released", "ours"), [(FLASH, ModelConfig.flash()), (PRO, ModelConfig.pro())])
def test_transformers_reads_the_released_file_as_the_same_model(released: dict[str, Any], ours: ModelConfig) -> None:
    """An independent reader of the same file."""
    from transformers import DeepseekV4Config

    theirs, mine = DeepseekV4Config(**released).to_dict(), ours.to_hf().to_dict()
    assert theirs["rope_parameters"]["compress"].pop("type") == "yarn"  # kept beside rope_type
    apart = {key for key in theirs.keys() | mine.keys() if theirs.get(key) != mine.get(key)}
    about_files = {"architectures", "dtype", "expert_dtype", "quantization_config", "topk_method", "torch_dtype"}
    assert apart <= about_files | {"use_cache"}
    assert ModelConfig.from_hf(DeepseekV4Config(**released), name=ours.name) == ours


@pytest.mark.parametrize("config", MODELS, ids=ids)
def test_round_trip(config: ModelConfig, tmp_path: Path) -> None:
    theirs = config.to_hf()
    theirs.save_pretrained(tmp_path)
    for source in (theirs, theirs.to_dict(), tmp_path):
        assert ModelConfig.from_hf(source, name=config.name) == config


@pytest.mark.parametrize("config", MODELS, ids=ids)
def test_the_traps_of_transformers_are_avoided(config: ModelConfig) -> None:
    """Its defaults put HCA at layer 2, leave YaRN out, rotate 64 of 512 channels and scale cosines."""
    theirs = config.to_hf()
    kinds = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    assert theirs.layer_types == [kinds[ratio] for ratio in config.compress_ratios]
    hashed = config.hash_layers
    assert theirs.mlp_layer_types == ["hash_moe"] * hashed + ["moe"] * (config.num_layers - hashed)
    assert theirs.qk_rope_head_dim == config.rope_dim
    assert theirs._attn_implementation == "eager" and theirs.use_cache is False
    assert theirs.rope_parameters["main"]["rope_type"] == "default"
    compressed = theirs.rope_parameters["compress"]
    assert compressed["rope_type"] == "yarn" and compressed["attention_factor"] == 1.0


@pytest.mark.parametrize("over", [{"num_shared_experts": 2}, {"head_dim": 98, "rope_dim": 2}])
def test_what_transformers_would_build_differently_is_refused(over: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(reversed(over))):
        ModelConfig.tiny(**over).to_hf()


def test_the_variant_leaves_no_field_at_a_value_that_could_be_a_default() -> None:
    same = {
        name
        for name, value in vars(VARIANT).items()
        if value in (vars(ModelConfig.tiny())[name], vars(ModelConfig.flash())[name])
    }
    assert same == {"num_shared_experts"}  # transformers builds one


@pytest.mark.parametrize("field", NEEDED)
@pytest.mark.parametrize("absent", [True, False])
def test_a_missing_field_is_named(field: str, absent: bool) -> None:
    body = {**FLASH, field: None}
    if absent:
        del body[field]
    with pytest.raises(ConfigError, match=rf"\b{field} is missing"):
        ModelConfig.from_hf(body)


@pytest.mark.parametrize("field", ["factor", "original_max_position_embeddings", "beta_fast", "beta_slow"])
def test_a_missing_yarn_field_is_named(field: str) -> None:
    scaling = {key: value for key, value in FLASH["rope_scaling"].items() if key != field}
    with pytest.raises(ConfigError, match=rf"{field} is missing"):
        ModelConfig.from_hf({**FLASH, "rope_scaling": scaling})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "deepseek_v3"}, "model_type = 'deepseek_v3'; accepted: 'deepseek_v4'"),
        ({"scoring_func": "softmax"}, "scoring_func = 'softmax'; accepted: 'sqrtsoftplus'"),
        ({"topk_method": "greedy"}, "topk_method = 'greedy'"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings = True; accepted: False"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'; accepted: 'silu'"),
        ({"attention_bias": True}, "attention_bias = True"),
        ({"mlp_bias": True}, "mlp_bias = True"),
        ({"attention_dropout": 0.1}, "attention_dropout = 0.1"),
        ({"num_key_value_heads": 8}, "num_key_value_heads = 8; accepted: 1"),
        ({"norm_topk_prob": False}, "norm_topk_prob = False; accepted: True"),
        ({"compress_rate_csa": 8}, "compress_rate_csa = 8; accepted: 4"),
        ({"compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 64}}, "compress_rates"),
        ({"hc_eps": 1e-5}, "hc_eps and rms_norm_eps is stated as 1e-05 and as 1e-06"),
        ({"num_hash_layers": 44}, "hash_layers = 44; accepted: at most num_layers = 43"),
        ({"num_hash_layers": "3"}, "hash_layers = '3'"),
        ({"hidden_size": "4096"}, "hidden_size = '4096'; accepted: integers from 1"),
        ({"num_hidden_layers": 43.0}, "num_hidden_layers = 43.0; accepted: integers"),
        ({"num_hidden_layers": True}, "num_hidden_layers = True; accepted: integers"),
        ({"num_nextn_predict_layers": "one"}, "num_nextn_predict_layers = 'one'"),
        ({"num_hidden_layers": 45}, "compress_ratios has 44 entries; accepted: num_hidden_layers = 45"),
        ({"compress_ratios": [0, 0, *[4, 128] * 20, 4, 0, 0, 0]}, "compress_ratios goes on with [0, 0, 0]"),
        ({"compress_ratios": [0, 0, *[4, 128] * 20, 4, 4]}, "compress_ratios goes on with [4]"),
        ({"compress_ratios": [8] * 43}, "accepted: a list of 0, 4, 128"),
        ({"compress_ratios": 4}, "compress_ratios = 4; accepted: a list"),
        ({"compress_ratios": [{}] * 43}, "compress_ratios = [{}, {}"),
        ({"swiglu_limit": 0.0}, "swiglu_limit = 0.0"),
        ({"rope_theta": float("nan")}, "rope_theta = nan"),
        ({"rope_theta": 10**400}, "rope_theta = 1000"),
        ({"rope_scaling": "yarn"}, "rope_scaling = 'yarn'; accepted: a mapping"),
        (yarn(type="linear"), "rope_type = 'linear'; accepted: 'yarn'"),
        (yarn(type=None), "rope_type = None; accepted: 'yarn'"),
        (yarn(mscale=1.0), "mscale = 1.0; accepted: nothing"),
        (yarn(mscale_all_dim=1.0), "mscale_all_dim = 1.0; accepted: nothing"),
        (yarn(attention_factor=1.277), "attention_factor = 1.277; accepted: 1.0"),
        (yarn(truncate=False), "truncate = False; accepted: True"),
        (yarn(factor=0.5), "yarn_factor = 0.5"),
        ({"rope_parameters": {"rope_type": "default"}}, "rope_scaling is stated as"),
        ({"partial_rotary_factor": 0.25}, "qk_rope_head_dim is stated as 64 and as 128"),
        ({"partial_rotary_factor": "all"}, "partial_rotary_factor = 'all'"),
        ({"partial_rotary_factor": float("nan")}, "partial_rotary_factor = nan"),
    ],
)
def test_another_architecture_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig.from_hf({**FLASH, **change})
    assert message in str(caught.value)


def layers(body: dict[str, Any], field: str, **entries: Any) -> None:
    for index, value in entries.items():
        body[field][int(index.removeprefix("at"))] = value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: layers(b, "layer_types", at2="linear_attention"), "accepted: a list of 'sliding_attention'"),
        (lambda b: b["layer_types"].append("sliding_attention"), "layer_types has 7 entries; accepted: num_hidden_la"),
        (lambda b: layers(b, "mlp_layer_types", at0="moe"), "accepted: 'hash_moe' in the first layers only"),
        (lambda b: layers(b, "mlp_layer_types", at4="dense"), "accepted: a list of 'hash_moe', 'moe'"),
        (lambda b: b["mlp_layer_types"].pop(), "mlp_layer_types has 5 entries"),
        (lambda b: b.update(num_hash_layers=2), "num_hash_layers is stated as 2 and as 3"),
        (lambda b: b.update(compress_ratios=[4] * 6), "compress_ratios is stated as (4, 4, 4, 4, 4, 4) and as (0, 4"),
        (lambda b: b["rope_parameters"].pop("main"), "main is missing"),
        (lambda b: b["rope_parameters"].pop("compress"), "compress is missing"),
        (lambda b: b["rope_parameters"].update(main=3), "rope_parameters.main = 3; accepted: a mapping"),
        (lambda b: b["rope_parameters"]["main"].update(rope_type="yarn"), "rope_type = 'yarn'; accepted: 'default'"),
        (lambda b: b["rope_parameters"]["compress"].update(rope_type="default"), "rope_type = 'default'; accepted: 'y"),
        (lambda b: b["rope_parameters"]["main"].update(rope_theta=5.0), "rope_theta is stated as 10000.0 and as 5.0"),
        (lambda b: b["rope_parameters"]["compress"].update(rope_theta=5.0), "compress_rope_theta is stated as"),
        (lambda b: b["rope_parameters"]["compress"].update(partial_rotary_factor=1.0), "partial_rotary_factor is stat"),
        (lambda b: b["compress_rates"].update(compressed_sparse_attention=8), "compress_rates = {"),
    ],
)
def test_the_transformers_spelling_is_checked_too(change: Any, message: str) -> None:
    body = json.loads(json.dumps(ModelConfig.tiny().to_hf().to_dict()))
    assert ModelConfig.from_hf(body, "tiny") == ModelConfig.tiny()
    change(body)
    with pytest.raises(ConfigError) as caught:
        ModelConfig.from_hf(body)
    assert message in str(caught.value)


def test_rotated_channels_as_a_part_of_the_head() -> None:
    """`qk_rope_head_dim` is an attribute of transformers' config that not every version writes."""
    body = ModelConfig.tiny().to_hf().to_dict()
    del body["qk_rope_head_dim"]
    assert ModelConfig.from_hf(body, "tiny") == ModelConfig.tiny()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"{'hidden_size': 4096}", "is not JSON"),
        (b"\xff\xfe\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1, 2]", r"source = \[1, 2\]; accepted: a mapping"),
    ],
)
def test_a_file_that_is_no_config_is_refused(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    for source in (path, tmp_path):
        with pytest.raises(ConfigError, match=message):
            ModelConfig.from_hf(source)


@pytest.mark.parametrize("source", [3, None, ["hidden_size"]])
def test_a_source_of_another_kind_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError, match="source = "):
        ModelConfig.from_hf(source)


def test_reading_needs_no_transformers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(FLASH))
    program = f"""
import sys
from trex.model.config import ModelConfig
assert not {{"trex.model.hf", "torch", "tqdm"}} & set(sys.modules)
ModelConfig.from_hf({str(tmp_path)!r})
assert not {{"transformers", "torch"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
