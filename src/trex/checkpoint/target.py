"""Which tensors a folder of weights will hold, in which files: names, dtypes and shards, settled before any is read."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from trex.checkpoint.errors import CheckpointError, refuse
from trex.checkpoint.names import OFFICIAL, TRANSFORMERS, place
from trex.checkpoint.quantized import FORMATS, FP4, FP8, SCALE_DTYPE, Format, codes, row_scales, scales
from trex.checkpoint.released import Expected, scale_name
from trex.checkpoint.shards import CONFIG, INDEX, SINGLE
from trex.checkpoint.source import Unit
from trex.checkpoint.tensors import DTYPES, FLOATS, NAMES, New
from trex.model import hf
from trex.model.config import ModelConfig

Precision = Literal["keep", "bf16", "fp32", "fp8", "fp4"]
PRECISIONS: tuple[str, ...] = get_args(Precision)
WRITTEN_NAMES = (OFFICIAL, TRANSFORMERS)
SHARD = 2_000_000_000  # bytes: the limit of a file, unless one tensor alone is larger


@dataclass(frozen=True)
class Shard:
    """One file of the target."""

    name: str
    tensors: tuple[New, ...]

    @property
    def size(self) -> int:
        """Bytes of its tensors."""
        return sum(tensor.size for tensor in self.tensors)


def check_names(names: str) -> None:
    """Raise CheckpointError for names that nothing is written under."""
    if names not in WRITTEN_NAMES:
        raise CheckpointError(f"names = {names!r}; accepted: {', '.join(WRITTEN_NAMES)}")


def converted(units: Mapping[str, Unit], names: str, precision: str, experts: int) -> list[New]:
    """The tensors of a target made of a source's units.

    precision: "keep", or of what the released files hold quantised or in BF16: "bf16", "fp32", or "fp4" (FP8, routed
    experts FP4: as released) and "fp8" (all FP8: as the Base releases), which leave the rest in BF16. What they hold in
    F32 stays F32. Raises CheckpointError for quantised tensors under transformers' names.
    """
    check_names(names)
    if precision not in PRECISIONS:
        raise CheckpointError(f"precision = {precision!r}; accepted: {', '.join(PRECISIONS)}")
    groups: dict[str, list[Unit]] = {}
    shapes = {}
    for name, unit in units.items():
        at = place(name, unit.expected.shape, names, experts)
        groups.setdefault(at.name, []).append(unit)
        shapes[at.name] = at.shape
    order = {name: sorted(group, key=lambda u: place(u.name, u.expected.shape, names, experts).slice)
             for name, group in groups.items()}  # fmt: skip
    result, problems = [], []
    for name, group in order.items():
        wanted = {_wanted(unit, precision) for unit in group}
        if len(wanted) > 1 or (names != OFFICIAL and isinstance(next(iter(wanted)), Format)):
            said = " and ".join(sorted(w.name if isinstance(w, Format) else w for w in wanted))
            problems.append(f"{name} would be {said}")
            continue
        result += _new(name, shapes[name], group, wanted.pop())
    why = "FP8 and FP4 are written under official names only" if names != OFFICIAL else "experts are stored differently"
    refuse(problems, f"names = {names!r} with precision = {precision!r}: {why}")
    return result


def in_memory(tensors: Mapping[str, Tensor], wanted: Mapping[str, Expected], names: str, experts: int) -> list[New]:
    """The tensors of a target made of tensors in memory by official name, each in the dtype that it has."""
    check_names(names)
    groups: dict[str, dict[int, Tensor]] = {}
    shapes = {}
    for official, want in wanted.items():
        at = place(official, want.shape, names, experts)
        groups.setdefault(at.name, {})[at.slice] = tensors[official]
        shapes[at.name] = at.shape
    return [
        New(name, NAMES[group[0].dtype], shapes[name], partial(_plain, [group[at] for at in sorted(group)]))
        for name, group in groups.items()
    ]


def shards(tensors: Sequence[New], most: int = SHARD) -> list[Shard]:
    """The files that the tensors go into, in order, evenly filled with up to `most` bytes each."""
    if most < 1:
        raise CheckpointError(f"bytes of a shard = {most!r}; accepted: integers from 1")
    total = sum(tensor.size for tensor in tensors)
    even = total / max(1, -(-total // most))
    parts: list[list[New]] = [[]]
    before, held = 0, 0  # bytes in the files before this one, and in it
    for tensor in tensors:
        if parts[-1] and (held + tensor.size > most or before + held + tensor.size / 2 > even * len(parts)):
            parts.append([])
            before, held = before + held, 0
        parts[-1].append(tensor)
        held += tensor.size
    if len(parts) == 1:
        return [Shard(SINGLE, tuple(parts[0]))]
    return [Shard(f"model-{n:05d}-of-{len(parts):05d}.safetensors", tuple(part)) for n, part in enumerate(parts, 1)]


def documents(config: ModelConfig, files: Sequence[Shard]) -> dict[str, Any]:
    """config.json, and the index where there are several files: JSON by file name."""
    tensors = [tensor for shard in files for tensor in shard.tensors]
    quantised = [tensor for tensor in tensors if tensor.dtype in {form.dtype for form in FORMATS}]
    body = hf.released(config)
    body["dtype"] = _main_dtype(tensors, bool(quantised))
    if quantised:
        body["quantization_config"] = {
            "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "scale_fmt": "ue8m0",
            "weight_block_size": [FP8.rows, FP8.columns],
        }  # fmt: skip
        body["expert_dtype"] = "fp4" if any(tensor.dtype == FP4.dtype for tensor in quantised) else "fp8"
    if len(files) == 1:
        return {CONFIG: body}
    index = {
        "metadata": {"total_size": sum(shard.size for shard in files)},
        "weight_map": {tensor.name: shard.name for shard in files for tensor in shard.tensors},
    }
    return {CONFIG: body, INDEX: index}


def _main_dtype(tensors: Sequence[New], quantised: bool) -> str:
    """The dtype that most of the numbers have, as transformers takes it for the model's; BF16 of quantised ones."""
    if quantised:
        return "bfloat16"
    sizes = Counter[str]()
    for tensor in tensors:
        if tensor.dtype in FLOATS:
            sizes[tensor.dtype] += tensor.size // DTYPES[tensor.dtype].itemsize
    return str(DTYPES[sizes.most_common(1)[0][0]]).removeprefix("torch.")


