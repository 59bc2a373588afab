"""Files and folders written whole or not at all: on the disk before they take their names; locks between processes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trex.files import folder_atomic, locked, make_folder, put_folder

HOLD = """
import pathlib, sys
from trex.files import locked
with locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NotADirectoryError, match="is a file, or below one; accepted: a folder"):
            make_folder(path)
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert names(tmp_path) == ["a", "a/b", "file"]


def test_everything_is_on_the_disk_before_a_folder_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, int]] = []
    fsync, rename = os.fsync, os.rename

    def synced(handle: int) -> None:
        events.append(("fsync", os.fstat(handle).st_ino))
        fsync(handle)

    def renamed(old: Any, new: Any) -> None:
        events.append(("rename", os.stat(old).st_ino))
        rename(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    with folder_atomic(tmp_path / "a") as temporary:
        (temporary / "deep").mkdir()
        (temporary / "deep" / "b").write_text("b")
        (temporary / "c").write_text("c")
    inside = {path.stat().st_ino for path in [tmp_path / "a", *(tmp_path / "a").rglob("*")]}
    place = events.index(("rename", (tmp_path / "a").stat().st_ino))
    assert len(inside) == 4 and {number for kind, number in events[:place] if kind == "fsync"} >= inside
    assert ("fsync", tmp_path.stat().st_ino) in events[place:]  # the name itself


def test_a_folder_that_could_not_be_filled_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), folder_atomic(tmp_path / "a") as temporary:
        (temporary / "b").write_text("b")
        raise RuntimeError
    assert names(tmp_path) == []


@pytest.mark.parametrize("replace", [False, True])
def test_an_existing_folder_is_replaced_only_on_request(tmp_path: Path, replace: bool) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_text("old")
    new = tmp_path / "new"
    new.mkdir()
    (new / "b").write_text("b")
    if replace:
        put_folder(new, tmp_path / "a", replace=True)
        assert names(tmp_path) == ["a", "a/b"]
        return
    with pytest.raises(FileExistsError, match="a exists"):
        put_folder(new, tmp_path / "a")
    with pytest.raises(FileExistsError, match="a exists"), folder_atomic(tmp_path / "a"):
        pass
    assert names(tmp_path) == ["a", "a/old", "new", "new/b"]


def test_the_old_folder_comes_back_where_the_new_one_cannot_take_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_text("old")
    rename = os.rename

    def failing(old: Any, new: Any) -> None:
        if Path(new) == tmp_path / "a" and not Path(old).name.endswith(".old"):
            raise OSError("no")
        rename(old, new)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(OSError, match="no"), folder_atomic(tmp_path / "a", replace=True):
        pass
    assert names(tmp_path) == ["a", "a/old"]


@pytest.mark.parametrize("kind", ["file", "link", "dangling"])
def test_a_file_or_link_is_never_replaced(kind: str, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "old").write_text("old")
    new, place = tmp_path / "new", tmp_path / "a"
    new.mkdir()
    if kind == "file":
        place.write_text("old")
    else:
        place.symlink_to(tmp_path / ("kept" if kind == "link" else "nowhere"))
    before = names(tmp_path)
    for replace in (False, True):
        with pytest.raises(FileExistsError, match=r"a (is a|exists)"), folder_atomic(place, replace):
            pytest.fail("begun")
        with pytest.raises(FileExistsError, match=r"a (is a|exists)"):
            put_folder(new, place, replace)
    assert names(tmp_path) == before


def test_one_process_at_a_time_holds_a_lock_and_its_end_frees_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with locked(lock), pytest.raises(BlockingIOError) as error, locked(lock):
        pass
    assert str(error.value) == f"{tmp_path} is in use by another run; wait for it or stop it"
    assert not lock.exists()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(BlockingIOError), locked(lock):
        pass
    holder.kill()
    holder.communicate()
    with locked(lock):  # although its file is still there
        assert lock.exists()
