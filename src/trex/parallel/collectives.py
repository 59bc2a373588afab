"""Linear maps between the ranks of a group, each with the transposed map for the gradient.

    map          forward                   backward                     a tensor before -> after
    copy         nothing                   all-reduce                   replicated -> replicated, used in part
    reduce       all-reduce                nothing                      partial sums -> replicated
    gather       all-gather                reduce-scatter               split -> replicated, used in part
    scatter_sum  reduce-scatter            all-gather                   partial sums -> split
    exchange     all-to-all                all-to-all                   split along one dimension -> along another

The first four are Megatron-LM's f, g and their twins for sequence parallelism (arXiv 1909.08053, 2205.05198). One rank
alone communicates nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

# torch 2.13 renamed both
_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


@dataclass(frozen=True)
class Axis:
    """The ranks along one dimension of a mesh, and the place of this one among them."""

    size: int = 1
    rank: int = 0
    group: dist.ProcessGroup | None = None  # None: one rank, or all

    def part(self, length: int) -> slice:
        """This rank's part of a dimension."""
        each = length // self.size
        return slice(self.rank * each, (self.rank + 1) * each)


def all_reduce(x: Tensor, axis: Axis, dim: int = 0) -> Tensor:
    """The sum over ranks, as a new tensor; `dim` does not matter."""
    if axis.size == 1:
        return x
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=axis.group)
    return total


def all_gather(x: Tensor, axis: Axis, dim: int = 0) -> Tensor:
    """The parts of all ranks, one after the other along `dim`."""
    if axis.size == 1:
        return x
    x = x.contiguous()
    parts = x.new_empty(axis.size, *x.shape)
    _GATHER(parts.flatten(0, 1), x, group=axis.group)
    return parts.movedim(0, dim).flatten(dim, dim + 1)


def reduce_scatter(x: Tensor, axis: Axis, dim: int = 0) -> Tensor:
    """This rank's part along `dim` of the sum over ranks."""
    if axis.size == 1:
        return x
    parts = x.unflatten(dim, (axis.size, -1)).movedim(dim, 0).contiguous()
    own = parts.new_empty(parts.shape[1:])
    _REDUCE_SCATTER(own, parts.flatten(0, 1), group=axis.group)
    return own


def own_part(x: Tensor, axis: Axis, dim: int = 0) -> Tensor:
    """This rank's part along `dim`."""
    return x[(slice(None),) * dim + (axis.part(x.shape[dim]),)]


def all_to_all(x: Tensor, axis: Axis, sends: Sequence[int], receives: Sequence[int]) -> Tensor:
    """Rows for every rank, in the order of ranks, become the rows that every rank has for this one."""
    out = x.new_empty(sum(receives), *x.shape[1:])
    dist.all_to_all_single(out, x.contiguous(), list(receives), list(sends), group=axis.group)
    return out


class _Map(Function):
    """A linear map and its transpose."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.back = back
        out = there(x)
        return out.view_as(out) if out is x else out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return ctx.back(grads[0]), None, None


def _map(name: str, there: Callable[..., Tensor], back: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def apply(x: Tensor, axis: Axis, dim: int = 0) -> Tensor:
        if axis.size == 1:
            return x
        return _Map.apply(x, lambda t: there(t, axis, dim), lambda t: back(t, axis, dim))

    apply.__name__ = name
    apply.__doc__ = (
        f"See the module. x: any shape, `dim` the one that is split; {there.__name__}, then {back.__name__}."
    )
    return apply


def _nothing(x: Tensor, axis: Axis, dim: int = 0) -> Tensor:
    return x


copy = _map("copy", _nothing, all_reduce)
reduce = _map("reduce", all_reduce, _nothing)
gather = _map("gather", all_gather, reduce_scatter)
scatter_sum = _map("scatter_sum", reduce_scatter, all_gather)


def exchange(x: Tensor, axis: Axis, divide: int, unite: int) -> Tensor:
    """From parts along `unite` to parts along `divide`: what Ulysses does between heads and sequence."""

    def turn(t: Tensor, away: int, along: int) -> Tensor:
        parts = t.unflatten(away, (axis.size, -1)).movedim(away, 0).contiguous()
        out = torch.empty_like(parts)
        dist.all_to_all_single(out, parts, group=axis.group)
        return out.movedim(0, along).flatten(along, along + 1)

    if axis.size == 1:
        return x
    return _Map.apply(x, lambda t: turn(t, divide, unite), lambda t: turn(t, unite, divide))


@dataclass
class Transfer:
    """An all-to-all under way, forward or backward: between `begin` and `finish` other work runs."""

    axis: Axis
    sends: Sequence[int]  # rows to each rank
    receives: Sequence[int]
    work: Any = field(default=None, repr=False)
    buffer: Tensor | None = field(default=None, repr=False)

    def start(self, rows: Tensor, sends: Sequence[int], receives: Sequence[int]) -> Tensor:
        """Start to send; the result is filled once `wait` has returned."""
        rows = rows.contiguous()
        out = rows.new_empty(sum(receives), *rows.shape[1:])
        self.work = dist.all_to_all_single(out, rows, list(receives), list(sends), group=self.axis.group, async_op=True)
        self.buffer = rows  # kept until it is sent
        return out

    def wait(self) -> None:
        """Until the rows are there."""
        self.work.wait()
        self.work = self.buffer = None


class _Begin(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, transfer: Transfer, out: list[Tensor]) -> Tensor:
        ctx.transfer = transfer
        out.append(transfer.start(rows, transfer.sends, transfer.receives))
        return rows.new_empty(1).expand(rows.shape)  # stands for the rows on their way, with the gradient's shape

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        ctx.transfer.wait()
        return grads[0], None, None


class _Finish(Function):
    @staticmethod
    def forward(ctx: Any, under_way: Tensor, transfer: Transfer, out: list[Tensor]) -> Tensor:
        ctx.transfer = transfer
        transfer.wait()
        return out.pop()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        transfer = ctx.transfer
        return transfer.start(grads[0], transfer.receives, transfer.sends), None, None


def begin(rows: Tensor, axis: Axis, sends: Sequence[int], receives: Sequence[int]) -> Callable[[], Tensor]:
    """Start an all-to-all of rows with gradients; the call of what is returned waits and gives the received rows.

    What is computed between the two overlaps with the transfer, and its backward with the transfer of the gradient,
    as autograd runs in the reverse order.
    """
    transfer, out = Transfer(axis, sends, receives), list[Tensor]()
    under_way = _Begin.apply(rows, transfer, out)
    return lambda: _Finish.apply(under_way, transfer, out)
