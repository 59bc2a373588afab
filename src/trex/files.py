"""Files and folders written whole or not at all, and lines appended to them."""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # of a file system that has none


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` whole or not at all: temporary name, fsync, rename."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def make_folder(folder: Path) -> None:
    """Make a folder with those above it; one that is there stays.

    Raises NotADirectoryError where a file is in the way, PermissionError for a folder that cannot be written into.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(f"{folder} is a file, or below one; accepted: a folder, or a new one") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be written into; accepted: a folder that can")


@contextmanager
def folder_atomic(folder: Path, replace: bool = False) -> Iterator[Path]:
    """An empty folder beside `folder` to fill, which takes its name when the block ends, and goes if it raises.

    replace: put it in the place of an existing folder, which is set aside until the new one is there.
    Raises FileExistsError for a folder that exists otherwise, and for a file or link of that name in any case.
    """
    _may_take(folder, replace)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        yield temporary
        temporary.chmod(0o755)
        put_folder(temporary, folder, replace)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def put_folder(temporary: Path, folder: Path, replace: bool = False) -> None:
    """fsync all of `temporary`, then rename it to `folder`.

    replace: an existing folder is set aside first, and put back on failure. Raises FileExistsError for one otherwise,
    and for a file or link of that name in any case.
    """
    _may_take(folder, replace)
    for path in [*temporary.rglob("*"), temporary]:
        sync(path)
    old = temporary.with_name(f"{temporary.name}.old")
    if os.path.lexists(folder):
        os.rename(folder, old)
    try:
        os.rename(temporary, folder)
    except OSError:
        if old.exists():
            os.rename(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
    sync(folder.parent)


def _may_take(folder: Path, replace: bool) -> None:
    if os.path.lexists(folder) and not replace:
        raise FileExistsError(f"{folder} exists; it is replaced only on request")
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
        raise FileExistsError(f"{folder} is a {'link' if folder.is_symlink() else 'file'}; only a folder is replaced")


def sync(path: Path) -> None:
    """fsync a file or a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cut_half_line(path: Path) -> None:
    """Cut off what follows the last line break of a file; a missing file is left missing."""
    if not path.exists():
        return
    with path.open("rb") as stream:
        end = position = stream.seek(0, os.SEEK_END)
        while position > 0:
            step = min(1 << 16, position)
            position -= step
            stream.seek(position)
            found = stream.read(step).rfind(b"\n")
            if found >= 0:
                position += found + 1
                break
    if position < end:
        os.truncate(path, position)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock on the file `path`, which is made and removed again; it goes with the process that holds it.

    Raises BlockingIOError, which names the folder, where another one does. A file system without locks gives none.
    """
    while True:
        with path.open("wb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BlockingIOError(f"{path.parent} is in use by another run; wait for it or stop it") from None
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
            try:
                if not os.path.samestat(os.fstat(stream.fileno()), path.stat()):
                    continue
            except FileNotFoundError:
                continue  # its last holder has just removed it
            try:
                yield
            finally:
                with suppress(OSError):
                    os.unlink(path)
            return
