"""A thousand jobs, a third of them hostile: the others get their answers, and nothing is left behind."""

import os
import random
import shutil
import tempfile
import threading
from pathlib import Path

import pytest

from trex.solver.sandbox import Limits, Sandbox, confinement, landlock, processes
from trex.solver.sandbox.attacks import ATTACKS, BUILD, FORGERIES, SOLVE
from trex.solver.solve import solve

LIMITS = Limits(seconds=2, memory_mb=1024, disk_mb=16, files=500, processes=40)


def owner(path: Path) -> int:
    try:
        return path.lstat().st_uid
    except OSError:
        return -1


def left_over() -> dict[str, set[str]]:
    """Processes below this one, and what lies where jobs might leave something."""
    folders = [Path(place) for place in (tempfile.gettempdir(), "/dev/shm") if os.path.isdir(place)]
    places = {
        str(place): {e.name for e in place.iterdir() if owner(e) >= confinement.USER or e.name.startswith("trex-job")}
        for place in folders
    }
    own = processes.descendants(os.getpid())
    jobs = {int(p.name) for p in Path("/proc").iterdir() if p.name.isdecimal() and owner(p) >= confinement.USER}
    mounts = set(Path("/proc/self/mounts").read_text().splitlines())
    return {**places, "mounts": mounts, "processes": set(map(str, own | jobs))}


@pytest.mark.slow
@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
def test_a_thousand_jobs_leave_nothing(level: str) -> None:
    if not (shutil.which("bwrap") if level == "bubblewrap" else landlock.version() >= landlock.LEAST):
        pytest.skip(f"{level} is not here")
    rng = random.Random(7)
    hostile = [(attack.program(9, __file__), (*attack.status, "timeout")) for attack in ATTACKS]
    hostile += [(code, None) for code in FORGERIES.values()]
    before = left_over()
    jobs: list[tuple[str, tuple[str, ...] | None, float | None]] = []
    for number in range(1000):
        if number % 3 == 0:
            jobs.append((*rng.choice(hostile), None))
        else:
            jobs.append((BUILD.replace("4)", f"{number})") + SOLVE, ("ok",), 3.0 * number))
    wrong = []

    def work(worker: int) -> None:
        with Sandbox(level) as sandbox:
            for code, statuses, optimum in jobs[worker::2]:
                found = sandbox.run(code, limits=LIMITS)
                value = solve(found.model, 10).objective if found.model is not None and optimum is not None else None
                if (statuses is not None and found.status not in statuses) or value != optimum:
                    wrong.append((code, found))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    new = {name: found - before[name] for name, found in left_over().items()}
    assert new == {name: set() for name in new}
