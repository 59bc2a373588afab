"""A folder in the layout of Hugging Face into the blocks of a model that ranks share: no rank ever holds the model.

with torch.device("meta"):
    model = Transformer(config)
mine = parallel.apply(model, layout, meshes)
mine.materialise(torch.device("cpu"))
load_pieces(Path("DeepSeek-V4-Flash"), mine.pieces())

Each rank reads the rows that its blocks need, some at a time. Hashes are of whole tensors: the ranks share them out,
and each byte of the folder is read once more, by one rank, to compare them.
"""

import hashlib
from collections.abc import Iterator, Mapping
from math import inf
from os import PathLike
from pathlib import Path

import torch
import torch.distributed as dist

from trex.checkpoint.errors import refuse
from trex.checkpoint.hf import altered, by_stored, digests_of, fill
from trex.checkpoint.names import STATE, place
from trex.checkpoint.pieces import Block, Share, held, model_of
from trex.checkpoint.source import Source, Stored, Unit, open_source
from trex.checkpoint.tensors import DTYPES, FLOATS, read
from trex.checkpoint.together import Together
from trex.model.pieces import Piece

Problem = tuple[float, float, float, str]  # where `load_hf` would tell of it, and the line


def load_pieces(
    folder: str | PathLike[str], pieces: Mapping[str, Piece], *, verify: bool = True,
    process_group: dist.ProcessGroup | None = None,
) -> None:  # fmt: skip
    """Fill this rank's blocks with the values that `load_hf` gives in their dtypes; all ranks of the group call it.

    pieces: by the model's names, on any device; all ranks' together must be the folder's model. What is released in F32
    takes float32 or float64. verify: compare all tensors with the folder's manifest, if it has one. The ranks must see
    one file system. Beside its blocks a rank holds 128 rows of a matrix, or 16 MiB of what it hashes.
    Raises one CheckpointError on all ranks that lists every tensor that is missing, extra, misshapen, truncated,
    altered or not finite, or whose dtype is not accepted. Where one is altered or not finite, blocks have been written.
    """
    folder, ranks = Path(folder), Together(process_group)
    ranks.call(lambda: refuse([f"{n} is on the meta device" for n, p in pieces.items() if p.local.is_meta], folder))
    digests = ranks.of_first(lambda: digests_of(folder) if verify else {})
    source = ranks.call(lambda: open_source(folder))
    shares = ranks.gather(Share({name: held(Block(piece)) for name, piece in pieces.items()}, None))
    refuse(_unlike(source, model_of(shares)), folder)
    groups = by_stored(source)
    blocks = {name: Block(piece) for name, piece in pieces.items()}
    found = ranks.call(
        lambda: [*_fill(groups, blocks, source.config.num_experts), *_verify(groups, digests, ranks.rank, ranks.world)]
    )
    problems = {problem for share in ranks.gather(found) for problem in share}
    refuse([line for *_, line in sorted(problems)], folder)


def _unlike(source: Source, model: Mapping[str, tuple[torch.Size, torch.dtype]]) -> list[str]:
    """In what the model of the ranks differs from that of the folder."""
    wanted = {}
    for unit in source.units.values():
        at = place(unit.name, unit.expected.shape, STATE, source.config.num_experts)
        wanted[at.name] = at.shape, unit.expected.kind
    problems = [f"{name} belongs to no part of the model" for name in wanted if name not in model]
    for name, (shape, dtype) in model.items():
        if name not in wanted:
            problems.append(f"{name} is missing")
            continue
        known, kind = wanted[name]
        floats = [DTYPES[floating] for floating in FLOATS]
        accepted = [torch.int64] if kind == "i64" else [one for one in floats if kind != "f32" or one.itemsize >= 4]
        if tuple(shape) != known:
            problems.append(f"{name} is {list(known)}, not {list(shape)}")
        if dtype not in accepted:
            problems.append(f"{name} is to be {dtype}; accepted: {', '.join(map(str, accepted))}")
    return problems


def _fill(groups: list[list[Unit]], blocks: Mapping[str, Block], experts: int) -> Iterator[Problem]:
    """Read what the blocks need; tells of units of which an element there is not finite."""
    for number, units in enumerate(groups):
        for order, unit in enumerate(units):
            at = place(unit.name, unit.expected.shape, STATE, experts)
            if at.name not in blocks:
                continue
            block, offset = blocks[at.name].local, blocks[at.name].piece.offset
            if at.slices > 1:
                if not 0 <= at.slice - offset[0] < len(block):
                    continue
                block, offset = block[at.slice - offset[0]], offset[1:]
            if block.numel() and not fill(block, unit, offset):
                yield number, order, 0, f"{unit.name} is not finite"


def _verify(groups: list[list[Unit]], digests: Mapping[str, str], rank: int, world: int) -> Iterator[Problem]:
    """Compare this rank's share of the stored tensors, scales included, with their hashes."""
    found: list[tuple[float, float, float, Stored]] = []
    for number, units in enumerate(groups):
        found += [(number, order, 1, unit.scale) for order, unit in enumerate(units) if unit.scale is not None]
        found.append((number, inf, 2, units[0].stored))
    known = [item for item in found if item[-1].name in digests]
    known.sort(key=lambda item: item[-1].entry.size)  # so that the shares are of about one size
    for group, order, kind, stored in known[rank::world]:
        digest = hashlib.sha256()
        for piece in read(stored.path, stored.entry):
            digest.update(piece.numpy().data)
        for line in altered(stored, digest, digests):
            yield group, order, kind, line
