"""Which compressed entries a query of CSA attends to: the best, and of equals the earlier, however long the sequence.

Index scores tie exactly where all ReLUs are off. A choice among them that hung on how many entries there are would let
the future reach the past.
"""

import math
from dataclasses import replace

import pytest
import torch
from tests.model.comparing import draw, lively, random_tokens
from torch import Tensor

from trex.kernels import ops
from trex.kernels.indexer import reference
from trex.model.config import ModelConfig
from trex.model.documents import Documents
from trex.model.transformer import Transformer

NONE = -math.inf
CSA = ModelConfig.tiny(num_layers=2, compress_ratios=(4, 4), hash_layers=0, index_topk=4, swiglu_limit=0.5)


def best(scores: list[float], k: int) -> list[int]:
    """By sorting: score down, then place up; what may not be chosen left out; -1 for what is missing."""
    allowed = [j for j, score in enumerate(scores) if score != NONE]
    chosen = sorted(sorted(allowed, key=lambda j: (-scores[j], j))[:k])
    return chosen + [-1] * (min(k, len(scores)) - len(chosen))


def coarse(*shape: int, seed: int, least: int = -2, most: int = 2) -> Tensor:
    """Small integers, so that products are exact and many are equal."""
    return torch.randint(least, most + 1, shape, generator=draw(seed)).double()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("entries", [0, 1, 2, 7, 40])
def test_top_entries_is_a_stable_sort(entries: int, dtype: torch.dtype) -> None:
    scores = coarse(6, 50, entries, seed=entries)
    hidden = torch.rand(scores.shape, generator=draw(1)) < torch.linspace(0, 1, 6).view(6, 1, 1)  # none to all
    scores = torch.where(hidden, NONE, scores.where(scores != 0, coarse(*scores.shape, seed=2) * 0.0))  # 0.0 and -0.0
    scores[0, :10] = torch.randn(10, entries, generator=draw(3), dtype=torch.float64)  # and some without ties
    scores = scores.to(dtype)
    for k in {1, 2, 5, max(1, entries - 1), max(1, entries), entries + 3}:
        found = ops.top_entries(scores, k)
        assert found.dtype == torch.int64 and found.shape == (6, 50, min(k, entries))
        assert found.tolist() == [[best(row, k) for row in block] for block in scores.tolist()]


@pytest.mark.parametrize("top_k", [1, 3, 8, 100])
def test_select_entries_is_the_same_in_any_chunks(top_k: int) -> None:
    """Every key stands several times, and each query sees a run of entries of its own."""
    queries, entries, heads, size = 30, 24, 3, 4
    q, w = coarse(2, queries, heads, size, seed=1), coarse(2, queries, heads, seed=2)
    k = coarse(2, 5, size, seed=3)[:, torch.randint(5, (entries,), generator=draw(4))]
    offset = torch.randint(entries, (2, queries), generator=draw(5))
    visible = (torch.rand(2, queries, generator=draw(6)) * (entries - offset + 1)).long()
    expected = []
    for b in range(2):
        for t in range(queries):
            begin, end = int(offset[b, t]), int(offset[b, t] + visible[b, t])
            scores = [
                sum(float(w[b, t, h]) * max(0.0, float(q[b, t, h] @ k[b, j])) for h in range(heads))
                if begin <= j < end else NONE
                for j in range(entries)
            ]  # fmt: skip
            expected.append(best(scores, top_k))
    found = ops.select_entries(q, k, w, offset, visible, top_k)
    assert found.flatten(0, 1).tolist() == expected
    assert not found.requires_grad
    for chunk in (1, 7, 29, 1000):
        assert torch.equal(reference.select_entries(q, k, w, offset, visible, top_k, chunk), found)
    shared = reference.select_entries(q, k, w, offset[:1], visible[:1], top_k, 7)  # rows alike
    assert torch.equal(shared[0], found[0])


@torch.no_grad()
def indifferent(model: Transformer) -> Transformer:
    """All scores are 0."""
    for layer in model.layers:
        layer.attn.indexer.weights_proj.weight.zero_()
    return model


@torch.no_grad()
def test_an_indifferent_indexer_selects_the_first_entries() -> None:
    """Of each document, its first four, as soon as they are there."""
    model = indifferent(lively(CSA, 1))
    indexer, lengths = model.layers[0].attn.indexer, [3, 41, 30, 4]
    doc_ids = torch.arange(4).repeat_interleave(torch.tensor(lengths)).unsqueeze(0)
    documents, turns = model.surroundings(doc_ids, doc_ids)
    blocks = documents.blocks[4]
    x, qr = (torch.randn(1, sum(lengths), n, generator=draw(0), dtype=torch.float64) for n in (64, 24))
    found = indexer.select(indexer(x, qr, blocks, turns[4]), blocks)
    expected, first = [], 0
    for length in lengths:
        for t in range(length):
            seen = min((t + 1) // 4, 4)
            expected.append([first + j if j < seen else -1 for j in range(4)])
        first += length // 4
    assert found is not None and found[0].tolist() == expected


@pytest.mark.parametrize("ties", ["all", "some"])
@torch.no_grad()
def test_a_prefix_does_not_see_the_length(ties: str) -> None:
    """One index head: about half of the scores are 0, where its ReLU is off, and the rest are above or all below."""
    model = indifferent(lively(CSA, 1)) if ties == "all" else lively(replace(CSA, index_heads=1), 1)
    tokens = random_tokens(CSA, 2, 128, 3)
    whole = model(tokens)
    assert whole.logits is not None and whole.mtp_logits is not None
    for length in (20, 23, 24, 60, 100, 127):
        part = model(tokens[:, :length])
        assert part.logits is not None and part.mtp_logits is not None
        assert (part.logits - whole.logits[:, :length]).abs().max() <= 1e-12
        assert (part.mtp_logits[:, :-1] - whole.mtp_logits[:, : length - 1]).abs().max() <= 1e-12


@torch.no_grad()
def test_the_model_attends_to_what_is_selected() -> None:
    """Tokens of later blocks than the fourth reach, past the window, nobody whose indexer is indifferent."""
    config = ModelConfig.tiny(num_layers=1, compress_ratios=(4,), hash_layers=0, index_topk=4, window=1, mtp_layers=0)
    for model, reach in ((indifferent(lively(config, 1)), False), (lively(config, 1), True)):
        tokens = random_tokens(config, 1, 80, 3)
        other = tokens.clone()
        other[0, 33] = (other[0, 33] + 1) % 512
        before, after = model(tokens).logits, model(other).logits
        assert before is not None and after is not None
        changed = (after - before).abs().amax(-1)[0] > 1e-9
        assert changed[33] and not changed[:33].any()
        assert bool(changed[34:].any()) is reach


def test_documents_take_no_block_twice() -> None:
    """What the selection counts on: a document's blocks are its own, in order, all of them."""
    lengths = [9, 3, 128, 5, 4]
    doc_ids = torch.arange(5).repeat_interleave(torch.tensor(lengths)).unsqueeze(0)
    blocks = Documents.packed(doc_ids, (4,)).blocks[4]
    starts = [sum(lengths[:i]) for i in range(5)]
    expected = [start + 4 * j for start, length in zip(starts, lengths, strict=True) for j in range(length // 4)]
    assert blocks.first[0].tolist() == expected and len(blocks) == len(expected)
    assert blocks.gather(torch.arange(149).view(1, 149, 1)).flatten().tolist() == [
        place + i for place in expected for i in range(4)
    ]
