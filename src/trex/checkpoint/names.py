"""Our state dict and that of transformers' `DeepseekV4ForCausalLM`: other names, and experts stacked otherwise.

Ours are the names of the released checkpoints, with the routed experts of a layer in one tensor per matrix:
`experts.w1` (gate) and `experts.w3` (up) [E, I, d], `experts.w2` (down) [E, d, I]. transformers keeps gate and up in
one `gate_up_proj` [E, 2I, d], gate first, and has no MTP blocks.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from trex.checkpoint.folder import CheckpointError

MODEL = {
    "embed.weight": "model.embed_tokens.weight",
    "hc_head_fn": "model.hc_head.hc_fn",
    "hc_head_base": "model.hc_head.hc_base",
    "hc_head_scale": "model.hc_head.hc_scale",
    "norm.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
LAYER = {
    "attn_norm.weight": "input_layernorm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "hc_attn_fn": "attn_hc.fn",
    "hc_attn_base": "attn_hc.base",
    "hc_attn_scale": "attn_hc.scale",
    "hc_ffn_fn": "ffn_hc.fn",
    "hc_ffn_base": "ffn_hc.base",
    "hc_ffn_scale": "ffn_hc.scale",
    "attn.wq_a.weight": "self_attn.q_a_proj.weight",
    "attn.q_norm.weight": "self_attn.q_a_norm.weight",
    "attn.wq_b.weight": "self_attn.q_b_proj.weight",
    "attn.wkv.weight": "self_attn.kv_proj.weight",
    "attn.kv_norm.weight": "self_attn.kv_norm.weight",
    "attn.wo_a.weight": "self_attn.o_a_proj.weight",
    "attn.wo_b.weight": "self_attn.o_b_proj.weight",
    "attn.attn_sink": "self_attn.sinks",
    "attn.compressor.wkv.weight": "self_attn.compressor.kv_proj.weight",
    "attn.compressor.wgate.weight": "self_attn.compressor.gate_proj.weight",
    "attn.compressor.ape": "self_attn.compressor.position_bias",
    "attn.compressor.norm.weight": "self_attn.compressor.kv_norm.weight",
    "attn.indexer.wq_b.weight": "self_attn.compressor.indexer.q_b_proj.weight",
    "attn.indexer.weights_proj.weight": "self_attn.compressor.indexer.scorer.weights_proj.weight",
    "attn.indexer.compressor.wkv.weight": "self_attn.compressor.indexer.kv_proj.weight",
    "attn.indexer.compressor.wgate.weight": "self_attn.compressor.indexer.gate_proj.weight",
    "attn.indexer.compressor.ape": "self_attn.compressor.indexer.position_bias",
    "attn.indexer.compressor.norm.weight": "self_attn.compressor.indexer.kv_norm.weight",
    "ffn.gate.weight": "mlp.gate.weight",
    "ffn.gate.bias": "mlp.gate.e_score_correction_bias",
    "ffn.gate.tid2eid": "mlp.gate.tid2eid",
    "ffn.experts.w2": "mlp.experts.down_proj",
    "ffn.shared_experts.w1.weight": "mlp.shared_experts.gate_proj.weight",
    "ffn.shared_experts.w3.weight": "mlp.shared_experts.up_proj.weight",
    "ffn.shared_experts.w2.weight": "mlp.shared_experts.down_proj.weight",
}
GATE, UP, GATE_UP = "ffn.experts.w1", "ffn.experts.w3", "mlp.experts.gate_up_proj"
THEIR_MODEL = {theirs: ours for ours, theirs in MODEL.items()}
THEIR_LAYER = {theirs: ours for ours, theirs in LAYER.items()}
IN_LAYER = re.compile(r"(layers\.(?:0|[1-9][0-9]*)\.)(.+)")


def to_transformers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """transformers' names and layout; MTP weights are dropped. Tensors are shared with `state`, gate_up_proj is new.

    Raises CheckpointError that lists all names that are none of our model, and gates or ups without the other.
    """
    result: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in state.items():
        layer, own = _parts(name)
        if own in (GATE, UP):
            gate, up = state.get(layer + GATE), state.get(layer + UP)
            if gate is None or up is None or gate.shape != up.shape or gate.dim() != 3:
                raise CheckpointError(f"{layer}{GATE} and {layer}{UP} must be there both, [experts, hidden, channels]")
            if own == GATE:
                result[f"model.{layer}{GATE_UP}"] = torch.cat([gate, up], dim=1)
        elif own in LAYER:
            result[f"model.{layer}{LAYER[own]}"] = tensor
        elif name in MODEL:
            result[MODEL[name]] = tensor
        elif not name.startswith("mtp."):
            unknown.append(name)
    _refuse(unknown, "DeepSeek-V4")
    return result


def from_transformers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our names and layout, no MTP weights. Tensors are shared with `state`, w1 and w3 of the experts are new.

    Raises CheckpointError that lists all names that are none of transformers' DeepseekV4ForCausalLM, and a
    `gate_up_proj` that has no halves.
    """
    result: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in state.items():
        layer, own = _parts(name, "model.")
        if own == GATE_UP:
            if tensor.dim() != 3 or tensor.shape[1] % 2:
                raise CheckpointError(f"{name} is {list(tensor.shape)}; accepted: [experts, 2 * hidden, channels]")
            gate, up = (half.clone(memory_format=torch.contiguous_format) for half in tensor.chunk(2, dim=1))
            result |= {layer + GATE: gate, layer + UP: up}
        elif own in THEIR_LAYER:
            result[layer + THEIR_LAYER[own]] = tensor
        elif name in THEIR_MODEL:
            result[THEIR_MODEL[name]] = tensor
        else:
            unknown.append(name)
    _refuse(unknown, "transformers' DeepseekV4ForCausalLM")
    return result


def _parts(name: str, prefix: str = "") -> tuple[str, str]:
    """`layers.3.` and the name in the layer; two empty strings for what is in no layer."""
    match = IN_LAYER.fullmatch(name, len(prefix)) if name.startswith(prefix) else None
    return (match[1], match[2]) if match else ("", "")


def _refuse(unknown: list[str], model: str) -> None:
    if unknown:
        raise CheckpointError(f"no weights of {model}: {', '.join(unknown)}")
