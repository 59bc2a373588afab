"""The engine on a Ray cluster of two nodes, both on this machine: the same bytes as without it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trex.data import engine
from trex.data.engine import DOCUMENTS, Here, Settings
from trex.data.plan import Plan
from trex.data.problem import DataError

pytestmark = pytest.mark.slow
SETTINGS = Settings(Plan.of(12, 5, ["knapsack", "transportation"], difficulty=(1, 2)), execute=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and a second node, each with one core, on loopback; they end with the test."""
    pytest.importorskip("ray", reason="the extra 'cluster' is not installed")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "node_ip_address": "127.0.0.1"})
    try:
        made.add_node(num_cpus=1)
        yield made
    finally:
        made.shutdown()


def test_two_nodes_make_the_same_bytes(cluster: Any, tmp_path: Path) -> None:
    from trex.data.ray_pool import RayPool

    pools = []

    def pool() -> RayPool:
        pools.append(RayPool(cluster.address))
        return pools[0]

    engine.generate(tmp_path / "ray", SETTINGS, pool=pool)
    engine.generate(tmp_path / "here", Settings(SETTINGS.plan), pool=Here)
    assert (tmp_path / "ray" / DOCUMENTS).read_bytes() == (tmp_path / "here" / DOCUMENTS).read_bytes()


def test_both_nodes_work(cluster: Any) -> None:
    import ray

    ray.init(address=cluster.address, log_to_driver=False)
    try:
        node = ray.remote(num_cpus=1)(lambda: ray.get_runtime_context().get_node_id())
        assert len(set(ray.get([node.remote() for _ in range(20)]))) == 2
    finally:
        ray.shutdown()


def test_no_cluster_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra 'cluster' is not installed")
    words = ["data", "generate", "--out", str(tmp_path / "x"), "--count", "1", "--ray", "127.0.0.1:1"]
    done = subprocess.run(
        [sys.executable, "-m", "trex", *words], capture_output=True, text=True, timeout=300,
        env={**os.environ, "RAY_gcs_rpc_server_reconnect_timeout_s": "5"},
    )  # fmt: skip
    assert done.returncode == 2 and "trex: no Ray cluster at '127.0.0.1:1'" in done.stderr
    assert DataError.__name__ not in done.stderr
