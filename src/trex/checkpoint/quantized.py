"""The two block formats of the released weights, to ordinary numbers and back.

FP8: e4m3 [o, i] with one scale per block of 128 x 128. FP4: e2m1, two to a byte, the even column in the low nibble,
[o, i / 2], with one scale per row and 32 columns. Scales are powers of two in one byte, 2^(byte - 127); 255 is NaN.
Blocks at the right and lower edge are smaller where 128 or 32 does not divide the shape.
Sources: the released checkpoints and their `inference/convert.py`; OCP Microscaling Formats 1.0 §5 (e2m1, e8m0).

Matrices go through float32, a few rows at a time, in numpy and torch operations that each pass over a block in cache:
torch's own cast from e4m3 takes each element alone and is several times slower.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np
import torch
from torch import Tensor

from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.tensors import NAMES

FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of the codes 0 to 7; 8 to 15 are their negatives
NAN_SCALE = 255
STEP = 128  # rows that are worked on at once: whole blocks of either format


class NotFinite(CheckpointError):
    """Numbers that neither format has a code for."""


@dataclass(frozen=True)
class Format:
    """One block format."""

    name: str
    dtype: str  # of the weight, as a safetensors header names it
    rows: int  # of a block
    columns: int
    largest: float  # number that a code stands for
    mantissa: float  # `largest` is mantissa · 2^exponent, mantissa from 1/2 to 1
    exponent: int
    packed: int = 1  # numbers in a byte

    def scale_shape(self, rows: int, columns: int) -> tuple[int, int]:
        """Shape of the scales of a matrix."""
        return ceil(rows / self.rows), ceil(columns / self.columns)


FP8 = Format("FP8", "F8_E4M3", 128, 128, 448.0, 0.875, 9)
FP4 = Format("FP4", "I8", 1, 32, 6.0, 0.75, 3, packed=2)
FORMATS = (FP8, FP4)
SCALE_DTYPE = "F8_E8M0"


def recognise(
    dtype: str, shape: tuple[int, ...], scale_dtype: str, scale_shape: tuple[int, ...]
) -> tuple[Format, tuple[int, int]] | None:
    """The format of a weight with a scale, by dtype and shape alone, and the matrix's shape; None if it is neither."""
    for form in FORMATS:
        if dtype == form.dtype and len(shape) == 2 and scale_dtype == SCALE_DTYPE:
            matrix = shape[0], shape[1] * form.packed
            if form.scale_shape(*matrix) == tuple(scale_shape):
                return form, matrix
    return None


