"""Our config and Hugging Face's, in its two spellings: the released `config.json` and what transformers writes.

Sources: the released files of Flash and Pro; transformers' `DeepseekV4Config`, which is imported when called, never at
import: it takes seconds.
"""

import dataclasses
import json
import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import TqdmWarning

from trex.model.config import HEAVY, SPARSE, WINDOW, ConfigError, ModelConfig

if TYPE_CHECKING:
    from transformers import DeepseekV4Config

LAYER_TYPES = {
    WINDOW: "sliding_attention",
    SPARSE: "compressed_sparse_attention",
    HEAVY: "heavily_compressed_attention",
}
ROUTINGS = HASHED, SCORED = "hash_moe", "moe"
FIELDS = {  # ours: theirs, in both spellings
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "q_lora_rank": "q_lora_rank",
    "o_groups": "o_groups",
    "num_experts": "n_routed_experts",
    "expert_size": "moe_intermediate_size",
    "route_scale": "routed_scaling_factor",
    "index_topk": "index_topk",
    "vocab_size": "vocab_size",
    "head_dim": "head_dim",
    "o_lora_rank": "o_lora_rank",
    "experts_per_token": "num_experts_per_tok",
    "num_shared_experts": "n_shared_experts",
    "index_heads": "index_n_heads",
    "index_dim": "index_head_dim",
    "window": "sliding_window",
    "hc_mult": "hc_mult",
    "sinkhorn_iters": "hc_sinkhorn_iters",
    "mtp_layers": "num_nextn_predict_layers",
    "swiglu_limit": "swiglu_limit",
    "eps": "rms_norm_eps",
}
REAL = {field.name for field in dataclasses.fields(ModelConfig) if field.type is float}
YARN = {
    "yarn_factor": "factor",
    "yarn_original": "original_max_position_embeddings",
    "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow",
}
FIXED: dict[str, Any] = {  # what is no choice in this architecture
    "num_key_value_heads": 1,
    "scoring_func": "sqrtsoftplus",
    "norm_topk_prob": True,
    "compress_rates": {LAYER_TYPES[SPARSE]: SPARSE, LAYER_TYPES[HEAVY]: HEAVY},
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
}
READ_ONLY: dict[str, Any] = {  # the same, in one of the spellings
    "model_type": "deepseek_v4",
    "topk_method": "noaux_tc",
    "compress_rate_csa": SPARSE,
    "compress_rate_hca": HEAVY,
}
UNSCALED: dict[str, Any] = {  # cos and sin, and with them the softmax, are never scaled in this architecture
    "attention_factor": 1.0,
    "mscale": None,
    "mscale_all_dim": None,
    "truncate": True,
}


def to_hf(config: ModelConfig) -> "DeepseekV4Config":
    """The transformers config of the same model.

    Three defaults of transformers would build another model: `layer_types` (HCA at layer 2), `rope_scaling` (without it
    compressed layers lose YaRN) and the size of the rotated part (64 channels of 512). Attention and experts run eager:
    the only attention it has, and the experts that are deterministic on the CPU. Raises ConfigError for what
    transformers would build differently without saying so.
    """
    with warnings.catch_warnings():  # it tells a notebook without ipywidgets so, and nothing else
        warnings.simplefilter("ignore", TqdmWarning)
        from transformers import DeepseekV4Config

    if config.num_shared_experts != 1:
        raise ConfigError(f"num_shared_experts = {config.num_shared_experts!r}; transformers builds 1")
    values: dict[str, Any] = {
        **{theirs: _real(ours, getattr(config, ours)) for ours, theirs in FIELDS.items()},
        "hc_eps": _real("eps", config.eps),
        **FIXED,
        "compress_rates": dict(FIXED["compress_rates"]),  # it keeps, and may change, the one that it is given
        "qk_rope_head_dim": config.rope_dim,
        "num_hash_layers": config.hash_layers,
        "layer_types": [LAYER_TYPES[ratio] for ratio in config.compress_ratios],
        "max_position_embeddings": round(config.yarn_original * config.yarn_factor),
        "rope_theta": config.rope_theta,
        "compress_rope_theta": config.compress_rope_theta,
        "rope_scaling": {"rope_type": "yarn", **{theirs: getattr(config, ours) for ours, theirs in YARN.items()}},
        "use_cache": False,
        "attn_implementation": "eager",
        "experts_implementation": "eager",
    }
    result = DeepseekV4Config(**values)
    if result.qk_rope_head_dim != config.rope_dim:  # it keeps the ratio to head_dim, as a rounded float
        raise ConfigError(
            f"rope_dim = {config.rope_dim!r}; transformers would rotate {result.qk_rope_head_dim} channels"
        )
    return result


