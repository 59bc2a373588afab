"""One rank of `trex.launch.ranks.run`, in its own process: from the caller's job to a result or an error, as files."""

import contextlib
import faulthandler
import json
import linecache
import marshal
import os
import pickle
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import cloudpickle
import torch
import torch.distributed as dist

MARGIN_S = 60  # collectives time out later than the run, so that the run's own report comes first


class Pickler(cloudpickle.Pickler):
    """cloudpickle, but code keeps its file name, so that tracebacks show lines; both ends run the same interpreter."""

    def reducer_override(self, obj: Any) -> Any:
        """Code objects by marshal, everything else as cloudpickle does."""
        if isinstance(obj, CodeType):
            return marshal.loads, (marshal.dumps(obj),)
        return super().reducer_override(obj)


class UnsendableError(ValueError):
    """A result that cannot be pickled."""


PICKLE = SimpleNamespace(__name__="trex.launch.worker", Pickler=Pickler)  # a pickle module as torch.save asks for one


def work(folder: str, rank: int) -> int:
    """Run the job in `folder` as `rank`, leaving result.N or error.N, stdout.N and stderr.N; returns the exit code."""
    home = Path(folder)
    for number, name in enumerate((Path(os.devnull), home / f"stdout.{rank}", home / f"stderr.{rank}")):
        handle = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdout.reconfigure(line_buffering=True, encoding="utf-8")  # type: ignore[union-attr]
    faulthandler.enable()
    try:
        _call(home, rank, json.loads((home / "job.json").read_text()))
        return 0
    except BaseException as error:
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        text = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
        part = home / f"part.{rank}"
        part.write_text(json.dumps([time.monotonic(), rank, text]))
        part.rename(home / f"error.{rank}")
        return 1
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()


def save(value: Any, path: Path) -> None:
    """Pickle, functions of cells included, with tensors beside it; whole or not at all."""
    part = path.with_name(path.name + ".part")
    torch.save(value, part, pickle_module=PICKLE, pickle_protocol=pickle.HIGHEST_PROTOCOL)
    part.rename(path)


def _call(home: Path, rank: int, job: dict[str, Any]) -> None:
    """Take over the caller's surroundings, join the process group, call, and leave the result."""
    world = job["world"]
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}  # as under torchrun
    os.environ.clear()
    os.environ.update(job["environ"])
    os.environ.update({name: str(value) for name, value in places.items()})
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    os.chdir(job["folder"])
    sys.path[:] = job["path"]
    for name, lines in job["sources"].items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    torch.set_num_threads(job["threads"])
    dist.set_debug_level_from_env()  # the fork server read its own environment's TORCH_DISTRIBUTED_DEBUG
    limit = timedelta(seconds=job["timeout_s"] + MARGIN_S)
    store = dist.FileStore(str(home / "store"), world)
    store.set_timeout(limit)
    dist.init_process_group(job["backend"], store=store, rank=rank, world_size=world, timeout=limit)
    fn, args = torch.load(home / "call.pt", map_location="cpu", weights_only=False)
    value = fn(rank, *args)
    try:
        save(value, home / f"result.{rank}")
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UnsendableError(f"the result, a {type(value).__name__}, cannot be pickled: {reason}") from None
    # a rank that left now would reset connections from which others may still have to read
    if store.add("finished", 1) == world:
        store.set("all finished", "")
    store.wait(["all finished"])
