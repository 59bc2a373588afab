"""System calls that Python 3.11 has no name for."""

import ctypes
import os
import platform
import struct

_libc = ctypes.CDLL(None, use_errno=True)

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 0x4000, 0x40000
PDEATHSIG, SET_DUMPABLE, SET_KEEPCAPS, SET_NO_NEW_PRIVS, SET_CHILD_SUBREAPER = 1, 4, 8, 38, 36
CAPABILITY_VERSION = 0x20080522
ARM = platform.machine() == "aarch64"
CAPGET, CAPSET = (90, 91) if ARM else (125, 126)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int) -> None:
    """Set a property of the process. Raises OSError."""
    _checked(
        _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)), "prctl"
    )


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones. Raises OSError."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(kind: str, target: str, flags: int, options: str = "") -> None:
    """Mount a new file system of a kind. Raises OSError."""
    arguments = kind.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()
    _checked(_libc.mount(*arguments), f"mount {target}")


def make_private() -> None:
    """Keep later mounts from the namespaces that this one was copied from. Raises OSError."""
    _checked(_libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None), "mount /")


def syscall(number: int, *arguments: object) -> int:
    """Any system call. Raises OSError."""
    return _checked(_libc.syscall(ctypes.c_long(number), *arguments), f"system call {number}")


def keep_capabilities(kept: int) -> None:
    """Give up whatever the process may do beyond an ordinary user's rights, but for `kept`, if it has it.

    Raises OSError.
    """
    header = ctypes.create_string_buffer(struct.pack("<Ii", CAPABILITY_VERSION, 0))
    had = ctypes.create_string_buffer(24)
    syscall(CAPGET, header, had)
    kept &= struct.unpack("<6I", had.raw)[1]
    syscall(CAPSET, header, ctypes.create_string_buffer(struct.pack("<6I", kept, kept, 0, 0, 0, 0), 24))