def released(config: ModelConfig) -> dict[str, Any]:
    """The `config.json` of the model in the spelling of the released files, which transformers reads as well.

    `model_name`, which is ours, keeps the name.
    """
    return {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": READ_ONLY["model_type"],
        "model_name": config.name,
        **{theirs: _real(ours, getattr(config, ours)) for ours, theirs in FIELDS.items()},
        **{field: only for field, only in FIXED.items() if field != "compress_rates"},
        "hc_eps": _real("eps", config.eps),
        "qk_rope_head_dim": config.rope_dim,
        "num_hash_layers": config.hash_layers,
        "compress_ratios": [*config.compress_ratios, *[WINDOW] * config.mtp_layers],
        "max_position_embeddings": round(config.yarn_original * config.yarn_factor),
        "rope_theta": _real("rope_theta", config.rope_theta),
        "compress_rope_theta": _real("compress_rope_theta", config.compress_rope_theta),
        "rope_scaling": {"type": "yarn", **{theirs: getattr(config, ours) for ours, theirs in YARN.items()}},
        "bos_token_id": 0,
        "eos_token_id": 1,
    }


def fields(source: "str | PathLike[str] | Mapping[str, Any] | DeepseekV4Config") -> dict[str, Any]:
    """Fields of ModelConfig, all but the name, of a `config.json`, its folder, its content, or a transformers config.

    Fields that shape no tensor and no result of the model (such as `initializer_range`, `use_cache`,
    `max_position_embeddings`, `quantization_config`) are passed over. Raises ConfigError for a file that cannot be
    read, and, naming it, for a field that is missing, contradicts another, or asks for another architecture.
    """
    given = _stated(_content(source), "source")
    for field, only in {**FIXED, **READ_ONLY}.items():
        _require(field, given.get(field, only), only)
    main, compressed = _rope(given)
    result = {
        **{ours: _take(given, theirs) for ours, theirs in FIELDS.items()},
        "compress_ratios": _compress_ratios(given),
        "hash_layers": _hash_layers(given),
        "rope_dim": _rope_dim(given, main, compressed),
        "rope_theta": _agreed("rope_theta", given.get("rope_theta"), main.get("rope_theta")),
        "compress_rope_theta": _agreed(
            "compress_rope_theta", given.get("compress_rope_theta"), compressed.get("rope_theta")
        ),
        **{ours: _take(compressed, theirs) for ours, theirs in YARN.items()},
    }
    _agreed("hc_eps and rms_norm_eps", _take(given, "hc_eps"), result["eps"])
    return {ours: _real(ours, value) for ours, value in result.items()}


def _content(source: Any) -> Any:
    if not isinstance(source, str | PathLike):
        return source.to_dict() if hasattr(source, "to_dict") else source
    path = Path(source)
    path = path / "config.json" if path.is_dir() else path
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None


def _stated(mapping: Any, name: str) -> dict[str, Any]:
    """The fields that say something: null is the same as absent."""
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"{name} = {mapping!r}; accepted: a mapping of fields to values")
    return {key: value for key, value in mapping.items() if value is not None}


