"""What a checkpoint holds, from its config and the headers of its safetensors files; no weight is read."""

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from trex.checkpoint.errors import CheckpointError
from trex.checkpoint.names import OFFICIAL, names_of, place, spellings
from trex.checkpoint.quantized import SCALE_DTYPE, recognise
from trex.checkpoint.released import Expected, expected, scale_name
from trex.checkpoint.shards import Shards, read_shards
from trex.checkpoint.source import read_config
from trex.checkpoint.tensors import Entry, byte_size
from trex.model.config import ModelConfig
from trex.model.count import parameters
from trex.model.weights import PARTS

SHOWN = 12  # names of a kind that the report lists
MTP = "mtp."
NOT_NUMBERS = {"I64", "I32", "I16", "I8", "U8", "BOOL"}


@dataclass(frozen=True)
class StoredAlike:
    """Tensors stored alike."""

    tensors: int = 0
    parameters: int = 0  # elements of the matrices; two FP4 values share a byte
    bytes: int = 0  # with scales


@dataclass(frozen=True)
class Inspection:
    """What a folder holds and what is wrong with it."""

    folder: str
    model: ModelConfig | None  # None where there is no config.json of a DeepSeek-V4 model
    names: str | None  # as in trex.checkpoint.names; None where they are no DeepSeek-V4's
    files: tuple[str, ...]  # safetensors files that were read
    stored: Mapping[str, StoredAlike]  # by dtype, "FP8 with scale" and "FP4 with scale"
    parts: Mapping[str, int]  # parameters found, MTP blocks left out
    mtp: int  # parameters found in MTP blocks
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    misshapen: tuple[str, ...]  # a line each, as for all that follow
    misplaced: tuple[str, ...]
    absent: tuple[str, ...]
    damaged: tuple[str, ...]
    ignored: tuple[str, ...]  # pickled files; no problem

    @property
    def problems(self) -> list[str]:
        """A line for each."""
        return [
            *self.damaged,
            *(f"{file} is missing" for file in self.absent),
            *self.misplaced,
            *(f"{name} is missing" for name in self.missing),
            *(f"{name} is no tensor of this model" for name in self.extra),
            *self.misshapen,
        ]

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {**asdict(self), "problems": self.problems}


def inspect(folder: Path) -> Inspection:
    """Describe a folder of safetensors files with a `config.json`, whole or not.

    Kinds are told apart by dtype and by the shape of the scale beside a weight, never by the config. A folder without
    any MTP weights under official names gets one problem for them, not one per name.
    Raises CheckpointError where there is no folder.
    """
    shards = read_shards(folder)
    entries = {name: entry for name, (_, entry) in shards.tensors.items()}
    damaged = list(shards.damaged)
    config, names = None, None
    try:
        config = _released(read_config(folder))
    except CheckpointError as error:
        damaged.append(str(error))
    with suppress(CheckpointError):
        names = names_of(entries.keys() | shards.indexed.keys())
    if not entries and not damaged and not shards.absent:
        damaged.append(f"{folder} holds no safetensors file")
    wanted = layout(config, names, entries.keys() | shards.indexed.keys()) if config and names else {}
    kinds, scales, broken = _kinds(entries)
    weights = {name: entry for name, entry in entries.items() if name not in scales}
    misshapen = broken + [
        line
        for name, entry in weights.items()
        if name in wanted and (line := _differs(name, entry, kinds, wanted[name]))
    ]
    return Inspection(
        folder=str(folder),
        model=config,
        names=names,
        files=tuple(shards.files),
        stored=_stored(entries, kinds, scales),
        **_counted(weights, kinds, wanted),
        missing=tuple(_missing(wanted, weights, shards)),
        extra=tuple(name for name in weights if name not in wanted) if wanted else (),
        misshapen=tuple(misshapen),
        misplaced=tuple(shards.misplaced),
        absent=tuple(shards.absent),
        damaged=tuple(damaged),
        ignored=tuple(shards.pickled),
    )


def layout(config: ModelConfig, names: str, found: Container[str] = ()) -> dict[str, Expected]:
    """Every tensor of the model under other names (see trex.checkpoint.names), scales not listed.

    found: what is there; MTP blocks are left out where it has none of them and the names are not the official ones.
    """
    result = {}
    for official, want in expected(config).items():
        at = place(official, want.shape, names, config.num_experts)
        name = next((name for name in spellings(at.name) if name in found), at.name)
        result[name] = Expected(at.shape, want.kind, want.part)
    if names != OFFICIAL and not any(name.startswith(MTP) and name in found for name in result):
        return {name: want for name, want in result.items() if not name.startswith(MTP)}
    return result


def _released(config: ModelConfig) -> ModelConfig:
    """With the name of the released model that it is, if it is one."""
    known = [model for model in (ModelConfig.flash(), ModelConfig.pro()) if replace(config, name=model.name) == model]
    return known[0] if known else config


def _kinds(entries: Mapping[str, Entry]) -> tuple[dict[str, tuple[str, tuple[int, ...]]], set[str], list[str]]:
    """Kind and matrix shape of each quantised weight, the names of their scales, and what fits together with none."""
    kinds: dict[str, tuple[str, tuple[int, ...]]] = {}
    scales: set[str] = set()
    broken = []
    for name, entry in entries.items():
        scale = entries.get(scale_name(name)) if name.endswith(".weight") else None
        if scale is None:
            if entry.dtype in ("F8_E4M3", "I8"):
                broken.append(f"{name} is {entry.dtype} and has no scale")
            continue
        scales.add(scale_name(name))
        found = recognise(entry.dtype, entry.shape, scale.dtype, scale.shape)
        if found is None:
            broken.append(
                f"{name} is {entry.dtype} {list(entry.shape)} with a scale {scale.dtype} {list(scale.shape)}: neither "
                "FP8 nor FP4"
            )
        else:
            kinds[name] = found[0].name.lower(), found[1]
    lone = [name for name, entry in entries.items() if entry.dtype == SCALE_DTYPE and name not in scales]
    return kinds, scales | set(lone), broken + [f"{name} is the scale of no weight" for name in lone]


