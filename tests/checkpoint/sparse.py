"""Checkpoint folders in the released layout that have headers and length but no content: sparse files."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trex.model.config import ModelConfig
from trex.model.transformer import Transformer

SIZES = {"F8_E4M3": 1, "F8_E8M0": 1, "I8": 1, "BF16": 2, "F32": 4, "I64": 8}
IN_FP8 = ("wq_a", "wq_b", "wkv", "wo_a", "wo_b", "w1", "w2", "w3", "e_proj", "h_proj")
IN_F32 = ("attn_sink", "ape", "gate.bias", "hc_")

Tensors = dict[str, tuple[str, tuple[int, ...]]]  # name → dtype, shape


def released(config: ModelConfig) -> Tensors:
    """The tensors of a release with FP4 experts: shapes from our network's own state dict, not from a list of names."""
    with torch.device("meta"):
        state = Transformer(config).state_dict()
    found: Tensors = {}
    for name, tensor in state.items():
        shape = tuple(tensor.shape)
        if ".experts.w" in name:
            before, matrix = name.split("experts.")
            rows, columns = shape[1:]
            for expert in range(shape[0]):
                stem = f"{before}experts.{expert}.{matrix}"
                found[f"{stem}.weight"] = "I8", (rows, columns // 2)
                found[f"{stem}.scale"] = "F8_E8M0", (rows, columns // 32)
        elif name.endswith("tid2eid"):
            found[name] = "I64", shape
        elif any(sign in name for sign in IN_F32):
            found[name] = "F32", shape
        elif name.split(".")[-2] in IN_FP8 and "compressor" not in name:
            found[name] = "F8_E4M3", shape
            found[name.removesuffix("weight") + "scale"] = "F8_E8M0", (-(-shape[0] // 128), -(-shape[1] // 128))
        else:
            found[name] = "BF16", shape
    return found


def write(path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
    """A safetensors file of zeros that takes no room on the disk."""
    body, place = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = SIZES[dtype]
        for n in shape:
            size *= n
        body[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    header = json.dumps(body).encode()
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        stream.truncate(8 + len(header) + place)


def folder(path: Path, config: ModelConfig, tensors: Tensors, files: int = 1) -> Path:
    """A folder with config.json, `files` shards and an index."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(raw_config(config)))
    names = list(tensors)
    each = -(-len(names) // files)
    places: dict[str, str] = {}
    for number in range(files):
        part = names[number * each : (number + 1) * each]
        file = f"model-{number + 1:05}-of-{files:05}.safetensors"
        write(path / file, {name: tensors[name] for name in part})
        places |= dict.fromkeys(part, file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return path


def raw_config(config: ModelConfig) -> dict[str, Any]:
    """config.json with transformers' field names."""
    return dict(config.to_hf().to_dict())
