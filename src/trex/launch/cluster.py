"""Where this process stands in a job that spans processes and nodes, as the launcher or cluster says it.

Asked in this order, the first that speaks is believed:

* torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
  (docs.pytorch.org/docs/stable/elastic/run.html);
* plain variables: RANK, WORLD_SIZE, LOCAL_RANK, or of a node NODE_RANK, NNODES; with NPROC_PER_NODE, MASTER_*;
* SLURM: what `srun` sets for a task (slurm.schedmd.com/srun.html, "output environment variables");
* Volcano: VC_TASK_INDEX, VC_WORKER_NUM, VC_WORKER_HOSTS (its env and svc plugins: volcano-sh/volcano,
  docs/user-guide/how_to_use_env_plugin.md and how_to_use_svc_plugin.md);
* ModelArts: the same with MA_NUM_HOSTS, MA_NUM_GPUS (support.huaweicloud.com, usermanual-standard-modelarts/
  develop-modelarts-0104, "Managing Environment Variables of a Training Container"); without VC_TASK_INDEX the number in
  which MA_CURRENT_INSTANCE_NAME ends, as public scripts for ModelArts read it.

Volcano and ModelArts start one process per node and name the node alone; `torchrun_arguments` starts the rest there.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 29500  # torchrun's
# a SLURM job's port: 20000 to 29999, below the ports that Linux gives to outgoing connections (32768 on)
SLURM_PORTS = (20_000, 10_000)
MAX_NODES = 65_536
TOLD = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "NNODES", "SLURM_PROCID", "VC_WORKER_NUM", "MA_NUM_HOSTS")
HOST = re.compile(r"\[?[A-Za-z0-9._:%-]{1,253}\]?")


class ClusterError(ValueError):
    """Variables of a launcher that contradict themselves or leave out what is needed; names variable and value."""


@dataclass(frozen=True)
class Place:
    """A process of a job: its rank among all and among those of its node, the node, and where rank 0 is met.

    source: who said it (torchrun, variables, slurm, volcano, modelarts, alone). devices: of each node, where the
    cluster says how many, else None.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node: int
    nodes: int
    master_address: str
    master_port: int
    source: str
    devices: int | None = None


ALONE = Place(0, 1, 0, 1, 0, 1, LOOPBACK, DEFAULT_PORT, "alone")


