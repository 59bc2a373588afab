"""What each sub-layer of the model makes of its input: shapes of a real forward pass, as a table and as a figure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots
from torch import Tensor, nn

from trex.labels import ResultError
from trex.report.figures import COLOURS

Shape = tuple[int, ...]
# sub-layers of a block by what they belong to, the first that fits
ROOMS = {
    "indexer": ("attn.indexer",),
    "compressor": ("attn.compressor",),
    "attention": ("attn",),
    "MoE": ("ffn",),
    "residual streams": ("",),
}
COLOUR = dict(zip(ROOMS, (COLOURS[3], COLOURS[1], COLOURS[2], COLOURS[0], COLOURS[5]), strict=True))


def returned(model: nn.Module, *args: Any, **kwargs: Any) -> dict[str, tuple[Shape, ...]]:
    """Shapes of what every module returned in `model(*args, **kwargs)`, by name, in the order in which they returned.

    Tensors of fewer than two dimensions (losses, loads) are left out; the model itself has the name "".
    """
    found: dict[str, tuple[Shape, ...]] = {}

    def hook(name: str) -> Any:
        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            found[name] = tuple(tuple(t.shape) for t in _tensors(output) if t.dim() > 1)

        return keep

    handles = [module.register_forward_hook(hook(name)) for name, module in model.named_modules()]
    try:
        with torch.no_grad():
            model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def by_kind(shapes: Mapping[str, tuple[Shape, ...]], layers: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Shapes by sub-layer (its name within the block) and layer kind; "block" is the whole of it.

    shapes: of `returned`. layers: by kind, the number of a layer of the kind. Sub-layers come in the order of the layer
    that has most of them. Raises ResultError for a layer that is not there.
    """
    kinds = {}
    for kind, layer in layers.items():
        prefix = f"layers.{layer}"
        inside = {n.removeprefix(prefix).lstrip(".") or "block": s for n, s in shapes.items() if _within(n, prefix)}
        if not inside:
            raise ResultError(f"layer {layer} ({kind}) returned nothing; modules: {', '.join(shapes)}")
        kinds[kind] = inside
    order = max(kinds.values(), key=len)
    return {name: {kind: inside[name] for kind, inside in kinds.items() if name in inside} for name in order}


def table(sublayers: Mapping[str, Mapping[str, tuple[Shape, ...]]], kinds: Sequence[str]) -> list[list[str]]:
    """Rows of texts, one per sub-layer: its name and what it returns in each kind of layer, "-" where there is none."""
    rows = [["sub-layer", *kinds]]
    for name, shapes in sublayers.items():
        rows.append([name, *(", ".join(map(_text, shapes[kind])) if kind in shapes else "-" for kind in kinds)])
    return rows


def widths(sublayers: Mapping[str, Mapping[str, tuple[Shape, ...]]], kinds: Sequence[str], tokens: int) -> go.Figure:
    """Numbers per token that each sub-layer returns, one panel per layer kind, first sub-layer on top.

    tokens: in the batch. Of several tensors the first is drawn, and all are told on hovering.
    """
    figure = make_subplots(cols=len(kinds), subplot_titles=list(kinds), shared_yaxes=True, horizontal_spacing=0.03)
    largest = max(_per_token(shapes, tokens) for row in sublayers.values() for shapes in row.values())
    for column, kind in enumerate(kinds, start=1):
        for room, colour in COLOUR.items():
            names = [name for name in sublayers if _room(name) == room and kind in sublayers[name]]
            values = [_per_token(sublayers[name][kind], tokens) for name in names]
            if names:
                figure.add_bar(
                    y=names, x=values, name=room, legendgroup=room, showlegend=column == 2, orientation="h",
                    marker_color=colour, text=[f"{value:g}" for value in values], textposition="outside",
                    customdata=[", ".join(map(_text, sublayers[name][kind])) for name in names],
                    hovertemplate="%{y}: %{customdata}<extra>" + kind + "</extra>", row=1, col=column,
                )  # fmt: skip
    figure.update_xaxes(title="numbers per token", range=[0, 1.15 * largest])
    figure.update_yaxes(categoryorder="array", categoryarray=[*sublayers][::-1], ticklabelstandoff=4)
    figure.update_layout(
        barmode="overlay", bargap=0.25, height=200 + 19 * len(sublayers), margin={"l": 230, "t": 110},
        legend={"traceorder": "normal", "y": 1.05},
    )  # fmt: skip
    return figure


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "__dataclass_fields__"):
        yield from _tensors([*vars(value).values()])


def _within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def _text(shape: Shape) -> str:
    return "×".join(map(str, shape))


def _per_token(shapes: tuple[Shape, ...], tokens: int) -> float:
    return round(math.prod(shapes[0]) / tokens, 2)


def _room(name: str) -> str:
    return next(room for room, starts in ROOMS.items() if any(not s or _within(name, s) for s in starts))
