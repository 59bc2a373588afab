"""The engine on a Ray cluster of two nodes: the same bytes as without it.

The cluster lives in a network namespace of its own, in which there is nothing but the loopback device.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trex.data import engine
from trex.data.engine import DOCUMENTS, REFUSALS, Here, Settings
from trex.data.plan import Plan

pytestmark = pytest.mark.slow
pytest.importorskip("ray", reason="the extra 'cluster' is not installed")

SETTINGS = Settings(Plan.of(12, 5, ["knapsack", "transportation"], difficulty=(1, 2)))
TWO_NODES = """
import sys
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from tests.data.test_ray import SETTINGS
from trex.data import engine
from trex.data.ray_pool import RayPool

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
try:
    ray.init(address=cluster.address, log_to_driver=False)

    @ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
    def node():
        time.sleep(2)  # while it holds its node's only core, the others go elsewhere
        return ray.get_runtime_context().get_node_id()

    print("nodes", len(set(ray.get([node.remote() for _ in range(6)]))))
    ray.shutdown()
    engine.generate(Path(sys.argv[1]), SETTINGS, pool=lambda: RayPool(cluster.address))
    assert not ray.is_initialized()
finally:
    cluster.shutdown()
"""


def isolated(*command: str, seconds: int = 400) -> subprocess.CompletedProcess[str]:
    """Run a command with a loopback device as its only network."""
    enter = ["unshare", "--net", "--fork", "--kill-child", "--pid", "--mount-proc"]
    if os.getuid():
        enter += ["--user", "--map-root-user"]
    script = 'ip link set lo up && exec "$@"'
    environment = {**os.environ, "RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*enter, "sh", "-c", script, "sh", *command], capture_output=True, text=True, timeout=seconds, env=environment
    )


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    if (made := isolated("true")).returncode:
        pytest.skip(f"no network namespace can be made here: {made.stderr.strip()}")


def test_two_nodes_make_the_same_bytes(tmp_path: Path) -> None:
    done = isolated(sys.executable, "-c", TWO_NODES, str(tmp_path / "ray"))
    assert done.returncode == 0, done.stderr
    assert "nodes 2" in done.stdout
    engine.generate(tmp_path / "here", SETTINGS, pool=Here)
    for name in (DOCUMENTS, REFUSALS):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_the_command_starts_a_cluster_of_its_own(tmp_path: Path) -> None:
    words = ["data", "generate", "--out", str(tmp_path / "x"), "--count", "4", "--difficulty", "1", "--ray", "local"]
    done = isolated(sys.executable, "-m", "trex", *words)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "x" / DOCUMENTS).read_bytes().splitlines()) == 4


@pytest.mark.parametrize(("address", "says"), [
    ("127.0.0.1:1", "no Ray cluster at '127.0.0.1:1': "),
    ("ray://127.0.0.1:1", "no Ray cluster at 'ray://127.0.0.1:1': "),
    ("auto", "no Ray cluster at 'auto': "),
    ("here", "a Ray cluster at 'here'; accepted: "),
    ("host:port", "a Ray cluster at 'host:port'; accepted: "),
])  # fmt: skip
def test_no_cluster_is_one_line(tmp_path: Path, address: str, says: str) -> None:
    words = ["data", "generate", "--out", str(tmp_path / "x"), "--count", "1", "--ray", address]
    done = isolated(sys.executable, "-m", "trex", *words, seconds=100)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"trex: {says}")
