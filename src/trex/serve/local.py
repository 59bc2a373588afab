"""A checkpoint served on loopback by a process of its own, for as long as a `with` statement lasts."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile

from trex.serve import ServeError

PATIENCE_S = 15.0  # for the server to end when asked to
ADDRESS = " at http"


@contextmanager
def serving(folder: str, name: str, max_tokens_limit: int = 4096) -> Iterator[str]:
    """The address of `trex serve FOLDER`, up to and with /v1. Raises ServeError with what the server says."""
    command = [sys.executable, "-m", "trex", "serve", folder, "--port", "0", "--name", name]
    with TemporaryFile() as log:
        server = subprocess.Popen(
            [*command, "--max-tokens-limit", str(max_tokens_limit)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, start_new_session=True,
        )  # fmt: skip
        assert server.stdout is not None
        try:
            line = server.stdout.readline().decode(errors="replace")
            if ADDRESS not in line:
                server.wait(PATIENCE_S)
                log.seek(0)
                last = log.read().decode(errors="replace").strip().splitlines()[-1:]
                raise ServeError(f"{folder} is not served: {' '.join(last) or f'exit status {server.returncode}'}")
            yield "http" + line.rpartition(ADDRESS)[2].strip()
        finally:
            _end(server)
            server.stdout.close()


def _end(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
