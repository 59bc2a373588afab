"""PNG with a palette shows the same picture; read back by a decoder of its own."""

import struct
import zlib

import numpy as np
import pytest

from trex.report.png import compact


def encode(pixels, filters):
    """8-bit RGBA PNG of [height, width, 4], each row with the filter named: 0 none, 1 sub, 2 up, 3 average."""
    rows, before = b"", np.zeros_like(pixels[0])
    for kind, row in zip(filters, pixels, strict=True):
        left = np.vstack([np.zeros((1, 4), np.uint8), row[:-1]])
        average = ((left.astype(int) + before) // 2).astype(np.uint8)
        rows += bytes([kind]) + (row - (np.zeros_like(row), left, before, average)[kind]).tobytes()
        before = row
    height, width, _ = pixels.shape
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0))]
    data = zlib.compress(rows)
    parts += [(b"IDAT", data[:50]), (b"IDAT", data[50:]), (b"IEND", b"")]
    body = b"".join(struct.pack(">I", len(b)) + n + b + struct.pack(">I", zlib.crc32(n + b)) for n, b in parts)
    return b"\x89PNG\r\n\x1a\n" + body


def decode(image):
    """RGB [height, width, 3] of a palette PNG without filters; every checksum is checked."""
    chunks, at = {}, 8
    while at < len(image):
        (length,) = struct.unpack(">I", image[at : at + 4])
        name, body = image[at + 4 : at + 8], image[at + 8 : at + 8 + length]
        assert struct.unpack(">I", image[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + body)
        chunks[name], at = body, at + 12 + length
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, colour) == (8, 3)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)[rows[:, 1:]]


def picture(colours, shape=(37, 53), seed=0):
    rng = np.random.default_rng(seed)
    palette = rng.integers(0, 256, (colours, 3), dtype=np.uint8)
    rgb = palette[rng.integers(0, colours, shape)]
    return np.concatenate([rgb, np.full((*shape, 1), 255, np.uint8)], axis=2)


def test_a_picture_of_few_colours_is_the_same_pixel_by_pixel():
    pixels = picture(200)
    image = encode(pixels, [row % 3 for row in range(len(pixels))])
    small = compact(image)
    assert len(small) < len(image)
    assert (decode(small) == pixels[..., :3]).all()


def test_rare_colours_become_the_nearest_frequent_one():
    pixels = picture(1)
    pixels[:, :20, :3], pixels[:, 20:, :3] = 10, 200
    pixels[3, 3, :3] = 40
    found = decode(compact(encode(pixels, [2] * len(pixels)), colours=2))
    assert (found[3, 3] == 10).all() and set(np.unique(found)) == {10, 200}


@pytest.mark.parametrize("case", ["filter", "transparent", "not RGBA"])
def test_other_pictures_are_returned_as_they_are(case):
    pixels = picture(5)
    if case == "transparent":
        pixels[0, 0, 3] = 7
    image = encode(pixels, [3 if case == "filter" else 2] * len(pixels))
    image = compact(compact(image)) if case == "not RGBA" else image
    assert compact(image) == image
