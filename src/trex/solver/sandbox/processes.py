"""Processes as /proc shows them: who descends from whom, how much memory they take, and ending them."""

import os
import signal
import stat
import time
from collections.abc import Iterator

PATIENCE_S = 5.0  # for processes to be gone after they were killed


def descendants(first: int) -> set[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for process, parent in _parents():
        children.setdefault(parent, []).append(process)
    found, new = set(), [first]
    while new:
        process = new.pop()
        if process not in found:
            found.add(process)
            new += children.get(process, [])
    return found


def anonymous_bytes(process: int) -> int:
    """Bytes in memory that belong to no file on a disk; what processes share is counted for each.

    A process whose first thread has ended tells of its memory through the others.
    """
    places = [f"/proc/{process}/status"]
    try:
        places += (f"/proc/{process}/task/{task}/status" for task in os.listdir(f"/proc/{process}/task"))
    except OSError:
        return 0
    for place in places:
        try:
            with open(place) as stream:
                found = [int(line.split()[1]) for line in stream if line.startswith(("RssAnon:", "RssShmem:"))]
        except (OSError, IndexError, ValueError):
            continue
        if found:
            return sum(found) * 1024
    return 0


def unlinked_bytes(process: int) -> int:
    """Bytes of open files that have no name any more."""
    size = 0
    try:
        for name in os.listdir(f"/proc/{process}/fd"):
            found = os.stat(f"/proc/{process}/fd/{name}")
            size += found.st_blocks * 512 if stat.S_ISREG(found.st_mode) and not found.st_nlink else 0
    except OSError:
        return size
    return size


def tasks(user: int) -> int:
    """Processes and threads of a user."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return count


def kill_descendants(first: int) -> bool:
    """Kill all that descend from a process, itself excepted, until none is left; whether that was achieved.

    Those whose parents die must come to `first`, which reaps them (a "child subreaper", prctl(2)).
    """
    end = time.monotonic() + PATIENCE_S
    while left := descendants(first) - {first}:
        for kind in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: none can fork while the others are killed
            for process in left:
                try:
                    os.kill(process, kind)
                except OSError:
                    continue
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def _parents() -> Iterator[tuple[int, int]]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as stream:
                    yield int(name), int(stream.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
