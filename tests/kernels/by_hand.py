"""What the tests of the definitions share: inputs, comparison, and documents as operators see them."""

import math

import torch
from torch import Tensor


def draw(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Standard normal float64 that asks for a gradient."""
    made = scale * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return made.requires_grad_()


def near(found: Tensor, expected: object, bound: float = 1e-12) -> bool:
    right = torch.tensor(expected, dtype=torch.float64).view(found.shape)
    return found.dtype == torch.float64 and (not found.numel() or bool((found - right).abs().max() <= bound))


def dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def places(rows: list[list[int]], ratio: int) -> tuple[Tensor, Tensor, Tensor, int]:
    """start, offset and visible [B, S], and the most entries of a row."""
    start, offset, visible = [], [], []
    for row in rows:
        begins, firsts, counts, first, begin = [], [], [], 0, 0
        for length in row:
            begins += [begin] * length
            firsts += [first] * length
            counts += [(t + 1) // ratio for t in range(length)]
            begin, first = begin + length, first + length // ratio
        start.append(begins)
        offset.append(firsts)
        visible.append(counts)
    most = max(sum(length // ratio for length in row) for row in rows)
    return torch.tensor(start), torch.tensor(offset), torch.tensor(visible), most


def choose(offset: Tensor, visible: Tensor, top_k: int | None, n: int) -> Tensor | None:
    """Any selection: every other visible entry from the last on, in rising order, -1 for none."""
    if top_k is None:
        return None
    chosen = torch.full((*offset.shape, min(top_k, n)), -1)
    for b, t in ((b, t) for b in range(len(offset)) for t in range(offset.shape[1])):
        first, count = int(offset[b, t]), int(visible[b, t])
        mine = sorted(range(first + count - 1, first - 1, -2))[-top_k:]
        chosen[b, t, : len(mine)] = torch.tensor(mine)
    return chosen
