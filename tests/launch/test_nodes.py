"""torchrun from a notebook: what the ranks write, failures with their cause, nothing left behind."""

from pathlib import Path

import pytest

from trex.launch import nodes
from trex.launch.cluster import detect

ALONE = detect({})


def left(mark: str) -> list[str]:
    """Processes whose command has `mark`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in path.read_bytes().decode(errors="replace"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_what_the_ranks_write_comes_back(tmp_path: Path) -> None:
    script = tmp_path / "fine.py"
    script.write_text(
        "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], os.environ['EXTRA'])"
    )
    (output,) = nodes.torchrun([ALONE], [str(script)], timeout_s=120, processes_per_node=2, environ={"EXTRA": "more"})
    assert sorted(line for line in output.splitlines() if line.startswith("rank")) == [
        "rank 0 of 2 more", "rank 1 of 2 more",
    ]  # fmt: skip


def test_a_failure_has_its_cause_and_nothing_is_left(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text(
        "import os, time\nif os.environ['RANK'] == '1': raise KeyError('what was missing')\ntime.sleep(600)"
    )
    with pytest.raises(nodes.NodesError, match="what was missing"):
        nodes.torchrun([ALONE], [str(script)], timeout_s=120, processes_per_node=2)
    assert left(str(script)) == []


def test_time_ends(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text("import time; print('began', flush=True); time.sleep(600)")
    with pytest.raises(nodes.NodesError, match="has not ended after 6 s"):
        nodes.torchrun([ALONE], [str(script)], timeout_s=6, processes_per_node=1)
    assert left(str(script)) == []
