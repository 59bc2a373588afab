"""Folders of any depth and with any permissions are measured and removed; what links lead to stays."""

import os
from pathlib import Path

from trex.solver.sandbox.folders import TOO_MUCH, remove, usage


def test_deep_closed_and_linked_folders_are_removed(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "job"
    kept.mkdir()
    (kept / "file").write_text("x")
    folder.mkdir()
    (folder / "link").symlink_to(kept)
    (folder / "gone").symlink_to(tmp_path / "nothing")
    (folder / "closed").mkdir()
    (folder / "closed" / "file").write_text("x")
    os.chmod(folder / "closed", 0)
    os.mkfifo(folder / "pipe")
    here = os.open(folder, os.O_RDONLY)
    for number in range(1500):  # deeper than any path may be long, and than Python recurses
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
        if number % 100 == 0:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    assert usage(str(folder)) == (TOO_MUCH, TOO_MUCH)
    remove(str(folder))
    assert not folder.exists() and (kept / "file").read_text() == "x"


def test_bytes_and_entries_are_counted_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "link").symlink_to("/usr")
    size, count = usage(str(tmp_path))
    blocks = sum(p.lstat().st_blocks * 512 for p in tmp_path.rglob("*"))
    assert (size, count) == (blocks, 4) and size >= 100_000
