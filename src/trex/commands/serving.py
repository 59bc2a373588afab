"""A checkpoint's weights as an endpoint, for the commands that ask a model."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trex.data.endpoint import Endpoint


@contextmanager
def served(
    checkpoint: Path, model: str = "", concurrency: int = 8, timeout_s: float = 600.0, attempts: int = 6,
    max_tokens_limit: int = 4096,
) -> "Iterator[Endpoint]":  # fmt: skip
    """An endpoint that serves the weights of a folder on loopback, under the folder's name by default.

    The port is another in each run. Raises ServeError with what the server says where the weights cannot be served.
    """
    from trex.data.endpoint import Endpoint
    from trex.serve.local import serving

    name = model or checkpoint.name
    print(f"trex: serving {checkpoint}", file=sys.stderr)
    with serving(str(checkpoint), name, max_tokens_limit) as address:
        yield Endpoint(address, name, "", concurrency, timeout_s, attempts)
