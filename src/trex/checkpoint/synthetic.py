"""A folder in the released layout, of any size, with random weights: to try the tools on, without a download."""

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from trex.checkpoint.manifest import to_json
from trex.checkpoint.quantized import FORMATS, SCALE_DTYPE
from trex.checkpoint.released import Expected, expected, scale_name
from trex.checkpoint.target import SHARD, documents, shards
from trex.checkpoint.tensors import DTYPES, PIECE, New, byte_size, write
from trex.files import folder_atomic
from trex.model.config import ModelConfig

EXPONENTS = 108, 116  # scale bytes: weights of up to 448 · 2^-12 in FP8


def write_released(folder: Path, config: ModelConfig, seed: int = 0, shard_bytes: int = SHARD) -> Path:
    """Write random weights as they are released: FP8, routed experts FP4, the rest BF16 and F32. No manifest.

    All codes of FP8 and FP4 appear but FP8's NaN; scales are 2^-19 to 2^-11. Raises FileExistsError.
    """
    tensors: list[New] = []
    for name, want in expected(config).items():
        tensors += _new(name, want, config, seed)
    files = shards(tensors, shard_bytes)
    with folder_atomic(folder) as temporary:
        for file in files:
            write(temporary / file.name, file.tensors, {"format": "pt"})
        for name, document in documents(config, files).items():
            (temporary / name).write_bytes(to_json(document))
    return folder


def _new(name: str, want: Expected, config: ModelConfig, seed: int) -> list[New]:
    generator = partial(_generator, name, seed)
    form = {form.name.lower(): form for form in FORMATS}.get(want.kind)
    if form is None:
        dtype = want.kind.upper()
        draw = partial(_numbers, generator, want, dtype, config.num_experts)
        return [New(name, dtype, want.shape, draw)]
    shape = (want.shape[0], -(-want.shape[1] // form.packed))
    scale = scale_name(name)
    low, high = EXPONENTS
    blocks = form.scale_shape(*want.shape)
    return [
        New(name, form.dtype, shape, partial(_codes, generator, byte_size(form.dtype, shape), form.packed == 1)),
        New(scale, SCALE_DTYPE, blocks, partial(_bytes, partial(_generator, scale, seed), blocks, low, high)),
    ]


def _generator(name: str, seed: int) -> torch.Generator:
    """One per tensor, so that each is the same in any order."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:6], "big"))


def _codes(generator: partial[torch.Generator], size: int, fp8: bool) -> Iterator[Tensor]:
    draw = generator()
    for start in range(0, size, PIECE):
        words = torch.randint(-(2**63), 2**63 - 1, (-(-min(PIECE, size - start) // 8),), generator=draw)
        codes = words.view(torch.uint8)[: min(PIECE, size - start)]
        yield codes.masked_fill_((codes & 0x7F) == 0x7F, 0) if fp8 else codes


def _bytes(generator: partial[torch.Generator], shape: tuple[int, int], low: int, high: int) -> Iterator[Tensor]:
    yield torch.randint(low, high + 1, shape, generator=generator(), dtype=torch.uint8)


def _numbers(generator: partial[torch.Generator], want: Expected, dtype: str, experts: int) -> Iterator[Tensor]:
    draw = generator()
    if dtype == "I64":
        yield torch.rand(want.shape[0], experts, generator=draw).argsort(dim=1)[:, : want.shape[1]].contiguous()
        return
    centre = 1.0 if want.part == "norms" else 0.0
    for start in range(0, want.size, PIECE // 4):
        numbers = torch.randn(min(PIECE // 4, want.size - start), generator=draw)
        yield numbers.mul_(0.02).add_(centre).to(DTYPES[dtype])
