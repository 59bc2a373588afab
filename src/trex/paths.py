"""Where things lie: the checkout, the committed results, and the folder of the run in progress."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]  # the folder of pyproject.toml when installed with `pip install -e .`


def notebooks() -> Path:
    """The folder of the six chapters. Raises FileNotFoundError when trex was installed without its checkout."""
    folder = CHECKOUT / "notebooks"
    if not folder.is_dir():
        raise FileNotFoundError(f"no notebooks at {folder}: install trex from a checkout with `pip install -e .`")
    return folder


def results() -> Path:
    """Committed results, written by `trex publish` only."""
    return CHECKOUT / "results"


def runs() -> Path:
    """All runs; never committed."""
    return CHECKOUT / "runs"


def current_run() -> Path:
    """The run that this process writes to: $TREX_RUN, set by `trex reproduce`, else `runs/interactive`."""
    return Path(os.environ.get("TREX_RUN") or runs() / "interactive")
