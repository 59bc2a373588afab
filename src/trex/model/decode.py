"""One forward pass over prompts, then one token of each row at a time, from caches.

Both give the logits that a forward pass over the whole text gives at each row's last token. The MTP block does not run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from trex.kernels import ops
from trex.model.attention import Attention
from trex.model.block import Block
from trex.model.cache import Cache, Compressed, LayerCache, slots
from trex.model.compressor import Compressor
from trex.model.config import WINDOW, ConfigError
from trex.model.documents import Blocks, Documents
from trex.model.rotary import Turns, turns
from trex.model.transformer import Transformer


@torch.no_grad()
def prefill(model: Transformer, tokens: Tensor, lengths: Tensor, limit: int) -> tuple[Tensor, Cache]:
    """Read prompts. Returns the logits after the last token of each, [B, vocab], and the caches.

    tokens: [B, S] ids, padded on the right with any id. lengths: [B] int64, from 1 to S. limit: the most tokens that a
    row may reach, S or more. Raises ConfigError for lengths or a limit outside of these.
    """
    b, s = tokens.shape
    if lengths.shape != (b,) or lengths.min() < 1 or lengths.max() > s:
        raise ConfigError(f"lengths {lengths.tolist()}; accepted: {b} of them, from 1 to {s}")
    if limit < s:
        raise ConfigError(f"limit {limit}; accepted: from {s}, the longest prompt")
    documents, turns_of = model.surroundings(tokens, None)
    layers = []

    def attend(attention: Attention, x: Tensor) -> Tensor:
        turn = turns_of[attention.ratio]
        layers.append(LayerCache.of_prompt(attention, x, lengths, documents, turn, limit))
        return attention(x, documents, turn, "frozen")[0]

    streams = _streams(model, tokens)
    for block in model.layers:
        assert isinstance(block, Block)
        streams = _through(block, streams, tokens, documents, attend)
    last = streams[torch.arange(b, device=tokens.device), lengths - 1].unsqueeze(1)
    return model.head(model.collapse(last)).squeeze(1), Cache(layers, lengths.tolist(), limit)


@torch.no_grad()
def decode(model: Transformer, tokens: Tensor, cache: Cache) -> Tensor:
    """Add one token to each row of the cache, in place. tokens: [B] ids. Returns the logits after it, [B, vocab].

    Raises ConfigError where a row is at the cache's limit.
    """
    if max(cache.lengths) >= cache.limit:
        raise ConfigError(
            f"a row of {max(cache.lengths)} tokens; accepted: fewer than {cache.limit}, the cache's limit"
        )
    tokens = tokens.unsqueeze(1)
    step, streams = Step.of(model, tokens, cache), _streams(model, tokens)
    for block, layer in zip(model.layers, cache.layers, strict=True):
        assert isinstance(block, Block)
        streams = _through(block, streams, tokens, step.documents, partial(_attend, layer=layer, step=step))
    cache.lengths[:] = [length + 1 for length in cache.lengths]
    return model.head(model.collapse(streams)).squeeze(1)


@dataclass(frozen=True)
class Step:
    """What all layers need to know of the tokens that one decoding step adds, and of the blocks that these are in."""

    row: Tensor  # [B] int64: 0, 1, …
    position: Tensor  # [B] int64
    documents: Documents  # [B, 1]; of the blocks, the one that the token is in
    filled: Tensor  # [B, 1, window] bool: slots of the window's ring that hold a token
    turns: Mapping[int, Turns]  # by ratio, as what follows
    complete: Mapping[int, Tensor | None]  # [R] int64: the rows of which the token ends a block; None for none
    visible: Mapping[int, Tensor]  # [B, 1, most] bool: entries that the token sees

    @classmethod
    def of(cls, model: Transformer, tokens: Tensor, cache: Cache) -> "Step":
        """The step that adds tokens [B, 1] to the rows of the cache."""
        config, device, longest = model.config, tokens.device, max(cache.lengths) + 1
        position = torch.tensor(cache.lengths, device=device).unsqueeze(1)
        zero, blocks, complete, visible = torch.zeros_like(position), {}, {}, {}
        for m in set(config.compress_ratios) - {WINDOW}:
            first, count, most = position // m * m, (position + 1) // m, longest // m
            blocks[m] = Blocks(m, first, first, first > 0, zero, count, most, aligned=False)
            rows = [row for row, length in enumerate(cache.lengths) if (length + 1) % m == 0]
            complete[m] = torch.tensor(rows, device=device) if rows else None
            visible[m] = (torch.arange(most, device=device) < count).unsqueeze(1)
        documents = replace(Documents.single(tokens, ()), position=position, blocks=blocks)
        dtype = torch.promote_types(model.embed.weight.dtype, torch.float32)
        turn = {ratio: turns(config, documents, ratio, dtype) for ratio in {*blocks, WINDOW}}
        row = torch.arange(len(tokens), device=device)
        filled = (torch.arange(config.window, device=device) <= position).unsqueeze(1)
        return cls(row, position.squeeze(1), documents, filled, turn, complete, visible)


def _streams(model: Transformer, tokens: Tensor) -> Tensor:
    return model.embed(tokens).unsqueeze(2).expand(-1, -1, model.config.hc_mult, -1)


def _through(
    block: Block, streams: Tensor, tokens: Tensor, documents: Documents, attend: Callable[[Attention, Tensor], Tensor]
) -> Tensor:
    """`Block.forward`, with `attend` in the place of its attention's forward pass."""
    x, post, mix = block.read_attention(streams)
    streams = ops.write_streams(attend(block.attn, x), streams, post, mix)
    x, post, mix = block.read_ffn(streams)
    return ops.write_streams(block.ffn(x, tokens, documents)[0], streams, post, mix)


