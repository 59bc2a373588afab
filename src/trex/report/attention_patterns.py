"""Who sees whom: the tokens that feed each compressed entry, and those that reach each query of a layer.

Both are found by gradients of the model itself: what has none was not read.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots
from torch import Tensor, nn

from trex.labels import ResultError
from trex.model.block import Block
from trex.model.transformer import Transformer
from trex.report.figures import COLOURS

OWN, BEFORE, WINDOW, SELECTED, VISIBLE = COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[3], "#dddddd"


@dataclass(frozen=True)
class Sources:
    """Tokens that each compressed entry is made of, [N, S] bool each."""

    own: Tensor  # of the block itself
    before: Tensor  # of the block before, where blocks overlap


@dataclass(frozen=True)
class Seen:
    """Tokens that reach each query, [S, S] bool each, query by token."""

    window: Tensor  # as keys of their own
    entries: Tensor  # in the blocks whose entries are attended to


def sources(model: Transformer, layer: int, tokens: Tensor, doc_ids: Tensor | None = None) -> Sources:
    """What each entry of a layer's compressor is made of. tokens, doc_ids: [1, S], see `Transformer`.

    Raises ResultError for a layer without compressor.
    """
    attention = _block(model, layer).attn
    if attention.compressor is None:
        raise ResultError(f"layer {layer} has ratio {attention.ratio}; layers of ratio 4 and 128 compress")
    x = layer_input(model, layer, tokens, doc_ids)
    documents, turns = model.surroundings(tokens, doc_ids)
    with _leaves(attention.compressor.wkv) as leaves:
        entries = attention.compressor(x, documents.blocks[attention.ratio], turns[attention.ratio])
    (found,) = _reached(entries[0], leaves)
    return Sources(*_halves(found, attention.compressor.overlap))


def seen(
    model: Transformer, layer: int, tokens: Tensor, doc_ids: Tensor | None = None, indexer: str = "frozen"
) -> Seen:
    """What each query of a layer's attention reads. tokens, doc_ids, indexer: see `Transformer`; [1, S]."""
    attention = _block(model, layer).attn
    x = layer_input(model, layer, tokens, doc_ids)
    documents, turns = model.surroundings(tokens, doc_ids)
    with _leaves(attention.wkv, *([attention.compressor.wkv] if attention.compressor else [])) as leaves:
        out, _ = attention(x, documents, turns[attention.ratio], indexer)
    window, *entries = _reached(out[0], leaves)
    if attention.compressor is None:
        return Seen(window.any(dim=-1), torch.zeros_like(window[..., 0]))
    return Seen(window.any(dim=-1), _halves(entries[0], attention.compressor.overlap)[0])


def layer_input(model: Transformer, layer: int, tokens: Tensor, doc_ids: Tensor | None = None) -> Tensor:
    """What a layer's attention was given in a forward pass, [1, S, d]. tokens, doc_ids: [1, S]."""
    kept: list[Tensor] = []
    handle = _block(model, layer).attn.register_forward_pre_hook(lambda module, args: kept.append(args[0].detach()))
    try:
        with torch.no_grad():
            model(tokens, doc_ids)
    finally:
        handle.remove()
    return kept[0]


