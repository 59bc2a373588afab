"""Join the other processes of a job, and leave so that a rank that fails takes the whole job with it.

Example, in every process of the job:
    place = cluster.detect()
    with join(place, device.of_rank(place.local_rank).backend, timeout_s=600):
        train()

How a job ends when one rank
* raises: its traceback goes to stderr and into the file from which torchrun prints the first failure; it exits at once;
* is killed: its connections close, the others' collectives fail, and torchrun, which looks every 0.1 s, ends the rest;
* stands still: the others' collectives fail after `timeout_s`; torchrun sends SIGTERM, and after 30 s SIGKILL.
torchrun's defaults suffice (no restarts, --monitor-interval 0.1, 30 s from SIGTERM to SIGKILL). Other nodes learn of it
by their own ranks' lost connections, or after `timeout_s`. Under SLURM without torchrun: `srun --kill-on-bad-exit=1`.
"""

import contextlib
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator
from datetime import timedelta

import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.distributed.elastic.multiprocessing.errors import get_error_handler

from trex.device import BACKENDS
from trex.launch.cluster import Place

MAX_TIMEOUT_S = 1e6  # 11 days
# A rank that lost the others waits before it says so: the one that failed is then the first that torchrun hears of,
# whose clock for failures counts whole seconds.
BLAME_S = 2.0
LOST = re.compile(
    "|".join(
        [*BACKENDS.values(), "connection (?:closed|reset|refused)", "broken pipe", "timed? ?out", "monitoredBarrier"]
    ),
    re.IGNORECASE,
)


class JoinError(ValueError):
    """A backend or time-out that is not accepted, or ranks that did not find each other; names rank and address."""


@contextlib.contextmanager
def join(place: Place, backend: str, timeout_s: float) -> Iterator[None]:
    """Initialise torch.distributed for the body, and destroy its group when every rank has reached the end.

    backend: gloo, nccl or hccl, or one for each kind of device (cpu:gloo,cuda:nccl). timeout_s: seconds that ranks wait
    for each other, when they meet and in each collective, also of groups that the body makes.

    Where the body raises on one of several ranks, the process prints the traceback and **exits here** with code 1:
    unwinding further could wait for ranks that wait for this one. A job of one rank raises as usual.

    Raises JoinError for a bad backend or time-out, or where a group exists already.
    """
    _check(backend, timeout_s)
    handler = get_error_handler()
    handler.initialize()  # a rank that crashes in a library leaves Python's stack on stderr
    limit = timedelta(seconds=timeout_s)
    try:
        with _default_of_groups(limit):
            _meet(place, backend, limit)
            try:
                yield
            except SystemExit as end:
                if end.code not in (None, 0):
                    raise
                _part()
                raise
            _part()
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            raise
        if place.world_size > 1 and _lost(error):
            time.sleep(BLAME_S)
        handler.record_exception(error)
        if place.world_size > 1:
            _exit(place, error)
        if dist.is_initialized():
            dist.destroy_process_group()
        raise


def _check(backend: str, timeout_s: float) -> None:
    number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not number or not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise JoinError(f"timeout_s {timeout_s!r}; accepted: seconds above 0, at most {MAX_TIMEOUT_S:.0f}")
    pairs = [part.rpartition(":")[::2] for part in backend.split(",")]
    if not all(name in BACKENDS.values() and kind in ("", *BACKENDS) for kind, name in pairs):
        raise JoinError(f"backend {backend!r}; accepted: {', '.join(BACKENDS.values())}, or such as cpu:gloo,…")
    if dist.is_initialized():
        raise JoinError("this process has joined a group already")


@contextlib.contextmanager
def _default_of_groups(limit: timedelta) -> Iterator[None]:
    """Groups that give no time-out, such as a DeviceMesh's, wait for `limit`, not for torch's 10 or 30 minutes."""
    names = ("default_pg_timeout", "default_pg_nccl_timeout")
    before = {name: getattr(distributed_c10d, name) for name in names}
    for name in names:
        setattr(distributed_c10d, name, limit)
    try:
        yield
    finally:
        for name in names:
            setattr(distributed_c10d, name, before[name])


def _meet(place: Place, backend: str, limit: timedelta) -> None:
    """Find the other ranks, at torchrun's store or at one that rank 0 opens; a job of one rank needs no port."""
    if place.nodes == 1:  # otherwise gloo looks up this machine's name, which need not resolve
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    rank, world = place.rank, place.world_size
    try:
        if world == 1:
            dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, timeout=limit)
        elif place.source == "torchrun":
            dist.init_process_group(backend, rank=rank, world_size=world, timeout=limit)
        else:
            store = dist.TCPStore(place.master_address, place.master_port, world, rank == 0, limit)
            dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=limit)
    except dist.DistError as error:
        where = f"{place.master_address}:{place.master_port}"
        reason = (str(error).splitlines() or [""])[0]
        raise JoinError(
            f"rank {rank} of {world} ({place.source}) did not find the others at {where}: {reason}"
        ) from error


def _part() -> None:
    """Leave together: a rank that left now would close connections from which others may still have to read."""
    dist.barrier()
    dist.destroy_process_group()


def _lost(error: BaseException | None) -> bool:
    """Whether the error, or one that it came from, is that other ranks are gone or late."""
    while error is not None:
        if isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and LOST.search(str(error))):
            return True
        error = error.__cause__ or error.__context__
    return False


def _exit(place: Place, error: BaseException) -> None:
    with contextlib.suppress(OSError, ValueError):  # a closed stdout must not keep the process
        sys.stdout.flush()
        lines = "".join(traceback.format_exception(error)).splitlines()
        sys.stderr.write("".join(f"[rank {place.rank}] {line}\n" for line in lines))
        sys.stderr.flush()
    os._exit(1)
