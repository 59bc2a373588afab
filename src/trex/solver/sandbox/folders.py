"""Folders that a program made as it liked: measured and removed, however deep, without following links."""

import os
import secrets

DEEPEST = 40  # folders below each other; paths of that many longest names are near the limit of the system
TOO_MUCH = 2**62


def usage(folder: str) -> tuple[int, int]:
    """Bytes on the disk and number of entries below a folder; TOO_MUCH of both where it is deeper than DEEPEST."""
    size = count = 0
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        if depth > DEEPEST:
            return TOO_MUCH, TOO_MUCH
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    count += 1
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, depth + 1))
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError:  # a name too long, or closed to us
            return TOO_MUCH, TOO_MUCH
    return size, count


def remove(folder: str) -> None:
    """Remove a folder with all that is below it, when nobody uses it any more. Raises OSError.

    What is in a folder below is moved up before that is removed, so that no path gets long and nothing recurses.
    """
    prefix = secrets.token_hex(8)  # of what is moved: nothing there has such a name
    os.chmod(folder, 0o700)
    top, moved = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), 0
    try:
        while names := os.listdir(top):
            for name in names:
                try:
                    os.unlink(name, dir_fd=top)
                    continue
                except (IsADirectoryError, PermissionError):
                    os.chmod(name, 0o700, dir_fd=top)
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
                try:
                    for child in os.listdir(below):
                        moved += 1
                        os.rename(child, f"{prefix}{moved}", src_dir_fd=below, dst_dir_fd=top)
                finally:
                    os.close(below)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(folder)
