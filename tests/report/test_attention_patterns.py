"""What gradients find is what the rules say, follows a model that is changed, and is what the figures show."""

import pytest
import torch

from trex.labels import ResultError
from trex.model.config import ModelConfig
from trex.model.transformer import Transformer
from trex.report import attention_patterns as patterns

CSA, HCA, WINDOW = 1, 2, 0


def tiny(**over: object) -> Transformer:
    return Transformer(ModelConfig.tiny(window=3, index_topk=2, **over)).double()


def packed(lengths: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(512, (1, sum(lengths)), generator=torch.Generator().manual_seed(1))
    return tokens, torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))[None]


def places(mask: torch.Tensor) -> list[list[int]]:
    return [row.nonzero().flatten().tolist() for row in mask]


def test_spans():
    mask = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 1]], dtype=torch.bool)
    assert [each.tolist() for each in patterns.spans(mask)] == [[0, 0, 2], [0, 3, 2], [2, 1, 2]]
    assert [len(each) for each in patterns.spans(torch.zeros(0, 5, dtype=torch.bool))] == [0, 0, 0]


def test_sources_of_entries():
    """Documents of 3, 9 and 5 tokens: entries of tokens 3-6, 7-10 and 12-15; the second overlaps the first."""
    found = patterns.sources(tiny(), CSA, *packed((3, 9, 5)))
    assert places(found.own) == [[3, 4, 5, 6], [7, 8, 9, 10], [12, 13, 14, 15]]
    assert places(found.before) == [[], [3, 4, 5, 6], []]
    heavy = patterns.sources(tiny(), HCA, *packed((2, 257)))
    assert places(heavy.own) == [[*range(2, 130)], [*range(130, 258)]] and not heavy.before.any()
    alone = patterns.sources(tiny(), CSA, packed((9,))[0])
    assert places(alone.own | alone.before) == [[0, 1, 2, 3], [*range(8)]]


def test_rows_without_entries_have_no_sources():
    found = patterns.sources(tiny(), CSA, *packed((3, 2)))
    assert found.own.shape == found.before.shape == (0, 5)
    with pytest.raises(ResultError, match="layer 0 has ratio 0; layers of ratio 4 and 128 compress"):
        patterns.sources(tiny(), WINDOW, *packed((9,)))


def test_sources_follow_the_model():
    model = tiny()
    compressor = model.layers[CSA].attn.compressor
    with torch.no_grad():
        compressor.ape[2, compressor.norm.weight.numel() :] = -1e4  # the third token of a block weighs nothing in it
    found = patterns.sources(model, CSA, *packed((8,)))
    assert places(found.own) == [[0, 1, 3], [4, 5, 7]] and places(found.before) == [[], [0, 1, 2, 3]]


def test_seen_in_a_window_layer():
    found = patterns.seen(tiny(), WINDOW, *packed((2, 5)))
    assert places(found.window) == [[0], [0, 1], [2], [2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]
    assert found.entries.shape == (7, 7) and not found.entries.any()


def test_seen_follows_the_model():
    model = tiny()
    model.layers[WINDOW].attn.window = 2
    assert places(patterns.seen(model, WINDOW, *packed((4,))).window) == [[0], [0, 1], [1, 2], [2, 3]]


def test_seen_in_a_sparse_layer():
    """Two entries of those that have ended; in the warm-up all."""
    model, row = tiny(), packed((2, 19))
    found, every = (patterns.seen(model, CSA, *row, indexer=mode) for mode in ("frozen", "warm-up"))
    for t, (chosen, choice) in enumerate(zip(places(found.entries), places(every.entries), strict=True)):
        ended = max(0, (t - 1) // 4) if t >= 2 else 0
        assert choice == [*range(2, 2 + 4 * ended)]
        blocks = {place - (place - 2) % 4 for place in chosen}
        assert chosen == sorted(block + i for block in blocks for i in range(4))
        assert set(chosen) <= set(choice) and len(blocks) == min(2, ended)
    assert torch.equal(found.window, every.window)
    last = {(place - 2) // 4 for place in places(found.entries)[-1]}
    assert last == set(selected_by_hand(model, row))


def selected_by_hand(model: Transformer, row: tuple[torch.Tensor, torch.Tensor]) -> list[int]:
    """The two entries of highest score for the last query, in Python's floats."""
    attention = model.layers[CSA].attn
    documents, turns = model.surroundings(*row)
    x = patterns.layer_input(model, CSA, *row)
    index = attention.indexer(x, attention.q_norm(attention.wq_a(x)), documents.blocks[4], turns[4])
    q, w = index.q[0, -1].tolist(), index.w[0, -1].tolist()
    scores = []
    for key in index.k[0].tolist():
        products = (sum(a * b for a, b in zip(head, key, strict=True)) for head in q)
        scores.append(sum(weight * max(p, 0.0) for weight, p in zip(w, products, strict=True)))
    return sorted(range(len(scores)), key=lambda j: (-scores[j], j))[:2]


def test_nothing_is_left_behind():
    model = tiny()
    patterns.seen(model, CSA, *packed((9,)))
    patterns.sources(model, CSA, *packed((9,)))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def drawn(figure, axis: str) -> dict[str, set[tuple[int, int]]]:
    """Row and column of everything that the bars of a panel cover, by name."""
    found: dict[str, set[tuple[int, int]]] = {}
    for trace in figure.data:
        if trace.xaxis == axis:
            spans = zip(trace.customdata, trace.base, trace.x, strict=True)
            found[trace.name] = {
                (int(r), c) for r, first, length in spans for c in range(int(first), int(first + length))
            }
    return found


def cells(mask: torch.Tensor) -> set[tuple[int, int]]:
    return {(int(row), int(column)) for row, column in mask.nonzero()}


def test_the_figure_of_blocks_shows_the_masks():
    model = tiny()
    panels = {
        f"ratio {layer}": (patterns.sources(model, layer, *packed(n)), n) for layer, n in ((CSA, (3, 9)), (HCA, (129,)))
    }
    figure = patterns.blocks_figure(panels)
    (sparse, _), (heavy, _) = panels.values()
    assert drawn(figure, "x") == {"its own block": cells(sparse.own), "the block before": cells(sparse.before)}
    assert drawn(figure, "x2")["its own block"] == cells(heavy.own)
    assert [shape.x0 for shape in figure.layout.shapes] == [3]  # where the second document begins


@pytest.mark.parametrize("step", [1, 4])
def test_the_figure_of_patterns_shows_every_nth_query(step):
    model, n = tiny(), (2, 19)
    sparse = patterns.seen(model, CSA, *packed(n))
    choice = patterns.seen(model, CSA, *packed(n), indexer="warm-up").entries
    window = patterns.seen(model, WINDOW, *packed(n))
    figure = patterns.patterns_figure({"window": (window, None), "CSA": (sparse, choice)}, n, step)
    kept = torch.arange(21) % step == 0

    def shown(mask: torch.Tensor) -> set[tuple[int, int]]:
        return cells(mask & kept[:, None])

    assert drawn(figure, "x") == {"in the window": shown(window.window)}
    assert drawn(figure, "x2") == {
        "in an entry that is not selected": shown(choice),
        "through a compressed entry": shown(sparse.entries),
        "in the window": shown(sparse.window),
    }
    assert {trace.width for trace in figure.data} == {step}
