"""Folders of weights for the tests: small models, bits at random, what two folders differ in."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tests.model.oracle import random_weights
from torch import Tensor

from trex.model.config import ModelConfig
from trex.model.transformer import Transformer

TINY = ModelConfig.tiny()
SMALL = ModelConfig.tiny(  # two layers, of each kind of routing, and an MTP block: loads in milliseconds
    num_layers=2, compress_ratios=(4, 128), hash_layers=1, vocab_size=64, num_experts=4, hidden_size=32, expert_size=16,
)  # fmt: skip
ODD = ModelConfig.tiny(hidden_size=96, expert_size=96, q_lora_rank=40, o_lora_rank=24)  # few multiples of 32 or 128


@cache
def weights(config: ModelConfig, seed: int = 0) -> Mapping[str, Tensor]:
    """All weights of a model under the names of its state dict, float32, every value different."""
    return random_weights(config, seed)


def model_of(config: ModelConfig, seed: int = 0) -> Transformer:
    """A model with these weights."""
    model = Transformer(config)
    model.load_state_dict(dict(weights(config, seed)))
    return model


def same_state(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> bool:
    """The same tensors, dtypes included."""
    names = left.keys() == right.keys()
    return names and all(t.dtype == right[name].dtype and torch.equal(t, right[name]) for name, t in left.items())


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def differing(left: Path, right: Path) -> list[str]:
    """Files that are not in both, byte for byte."""
    a, b = contents(left), contents(right)
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))


def randomise(folder: Path, seed: int, scales: tuple[int, int] = (0, 255)) -> None:
    """Put random bits into all FP8 and FP4 codes, NaN among them, and scale bytes from the first to the last given."""
    draw = torch.Generator().manual_seed(seed)
    for path in sorted(folder.glob("*.safetensors")):
        tensors = load_file(path)
        for name, tensor in tensors.items():
            low, high = scales if tensor.dtype == torch.float8_e8m0fnu else (0, 255)
            if tensor.dtype in (torch.float8_e8m0fnu, torch.float8_e4m3fn, torch.int8):
                bits = torch.randint(low, high + 1, tensor.shape, dtype=torch.uint8, generator=draw)
                tensors[name] = bits.view(tensor.dtype)
        save_file(tensors, path, {"format": "pt"})