def spans(mask: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs of True in the rows of a mask [R, C]: row, first column and length of each."""
    edges = np.diff(np.pad(mask.numpy().astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, firsts = np.nonzero(edges == 1)
    return rows, firsts, np.nonzero(edges == -1)[1] - firsts


def blocks_figure(panels: Mapping[str, tuple[Sources, Sequence[int]]]) -> go.Figure:
    """Entries down, tokens right, one panel per title. panels: sources, and the lengths of the row's documents."""
    figure = make_subplots(rows=len(panels), subplot_titles=list(panels), vertical_spacing=0.3 / len(panels))
    figure.update_annotations(x=0, xanchor="left", font_size=13)  # the panel titles
    for row, (found, lengths) in enumerate(panels.values(), start=1):
        for name, mask, colour in (("its own block", found.own, OWN), ("the block before", found.before, BEFORE)):
            _add(figure, mask, name, colour, "entry", (row, 1), show=row == 1, width=0.7)
        _document_bounds(figure, lengths, (row, 1))
        entries = len(found.own)
        figure.update_yaxes(
            range=[entries - 0.5, -0.5],
            tickvals=list(range(entries)),
            title_text="entry",
            showgrid=False,
            row=row,
            col=1,
        )
        figure.update_xaxes(range=[0, sum(lengths)], row=row, col=1)
    figure.update_xaxes(title_text="place in the row (tokens)", row=len(panels), col=1)
    figure.update_layout(barmode="overlay", bargap=0, height=205 * len(panels) + 60, margin={"t": 100})
    return figure


def patterns_figure(
    panels: Mapping[str, tuple[Seen, Tensor | None]], lengths: Sequence[int], step: int = 4
) -> go.Figure:
    """Queries down, tokens right, one panel per layer kind; every `step`-th query is drawn, `step` queries high.

    panels: what is seen, and, where there is a choice, which tokens are in the entries to choose from. lengths: of the
    row's documents.
    """
    figure = make_subplots(cols=len(panels), subplot_titles=list(panels), shared_yaxes=True, horizontal_spacing=0.03)
    drawn: set[str] = set()
    for column, (found, choice) in enumerate(panels.values(), start=1):
        parts = [("through a compressed entry", found.entries, SELECTED), ("in the window", found.window, WINDOW)]
        if choice is not None:  # first, so that what is selected covers it
            parts.insert(0, ("in an entry that is not selected", choice, VISIBLE))
        for name, mask, colour in parts:
            if mask.any():
                _add(figure, mask, name, colour, "query", (1, column), show=name not in drawn, step=step, width=step)
                drawn.add(name)
        _document_bounds(figure, lengths, (1, column))
    size = sum(lengths)
    figure.update_xaxes(title_text="token", range=[0, size], showgrid=False)
    figure.update_yaxes(range=[size, 0], showgrid=False)
    figure.update_yaxes(title_text="query", col=1)
    figure.update_layout(
        barmode="overlay", bargap=0, height=470, margin={"t": 110}, legend={"traceorder": "normal", "y": 1.08}
    )
    return figure


def _block(model: Transformer, layer: int) -> Block:
    block = model.layers[layer]
    assert isinstance(block, Block)
    return block


@contextmanager
def _leaves(*modules: nn.Module) -> Iterator[list[Tensor]]:
    """Inside, outputs of the modules are leaves of the graph, kept in the order of the calls."""
    kept: list[Tensor] = []

    def cut(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        kept.append(output.detach().requires_grad_())
        return kept[-1]

    handles = [module.register_forward_hook(cut) for module in modules]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def _reached(out: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """Which channels of the leaves [1, S, c] each row of `out` [R, d] depends on: [R, S, c] bool each."""
    asked = out @ torch.linspace(
        1, 2, out.shape[-1], dtype=out.dtype
    )  # uneven: a sum of normed channels may be constant
    found = [
        torch.autograd.grad(asked, leaves, some, retain_graph=True, is_grads_batched=True)
        for some in torch.eye(len(out), dtype=out.dtype).split(32)
        if len(some)
    ]
    return [torch.cat([leaf[:0] != 0, *(grads[i][:, 0] != 0 for grads in found)]) for i, leaf in enumerate(leaves)]


def _halves(reached: Tensor, overlap: bool) -> tuple[Tensor, Tensor]:
    """Tokens read as part of a block, and as part of the block before, by the channels that are read. [R, S, e·c]."""
    if not overlap:
        return reached.any(dim=-1), torch.zeros_like(reached[..., 0])
    before, own = reached.chunk(2, dim=-1)
    return own.any(dim=-1), before.any(dim=-1)


def _add(
    figure: go.Figure, mask: Tensor, name: str, colour: str, row_name: str, panel: tuple[int, int], *, show: bool,
    width: float, step: int = 1,
) -> None:  # fmt: skip
    rows, firsts, lengths = (each.astype(np.int16) for each in spans(mask[::step]))
    figure.add_bar(
        y=rows * step + step // 2, customdata=rows * step, x=lengths, base=firsts, orientation="h", width=width,
        name=name, legendgroup=name, showlegend=show,
        marker={"color": colour, "line": {"width": 0}}, row=panel[0], col=panel[1],
        hovertemplate=row_name + " %{customdata}: %{x} tokens from %{base}<extra>" + name + "</extra>",
    )  # fmt: skip


def _document_bounds(figure: go.Figure, lengths: Sequence[int], panel: tuple[int, int]) -> None:
    for bound in np.cumsum(lengths)[:-1]:
        line = {"color": "#222222", "width": 1, "dash": "dot"}
        figure.add_vline(x=int(bound), line=line, row=panel[0], col=panel[1])
