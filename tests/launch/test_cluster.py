"""Who am I in a job: recorded environments of launchers, contradictions by name, and torchrun itself."""

import itertools
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trex.launch import cluster
from trex.launch.ascend_environment import LEFT_ALONE, SCRIPTS, VARIABLES, AscendEnvironmentError, ascend_environment
from trex.launch.cluster import ALONE, ClusterError, Place, detect, nodelist, tasks_per_node, torchrun_arguments
from trex.published import load

# what torchrun 2.13 sets for global rank 5, the second process of node 1 of two with 4 each
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none", "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "node0", "MASTER_PORT": "29400",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "200505", "SLURM_STEP_ID": "0", "SLURM_PROCID": "17", "SLURM_NTASKS": "20", "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2", "SLURM_NNODES": "3", "SLURM_TASKS_PER_NODE": "8(x2),4",
    "SLURM_JOB_NODELIST": "gnode[10,20,25]",
}  # fmt: skip
# the batch script of a job with 4 tasks, which is none of them
BATCH = {
    "SLURM_JOB_ID": "200505", "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
    "SLURM_NNODES": "4", "SLURM_TASKS_PER_NODE": "1(x4)", "SLURM_JOB_NODELIST": "gnode[10,20,25,37]",
}  # fmt: skip
HOSTS = ",".join(f"job-worker-{n}.job.default.svc.cluster.local" for n in range(4))
MODELARTS = {
    "VC_TASK_INDEX": "2", "VC_WORKER_NUM": "4", "VC_WORKER_HOSTS": HOSTS, "MA_NUM_HOSTS": "4", "MA_NUM_GPUS": "8",
    "MA_CURRENT_INSTANCE_NAME": "modelarts-job-a0978141-worker-2", "MA_TASK_NAME": "worker",
}  # fmt: skip
VOLCANO = {"VC_TASK_INDEX": "1", "VC_WORKER_NUM": "2", "VC_WORKER_HOSTS": "w-0.job,w-1.job"}
PLAIN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1"}
HOST_0 = HOSTS.split(",")[0]


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({}, ALONE),
        ({"MASTER_ADDR": "node0", "MASTER_PORT": "1", "RANK": " "}, ALONE),
        (TORCHRUN, Place(5, 8, 1, 4, 1, 2, "node0", 29400, "torchrun")),
        # torchrun inside other launchers' jobs
        ({**SLURM, **MODELARTS, **TORCHRUN}, Place(5, 8, 1, 4, 1, 2, "node0", 29400, "torchrun")),
        # --virtual-local-rank, and nodes with different numbers of processes
        ({**TORCHRUN, "LOCAL_RANK": "0"}, Place(5, 8, 0, 4, 1, 2, "node0", 29400, "torchrun")),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "7"}, Place(5, 8, 1, 7, 1, 2, "node0", 29400, "torchrun")),
        ({**PLAIN, "LOCAL_WORLD_SIZE": "4"}, Place(5, 8, 1, 4, 1, 2, "10.0.0.1", 29500, "variables")),
        ({**PLAIN, "NPROC_PER_NODE": "4"}, Place(5, 8, 1, 4, 1, 2, "10.0.0.1", 29500, "variables")),
        ({**PLAIN, "NNODES": "2", "NODE_RANK": "0"}, Place(5, 8, 1, 4, 0, 2, "10.0.0.1", 29500, "variables")),
        ({**SLURM, **PLAIN, "NNODES": "2"}, Place(5, 8, 1, 4, 1, 2, "10.0.0.1", 29500, "variables")),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"},
         Place(1, 2, 1, 2, 0, 1, "localhost", 29500, "variables")),
        ({"RANK": "1", "WORLD_SIZE": "2", "NNODES": "1"}, Place(1, 2, 1, 2, 0, 1, "127.0.0.1", 29500, "variables")),
        ({"RANK": "0", "WORLD_SIZE": "1"}, Place(0, 1, 0, 1, 0, 1, "127.0.0.1", 29500, "variables")),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "[::1]"}, Place(0, 1, 0, 1, 0, 1, "::1", 29500, "variables")),
        ({"NODE_RANK": "1", "NNODES": "2", "NPROC_PER_NODE": "8", "MASTER_ADDR": "a", "MASTER_PORT": "7"},
         Place(1, 2, 0, 1, 1, 2, "a", 7, "variables", 8)),
        ({"NNODES": "1"}, Place(0, 1, 0, 1, 0, 1, "127.0.0.1", 29500, "variables")),
        (SLURM, Place(17, 20, 1, 4, 2, 3, "gnode10", 20505, "slurm")),
        ({**SLURM, "MASTER_ADDR": "x", "MASTER_PORT": "9"}, Place(17, 20, 1, 4, 2, 3, "x", 9, "slurm")),
        # ranks dealt round the nodes: the second task of node 2 of 3 is rank 5
        ({**SLURM, "SLURM_PROCID": "5"}, Place(5, 20, 1, 4, 2, 3, "gnode10", 20505, "slurm")),
        # a step on two nodes of a larger job
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
          "SLURM_STEP_NODELIST": "gnode[20,25]", "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NODEID": "1"},
         Place(1, 2, 0, 1, 1, 2, "gnode20", 20505, "slurm")),
        ({**BATCH, "SLURM_NTASKS": "1"}, ALONE),
        (MODELARTS, Place(2, 4, 0, 1, 2, 4, HOST_0, 29500, "modelarts", 8)),
        ({k: v for k, v in MODELARTS.items() if k != "VC_TASK_INDEX"},
         Place(2, 4, 0, 1, 2, 4, HOST_0, 29500, "modelarts", 8)),
        ({"MA_NUM_HOSTS": "1", "VC_TASK_INDEX": "3", "MA_NUM_GPUS": "0"},
         Place(0, 1, 0, 1, 0, 1, "127.0.0.1", 29500, "modelarts")),
        (VOLCANO, Place(1, 2, 0, 1, 1, 2, "w-0.job", 29500, "volcano")),
        # Volcano's pytorch plugin, with a master and two workers
        ({"VC_TASK_INDEX": "1", "VC_MASTER_NUM": "1", "VC_WORKER_NUM": "2", "RANK": "2", "WORLD_SIZE": "3",
          "MASTER_ADDR": "m-0.job", "MASTER_PORT": "23456"}, Place(2, 3, 0, 1, 2, 3, "m-0.job", 23456, "variables")),
    ],
)  # fmt: skip
def test_the_place_is_what_the_launcher_says(environ: dict[str, str], place: Place) -> None:
    assert detect(environ) == place


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({**TORCHRUN, "RANK": "8"}, "RANK=8 is not below WORLD_SIZE=8"),
        ({**TORCHRUN, "LOCAL_RANK": "4"}, "LOCAL_RANK=4 is not below LOCAL_WORLD_SIZE=4"),
        ({**TORCHRUN, "LOCAL_RANK": "3", "RANK": "2"}, "LOCAL_RANK=3 is above RANK=2"),
        ({**TORCHRUN, "GROUP_RANK": "2"}, "GROUP_RANK=2 is not below GROUP_WORLD_SIZE=2"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "8"}, "LOCAL_WORLD_SIZE=8 does not fit GROUP_WORLD_SIZE=2 and WORLD_SIZE=8"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "9"}, "LOCAL_WORLD_SIZE=9 is above WORLD_SIZE=8"),
        ({**TORCHRUN, "RANK": "-1"}, "RANK='-1'; accepted: whole numbers from 0"),
        ({**TORCHRUN, "WORLD_SIZE": "8.0"}, "WORLD_SIZE='8.0'"),
        ({**TORCHRUN, "WORLD_SIZE": "0"}, "WORLD_SIZE='0'; accepted: whole numbers from 1"),
        ({**TORCHRUN, "WORLD_SIZE": "٨"}, "WORLD_SIZE='٨'"),
        ({**TORCHRUN, "WORLD_SIZE": "9" * 5000}, "WORLD_SIZE='9"),
        ({**TORCHRUN, "MASTER_PORT": "70000"}, "MASTER_PORT=70000; accepted: 1 to 65535"),
        ({**TORCHRUN, "MASTER_ADDR": "a b"}, "MASTER_ADDR='a b'"),
        ({"RANK": "0"}, "WORLD_SIZE is not set, beside RANK=0"),
        ({"WORLD_SIZE": "2"}, "RANK is not set, beside WORLD_SIZE=2"),
        ({"LOCAL_RANK": "1"}, "RANK is not set, beside LOCAL_RANK=1"),
        ({"NODE_RANK": "1"}, "NNODES is not set, beside NODE_RANK=1"),
        ({"NNODES": "2"}, "NODE_RANK is not set, beside NNODES=2"),
        ({"NNODES": "2", "NODE_RANK": "2", "MASTER_ADDR": "a"}, "NODE_RANK=2 is not below NNODES=2"),
        ({"NNODES": "2", "NODE_RANK": "1"}, r"MASTER_ADDR is not set, and the job has 2 nodes \(NNODES=2\)"),
        ({"RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "LOCAL_RANK": "1"}, "MASTER_ADDR is not set"),
        (PLAIN, "WORLD_SIZE=8 without LOCAL_WORLD_SIZE"),
        ({**PLAIN, "NNODES": "3"}, "WORLD_SIZE=8 is not a multiple of NNODES=3"),
        ({**PLAIN, "NPROC_PER_NODE": "3"}, "WORLD_SIZE=8 is not a multiple of NPROC_PER_NODE=3"),
        ({**PLAIN, "LOCAL_RANK": "", "NPROC_PER_NODE": "4"}, "RANK=5 without LOCAL_RANK, and 4 processes"),
        (BATCH, "start the tasks with srun"),
        ({**SLURM, "SLURM_PROCID": "20"}, "SLURM_PROCID=20 is not below SLURM_NTASKS=20"),
        ({**SLURM, "SLURM_NODEID": "3"}, "SLURM_NODEID=3 is not below SLURM_NNODES=3"),
        ({**SLURM, "SLURM_LOCALID": "4"}, r"SLURM_LOCALID=4 is not below SLURM_TASKS_PER_NODE=4"),
        ({**SLURM, "SLURM_TASKS_PER_NODE": "8(x2)"}, r"'8\(x2\)' says 16 tasks on 2 nodes; SLURM_NTASKS=20"),
        ({**SLURM, "SLURM_JOB_NODELIST": "gnode[10,20]"}, "names 2 nodes; SLURM_NNODES=3"),
        ({**SLURM, "SLURM_JOB_NODELIST": ""}, r"MASTER_ADDR is not set, and the job has 3 nodes \(SLURM_NNODES=3\)"),
        ({**MODELARTS, "VC_TASK_INDEX": "4"}, "VC_TASK_INDEX=4 is not below MA_NUM_HOSTS=4"),
        ({**MODELARTS, "VC_WORKER_NUM": "3"}, "VC_WORKER_NUM=3, but MA_NUM_HOSTS=4"),
        ({**MODELARTS, "VC_WORKER_HOSTS": "a,b"}, "VC_WORKER_HOSTS names 2 hosts, but MA_NUM_HOSTS=4"),
        ({"VC_TASK_INDEX": "0"}, "VC_WORKER_NUM is not set"),
        ({"VC_WORKER_NUM": "2", "VC_WORKER_HOSTS": "a,b"}, "VC_TASK_INDEX is not set, beside VC_WORKER_NUM=2"),
        ({**VOLCANO, "VC_MASTER_NUM": "1"}, "VC_TASK_INDEX=1 counts masters and workers apart: set RANK"),
    ],
)
def test_contradictions_name_variable_and_value(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        detect(environ)


def test_every_rank_of_a_job_finds_the_same_job() -> None:
    """20 tasks dealt in blocks over three nodes: ranks and places on nodes are those of the closed form."""
    blocks = [(node, local) for node, count in enumerate((8, 8, 4)) for local in range(count)]
    found = [
        detect({**SLURM, "SLURM_PROCID": str(rank), "SLURM_NODEID": str(node), "SLURM_LOCALID": str(local)})
        for rank, (node, local) in enumerate(blocks)
    ]
    assert [(place.rank, place.node, place.local_rank) for place in found] == [
        (rank, *block) for rank, block in enumerate(blocks)
    ]
    assert {(p.master_address, p.master_port, p.world_size, p.nodes) for p in found} == {("gnode10", 20505, 20, 3)}


RANGE = st.tuples(st.integers(0, 120), st.integers(0, 12), st.integers(1, 4))
NAME = st.from_regex(r"[a-z][a-z0-9.-]{0,5}[a-z]", fullmatch=True)


@given(st.lists(st.tuples(NAME, st.lists(st.lists(RANGE, min_size=1, max_size=3), max_size=2)), min_size=1, max_size=4))
def test_lists_of_nodes_expand_to_what_they_were_written_from(
    items: list[tuple[str, list[list[tuple[int, int, int]]]]],
) -> None:
    texts, expected = [], []
    for name, brackets in items:
        text, parts = name, [[name]]
        for ranges in brackets:
            written = [f"{low:0{width}d}" + f"-{low + more:0{width}d}" * (more > 0) for low, more, width in ranges]
            text += f"[{','.join(written)}]x"
            parts += [[f"{low + n:0{width}d}x" for low, more, width in ranges for n in range(more + 1)]]
        texts.append(text)
        expected += ["".join(choice) for choice in itertools.product(*parts)]
    assert nodelist(",".join(texts)) == expected


def test_slurm_writes_lists_as_its_manual_shows() -> None:
    assert nodelist("node[01-03,07],login1") == ["node01", "node02", "node03", "node07", "login1"]
    assert nodelist("tux[8-11]") == ["tux8", "tux9", "tux10", "tux11"]
    assert nodelist("r[1-2]n[1-2]-ib,x") == ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib", "x"]
    assert tasks_per_node("8(x2),4") == [8, 8, 4] and tasks_per_node("3") == [3]


@pytest.mark.parametrize(
    "text", ["", ",", "a,,b", "a[", "a[1-", "a[]", "a[2-1]", "a[1-99999999]", "a[0-999][0-999]", "a[1,,2]", "a]1[",
             "a b", "a;b", "a[1-2-3]", "n[0-70000]", "a,b[0-65535]"],
)  # fmt: skip
def test_lists_of_nodes_are_bounded(text: str) -> None:
    with pytest.raises(ClusterError, match="list of nodes"):
        nodelist(text)


@pytest.mark.parametrize("text", ["", "8(x)", "8(x2", "x", "8,,8", "1(x999999)", "1(x40000),1(x40000)", "-1"])
def test_tasks_per_node_are_bounded(text: str) -> None:
    with pytest.raises(ClusterError, match="tasks per node"):
        tasks_per_node(text)


def test_torchrun_arguments_name_the_node_or_stand_alone() -> None:
    node = detect(MODELARTS)
    assert torchrun_arguments(node) == [
        "--nnodes", "4", "--node_rank", "2", "--nproc_per_node", "8", "--master_addr", HOST_0, "--master_port", "29500",
    ]  # fmt: skip
    assert torchrun_arguments(node, 2)[5] == "2"
    assert torchrun_arguments(ALONE, 4) == ["--standalone", "--nproc_per_node", "4"]
    with pytest.raises(ClusterError, match="processes_per_node None; accepted"):
        torchrun_arguments(ALONE)
    with pytest.raises(ClusterError, match="processes_per_node 0"):
        torchrun_arguments(ALONE, 0)
    with pytest.raises(ClusterError, match=r"4 processes on this node already \(torchrun\)"):
        torchrun_arguments(detect(TORCHRUN), 4)


SHOW = """
import dataclasses, json, os, pathlib
from trex.launch.cluster import detect
place = detect()
pathlib.Path(os.environ["SHOW"], f"{place.rank}.json").write_text(json.dumps(dataclasses.asdict(place)))
"""
INHERITED = ("RANK", "WORLD", "MASTER", "SLURM", "VC_", "MA_", "TORCHELASTIC", "GROUP", "NNODES", "NPROC")


def run_torchrun(folder: Path, places: list[Place], processes: int) -> list[dict[str, object]]:
    """What each rank of a real torchrun job found, one agent per place, all on this machine."""
    script = folder / "show.py"
    script.write_text(SHOW)
    environ = {name: value for name, value in os.environ.items() if not any(part in name for part in INHERITED)}
    environ |= {"SHOW": str(folder), "OMP_NUM_THREADS": "1"}
    agents = [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *torchrun_arguments(place, processes), str(script)],
            env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for place in places
    ]  # fmt: skip
    try:
        for agent in agents:
            out, err = agent.communicate(timeout=120)
            assert agent.returncode == 0, err
            assert out == ""
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(len(places) * processes)]


