"""Work that all ranks of a process group do together: it succeeds on all of them or raises the same error on all."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist
import torch.distributed.checkpoint as dcp

from trex.checkpoint.errors import CheckpointError

T = TypeVar("T")


class Together:
    """The ranks of a group, or this process alone where torch.distributed is not initialised."""

    def __init__(self, group: dist.ProcessGroup | None = None, alone: bool = False) -> None:
        """group: None is the default one. alone: leave the other ranks out."""
        self._group = group
        self._many = not alone and dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank(group) if self._many else 0
        self.world = dist.get_world_size(group) if self._many else 1

    def call(self, work: Callable[[], T], what: str = "") -> T:
        """Each rank calls `work` and gets its own result. Raises one CheckpointError on all ranks if any call failed.

        what: is put before the ranks' errors.
        """
        result, failure = None, None
        try:
            result = work()
        except Exception as error:
            if not self._many:
                raise _error({0: error}, self.world, what) from error
            failure = error
        if self._many:
            failures: list[Exception | None] = [None] * self.world
            dist.all_gather_object(failures, failure and CheckpointError(_line(failure)), group=self._group)
            found = {rank: error for rank, error in enumerate(failures) if error is not None}
            if found:
                raise _error(found, self.world, what) from failure
        return result  # type: ignore[return-value]

    def gather(self, value: T) -> list[T]:
        """Every rank's value, by rank, on all ranks."""
        found = [value] * self.world
        if self._many:
            dist.all_gather_object(found, value, group=self._group)
        return found

    def of_first(self, work: Callable[[], T], what: str = "") -> T:
        """What `work` gives on the first rank, on all ranks. Raises as `call` does."""
        box = [self.call(lambda: work() if self.rank == 0 else None, what)]
        if self._many:
            first = dist.get_global_rank(self._group, 0) if self._group is not None else 0
            dist.broadcast_object_list(box, src=first, group=self._group)
        return box[0]  # type: ignore[return-value]

    def checkpoint(self, function: Callable[..., Any], tensors: dict[str, Any], what: str = "", **more: Any) -> None:
        """Call `save` or `load` of torch.distributed.checkpoint. Raises as `call` does."""
        with warnings.catch_warnings():  # that one process is alone is no news
            warnings.filterwarnings("ignore", r"torch\.distributed is .* single process")
            try:
                function(tensors, process_group=self._group, no_dist=not self._many, **more)
            except dcp.CheckpointException as error:
                causes = {rank: cause for rank, (cause, _) in error.failures.items()}
                for cause in causes.values():
                    if not isinstance(cause, Exception):  # such as KeyboardInterrupt
                        raise cause from None
                raise _error(causes, self.world, what) from None


def _error(failures: dict[int, Any], world: int, what: str) -> CheckpointError:
    ranks: dict[str, list[int]] = {}
    for rank, failure in failures.items():
        ranks.setdefault(_line(failure), []).append(rank)
    lines = [f"rank {', '.join(map(str, who))}: {line}" if world > 1 else line for line, who in ranks.items()]
    return CheckpointError(f"{what}: {'; '.join(lines)}" if what else "; ".join(lines))


def _line(error: BaseException) -> str:
    return str(error) if isinstance(error, CheckpointError) else f"{type(error).__name__}: {error}"