def _differs(name: str, entry: Entry, kinds: Mapping[str, tuple[str, tuple[int, ...]]], wanted: Expected) -> str | None:
    kind, shape = kinds.get(name, ("", entry.shape))
    if shape != wanted.shape:
        return f"{name} is {list(shape)}, not {list(wanted.shape)}"
    if not kind and entry.dtype != "I8" and (entry.dtype in NOT_NUMBERS) != (wanted.kind == "i64"):
        return f"{name} is {entry.dtype}, not {'I64' if wanted.kind == 'i64' else 'floating'}"
    return None


def _stored(
    entries: Mapping[str, Entry], kinds: Mapping[str, tuple[str, tuple[int, ...]]], scales: set[str]
) -> dict[str, StoredAlike]:
    result: dict[str, StoredAlike] = {}
    for name, entry in entries.items():
        kind = kinds.get(name)
        size = entry.size
        if kind:
            label, shape = f"{kind[0].upper()} with scale", kind[1]
            size += entries[scale_name(name)].size
        elif name in scales and name.removesuffix("scale") + "weight" in kinds:
            continue
        else:
            label, shape = entry.dtype, entry.shape
        before = result.get(label, StoredAlike())
        result[label] = StoredAlike(before.tensors + 1, before.parameters + _elements(shape), before.bytes + size)
    return dict(sorted(result.items(), key=lambda item: -item[1].bytes))


def _counted(
    weights: Mapping[str, Entry], kinds: Mapping[str, tuple[str, tuple[int, ...]]], wanted: Mapping[str, Expected]
) -> dict[str, Any]:
    parts, mtp = dict.fromkeys(PARTS, 0), 0
    for name, entry in weights.items():
        known = wanted.get(name)
        if known is None or known.part is None:
            continue
        size = _elements(kinds[name][1] if name in kinds else entry.shape)
        if name.startswith(MTP):
            mtp += size
        else:
            parts[known.part] += size
    return {"parts": {part: size for part, size in parts.items() if size}, "mtp": mtp}


def _missing(wanted: Mapping[str, Expected], weights: Mapping[str, Entry], shards: Shards) -> list[str]:
    """Names that are nowhere, or in a file that is; those of damaged files are told with the file."""
    unread = {name for name in shards.unread if shards.indexed[name] not in shards.absent}
    names = [name for name in wanted if name not in weights and name not in unread]
    mtp = [name for name in wanted if name.startswith(MTP)]
    if mtp and not any(name in weights or name in unread for name in mtp):
        names = [name for name in names if not name.startswith(MTP)] + [
            f"{MTP}* (all {len(mtp)} tensors of MTP blocks)"
        ]
    return names


def _elements(shape: Iterable[int]) -> int:
    return byte_size("U8", shape)


def report(found: Inspection) -> str:
    """The inspection as text for a terminal."""
    lines = [f"{found.folder}: {_size(sum(s.bytes for s in found.stored.values()))} in {len(found.files)} files"]
    lines.append(f"names     {found.names or 'none that are known'}")
    counts = parameters(found.model) if found.model else None
    if found.model and counts:
        m = found.model
        lines += [
            f"model     {m.name}: {m.num_layers} layers, {m.hidden_size} channels, {m.num_heads} heads, "
            f"{m.num_experts} experts, {m.experts_per_token} per token",
            f"          {counts.total:,} parameters, {counts.active:,} active; {counts.mtp:,} in {m.mtp_layers} MTP "
            f"blocks, which are {'there' if found.mtp else 'not there'}",
        ]
    lines += ["", f"{'stored as':<20}{'tensors':>10}{'parameters':>22}{'bytes':>22}"]
    lines += [f"{kind:<20}{s.tensors:>10,}{s.parameters:>22,}{s.bytes:>22,}" for kind, s in found.stored.items()]
    if counts and found.stored:
        rows = [(part, found.parts.get(part, 0), counts.parts.get(part, 0)) for part in PARTS]
        rows += [("MTP blocks", found.mtp, counts.mtp)]
        lines += ["", f"{'part':<20}{'found':>22}{'of the model':>22}"]
        lines += [
            f"{part:<20}{here:>22,}{there:>22,}{'' if here == there else '  differs'}"
            for part, here, there in rows
            if here or there
        ]
    if found.ignored:
        lines += ["", f"ignored   {', '.join(found.ignored)}: pickled, never opened"]
    for title, names in _groups(found):
        if names:
            lines += ["", f"{title} ({len(names):,})", *(f"  {name}" for name in names[:SHOWN])]
            lines += [f"  and {len(names) - SHOWN:,} more"] if len(names) > SHOWN else []
    return "\n".join([*lines, "", _count(len(found.problems))])


def _groups(found: Inspection) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("damaged", found.damaged),
        ("missing files", found.absent),
        ("not where the index says", found.misplaced),
        ("missing tensors", found.missing),
        ("tensors of no such model", found.extra),
        ("misshapen tensors", found.misshapen),
    ]


def _count(problems: int) -> str:
    return {0: "no problems", 1: "1 problem"}.get(problems, f"{problems:,} problems")


def _size(count: int) -> str:
    """Bytes for a reader."""
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << power:
            return f"{count / (1 << power):.2f} {unit}"
    return f"{count} bytes"