def test_torchrun_starts_one_node(tmp_path: Path) -> None:
    found = run_torchrun(tmp_path, [ALONE], 2)
    assert [(p["rank"], p["local_rank"], p["node"]) for p in found] == [(0, 0, 0), (1, 1, 0)]
    shared = {(p["world_size"], p["local_world_size"], p["nodes"], p["source"]) for p in found}
    assert shared == {(2, 2, 1, "torchrun")}


@pytest.mark.slow
def test_torchrun_starts_two_nodes(tmp_path: Path, free_port: int) -> None:
    nodes = [
        detect({"NNODES": "2", "NODE_RANK": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)})
        for n in (0, 1)
    ]
    found = run_torchrun(tmp_path, nodes, 2)
    places = [(p["rank"], p["local_rank"], p["node"], p["nodes"], p["local_world_size"]) for p in found]
    assert places == [(0, 0, 0, 2, 2), (1, 1, 0, 2, 2), (2, 0, 1, 2, 2), (3, 1, 1, 2, 2)]
    assert {(p["master_address"], p["master_port"]) for p in found} == {("127.0.0.1", free_port)}


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_a_job_without_torch_is_enough_to_find_the_place() -> None:
    """So that a launcher on a login node can ask."""
    code = "import sys, trex.launch.cluster; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert cluster.DEFAULT_PORT == 29500


