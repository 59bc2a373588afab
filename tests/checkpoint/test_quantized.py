"""FP8 and FP4 blocks, against transformers' dequantising and against a search over all codes in float64."""

import numpy as np
import pytest
import torch
from torch import Tensor

from trex.checkpoint import CheckpointError
from trex.checkpoint.quantized import FORMATS, FP4, FP4_VALUES, FP8, Format, dequantize, quantize, recognise

E4M3 = torch.arange(256, dtype=torch.int64).to(torch.uint8).view(torch.float8_e4m3fn).double()
VALUES = {"FP8": E4M3, "FP4": torch.tensor([*FP4_VALUES, *(-value for value in FP4_VALUES)], dtype=torch.float64)}


def bytes_of(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def random_codes(form: Format, rows: int, columns: int, seed: int) -> tuple[Tensor, Tensor]:
    """All bit patterns in weights and scales: NaN, infinities to be, subnormals, both zeros."""
    draw = torch.Generator().manual_seed(seed)
    weight = bytes_of((rows, columns // form.packed), draw)
    scale = bytes_of(form.scale_shape(rows, columns), draw).view(torch.float8_e8m0fnu)
    return weight.view(torch.float8_e4m3fn if form is FP8 else torch.int8), scale


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Equal to the sign of zero; any NaN equals any."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    nan, bits = left.isnan(), {2: torch.int16, 4: torch.int32}[left.itemsize]
    return torch.equal(nan, right.isnan()) and torch.equal(left[~nan].view(bits), right[~nan].view(bits))


def theirs(weight: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    result: Tensor = Fp8Dequantize(None)._dequantize_one(weight, scale, dtype)
    return result


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("form", "rows", "columns"),
    [(FP8, 256, 384), (FP8, 128, 128), (FP8, 100, 77), (FP8, 1, 256), (FP8, 640, 31),
     (FP4, 256, 384), (FP4, 3, 64), (FP4, 300, 32), (FP4, 7, 18)],
)  # fmt: skip
def test_dequantised_is_what_transformers_gives(form: Format, rows: int, columns: int, dtype: torch.dtype) -> None:
    weight, scale = random_codes(form, rows, columns, seed=rows + columns)
    assert same_bits(dequantize(weight, scale, dtype), theirs(weight, scale, dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("form", "rows", "columns"), [(FP8, 2048, 2048), (FP4, 32, 256)])
def test_every_scale_is_what_transformers_takes_it_for(
    form: Format, rows: int, columns: int, dtype: torch.dtype
) -> None:
    """All 256 scale bytes: NaN (255), results that overflow, subnormal scales and results, both zeros."""
    weight, _ = random_codes(form, rows, columns, seed=2)
    scale = torch.arange(256).to(torch.uint8).view(form.scale_shape(rows, columns)).view(torch.float8_e8m0fnu)
    ours = dequantize(weight, scale, dtype)
    assert same_bits(ours, theirs(weight, scale, dtype))
    assert ours.isnan().any() and ours.isinf().any() and torch.signbit(ours[ours == 0]).any()
    assert ((ours != 0) & (ours.abs() < torch.finfo(dtype).tiny)).any()


@pytest.mark.parametrize(("rows", "columns"), [(160, 96), (129, 300), (200, 128), (128, 130), (1000, 520)])
def test_blocks_are_of_128_where_128_does_not_divide_the_shape(rows: int, columns: int) -> None:
    """transformers takes the grid's cells for equally large: 160 rows for 80 and 80, not for 128 and 32 as the
    official kernels do. Padded to whole blocks, both agree."""
    weight, scale = random_codes(FP8, rows, columns, seed=1)
    down, across = scale.shape
    padded = torch.zeros(down * 128, across * 128, dtype=torch.uint8)
    padded[:rows, :columns] = weight.view(torch.uint8)
    expected = theirs(padded.view(torch.float8_e4m3fn), scale, torch.bfloat16)[:rows, :columns]
    assert same_bits(dequantize(weight, scale), expected.contiguous())


def test_every_code_stands_for_its_number() -> None:
    codes = torch.arange(256, dtype=torch.int64).to(torch.uint8)
    one = torch.tensor([[127, 127]], dtype=torch.uint8).view(torch.float8_e8m0fnu)
    fp8 = dequantize(codes.view(1, 256).view(torch.float8_e4m3fn), one, torch.float32)[0].double()
    assert torch.equal(fp8.nan_to_num(999), E4M3.nan_to_num(999)) and fp8.isnan().sum() == 2
    scale = torch.full((1, 16), 127, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    pairs = dequantize(codes.view(1, 256).view(torch.int8), scale, torch.float32)[0].double().view(256, 2)
    low, high = codes.long() & 15, codes.long() >> 4
    assert torch.equal(pairs, torch.stack([VALUES["FP4"][low], VALUES["FP4"][high]], dim=1))


def nearest(form: Format, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Scale exponents and values by search: the smallest power of two in range, the nearest code of even mantissa."""
    rows, columns = matrix.shape
    down, across = form.scale_shape(rows, columns)
    values = VALUES[form.name]
    powers, result = torch.zeros(down, across, dtype=torch.int64), torch.zeros(rows, columns, dtype=torch.float64)
    even = torch.arange(len(values)) % 2 == 0
    for i in range(down):
        for j in range(across):
            at = (slice(i * form.rows, (i + 1) * form.rows), slice(j * form.columns, (j + 1) * form.columns))
            part = matrix[at].double()
            largest = float(part.abs().max())
            power = next(k for k in range(-127, 128) if largest <= form.largest * 2.0**k) if largest else 0
            scaled = part / 2.0**power
            distance = (scaled.unsqueeze(-1) - values).abs().nan_to_num(torch.inf)
            same_sign = torch.signbit(values) == torch.signbit(scaled).unsqueeze(-1)
            distance = torch.where(same_sign, distance, torch.inf)
            equally_near = distance == distance.amin(dim=-1, keepdim=True)
            best = (equally_near * torch.where(even, 2, 1)).argmax(dim=-1)  # of two, the even code
            powers[i, j], result[at] = power, values[best] * 2.0**power
    return powers, result


@pytest.mark.parametrize(
    ("form", "rows", "columns"), [(FP8, 256, 128), (FP8, 150, 70), (FP4, 20, 96), (FP4, 5, 34)]
)  # fmt: skip
def test_quantised_is_the_nearest_code_under_the_smallest_scale(form: Format, rows: int, columns: int) -> None:
    draw = torch.Generator().manual_seed(rows)
    matrix = torch.randn(rows, columns, generator=draw)
    matrix[0, :8] = torch.tensor([0.0, -0.0, 0.25, 0.75, 2.5, -5.0, 3.5, 1.25])
    if form is FP4:
        matrix[1] = 0
        matrix[2, :32] = 6.0  # exactly the largest number
        matrix[3, :32] = torch.tensor([6.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0] * 4)  # ties
    weight, scale = quantize(form, matrix)
    powers, values = nearest(form, matrix)
    assert torch.equal(scale.view(torch.uint8).long() - 127, powers)
    got = dequantize(weight, scale, torch.float32)
    assert torch.equal(got.double(), values) and torch.equal(torch.signbit(got), torch.signbit(matrix))


@pytest.mark.parametrize("form", FORMATS)
def test_quantising_again_changes_nothing(form: Format) -> None:
    """Also where the block's largest number was rounded down to where a smaller scale fits, and for subnormals."""
    draw = torch.Generator().manual_seed(7)
    for rows, columns in ((200, 300), (128, 256), (7, 34)):
        powers = torch.randint(-140, 110, (rows, columns), generator=draw).float()
        for matrix in (torch.randn(rows, columns, generator=draw), torch.exp2(powers), torch.zeros(rows, columns)):
            once = dequantize(*quantize(form, matrix), torch.float32)
            again = quantize(form, once)
            assert same_bits(dequantize(*again, torch.float32), once)
            third = quantize(form, dequantize(*again, torch.float32))
            assert all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(again, third, strict=True))


def test_agrees_with_transformers_quantising_on_whole_blocks() -> None:
    from types import SimpleNamespace

    from transformers.integrations.finegrained_fp8 import Fp8Quantize

    config = SimpleNamespace(quantization_config=SimpleNamespace(weight_block_size=[128, 128], scale_fmt="ue8m0"))
    matrix = torch.randn(256, 384, generator=torch.Generator().manual_seed(3))
    found = Fp8Quantize(config)._quantize_one("w.weight", matrix)
    weight, scale = quantize(FP8, matrix)
    assert torch.equal(weight.view(torch.uint8), found["w.weight"].view(torch.uint8))
    assert torch.equal(scale.view(torch.uint8), found["w.weight_scale_inv"].view(torch.uint8))


def test_formats_are_told_apart_by_dtype_and_scale_shape() -> None:
    assert recognise("F8_E4M3", (256, 130), "F8_E8M0", (2, 2)) == (FP8, (256, 130))
    assert recognise("I8", (4, 48), "F8_E8M0", (4, 3)) == (FP4, (4, 96))
    for dtype, shape, scale_dtype, scale in (
        ("I8", (256, 128), "F8_E8M0", (2, 2)), ("F8_E4M3", (4, 96), "F8_E8M0", (4, 3)),
        ("F8_E4M3", (256, 130), "F32", (2, 2)), ("F8_E4M3", (256, 130), "F8_E8M0", (2, 1)),
        ("F8_E4M3", (256,), "F8_E8M0", (2,)), ("BF16", (256, 130), "F8_E8M0", (2, 2)),
    ):  # fmt: skip
        assert recognise(dtype, shape, scale_dtype, scale) is None
    with pytest.raises(CheckpointError, match=r"BF16 \[2, 2\] with scale F32 \[1, 1\] is neither FP8 nor FP4"):
        dequantize(torch.zeros(2, 2, dtype=torch.bfloat16), torch.zeros(1, 1))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_have_no_code(form: Format, bad: float) -> None:
    matrix = torch.ones(4, 64)
    matrix[2, 40] = bad
    with pytest.raises(CheckpointError, match="no code for numbers that are not finite"):
        quantize(form, matrix)


def test_fp4_needs_an_even_number_of_columns() -> None:
    with pytest.raises(CheckpointError, match="packs 2 columns to a byte; this matrix has 33"):
        quantize(FP4, torch.ones(2, 33))
