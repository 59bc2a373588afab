"""Make PNG figures small: flat colours and text need a palette, not four bytes per pixel."""

import struct
import zlib

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RGBA_8_BIT = (8, 6, 0, 0, 0)  # bit depth, colour type, compression, filter method, interlace


def compact(image: bytes, colours: int = 256) -> bytes:
    """The picture with at most `colours` (up to 256) colours: each pixel takes the nearest of the most frequent ones.

    Nothing is lost in a picture that has no more. Made for what Chromium writes, opaque 8-bit RGBA with the row filters
    none, sub and up; any other PNG is returned as it is. Source of the format: PNG (W3C), third edition.
    """
    chunks = list(_chunks(image))
    width, height, *kind = struct.unpack(">IIBBBBB", chunks[0][1])
    if tuple(kind) != RGBA_8_BIT:
        return image
    data = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    rows = np.frombuffer(data, np.uint8).reshape(height, 1 + 4 * width)
    pixels = _unfiltered(rows[:, 0], rows[:, 1:].reshape(height, width, 4))
    if pixels is None or (pixels[..., 3] != 255).any():
        return image
    palette, index = _palette(pixels[..., :3], colours)
    body = np.hstack([np.zeros((height, 1), np.uint8), index])  # filter "none" before every row
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (
        (b"IHDR", header),
        (b"PLTE", palette.tobytes()),
        (b"IDAT", zlib.compress(body.tobytes(), 9)),
        (b"IEND", b""),
    )
    return SIGNATURE + b"".join(_chunk(name, content) for name, content in parts)


def _chunks(image: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], len(SIGNATURE)
    while at < len(image):
        (length,) = struct.unpack(">I", image[at : at + 4])
        found.append((image[at + 4 : at + 8], image[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _unfiltered(filters: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    """Pixels [height, width, 4] from filtered rows, sums modulo 256; None for the filters average and Paeth."""
    pixels = np.empty_like(rows)
    above = np.zeros_like(rows[0])
    for number, (kind, row) in enumerate(zip(filters, rows, strict=True)):
        if kind == 0:
            above = row
        elif kind == 1:
            above = np.cumsum(row, axis=0, dtype=np.uint8)
        elif kind == 2:
            above = above + row
        else:
            return None
        pixels[number] = above
    return pixels


def _palette(pixels: np.ndarray, colours: int) -> tuple[np.ndarray, np.ndarray]:
    """The most frequent colours [n, 3] and each pixel's index [height, width] into them."""
    packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    found, index, counts = np.unique(packed, return_inverse=True, return_counts=True)
    split = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1).astype(np.int32)
    kept = split[np.argsort(-counts, kind="stable")[:colours]]
    nearest = np.array([((kept - colour) ** 2).sum(axis=1).argmin() for colour in split])
    return kept.astype(np.uint8), nearest[index].reshape(packed.shape).astype(np.uint8)
