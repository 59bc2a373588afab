"""What is really handed to torch.distributed: calls and bytes of every collective, by the ranks that take part.

    with Traffic() as traffic:
        mine.accumulate(…)
    traffic.counts[Key("all-reduce", (0, 1))]  # Count(calls=2, payload=64)

Counted are the operators of torch's c10d library as PyTorch dispatches them, whoever calls: this package, FSDP2, or
torch.distributed.pipelining; forward or backward; at once or with `async_op`. On CPU a backward pass runs in the thread
that called it. On an accelerator it runs in threads of the device, to which autograd hands the state of the calling
thread, this counter included (`at::ThreadLocalState` of the graph task), so that they are counted too; collectives that
another thread of the program issues are not.

Payloads are those of `trex.planner.comm`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trex.parallel.meshes import Meshes
from trex.planner.comm import OPERATIONS, Count, Transfer, sent

# the operator, what it is, and the argument that is its payload
C10D = {
    "_allgather_base_": ("all-gather", 1),
    "allgather_": ("all-gather", 1),
    "allgather_coalesced_": ("all-gather", 1),
    "allgather_into_tensor_coalesced_": ("all-gather", 1),
    "_reduce_scatter_base_": ("reduce-scatter", 1),
    "reduce_scatter_": ("reduce-scatter", 1),
    "reduce_scatter_tensor_coalesced_": ("reduce-scatter", 1),
    "allreduce_": ("all-reduce", 0),
    "allreduce_coalesced_": ("all-reduce", 0),
    "alltoall_base_": ("all-to-all", 1),
    "alltoall_": ("all-to-all", 1),
    "send": ("send", 0),
    "recv_": ("receive", 0),
}
SILENT = ("barrier", "monitored_barrier_", "check_for_nan")  # without payload
FUNCTIONAL_SILENT = ("wait_tensor", "_wrap_tensor_autograd")


class TrafficError(RuntimeError):
    """A collective that is not counted."""


class Key(NamedTuple):
    """An operation among some ranks."""

    operation: str
    ranks: tuple[int, ...]  # of the whole job, in rising order


class Traffic(TorchDispatchMode):
    """Counts while it is entered; `counts` has what this rank took part in.

    Raises TrafficError for an operator of torch.distributed that it does not know, rather than miss its bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[Key, Count] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count the operator, then run it."""
        space, _, name = func._schema.name.partition("::")
        if space == "c10d" and name not in SILENT:
            self._count(name, args)
        elif space == "_c10d_functional" and name not in FUNCTIONAL_SILENT:
            raise TrafficError(f"{space}::{name} is not counted; counted: c10d's {', '.join(C10D)}")
        return func(*args, **(kwargs or {}))

    def _count(self, name: str, args: tuple[Any, ...]) -> None:
        if name not in C10D:
            raise TrafficError(f"c10d::{name} is not counted; counted: {', '.join(C10D)}")
        operation, place = C10D[name]
        group = next(dist.ProcessGroup.unbox(a) for a in args if not isinstance(a, Tensor | list | tuple))
        ranks, own = dist.get_process_group_ranks(group), dist.get_rank(group)
        payload = sum(t.numel() * t.element_size() for t in tree_leaves(args[place]) if isinstance(t, Tensor))
        if name == "alltoall_base_":
            payload -= _own_rows(args[1], args[4], own, len(ranks))
        elif name == "alltoall_":
            payload -= args[1][own].numel() * args[1][own].element_size()
        key = Key(operation, tuple(sorted(ranks)))
        self.counts[key] = self.counts.get(key, Count()) + Count(1, payload)


def _own_rows(x: Tensor, splits: list[int], own: int, ranks: int) -> int:
    """Bytes that a rank has for itself. splits: rows for each rank, or empty where they are equal."""
    rows = splits[own] if splits else (len(x) // ranks if x.dim() else 0)
    return rows * x[:1].numel() * x.element_size() if len(x) else 0


def ranks_of_axes(meshes: Meshes) -> dict[str, tuple[int, ...]]:
    """The ranks that share each axis with this one, itself among them; axes of one rank are left out."""
    axes = {name: getattr(meshes, name) for name in ("tp", "pp", "dp", "experts", "expert_dp", "ends")}
    found = {name: tuple(dist.get_process_group_ranks(axis.group)) for name, axis in axes.items() if axis.size > 1}
    if meshes.world.size > 1:
        found["world"] = tuple(range(meshes.world.size))
    for name, mesh in (("shard", meshes.dense), ("expert_shard", meshes.expert)):
        for dim in () if mesh is None else mesh.mesh_dim_names or ():
            ranks = dist.get_process_group_ranks(mesh.get_group(dim)) if mesh is not None else []
            if len(ranks) > 1:
                found["replica" if dim == "replica" else name] = tuple(ranks)
    return {name: tuple(sorted(ranks)) for name, ranks in found.items()}


@dataclass(frozen=True)
class Row:
    """An operation among some ranks: as measured and as by formula."""

    operation: str
    axes: tuple[str, ...]  # all that have these ranks, of those that have the operation by formula
    ranks: tuple[int, ...]
    measured: Count
    formula: Count

    @property
    def sent(self) -> Fraction:
        """Bytes that this rank sends, of what was measured; see `trex.planner.comm.sent`."""
        return sent(self.operation, self.measured.payload, len(self.ranks))

    @property
    def equal(self) -> bool:
        """Whether formula and measurement agree, in calls and in bytes."""
        return self.measured == self.formula


def beside(traffic: Traffic, transfers: Iterable[Transfer], meshes: Meshes) -> list[Row]:
    """Measurement beside formula, summed by operation and ranks; two axes may have the same ranks.

    transfers: of this rank. Groups of one rank send nothing and are left out.
    """
    places, expected, names = ranks_of_axes(meshes), dict[Key, Count](), dict[Key, set[str]]()
    for transfer in transfers:
        if transfer.axis in places and transfer.calls:
            key = Key(transfer.operation, places[transfer.axis])
            expected[key] = expected.get(key, Count()) + Count(transfer.calls, transfer.payload)
            names.setdefault(key, set()).add(transfer.axis)
    measured = {key: count for key, count in traffic.counts.items() if len(key.ranks) > 1}
    keys = sorted(measured.keys() | expected.keys(), key=lambda key: (OPERATIONS.index(key.operation), key.ranks))
    return [
        Row(operation, tuple(sorted(names.get(key, ()))), ranks, measured.get(key, Count()), expected.get(key, Count()))
        for key in keys
        for operation, ranks in [key]
    ]
