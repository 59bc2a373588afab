"""The engine's work on a Ray cluster: the same function on as many machines as the cluster has."""

import os
import socket
from typing import Any

from trex.data.problem import DataError
from trex.data.proving import prove

LOCAL, AUTO = "local", "auto"
ANSWER_S = 10.0  # for a cluster's head: Ray itself waits for minutes
RETRIES = 3  # of a job whose machine is lost


class RayPool:
    """`trex.solver.workers.Jobs` over Ray. Each core of the cluster proves one instance at a time."""

    def __init__(self, address: str, processes: int = 0) -> None:
        """Join the cluster at an address ("auto", host:port, ray://…); "local" starts one on this machine.

        processes: cores of the local one, all for 0. Raises DataError where Ray is missing or does not answer.
        """
        try:
            import ray
        except ImportError:
            raise DataError("Ray is not installed; accepted: pip install 'trex-reproduction[cluster]'") from None
        if address not in (LOCAL, AUTO):
            _reach(address)
        self._ray = ray
        self._joined = not ray.is_initialized()
        if self._joined:
            threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
            try:
                ray.init(
                    address=None if address == LOCAL else address, log_to_driver=False, include_dashboard=False,
                    runtime_env={"env_vars": threads},
                    num_cpus=(processes or os.cpu_count()) if address == LOCAL else None,
                )  # fmt: skip
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise DataError(f"no Ray cluster at {address!r}: {error}") from None
        self._prove = ray.remote(num_cpus=1, max_retries=RETRIES)(prove)
        self._running: dict[Any, Any] = {}

    def put(self, key: Any, *job: Any) -> None:
        """Add a job."""
        self._running[self._prove.remote(*job)] = key

    def get(self) -> tuple[Any, Any]:
        """Key and outcome of the next job that is done. Raises what the job raises."""
        done, _ = self._ray.wait(list(self._running), num_returns=1)
        return self._running.pop(done[0]), self._ray.get(done[0])

    def close(self) -> None:
        """Give up what is running, and leave the cluster where this joined it."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        if self._joined:
            self._ray.shutdown()


def _reach(address: str) -> None:
    """Raise DataError where nothing listens at an address."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise DataError(f"a Ray cluster at {address!r}; accepted: {LOCAL}, {AUTO}, host:port, ray://host:port")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
    except OSError as error:
        raise DataError(f"no Ray cluster at {address!r}: {error}") from None