def _wanted(unit: Unit, precision: str) -> Format | str:
    """How a unit is to be stored: a block format, or a dtype by its name."""
    kind = unit.expected.kind
    if precision == "keep":
        return unit.format or unit.dtype
    if kind == "i64":
        return "I64"
    if kind == "f32" or precision == "fp32":
        return "F32"
    if precision == "bf16" or kind == "bf16":
        return "BF16"
    return FP4 if kind == "fp4" and precision == "fp4" else FP8


def _new(name: str, shape: tuple[int, ...], group: list[Unit], wanted: Format | str) -> list[New]:
    """A tensor, and its scale if it is to be quantised."""
    if isinstance(wanted, str):
        return [New(name, wanted, shape, partial(_numbers, group, wanted))]
    unit = group[0]
    stored = (shape[0], -(-shape[1] // wanted.packed))
    weight, scale = (_codes, _scales) if unit.format != wanted else (_raw, _raw_scales)
    return [
        New(name, wanted.dtype, stored, partial(weight, unit, wanted)),
        New(scale_name(name), SCALE_DTYPE, wanted.scale_shape(*shape), partial(scale, unit, wanted)),
    ]


def _numbers(group: list[Unit], dtype: str) -> Iterator[Tensor]:
    for unit in group:
        yield from unit.raw() if unit.dtype == dtype else unit.numbers(DTYPES[dtype])


def _raw(unit: Unit, form: Format) -> Iterator[Tensor]:
    return unit.raw()


def _raw_scales(unit: Unit, form: Format) -> Iterator[Tensor]:
    scale = unit.scales()
    assert scale is not None
    yield scale


def _scales(unit: Unit, form: Format) -> Iterator[Tensor]:
    for rows in unit.numbers(torch.float32, odd=True):
        yield scales(form, rows)


def _codes(unit: Unit, form: Format) -> Iterator[Tensor]:
    for rows in unit.numbers(torch.float32, odd=True):
        factors = scales(form, rows).view(torch.uint8)
        yield codes(form, rows, row_scales(form, factors, 0, len(rows)))


def _plain(parts: list[Tensor]) -> Iterator[Tensor]:
    for part in parts:
        yield part.detach().cpu().contiguous()
