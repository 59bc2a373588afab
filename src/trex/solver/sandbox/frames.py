"""Messages over a pipe: eight bytes of length, then so many bytes."""

import os
import struct

HEAD = struct.Struct(">Q")


def write(descriptor: int, data: bytes) -> None:
    """Write one message, in as many pieces as it takes."""
    whole = memoryview(HEAD.pack(len(data)) + data)
    while whole:
        whole = whole[os.write(descriptor, whole) :]


def read(descriptor: int, largest: int) -> bytes | None:
    """Read one message; None where the other end was closed before one began.

    Raises ValueError for one that is cut off or longer than `largest` bytes.
    """
    head = _exactly(descriptor, HEAD.size)
    if not head:
        return None
    (length,) = HEAD.unpack(head) if len(head) == HEAD.size else (largest + 1,)
    if length > largest:
        raise ValueError(f"a message of {length} bytes; accepted: up to {largest}")
    data = _exactly(descriptor, length)
    if len(data) < length:
        raise ValueError(f"a message cut off after {len(data)} of {length} bytes")
    return data


def _exactly(descriptor: int, length: int) -> bytes:
    parts, missing = [], length
    while missing and (part := os.read(descriptor, min(missing, 1 << 20))):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
