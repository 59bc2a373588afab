"""Our config as transformers' `DeepseekV4Config`, with every field whose default would be wrong stated.

transformers is imported when called, never at import: it takes seconds.
"""

import warnings
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
    fields: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "moe_intermediate_size": config.expert_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": 1,
        "head_dim": config.head_dim,
        "qk_rope_head_dim": config.rope_dim,
        "q_lora_rank": config.q_lora_rank,
        "o_groups": config.o_groups,
        "o_lora_rank": config.o_lora_rank,
        "num_experts_per_tok": config.experts_per_token,
        "n_routed_experts": config.num_experts,
        "n_shared_experts": config.num_shared_experts,
        "num_hash_layers": config.hash_layers,
        "scoring_func": "sqrtsoftplus",
        "norm_topk_prob": True,
        "routed_scaling_factor": config.route_scale,
        "layer_types": [LAYER_TYPES[ratio] for ratio in config.compress_ratios],
        "compress_rates": {LAYER_TYPES[SPARSE]: SPARSE, LAYER_TYPES[HEAVY]: HEAVY},
        "sliding_window": config.window,
        "index_n_heads": config.index_heads,
        "index_head_dim": config.index_dim,
        "index_topk": config.index_topk,
        "hc_mult": config.hc_mult,
        "hc_sinkhorn_iters": config.sinkhorn_iters,
        "hc_eps": config.eps,
        "rms_norm_eps": config.eps,
        "swiglu_limit": config.swiglu_limit,
        "num_nextn_predict_layers": config.mtp_layers,
        "max_position_embeddings": round(config.yarn_original * config.yarn_factor),
        "rope_theta": config.rope_theta,
        "compress_rope_theta": config.compress_rope_theta,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": config.yarn_factor,
            "original_max_position_embeddings": config.yarn_original,
            "beta_fast": config.yarn_beta_fast,
            "beta_slow": config.yarn_beta_slow,
        },
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "use_cache": False,
        "attn_implementation": "eager",
        "experts_implementation": "eager",
    }
    result = DeepseekV4Config(**fields)
    if result.qk_rope_head_dim != config.rope_dim:  # it keeps the ratio to head_dim, as a rounded float
        raise ConfigError(
            f"rope_dim = {config.rope_dim!r}; transformers would rotate {result.qk_rope_head_dim} channels"
        )
    return result
