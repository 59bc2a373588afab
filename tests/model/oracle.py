"""transformers' DeepSeek-V4 as an oracle for ours: the same weights in both, in float32 as it is and in float64.

transformers casts norms, softmax, rotations and mHC to float32 whatever the dtype of the model. For float64 its two
source files are therefore read, every float32 in them made float64, and the result run as modules of their own. The
installed package stays as it is, but for its registry of cache classes, which are the same in both.
"""

import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from trex.checkpoint.names import to_transformers
from trex.model.config import ModelConfig
from trex.model.weights import embedding_weights, head_weights, layer_weights, mtp_weights

FLOAT32 = re.compile(r"\btorch\.float(?:32)?\b|\.float\(\)")


@cache
def lifted() -> ModuleType:
    """transformers' `modeling_deepseek_v4`, and the YaRN frequencies it uses, computing in float64 inside."""
    import transformers.modeling_rope_utils as rope
    import transformers.models.deepseek_v4.modeling_deepseek_v4 as modeling

    module = _in_float64(modeling)
    module.ROPE_INIT_FUNCTIONS = _in_float64(rope).ROPE_INIT_FUNCTIONS  # type: ignore[attr-defined]
    return module


def random_weights(config: ModelConfig, seed: int = 0) -> dict[str, Tensor]:
    """All weights under our names, MTP and the tables of hash routing included: float32 (tables int64), seeded.

    Sinks, position biases, mHC bases and selection biases are not zero, norms and mHC scales not uniform, so that no
    part of the model can be left out without changing its result.
    """
    draw = torch.Generator().manual_seed(seed)
    weights = [*embedding_weights(config), *head_weights(config), *mtp_weights(config)]
    weights += [weight for layer in range(config.num_layers) for weight in layer_weights(config, layer)]
    state = {}
    for weight in weights:
        name, shape = weight.name, weight.shape
        if ".*." in name:  # experts are stacked
            name, shape = name.replace(".*.", ".").removesuffix(".weight"), (weight.copies, *shape)
        state[name] = _spread(name, torch.randn(shape, generator=draw))
    for layer in range(config.hash_layers):
        rank = torch.rand(config.vocab_size, config.num_experts, generator=draw).argsort(dim=1)
        state[f"layers.{layer}.ffn.gate.tid2eid"] = rank[:, : config.experts_per_token].contiguous()
    return state


def hf_model(config: ModelConfig, state: Mapping[str, Tensor], dtype: torch.dtype) -> Any:
    """transformers' DeepseekV4ForCausalLM with the weights of `state` (our names) in float32, or lifted in float64.

    Its logits are to be compared: the loss that it computes from `labels` is float32 in either.
    """
    import transformers

    source = {torch.float32: transformers, torch.float64: lifted()}[dtype]
    model: nn.Module = source.DeepseekV4ForCausalLM(config.to_hf()).to(dtype).eval()
    model.load_state_dict(to_transformers(state))
    return model


def _in_float64(original: ModuleType) -> ModuleType:
    assert original.__file__ is not None
    source = Path(original.__file__).read_text()
    text, found = FLOAT32.subn(lambda m: ".double()" if m[0] == ".float()" else "torch.float64", source)
    assert found, f"nothing to lift in {original.__file__}"
    module = ModuleType(f"{original.__name__}_float64")
    module.__package__, module.__file__ = original.__package__, original.__file__
    sys.modules[module.__name__] = module  # decorators of transformers look their module up
    exec(compile(text, original.__file__, "exec"), module.__dict__)
    return module


def _spread(name: str, noise: Tensor) -> Tensor:
    """From standard normal noise to values of the size that a trained weight of this kind has."""
    if name.endswith("norm.weight"):
        return 1 + 0.1 * noise
    if name.endswith("_scale"):
        return 0.5 + 0.1 * noise
    if name.endswith("_base"):
        return 0.3 * noise
    if name.endswith("gate.bias"):
        return 0.1 * noise
    if name.endswith(("attn_sink", ".ape", "embed.weight")):
        return noise
    return noise / noise.shape[-1] ** 0.5
