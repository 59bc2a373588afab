"""Layouts under which others trained DeepSeek-V4 on Ascend 910C, as far as they are public.

Their numbers stand, with sources, in the table `layouts` of `trex.published`. Bytes per parameter are stated nowhere:
those of Megatron-LM for the launch scripts (MindSpeed documents 12 of them as optimizer state, all swapped), FP32
shards for FSDP2.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

from trex.model.config import ModelConfig
from trex.model.layout import FP32_SHARDS, Layout, LayoutError, Precision
from trex.published import Row, load

MODELS = {"flash": ModelConfig.flash, "pro": ModelConfig.pro}
SIZES = ("tp", "pp", "vpp", "ep", "etp", "cp", "micro_batch", "global_batch")  # unstated: as `Layout` has them


@dataclass(frozen=True)
class PublishedLayout:
    """One layout and where it is published."""

    name: str
    config: ModelConfig
    layout: Layout
    seq_len: int  # tokens
    devices: int | None  # dies; None where not public
    source: str
    assumed: tuple[str, ...]  # fields of the layout that are not public
    reason: str  # for the values they were given


def published_layouts() -> tuple[PublishedLayout, ...]:
    """All of them; each passes `Layout.check` for its model, sequence length and, where public, number of dies."""
    return tuple(published_layout(row) for row in load("layouts") if "sharding" in row.attributes)


def published_layout(row: Row) -> PublishedLayout:
    """The layout in a row of the table `layouts`. Raises LayoutError where the row has none.

    Replicas are what the dies leave. As in Megatron-LM, virtual stages are interleaved, and sequences are split where
    tensors are.
    """
    if "sharding" not in row.attributes:
        raise LayoutError(f"layout of {row.name}: not public; accepted: rows of `layouts` that have a sharding")
    sizes: dict[str, Any] = {name: int(number.value) for name, number in row.numbers.items() if name in SIZES}
    sizes |= row.attributes.get("assumed", {})
    devices = int(row["dies"].value) if "dies" in row.numbers else None
    if devices is not None:
        sizes["dp"] = devices // prod(sizes.get(name, 1) for name in ("tp", "pp", "cp"))
    sharding, flags = row.attributes["sharding"], row.attributes.get("flags", ())
    layout = Layout(
        **sizes,
        sharding=sharding,
        sequence_parallel="sequence_parallel" in flags and sizes["tp"] > 1,
        schedule="interleaved" if "vpp" in sizes else "1f1b",
        recompute=row.attributes["recompute"],
        swap_optimizer="swap_optimizer" in flags,
        noop_layers=row.attributes.get("noop_layers", ()),
        precision=FP32_SHARDS if sharding == "parameters" else Precision(),
    )
    return PublishedLayout(
        name=row.name,
        config=MODELS[row.attributes["model"]](),
        layout=layout,
        seq_len=int(row["sequence"].value),
        devices=devices,
        source=row.source,
        assumed=tuple(row.attributes.get("assumed", ())),
        reason="; ".join(row.missing.values()),
    )