def test_ascend_values_of_the_launch_scripts_are_the_published_ones() -> None:
    published = {}
    for row in load("launch_flags"):
        number = row.numbers.get("value")
        published[row.name] = row.attributes.get("setting") if number is None else str(number.value)
    ours = {variable.name: variable.value for variable in VARIABLES if variable.source.startswith(SCRIPTS)}
    assert ours.pop("PYTORCH_NPU_ALLOC_CONF") == published["PYTORCH_NPU_ALLOC_CONF"] + ":True"
    assert set(ours) == {"HCCL_BUFFSIZE", "HCCL_ALGO", "TASK_QUEUE_ENABLE", "CPU_AFFINITY_CONF"}
    assert ours == {name: published[name] for name in ours}


def test_ascend_environment_keeps_what_is_set_and_orders_its_time_outs() -> None:
    found = ascend_environment(600, {"HCCL_BUFFSIZE": "512", "TASK_QUEUE_ENABLE": ""})
    assert "HCCL_BUFFSIZE" not in found and "TASK_QUEUE_ENABLE" not in found and found["CPU_AFFINITY_CONF"] == "1"
    assert not {variable.name for variable in LEFT_ALONE} & set(found)
    assert ascend_environment(600, {}, deterministic=True)["HCCL_DETERMINISTIC"] == "true"
    for timeout in (10, 60.5, 600, 7200, 86_400):
        set_ = {name: int(value) for name, value in ascend_environment(timeout, {}).items() if "TIMEOUT" in name}
        assert 120 <= set_["HCCL_CONNECT_TIMEOUT"] <= 7200
        assert 0 < set_["HCCL_EXEC_TIMEOUT"] < set_["HCCL_EVENT_TIMEOUT"] <= timeout
    for bad in (9.9, float("nan"), float("inf"), True, 2**31, "600"):
        with pytest.raises(AscendEnvironmentError, match="accepted: seconds from 10"):
            ascend_environment(bad, {})  # type: ignore[arg-type]


def test_ascend_variables_are_documented_once() -> None:
    names = [variable.name for variable in VARIABLES]
    assert len(set(names)) == len(names)
    assert all(variable.reason and "hiascend.com" in variable.source for variable in VARIABLES)
    assert "HCCL_OP_EXTENSION_MODE" not in names and "HCCL_OP_EXPANSION_MODE" in names