def _rope(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rotary parameters of window-only and of compressed layers, as far as stated apart from the top-level fields."""
    rope = _stated(_agreed("rope_scaling", given.get("rope_parameters"), given.get("rope_scaling")), "rope_scaling")
    nested = "main" in rope or "compress" in rope
    main = _stated(_take(rope, "main"), "rope_parameters.main") if nested else {}
    compressed = _stated(_take(rope, "compress"), "rope_parameters.compress") if nested else dict(rope)
    if not nested:
        compressed.pop("rope_theta", None)  # not these layers': transformers replaces it by compress_rope_theta
    _require("rope_type", main.get("rope_type", main.get("type", "default")), "default")
    _require("rope_type", compressed.get("rope_type", compressed.get("type")), "yarn")
    for name, only in UNSCALED.items():
        _require(name, compressed.get(name, only), only)
    return main, compressed


def _rope_dim(given: dict[str, Any], main: dict[str, Any], compressed: dict[str, Any]) -> Any:
    """Channels rotated: stated as such, or as a part of `head_dim`, which transformers rounds down."""
    factors = [
        place["partial_rotary_factor"] for place in (given, main, compressed) if "partial_rotary_factor" in place
    ]
    if not factors:
        return _take(given, "qk_rope_head_dim")
    factor, head_dim = _agreed("partial_rotary_factor", *factors), _count(given, "head_dim")
    if not isinstance(factor, int | float) or not 0 <= factor <= 1:
        raise ConfigError(f"partial_rotary_factor = {factor!r}; accepted: numbers from 0 to 1")
    return _agreed("qk_rope_head_dim", given.get("qk_rope_head_dim"), int(head_dim * factor))


def _compress_ratios(given: dict[str, Any]) -> Any:
    """One ratio per layer; the released list goes on with those of the MTP blocks, which are window-only."""
    layers, mtp = _count(given, "num_hidden_layers"), _count(given, "num_nextn_predict_layers")
    by_type = by_ratio = None
    if "layer_types" in given:
        ratio_of = {kind: ratio for ratio, kind in LAYER_TYPES.items()}
        kinds = _each_of(given, "layer_types", tuple(ratio_of))
        by_type = tuple(ratio_of[kind] for kind in kinds)
        _require_length("layer_types", len(by_type), layers)
    if by_type is None or "compress_ratios" in given:
        ratios = _each_of(given, "compress_ratios", tuple(LAYER_TYPES))
        by_ratio, rest = ratios[:layers], ratios[layers:]
        if any(rest) or len(rest) > max(1, mtp):
            raise ConfigError(
                f"compress_ratios goes on with {list(rest)} after num_hidden_layers = {layers} entries; accepted: "
                f"0 for each of num_nextn_predict_layers = {mtp} MTP blocks"
            )
        _require_length("compress_ratios", len(by_ratio), layers)
    return _agreed("compress_ratios", by_ratio, by_type)


def _hash_layers(given: dict[str, Any]) -> Any:
    """Hash-routed layers, which come first."""
    if "mlp_layer_types" not in given:
        return _take(given, "num_hash_layers")
    kinds, layers = _each_of(given, "mlp_layer_types", ROUTINGS), _count(given, "num_hidden_layers")
    _require_length("mlp_layer_types", len(kinds), layers)
    hashed = kinds.count(HASHED)
    if HASHED in kinds[hashed:]:
        raise ConfigError(f"mlp_layer_types = {list(kinds)!r}; accepted: {HASHED!r} in the first layers only")
    return _agreed("num_hash_layers", given.get("num_hash_layers"), hashed)


def _take(given: dict[str, Any], field: str) -> Any:
    if field not in given:
        raise ConfigError(f"{field} is missing")
    return given[field]


def _count(given: dict[str, Any], field: str) -> int:
    value = _take(given, field)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{field} = {value!r}; accepted: integers from 0")
    return value


def _each_of(given: dict[str, Any], field: str, accepted: tuple[Any, ...]) -> tuple[Any, ...]:
    """A list with every entry one of `accepted`."""
    values = _take(given, field)
    if not isinstance(values, list | tuple) or not all(value in accepted for value in values):
        raise ConfigError(f"{field} = {values!r}; accepted: a list of {', '.join(map(repr, accepted))}")
    return tuple(values)


def _real(ours: str, value: Any) -> Any:
    """10000.0 for a 10000 in the released files: transformers takes no int for some of its real fields."""
    return float(value) if ours in REAL and type(value) is int and abs(value) < 2**53 else value


def _require(field: str, value: Any, only: Any) -> None:
    if value != only:
        accepted = "nothing: cos and sin are not scaled" if only is None else repr(only)
        raise ConfigError(f"{field} = {value!r}; accepted: {accepted}")


def _require_length(field: str, length: int, layers: int) -> None:
    if length != layers:
        raise ConfigError(f"{field} has {length} entries; accepted: num_hidden_layers = {layers}, one per layer")


def _agreed(field: str, *values: Any) -> Any:
    """The one value of a field that may be stated in several places."""
    stated = [value for value in values if value is not None]
    if not stated:
        raise ConfigError(f"{field} is missing")
    if any(value != stated[0] for value in stated[1:]):
        raise ConfigError(f"{field} is stated as {' and as '.join(map(repr, stated))}; accepted: one value")
    return stated[0]