def _attend(attention: Attention, x: Tensor, layer: LayerCache, step: Step) -> Tensor:
    """`Attention.forward` of one token per row, [B, 1, d], to the cache, which it joins."""
    turn, keys, seen = step.turns[attention.ratio], layer.window, step.filled
    qr = attention.q_norm(attention.wq_a(x))
    q = attention.queries(qr, turn.cos, turn.sin)
    keys[step.row, step.position % attention.window] = attention.keys(x, turn.cos, turn.sin).squeeze(1)
    if attention.compressor is not None and layer.compressed is not None:
        entries, visible = _add(attention.compressor, x, layer.compressed, step), step.visible[attention.ratio]
        if attention.indexer is not None and layer.index is not None:
            index_keys = _add(attention.indexer.compressor, x, layer.index, step)
            if index_keys.shape[1] > attention.indexer.top_k:
                index_q, w = attention.indexer.queries(x, qr, turn.cos, turn.sin)
                scores = ops.index_scores(index_q, index_keys, w).masked_fill(~visible, -torch.inf)
                chosen = ops.top_entries(scores, attention.indexer.top_k)
                entries = entries[step.row.unsqueeze(1), chosen.squeeze(1).clamp_min(0)]
                visible = chosen >= 0
        keys, seen = torch.cat((keys, entries), dim=1), torch.cat((seen, visible), dim=-1)
    out, _ = ops.attend(q, keys, seen, attention.attn_sink)
    return attention.output(out, turn.cos, turn.sin)


def _add(compressor: Compressor, x: Tensor, state: Compressed, step: Step) -> Tensor:
    """Give a token to a compressor, and the block that it ends, if it does, its entry. Returns entries [B, most, c]."""
    size, m = slots(compressor), compressor.ratio
    blocks, turn, rows, slot = step.documents.blocks[m], step.turns[m], step.complete[m], step.position % size
    state.values[step.row, slot] = compressor.wkv(x).squeeze(1)
    state.gates[step.row, slot] = compressor.wgate(x).squeeze(1)
    if rows is not None:
        own = rows.unsqueeze(1), (slot[rows].unsqueeze(1) + 1 + torch.arange(size, device=x.device)) % size
        values, gates = (inputs[own].unflatten(1, (-1, m)) for inputs in (state.values, state.gates))  # oldest first
        follows = blocks.follows[rows].expand(-1, size // m)  # of the block before, only the inputs are wanted
        entry = ops.compress(values, gates, compressor.ape, follows, compressor.overlap)[:, -1:]
        assert turn.block_cos is not None and turn.block_sin is not None
        entry = compressor.finish(entry, turn.block_cos[rows], turn.block_sin[rows])
        state.entries[rows, step.position[rows] // m] = entry.squeeze(1).to(state.entries.dtype)
    return state.entries[:, : blocks.most]
