"""Documents in rows of tokens: positions, visibility and compressed blocks, none of which cross a document's bounds.

Every place counts from the start of a row, every position from the start of a document. Where rows hold one document
each, all tensors have a first dimension of 1 and are shared by the rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trex.model.config import WINDOW


@dataclass(frozen=True)
class Blocks:
    """The complete blocks of m tokens of each row's documents, in order, and which of them each token sees."""

    ratio: int  # m, tokens per block
    first: Tensor  # [B or 1, N] int64: place of a block's first token; 0 where a row has fewer than N blocks
    position: Tensor  # [B or 1, N] int64: position of that token in its document, a multiple of m
    follows: Tensor  # [B or 1, N] bool: whether the block before belongs to the same document
    offset: Tensor  # [B or 1, S] int64: the first block of a token's document
    visible: Tensor  # [B or 1, S] int64: blocks of its document that have ended by then, ⌊(position + 1) / m⌋
    most: int  # the most blocks that a token sees
    aligned: bool  # whether block i is tokens i·m to i·m + m - 1 of its row

    def __len__(self) -> int:
        return self.first.shape[1]

    def part(self, places: slice) -> "Blocks":
        """All blocks, and which of them the tokens of a part of the places of each row see."""
        return replace(self, offset=self.offset[:, places], visible=self.visible[:, places])

    def gather(self, x: Tensor) -> Tensor:
        """The tokens of each block. x: [B, S, ...]. Returns [B, N, m, ...]."""
        b, s = x.shape[:2]
        if self.aligned:
            return x[:, : len(self) * self.ratio].unflatten(1, (len(self), self.ratio))
        place = self.first.unsqueeze(-1) + torch.arange(self.ratio, device=x.device)
        row = torch.arange(b, device=x.device).mul(s).view(-1, 1, 1)
        return x.flatten(0, 1).index_select(0, (row + place).flatten()).view(*place.shape, *x.shape[2:])


@dataclass(frozen=True)
class Documents:
    """What a forward pass knows of the documents in its rows."""

    position: Tensor  # [B or 1, S] int64
    start: Tensor  # [B or 1, S] int64: place of the first token of a token's document
    real: Tensor  # [B, S] bool: False where a row is padding
    number: Tensor  # [B, S] int64: documents counted through all rows, runs of padding among them
    count: int
    padded: bool  # whether any row is padded
    blocks: Mapping[int, Blocks]  # by ratio

    @classmethod
    def single(cls, tokens: Tensor, ratios: Iterable[int]) -> "Documents":
        """One document per row. tokens: [B, S]."""
        b, s = tokens.shape
        position = torch.arange(s, device=tokens.device).unsqueeze(0)
        zero = torch.zeros_like(position)
        number = torch.arange(b, device=tokens.device).unsqueeze(1).expand(b, s)
        blocks = {}
        for m in set(ratios) - {WINDOW}:
            first = torch.arange(s // m, device=tokens.device).unsqueeze(0) * m
            blocks[m] = Blocks(m, first, first, first > 0, zero, (position + 1) // m, s // m, aligned=True)
        return cls(position, zero, torch.ones_like(tokens, dtype=torch.bool), number, b, False, blocks)

    @classmethod
    def packed(cls, doc_ids: Tensor, ratios: Iterable[int]) -> "Documents":
        """A document is a run of equal ids in a row; negative ids are padding. doc_ids: [B, S] integers."""
        b, s = doc_ids.shape
        place = torch.arange(s, device=doc_ids.device).expand(b, s)
        begins = torch.ones_like(doc_ids, dtype=torch.bool)
        begins[:, 1:] = doc_ids[:, 1:] != doc_ids[:, :-1]
        start = torch.where(begins, place, 0).cummax(dim=1).values
        position, real = place - start, doc_ids >= 0
        number = begins.flatten().cumsum(0).view(b, s) - 1
        blocks = {m: _blocks(position, start, real, m) for m in set(ratios) - {WINDOW}}
        return cls(position, start, real, number, int(number[-1, -1]) + 1, not bool(real.all()), blocks)

    def part(self, places: slice) -> "Documents":
        """The documents of a part of the places of each row; `count` and what is known of blocks stay those of all."""
        real = self.real[:, places]
        return replace(
            self, position=self.position[:, places], start=self.start[:, places], real=real,
            number=self.number[:, places], padded=self.padded and not bool(real.all()),
        )  # fmt: skip

    def per_document(self, x: Tensor) -> Tensor:
        """Sums over the real tokens of each document. x: [B, S, ...]. Returns [count, ...]."""
        mask = self.real.view(*self.real.shape, *[1] * (x.dim() - 2))
        sums = x.new_zeros(self.count, *x.shape[2:])
        return sums.index_add(0, self.number.flatten(), (x * mask).flatten(0, 1))


def _blocks(position: Tensor, start: Tensor, real: Tensor, m: int) -> Blocks:
    b, s = position.shape
    ends = ((position + 1) % m == 0) & real
    so_far = ends.cumsum(dim=1)
    n = int(so_far[:, -1].max())
    # the place of each block's first token is written to the block's number, everything else to one number too many
    number = torch.where(ends, so_far - 1, n)
    first = torch.zeros(b, n + 1, dtype=torch.int64, device=position.device)
    first = first.scatter_(1, number, torch.arange(s, device=position.device).expand(b, s) - m + 1)[:, :n]
    block_position = position.gather(1, first)
    before = so_far - ends.to(torch.int64)
    visible = torch.where(real, (position + 1) // m, 0)
    most = int(visible.max())
    return Blocks(m, first, block_position, block_position > 0, before.gather(1, start), visible, most, aligned=False)