def detect(environ: Mapping[str, str] = os.environ) -> Place:
    """The place of this process; rank 0 of 1 where nothing is set. Raises ClusterError."""
    given = _Variables(environ)
    if given.has("TORCHELASTIC_RUN_ID"):
        return _of_process(given, "torchrun", "GROUP_RANK", "GROUP_WORLD_SIZE")
    if given.has("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        return _of_process(given, "variables", "NODE_RANK", "NNODES")
    if given.has("NODE_RANK", "NNODES"):
        nodes = given.number("NNODES", least=1)
        node = given.number("NODE_RANK", default=0 if nodes == 1 else None)
        return _of_node(given, "variables", ("NODE_RANK", node), ("NNODES", nodes), None, "NPROC_PER_NODE")
    if given.has("SLURM_PROCID"):
        return _of_slurm(given)
    if given.has("VC_TASK_INDEX", "VC_WORKER_NUM", "MA_NUM_HOSTS"):
        return _of_worker(given)
    return ALONE


def torchrun_arguments(place: Place, processes_per_node: int | None = None) -> list[str]:
    """What `torchrun` needs on the node of `place` to start its share of a job, before `-m trex train …`.

    place: of the one process that runs on each node, such as a notebook. processes_per_node: by default the devices
    that the cluster says a node has. A single node meets on a free port of its own. Raises ClusterError.
    """
    if place.local_world_size != 1:
        raise ClusterError(
            f"{place.local_world_size} processes on this node already ({place.source}): torchrun starts from one a node"
        )
    count = place.devices if processes_per_node is None else processes_per_node
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ClusterError(f"processes_per_node {count!r}; accepted: whole numbers from 1 on")
    if place.nodes == 1:
        return ["--standalone", "--nproc_per_node", str(count)]
    return [
        "--nnodes", str(place.nodes), "--node_rank", str(place.node), "--nproc_per_node", str(count),
        "--master_addr", place.master_address, "--master_port", str(place.master_port),
    ]  # fmt: skip


class _Variables:
    """An environment, read as the numbers and addresses that it should hold; an empty variable is not set."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def text(self, name: str) -> str:
        return self._environ.get(name, "").strip()

    def has(self, *names: str) -> bool:
        return any(self.text(name) for name in names)

    def first(self, *names: str) -> str:
        """The first of the names that is set, else the last."""
        return next((name for name in names if self.text(name)), names[-1])

    def optional(self, name: str, least: int = 0) -> int | None:
        text = self.text(name)
        if not text:
            return None
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
            raise ClusterError(f"{name}={text!r}; accepted: whole numbers from {least} on")
        return int(text)

    def number(self, name: str, least: int = 0, default: int | None = None) -> int:
        value = self.optional(name, least)
        if value is None and default is None:
            others = [f"{key}={self.text(key)}" for key in TOLD if self.has(key)]
            raise ClusterError(f"{name} is not set, beside {', '.join(others)}")
        return default if value is None else value  # type: ignore[return-value]

    def address(self, nodes: int, found: str | None, why: str) -> str:
        """MASTER_ADDR, else what the cluster's list of nodes gives, else this machine where the job has one node."""
        host = self.text("MASTER_ADDR") or (LOOPBACK if nodes == 1 else found)
        if not host:
            raise ClusterError(f"MASTER_ADDR is not set, and the job has {nodes} nodes ({why})")
        if not HOST.fullmatch(host):
            raise ClusterError(f"MASTER_ADDR={host!r}; accepted: a host's name or address")
        return host.strip("[]")

    def port(self, default: int = DEFAULT_PORT) -> int:
        port = self.optional("MASTER_PORT", least=1) or default
        if port > 65_535:
            raise ClusterError(f"MASTER_PORT={port}; accepted: 1 to 65535")
        return port


def _below(low: tuple[str, int], high: tuple[str, int]) -> None:
    if low[1] >= high[1]:
        raise ClusterError(f"{low[0]}={low[1]} is not below {high[0]}={high[1]}")


def _checked(place: Place, names: Mapping[str, str]) -> Place:
    """The place itself if its numbers agree. names: what its fields are called where they came from."""

    def said(field: str) -> tuple[str, int]:
        return names.get(field, field), getattr(place, field)

    for low, high in (("rank", "world_size"), ("local_rank", "local_world_size"), ("node", "nodes")):
        _below(said(low), said(high))
    for low, high in (("local_rank", "rank"), ("local_world_size", "world_size"), ("nodes", "world_size")):
        if getattr(place, low) > getattr(place, high):
            raise ClusterError("{}={} is above {}={}".format(*said(low), *said(high)))
    # with the check above, nodes of which each runs at least one process have the rest of the job elsewhere
    most = place.world_size - place.nodes + 1
    if place.local_world_size > most or (place.nodes == 1 and place.local_world_size != place.world_size):
        sizes = (said("local_world_size"), said("nodes"), said("world_size"))
        raise ClusterError("{}={} does not fit {}={} and {}={}".format(*(part for size in sizes for part in size)))
    return place


def _of_process(given: _Variables, source: str, node_name: str, nodes_name: str) -> Place:
    """A process that its launcher started as one of several: RANK and WORLD_SIZE say which."""
    rank, world = given.number("RANK"), given.number("WORLD_SIZE", least=1)
    _below(("RANK", rank), ("WORLD_SIZE", world))
    local_name = given.first("LOCAL_WORLD_SIZE", "NPROC_PER_NODE")
    local, local_world = given.optional("LOCAL_RANK"), given.optional(local_name, least=1)
    nodes = given.optional(nodes_name, least=1)
    one_machine = nodes == 1 or (nodes is None and given.text("MASTER_ADDR") in ("localhost", LOOPBACK, "::1"))
    if local_world is None:
        if world == 1 or one_machine:
            local_world = world
        elif nodes:
            local_world = _quotient(("WORLD_SIZE", world), (nodes_name, nodes))
        elif local is None and given.has("VC_TASK_INDEX"):
            local_world = 1  # the ranks of Volcano's pytorch plugin are those of nodes
        else:
            raise ClusterError(f"WORLD_SIZE={world} without LOCAL_WORLD_SIZE: how many of them run on this node?")
    if local is None:
        if local_world not in (1, world):
            raise ClusterError(f"RANK={rank} without LOCAL_RANK, and {local_world} processes run on this node")
        local = rank if local_world == world else 0
    if nodes is None:
        nodes = _quotient(("WORLD_SIZE", world), (local_name, local_world))
    node = given.number(node_name, default=rank // local_world)
    address = given.address(nodes, None, f"WORLD_SIZE={world}")
    place = Place(rank, world, local, local_world, node, nodes, address, given.port(), source)
    names = {"rank": "RANK", "world_size": "WORLD_SIZE", "local_rank": "LOCAL_RANK", "local_world_size": local_name}
    return _checked(place, {**names, "node": node_name, "nodes": nodes_name})


def _quotient(whole: tuple[str, int], part: tuple[str, int]) -> int:
    if whole[1] % part[1]:
        raise ClusterError(f"{whole[0]}={whole[1]} is not a multiple of {part[0]}={part[1]}")
    return whole[1] // part[1]


def _of_node(
    given: _Variables, source: str, node: tuple[str, int], nodes: tuple[str, int], host: str | None, devices: str
) -> Place:
    """The one process of a node, which is a rank of its own until torchrun starts more."""
    _below(node, nodes)
    address = given.address(nodes[1], host, f"{nodes[0]}={nodes[1]}")
    count = given.optional(devices) or None  # ModelArts says 0 for a container without devices
    return Place(node[1], nodes[1], 0, 1, node[1], nodes[1], address, given.port(), source, count)


def _of_slurm(given: _Variables) -> Place:
    """A task that `srun` started; what it says of its step counts, not what is said of the whole job."""
    ntasks = given.first("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    world = given.number(ntasks, least=1, default=1)
    if not given.has("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"):
        if world == 1:  # the batch script of a job with one task
            return ALONE
        raise ClusterError(f"SLURM_PROCID and SLURM_NTASKS={world} without SLURM_STEP_ID: start the tasks with srun")
    rank, local = given.number("SLURM_PROCID"), given.number("SLURM_LOCALID")
    nnodes = given.first("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    nodes = given.number(nnodes, least=1)
    node = given.number("SLURM_NODEID")
    _below(("SLURM_NODEID", node), (nnodes, nodes))
    per_node = given.first("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE")
    if per_node == "SLURM_NTASKS_PER_NODE":
        local_world = given.number(per_node, least=1)
    else:
        counts = tasks_per_node(given.text(per_node))
        if len(counts) != nodes or sum(counts) != world:
            text = f"{per_node}={given.text(per_node)!r} says {sum(counts)} tasks on {len(counts)} nodes"
            raise ClusterError(f"{text}; {ntasks}={world}, {nnodes}={nodes}")
        local_world = counts[node]
    listed = given.first("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    hosts = nodelist(given.text(listed)) if given.has(listed) else []
    if hosts and len(hosts) < nodes:
        raise ClusterError(f"{listed}={given.text(listed)!r} names {len(hosts)} nodes; {nnodes}={nodes}")
    address = given.address(nodes, hosts[0] if hosts else None, f"{nnodes}={nodes}")
    job = given.number(given.first("SLURM_JOB_ID", "SLURM_JOBID"), default=0)
    port = given.port(SLURM_PORTS[0] + job % SLURM_PORTS[1])  # jobs that share a node meet at ports of their own
    place = Place(rank, world, local, local_world, node, nodes, address, port, "slurm")
    names = {"rank": "SLURM_PROCID", "world_size": ntasks, "local_rank": "SLURM_LOCALID", "local_world_size": per_node}
    return _checked(place, {**names, "node": "SLURM_NODEID", "nodes": nnodes})


def _of_worker(given: _Variables) -> Place:
    """The process of one node in a job of Volcano, or of ModelArts, which runs on Volcano."""
    source = "modelarts" if given.has("MA_NUM_HOSTS") else "volcano"
    if given.has("VC_MASTER_NUM", "VC_MASTER_HOSTS"):
        raise ClusterError(f"VC_TASK_INDEX={given.text('VC_TASK_INDEX')} counts masters and workers apart: set RANK")
    counted = given.first("MA_NUM_HOSTS", "VC_WORKER_NUM")
    nodes = given.number(counted, least=1)
    workers = given.optional("VC_WORKER_NUM", least=1)
    if workers not in (None, nodes):
        raise ClusterError(f"VC_WORKER_NUM={workers}, but {counted}={nodes}")
    hosts = [host.strip() for host in given.text("VC_WORKER_HOSTS").split(",") if host.strip()]
    if hosts and len(hosts) != nodes:
        raise ClusterError(f"VC_WORKER_HOSTS names {len(hosts)} hosts, but {counted}={nodes}")
    # "…-worker-3": the instance's name ends in its index
    named = re.search(r"-([0-9]{1,6})$", given.text("MA_CURRENT_INSTANCE_NAME"))
    if nodes == 1:
        index = 0  # ModelArts gives VC_TASK_INDEX no meaning on one node
    elif given.has("VC_TASK_INDEX") or not named:
        index = given.number("VC_TASK_INDEX")
    else:
        index = int(named[1])
    host = hosts[0] if hosts else None
    return _of_node(given, source, ("VC_TASK_INDEX", index), (counted, nodes), host, "MA_NUM_GPUS")


def tasks_per_node(text: str) -> list[int]:
    """Tasks on each node from SLURM's "8(x2),4": [8, 8, 4]. Raises ClusterError."""
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?", part)
        times = int(found[2] or 1) if found else 0
        if found is None or len(counts) + times > MAX_NODES:
            raise ClusterError(f"tasks per node {text[:80]!r}; accepted: such as 8(x2),4 for at most {MAX_NODES} nodes")
        counts += [int(found[1])] * times
    return counts


def nodelist(text: str) -> list[str]:
    """Names of nodes from SLURM's "node[01-03,07],login1", in its order. Raises ClusterError."""
    error = ClusterError(f"list of nodes {text[:80]!r}; accepted: such as node[01-03,07],login1, at most {MAX_NODES}")
    names: list[str] = []
    if not re.fullmatch(r"(?:[A-Za-z0-9._,-]|\[[0-9,-]+\])+", text):
        raise error
    for item in re.split(r",(?![0-9,-]*\])", text):  # commas outside brackets
        found = [""]
        for literal, ranges in re.findall(r"([^\[\]]+)|\[([^\]]+)\]", item):
            ends = [literal] if literal else _numbers(ranges, error)
            if len(names) + len(found) * len(ends) > MAX_NODES:
                raise error
            found = [start + end for start in found for end in ends]
        if found == [""]:
            raise error
        names += found
    return names


def _numbers(ranges: str, error: ClusterError) -> list[str]:
    """ "01-03,07": 01, 02, 03, 07, as wide as they are written."""
    numbers: list[str] = []
    for part in ranges.split(","):
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if found is None:
            raise error
        low, high = int(found[1]), int(found[2] or found[1])
        if low > high or len(numbers) + high - low >= MAX_NODES:
            raise error
        numbers += [str(number).zfill(len(found[1])) for number in range(low, high + 1)]
    return numbers