def dequantize(weight: Tensor, scale: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """A whole matrix. weight: [o, i] float8_e4m3fn, or [o, i/2] int8. scale: float8_e8m0fnu. Returns [o, i] `dtype`.

    Raises CheckpointError where dtypes and shapes are neither format's.
    """
    names = [NAMES.get(tensor.dtype, str(tensor.dtype)) for tensor in (weight, scale)]
    found = recognise(names[0], tuple(weight.shape), names[1], tuple(scale.shape))
    if found is None:
        said = f"{names[0]} {list(weight.shape)} with scale {names[1]} {list(scale.shape)}"
        raise CheckpointError(f"{said} is neither FP8 nor FP4")
    (form, matrix), factors = found, scale.view(torch.uint8)
    rows = (block(form, part.view(torch.uint8), row_scales(form, factors, number * STEP, len(part)), dtype)
            for number, part in enumerate(weight.split(STEP)))  # fmt: skip
    return torch.cat([torch.empty(0, matrix[1], dtype=dtype), *rows])


def row_scales(form: Format, scale: Tensor, start: int, rows: int) -> Tensor:
    """The scales of `rows` rows from `start`, which is a multiple of STEP: [1 or rows, n]."""
    return scale[start // form.rows : ceil((start + rows) / form.rows)]


def block(form: Format, codes: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers of up to STEP rows. codes: [r, bytes] uint8. scale: [1, n] for all rows, or [r, n]; uint8.

    dtype: bfloat16 or float32. The products are exact in float32 (at least its subnormals) and rounded once.
    """
    numbers = _from_e4m3(codes) if form == FP8 else _from_e2m1(codes)
    factors = scale.view(torch.float8_e8m0fnu).to(torch.float32).unsqueeze(-1)
    whole = numbers.shape[1] // form.columns
    body = numbers[:, : whole * form.columns].unflatten(1, (whole, form.columns)) if whole else None
    if body is not None:
        body.mul_(factors[:, :whole])
    if whole * form.columns < numbers.shape[1]:
        numbers[:, whole * form.columns :].mul_(factors[:, whole])
    return numbers.to(dtype)


def quantize(form: Format, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Codes and scales of a matrix: the nearest code, of two equally near the even one, under the smallest scale
    2^k that keeps the block's largest number in range (blocks of zeros: 2^0).

    matrix: [o, i] floating. Returns [o, i] float8_e4m3fn or [o, i/2] int8, and float8_e8m0fnu scales.
    Raises CheckpointError for numbers that are not finite, and for FP4 with an odd number of columns.
    """
    scale = scales(form, matrix)
    factors = scale.view(torch.uint8)
    pieces = [codes(form, part, row_scales(form, factors, number * STEP, len(part)))
              for number, part in enumerate(matrix.split(STEP))]  # fmt: skip
    return torch.cat(pieces), scale


def scales(form: Format, matrix: Tensor) -> Tensor:
    """Scales of a matrix or of whole rows of blocks of it, [⌈r/rows⌉, ⌈i/columns⌉] float8_e8m0fnu."""
    rows, columns = matrix.shape
    if columns % form.packed:
        raise CheckpointError(f"{form.name} packs {form.packed} columns to a byte; this matrix has {columns}")
    down, across = form.scale_shape(rows, columns)
    padded = torch.zeros(down * form.rows, across * form.columns)
    padded[:rows, :columns] = matrix.abs()
    largest = padded.view(down, form.rows, across, form.columns).amax(dim=(1, 3))
    if not torch.isfinite(largest).all():
        raise NotFinite(f"{form.name} has no code for numbers that are not finite")
    mantissa, exponent = torch.frexp(largest)
    power = exponent - form.exponent + (mantissa > form.mantissa)
    power = torch.where(largest > 0, power, 0)
    return (power + 127).clamp(0, NAN_SCALE - 1).to(torch.uint8).view(torch.float8_e8m0fnu)


def codes(form: Format, numbers: Tensor, scale: Tensor) -> Tensor:
    """Codes of up to STEP rows under given scales. numbers: [r, i]. scale: [1, n] for all rows, or [r, n]; uint8."""
    power = scale.to(torch.int32) - 127
    power = power.repeat_interleave(form.columns, dim=-1)[..., : numbers.shape[1]]
    scaled = torch.ldexp(numbers.to(torch.float32), -power)
    if form == FP8:
        return scaled.clamp(-form.largest, form.largest).to(torch.float8_e4m3fn)
    size = scaled.abs()
    code = torch.zeros(size.shape, dtype=torch.uint8)
    for number, (low, high) in enumerate(pairwise(FP4_VALUES)):
        middle = (low + high) / 2
        code += (size >= middle) if number % 2 else (size > middle)  # halfway: to the even code
    code |= torch.signbit(scaled).to(torch.uint8) << 3
    return (code[:, 0::2] | code[:, 1::2] << 4).view(torch.int8)


def to_odd(numbers: Tensor) -> Tensor:
    """float64 to float32, cut off, with the last bit set where something was: what is then rounded to fewer bits is
    rounded once. Source: Boldo and Melquiond, "When double rounding is odd" (IMACS 2005)."""
    near = numbers.to(torch.float32)
    inexact = (near.double() != numbers) & ~numbers.isnan()
    bits = near.view(torch.int32) - (near.abs().double() > numbers.abs()).to(torch.int32)  # toward zero
    return (bits | inexact.to(torch.int32)).view(torch.float32)


def _from_e4m3(codes: Tensor) -> Tensor:
    """[r, n] bytes to [r, n] float32. The bits of e4m3 stand, shifted, for 2^-8 of their number in float16."""
    byte = codes.numpy()
    bits = byte.view(np.int8).astype(np.int16)
    bits <<= 7  # the sign, extended by the cast, is now in bits 15 and 14
    bits &= ~0x4000
    numbers = torch.from_numpy(bits).view(torch.float16).to(torch.float32).mul_(256)
    nan = (byte & 0x7F) == 0x7F
    if nan.any():
        numbers[torch.from_numpy(nan)] = torch.nan
    return numbers


def _from_e2m1(codes: Tensor) -> Tensor:
    """[r, n] bytes to [r, 2n] float32. The bits of e2m1 stand, shifted, for 2^-14 of their number in float16."""
    pair = codes.numpy().astype("<u4")
    pair |= pair << 12  # a lane of 16 bits for each of the two, the low one first in memory; other bits are masked
    sign = pair & 0x0008_0008
    sign <<= 12
    pair &= 0x0007_0007
    pair <<= 9
    pair |= sign
    lanes = torch.from_numpy(pair.view(np.int16))
    return lanes.view(torch.float16).to(torch.float32).mul_(16384)
