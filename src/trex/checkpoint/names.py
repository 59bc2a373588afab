"""Where each tensor of a model lies, under four sets of names.

"official": the released checkpoints, one tensor per routed expert and matrix. "state": our state dict, the same names
with the experts of a layer stacked: `experts.w1` (gate) and `experts.w3` (up) [E, I, d], `experts.w2` (down) [E, d, I].
"transformers": the state dict of its `DeepseekV4ForCausalLM`: other names, gate and up in one `gate_up_proj`
[E, 2I, d], gate first; it has no MTP blocks and passes over names that begin with `mtp.`, where ours are kept with its
names for the parts of a layer. "save_pretrained": what its `save_pretrained` writes, a third spelling.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from trex.checkpoint.errors import CheckpointError

OFFICIAL, STATE, TRANSFORMERS, SAVE_PRETRAINED = "official", "state", "transformers", "save_pretrained"
MODEL = {
    "embed.weight": "model.embed_tokens.weight",
    "hc_head_fn": "model.hc_head.hc_fn",
    "hc_head_base": "model.hc_head.hc_base",
    "hc_head_scale": "model.hc_head.hc_scale",
    "norm.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
SAVED_MODEL = {**MODEL, "head.weight": "head.weight"}
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
IN_BLOCK = re.compile(r"((?:layers|mtp)\.(?:0|[1-9][0-9]*)\.)(.+)")
EXPERT = re.compile(r"(.+\.experts\.)(0|[1-9][0-9]*)\.(w[123])\.weight")
IN_LAYER = re.compile(r"(layers\.(?:0|[1-9][0-9]*)\.)(.+)")


@dataclass(frozen=True)
class Place:
    """One of the equal slices, in order of bytes, of a tensor under some set of names."""

    name: str
    shape: tuple[int, ...]  # of the whole tensor
    slice: int = 0
    slices: int = 1


def place(official: str, shape: tuple[int, ...], names: str, experts: int) -> Place:
    """Where the tensor of an official name, of this shape, lies under other names; experts: how many a layer has."""
    if names == OFFICIAL:
        return Place(official, shape)
    block = IN_BLOCK.fullmatch(official)
    prefix, own = (block[1], block[2]) if block else ("", official)
    outer = "" if prefix.startswith("mtp.") or names == STATE else "model."
    if names == SAVE_PRETRAINED:
        return Place(f"{outer}{prefix}{own}" if block else SAVED_MODEL[own], shape)
    match = EXPERT.fullmatch(own)
    if match is not None:
        return _stacked(outer + prefix, int(match[2]), match[3], shape, names, experts)
    if names == STATE:
        return Place(official, shape)
    return Place(outer + prefix + LAYER.get(own, own) if block else MODEL[own], shape)


def spellings(name: str) -> tuple[str, ...]:
    """A name, and how else `save_pretrained` may write it: it leaves norms of keys and values half renamed."""
    return (name, name.replace(".kv_norm.", ".norm.")) if ".kv_norm." in name else (name,)


def names_of(found: Container[str]) -> str:
    """Under which names the tensors are. Raises CheckpointError where they are those of no DeepSeek-V4."""
    if "embed.weight" in found:
        return OFFICIAL
    if "model.embed_tokens.weight" in found:
        return TRANSFORMERS if "lm_head.weight" in found else SAVE_PRETRAINED
    raise CheckpointError("no DeepSeek-V4: there is neither embed.weight nor model.embed_tokens.weight")


def _stacked(prefix: str, expert: int, matrix: str, shape: tuple[int, ...], names: str, experts: int) -> Place:
    if names == STATE:
        return Place(f"{prefix}ffn.experts.{matrix}", (experts, *shape), expert, experts)
    if matrix == "w2":
        return Place(f"{prefix}mlp.experts.down_proj", (experts, *shape), expert, experts)
    name, rows = f"{prefix}{GATE_UP}", 2 * shape[0]
    return Place(name, (experts, rows, *shape[1:]), 2 * expert + (matrix == "w3"), 2 * experts)


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
