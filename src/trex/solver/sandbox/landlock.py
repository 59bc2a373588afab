"""Landlock: which folders a process may read and which it may write, from the process itself (landlock(7))."""

import ctypes
import os
import struct
from collections.abc import Sequence

from trex.solver.sandbox import system

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # on all architectures
VERSION = 1  # flag: ask for the version of the interface
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
ALL = (1 << 13) - 1  # version 1
REFER, TRUNCATE, DEVICES = 1 << 13, 1 << 14, 1 << 15  # versions 2, 3, 5
NETWORK = 0b11  # binding and connecting over TCP, version 4
SCOPES = 0b11  # abstract sockets and signals, version 6
LEAST = 3  # without it, files could be cut to nothing


def version() -> int:
    """Version of the kernel's interface; 0 where it has none."""
    try:
        return system.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))
    except OSError:
        return 0


def restrict(readable: Sequence[str], writable: Sequence[str]) -> None:
    """Keep the process from all files but those below `readable`, to be read, and `writable`. Raises OSError."""
    found = version()
    if found < LEAST:
        raise OSError(f"Landlock of version {found}; accepted: {LEAST} and up")
    handled = ALL | REFER | TRUNCATE | (DEVICES if found >= 5 else 0)
    attributes = struct.pack(
        "<QQQ", handled, NETWORK if found >= 4 else 0, SCOPES if found >= 6 else 0
    )  # a field that the kernel does not know must be left out
    size = 24 if found >= 6 else 16 if found >= 4 else 8
    ruleset = system.syscall(
        CREATE_RULESET, ctypes.create_string_buffer(attributes[:size], size), ctypes.c_size_t(size), ctypes.c_uint32(0)
    )
    try:
        for path in readable:
            _allow(ruleset, path, EXECUTE | READ_FILE | READ_DIR)
        for path in writable:
            _allow(ruleset, path, (ALL | REFER | TRUNCATE) & ~EXECUTE)
        system.prctl(system.SET_NO_NEW_PRIVS, 1)
        system.syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    try:
        if not os.path.isdir(path):
            access &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
        rule = ctypes.create_string_buffer(struct.pack("<Qi", access, place), 12)
        system.syscall(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint32(0))
    finally:
        os.close(place)
