"""What decoding keeps of the tokens before: per layer, and for rows of different lengths.

Bounded are the keys of the window and the inputs of the blocks that still miss tokens; both are rings, in which the
token at position p has slot p mod slots. One entry per block stays for good, in room that is made at the start.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from trex.model.attention import Attention
from trex.model.compressor import Compressor
from trex.model.documents import Documents
from trex.model.rotary import Turns


@dataclass(frozen=True)
class Compressed:
    """Compressed entries, and what the next one will be made of: the inputs of a compressor."""

    entries: Tensor  # [B, room, c]; of entries that do not exist yet no query may see anything
    values: Tensor  # [B, slots, e·c], a ring
    gates: Tensor  # [B, slots, e·c], a ring

    @classmethod
    def of_prompt(cls, compressor: Compressor, x: Tensor, entries: Tensor, lengths: Tensor, limit: int) -> Self:
        """The state after prompts. x: [B, S, d], what the compressor reads. entries: [B, N, c], what it made of it.

        A row is compressed with the longest, so that it may hold entries of its padding; they are replaced in time.
        """
        latest = ring(x, lengths, slots(compressor))
        room = limit // compressor.ratio - entries.shape[1]
        return cls(pad(entries, (0, 0, 0, room)), compressor.wkv(latest), compressor.wgate(latest))

    def keep(self, rows: Tensor) -> Self:
        """The state of some rows, [R] int64; a copy."""
        return type(self)(self.entries[rows], self.values[rows], self.gates[rows])

    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.entries.nbytes + self.values.nbytes + self.gates.nbytes


@dataclass(frozen=True)
class LayerCache:
    """The cache of one layer; decoding writes into its tensors."""

    window: Tensor  # [B, window, c], a ring
    compressed: Compressed | None  # CSA and HCA
    index: Compressed | None  # CSA: the indexer's keys

    @classmethod
    def of_prompt(
        cls, attention: Attention, x: Tensor, lengths: Tensor, documents: Documents, turns: Turns, limit: int
    ) -> Self:
        """The state after prompts. x: [B, S, d], what the attention reads. lengths: [B] int64, from 1 to S.

        Keys and entries are computed once more beside the attention's forward pass, a few percent of the layer, so that
        the forward pass need not know of caches. limit: the most tokens that a row may reach.
        """
        kv = attention.keys(x, turns.cos, turns.sin)
        compressed = index = None
        if attention.compressor is not None:
            blocks = documents.blocks[attention.ratio]
            entries = attention.compressor(x, blocks, turns).to(kv.dtype)
            compressed = Compressed.of_prompt(attention.compressor, x, entries, lengths, limit)
            if attention.indexer is not None:
                compressor = attention.indexer.compressor
                index = Compressed.of_prompt(compressor, x, compressor(x, blocks, turns).to(x.dtype), lengths, limit)
        return cls(ring(kv, lengths, attention.window), compressed, index)

    def keep(self, rows: Tensor) -> Self:
        """The cache of some rows, [R] int64; a copy."""
        compressed, index = (part and part.keep(rows) for part in (self.compressed, self.index))
        return type(self)(self.window[rows], compressed, index)

    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.window.nbytes + sum(part.nbytes() for part in (self.compressed, self.index) if part is not None)


@dataclass(frozen=True)
class Cache:
    """The caches of all layers, and how many tokens of each row they have seen; `decode` adds to both in place."""

    layers: list[LayerCache]
    lengths: list[int]
    limit: int  # the most tokens that a row may reach

    def keep(self, rows: Sequence[int]) -> Self:
        """The cache of some rows, in the order given; a copy."""
        index = torch.tensor(rows, device=self.layers[0].window.device)
        return type(self)([layer.keep(index) for layer in self.layers], [self.lengths[row] for row in rows], self.limit)

    def nbytes(self) -> int:
        """Memory of all layers, in bytes."""
        return sum(layer.nbytes() for layer in self.layers)


def slots(compressor: Compressor) -> int:
    """How many tokens a compressor needs inputs of: those of a block and, where blocks overlap, of the one before."""
    return compressor.ratio * (2 if compressor.overlap else 1)


def ring(x: Tensor, lengths: Tensor, size: int) -> Tensor:
    """The last `size` tokens of each row, the token at position p in slot p mod size; zeros where a row has fewer.

    x: [B, S, c]. lengths: [B] int64. Returns [B, size, c].
    """
    last = lengths.unsqueeze(1) - 1
    place = last - (last - torch.arange(size, device=x.device)) % size
    latest = x.gather(1, place.clamp_min(0).unsqueeze(-1).expand(-1, -1, x.shape[-1]))
    return latest.masked_fill(place.lt(0).unsqueeze(-1), 0)
